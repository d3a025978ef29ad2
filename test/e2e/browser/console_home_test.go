package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// advanced opens the folded fields of a voucher's form.
const advanced = `[data-group="advanced"] summary`

// redeemerPhone is the redeemer of a demo.
const redeemerPhone = "13800000012"

// system follows a link of the menu System.
func (b *tab) system(path string) {
	b.t.Helper()
	b.click("#nav summary")
	b.click(fmt.Sprintf(`#nav a[href=%q]`, path))
}

// homeFigures: the first page has the money of the running sales, and what is to be done.
func homeFigures(t *testing.T, c *consoleTest) {
	s := c.Stack.Fresh(t).WithAdmins()
	p := s.Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Title: "Two coffees", Stock: 8, PayValue: 1250, ActualValue: 2000})
	for i, token := range s.Tokens(t, 3) {
		o := p.Buy(t, token, sale)
		if i > 0 {
			require.Equal(t, http.StatusOK, p.Do(t, rig.Pay(o.ID, token)).Status)
			p.WaitFor(t, token, o.ID, "paid")
		}
	}
	soon := p.Publish(t, rig.Offer{Title: "Soon", Stock: 1, BeginAt: time.Now().Add(time.Hour), EndAt: time.Now().Add(9 * time.Hour)})
	for i := range 5 {
		p.Publish(t, rig.Offer{Title: "Later", Stock: 1, BeginAt: time.Now().Add(time.Duration(i+2) * time.Hour), EndAt: time.Now().Add(9 * time.Hour)})
	}
	draft := p.Must(t, rig.Post("/admin/vouchers", p.Token, map[string]any{"status": "draft", "title": "Breakfast", "limit_per_user": 1}))["id"].(string)

	v := c.visit(p.URL, "en")
	v.enter("/console", c.phone)
	running := fmt.Sprintf(`.running [data-voucher=%q]`, sale)
	v.reads(running, "Two coffees", "¥25", "3 of 8")
	v.reads(running+` [data-fact="money.paid"]`, "2")
	v.reads(running+` [data-fact="money.unpaid"]`, "1")
	v.reads(running+` [data-fact="money.conversion"]`, "66.7%")
	v.reads(".todo", "Breakfast – lacks a shop, a face value, a time, units")
	v.until(`document.querySelector('.briefly a[href="/console/sales/%s"]')`, soon)
	require.Equal(t, 5, evaluate[int](v.tab, `document.querySelector(".briefly").children.length`))
	require.True(t, evaluate[bool](v.tab, `document.querySelector(".todo").getBoundingClientRect().bottom < document.querySelector(".running").getBoundingClientRect().top`))
	v.legible(t, "home")

	// The same figures are the first of the sale's page.
	v.click(running + " a")
	v.reads("h1", "Two coffees")
	v.reads(".live .panel", "¥25", "3 of 8")
	v.click(`[data-do="unpublish"]`)
	v.reads(dialog, "1 unpaid order and 2 paid orders stay valid")
	v.dismiss()
	v.click(`#nav a[href="/console"]`)
	v.click(fmt.Sprintf(`.todo a[href="/console/sales/%s"]`, draft))
	v.checks("shop", "broken")
}

// draftsInBrowser: a title is enough for a draft, which the list shows at once, and which can be deleted.
func draftsInBrowser(t *testing.T, c *consoleTest) {
	title := "An idea " + rig.NewPhone()
	v := c.visit(c.URL, "en")
	v.enter("/console/sales", c.phone)
	v.click(`a[href="/console/new"]`)
	v.send("make", "title", title)
	v.reads("main .head .chip", "Draft")
	v.reads("[data-preview]", title)
	for _, point := range []string{"shop", "price", "stock"} {
		v.checks(point, "broken")
	}
	draft := v.at()[len("/console/sales/"):]

	// The preview follows the form.
	v.fill("change", "pay_value", "6")
	v.fill("change", "actual_value", "12")
	v.choose(`form[data-form="change"] [name="shop_id"]`, "1")
	v.reads("[data-preview]", "¥6", "¥12", "−50%")
	v.click(`[data-do="language"]`)
	v.reads("[data-preview] .off", "5 折")
	v.click(`[data-do="language"]`)
	v.fill("change", "valid_from", "2098-05-01T10:00")
	v.fill("change", "valid_until", "2098-05-01T09:00")
	v.submit("change")
	v.reads(fieldError("change", "valid_until"), "after the start")
	v.send("change", "valid_until", "2098-06-01T09:00")
	v.reads("form[data-form=change]", "Saved.")
	v.checks("price", "holds")
	stored := c.Must(t, rig.Get("/vouchers/"+draft, c.Token))
	require.Contains(t, stored["valid_from"], "2098-05-01")
	require.Contains(t, stored["valid_until"], "2098-06-01")
	v.send("change", "valid_from", "")
	rig.Eventually(t, "the change", func() bool { return c.Must(t, rig.Get("/vouchers/"+draft, c.Token))["valid_from"] == nil })

	v.goTo("/console/sales?tab=drafts")
	v.until(`document.querySelector('tbody a[href="/console/sales/%s"]')`, draft)
	v.goTo("/console/sales/" + draft)
	v.click(`[data-do="delete"]`)
	v.reads(dialog, title)
	v.dismiss()
	v.click(`[data-do="delete"]`)
	v.confirm()
	v.until(`location.search === "?tab=drafts" && document.querySelector(".listing")?.ariaBusy !== "true" && !document.querySelector('tbody a[href="/console/sales/%s"]')`, draft)
	require.Equal(t, http.StatusNotFound, c.Do(t, rig.Get("/vouchers/"+draft, c.Token)).Status)
	v.goTo("/console/audit")
	v.reads("table", "Draft deleted", title)
}

// cashierLands: the only page of a cashier is the first one, whatever address is opened, and reads codes by the camera.
func cashierLands(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Title: "Soup", Stock: 5})
	o, token := c.paidOrder(t, rig.NewPhone(), sale)
	code := c.Must(t, rig.Get("/orders/"+o.ID, token))["redeem_code"].(string)
	shop := c.Must(t, rig.Get("/orders/"+o.ID, token))["shop_name"].(string)
	v := c.visit(c.URL, "en")
	v.before(fmt.Sprintf(`{
		window.BarcodeDetector = class {
			static getSupportedFormats = async () => ["qr_code"];
			detect = async () => [{ rawValue: %q }];
		};
		Object.defineProperty(navigator, "mediaDevices", { value: {
			enumerateDevices: async () => [{ kind: "videoinput" }],
			getUserMedia: async () => { // as a camera, with a picture that moves
				const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 9 });
				const brush = canvas.getContext("2d");
				setInterval(() => brush.fillRect(0, 0, 16, 9), 50);
				return (window.stream = canvas.captureStream());
			},
		} });
	}`, code))
	v.enter("/console", redeemerPhone)
	v.reads("h1", "Redeem")
	require.Equal(t, "/console/redeem", v.at())
	require.Equal(t, "Redeem", v.text("#nav"))
	v.until(hasFocus(codeField)) // of a scanner, which types where the focus is
	v.goTo("/console/audit")
	v.until(`location.pathname === "/console/redeem" && document.querySelector("form[data-form=redeem]")`)
	v.legible(t, "redeem")
	v.fitsPhone(t, "redeem")

	v.click(`[data-do="scan"]`)
	v.reads("[data-redemption] .shop", shop)
	v.reads("[data-redemption]", "Soup", "Paid")
	require.True(t, evaluate[bool](v.tab, `stream.getTracks().every((track) => track.readyState === "ended")`), "the camera is off again")
	v.until(`document.activeElement?.dataset.do === "use-code"`)
	v.key("\r")
	v.reads("main", "“Soup” has been redeemed")
	c.WaitFor(t, token, o.ID, "redeemed")
	v.send("redeem", "code", strings.ToLower(code))
	v.reads("[data-redemption] .verdict", "Already redeemed on")
}

// counterRefuses: a code of another shop, and one that is not valid yet or any more, are refused with the reason.
func counterRefuses(t *testing.T, c *consoleTest) {
	sale := c.Publish(t, rig.Offer{Title: "Soup", Stock: 5})
	o, token := c.paidOrder(t, rig.NewPhone(), sale)
	code := c.Must(t, rig.Get("/orders/"+o.ID, token))["redeem_code"].(string)
	v := c.visit(c.URL, "en")
	v.before(`{
		const original = window.fetch;
		window.fetch = async (url, options) => {
			const answer = await original(url, options);
			if (!url.endsWith("/admin/redeem/preview")) return answer;
			if (window.elsewhere) return new Response(JSON.stringify({ code: "forbidden", status: 403, shop_name: "Tea: house" }), { status: 403 });
			const body = await answer.json();
			Object.assign(body.order, window.validity);
			return new Response(JSON.stringify(body));
		};
	}`)
	v.enter("/console/redeem", redeemerPhone)
	check := func(js string, want ...string) {
		t.Helper()
		v.run("%s", js)
		v.send("redeem", "code", code)
		v.reads("[data-redemption]", want...)
		v.until(`document.querySelector("[data-redemption]").dataset.verdict === "no" && !document.querySelector('[data-do="use-code"]')`)
	}
	check(`window.elsewhere = true`, "Tea: house", "This is a voucher of another shop.")
	check(`window.elsewhere = false; window.validity = { valid_from: "2098-05-01T00:00:00Z", valid_until: "2099-05-01T00:00:00Z" }`, "Soup", "Not valid before", "2098", "2099")
	check(`window.validity = { valid_until: "2020-05-01T00:00:00Z" }`, "Soup", "Expired on", "2020")
	v.legible(t, "refused")
	v.run(`window.validity = { valid_from: "2020-05-01T00:00:00Z", valid_until: "2099-05-01T00:00:00Z" }`)
	v.send("redeem", "code", code)
	v.until(`document.activeElement?.dataset.do === "use-code"`)
}
