package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// consolePage is a page of the console with the selector of an element that shows that it is ready.
type consolePage struct{ path, ready string }

// pagesOf returns all pages of the console, including those of the given sale and order.
func pagesOf(sale, order string) []consolePage {
	return []consolePage{
		{"/console", "[data-home]"}, {"/console/sales?tab=all", "tbody tr"}, {"/console/redeem", "form[data-form=redeem]"}, {"/console/new", "form[data-form=make]"}, {"/console/sales/" + sale, `[data-do="unpublish"]`}, {"/console/sales/" + sale + "/edit", "form[data-form=stock]"},
		{"/console/shops", "tbody tr"}, {"/console/shops/1", "form[data-form=shop]"},
		{"/console/orders", "tbody tr"}, {"/console/orders/" + order, "[data-status]"}, {"/console/letters", ".empty"}, {"/console/events", ".empty"},
		{"/console/reconcile", ".summary"}, {"/console/audit", "tbody tr"}, {"/console/rush", "h1"},
	}
}

// ready waits until a page has loaded its data.
func (b *tab) ready(selector string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility() && !document.querySelector("[data-gate], [aria-busy=true], [data-busy]") && !document.querySelector("main").innerText.includes("Loading…")`, selector)
}

// consoleLanguages searches every page in Chinese for text in English. A missing text is an exception, which fails the
// test. Both languages have the same texts.
func consoleLanguages(t *testing.T, c *consoleTest) {
	token := c.LoginToken(t, rig.NewPhone())
	sale := c.Publish(t, rig.Offer{Title: "秒杀", Stock: 5})
	order := c.Buy(t, token, sale)
	c.Must(t, rig.Patch("/admin/shops/1", c.Token, map[string]any{"name": "茶餐厅"})) // whatever the demo calls it
	v := c.visit(c.URL, "zh-CN,zh")
	v.enter("/console", c.phone)
	latin := `(() => {
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		const found = [];
		while (walk.nextNode()) {
			const el = walk.currentNode.parentElement;
			if (el.checkVisibility() && !el.closest("noscript, td, tbody, dd, [data-home] a, [data-preview], [data-do=language], code, .invariants .detail, .reference") && /[a-z]{4}/.test(walk.currentNode.data)) found.push(walk.currentNode.data);
		}
		// The demo's shops have names in both languages.
		return found.filter((text) => !/SECKILL_|ISO 4217|seckill rush|UTC|Redis|^p(50|99)|\p{Script=Han} · [A-Z]/u.test(text));
	})()`
	for _, page := range pagesOf(sale, order.ID) {
		v.goTo(page.path)
		v.ready(page.ready)
		require.Regexp(t, `\p{Han}`, v.text("main"), page.path)
		require.Empty(t, evaluate[[]string](v.tab, latin), page.path)
		v.fitsPhone(t, page.path)
	}

	// A message of the server in English is shown beside its translation.
	v.goTo("/console/sales/" + sale)
	v.reads(`[data-invariant="I5"] .note`, "未售出的库存均可购买")
	v.reads(`[data-invariant="I5"] .detail`, "4 ")
	c.Must(t, rig.Post("/admin/vouchers/"+sale+"/stock", c.Token, map[string]any{"delta": 1, "reason": "x; status: off -> on"}))
	c.Change(t, sale, map[string]any{"status": "off"})
	v.goTo("/console/audit?voucher_id=" + sale)
	v.reads("table", "状态：已发布 → 已下架")
	v.reads("table", "+1: x; status: off -> on") // a text of staff looks like no other change
	v.goTo("/console/new")
	for field, value := range map[string]string{"title": "秒杀", "shop_id": "1", "pay_value": "1", "actual_value": "2", "stock": "1", "currency": "QQQ"} {
		v.fill("make", field, value)
	}
	v.submit("make")
	v.reads(fieldError("make", "currency"), "须为 ISO 4217 中的货币")
	v.reads(errorBox, "invalid_request")
	require.Empty(t, evaluate[[]string](v.tab, latin), "the server's words are English")
	v.goTo("/console/rush")
	v.click(`[data-do="language"]`)
	v.reads("h1", "Load simulation")

	same := evaluate[map[string]map[string]string](v.tab,
		`import(document.querySelector("script[src*='main.']").src.replace("main.bundle.js", "texts.js")).then((m) => m.default)`)
	requireSameTexts(t, same)
}

// consoleAccessible requires that the pages are accessible, and checks the focus.
func consoleAccessible(t *testing.T, c *consoleTest) {
	token := c.LoginToken(t, rig.NewPhone())
	sale := c.Publish(t, longOffer)
	order := c.Buy(t, token, sale)
	v := c.visit(c.URL, "en")
	v.goTo("/console")
	v.click(`[data-do="enter"]`)
	v.until(`document.querySelector("dialog[open]")`)
	v.legible(t, "login")
	require.False(t, evaluate[bool](v.tab, `document.querySelector("[data-alerts]").checkVisibility()`), "no alert before the login")
	v.login(c.phone)
	for _, page := range pagesOf(sale, order.ID) {
		v.goTo(page.path)
		v.ready(page.ready)
		v.legible(t, page.path)
		require.Empty(t, evaluate[[]string](v.tab, unlabelled), page.path)
		v.fitsPhone(t, page.path)
	}
	v.tabTo("#nav summary")
	v.key("\r")
	v.until(`document.querySelector('#nav a[href="/console/audit"]').checkVisibility()`)
	v.legible(t, "menu")
	v.key(kb.Escape)
	v.until(`document.activeElement === document.querySelector("#nav summary") && !document.querySelector('#nav a[href="/console/audit"]').checkVisibility()`)
	v.click(`[data-do="account"]`)
	v.legible(t, "account")
	v.dismiss()
	v.goTo("/console/sales/" + sale)
	v.click("[data-technical] summary")
	v.until(`document.querySelectorAll(".plot canvas").length === 8`)
	v.legible(t, "technical")
	v.fitsPhone(t, "technical")
	v.goTo("/console/new")
	v.click(advanced)
	v.submit("make")
	v.legible(t, "errors")
	require.Equal(t, "true", evaluate[string](v.tab, `document.querySelector("[name=title]").ariaInvalid`))
	v.goTo("/console/orders/" + order.ID)
	v.tabTo(`[data-do="cancel"]`) // with the keyboard
	v.key("\r")
	v.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
	v.key("\x1b")
	v.until(`document.activeElement?.dataset.do === "cancel"`)
}

// unlabelled is an expression that lists visible fields without a visible label, headings that skip a level, duplicate
// ids and references to missing ids.
const unlabelled = `[
	...[...document.querySelectorAll("input, select, textarea")].filter((f) => !f.closest("[hidden], details:not([open])") && !f.labels[0]?.checkVisibility()).map((f) => "no label: " + f.name),
	...[...document.querySelectorAll("h1, h2, h3")].filter((h, i, all) => h.tagName[1] - (all[i - 1]?.tagName[1] ?? 0) > 1).map((h) => "level: " + h.innerText),
	...[...document.querySelectorAll("[id]")].filter((el) => document.querySelectorAll("#" + CSS.escape(el.id)).length > 1).map((el) => "twice: " + el.id),
	...[...document.querySelectorAll("[aria-describedby], [aria-labelledby]")].flatMap((el) => ["aria-describedby", "aria-labelledby"].flatMap((a) => (el.getAttribute(a) ?? "").split(" ").filter((id) => id && !document.getElementById(id)))).map((id) => "nothing with id " + id),
]`
