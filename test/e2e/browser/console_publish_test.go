package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// editLink is the selector of the link to the forms of a sale.
func editLink(sale string) string {
	return fmt.Sprintf(`main a[href="/console/sales/%s/edit"]`, sale)
}

// publishDraft publishes the draft that the page shows and returns its id.
func (b *tab) publishDraft() string {
	b.t.Helper()
	b.click(`[data-do="publish"]`)
	b.confirm()
	b.until(`document.querySelector('[data-do="unpublish"]')?.checkVisibility()`)
	return b.at()[len("/console/sales/"):]
}

// checks waits until a point of the checklist has a state: holds, warning or broken.
func (b *tab) checks(point, state string) {
	b.t.Helper()
	b.until(`document.querySelector('[data-check=%q]')?.dataset.ok === %q`, point, state)
}

// TestConsolePublish follows a merchant from a new shop to a sale and its clone.
func TestConsolePublish(t *testing.T) {
	env.Full(t)
	t.Parallel()
	browser := startBrowser(t)
	s := rig.RealStack(t).WithAdmins()
	p := s.Serve(t).Shop(t)
	publishInBrowser(t, p, visit(t, browser, p.URL, "en"), visit(t, browser, p.URL, "en"))
	s.Verify(t)
}

func publishInBrowser(t *testing.T, p *rig.Shop, v, buyer *visitor) {
	t.Helper()
	v.enter("/console/shops", rig.AdminPhones[0])
	v.submit("shop")
	v.reads(fieldError("shop", "name"), "fill this in")
	v.send("shop", "name", "Harbour kitchen", "area", "Old port")
	v.reads("main", "“Harbour kitchen” was created.")
	v.reads("table", "Harbour kitchen")
	v.click(`tbody tr:first-child a`)
	v.reads("h1", "Harbour kitchen")
	v.send("shop", "address", "Quay 7")
	v.reads("main", "Saved.")
	shop := v.at()[len("/console/shops/"):]
	require.Equal(t, "Quay 7", p.Must(t, rig.Get("/shops/"+shop, ""))["address"])

	// A refused file is explained, and the form keeps the picture that it has.
	v.goTo("/console/new")
	v.upload("soup.png", "image/svg+xml", `"not a picture"`)
	v.reads(fieldError("make", "image_id"), "soup.png is not a JPEG, PNG, WebP or GIF file")
	v.uploadPhoto("soup.png", "image/png", 800, 450, 0)
	v.until(`document.querySelector(".picture img")?.naturalWidth === 800`)
	v.until(`document.querySelector(%q).innerText === ""`, fieldError("make", "image_id"))
	v.upload("soup.png", "image/png", `"not a picture"`)
	v.reads(fieldError("make", "image_id"), "soup.png was refused")
	first := v.fieldValue("make", "image_id")
	require.Regexp(t, `^[0-9a-f]{64}$`, first)
	v.uploadPhoto("soup.png", "image/png", 640, 360, 0) // replaces it
	v.until(`document.querySelector(".picture img")?.naturalWidth === 640`)
	require.NotEqual(t, first, v.fieldValue("make", "image_id"))

	// The form refuses what cannot be meant, with all errors at once.
	begin := time.Now().Add(-time.Minute)
	for field, value := range map[string]string{
		"title": "Soup of the day", "shop_id": shop, "pay_value": "5", "actual_value": "3", "currency": "xxx", "stock": "0",
		"begin_at": local(begin.Add(-time.Hour)), "end_at": local(begin),
	} {
		v.fill("make", field, value)
	}
	v.submit("make")
	v.reads(fieldError("make", "pay_value"), "more than the face value")
	v.reads(fieldError("make", "currency"), "code of a currency")
	v.reads(fieldError("make", "end_at"), "This time is over")
	for field, value := range map[string]string{
		"pay_value": "0", "actual_value": "0", "currency": "cny", "begin_at": local(begin), "end_at": local(begin.Add(2 * time.Hour)),
	} {
		v.fill("make", field, value)
	}
	v.submit("make")

	// The draft is for staff only. Its checklist says what is missing, and leads to the fields.
	v.reads("main .head .chip", "Draft")
	sale := v.at()[len("/console/sales/"):]
	v.checks("shop", "holds")
	v.checks("picture", "holds")
	v.checks("price", "broken")
	v.checks("stock", "broken")
	v.checks("window", "warning") // it has begun
	v.legible(t, "draft")
	v.click(`[data-do="publish"]`)
	v.reads(".summary", "To be fixed: 2.")
	require.False(t, evaluate[bool](v.tab, `Boolean(document.querySelector("dialog"))`))
	buyer.goTo("/")
	buyer.until(`document.querySelector(".empty, li.sale")`)
	require.False(t, evaluate[bool](buyer.tab, fmt.Sprintf(`Boolean(document.querySelector(%q))`, card(sale))))
	v.click(`[data-check="price"] [data-do="fix"]`)
	require.Equal(t, "actual_value", evaluate[string](v.tab, `document.activeElement.name`))
	v.fill("change", "actual_value", "20")
	v.fill("change", "pay_value", "12.50")
	v.click(`[data-do="publish"]`)
	v.reads(".summary", "To be fixed: 2.") // the changes are not saved
	v.submit("change")
	v.checks("price", "holds")
	v.click(`[data-check="stock"] [data-do="fix"]`)
	require.Equal(t, "delta", evaluate[string](v.tab, `document.activeElement.name`))
	v.send("stock", "delta", "4", "reason", "first batch")
	v.checks("stock", "holds")
	for minutes, warning := range map[string]string{
		"0:40": "Time to pay: 40 s is too short", "150": "The sale lasts 120 min, so units that are not paid within 150 min come back",
	} {
		v.send("change", "pay_timeout", minutes)
		v.reads(`[data-check="payment"]`, warning)
	}
	v.send("change", "pay_timeout", "")
	v.checks("payment", "holds") // until then the answer to the change would replace the next summary
	v.reads(".summary", "Ready to publish")
	v.fill("change", "sub_title", "With bread")
	v.click(`[data-do="publish"]`)
	v.reads(".summary", "unsaved changes")
	v.submit("change")
	v.reads("form[data-form=change]", "Saved.")

	// The preview is the page that buyers will see. Others find nothing there.
	preview := v.newTab()
	preview.goTo(evaluate[string](v.tab, `document.querySelector('[data-do="view"]').getAttribute("href")`))
	preview.reads("h1", "Soup of the day")
	preview.reads(card(sale), "12.50", "4 left")
	preview.reads(".details", "Quay 7")
	preview.until(`document.querySelector(%q)?.naturalWidth === 640`, card(sale)+" img.image")
	preview.reads(card(sale), "This is a preview for staff")
	require.False(t, evaluate[bool](preview, canBuy(sale)))
	buyer.goTo("/sales/" + sale + "?preview")
	buyer.reads("main", "Page not found")

	v.click(`[data-do="publish"]`)
	v.reads(dialog, "4 units at ¥12.50 instead of ¥20")
	v.confirm()
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	v.until(`!document.querySelector("[data-check]")?.checkVisibility()`)
	buyer.goTo("/sales/" + sale)
	buyer.until(canBuy(sale))
	buyer.reads(card(sale), "Harbour kitchen")

	// Taken off and published again.
	v.click(`[data-do="unpublish"]`)
	v.confirm()
	v.reads("main .head .chip", "Off sale")
	require.Equal(t, sale, v.publishDraft())
	require.Equal(t, "on", p.Must(t, rig.Get("/vouchers/"+sale, p.Token))["status"])

	// A clone is a new draft with new times and no picture, if that is removed.
	v.click(`a[href="/console/new?from=` + sale + `"]`)
	require.Equal(t, "Soup of the day", v.fieldValue("make", "title"))
	require.Equal(t, shop, v.fieldValue("make", "shop_id"))
	require.Equal(t, "0", v.fieldValue("make", "stock"), "the initial stock")
	v.click(`[data-do="remove-picture"]`)
	v.send("make", "stock", "3")
	v.reads("main .head .chip", "Draft")
	clone := v.at()[len("/console/sales/"):]
	require.NotEqual(t, sale, clone)
	v.checks("picture", "warning")
	require.Equal(t, clone, v.publishDraft())
	made := p.Must(t, rig.Get("/vouchers/"+clone, ""))
	require.Equal(t, "upcoming", made["state"])
	require.NotContains(t, made, "image_id")
	original := p.Must(t, rig.Get("/vouchers/"+sale, ""))
	require.Equal(t, lasts(t, original), lasts(t, made))
	buyer.goTo("/")
	buyer.reads(card(clone), "Soup of the day")
}

// lasts returns how long a sale lasts.
func lasts(t *testing.T, voucher map[string]any) time.Duration {
	t.Helper()
	begin, err := time.Parse(time.RFC3339, voucher["begin_at"].(string))
	require.NoError(t, err)
	end, err := time.Parse(time.RFC3339, voucher["end_at"].(string))
	require.NoError(t, err)
	return end.Sub(begin)
}

// nonsenseShown publishes what no checklist would have accepted, through the API: the page of the sale says so.
func nonsenseShown(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Title: strings.Repeat("word ", 12), PayValue: 500, ActualValue: 300, Stock: 1})
	c.Change(t, sale, map[string]any{"shop_id": "99"})
	v := c.visit(c.URL, "en")
	v.do(chromedp.EmulateViewport(390, 800, chromedp.EmulateMobile, chromedp.EmulateTouch))
	v.enter("/console/sales/"+sale, c.phone)
	v.checks("price", "broken")
	v.checks("shop", "broken")
	require.Less(t, evaluate[float64](v.tab, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom`, editLink(sale))), 800.0,
		"the forms are one press away on a phone")
	v.click(`[data-check="shop"] [data-do="fix"]`)
	v.until(`document.activeElement.name === "shop_id"`)
	v.reads(`form[data-form="change"] [name="shop_id"] option:checked`, "Unknown shop 99")
	v.choose(`form[data-form="change"] [name="shop_id"]`, "1")
	v.submit("change")
	v.reads(fieldError("change", "pay_value"), "more than the face value")
	v.send("change", "pay_value", "2")
	v.confirm() // it is on sale
	v.reads("main", "Saved.")
	v.click(`main header a[href="/console/sales/` + sale + `"]`)
	v.reads(`[data-fact="pay_value"]`, "¥2")
	v.until(`!document.querySelector("[data-check]")?.checkVisibility()`)
}
