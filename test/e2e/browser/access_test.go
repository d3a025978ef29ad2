package browser

import (
	_ "embed"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// languages covers the language of the browser and the choice of another one.
func languages(t *testing.T, p *scene) {
	sale := p.Publish(t, longOffer)
	zh := visit(t, p.URL, "zh-TW,zh")
	zh.goTo("/")
	zh.reads("h1", "限时秒杀")
	zh.reads(buyOf(sale), "立即抢购")
	require.Equal(t, "zh-CN", evaluate[string](zh.tab, `document.documentElement.lang`))
	zh.buy(sale, rig.NewPhone())
	zh.reads(card(sale), "抢到了", "内完成支付")
	zh.fitsPhone(t, "bought")
	zh.click(`[data-do="language"]`)
	zh.reads("h1", "Flash sales")
	zh.reads(card(sale), "You got it!")
	require.Equal(t, "en", evaluate[string](zh.tab, `document.documentElement.lang`))
	require.Equal(t, "language", evaluate[string](zh.tab, `document.activeElement.dataset.do`), "the focus is kept")
	zh.goTo("/orders")
	zh.reads("h1", "My orders")     // the choice is stored
	zh.reads("#account", "Log out") // and the header is rendered in it
	zh.click(`[data-do="language"]`)
	zh.reads("h1", "我的订单")
}

// keyboardOnly completes a purchase without a mouse.
func keyboardOnly(t *testing.T, p *scene) {
	sale := p.Publish(t, rig.Offer{Stock: 5})
	v := p.shopping(sale)
	v.key(kb.Tab)
	require.Equal(t, "skip", evaluate[string](v.tab, `document.activeElement.id`), "the first link skips the header")
	v.key(kb.Enter)
	v.buyByKeyboard(sale)
	v.until(`document.activeElement === document.querySelector(%q)`, linkOf(sale)) // focus moves to the button's replacement
	v.reads("#live", "You got it!")
	v.key(kb.Enter)
	v.until(`document.activeElement?.tagName === "H1"`)
	v.tabTo(`li.order [data-do="cancel"]`)
	v.key(kb.Enter)
	v.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
	v.key(kb.Escape)
	v.until(`document.activeElement?.dataset.do === "cancel"`) // focus returns to the button
	v.tabTo(payIt)
	v.key(kb.Enter)
	v.tabTo(dialog + " button.primary")
	v.key(kb.Enter)
	v.orderIs("paid")
	v.until(`document.activeElement?.tagName === "H2"`) // the button is gone: focus stays on the order
	v.reads("#live", "Paid")
	v.reads("#live", "You got it!") // no later sentence replaces one that is not read yet

	// The header stays at the top, and hides no element that gets the focus (WCAG 2.2, 2.4.11).
	for range 8 { // more than fit on the screen
		sale = p.Publish(t, rig.Offer{Stock: 5})
	}
	v.goTo("/")
	v.until(canBuy(sale))
	require.Empty(t, evaluate[[]string](v.tab, `[...document.querySelectorAll("main button, main a")].filter((b) => b.checkVisibility()).reverse().filter((b) => {
		b.focus();
		const [line] = b.getClientRects(), found = document.elementFromPoint(line.x + line.width / 2, line.y + line.height / 2);
		return !b.contains(found);
	}).map((b) => b.outerHTML)`))
}

// buyByKeyboard presses the button of a sale and logs a new user in, without a mouse.
func (b *tab) buyByKeyboard(sale string) {
	b.t.Helper()
	b.tabTo(buyOf(sale))
	b.key(kb.Enter)
	b.loginByKeyboard(rig.NewPhone())
}

func (b *tab) loginByKeyboard(phone string) {
	b.t.Helper()
	b.until(`document.activeElement?.name === "phone"`)
	b.key(phone)
	b.key(kb.Enter)
	b.until(`document.activeElement?.name === "code" && document.activeElement.value.length === 6`)
	b.key(kb.Enter)
}

// tabTo presses Tab until an element has the focus, and requires a visible focus outline.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 200 { // a list of 30 sales has three links each
		if evaluate[bool](b, fmt.Sprintf(`document.activeElement === document.querySelector(%q)`, selector)) {
			require.Equal(b.t, "solid", evaluate[string](b, `getComputedStyle(document.activeElement).outlineStyle`))
			return
		}
		b.key(kb.Tab)
	}
	b.t.Fatalf("the keyboard does not reach %s", selector)
}

// longOffer has the longest texts and numbers.
var longOffer = rig.Offer{
	Title: strings.Repeat("Averylongwordwithoutanyspace", 3), SubTitle: "副标题", Rules: strings.Repeat("每人限购一份。", 20),
	PayValue: 9999999999, ActualValue: 10000000000, Stock: 1000000,
}

// accessible requires that the page is legible, and fits a phone.
func (b *tab) accessible(t *testing.T, what string) {
	t.Helper()
	b.legible(t, what)
	b.fitsPhone(t, what)
}

// fitsPhone requires that the page does not scroll horizontally on a phone, and shows all digits of its prices and times. 160 is one
// of 320 with text of twice the size. At 1200, letters, words and lines are as far apart as WCAG 1.4.12 asks.
func (b *tab) fitsPhone(t *testing.T, what string) {
	t.Helper()
	for _, width := range []int64{160, 320, 390, 1200} {
		digits := ".price strong, .clock .time"
		if width == 1200 {
			digits += ", .price s"
			b.run(`const sheet = new CSSStyleSheet();
				sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important }");
				document.adoptedStyleSheets = [sheet]`)
		}
		b.do(chromedp.EmulateViewport(width, 800, chromedp.EmulateMobile, chromedp.EmulateTouch))
		require.LessOrEqual(t, evaluate[int64](b, `document.documentElement.scrollWidth`), width, what)
		require.Empty(t, evaluate[[]string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].filter((part) => {
			const range = document.createRange();
			range.selectNodeContents(part);
			const [{ right, bottom }, box] = [range, part.parentElement].map((of) => of.getBoundingClientRect());
			return right > box.right + 1 || bottom > box.bottom + 2;
		}).map((part) => part.innerText)`, digits)), "%s, %d", what, width)
	}
	b.run(`document.adoptedStyleSheets = []`)
	b.do(chromedp.EmulateViewport(1200, 900))
}

//go:embed testdata/vendor/axe-core/axe.min.js
var axe string

// violations is an expression for what axe-core finds on the page: rule, element and reason. In dark mode only colours
// differ. The element of Swagger UI is left out.
const violations = `axe.run({ exclude: ["#api"] }, {
	resultTypes: ["violations"], runOnly: matchMedia("(prefers-color-scheme: dark)").matches ? ["color-contrast"] : undefined,
}).then((r) => r.passes.length === 0 ? ["no rule was applied"] : r.violations.flatMap((v) => v.nodes.map((n) => v.id + ", " + n.target + ": " + n.failureSummary)))`

// accessible requires that the pages of a purchase are accessible. The languages differ only in their texts, which
// TestTextsAreInBothLanguages of package web compares.
func accessible(t *testing.T, p *scene) {
	later := p.Publish(t, rig.Offer{Title: "later", Stock: 5, BeginAt: time.Now().Add(time.Hour)})
	over := p.Publish(t, rig.Offer{Title: "over", Stock: 5, EndAt: time.Now().Add(-time.Minute)})
	sale := p.Publish(t, longOffer)
	v := p.shopping(sale)
	v.click(`[data-do="past"]`)
	v.until(`document.querySelector(%q)`, card(over))
	v.accessible(t, "sales")
	v.emulate("forced-colors", "active")
	require.True(t, evaluate[bool](v.tab, fmt.Sprintf(`(() => {
		const style = (selector) => getComputedStyle(document.querySelector(selector));
		return style(%q).color !== style(%q).color &&
			style(".slots [aria-pressed=true]").backgroundColor !== style(".slots [aria-pressed=false]").backgroundColor;
	})()`, buyOf(later), buyOf(sale))), "what cannot be pressed, and what is chosen")
	v.prefers("light")
	v.click(buyOf(sale))
	v.until(`document.querySelector("dialog[open]")`)
	v.accessible(t, "login")
	v.login(rig.NewPhone())
	v.bought(sale)
	v.accessible(t, "bought")
	v.click(linkOf(sale))
	v.orderIs("pending_payment")
	v.accessible(t, "order")
	v.click(payIt)
	v.legible(t, "payment step")
	v.click(dialog + " button.primary")
	v.until(`document.querySelector("svg.qr")?.checkVisibility()`)
	v.accessible(t, "paid")
	env.Must(chromedp.Call(v.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))(t)
	for part, printed := range map[string]bool{".pass": true, ".terms": true, ".top": false, ".order .actions": false, "footer": false} {
		require.Equal(t, printed, evaluate[bool](v.tab, fmt.Sprintf(`document.querySelector(%q).checkVisibility()`, part)), part)
	}
	v.prefers("light")
	v.goTo("/sales/" + sale)
	v.bought(sale)
	v.accessible(t, "sale")
	v.goTo("/sales/" + over)
	v.reads(buyOf(over), "Ended")
	require.NotContains(t, v.text(".details"), "What happens next")
	v.do(chromedp.Navigate(v.url + "/nope"))
	v.reads("h1", "Page not found")
	v.legible(t, "unknown address")
	v.goTo("/problems")
	v.legible(t, "problems")
	evaluate[any](v.tab, `document.querySelector("main").append(document.createElement("img")); null`)
	require.NotEmpty(t, evaluate[[]string](v.tab, violations), "an image without a text is found")
	v.expectProblem("404")
}

// legible requires that axe-core finds no violation in light and dark mode: names of controls, contrast, roles, headings,
// landmarks and the like.
func (b *tab) legible(t *testing.T, what string) {
	t.Helper()
	evaluate[any](b, axe+"; null")
	for _, scheme := range []string{"dark", "light"} {
		b.prefers(scheme)
		require.Empty(t, evaluate[[]string](b, violations), "%s, %s", what, scheme)
	}
}

// prefers sets the colour scheme of the browser. It also asks for reduced motion.
func (b *tab) prefers(scheme string) {
	b.t.Helper()
	b.emulate("prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
}

// emulate sets media features, given by names and values in turn, and no others.
func (b *tab) emulate(namesAndValues ...string) {
	b.t.Helper()
	var features []*emulation.MediaFeature
	for pair := range slices.Chunk(namesAndValues, 2) {
		features = append(features, &emulation.MediaFeature{Name: pair[0], Value: pair[1]})
	}
	env.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}))(b.t)
}

// demoAccounts logs in to the accounts that the dialog of a demo offers, with one click each, and follows the link to the
// documentation.
func demoAccounts(t *testing.T, p *scene) {
	v := visit(t, p.URL, "zh-CN")
	v.goTo("/")
	choose := func(role string) {
		v.click(`[data-do="login"]`)
		v.click(dialog + fmt.Sprintf(` [data-role=%q]`, role))
		v.until(`!document.querySelector("dialog") && document.querySelector('[data-do="logout"]')`)
	}
	for role, console := range map[string]bool{"buyer": false, "viewer": true, "redeemer": true, "operator": true, "admin": true} {
		choose(role)
		v.until(`Boolean(document.querySelector('#nav a[href="/console"]')) === %t`, console)
		v.click(`[data-do="logout"]`)
		v.until(`document.querySelector('[data-do="login"]')`)
	}
	choose("viewer")
	v.click(`#more a[href="/console"]`)
	v.reads("h1", "首页")
	v.click(`#more a[href="/docs?lang=zh"]`)
	v.reads("h1", "接口文档")
	v.click(`nav a[href="/problems?lang=zh"]`)
	v.reads("h1", "错误码")
}

// pagesOf returns the paths of all pages of the console, including those of the given sale and order, each with the selector of an
// element that shows that it is ready.
func pagesOf(sale, order string) map[string]string {
	return map[string]string{
		"/console": "[data-home]", "/console/sales?tab=all": "tbody tr", "/console/redeem": "form[data-form=redeem]", "/console/new": "form[data-form=make]", "/console/sales/" + sale: `[data-do="unpublish"]`, "/console/sales/" + sale + "/edit": "form[data-form=stock]",
		"/console/shops": "tbody tr", "/console/shops/1": "form[data-form=shop]",
		"/console/orders": "tbody tr", "/console/orders/" + order: "[data-status]", "/console/dead-letters": ".empty", "/console/events": ".empty",
		"/console/reconcile": ".summary", "/console/audit": "tbody tr", "/console/rush": "h1",
	}
}

// ready waits until a page has loaded its data.
func (b *tab) ready(selector string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility() && !document.querySelector("[data-gate], [aria-busy=true], [data-busy]") && !document.querySelector("main").innerText.includes("Loading…")`, selector)
}

// consoleLanguages searches every page in Chinese for text in English. A missing text is an exception, which fails the
// test. TestTextsAreInBothLanguages of package web compares them.
func consoleLanguages(t *testing.T, c *scene) {
	token := c.LoginToken(t, rig.NewPhone())
	sale := c.Publish(t, rig.Offer{Title: "秒杀", Stock: 5})
	order := c.Buy(t, token, sale)
	c.Must(t, rig.Patch("/admin/shops/1", c.Token, map[string]any{"name": "茶餐厅"})) // whatever the demo calls it
	v := visit(t, c.URL, "zh-CN,zh")
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
	for path, ready := range pagesOf(sale, order) {
		v.goTo(path)
		v.ready(ready)
		require.Regexp(t, `\p{Han}`, v.text("main"), path)
		require.Empty(t, evaluate[[]string](v.tab, latin), path)
		v.fitsPhone(t, path)
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
	v.send("make", "title", "秒杀", "shop_id", "1", "pay_value", "1", "actual_value", "2", "stock", "1", "currency", "QQQ")
	v.reads(fieldError("make", "currency"), "须为 ISO 4217 中的货币")
	v.reads(errorBox, "invalid_request")
	require.Empty(t, evaluate[[]string](v.tab, latin), "the server's words are English")
}

// consoleAccessible requires that the pages are accessible, and checks the focus.
func consoleAccessible(t *testing.T, c *scene) {
	token := c.LoginToken(t, rig.NewPhone())
	sale := c.Publish(t, longOffer)
	order := c.Buy(t, token, sale)
	v := visit(t, c.URL, "en")
	v.goTo("/console")
	v.click(`[data-do="enter"]`)
	v.until(`document.querySelector("dialog[open]")`)
	v.legible(t, "login")
	require.False(t, evaluate[bool](v.tab, `document.querySelector("[data-alerts]").checkVisibility()`), "no alert before the login")
	v.login(c.phone)
	for path, ready := range pagesOf(sale, order) {
		v.goTo(path)
		v.ready(ready)
		v.legible(t, path)
		require.Empty(t, evaluate[[]string](v.tab, unlabelled), path)
		v.fitsPhone(t, path)
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
	v.accessible(t, "technical")
	v.goTo("/console/new")
	v.click(advanced)
	v.submit("make")
	v.legible(t, "errors")
	require.Equal(t, "true", evaluate[string](v.tab, `document.querySelector("[name=title]").ariaInvalid`))
	v.goTo("/console/orders/" + order)
	v.does("cancel")
	v.until(`document.querySelector("[data-status=cancelled]")`)
	v.until(`document.activeElement?.tagName === "H1"`) // the button is gone, and its panel has no heading of its own
}

// unlabelled is an expression that lists what axe-core does not: visible fields without a visible label, duplicate ids and
// references to missing ids.
const unlabelled = `[
	...[...document.querySelectorAll("input, select, textarea")].filter((f) => !f.closest("[hidden], details:not([open])") && !f.labels[0]?.checkVisibility()).map((f) => "no label: " + f.name),
	...[...document.querySelectorAll("[id]")].filter((el) => document.querySelectorAll("#" + CSS.escape(el.id)).length > 1).map((el) => "twice: " + el.id),
	...[...document.querySelectorAll("[aria-describedby], [aria-labelledby]")].flatMap((el) => ["aria-describedby", "aria-labelledby"].flatMap((a) => (el.getAttribute(a) ?? "").split(" ").filter((id) => id && !document.getElementById(id)))).map((id) => "nothing with id " + id),
]`

func operation(tag, id string) string { return fmt.Sprintf(`#operations-%s-%s`, tag, id) }

// try opens an operation, fills in its body and path parameter, executes it and waits for the status.
func (b *tab) try(tag, id, body, path string, status int) {
	b.t.Helper()
	op := operation(tag, id)
	b.click(op + " .opblock-summary-control")
	for selector, text := range map[string]string{"textarea.body-param__text": body, `tr[data-param-in="path"] input`: path} {
		if text == "" {
			continue
		}
		b.until(`document.querySelector(%q)?.checkVisibility()`, op+" "+selector)
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).select()`, op+" "+selector)))
		b.insert(text) // replaces the selection
	}
	b.click(op + " button.execute")
	b.until(`document.querySelector(%q)?.innerText.startsWith("%d")`, op+" .live-responses-table tbody .response-col_status", status)
}

// insert enters a text as if it were pasted, at once: the page renders anew for every key.
func (b *tab) insert(text string) {
	b.t.Helper()
	env.Must(chromedp.Call(b.ctx, input.InsertText, input.InsertTextParams{Text: text}))(b.t)
}

// TestDocs executes operations on the documentation page, from the login to a purchase. The page sends no request to
// another server.
func TestDocs(t *testing.T) {
	env.FullParallel(t)
	p := rig.EmbeddedStack(t).Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Stock: 3})

	v := visit(t, p.URL, "en")
	v.do(chromedp.EmulateViewport(390, 844))
	v.goTo("/docs")
	v.try("orders", "placeOrder", "", sale, http.StatusUnauthorized)
	require.LessOrEqual(t, evaluate[int](v.tab, `document.documentElement.scrollWidth`), 390, "the page fits the width of a phone")

	v.do(chromedp.EmulateViewport(1200, 900))
	phone := rig.NewPhone()
	v.try("auth", "sendCode", fmt.Sprintf(`{"phone":%q}`, phone), "", http.StatusOK)
	headers := v.text(operation("auth", "sendCode") + " .live-responses-table")
	code := regexp.MustCompile(`x-demo-code: (\d{6})`).FindStringSubmatch(headers)
	require.NotNil(t, code, headers)
	v.try("auth", "login", fmt.Sprintf(`{"phone":%q,"code":%q}`, phone, code[1]), "", http.StatusOK)
	v.click(operation("orders", "placeOrder") + " button.execute")
	v.until(`document.querySelector(%q)?.innerText.startsWith("201")`,
		operation("orders", "placeOrder")+" .live-responses-table tbody .response-col_status")

	// The page follows the language and the theme of the browser, and ignores the URL of another document in its address.
	v.legible(t, "API")
	require.Equal(t, 1, evaluate[int](v.tab, `document.querySelectorAll("main:not([role])").length`))
	require.Equal(t, []string{"API"}, evaluate[[]string](v.tab, `[...document.querySelectorAll("h1")].filter((e) => e.checkVisibility()).map((e) => e.innerText)`))
	v.prefers("dark")
	v.goTo("/docs?lang=zh&url=https://example.com/other.json")
	v.reads("h1", "接口文档")
	v.until(`document.documentElement.classList.contains("dark-mode") && document.documentElement.lang === "zh-CN"`)
	v.prefers("light")
	v.until(`!document.documentElement.classList.contains("dark-mode")`)
}
