package browser

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// salePage opens a sale by its link, finds it in the list, and requires a preview in the page that the server sends.
func salePage(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	sale := p.Publish(t, rig.Offer{
		Title:      "Breakfast in the harbour",
		Rules:      "Not on Sundays.",
		Stock:      10,
		PayTimeout: 90,
		ValidUntil: time.Date(2099, 3, 1, 0, 0, 0, 0, time.UTC),
	})
	p.Publish(t, rig.Offer{Title: "Something else", Stock: 10})
	p.Must(t, rig.Post("/admin/vouchers/"+sale+"/stock", p.Token, map[string]any{"delta": 5, "reason": "more"}))

	page := rig.Fetch(t, p.URL+"/sales/"+sale).Text
	shop := p.Must(t, rig.Get("/shops/1", ""))
	assert.Contains(t, page, `<meta property="og:title" content="Breakfast in the harbour · `+shop["name"].(string)+`">`)
	assert.Contains(t, page, `<meta property="og:url" content="`+p.URL+"/sales/"+sale+`">`)

	v := visit(p.URL, "en")
	v.goTo("/sales/" + sale)
	v.until(canBuy(sale))
	v.reads("h1", "Breakfast in the harbour")
	v.until(`document.title === "Breakfast in the harbour · Seckill"`)
	v.reads(card(sale), "0% claimed", "15 left")
	for _, text := range []string{"Not on Sundays.", "Limit per customer", "Time to pay", "1 min 30 s", "What happens next", "Valid until", "Mar 1, 2099"} {
		v.reads(".details", text)
	}
	address := shop["address"].(string) + ", " + shop["area"].(string)
	onMap := fmt.Sprintf(`document.querySelector("a.map[target=_blank][rel=noreferrer]")?.href === "https://www.openstreetmap.org/search?query=" + encodeURIComponent(%q)`, address)
	v.until(onMap)
	v.do(chromedp.Evaluate[chromedp.Void](`void (navigator.share = undefined, navigator.clipboard.writeText = async (text) => { window.copied = text; })`))
	v.click(`[data-do="share"]`)
	v.until(`window.copied === location.origin + "/sales/%s"`, sale)
	v.buy(sale, rig.NewPhone())
	v.click(linkOf(sale))
	v.until(onMap)

	v.click(`#nav a[href="/"]`)
	v.until(`document.querySelectorAll("li.sale").length > 1`)
	v.do(chromedp.SendKeys(chromedp.CSS(".search input"), "HARBOUR breakfast"))
	v.until(`[...document.querySelectorAll("li.sale")].filter((e) => e.checkVisibility()).length === 1`)
	require.Equal(t, "?q=HARBOUR+breakfast", evaluate[string](v.tab, `location.search`))
	v.click(card(sale) + " h2 a")
	v.reads("h1", "Breakfast in the harbour")

	// The rules of searches are those of domain.Finder.
	coffee := p.Publish(t, rig.Offer{Title: "Café Straße 🍣", Stock: 1})
	v.goTo("/?q=" + url.QueryEscape("🍣 STRASSE cafe ｃafé"))
	v.until(`[...document.querySelectorAll("li.sale")].filter((e) => e.checkVisibility()).length === 1 && document.querySelector(%q).checkVisibility()`, card(coffee))
	v.goTo("/?q=" + url.QueryEscape("🍜"))
	v.until(`document.querySelector(%q)`, card(coffee))
	require.Zero(t, evaluate[int](v.tab, `[...document.querySelectorAll("li.sale")].filter((e) => e.checkVisibility()).length`))

	for path, heading := range map[string]string{"/sales/999999": "Page not found", "/nope": "Page not found", "/console/nope": "Page not found"} {
		v.do(chromedp.Navigate(p.URL + path))
		v.reads("h1", heading)
	}
	v.do(chromedp.Navigate(p.URL + "/sales/999999"))
	v.reads("main a.primary", "All sales")
	v.until(`!document.querySelector("main").dataset.bar`)
	v.click(`[data-do="language"]`)
	v.reads("h1", "页面不存在")
	require.Empty(t, evaluate[[]string](v.tab, `[...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((href) => href === "/docs")`))
	v.click(`a[href="/"]`)
	v.until(`document.querySelector("li.sale")`)
	v.expectProblems("404", "404", "404", "404")
}

// readyAtStart: a guest is asked to log in before the start, which the page finds by the server's clock and without a reload, and
// then buys with one press.
func readyAtStart(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	sale := p.Publish(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(time.Hour)})
	v := visit(p.URL, "en")
	v.before(`{ const real = Date.now; Date.now = () => real() + 3600_000; }`) // the device is an hour fast
	v.goTo("/sales/" + sale)
	v.run(`window.stayed = true`)
	v.reads(buyOf(sale), "Log in early")
	v.click(buyOf(sale))
	v.login(rig.NewPhone())
	v.reads(buyOf(sale), "Starts ")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))

	begin := time.Now().Add(5 * time.Second)
	p.Change(t, sale, map[string]any{"begin_at": begin})
	v.until(`/^00:00:0\d$/.test(document.querySelector(%q).innerText) || %s`, card(sale)+" .time", canBuy(sale))
	v.until(canBuy(sale))
	require.False(t, time.Now().Before(begin), "enabled before the beginning")

	v.click(buyOf(sale))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	require.False(t, evaluate[bool](v.tab, `Boolean(document.querySelector("dialog"))`))
	require.True(t, evaluate[bool](v.tab, `stayed`))
	rig.RequireStock(t, p.Client, sale, 4)
}

// expiredOrder: an order that was not paid in time says so, and leads back to the sale.
func expiredOrder(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	sale := p.Publish(t, rig.Offer{Stock: 1})
	v := visit(p.URL, "en")
	v.goTo("/")
	v.buy(sale, rig.NewPhone())
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	p.Stack.Expire(t, evaluate[string](v.tab, `document.querySelector("li.order").dataset.order`), time.Now())
	v.orderIs("cancelled")
	v.reads(anOrder, "Payment time ran out", "You were not charged")
	v.click(`li.order [data-do="again"]`)
	v.until(canBuy(sale))
	require.Equal(t, "/sales/"+sale, evaluate[string](v.tab, `location.pathname`))
	v.click(buyOf(sale))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
}

// limitAboveOne: the limit and what the customer holds are shown, and only the button that says so buys another unit.
func limitAboveOne(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	sale := p.Publish(t, rig.Offer{Stock: 5, LimitPerUser: 2})
	v := visit(p.URL, "en")
	v.goTo("/")
	v.reads(card(sale), "Limit per customer: 2")
	v.buy(sale, rig.NewPhone())
	v.reads(card(sale), "You have 1 of 2 allowed")
	v.do(chromedp.Reload())
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	v.reads(linkOf(sale), "Pay")
	v.reads(card(sale), "You have 1 of 2 allowed")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	rig.RequireStock(t, p.Client, sale, 4)
	another := fmt.Sprintf(`%s [data-do="another"]`, card(sale))
	v.click(another)
	v.reads(card(sale), "You have 2 of 2 allowed")
	v.until(`!document.querySelector(%q).checkVisibility()`, another)
	v.reads(resultOf(sale, "won"), "2 of your orders are unpaid. Pay within ")
	rig.RequireStock(t, p.Client, sale, 3)
	v.click(linkOf(sale))
	v.until(`location.pathname === "/orders" && document.querySelectorAll("li.order").length === 2`)
}
