package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestStorefrontOnPhone looks at the storefront on a phone whose browser leaves 390 by 660 pixels: what matters is visible
// without scrolling. It has a server of its own, whose list nobody else changes.
func TestStorefrontOnPhone(t *testing.T) {
	env.Full(t)
	t.Parallel()
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

	v := visit(t, startBrowser(t), p.URL, "en")
	v.do(chromedp.EmulateViewport(390, 660, chromedp.EmulateMobile, chromedp.EmulateTouch))
	v.goTo("/")
	v.until(canBuy(open))
	for n := range 3 {
		v.until("%s", onScreen(fmt.Sprintf(`li.sale:nth-child(%d)`, n+1)))
	}
	heights := evaluate[[]float64](v.tab, `[...document.querySelectorAll("li.sale")].map((e) => e.offsetHeight)`)
	require.LessOrEqual(t, slices.Max(heights), 160.0, "a card with a date is as high as others: %v", heights)
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

	height := fmt.Sprintf(`document.querySelector(%q).offsetHeight`, card(open)+" .cover")
	picture := evaluate[float64](v.tab, height)

	// The whole card is the link.
	v.click(card(open) + " .cover")
	v.until(`location.pathname === "/sales/%s"`, open)
	v.until(canBuy(open))
	v.until("%s", onScreen(buyOf(open)))
	v.reads(card(open)+" .bar", "80", "Ends in")
	v.do(chromedp.Evaluate[chromedp.Void](`void dispatchEvent(new Event("offline"))`))
	v.reads(".toast", "No connection")
	require.False(t, evaluate[bool](v.tab, fmt.Sprintf(`(() => {
		const [toast, bar] = [".toast", %q].map((s) => document.querySelector(s).getBoundingClientRect());
		return toast.bottom > bar.top && toast.top < bar.bottom;
	})()`, card(open)+" .bar")), "the toast lies over the button")

	v.legible(t, "sale on a phone")

	v.buy(open, rig.NewPhone())
	v.reads(resultOf(open, "won"), "You got it!", "Pay within ")
	v.reads(card(open)+" .bar", "Pay within", "Go to payment")
	v.until("%s", onScreen(resultOf(open, "won")))
	v.do(chromedp.Reload())
	v.reads(resultOf(open, "won"), "Pay within ")
	v.goTo("/")
	v.reads(linkOf(open), "Pay")
	require.Equal(t, picture, evaluate[float64](v.tab, height), "the button stays beside the price")
	v.click(`#nav a[href="/orders"]`)
	v.until(`document.querySelector("li.order")`)
	v.click("li.order .facts")
	v.until(`/^\/orders\/\d+$/.test(location.pathname)`)

	// On a desktop the rows of neighbours line up, however long their titles are.
	v.do(chromedp.EmulateViewport(1440, 900))
	v.goTo("/")
	v.until(`document.querySelectorAll("li.sale").length === 5`)
	tops := evaluate[[]float64](v.tab, `[...document.querySelectorAll("li.sale .price")].slice(0, 3).map((e) => e.getBoundingClientRect().top)`)
	require.Equal(t, []float64{tops[0], tops[0], tops[0]}, tops)
	v.reads(resultOf(open, "won"), "You got it!")
	below := evaluate[[]float64](v.tab, `[...document.querySelectorAll("li.sale")].slice(0, 3).map((e) => e.getBoundingClientRect().bottom - e.querySelector(".bar").getBoundingClientRect().bottom)`)
	require.LessOrEqual(t, slices.Max(below), 40.0, "a result leaves no space in the neighbours: %v", below)
}

// onScreen is an expression that is true if the whole element is visible without scrolling.
func onScreen(selector string) string {
	return fmt.Sprintf(`(() => {
		const r = document.querySelector(%q).getBoundingClientRect();
		return scrollY === 0 && r.height > 0 && r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth;
	})()`, selector)
}

// reminder saves a calendar file of an upcoming sale, and has the browser notify the visitor before it starts.
func reminder(t *testing.T, p *rig.Shop, visit func(string) *visitor) {
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	sale := p.Publish(t, rig.Offer{Title: "Soup; salad, " + strings.Repeat("早茶", 30), Stock: 5, BeginAt: begin})
	v := visit(p.URL)
	v.before(`window.notified = []; window.Notification = class {
		static permission = "default";
		static requestPermission = async () => "granted";
		constructor(title, { body }) { notified.push(title + ": " + body); }
	}`)
	v.goTo("/sales/" + sale)
	v.until(`document.querySelector('[data-do="calendar"]')?.checkVisibility()`)
	v.run(`const create = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => (window.file = text)); return create(blob); }`)
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
	p.Change(t, sale, map[string]any{"begin_at": time.Now().Add(-time.Second)})
	v.until(`!document.querySelector('[data-do="calendar"]').checkVisibility()`)
}
