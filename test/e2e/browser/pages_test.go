package browser

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestPagesFromLoginToPaid buys, pays and redeems an order in a browser: on the embedded default, and in lane queue on
// real servers.
func TestPagesFromLoginToPaid(t *testing.T) {
	rig.Core("lock/embedded").Full("queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t).Shop(t)
		v := visit(t, p.URL, "en")
		until := time.Date(2099, 3, 1, 0, 0, 0, 0, time.UTC)
		sale := p.Publish(t, rig.Offer{Title: "Hot pot for two", Stock: 3, ValidUntil: until})
		phone := rig.NewPhone()

		v.goTo("/")
		v.until(canBuy(sale))
		v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void new MutationObserver(() => {
			if (document.querySelector(%q)) window.stockThen ??= document.querySelector(%q).innerText;
		}).observe(document.querySelector("main"), { attributes: true, childList: true, subtree: true })`, resultOf(sale, "won"), card(sale)+" .stock")))
		v.buy(sale, phone)
		v.reads(card(sale), "You got it!", "Pay within ", " to keep it.")
		require.Equal(t, "33% claimed", evaluate[string](v.tab, `window.stockThen`), "with the result")
		v.click(linkOf(sale))
		v.orderIs("pending_payment")
		v.reads(anOrder, "Pay within", fmt.Sprintf(", %d,", time.Now().Year()))
		v.asks("pay", "¥1", "no money moves")
		v.orderIs("pending_payment") // nothing is charged
		v.does("pay")
		v.orderIs("paid")
		v.reads(anOrder+" .pass", "Valid until Mar 1, 2099")

		// The QR code contains the code of the page, and the server accepts it.
		assert.Equal(t, v.text(anOrder+" code"), v.readQR(anOrder+" svg.qr"))
		id := evaluate[string](v.tab, `document.querySelector("li.order").dataset.order`)
		redeem := rig.Post("/admin/orders/"+id+"/redeem", p.Token, nil).Keyed("redeem " + id)
		p.Change(t, sale, map[string]any{"title": "Tea", "rules": "Mondays only", "status": "off"})
		a := p.Do(t, redeem)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		v.orderIs("redeemed") // without a reload
		v.do(chromedp.Reload())
		v.reads(anOrder+" h2", "Hot pot for two") // what was bought
		require.False(t, evaluate[bool](v.tab, `document.querySelector("li.order svg.qr")?.checkVisibility() ?? false`))
		s.Verify(t)
	})
}

// readQR decodes the QR code in a screenshot of an element.
func (b *tab) readQR(selector string) string {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
	shot := env.Must(chromedp.Run(b.ctx, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible)))(b.t)
	picture := env.Must(png.Decode(bytes.NewReader(shot)))(b.t)
	bitmap := env.Must(gozxing.NewBinaryBitmapFromImage(picture))(b.t)
	// The picture contains nothing else. Without this hint, gozxing cannot decode one code in a hundred.
	found := env.Must(qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true}))(b.t)
	return found.GetText()
}

// TestPages covers the pages apart from a plain purchase: the journeys of buyers on MariaDB and Redis, and what only the
// browser decides on the embedded default, with responses that are late, lost, or belong to another user. The tests of a group
// share one server unless they start another.
func TestPages(t *testing.T) {
	journeys := map[string]func(*testing.T, *scene){
		"two tabs": twoTabs, "back on sale": backOnSale, "queued": queued,
		"room journey": roomJourney, "sale page": salePage,
		"two orders": twoOrders, "demo accounts": demoAccounts,
	}
	pages := map[string]func(*testing.T, *scene){
		"connection cut": connectionCut, "languages": languages, "keyboard": keyboardOnly, "accessible": accessible,
		"purchase fails": purchaseFails, "logged out meanwhile": loggedOutMeanwhile, "renewals": renewals,
		"buy during renewal": buyDuringRenewal, "modules": modules, "list repeated": listRepeated,
		"repeated purchases": repeatedPurchases, "code before reload": codeBeforeReload,
		"order with pass": orderWithPass, "room in two tabs": roomInTwoTabs, "room refusals": roomRefusals,
		"until the start": untilTheStart, "storage blocked": storageBlocked,
	}
	rig.Full("embedded", "mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t).Shop(t)
		p.Stack = s
		tests := journeys
		if s.IsEmbedded() {
			tests = pages
			f := startFront(t, p.URL)
			f.Modules = true
			p.URL = f.URL
		}
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, &scene{t: t, Shop: p})
			})
		}
	})
}

// twoTabs: two tabs of one user share logins, orders and logouts, and buy only once.
func twoTabs(t *testing.T, p *scene) {
	first, second := p.Publish(t, rig.Offer{Stock: 5}), p.Publish(t, rig.Offer{Stock: 5})
	v := visit(t, p.URL, "en")
	one, two := v.tab, v.newTab()
	one.goTo("/")
	two.goTo("/")
	one.buy(first, rig.NewPhone())
	two.reads("#account", "Log out")
	two.bought(first)

	one.until(canBuy(second))
	two.until(canBuy(second))
	clicks := fmt.Sprintf(`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector(%q))`, buyOf(second))
	one.do(chromedp.Evaluate[chromedp.Void](clicks))
	two.do(chromedp.Evaluate[chromedp.Void](clicks))
	one.bought(second)
	two.bought(second)
	rig.RequireStock(t, p.Client, second, 4)

	// Both tabs reload twice at once. Each reload exchanges the refresh token of the shared cookie; both stay logged
	// in.
	for range 2 {
		one.do(chromedp.Evaluate[chromedp.Void](`location.reload()`))
		two.do(chromedp.Evaluate[chromedp.Void](`location.reload()`))
	}
	one.reads("#account", "Log out")
	two.reads("#account", "Log out")
	two.click(`[data-do="account"]`)
	two.click(`dialog[open] [data-do="everywhere"]`)
	two.until(`!document.querySelector("dialog") && document.querySelector('[data-do="login"]')`)
	one.until(`document.querySelector('[data-do="login"]')`)
	one.do(chromedp.Reload())
	one.until(`document.querySelector('[data-do="login"]')`)
	one.until(canBuy(second)) // as for a visitor without a session
	require.Empty(t, evaluate[string](one, `document.cookie`), "scripts cannot read the cookie")
	require.NotContains(t, evaluate[string](one, `JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`), "eyJ", "no token is in the storage")
}

// backOnSale: an open page shows a unit that another visitor has cancelled, and can buy it. After its refund it is on sale again, and
// so it is when its order was not paid in time, which says so and leads back to the sale.
func backOnSale(t *testing.T, p *scene) {
	sale := p.Publish(t, rig.Offer{Stock: 1})
	first, second := visit(t, p.URL, "en"), visit(t, p.URL, "en")
	second.goTo("/")
	second.until(canBuy(sale))
	first.goTo("/")
	first.buy(sale, rig.NewPhone())
	second.reads(buyOf(sale), "Sold out")
	second.goTo("/sales/" + sale)
	second.reads(resultOf(sale, "lost")+" strong", "Sold out")
	require.False(t, evaluate[bool](second.tab, canBuy(sale)))
	first.click(linkOf(sale))
	first.does("cancel", "Cancel this order?")
	first.orderIs("cancelled")

	second.buy(sale, rig.NewPhone())
	second.click(linkOf(sale))
	second.does("pay")
	second.orderIs("paid")
	second.does("refund")
	second.orderIs("refunded")
	second.click(`#nav a[href="/"]`)
	second.until(canBuy(sale))

	second.click(buyOf(sale))
	second.click(linkOf(sale))
	second.orderIs("pending_payment")
	p.Stack.Expire(t, evaluate[string](second.tab, `document.querySelector("li.order").dataset.order`), time.Now())
	second.orderIs("cancelled")
	second.reads(anOrder, "Payment time ran out", "A payment that arrives later is returned")
	second.click(`li.order [data-do="again"]`)
	second.until(canBuy(sale))
	require.Equal(t, "/sales/"+sale, evaluate[string](second.tab, `location.pathname`))
	second.buys(sale)
}

// connectionCut: pages report a lost connection, and an order that cannot be read, and recover without a reload.
func connectionCut(t *testing.T, p *scene) {
	f := startFront(t, p.URL)
	sale, phone := p.Publish(t, rig.Offer{Stock: 5}), rig.NewPhone()
	v := visit(t, f.URL, "en")
	v.goTo("/")
	v.buy(sale, phone)
	store := v.newTab()
	store.goTo("/")
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	two := v.newTab()
	two.before(`window.answer = (a, o) => a.startsWith("GET") && (a.includes("/orders?") ? never(o) : a.includes("/orders/") && !window.well && problem(500, "internal"))`)
	two.goTo(v.at())
	two.reads(".banner", "Something went wrong on our side.")
	two.run(`window.well = true`)
	two.orderIs("pending_payment")
	two.until(`!document.querySelector(".banner").checkVisibility()`)

	rig.Eventually(t, "the stream has begun", func() bool { return f.Streams.Load() > 0 })
	f.Cut()
	store.reads(".banner", "No connection")
	token := p.LoginToken(t, phone)
	id := evaluate[string](v.tab, `document.querySelector("li.order").dataset.order`)
	p.Must(t, rig.Pay(id, token))
	p.WaitFor(t, token, id, "paid")
	require.Equal(t, "pending_payment", evaluate[string](v.tab, `document.querySelector("li.order").dataset.status`))
	f.Restore()
	v.orderIs("paid")
	store.until(`!document.querySelector(".banner").checkVisibility()`)
	store.goTo("/orders/%FF")
	store.reads(".empty", "Order not found.")
}

// queued: in lane queue, the page shows that the order is queued, its position, and then its outcome. When the provider declines the
// payment, another attempt is allowed.
func queued(t *testing.T, shared *scene) {
	s, release := rig.HoldWorkers(t, shared.Stack.Fresh(t).In("queue").With("SECKILL_SANDBOX=fail"))
	p := s.Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Stock: 5})
	for _, token := range s.Tokens(t, 3) {
		p.Queue(t, token, sale)
	}
	v := visit(t, p.URL, "en")
	v.goTo("/")
	v.press(sale)
	v.login(rig.NewPhone())
	v.reads(card(sale), "In the queue", "Orders ahead of yours: about 3.")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	other := v.newTab()
	other.goTo("/orders")
	other.orderIs("queued")
	release()
	v.bought(sale)
	other.orderIs("pending_payment")

	other.does("pay")
	other.reads(anOrder, "The payment was declined")
	other.orderIs("pending_payment")
	other.until(`document.querySelector(%q).getAttribute("aria-disabled") !== "true"`, payIt)
}

// salePage opens a sale by its link, finds it in the list, and requires a preview in the page that the server sends.
func salePage(t *testing.T, p *scene) {
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

	v := p.open("/sales/" + sale)
	v.until(canBuy(sale))
	v.reads("h1", "Breakfast in the harbour")
	v.until(`document.title === "Breakfast in the harbour · Seckill"`)
	v.reads(card(sale), "0% claimed", "15 left")
	v.reads(".details", "Not on Sundays.", "Limit per customer", "Time to pay", "1 min 30 s", "What happens next",
		"Valid until", "Mar 1, 2099")
	address := shop["address"].(string) + ", " + shop["area"].(string)
	onMap := fmt.Sprintf(`document.querySelector("a.map[target=_blank][rel=noreferrer]")?.href === "https://www.openstreetmap.org/search?query=" + encodeURIComponent(%q)`, address)
	v.until(onMap)
	v.do(chromedp.Evaluate[chromedp.Void](`void (navigator.share = undefined, navigator.clipboard.writeText = async (text) => { window.copied = text; })`))
	v.click(`[data-do="share"]`)
	v.until(`window.copied === location.origin + "/sales/%s"`, sale)
	v.buy(sale, rig.NewPhone())
	v.click(linkOf(sale))
	v.until(onMap)

	// The way back is no answer to a question, which does not stay above another page.
	v.click(`[data-do="cancel"]`)
	v.run(`history.back()`)
	v.until(`location.pathname === "/sales/%s" && !document.querySelector("dialog")`, sale)

	v.click(`#nav a[href="/"]`)
	v.until(`document.querySelectorAll("li.sale").length > 1`)
	v.do(chromedp.SendKeys(chromedp.CSS(".search input"), "HARBOUR breakfast"))
	v.until(`[...document.querySelectorAll("li.sale")].filter((e) => e.checkVisibility()).length === 1`)
	require.Equal(t, "?q=HARBOUR+breakfast", evaluate[string](v.tab, `location.search`))
	v.click(card(sale) + " h2 a")
	v.reads("h1", "Breakfast in the harbour")
	v.do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	v.until(`document.activeElement?.getAttribute("href") === "/sales/%s"`, sale)

	// The rules of searches are those of domain.Finder.
	coffee := p.Publish(t, rig.Offer{Title: "Joe’s Café Straße 🍣", Stock: 1})
	v.goTo("/?q=" + url.QueryEscape("🍣 STRASSE cafe ｃafé joe's"))
	v.until(`[...document.querySelectorAll("li.sale")].filter((e) => e.checkVisibility()).length === 1 && document.querySelector(%q).checkVisibility()`, card(coffee))
	for _, none := range []string{"🍜", fmt.Sprint(time.Now().Year())} {
		v.goTo("/?q=" + url.QueryEscape(none))
		v.until(`document.querySelector(%q)`, card(coffee))
		require.Zero(t, evaluate[int](v.tab, `[...document.querySelectorAll("li.sale")].filter((e) => e.checkVisibility()).length`), none)
	}

	v.do(chromedp.Navigate(p.URL + "/sales/999999"))
	v.reads("h1", "Page not found")
	v.reads("main a.primary", "All sales")
	v.until(`!document.querySelector("main").dataset.bar`)
	v.click(`[data-do="language"]`)
	v.reads("h1", "页面不存在")
	require.Empty(t, evaluate[[]string](v.tab, `[...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((href) => href === "/docs")`))
	v.click(`a[href="/"]`)
	v.until(`document.querySelector("li.sale")`)
	v.expectProblem("404")
}

// twoOrders: the limit and what the customer holds are shown, and only the button that says so buys another unit. The dialog behind
// the phone number saves the data of the account, and deletes it.
func twoOrders(t *testing.T, p *scene) {
	sale, phone := p.Publish(t, rig.Offer{Stock: 5, LimitPerUser: 2}), rig.NewPhone()
	v := p.open("/")
	v.reads(card(sale), "Limit per customer: 2")

	// The answer comes after the page has read the stock without the unit.
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (({ fetch }) => {
		const claimed = () => document.querySelector(%q).innerText === "20%% claimed";
		window.fetch = async (url, init) => {
			const answer = await fetch(url, init);
			if (init?.method === "POST" && url.endsWith("/orders")) {
				dispatchEvent(new Event("online"));
				while (!claimed()) await new Promise(requestAnimationFrame);
			}
			return answer;
		};
	})(window)`, card(sale)+" .stock")))
	v.buy(sale, phone)
	require.Equal(t, "20% claimed", v.text(card(sale)+" .stock"), "the unit counts once")
	v.reads(card(sale), "You have 1 of 2 allowed")
	v.do(chromedp.Reload())
	v.bought(sale)
	v.reads(linkOf(sale), "Pay")
	v.reads(card(sale), "You have 1 of 2 allowed")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	another := fmt.Sprintf(`%s [data-do="another"]`, card(sale))
	v.click(another)
	v.reads(card(sale), "You have 2 of 2 allowed")
	v.until(`!document.querySelector(%q).checkVisibility()`, another)
	v.reads(resultOf(sale, "won"), "2 of your orders are unpaid. Pay within ")
	rig.RequireStock(t, p.Client, sale, 3)
	v.click(linkOf(sale))
	v.until(`location.pathname === "/orders" && document.querySelectorAll("li.order").length === 2`)

	v.click(`[data-do="account"]`)
	v.run(keepFiles)
	v.click(`dialog[open] [data-do="download"]`)
	v.until(`JSON.parse(window.file ?? "{}").user?.phone === %q`, phone)
	require.EqualValues(t, 2, evaluate[int64](v.tab, `JSON.parse(window.file).orders.length`))

	v.click(`dialog[open] [data-do="delete"]`)
	v.until(`document.querySelectorAll("dialog[open]").length === 2`)
	described := `document.getElementById(document.querySelector("dialog[open]:last-of-type").getAttribute("aria-describedby")).innerText`
	require.Contains(t, evaluate[string](v.tab, described), "Paid vouchers stay valid")
	v.key(kb.Escape)
	v.until(`document.querySelectorAll("dialog[open]").length === 1 && !document.querySelector("dialog [data-busy]")`)
	v.reads("#account", "Log out") // nothing was deleted
	v.click(`dialog[open] [data-do="delete"]`)
	v.until(`document.querySelectorAll("dialog[open]").length === 2`)
	v.click(`dialog[open]:last-of-type .primary`)
	v.until(`!document.querySelector("dialog") && document.querySelector('[data-do="login"]')`)
	rig.RequireStock(t, p.Client, sale, 5)
	v.click(`[data-do="login"]`)
	v.login(phone)
	v.reads(".empty", "You have no orders yet")
}

// TestStorefrontOnPhone looks at the storefront on a phone whose browser leaves 390 by 660 pixels: what matters is visible
// without scrolling. It has a server of its own, whose list nobody else changes.
func TestStorefrontOnPhone(t *testing.T) {
	env.FullParallel(t)
	p := rig.EmbeddedStack(t).With(
		"SECKILL_SHOP_NAME=Dim Sum & Co",
		"SECKILL_SHOP_COLOR=#ffd400",
		"SECKILL_SHOP_IMPRINT=https://example.com/imprint",
		"SECKILL_SHOP_PRIVACY=https://example.com/privacy",
	).Serve(t).Shop(t)
	open := p.Publish(t, rig.Offer{Title: "Breakfast for two, with everything that a long title needs", SubTitle: "Any day", PayValue: 8000, ActualValue: 16000, Stock: 100})
	begin := time.Now().Add(2 * time.Hour)
	soon := p.Publish(t, rig.Offer{Title: "Soup", Stock: 50, BeginAt: begin})
	far := p.Publish(t, rig.Offer{Title: "A sale on another day, whose title is long as well", Stock: 50, BeginAt: begin.AddDate(0, 0, 20), EndAt: begin.AddDate(0, 0, 21)})

	v := visit(t, p.URL, "en")
	v.do(chromedp.EmulateViewport(390, 660, chromedp.EmulateMobile, chromedp.EmulateTouch))
	v.goTo("/")
	v.until(canBuy(open))
	for n := range 3 {
		v.until("%s", onScreen(fmt.Sprintf(`li.sale:nth-child(%d)`, n+1)))
	}
	require.Empty(t, evaluate[[]string](v.tab, `[...document.querySelectorAll(".clock")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText)`), "cut off")
	v.reads(card(far), "Upcoming")
	// In place of a picture, the first letter of the shop.
	v.until(`document.querySelector(%q).innerText === document.querySelector(%q).innerText[0]`, card(open)+" .cover > span", card(open)+" .sub")

	v.reads(".brand", "Dim Sum & Co")
	v.until(`document.title.endsWith("Dim Sum & Co")`)
	v.until(`["/imprint", "/privacy"].every((end) => document.querySelector("footer a[href$='" + end + "']"))`)
	v.until(`getComputedStyle(document.querySelector(%q)).color === "rgb(0, 0, 0)"`, buyOf(open)) // on yellow
	v.legible(t, "list on a phone")

	// The slots of the day, of which one is chosen.
	slot := fmt.Sprintf(`[...document.querySelectorAll(".slots button")].find((b) => b.innerText === new Date(%d).toTimeString().slice(0, 5))`, begin.UnixMilli())
	v.run(`%s.click()`, slot)
	v.until(`!document.querySelector(%q).checkVisibility() && document.querySelector(%q).checkVisibility()`, card(open), card(soon))
	v.click(".slots button:nth-child(1)")
	v.until(`document.querySelector(%q).checkVisibility()`, card(open))

	// The whole card is the link.
	v.click(card(open) + " .cover")
	v.until(`location.pathname === "/sales/%s"`, open)
	v.until(canBuy(open))
	v.until("%s", onScreen(buyOf(open)))
	v.reads(card(open)+" .bar", "80", "Ends in")
	v.do(chromedp.Evaluate[chromedp.Void](`void dispatchEvent(new Event("offline"))`))
	v.reads(".toast", "No connection")
	v.legible(t, "sale on a phone")

	v.buy(open, rig.NewPhone())
	v.reads(resultOf(open, "won"), "You got it!", "Pay within ")
	v.reads(card(open)+" .bar", "Pay within", "Go to payment")
	v.until("%s", onScreen(resultOf(open, "won")))
	v.do(chromedp.Reload())
	v.reads(resultOf(open, "won"), "Pay within ")
	v.goTo("/")
	v.reads(linkOf(open), "Pay")
	v.click(`#nav a[href="/orders"]`)
	v.until(`document.querySelector("li.order")`)
	v.click("li.order .facts")
	v.until(`/^\/orders\/\d+$/.test(location.pathname)`)
}

func onScreen(selector string) string {
	return fmt.Sprintf(`(() => {
		const r = document.querySelector(%q).getBoundingClientRect();
		return scrollY === 0 && r.height > 0 && r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth;
	})()`, selector)
}

// untilTheStart: a guest is asked to log in before the start, saves a calendar file, and has the browser send a notice in time. The page
// finds the start by the server's clock and without a reload, and then sells with one press.
func untilTheStart(t *testing.T, p *scene) {
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	sale := p.Publish(t, rig.Offer{Title: "Soup; salad, " + strings.Repeat("早茶", 30), Stock: 5, BeginAt: begin})
	const hourFast = `{ const real = Date.now; Date.now = () => real() + 3600_000; }`
	const keepAlarm = `{ const later = setTimeout; window.setTimeout = (f, ms, ...of) => {
		if (ms > 3_000_000) window.alarm = () => f(...of);
		return later(f, ms, ...of);
	} }`
	v := p.open("/sales/"+sale, hourFast, keepAlarm, `window.notified = []; window.Notification = class {
		static permission = "default";
		static requestPermission = async () => "granted";
		constructor(title, { body }) { notified.push(title + ": " + body); }
	}`)
	v.reads(buyOf(sale), "Log in early")
	v.click(buyOf(sale))
	v.login(rig.NewPhone())
	v.reads(buyOf(sale), "Starts ")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	v.run(keepFiles)
	v.click(`[data-do="calendar"]`)
	v.until(`window.file`)
	file := evaluate[string](v.tab, `window.file`)
	lines := strings.Split(file, "\r\n")
	for _, line := range lines {
		assert.LessOrEqual(t, len(line), 75, line)
		assert.NotContains(t, line, "\n")
	}
	whole := strings.ReplaceAll(file, "\r\n ", "")
	for _, line := range []string{
		"BEGIN:VCALENDAR", "DTSTART:" + begin.UTC().Format("20060102T150405Z"), `SUMMARY:Soup\; salad\, ` + strings.Repeat("早茶", 30),
		"URL:" + p.URL + "/sales/" + sale, "BEGIN:VALARM", "TRIGGER:-PT5M", "END:VCALENDAR",
	} {
		assert.Contains(t, strings.Split(whole, "\r\n"), line)
	}

	v.legible(t, "before the start")
	v.click(`[data-do="notify"]`)
	v.reads(card(sale), "notifies you a minute before the start")
	v.until(`notified.length === 1 && notified[0].includes("Starts ")`)
	require.True(t, evaluate[bool](v.tab, `delays.some((ms) => ms > 3_000_000 && ms <= 3_540_000)`), "a minute before the start")
	p.Change(t, sale, map[string]any{"begin_at": begin.Add(time.Minute)}) // the notification waits for the new start
	v.run(`await alarm()`)
	require.Equal(t, 1, evaluate[int](v.tab, `notified.length`))

	begin = time.Now().Add(5 * time.Second)
	p.Change(t, sale, map[string]any{"begin_at": begin})
	v.until(`/^00:00:0\d$/.test(document.querySelector(%q).innerText) || %s`, card(sale)+" .time", canBuy(sale))
	v.until(canBuy(sale))
	require.False(t, time.Now().Before(begin), "enabled before the beginning")
	v.until(`!document.querySelector('[data-do="calendar"]').checkVisibility()`)
	v.buys(sale) // without another login
	require.Equal(t, 1, evaluate[int](v.tab, `notified.length`), "a reload would have emptied the list")
	rig.RequireStock(t, p.Client, sale, 4)
}
