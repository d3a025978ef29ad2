package browser

import (
	"embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

func (b *tab) fieldValue(form, field string) string {
	b.t.Helper()
	selector := fmt.Sprintf(`form[data-form=%q] [name=%q]`, form, field)
	b.until(`document.querySelector(%q)`, selector)
	return evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).value`, selector))
}

// editsKept checks that unsaved input survives a save in progress, a change of language and a new session.
func editsKept(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Stock: 5})
	v := c.enter("/console/sales/"+sale+"/edit",
		`window.answer = (a, o, real) => /^PATCH|POST .+\/admin\/vouchers$/.test(a) && real().then((r) => new Promise((go) => { window.release = () => go(r); }))`)

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
	v.reads("[data-gate]", "Your session has ended")
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

	// Leaving the page discards the input. A reload asks before.
	v.fill("change", "title", "third")
	v.do(chromedp.Reload())
	v.expectProblem("a dialog: beforeunload")
	v.until(`document.querySelector("form[data-form=change]")`)
	v.fill("change", "title", "third")
	v.system("/console/audit")
	v.reads("h1", "Audit log")
	v.click(fmt.Sprintf(`tbody a[href="/console/sales/%s"]`, sale))
	v.click(editLink(sale))
	require.Equal(t, "second", v.fieldValue("change", "title"))

	// A draft that is saved late does not lead away from another page.
	v.goTo("/console/new")
	v.send("make", "title", "late")
	v.until(`window.release`)
	v.system("/console/audit")
	v.reads("h1", "Audit log")
	v.run(`release()`)
	v.until(`!sessionStorage.getItem("seckill.open").includes("late")`)
	require.Equal(t, "/console/audit", v.at())

	// An answer for a page that was left takes no part in the edits of the next one.
	order, _ := c.paidOrder(t, rig.NewPhone(), sale)
	c.Must(t, rig.Post("/admin/orders/"+order+"/redeem", c.Token, nil).Keyed("redeem "+order))
	v.goTo("/console/orders/" + order)
	v.until(`document.querySelector("[data-undo]")`)
	require.False(t, evaluate[bool](v.tab, `document.querySelector("main").innerText.includes("can't be changed")`))
	v.run(`window.left = document.querySelector('[data-do="refresh"]');
		window.answer = (a, o, real) => a.endsWith("/admin/orders/%s") && !window.release && new Promise((go) => (window.release = go)).then(real)`, order)
	v.click(`[data-do="refresh"]`)
	v.click(`[data-do="language"]`)
	v.click("[data-undo] summary")
	v.run(`release()`)
	v.until(`!left.matches("[data-busy]")`)
	v.fill("undo-redeem", "reason", "the wrong guest")
	v.click(`[data-do="language"]`)
	v.reads("[data-undo] summary", "Undo")
	require.Equal(t, "the wrong guest", v.fieldValue("undo-redeem", "reason"))

	// A page that is opened while the server does not answer says so. A new sale begins soon, whatever the clock of the device.
	other.before(`{ const real = Date.now; Date.now = () => real() - 48 * 3600_000; }`)
	other.before(`window.answer = (a) => a.endsWith("/auth/refresh") && !window.well && Promise.reject(new TypeError("down"))`)
	other.goTo("/console/new")
	other.reads("[data-gate]", "Cannot reach the server.")
	other.run(`window.well = true`)
	other.until(`document.querySelector("form[data-form=make]")`)
	require.Greater(t, other.fieldValue("make", "begin_at"), local(time.Now()))
}

// staleSnapshotIgnored checks that a message with the voucher from before a change does not revert the page.
func staleSnapshotIgnored(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Stock: 5})
	v := c.enter("/console/sales/"+sale, `{
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
	}`, `window.answer = (a) => a.includes("/stats?") && problem(503, "unavailable")`)
	v.until(`window.old`)
	v.run(`window.late = true`)
	v.does("unpublish", "It can no longer be bought") // the orders cannot be counted now
	v.reads("main .head .chip", "Off sale")
	v.until(`window.updates > %d`, evaluate[int](v.tab, `window.updates`)+2)
	require.Equal(t, "Off sale", v.text("main .head .chip"))
	v.run(`window.late = false`)
	c.Change(t, sale, map[string]any{"title": "later"})
	v.reads("h1", "later")
}

// unconfirmedStockChange loses the answer to a stock change. The page reports that the change may have been applied,
// even after a reload, and a retry does not apply it twice. A different change needs a confirmation.
func unconfirmedStockChange(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Stock: 10})
	v := c.enter("/console/sales/" + sale + "/edit")
	keys := func() []string { return evaluate[[]string](v.tab, `keys`) }
	v.run(`respondWith("/stock", "half")`)
	v.send("stock", "delta", "5", "reason", "lost answers")
	v.reads("form[data-form=stock] .error-box", "The request may have taken effect.")
	first := keys()

	// With another reason the change could be applied twice, so the page asks for confirmation.
	v.send("stock", "reason", "lost answer")
	v.reads(dialog, "5, lost answers")
	v.dismiss()
	require.Equal(t, first, keys())

	// A reload keeps the unconfirmed change.
	v.do(chromedp.Reload())
	v.reads("[data-open]", "was not confirmed and may have been applied")
	require.Equal(t, "5", v.fieldValue("stock", "delta"))
	require.Equal(t, "lost answers", v.fieldValue("stock", "reason"))
	v.run(`respondWith("/stock", "rate_limited")`) // the outcome of the first request remains unknown
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "rate_limited")
	require.Equal(t, first, keys())
	v.until(`!document.querySelector("form[data-form=stock] [data-busy]")`)
	v.do(chromedp.Evaluate[chromedp.Void](`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector("form[data-form=stock] button"))`))
	v.reads("form[data-form=stock]", "Stock updated: 15 left")
	require.Len(t, keys(), 2, "five clicks are one request")
	require.Equal(t, slices.Repeat(first, 2), keys(), "a retry reuses the key")
	require.False(t, evaluate[bool](v.tab, `document.querySelector("[data-open]").checkVisibility()`))

	// A confirmed different change is applied in addition.
	v.run(`respondWith("/stock", "half")`)
	v.send("stock", "delta", "1", "reason", "one")
	v.reads("form[data-form=stock] .error-box", "network")
	v.send("stock", "delta", "2")
	v.confirm()
	v.reads("form[data-form=stock]", "Stock updated: 18 left")
	require.Len(t, slices.Compact(keys()), 2, "a different change has a new key")
}

// summerTime: beside a time stands its offset from UTC. A time that the clocks skip is refused, and one that they repeat is the
// first of both.
func summerTime(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Stock: 5, EndAt: time.Date(2098, 1, 1, 0, 0, 0, 0, time.UTC)})
	v := visit(t, c.URL, "en")
	env.Must(chromedp.Call(v.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"}))(t)
	v.enter("/console/sales/"+sale+"/edit", c.phone)
	v.fill("change", "begin_at", "2027-07-01T12:00")
	v.reads(`form[data-form="change"] [data-field="begin_at"]`, "UTC+02:00")
	v.fill("change", "begin_at", "2027-12-01T12:00")
	v.reads(`form[data-form="change"] [data-field="begin_at"]`, "UTC+01:00")
	v.send("change", "begin_at", "2027-03-28T02:30")
	v.reads(fieldError("change", "begin_at"), "Clocks skip this time")
	v.send("change", "begin_at", "2027-10-31T02:30")
	rig.Eventually(t, "the change", func() bool {
		return c.Must(t, rig.Get("/vouchers/"+sale, ""))["begin_at"] == "2027-10-31T00:30:00Z"
	})
}

func editLink(sale string) string {
	return fmt.Sprintf(`main a[href="/console/sales/%s/edit"]`, sale)
}

// publishDraft publishes the draft that the page shows and returns its id.
func (b *tab) publishDraft() string {
	b.t.Helper()
	b.does("publish")
	b.until(`document.querySelector('[data-do="unpublish"]')?.checkVisibility()`)
	return b.at()[len("/console/sales/"):]
}

// checks waits until points of the checklist have a state: holds, warning or broken. They are given in turn.
func (b *tab) checks(points ...string) {
	b.t.Helper()
	for pair := range slices.Chunk(points, 2) {
		b.until(`document.querySelector('[data-check=%q]')?.dataset.ok === %q`, pair[0], pair[1])
	}
}

// publishInBrowser follows a merchant from a new shop to a sale and its clone.
func publishInBrowser(t *testing.T, c *scene) {
	v, buyer := visit(t, c.URL, "en"), visit(t, c.URL, "en")
	v.enter("/console/shops", c.phone)
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
	require.Equal(t, "Quay 7", c.Must(t, rig.Get("/shops/"+shop, ""))["address"])

	v.goTo("/console/new")
	v.uploadPhoto("soup.png", "image/png", 640, 360, 0)
	v.until(`document.querySelector(".picture img")?.naturalWidth === 640`)

	// The form refuses what cannot be meant, with all errors at once.
	begin := time.Now().Add(-time.Minute)
	v.send("make", "title", "Soup of the day", "shop_id", shop, "pay_value", "5", "actual_value", "3", "stock", "0",
		"begin_at", local(begin.Add(-time.Hour)), "end_at", local(begin))
	v.errors("make", "pay_value", "more than the face value", "end_at", "This time is over")
	v.send("make", "pay_value", "0", "actual_value", "0", "currency", "cny", "begin_at", local(begin), "end_at", local(begin.Add(2*time.Hour)))

	// The draft is for staff only. Its checklist says what is missing, and leads to the fields.
	v.reads("main .head .chip", "Draft")
	sale := v.at()[len("/console/sales/"):]
	v.checks("shop", "holds", "picture", "holds", "price", "broken", "stock", "broken", "window", "warning") // it has begun
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
	v.send("stock", "delta", "+4", "reason", "first batch")
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
	v.fill("stock", "delta", "2")
	v.click(`[data-do="publish"]`)
	v.reads(".summary", "unsaved changes")
	v.send("stock", "delta", "2", "reason", "more")
	v.reads("form[data-form=stock]", "Stock updated: 6 left.")
	v.pressAgain(`[data-do="stock"]`) // would hide that, and ask for the fields that are empty again
	v.reads("form[data-form=stock]", "Stock updated: 6 left.")
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
	preview.reads(card(sale), "12.50", "6 left")
	preview.reads(".details", "Quay 7")
	preview.until(`document.querySelector(%q)?.naturalWidth === 640`, card(sale)+" img.image")
	preview.reads(card(sale), "This is a preview for staff")
	require.False(t, evaluate[bool](preview, canBuy(sale)))
	buyer.goTo("/sales/" + sale + "?preview")
	buyer.reads("main", "Page not found")

	stale := v.newTab()
	stale.goTo("/console/sales/" + sale)
	stale.fill("change", "pay_value", "11")
	v.does("publish", "6 units at ¥12.50 instead of ¥20")
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	v.until(`!document.querySelector("[data-check]")?.checkVisibility()`)
	buyer.goTo("/sales/" + sale)
	buyer.until(canBuy(sale))
	buyer.reads(card(sale), "Harbour kitchen")

	// The page of the draft in another tab asks before it changes the price of what is on sale now.
	stale.submit("change")
	stale.reads(dialog, "from ¥12.50 to ¥11")
	stale.dismiss()

	// Taken off and published again.
	v.does("unpublish")
	v.reads("main .head .chip", "Off sale")
	require.Equal(t, sale, v.publishDraft())
	require.Equal(t, "on", c.Must(t, rig.Get("/vouchers/"+sale, c.Token))["status"])

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
	made := c.Must(t, rig.Get("/vouchers/"+clone, ""))
	require.Equal(t, "upcoming", made["state"])
	require.NotContains(t, made, "image_id")
	require.Equal(t, lasts(t, c.Must(t, rig.Get("/vouchers/"+sale, ""))), lasts(t, made))
	buyer.goTo("/")
	buyer.reads(card(clone), "Soup of the day")
}

func lasts(t *testing.T, voucher map[string]any) time.Duration {
	t.Helper()
	begin := env.Must(time.Parse(time.RFC3339, voucher["begin_at"].(string)))(t)
	return env.Must(time.Parse(time.RFC3339, voucher["end_at"].(string)))(t).Sub(begin)
}

// unusualVouchers changes the demo's voucher that is not a flash sale, and what no checklist would have accepted, which was
// published through the API: the page of the sale says so.
func unusualVouchers(t *testing.T, c *scene) {
	var normal string
	for _, v := range c.Items(t, rig.Get("/vouchers?limit=100", "")) {
		if v["type"] == "normal" {
			normal = v["id"].(string)
		}
	}
	v := c.enter("/console/sales/" + normal + "/edit")
	v.send("change", "sub_title", "changed here")
	v.reads("main", "Saved.")
	require.Equal(t, "changed here", c.Must(t, rig.Get("/vouchers/"+normal, ""))["sub_title"])
	v.send("change", "pay_value", "1000000001")
	v.reads(fieldError("change", "pay_value"), "between 0 and 1,000,000,000")
	require.NotContains(t, v.text("main"), "Saved.")
	v.goTo("/console/sales?tab=all")
	v.expectProblem("a dialog: beforeunload") // the price was not saved
	v.reads(`[data-tab="all"]`, "(1 without a sale)")

	sale := c.Publish(t, rig.Offer{Title: strings.Repeat("word ", 12), PayValue: 500, ActualValue: 300, Stock: 1})
	c.Change(t, sale, map[string]any{"shop_id": "99"})
	v.goTo("/console/sales/" + sale)
	v.checks("price", "broken", "shop", "broken")
	v.click(`[data-check="shop"] [data-do="fix"]`)
	v.until(`document.activeElement.name === "shop_id"`)
	v.reads(`form[data-form="change"] [name="shop_id"] option:checked`, "Unknown shop 99")
	v.send("change", "shop_id", "1")
	v.reads(fieldError("change", "pay_value"), "more than the face value")
	v.send("change", "pay_value", "0", "actual_value", "0")
	v.reads(fieldError("change", "actual_value"), "The face value is 0")
	v.send("change", "pay_value", "2", "actual_value", "3")
	v.confirm() // it is on sale
	v.reads("main", "Saved.")
	v.click(`main header a[href="/console/sales/` + sale + `"]`)
	v.reads(`[data-fact="pay_value"]`, "¥2")
	v.until(`!document.querySelector("[data-check]")?.checkVisibility()`)
}

// upload chooses a file in the picture field of the form of a new sale. content is an expression of its bytes, or of a promise of
// them.
func (b *tab) upload(name, kind, content string) {
	b.t.Helper()
	b.until(`document.querySelector('form[data-form=make] input[type=file]')`)
	_ = evaluate[bool](b, fmt.Sprintf(`(async () => {
		const chosen = new DataTransfer();
		chosen.items.add(new File([await %s], %q, { type: %q }));
		const input = document.querySelector('form[data-form=make] input[type=file]');
		input.files = chosen.files;
		return input.dispatchEvent(new Event("change"));
	})()`, content, name, kind))
}

// uploadPhoto chooses a picture of two halves, red and blue. Noise in it makes the file large.
func (b *tab) uploadPhoto(name, kind string, width, height int, noise float64) {
	b.t.Helper()
	b.upload(name, kind, fmt.Sprintf(`(() => {
		const canvas = new OffscreenCanvas(%d, %d);
		const brush = canvas.getContext("2d");
		brush.fillStyle = "#f00";
		brush.fillRect(0, 0, canvas.width / 2, canvas.height);
		brush.fillStyle = "#00f";
		brush.fillRect(canvas.width / 2, 0, canvas.width / 2, canvas.height);
		const high = Math.round(canvas.height * %g);
		if (high > 0) {
			const noise = brush.createImageData(canvas.width, high);
			const bytes = new Uint32Array(noise.data.buffer);
			for (let i = 0, n = 1; i < bytes.length; i++) bytes[i] = 0xff000000 | (n = (n * 1664525 + 1013904223) >>> 0) >>> 8;
			brush.putImageData(noise, 0, 0);
		}
		return canvas.convertToBlob({ type: %q, quality: 0.95 });
	})()`, width, height, noise, kind))
}

// sideways has pictures of 2000 × 1000 pixels, half red and half blue, whose EXIF metadata says that the left side is up.
//
//go:embed testdata/sideways.*
var sideways embed.FS

// picturesInBrowser uploads the photographs of phones through a proxy that accepts 1 MB, as nginx does unless told
// otherwise.
// Source: nextcloud/helm#485, go-skynet/helm-charts#47, nginx/kubernetes-ingress#21.
func picturesInBrowser(t *testing.T, c *scene) {
	f := startFront(t, c.URL)
	f.MaxBody = 1 << 20
	v := visit(t, f.URL, "en")
	v.enter("/console/new", c.phone)
	shows := func(width, height int) { // or less of both, which the server chooses for noise
		v.until(`((image) => image.naturalHeight > 0 && image.naturalWidth <= %d && image.naturalHeight <= %d &&
			Math.abs(image.naturalWidth / image.naturalHeight - %[1]d / %[2]d) < 0.01)(document.querySelector(".picture img"))`, width, height)
		v.until(`document.querySelector(%q).innerText === ""`, fieldError("make", "image_id"))
	}
	v.uploadPhoto("photo.jpg", "image/jpeg", 8064, 6048, 0)
	shows(1280, 960)
	v.uploadPhoto("photo.jpg", "image/jpeg", 2000, 2200, 1) // 5 MB
	shows(1164, 1280)
	v.uploadPhoto("photo.jpg", "image/png", 1000, 500, 0.9) // 1.4 MB, of few pixels
	shows(1000, 500)

	// A refused file is explained, and the form keeps the picture that it has.
	v.upload("soup.png", "image/svg+xml", `"not a picture"`)
	v.reads(fieldError("make", "image_id"), "soup.png is not a JPEG, PNG, WebP or GIF file")
	v.upload("soup.png", "image/png", `"not a picture"`)
	v.reads(fieldError("make", "image_id"), "soup.png was refused")
	require.Regexp(t, `^[0-9a-f]{64}$`, v.fieldValue("make", "image_id"))

	// A large file that lies on its side stands upright, whether the browser turns its format or the server does.
	for _, kind := range []string{"jpeg", "png", "webp"} {
		file := append(env.Must(sideways.ReadFile("testdata/sideways."+kind))(t), make([]byte, 950_000)...)
		v.upload("sideways", "image/"+kind, fmt.Sprintf(`Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))`, base64.StdEncoding.EncodeToString(file)))
		t.Log(kind)
		shows(640, 1280)
		v.uploadPhoto("photo.jpg", "image/webp", 640, 360, 0)
		shows(640, 360)
	}

	// A proxy that accepts less than the page sends is named, and the picture stays.
	strictFront := startFront(t, c.URL)
	strictFront.MaxBody = 10 << 10
	strict := visit(t, strictFront.URL, "en")
	strict.enter("/console/new", c.phone)
	strict.uploadPhoto("photo.jpg", "image/jpeg", 2000, 2200, 1)
	strict.reads(fieldError("make", "image_id"), "A proxy in front of the server does not accept a file of this size")

	// So is an answer that is not the server's, such as the login page of a network.
	strict.run(`const { fetch } = window; window.fetch = (url, o) => url.endsWith("/admin/images") ? fetch("/") : fetch(url, o)`)
	strict.uploadPhoto("photo.jpg", "image/jpeg", 64, 36, 0)
	strict.reads(fieldError("make", "image_id"), "Cannot reach the server.")
}
