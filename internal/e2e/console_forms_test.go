package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// written is what stands in a field of a form.
func (b *tab) written(form, field string) string {
	b.t.Helper()
	selector := fmt.Sprintf(`form[data-form=%q] [name=%q]`, form, field)
	b.until(`document.querySelector(%q)`, selector)
	return evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).value`, selector))
}

// changeNormal: a voucher without a sale, as the demo has one, is changed like any other.
func changeNormal(t *testing.T, c *consoleTest) {
	var normal string
	for _, item := range c.must(t, http.MethodGet, "/vouchers?limit=100", "", nil)["items"].([]any) {
		if v := item.(map[string]any); v["type"] == "normal" {
			normal = v["id"].(string)
		}
	}
	require.NotEmpty(t, normal, "the demo has one")
	v := c.visit(c.url, "en")
	v.enter("/console/sales/"+normal, c.phone)
	v.fill("change", "sub_title", "changed here")
	v.submit("change")
	v.reads("main", "Saved.")
	require.Equal(t, "changed here", c.must(t, http.MethodGet, "/vouchers/"+normal, "", nil)["sub_title"])
}

// stillWriting: what is being written stays, whatever happens around it.
func stillWriting(t *testing.T, c *consoleTest) {
	sale := c.publish(t, offer{Stock: 5})
	v := c.visit(c.url, "en")
	v.before(`{
		const ask = window.fetch;
		window.fetch = async (url, options) => {
			const answer = await ask(url, options);
			if (options.method === "PATCH") await new Promise((go) => { window.release = go; });
			return answer;
		};
	}`)
	v.enter("/console/sales/"+sale, c.phone)

	// While a change is under way: what was sent is settled, and nothing else.
	v.fill("change", "title", "first")
	v.submit("change")
	v.until(`window.release`)
	v.fill("change", "title", "second")
	v.fill("change", "rules", "half written")
	v.run(`release()`)
	v.reads("main", "Saved.")
	v.reads("h1", "first")
	require.Equal(t, "second", v.written("change", "title"))
	require.Equal(t, "half written", v.written("change", "rules"))

	// In another language, and after the session ended and began again in another tab.
	v.fill("stock", "delta", "3")
	v.click(`[data-do="language"]`)
	v.reads("form[data-form=change] button", "保存")
	require.Equal(t, "second", v.written("change", "title"))
	require.Equal(t, "3", v.written("stock", "delta"))
	v.click(`[data-do="language"]`)
	v.reads("form[data-form=change] button", "Save")
	other := v.another()
	other.goTo("/")
	other.click(`[data-do="logout"]`)
	v.until(`document.querySelector("[data-gate]")`)
	other.click(`[data-do="login"]`)
	other.login(c.phone)
	v.until(`!document.querySelector("[data-gate]")`)
	require.Equal(t, "second", v.written("change", "title"))
	v.run(`delete window.release`)
	v.submit("change")
	v.until(`window.release`)
	v.run(`release()`)
	v.reads("h1", "second")
	changed := c.must(t, http.MethodGet, "/vouchers/"+sale, "", nil)
	require.Equal(t, "second", changed["title"])
	require.Equal(t, "half written", changed["rules"])

	// Who goes elsewhere has given it up.
	v.fill("change", "title", "third")
	v.click(`#nav a[href="/console/audit"]`)
	v.reads("h1", "Audit log")
	v.click(fmt.Sprintf(`tbody a[href="/console/sales/%s"]`, sale))
	require.Equal(t, "second", v.written("change", "title"))
}

// oldNews: what the server saw before a change does not undo it on the page.
func oldNews(t *testing.T, c *consoleTest) {
	sale := c.publish(t, offer{Title: "before", Stock: 5})
	v := c.visit(c.url, "en")
	v.before(`{
		const parse = JSON.parse;
		window.beats = 0;
		JSON.parse = (text) => {
			const value = parse(text);
			if (value?.voucher && value.seconds) {
				window.beats++;
				window.old ??= value.voucher;
				if (window.late) value.voucher = window.old;
			}
			return value;
		};
	}`)
	v.enter("/console/sales/"+sale, c.phone)
	v.until(`window.old`)
	v.run(`window.late = true`)
	v.fill("change", "title", "after")
	v.submit("change")
	v.reads("main", "Saved.")
	beats := evaluate[int](v.tab, `window.beats`)
	v.until(`window.beats > %d`, beats+2)
	require.Equal(t, "after", v.text("h1"))
	require.Equal(t, "after", v.written("change", "title"))
	v.run(`window.late = false`)
	c.change(t, sale, map[string]any{"title": "later"})
	v.reads("h1", "later")
}

// stockUnknown: a change whose answer was lost is told as what it is, survives a reload, and is not booked twice; another
// one after it is not booked without a question.
func stockUnknown(t *testing.T, c *consoleTest) {
	sale := c.publish(t, offer{Stock: 10})
	f := c.before(t)
	f.watch("/api/v1/admin/vouchers/")
	v := c.visit(f.URL, "en")
	v.enter("/console/sales/"+sale, c.phone)
	v.fill("stock", "delta", "5")
	v.fill("stock", "reason", "lost answers")
	f.say("half")
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "The request may have taken effect.")
	first := f.seen()

	// The reason is corrected: that may be a second booking, so it is asked.
	v.fill("stock", "reason", "lost answer")
	v.submit("stock")
	v.reads(dialog, "5, lost answers")
	v.key("\x1b") // no
	v.until(`!document.querySelector("dialog")`)
	require.Equal(t, first, f.seen())

	// The page is loaded anew, and still knows.
	v.do(chromedp.Reload())
	v.reads("[data-open]", "was not confirmed and may have been applied")
	require.Equal(t, "5", v.written("stock", "delta"))
	require.Equal(t, "lost answers", v.written("stock", "reason"))
	f.say("rate_limited") // this tells nothing of the first try
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "rate_limited")
	require.Equal(t, first, f.seen())
	v.until(`!document.querySelector("form[data-form=stock] [data-busy]")`)
	v.submit("stock")
	v.reads("form[data-form=stock]", "Stock updated: 15 left")
	require.Equal(t, first[0], f.seen()[1])
	require.False(t, evaluate[bool](v.tab, `document.querySelector("[data-open]").checkVisibility()`))

	// A yes books the other one as well.
	v.fill("stock", "delta", "1")
	v.fill("stock", "reason", "one")
	f.say("half")
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "network")
	v.fill("stock", "delta", "2")
	v.submit("stock")
	v.agree()
	v.reads("form[data-form=stock]", "Stock updated: 18 left")
}

// demoted: whoever is an admin no more hears that, and not that the server is no demo.
func demoted(t *testing.T, c *consoleTest) {
	v := c.visit(c.url, "en")
	v.before(`{
		const ask = window.fetch;
		window.fetch = async (url, options) => (window.demoted && url.endsWith("/admin/rush")
			? new Response(JSON.stringify({ code: "forbidden", title: "Not allowed for this user", status: 403 }), { status: 403 }) : ask(url, options));
	}`)
	v.enter("/console/rush", c.phone)
	v.until(`document.querySelector("form[data-form=rush]")`)
	v.run(`window.demoted = true`)
	v.reads("[data-gate]", "This account is not an admin")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form, [data-nodemo]").length`))
}
