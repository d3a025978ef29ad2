package browser

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

var demoCode = regexp.MustCompile(`x-demo-code: (\d{6})`)

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
	env.Full(t)
	t.Parallel()
	browser := startBrowser(t)
	p := rig.EmbeddedStack(t).Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Stock: 3})

	v := visit(t, browser, p.URL, "en")
	v.do(chromedp.EmulateViewport(390, 844))
	v.goTo("/docs")
	v.try("orders", "placeOrder", "", sale, http.StatusUnauthorized)
	require.LessOrEqual(t, evaluate[int](v.tab, `document.documentElement.scrollWidth`), 390, "the page fits the width of a phone")

	v.do(chromedp.EmulateViewport(1200, 900))
	phone := rig.NewPhone()
	v.try("auth", "sendCode", fmt.Sprintf(`{"phone":%q}`, phone), "", http.StatusOK)
	headers := v.text(operation("auth", "sendCode") + " .live-responses-table")
	code := demoCode.FindStringSubmatch(headers)
	require.NotNil(t, code, headers)
	v.try("auth", "login", fmt.Sprintf(`{"phone":%q,"code":%q}`, phone, code[1]), "", http.StatusOK)
	v.click(operation("orders", "placeOrder") + " button.execute")
	v.until(`document.querySelector(%q)?.innerText.startsWith("201")`,
		operation("orders", "placeOrder")+" .live-responses-table tbody .response-col_status")

	// The page follows the language and the theme of the browser, and ignores the URL of another document in its address.
	// "Authorize" accepts a token that was obtained elsewhere.
	v.legible(t, "API")
	require.Equal(t, 1, evaluate[int](v.tab, `document.querySelectorAll("main:not([role])").length`))
	require.Equal(t, []string{"API"}, evaluate[[]string](v.tab, `[...document.querySelectorAll("h1")].filter((e) => e.checkVisibility()).map((e) => e.innerText)`))
	lefts := evaluate[[]float64](v.tab, `[...document.querySelectorAll(".brand, h1, .info p, .opblock-tag, .opblock")].filter((e) => e.checkVisibility())
		.map((e) => e.getBoundingClientRect().left + parseFloat(getComputedStyle(e).paddingLeft))`)
	require.Equal(t, slices.Min(lefts), slices.Max(lefts), "one left edge")
	v.prefers("dark")
	v.goTo("/docs?lang=zh&url=https://example.com/other.json")
	v.reads("h1", "接口文档")
	v.until(`document.documentElement.classList.contains("dark-mode") && document.documentElement.lang === "zh-CN"`)
	v.prefers("light")
	v.until(`!document.documentElement.classList.contains("dark-mode")`)
	v.click(".auth-wrapper .authorize")
	v.click("#auth-bearer-value")
	v.insert(p.Token)
	v.click(`form:has(#auth-bearer-value) button[type="submit"]`)
	v.click(".close-modal")
	v.try("auth", "me", "", "", http.StatusOK)
	v.reads(operation("auth", "me")+" .live-responses-table", `"role": "admin"`)
}
