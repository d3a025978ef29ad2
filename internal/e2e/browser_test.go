package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// patience is how long a page may take for what it must do, on a machine that does much else.
const patience = 90 * time.Second

// startBrowser starts a Chromium that ends with the test.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testenv.Chromium(t)),
		chromedp.NoSandbox, // it runs as root in containers, and sees no page but ours
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	browser, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(closeBrowser)
	require.NoError(t, chromedp.Do(browser))
	return browser
}

// visitor is somebody with a browser of his own: cookies and storage are not shared with other visitors.
type visitor struct {
	t        *testing.T
	browser  context.Context // where further tabs are opened
	profile  cdp.BrowserContextID
	url      string
	language string
	*tab
}

// tab is one tab. Whatever goes wrong in it fails the test: errors in the console, exceptions, refusals by the
// Content-Security-Policy, and any request to somebody else.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	problems []string
}

// visit gives the test a new visitor of a server, with one tab that shows nothing yet.
func visit(t *testing.T, browser context.Context, url, language string) *visitor {
	t.Helper()
	v := &visitor{t: t, browser: browser, url: url, language: language}
	v.tab = v.open(chromedp.WithNewBrowserContext())
	v.profile = chromedp.FromContext(v.ctx).BrowserContextID
	return v
}

// another opens a further tab of the same visitor.
func (v *visitor) another() *tab {
	v.t.Helper()
	return v.open(chromedp.WithExistingBrowserContext(v.profile))
}

func (v *visitor) open(where chromedp.ContextOption) *tab {
	v.t.Helper()
	b := &tab{t: v.t, url: v.url}
	ctx, cancel := chromedp.NewContext(v.browser, where, chromedp.WithListener(b.watch))
	b.ctx = ctx
	v.t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(v.t, b.problems)
	})
	v.t.Cleanup(cancel)
	// A tab behind another one is asleep; here both are looked at.
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(v.t, err)
	agent, err := chromedp.Run(ctx, chromedp.Evaluate[string](`navigator.userAgent`))
	require.NoError(v.t, err)
	_, err = chromedp.Call(ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: agent, AcceptLanguage: v.language,
	})
	require.NoError(v.t, err)
	b.before(`addEventListener("securitypolicyviolation", (e) => console.error("CSP", e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber))`)
	return b
}

// before makes a tab run a script before any page's own.
func (b *tab) before(script string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(b.t, err)
}

// watch is told of everything that happens in the tab.
func (b *tab) watch(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			text, _ := json.Marshal(e.Args)
			b.problem("console.%s: %s", e.Type, text)
		}
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		b.problem("exception: %s", text)
	case *log.EventEntryAdded:
		// That the API says no is no error of the page, though Chromium logs it as one.
		api := e.Entry.Source == "network" && strings.HasPrefix(e.Entry.URL, b.url+"/api/")
		if e.Entry.Level == "error" && !api {
			b.problem("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.url+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			b.problem("a request to somebody else: %s", e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.problem("a dialog: %s", e.Message)
	}
}

func (b *tab) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// do runs steps, within patience.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// goTo loads a page and waits for its content.
func (b *tab) goTo(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
	b.until(`document.querySelector("main h1")`)
}

// evaluate runs an expression in a tab's page. It may be a promise.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// until waits until an expression is true. The page's own policy forbids the polling that chromedp would do in it.
func (b *tab) until(expression string, args ...any) {
	b.t.Helper()
	expression = fmt.Sprintf(expression, args...)
	deadline := time.Now().Add(patience)
	for !evaluate[bool](b, "(async () => Boolean("+expression+"))()") {
		if time.Now().After(deadline) {
			b.t.Fatalf("this did not come true: %s\nThe page says:\n%s", expression, evaluate[string](b, `document.body.innerText`))
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// click clicks what a CSS selector finds, with the mouse. If the page renders the element anew between its being found
// and its being clicked, the new one is clicked.
func (b *tab) click(selector string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		var gone *cdproto.Error
		if !errors.As(err, &gone) || gone.Code != errNodeGone || ctx.Err() != nil {
			require.NoError(b.t, err)
			return
		}
	}
}

// errNodeGone is the code of Chromium's errors about a node that is gone. They come before the mouse is moved.
const errNodeGone = -32000

// text is what an element says.
func (b *tab) text(selector string) string {
	b.t.Helper()
	b.until(`document.querySelector(%q)`, selector)
	return evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
}

// reads waits until an element says something.
func (b *tab) reads(selector, text string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.innerText.includes(%q)`, selector, text)
}

// key presses a key, wherever the focus is.
func (b *tab) key(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// The elements of the storefront.

func card(sale string) string   { return fmt.Sprintf(`li.sale[data-voucher="%s"]`, sale) }
func buyOf(sale string) string  { return card(sale) + " button.buy" }
func linkOf(sale string) string { return card(sale) + " a.buy" }

// open says that a sale's button can be pressed.
func canBuy(sale string) string {
	return fmt.Sprintf(`(b => b?.checkVisibility() && b.getAttribute("aria-disabled") !== "true")(document.querySelector(%q))`, buyOf(sale))
}

const (
	anOrder = "li.order"
	payIt   = `li.order [data-do="pay"]`
	dialog  = "dialog[open]"
)

// orderIs waits until the one order that is shown has a status.
func (b *tab) orderIs(status string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.dataset.status === %q`, anOrder, status)
}

// login fills the open dialog in, as a person does who is sent the code of the demo.
func (b *tab) login(phone string) {
	b.t.Helper()
	b.until(`document.querySelector("dialog[open] input[name=phone]")`)
	b.do(chromedp.SendKeys(chromedp.CSS(`dialog[open] input[name=phone]`), phone))
	b.click(`dialog[open] button[type=submit]`)
	b.until(`document.querySelector("dialog[open] input[name=code]")?.value.length === 6`)
	b.click(`dialog[open] button[type=submit]`)
	b.until(`!document.querySelector("dialog")`)
}

// buy presses the button of a sale until there is an order, logging in on the way.
func (b *tab) buy(sale, phone string) {
	b.t.Helper()
	b.until(canBuy(sale))
	b.click(buyOf(sale))
	b.login(phone)
	b.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
}
