package main

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var demoCode = regexp.MustCompile(`x-demo-code: (\d{6})`)

// operation is an operation on the page of the documentation, by its tag and operationId.
func operation(tag, id string) string { return fmt.Sprintf(`#operations-%s-%s`, tag, id) }

// try opens an operation, fills in its body and path, and executes it; it waits for the status.
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
		b.key(text) // over what was there
	}
	b.click(op + " button.execute")
	b.until(`document.querySelector(%q)?.innerText.startsWith("%d")`, op+" .live-responses-table tbody .response-col_status", status)
}

// TestDocs: the documentation is a page on which everything can be tried, from the login to a purchase, and which asks
// nobody else for anything.
func TestDocs(t *testing.T) {
	browser := startBrowser(t)
	p := embeddedStack(t).serve(t, "").shop(t)
	sale := p.publish(t, offer{Title: "Hot pot for two", Stock: 3})

	v := visit(t, browser, p.url, "en")
	v.do(chromedp.EmulateViewport(390, 844))
	v.goTo("/docs")
	v.try("vouchers", "listVouchers", "", "", http.StatusOK)
	v.reads(operation("vouchers", "listVouchers")+" .live-responses-table tbody .response-col_description", "Hot pot for two")
	require.LessOrEqual(t, evaluate[int](v.tab, `document.documentElement.scrollWidth`), 390, "it fits a phone")

	v.do(chromedp.EmulateViewport(1200, 900))
	v.try("orders", "placeOrder", "", sale, http.StatusUnauthorized)
	phone := newPhone()
	v.try("auth", "sendCode", fmt.Sprintf(`{"phone":%q}`, phone), "", http.StatusNoContent)
	headers := v.text(operation("auth", "sendCode") + " .live-responses-table")
	code := demoCode.FindStringSubmatch(headers)
	require.NotNil(t, code, headers)
	v.try("auth", "login", fmt.Sprintf(`{"phone":%q,"code":%q}`, phone, code[1]), "", http.StatusOK)
	v.click(operation("orders", "placeOrder") + " button.execute")
	v.until(`document.querySelector(%q)?.innerText.startsWith("201")`,
		operation("orders", "placeOrder")+" .live-responses-table tbody .response-col_status")

	// The address cannot put somebody else's document here.
	v.goTo("/docs?url=https://example.com/other.json")
	v.until(`document.querySelector(%q)`, operation("auth", "login"))
}
