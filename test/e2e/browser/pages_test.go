package browser

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// TestPagesFromLoginToPaid buys, pays and redeems an order in a browser: on the embedded default, and in lane queue on
// real servers.
func TestPagesFromLoginToPaid(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	rig.Core("lock/embedded").Full("queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t).Shop(t)
		buyInBrowser(t, s, p, visit(t, browser, p.URL, "en"))
	})
}

func buyInBrowser(t *testing.T, s *rig.Stack, p *rig.Shop, v *visitor) {
	t.Helper()
	until := time.Date(2099, 3, 1, 0, 0, 0, 0, time.UTC)
	sale := p.Publish(t, rig.Offer{Title: "Hot pot for two", Stock: 3, ValidUntil: until})
	phone := rig.NewPhone()

	start := time.Now()
	v.goTo("/")
	v.until(canBuy(sale))
	t.Logf("the button was enabled after %s", time.Since(start))
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void new MutationObserver(() => {
		if (document.querySelector(%q)) window.stockThen ??= document.querySelector(%q).innerText;
	}).observe(document.querySelector("main"), { attributes: true, childList: true, subtree: true })`, resultOf(sale, "won"), card(sale)+" .stock")))
	v.buy(sale, phone)
	v.reads(card(sale), "You got it!", "Pay within ", " to keep it.")
	require.Equal(t, "33% claimed", evaluate[string](v.tab, `window.stockThen`), "with the result")
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	v.reads(anOrder, "Pay within")
	v.click(payIt)
	v.reads(dialog, "¥1", "no money moves")
	v.click(dialog + " button.quiet") // nothing is charged
	v.until(`!document.querySelector("dialog")`)
	v.orderIs("pending_payment")
	v.pay()
	v.orderIs("paid")
	v.reads(anOrder+" .pass", "Valid until Mar 1, 2099")

	// The QR code contains the code of the page, and the server accepts it.
	code := v.text(anOrder + " code")
	assert.Equal(t, code, v.readQR(anOrder+" svg.qr"))
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
}

// readQR decodes the QR code in a screenshot of an element.
func (b *tab) readQR(selector string) string {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
	shot, err := chromedp.Run(b.ctx, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
	require.NoError(b.t, err)
	picture, err := png.Decode(bytes.NewReader(shot))
	require.NoError(b.t, err)
	bitmap, err := gozxing.NewBinaryBitmapFromImage(picture)
	require.NoError(b.t, err)
	// The picture contains nothing else. Without this hint, gozxing cannot decode one code in a hundred.
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	require.NoError(b.t, err)
	return found.GetText()
}

type pagesTest = func(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor)

// TestPages covers the pages apart from a plain purchase: the journeys of buyers on MariaDB and Redis, and what only the
// browser decides on the embedded default. The tests of a group share one server unless they start another.
func TestPages(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	journeys := map[string]pagesTest{
		"two tabs": twoTabs, "back on sale": backOnSale, "queued": queued,
		"payment refused": paymentRefused, "room journey": roomJourney, "account": account,
		"sale page": salePage, "ready at the start": readyAtStart, "expired": expiredOrder, "limit above one": limitAboveOne,
		"demo accounts": demoAccounts,
	}
	pages := map[string]pagesTest{
		"connection cut": connectionCut, "temporary refusals": temporaryRefusals,
		"languages": languages, "keyboard": keyboardOnly, "markup in texts": markupInTexts,
		"accessible": accessible, "texts": texts,
	}
	rig.Full("embedded", "mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t).Shop(t)
		p.Stack = s
		tests := journeys
		if s.IsEmbedded() {
			tests = pages
		}
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, p, func(url, language string) *visitor { return visit(t, browser, url, language) })
			})
		}
	})
}

// twoTabs: two tabs of one user share logins, orders and logouts, and buy only once.
func twoTabs(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	first, second := p.Publish(t, rig.Offer{Stock: 5}), p.Publish(t, rig.Offer{Stock: 5})
	v := visit(p.URL, "en")
	one, two := v.tab, v.newTab()
	one.goTo("/")
	two.goTo("/")
	one.buy(first, rig.NewPhone())
	two.reads("#account", "Log out")
	two.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(first))

	one.until(canBuy(second))
	two.until(canBuy(second))
	clicks := fmt.Sprintf(`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector(%q))`, buyOf(second))
	one.do(chromedp.Evaluate[chromedp.Void](clicks))
	two.do(chromedp.Evaluate[chromedp.Void](clicks))
	for _, tab := range []*tab{one, two} {
		tab.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(second))
	}
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

// backOnSale: an open page shows a unit that another visitor has cancelled, and can buy it. After its refund it is on sale again.
func backOnSale(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	sale := p.Publish(t, rig.Offer{Stock: 1})
	first, second := visit(p.URL, "en"), visit(p.URL, "en")
	second.goTo("/")
	second.until(canBuy(sale))
	first.goTo("/")
	first.buy(sale, rig.NewPhone())
	second.reads(buyOf(sale), "Sold out")
	second.goTo("/sales/" + sale)
	second.reads(resultOf(sale, "lost")+" strong", "Sold out")
	require.False(t, evaluate[bool](second.tab, canBuy(sale)))
	first.click(linkOf(sale))
	first.click(`li.order [data-do="cancel"]`)
	first.reads(dialog, "Cancel this order?")
	first.click(dialog + " button.quiet") // keeps the order
	first.until(`!document.querySelector("dialog")`)
	first.orderIs("pending_payment")
	first.click(`li.order [data-do="cancel"]`)
	first.click(dialog + " button.primary")
	first.orderIs("cancelled")

	second.buy(sale, rig.NewPhone())
	second.click(linkOf(sale))
	second.pay()
	second.orderIs("paid")
	second.click(`li.order [data-do="refund"]`)
	second.click(dialog + " button.primary")
	second.orderIs("refunded")
	second.click(`#nav a[href="/"]`)
	second.until(canBuy(sale))
}

// connectionCut: pages report a lost connection and recover without a reload.
func connectionCut(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	f := startFront(t, p.URL)
	sale, phone := p.Publish(t, rig.Offer{Stock: 5}), rig.NewPhone()
	v := visit(f.URL, "en")
	v.goTo("/")
	v.buy(sale, phone)
	store := v.newTab()
	store.goTo("/")
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	rig.Eventually(t, "the stream has begun", func() bool { return f.Events.Load() > 0 })
	f.Cut()
	store.reads(".banner", "No connection")
	token := p.LoginToken(t, phone)
	id := evaluate[string](v.tab, `document.querySelector("li.order").dataset.order`)
	p.Must(t, rig.Pay(id, token))
	rig.Eventually(t, "the order is paid", func() bool {
		o, err := p.Order(t.Context(), token, id)
		return err == nil && o.Status == "paid"
	})
	require.Equal(t, "pending_payment", evaluate[string](v.tab, `document.querySelector("li.order").dataset.status`))
	f.Restore()
	v.orderIs("paid")
	store.until(`!document.querySelector(".banner").checkVisibility()`)
	// The page may not have read an event before the first cut. Then it resumes after a later one.
	cut := time.Now()
	rig.Eventually(t, "a stream is resumed by Last-Event-ID", func() bool {
		f.Mu.Lock()
		resumed := slices.ContainsFunc(f.Resumed, func(id string) bool { return id != "" })
		f.Mu.Unlock()
		if !resumed && time.Since(cut) > 5*time.Second {
			f.Cut()
			f.Restore()
			cut = time.Now()
		}
		return resumed
	})
	require.Empty(t, f.Resumed[0], "the first stream has no earlier event")
}

// temporaryRefusals: a purchase that is refused temporarily, or whose answer is lost, is retried with the same key.
func temporaryRefusals(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	f := startFront(t, p.URL)
	first, second := p.Publish(t, rig.Offer{Stock: 5}), p.Publish(t, rig.Offer{Stock: 5})
	v := visit(f.URL, "en")
	v.goTo("/")
	v.click(`[data-do="login"]`)
	v.login(rig.NewPhone())

	// Each message is visible for a second or two, so an observer collects them.
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (window.messages = [], new MutationObserver(() => window.messages.push(
		document.querySelector(%q).innerText)).observe(document.querySelector(%q), {subtree: true, childList: true, characterData: true}))`,
		card(first), card(first))))
	f.RespondWith("overloaded", "rate_limited", "unavailable", "lost", "half") // without any answer, Chromium itself repeats the request once
	v.click(buyOf(first))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(first))
	messages := evaluate[string](v.tab, `window.messages.join("\n")`)
	for _, message := range []string{"Buying…", "Demand is very high", "Too many requests", "temporarily unavailable", "Retrying in"} {
		assert.Contains(t, messages, message)
	}
	keys := f.KeysSeen()
	require.Len(t, keys, 6)
	require.Regexp(t, `^[0-9a-f]{32}$`, keys[0])
	require.Equal(t, slices.Repeat(keys[:1], 6), keys, "retries use the same key")
	rig.RequireStock(t, p.Client, first, 4)

	f.RespondWith()
	v.click(buyOf(second))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(second))
	require.Len(t, f.KeysSeen(), 1)
	require.NotEqual(t, keys[0], f.KeysSeen()[0], "the next purchase has a new key")
}

// markupInTexts: markup in the texts of a sale is shown as text.
func markupInTexts(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	const evil = `"><script>alert(1)</script><img src=x onerror="alert(2)">'&lt;b&gt;`
	sale := p.Publish(t, rig.Offer{Title: evil, SubTitle: evil, Rules: evil, Stock: 5})
	v := visit(p.URL, "en")
	v.goTo("/")
	v.until(canBuy(sale))
	require.Equal(t, evil, v.text(card(sale)+" h2"))
	v.buy(sale, rig.NewPhone())
	v.click(linkOf(sale))
	v.reads("li.order h2", evil)
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("main script, main img, main b").length`))
	require.Equal(t, "refused", evaluate[string](v.tab, `(() => { try { document.createElement("p").innerHTML = "x"; return "accepted" } catch { return "refused" } })()`))
	v.expectProblems("TrustedHTML", "require-trusted-types-for")
}

// queued: in lane queue, the page shows that the order is queued, its position, and then its outcome.
func queued(t *testing.T, shared *rig.Shop, visit func(url, language string) *visitor) {
	s, release := rig.HoldWorkers(t, shared.Stack.Fresh(t).In("queue"))
	p := s.Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Stock: 5})
	for _, token := range s.Tokens(t, 3) {
		p.Queue(t, token, sale)
	}
	v := visit(p.URL, "en")
	v.goTo("/")
	v.until(canBuy(sale))
	v.click(buyOf(sale))
	v.login(rig.NewPhone())
	v.reads(card(sale), "In the queue")
	v.reads(card(sale), "Orders ahead of yours: about 3.")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	other := v.newTab()
	other.goTo("/orders")
	other.orderIs("queued")
	release()
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	other.orderIs("pending_payment")
}

// paymentRefused: the page shows that the provider declined the payment and allows another attempt.
func paymentRefused(t *testing.T, shared *rig.Shop, visit func(url, language string) *visitor) {
	p := shared.Stack.Fresh(t).With("SECKILL_SANDBOX=fail").Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Stock: 5})
	v := visit(p.URL, "en")
	v.goTo("/")
	v.buy(sale, rig.NewPhone())
	v.click(linkOf(sale))
	v.pay()
	v.reads(anOrder, "The payment was declined")
	v.orderIs("pending_payment")
	v.until(`document.querySelector(%q).getAttribute("aria-disabled") !== "true"`, payIt)
}

// account downloads a visitor's data and deletes the account from the dialog behind the phone number.
func account(t *testing.T, p *rig.Shop, visit func(url, language string) *visitor) {
	sale, phone := p.Publish(t, rig.Offer{Stock: 3}), rig.NewPhone()
	v := visit(p.URL, "en")
	v.goTo("/")
	v.buy(sale, phone)
	v.click(`[data-do="account"]`)
	v.run(`const create = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => (window.exported = text)); return create(blob); }`)
	v.click(`dialog[open] [data-do="download"]`)
	v.until(`JSON.parse(window.exported ?? "{}").user?.phone === %q`, phone)
	require.EqualValues(t, 1, evaluate[int64](v.tab, `JSON.parse(window.exported).orders.length`))

	v.click(`dialog[open] [data-do="delete"]`)
	v.until(`document.querySelectorAll("dialog[open]").length === 2`)
	v.key(kb.Escape)
	v.until(`document.querySelectorAll("dialog[open]").length === 1 && !document.querySelector("dialog[aria-busy]")`)
	v.reads("#account", "Log out") // nothing was deleted
	v.click(`dialog[open] [data-do="delete"]`)
	v.until(`document.querySelectorAll("dialog[open]").length === 2`)
	v.click(`dialog[open]:last-of-type .primary`)
	v.until(`!document.querySelector("dialog") && document.querySelector('[data-do="login"]')`)
	rig.RequireStock(t, p.Client, sale, 3)
	v.goTo("/orders")
	v.click(`[data-do="login"]`)
	v.login(phone)
	v.reads(".empty", "You have no orders yet")
}
