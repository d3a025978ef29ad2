// Package browser tests the pages in Chromium, on whole servers.
package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

func TestMain(m *testing.M) { rig.Main(m, stopBrowser) }

// pageTimeout bounds each step of a browser test. It is long because the tests run in parallel.
const pageTimeout = 90 * time.Second

// chromium is the browser that all tests share. Visitors are isolated by their profiles.
var chromium struct {
	sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := env.Chromium(t)
	chromium.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path),
			chromedp.NoSandbox, // required for root in containers; it loads only pages of the test
			chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
			chromedp.Flag("force-prefers-reduced-motion", true), // a page that turns a wheel while it waits is drawn 60 times a second
		)
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		browser, closeBrowser := chromedp.NewContext(allocator)
		chromium.ctx, chromium.stop = browser, func() { closeBrowser(); stop() }
		chromium.err = chromedp.Do(browser)
	})
	require.NoError(t, chromium.err)
	return chromium.ctx
}

func stopBrowser() {
	if chromium.stop != nil {
		chromium.stop()
	}
}

// visitor is a user with a separate browser profile: visitors share no cookies and no storage.
type visitor struct {
	browser  context.Context // parent of all tabs
	profile  cdp.BrowserContextID
	language string
	*tab
}

// tab is a browser tab. Errors and warnings in the console, exceptions, violations of the Content-Security-Policy,
// dialogs and requests to another server fail the test.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	// The number of calls of click.
	clicks int

	mu       sync.Mutex
	problems []string
}

// visit returns a new visitor of a server, with one empty tab. The scripts run before those of each page.
func visit(t *testing.T, url, language string, before ...string) *visitor {
	t.Helper()
	browser := startBrowser(t)
	v := &visitor{browser: browser, language: language, tab: &tab{t: t, url: url}}
	created := env.Must(chromedp.CallBrowser(browser, target.CreateBrowserContext, target.CreateBrowserContextParams{}))(t)
	v.profile = created.BrowserContextID
	t.Cleanup(func() {
		dispose := target.DisposeBrowserContextParams{BrowserContextID: v.profile}
		env.Must(chromedp.CallBrowser(browser, target.DisposeBrowserContext, dispose))(t)
	})
	v.tab = v.newTab()
	for _, script := range before {
		v.before(script)
	}
	return v
}

// scene is a server with its admin's token, and its visitors.
type scene struct {
	t *testing.T
	*rig.Shop

	phone string // of an admin without a session
}

// open returns a visitor of a page. The scripts run before those of each page.
func (s *scene) open(path string, before ...string) *visitor {
	s.t.Helper()
	v := visit(s.t, s.URL, "en", before...)
	v.goTo(path)
	return v
}

// shopping returns a visitor of the list, where a sale can be bought.
func (s *scene) shopping(sale string) *visitor {
	s.t.Helper()
	v := s.open("/")
	v.until(canBuy(sale))
	return v
}

// newUser returns a visitor with a session that was begun outside the page.
func (s *scene) newUser() *visitor {
	s.t.Helper()
	v := visit(s.t, s.URL, "en")
	v.loginNewUser()
	return v
}

// enter returns an admin at a page of the console. The scripts run before those of each page.
func (s *scene) enter(path string, before ...string) *visitor {
	s.t.Helper()
	v := visit(s.t, s.URL, "en", before...)
	v.enter(path, s.phone)
	return v
}

// newTab opens another tab of the visitor. It begins at a document of the server without scripts, which may request what enter
// does: Chromium would end the process of about:blank at the first page, and start another, which costs a fifth of a second of
// processor time.
func (v *visitor) newTab() *tab {
	v.t.Helper()
	ownWindow := true
	opened := env.Must(chromedp.CallBrowser(v.browser, target.CreateTarget, target.CreateTargetParams{
		URL: v.url + "/robots.txt", BrowserContextID: v.profile, NewWindow: &ownWindow,
	}))(v.t)
	b := &tab{t: v.t, url: v.url}
	ctx, cancel := chromedp.NewContext(v.browser, chromedp.WithTargetID(opened.TargetID), chromedp.WithListener(b.watch))
	b.ctx = ctx
	v.t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(v.t, b.problems)
	})
	v.t.Cleanup(cancel)
	// Chromium throttles tabs without focus. With the emulation all tabs have it.
	env.Must(chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))(v.t)
	version := env.Must(chromedp.CallBrowser(v.browser, cdpbrowser.GetVersion, cdp.Empty{}))(v.t)
	agent := emulation.SetUserAgentOverrideParams{UserAgent: version.UserAgent, AcceptLanguage: v.language}
	env.Must(chromedp.Call(ctx, emulation.SetUserAgentOverride, agent))(v.t)
	b.before(`addEventListener("securitypolicyviolation", (e) => console.error("CSP", e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber))`)
	b.before(interceptFetch)
	return b
}

// before runs a script in every page of the tab before the scripts of the page.
func (b *tab) before(script string) {
	b.t.Helper()
	env.Must(chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}))(b.t)
}

// watch collects the problems of the tab from its events.
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
		// Chromium logs a rejected API request as an error, but it is not an error of the page.
		api := e.Entry.Source == "network" && strings.HasPrefix(e.Entry.URL, b.url+"/api/")
		if e.Entry.Level == "error" && !api {
			b.problem("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.url+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			b.problem("a request to another server: %s", e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		if e.Type == "beforeunload" {
			go func() {
				_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
			}()
		}
		b.problem("a dialog: %s: %s", e.Type, e.Message)
	}
}

// expectProblem waits until the browser has reported a problem with this text, and forgets it.
func (b *tab) expectProblem(text string) {
	b.t.Helper()
	rig.Eventually(b.t, "a problem: "+text, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		i := slices.IndexFunc(b.problems, func(p string) bool { return strings.Contains(p, text) })
		if i >= 0 {
			b.problems = slices.Delete(b.problems, i, i+1)
		}
		return i >= 0
	})
}

func (b *tab) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// goTo loads a page and waits for its heading.
func (b *tab) goTo(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
	b.until(`document.querySelector("main h1")`)
}

// evaluate returns the value of an expression in the page of a tab. It awaits a promise.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// until waits until an expression is true. It polls from outside, because the Content-Security-Policy of the pages
// forbids the polling of chromedp, less and less often, because a poll can cost a layout of the page.
func (b *tab) until(expression string, args ...any) {
	b.t.Helper()
	expression = fmt.Sprintf(expression, args...)
	deadline := time.Now().Add(pageTimeout)
	pause := 30 * time.Millisecond
	for !evaluate[bool](b, "(async () => Boolean("+expression+"))()") {
		if time.Now().After(deadline) {
			b.t.Fatalf("not true within %s: %s\nText of the page:\n%s", pageTimeout, expression, evaluate[string](b, `document.body.innerText`))
		}
		time.Sleep(pause)
		pause = min(2*pause, 200*time.Millisecond)
	}
}

// click waits for an element and clicks it with the mouse. It tries again if the page replaced or moved the element
// meanwhile, so that the click missed it, or if Chromium does not answer.
func (b *tab) click(selector string) {
	b.t.Helper()
	deadline := time.Now().Add(pageTimeout)
	b.clicks++
	for !b.tryClick(selector) {
		if time.Now().After(deadline) {
			b.t.Fatalf("no click reaches %s: %s", selector, evaluate[string](b, fmt.Sprintf(`(() => {
				const r = document.querySelector(%q).getBoundingClientRect();
				return JSON.stringify(r) + " of " + innerHeight + ": " + document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)?.outerHTML;
			})()`, selector)))
		}
	}
}

// tryClick reports whether a click has reached an element: this one, or an earlier one of the same call of click that Chromium
// had not answered in time.
func (b *tab) tryClick(selector string) bool {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
	if evaluate[bool](b, fmt.Sprintf(`(() => {
		const [missed, arrived] = [%[1]d, -%[1]d];
		if (window.lastClick === arrived) return true;
		window.lastClick = missed;
		addEventListener("click", (e) => { if (e.target.closest(%[2]q)) window.lastClick = arrived }, { capture: true, once: true });
		return false;
	})()`, b.clicks, selector)) {
		return true
	}

	// Away from the header, which stays at the top. Otherwise the mouse could meet that, and open a dialog over the page.
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q)?.scrollIntoView({ block: "center" })`, selector)))
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout/6)
	defer cancel()
	_, err := chromedp.Call(ctx, page.BringToFront, cdp.Empty{})
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
	}
	if isGone(err) {
		return false
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		require.NoError(b.t, err, selector)
	}
	ctx, cancel = context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	missed, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`window.lastClick === %d`, b.clicks))) // false on another page
	if !isGone(err) {
		require.NoError(b.t, err, selector)
	}
	return !missed
}

// isGone reports whether Chromium returned an error because the node or the page was replaced. For a click it returns
// that before it moves the mouse.
func isGone(err error) bool {
	var chromium *cdproto.Error
	return errors.As(err, &chromium) && chromium.Code == -32000
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	b.until(`document.querySelector(%q)`, selector)
	return evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
}

// reads waits until the text of an element contains each of the given texts.
func (b *tab) reads(selector string, texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.until(`document.querySelector(%q)?.innerText.includes(%q)`, selector, text)
	}
}

// keepFiles is a script that keeps the text of a file that the page saves in the variable file, and its name in named.
const keepFiles = `{
	const create = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
	URL.createObjectURL = (blob) => { blob.text().then((text) => { window.file = text; }); return create(blob); };
	HTMLAnchorElement.prototype.click = function () { window.named = this.download; return click.call(this); };
}`

func (b *tab) key(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

func card(sale string) string { return fmt.Sprintf(`.sale[data-voucher="%s"]`, sale) }

func buyOf(sale string) string { return card(sale) + " button.buy" }

func linkOf(sale string) string { return card(sale) + " a.buy" }

// resultOf is the panel of a sale's card that says what came of a purchase, if it is of that kind.
func resultOf(sale, kind string) string {
	return fmt.Sprintf(`%s .result[data-kind=%q]`, card(sale), kind)
}

// canBuy is an expression that is true if the button of a sale is enabled and buys.
func canBuy(sale string) string {
	return fmt.Sprintf(`(b => b?.checkVisibility() && b.getAttribute("aria-disabled") !== "true" && b.dataset.do !== "ready")(document.querySelector(%q))`, buyOf(sale))
}

const (
	anOrder = "li.order"
	payIt   = `li.order [data-do="pay"]`
	dialog  = "dialog[open]"
)

// orderIs waits until the only order on the page has a status.
func (b *tab) orderIs(status string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.dataset.status === %q`, anOrder, status)
}

// login completes the login dialog with the code that the demo mode returns.
func (b *tab) login(phone string) {
	b.t.Helper()
	b.until(`document.querySelector("dialog[open] input[name=phone]")`)
	b.do(chromedp.SendKeys(chromedp.CSS(`dialog[open] input[name=phone]`), phone))
	b.click(`dialog[open] button[type=submit]`)
	b.until(`document.querySelector("dialog[open] input[name=code]")?.value.length === 6`)
	b.click(`dialog[open] button[type=submit]`)
	b.until(`!document.querySelector("dialog")`)
}

// press waits until a sale can be bought, and presses its button.
func (b *tab) press(sale string) {
	b.t.Helper()
	b.until(canBuy(sale))
	b.click(buyOf(sale))
}

// bought waits for the link to the order of a sale.
func (b *tab) bought(sale string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
}

func (b *tab) buys(sale string) {
	b.t.Helper()
	b.press(sale)
	b.bought(sale)
}

// buy clicks the button of a sale, logs in and waits for the link to the order.
func (b *tab) buy(sale, phone string) {
	b.t.Helper()
	b.press(sale)
	b.login(phone)
	b.bought(sale)
}

// front is a proxy between browsers and a server that injects faults of networks and proxies.
type front struct {
	*httptest.Server
	proxy *httputil.ReverseProxy

	down atomic.Bool
	// The number of the next renewals of a session that are forwarded and not answered.
	LostRenewals atomic.Int64
	// The number of answers that are event streams, and what changes them, if not nil.
	Streams atomic.Int64
	Stream  func(*http.Response)
	// If not 0, a larger body is refused as by nginx: at once, with a page.
	MaxBody int64
	// Whether the modules of a page are loaded one by one: those in the bundle of the server cannot be reached by a test.
	Modules bool
}

func startFront(t *testing.T, server string) *front {
	t.Helper()
	target := env.Must(url.Parse(server))(t)

	// Cut connections are expected.
	silent := stdlog.New(io.Discard, "", 0)
	f := &front{proxy: &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: silent,
	}}
	f.proxy.ModifyResponse = func(res *http.Response) error {
		if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			return nil
		}
		f.Streams.Add(1)
		if f.Stream != nil {
			f.Stream(res)
		}
		return nil
	}

	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = silent
	f.Start()

	t.Cleanup(func() {
		// Close waits for streams.
		f.CloseClientConnections()
		f.Close()
	})

	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.MaxBody > 0 && r.ContentLength > f.MaxBody {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "<html><head><title>413 Request Entity Too Large</title></head></html>")
		return
	}

	if f.down.Load() {
		panic(http.ErrAbortHandler)
	}

	if f.Modules && strings.HasSuffix(r.URL.Path, "/main.bundle.js") {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, `import "./main.js"`)
		return
	}

	if strings.HasSuffix(r.URL.Path, "/auth/refresh") && f.LostRenewals.Add(-1) >= 0 {
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}

	f.proxy.ServeHTTP(w, r)
}

// Cut closes all connections and rejects new ones until Restore.
func (f *front) Cut() {
	f.down.Store(true)
	f.CloseClientConnections()
}

func (f *front) Restore() { f.down.Store(false) }

// hold returns what lets only the first bytes of an event stream pass: none, as virus scanners and some networks do, or as many as
// fill the buffer of a proxy.
func hold(first int64) func(*http.Response) {
	return func(res *http.Response) {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(res.Body, first), heldBody{res.Body}), res.Body}
	}
}

// answer returns what answers with a page, like a proxy that allows no event streams.
func answer(status int) func(*http.Response) {
	return func(res *http.Response) {
		_ = res.Body.Close()
		const page = "<h1>No streams</h1>"
		res.StatusCode = status
		res.Header = http.Header{"Content-Type": {"text/html"}}
		res.Body = io.NopCloser(strings.NewReader(page))
	}
}

// heldBody returns nothing before the end of its body.
type heldBody struct{ io.Reader }

func (b heldBody) Read([]byte) (int, error) {
	_, err := io.Copy(io.Discard, b.Reader)
	return 0, cmp.Or(err, io.EOF)
}

// TestHeldStreams: behind a proxy that holds event streams back, or refuses them, the pages poll.
// Source: windmill-labs/windmill#10716, concourse/concourse#1859, SignalR/SignalR#3638.
func TestHeldStreams(t *testing.T) {
	env.FullParallel(t)
	p := rig.EmbeddedStack(t).WithAdmins().Serve(t).Shop(t)
	held := startFront(t, p.URL)
	held.Stream = hold(0)

	t.Run("turn in a waiting room", func(t *testing.T) {
		t.Parallel()
		sale := p.Room(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(4 * time.Second)}, map[string]any{"rate": 1, "pass_ttl": 60})
		v := visit(t, held.URL, "en")
		v.goTo("/sales/" + sale)
		v.press(sale)
		v.login(rig.NewPhone())
		v.reads(card(sale), "You are in the waiting room")
		v.until(canBuy(sale))
		v.reads(card(sale), "It's your turn!")
		v.buys(sale)
	})

	// An order is paid while its page is open.
	for name, change := range map[string]func(*http.Response){
		"held":               hold(0),
		"refused":            answer(http.StatusForbidden),
		"failing":            answer(http.StatusGatewayTimeout),
		"replaced":           answer(http.StatusOK),
		"only the beginning": hold(int64(len(":\n\n"))),
	} {
		t.Run("paid elsewhere, streams "+name, func(t *testing.T) {
			t.Parallel()
			f := startFront(t, p.URL)
			f.Stream = change
			sale, phone := p.Publish(t, rig.Offer{Stock: 5}), rig.NewPhone()
			token := p.LoginToken(t, phone)
			o := p.Buy(t, token, sale)
			v := visit(t, f.URL, "en")
			v.goTo("/orders/" + o)
			v.click("main .center button.primary")
			v.login(phone)
			v.orderIs("pending_payment")
			p.Must(t, rig.Pay(o, token))
			v.orderIs("paid")
			v.until(`document.querySelector(%q).checkVisibility()`, anOrder+" code")
			require.Positive(t, f.Streams.Load())
		})
	}

	t.Run("live view", func(t *testing.T) {
		t.Parallel()
		sale := p.Publish(t, rig.Offer{Title: "Held back", Stock: 5})
		v := visit(t, held.URL, "en")
		v.enter("/console/sales/"+sale, rig.AdminPhone(0))
		v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
		p.Buy(t, p.LoginToken(t, rig.NewPhone()), sale)
		v.until(`document.querySelector('%s')?.textContent === "4"`, fact("database"))
		require.Equal(t, "0", evaluate[string](v.tab, `document.querySelector("[data-live]").dataset.holes`))
	})
	t.Cleanup(func() { require.Positive(t, held.Streams.Load(), "no stream was held back") })
}
