package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// fieldValue returns the value of a field.
func (b *tab) fieldValue(form, field string) string {
	b.t.Helper()
	selector := fmt.Sprintf(`form[data-form=%q] [name=%q]`, form, field)
	b.until(`document.querySelector(%q)`, selector)
	return evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).value`, selector))
}

// changeOrdinaryVoucher changes the demo's voucher that is not a flash sale.
func changeOrdinaryVoucher(t *testing.T, c *consoleTest) {
	var normal string
	for _, v := range c.Items(t, rig.Get("/vouchers?limit=100", "")) {
		if v["type"] == "normal" {
			normal = v["id"].(string)
		}
	}
	require.NotEmpty(t, normal, "the demo has a voucher without a sale")
	v := c.visit(c.URL, "en")
	v.enter("/console/sales/"+normal+"/edit", c.phone)
	v.send("change", "sub_title", "changed here")
	v.reads("main", "Saved.")
	require.Equal(t, "changed here", c.Must(t, rig.Get("/vouchers/"+normal, ""))["sub_title"])
	v.goTo("/console/sales?tab=all")
	v.reads(`[data-tab="all"]`, "(1 without a sale)")
}

// editsKept checks that unsaved input survives a save in progress, a change of language and a new session.
func editsKept(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Stock: 5})
	v := c.visit(c.URL, "en")
	v.before(`{
		const original = window.fetch;
		window.fetch = async (url, options) => {
			const answer = await original(url, options);
			if (options.method === "PATCH") await new Promise((go) => { window.release = go; });
			return answer;
		};
	}`)
	v.enter("/console/sales/"+sale+"/edit", c.phone)

	// A completed save resets only the fields that have not changed since.
	v.send("change", "title", "first")
	v.until(`window.release`)
	v.fill("change", "title", "second")
	v.fill("change", "rules", "half written")
	v.run(`release()`)
	v.reads("main", "Saved.")
	v.reads("h1", "first")
	require.Equal(t, "second", v.fieldValue("change", "title"))
	require.Equal(t, "half written", v.fieldValue("change", "rules"))

	// Input survives a change of language, and a logout and login in another tab.
	v.fill("stock", "delta", "3")
	v.click(`[data-do="language"]`)
	v.reads("form[data-form=change] button[type=submit]", "保存")
	require.Equal(t, "second", v.fieldValue("change", "title"))
	require.Equal(t, "3", v.fieldValue("stock", "delta"))
	v.click(`[data-do="language"]`)
	v.reads("form[data-form=change] button[type=submit]", "Save")
	other := v.newTab()
	other.goTo("/")
	other.click(`[data-do="logout"]`)
	v.until(`document.querySelector("[data-gate]")`)
	other.click(`[data-do="login"]`)
	other.login(c.phone)
	v.until(`!document.querySelector("[data-gate]")`)
	require.Equal(t, "second", v.fieldValue("change", "title"))
	v.run(`delete window.release`)
	v.submit("change")
	v.until(`window.release`)
	v.run(`release()`)
	v.reads("h1", "second")
	changed := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	require.Equal(t, "second", changed["title"])
	require.Equal(t, "half written", changed["rules"])

	// Leaving the page discards the input.
	v.fill("change", "title", "third")
	v.system("/console/audit")
	v.reads("h1", "Audit log")
	v.click(fmt.Sprintf(`tbody a[href="/console/sales/%s"]`, sale))
	v.click(editLink(sale))
	require.Equal(t, "second", v.fieldValue("change", "title"))
}

// staleSnapshotIgnored checks that a message with the voucher from before a change does not revert the page.
func staleSnapshotIgnored(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Stock: 5})
	v := c.visit(c.URL, "en")
	v.before(`{
		const parse = JSON.parse;
		window.updates = 0;
		JSON.parse = (text) => {
			const value = parse(text);
			if (value?.voucher && value.seconds) {
				window.updates++;
				window.old ??= value.voucher;
				if (window.late) value.voucher = window.old;
			}
			return value;
		};
	}`)
	v.before(`{
		const original = window.fetch;
		window.fetch = async (url, options) => (url.includes("/stats?") ? new Response("{}", { status: 503 }) : original(url, options));
	}`)
	v.enter("/console/sales/"+sale, c.phone)
	v.until(`window.old`)
	v.run(`window.late = true`)
	v.click(`[data-do="unpublish"]`)
	v.reads(dialog, "It can no longer be bought") // the orders cannot be counted now
	v.confirm()
	v.reads("main .head .chip", "Off sale")
	updates := evaluate[int](v.tab, `window.updates`)
	v.until(`window.updates > %d`, updates+2)
	require.Equal(t, "Off sale", v.text("main .head .chip"))
	v.run(`window.late = false`)
	c.Change(t, sale, map[string]any{"title": "later"})
	v.reads("h1", "later")
}

// unconfirmedStockChange loses the answer to a stock change. The page reports that the change may have been applied,
// even after a reload, and a retry does not apply it twice. A different change needs a confirmation.
func unconfirmedStockChange(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Stock: 10})
	f := startFront(t, c.URL)
	f.Watch("/api/v1/admin/vouchers/")
	v := c.visit(f.URL, "en")
	v.enter("/console/sales/"+sale+"/edit", c.phone)
	v.fill("stock", "delta", "5")
	v.fill("stock", "reason", "lost answers")
	f.RespondWith("half")
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "The request may have taken effect.")
	first := f.KeysSeen()

	// With another reason the change could be applied twice, so the page asks for confirmation.
	v.send("stock", "reason", "lost answer")
	v.reads(dialog, "5, lost answers")
	v.dismiss()
	require.Equal(t, first, f.KeysSeen())

	// A reload keeps the unconfirmed change.
	v.do(chromedp.Reload())
	v.reads("[data-open]", "was not confirmed and may have been applied")
	require.Equal(t, "5", v.fieldValue("stock", "delta"))
	require.Equal(t, "lost answers", v.fieldValue("stock", "reason"))
	f.RespondWith("rate_limited") // the outcome of the first request remains unknown
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "rate_limited")
	require.Equal(t, first, f.KeysSeen())
	v.until(`!document.querySelector("form[data-form=stock] [data-busy]")`)
	v.do(chromedp.Evaluate[chromedp.Void](`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector("form[data-form=stock] button"))`))
	v.reads("form[data-form=stock]", "Stock updated: 15 left")
	require.Len(t, f.KeysSeen(), 2, "five clicks are one request")
	require.Regexp(t, `^[0-9a-f]{32}$`, first[0])
	require.Equal(t, first[0], f.KeysSeen()[1], "a retry reuses the key")
	require.False(t, evaluate[bool](v.tab, `document.querySelector("[data-open]").checkVisibility()`))

	// A confirmed different change is applied in addition.
	v.fill("stock", "delta", "1")
	v.fill("stock", "reason", "one")
	f.RespondWith("half")
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "network")
	v.send("stock", "delta", "2")
	v.confirm()
	v.reads("form[data-form=stock]", "Stock updated: 18 left")
	keys := f.KeysSeen()
	require.NotEqual(t, keys[0], keys[1], "a different change has a new key")
}

// adminRevoked checks that a user without the admin role gets this reason, and not that the server is not a demo.
func adminRevoked(t *testing.T, c *consoleTest) {
	v := c.visit(c.URL, "en")
	v.before(`{
		const original = window.fetch;
		window.fetch = async (url, options) => (window.adminRevoked && url.endsWith("/admin/rush")
			? new Response(JSON.stringify({ code: "forbidden", title: "Not allowed for this user", status: 403 }), { status: 403 }) : original(url, options));
	}`)
	v.enter("/console/rush", c.phone)
	v.until(`document.querySelector("form[data-form=rush]")`)
	v.run(`window.adminRevoked = true`)
	v.reads("[data-gate]", "Your role does not include this page")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form, [data-nodemo]").length`))
}

// summerTime: beside a time stands its offset from UTC. A time that the clocks skip is refused, and one that they repeat is the
// first of both.
func summerTime(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Stock: 5, EndAt: time.Date(2098, 1, 1, 0, 0, 0, 0, time.UTC)})
	v := c.visit(c.URL, "en")
	_, err := chromedp.Call(v.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
	require.NoError(t, err)
	v.enter("/console/sales/"+sale+"/edit", c.phone)
	begin := `form[data-form="change"] [name="begin_at"]`
	v.choose(begin, "2027-07-01T12:00")
	v.reads(`form[data-form="change"] [data-field="begin_at"]`, "UTC+02:00")
	v.choose(begin, "2027-12-01T12:00")
	v.reads(`form[data-form="change"] [data-field="begin_at"]`, "UTC+01:00")
	v.choose(begin, "2027-03-28T02:30")
	v.submit("change")
	v.reads(fieldError("change", "begin_at"), "Clocks skip this time")
	v.choose(begin, "2027-10-31T02:30")
	v.submit("change")
	rig.Eventually(t, "the change", func() bool {
		return c.Must(t, rig.Get("/vouchers/"+sale, ""))["begin_at"] == "2027-10-31T00:30:00Z"
	})
}
