package e2e

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var phones atomic.Int64

// newPhone is a number that nobody has used yet.
func newPhone() string { return fmt.Sprintf("137%08d", phones.Add(1)) }

// TestPagesFromLoginToPaid buys in a browser, from the login to the code that the shop takes: on the embedded default, and
// in each lane on real servers.
func TestPagesFromLoginToPaid(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		s := embeddedStack(t)
		p := s.serve(t, "").shop(t)
		s.buyInBrowser(t, p, visit(t, browser, p.url, "en"))
	})
	for _, lane := range lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := realStack(t).in(lane)
			p := s.serve(t, "").shop(t)
			s.buyInBrowser(t, p, visit(t, browser, p.url, "en"))
		})
	}
}

func (s *stack) buyInBrowser(t *testing.T, p *shop, v *visitor) {
	t.Helper()
	sale := p.publish(t, offer{Title: "Hot pot for two", Stock: 3})
	phone := newPhone()

	start := time.Now()
	v.goTo("/")
	v.until(canBuy(sale))
	t.Logf("the button was there after %s", time.Since(start))
	v.buy(sale, phone)
	v.reads(card(sale), "Reserved for you")
	v.reads(card(sale), "2 of 3 left") // seen without a reload
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	v.reads(anOrder, "Pay within")
	v.click(payIt)
	v.orderIs("paid")

	// What the shop reads off the screen is what the page says, and what the server takes.
	code := v.text(anOrder + " code")
	assert.Equal(t, code, v.readQR(anOrder+" svg.qr"))
	id := evaluate[string](v.tab, `document.querySelector("li.order").dataset.order`)
	a := p.send(t, http.MethodPost, "/api/v1/admin/orders/"+id+"/redeem", p.token)
	require.Equal(t, http.StatusOK, a.status, a.body)
	v.orderIs("redeemed") // while it is being looked at
	require.False(t, evaluate[bool](v.tab, `document.querySelector("li.order svg.qr")?.checkVisibility() ?? false`))
	s.verify(t)
}

// readQR takes a picture of an element and reads the QR code in it.
func (b *tab) readQR(selector string) string {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
	shot, err := chromedp.Run(b.ctx, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
	require.NoError(b.t, err)
	picture, err := png.Decode(bytes.NewReader(shot))
	require.NoError(b.t, err)
	bitmap, err := gozxing.NewBinaryBitmapFromImage(picture)
	require.NoError(b.t, err)
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_TRY_HARDER: true})
	require.NoError(b.t, err)
	return found.GetText()
}

// TestPages is everything that the pages do beside a plain purchase, on one server if nothing else is said.
func TestPages(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	p := embeddedStack(t).serve(t, "").shop(t)
	for name, test := range map[string]func(*testing.T, *shop, func(url, language string) *visitor){
		"two tabs": twoTabs, "starts while open": startsWhileOpen, "back on sale": backOnSale, "connection cut": connectionCut,
		"too many people": tooManyPeople, "answer lost": answerLost, "languages": languages, "keyboard": keyboardOnly,
		"narrow": narrow, "markup in texts": markupInTexts, "accessible": accessible, "refund": refund, "window moved": windowMoved,
		"texts": texts, "queued": queued, "payment refused": paymentRefused,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p, func(url, language string) *visitor { return visit(t, browser, url, language) })
		})
	}
}

// twoTabs: one user, two tabs, which know of each other's logins, orders and logouts, and cannot buy twice.
func twoTabs(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	first, second := p.publish(t, offer{Stock: 5}), p.publish(t, offer{Stock: 5})
	v := visit(p.url, "en")
	one, two := v.tab, v.newTab()
	one.goTo("/")
	two.goTo("/")
	one.buy(first, newPhone())
	two.reads("#account", "Log out")
	two.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(first))

	one.until(canBuy(second))
	two.until(canBuy(second))
	press := fmt.Sprintf(`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector(%q))`, buyOf(second))
	one.do(chromedp.Evaluate[chromedp.Void](press))
	two.do(chromedp.Evaluate[chromedp.Void](press))
	for _, tab := range []*tab{one, two} {
		tab.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(second))
	}
	requireStock(t, p.Client, second, 4)

	// Both start again at once, twice over: their cookie is replaced under their hands, and they stay logged in.
	for range 2 {
		one.do(chromedp.Evaluate[chromedp.Void](`location.reload()`))
		two.do(chromedp.Evaluate[chromedp.Void](`location.reload()`))
	}
	one.reads("#account", "Log out")
	two.reads("#account", "Log out")
	two.click(`[data-do="logout"]`)
	two.until(`document.querySelector('[data-do="login"]')`)
	one.until(`document.querySelector('[data-do="login"]')`)
	one.do(chromedp.Reload())
	one.until(`document.querySelector('[data-do="login"]')`)
	one.until(canBuy(second)) // as a stranger sees it
	require.Empty(t, evaluate[string](one, `document.cookie`), "no script sees a cookie")
	require.NotContains(t, evaluate[string](one, `JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`), "eyJ", "nor is a token stored")
}

// startsWhileOpen: the button becomes live at the beginning, by the server's clock, without a reload.
func startsWhileOpen(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	v := visit(p.url, "en")
	v.before(`{ const real = Date.now; Date.now = () => real() + 3600_000; }`) // the device is an hour fast
	begin := time.Now().Add(8 * time.Second)
	sale := p.publish(t, offer{Stock: 5, BeginAt: begin})
	v.goTo("/")
	v.do(chromedp.Evaluate[chromedp.Void](`void (window.stayed = true)`))
	v.reads(card(sale), "Upcoming")
	if time.Now().Before(begin.Add(-time.Second)) { // else the machine was too slow to see it
		require.False(t, evaluate[bool](v.tab, canBuy(sale)))
		require.Regexp(t, `^00:00:0\d$`, v.text(card(sale)+" .time"))
	}
	v.until(canBuy(sale))
	t.Logf("live %s after the beginning", time.Since(begin))
	require.False(t, time.Now().Before(begin), "not before it")
	v.buy(sale, newPhone())
	require.True(t, evaluate[bool](v.tab, `window.stayed === true`))
}

// backOnSale: what one visitor cancels another one sees, and buys, on a page that is open all the time.
func backOnSale(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	sale := p.publish(t, offer{Stock: 1})
	first, second := visit(p.url, "en"), visit(p.url, "en")
	second.goTo("/")
	second.until(canBuy(sale))
	first.goTo("/")
	first.buy(sale, newPhone())
	second.reads(buyOf(sale), "Sold out")
	require.False(t, evaluate[bool](second.tab, canBuy(sale)))
	first.click(linkOf(sale))
	first.click(`li.order [data-do="cancel"]`)
	first.reads(dialog, "Cancel this order?")
	first.click(dialog + " button.quiet") // no
	first.until(`!document.querySelector("dialog")`)
	first.orderIs("pending_payment")
	first.click(`li.order [data-do="cancel"]`)
	first.click(dialog + " button.primary")
	first.orderIs("cancelled")
	second.buy(sale, newPhone())
}

// connectionCut: pages that lose the server say so, and go on by themselves when it is back.
func connectionCut(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	f := p.startFront(t)
	sale, phone := p.publish(t, offer{Stock: 5}), newPhone()
	v := visit(f.URL, "en")
	v.goTo("/")
	v.buy(sale, phone)
	store := v.newTab()
	store.goTo("/")
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	eventually(t, "the stream has begun", func() bool { return f.events.Load() > 0 })
	f.cut()
	store.reads(".banner", "No connection")
	token, err := p.Login(t.Context(), phone)
	require.NoError(t, err)
	id := evaluate[string](v.tab, `document.querySelector("li.order").dataset.order`)
	require.Equal(t, http.StatusOK, p.send(t, http.MethodPost, "/api/v1/orders/"+id+"/pay", token).status)
	eventually(t, "the order is paid", func() bool {
		o, err := p.Order(t.Context(), token, id)
		return err == nil && o.Status == "paid"
	})
	require.Equal(t, "pending_payment", evaluate[string](v.tab, `document.querySelector("li.order").dataset.status`))
	f.restore()
	v.orderIs("paid")
	store.until(`!document.querySelector(".banner").checkVisibility()`)
	// The page may not have read an event before the first cut. Then it resumes after a later one.
	cut := time.Now()
	eventually(t, "a stream is resumed by Last-Event-ID", func() bool {
		f.mu.Lock()
		resumed := slices.ContainsFunc(f.resumed, func(id string) bool { return id != "" })
		f.mu.Unlock()
		if !resumed && time.Since(cut) > 5*time.Second {
			f.cut()
			f.restore()
			cut = time.Now()
		}
		return resumed
	})
	require.Empty(t, f.resumed[0], "the first stream has no earlier event")
}

// tooManyPeople: refusals that will pass are waited out, under the same key.
func tooManyPeople(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	f := p.startFront(t)
	first, second := p.publish(t, offer{Stock: 5}), p.publish(t, offer{Stock: 5})
	v := visit(f.URL, "en")
	v.goTo("/")
	v.click(`[data-do="login"]`)
	v.login(newPhone())

	// The sentences pass within a second or two: they are collected as they come.
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (window.said = [], new MutationObserver(() => window.said.push(
		document.querySelector(%q).innerText)).observe(document.querySelector(%q), {subtree: true, childList: true, characterData: true}))`,
		card(first), card(first))))
	f.respondWith("overloaded", "rate_limited", "unavailable")
	v.click(buyOf(first))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(first))
	said := evaluate[string](v.tab, `window.said.join("\n")`)
	for _, sentence := range []string{"Buying…", "Demand is very high", "Too many requests", "temporarily unavailable", "Retrying in"} {
		assert.Contains(t, said, sentence)
	}
	keys := f.keysSeen()
	require.Len(t, keys, 4)
	require.Regexp(t, `^[0-9a-f]{32}$`, keys[0])
	require.Equal(t, []string{keys[0], keys[0], keys[0], keys[0]}, keys, "one intent has one key")

	f.respondWith()
	v.click(buyOf(second))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(second))
	require.Len(t, f.keysSeen(), 1)
	require.NotEqual(t, keys[0], f.keysSeen()[0], "the next intent has another one")
}

// answerLost: the order was made and nobody said so. The page asks again, under the same key, and finds it.
func answerLost(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	f := p.startFront(t)
	sale := p.publish(t, offer{Stock: 5})
	v := visit(f.URL, "en")
	v.goTo("/")
	v.click(`[data-do="login"]`)
	v.login(newPhone())
	f.respondWith("lost", "half") // Chromium itself sends again what had no answer at all
	v.click(buyOf(sale))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	keys := f.keysSeen()
	require.Len(t, keys, 3)
	require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
	requireStock(t, p.Client, sale, 4)
}

// markupInTexts: what a merchant writes is text, whatever it looks like.
func markupInTexts(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	const evil = `"><script>alert(1)</script><img src=x onerror="alert(2)">'&lt;b&gt;`
	sale := p.publish(t, offer{Title: evil, SubTitle: evil, Rules: evil, Stock: 5})
	v := visit(p.url, "en")
	v.goTo("/")
	v.until(canBuy(sale))
	require.Equal(t, evil, v.text(card(sale)+" h2"))
	v.buy(sale, newPhone())
	v.click(linkOf(sale))
	v.reads("li.order h2", evil)
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("main script, main img, main b").length`))
	require.Equal(t, "refused", evaluate[string](v.tab, `(() => { try { document.createElement("p").innerHTML = "x"; return "taken" } catch { return "refused" } })()`))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.problems = nil // the browser has reported the line above
}

// refund gives a paid order back, and the sale can be bought again on the same page.
func refund(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	sale := p.publish(t, offer{Stock: 1})
	v := visit(p.url, "en")
	v.goTo("/")
	v.buy(sale, newPhone())
	v.click(linkOf(sale))
	v.click(payIt)
	v.orderIs("paid")
	v.click(`li.order [data-do="refund"]`)
	v.click(dialog + " button.primary")
	v.orderIs("refunded")
	v.click(`#nav a[href="/"]`)
	v.until(canBuy(sale))
}

// windowMoved: a sale that is moved by its merchant moves on open pages.
func windowMoved(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	sale := p.publish(t, offer{Stock: 5, BeginAt: time.Now().Add(time.Hour)})
	v := visit(p.url, "en")
	v.goTo("/")
	v.reads(card(sale), "Upcoming")
	p.change(t, sale, map[string]any{"begin_at": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)})
	v.until(canBuy(sale))
	p.change(t, sale, map[string]any{"status": "off"})
	v.until(`!document.querySelector(%q)`, card(sale))
}

// queued: in the lane queue, a buyer whose order waits for the database is told so, and then what became of it.
func queued(t *testing.T, _ *shop, visit func(url, language string) *visitor) {
	s, release := holdWorkers(t, embeddedStack(t).in("queue"))
	p := s.serve(t, "").shop(t)
	sale := p.publish(t, offer{Stock: 5})
	for _, token := range s.tokens(t, 3) {
		requireQueued(t, p.click(t, token, sale))
	}
	v := visit(p.url, "en")
	v.goTo("/")
	v.until(canBuy(sale))
	v.click(buyOf(sale))
	v.login(newPhone())
	v.reads(buyOf(sale), "In the queue")
	v.reads(card(sale), "Orders ahead of yours: about 3.")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	other := v.newTab()
	other.goTo("/orders")
	other.orderIs("queued")
	release()
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	other.orderIs("pending_payment")
}

// paymentRefused: a provider that says no is no reason to wait for ever.
func paymentRefused(t *testing.T, _ *shop, visit func(url, language string) *visitor) {
	p := embeddedStack(t).with("SECKILL_SANDBOX=fail").serve(t, "").shop(t)
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url, "en")
	v.goTo("/")
	v.buy(sale, newPhone())
	v.click(linkOf(sale))
	v.click(payIt)
	v.reads(anOrder, "The payment was declined")
	v.orderIs("pending_payment")
	v.until(`document.querySelector(%q).getAttribute("aria-disabled") !== "true"`, payIt)
}
