package browser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// front is a proxy between browsers and a server that injects faults of networks and proxies.
type front struct {
	*httptest.Server
	proxy *httputil.ReverseProxy

	mu sync.Mutex
	// Answers to the next purchases, see RespondWith.
	answers []string
	// Idempotency-Keys of the purchases.
	keys []string

	down atomic.Bool
	// Path prefix of the POSTs that count as purchases.
	Watched string
	// The number of answers that are event streams, and what changes them, if not nil.
	Streams atomic.Int64
	Stream  func(*http.Response)
	// If not 0, a larger body is refused as by nginx: at once, with a page.
	MaxBody int64
}

func startFront(t *testing.T, server string) *front {
	t.Helper()
	target := env.Must(url.Parse(server))(t)

	// Cut connections are expected.
	silent := stdlog.New(io.Discard, "", 0)
	f := &front{Watched: "/api/v1/vouchers/", proxy: &httputil.ReverseProxy{
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

	code := f.planned(r)
	switch code {
	case "":
		f.proxy.ServeHTTP(w, r)

	case cut:
		panic(http.ErrAbortHandler)

	case "lost":
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)

	case "half":
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Length", "500")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)

	default:
		status := http.StatusServiceUnavailable
		if code == "rate_limited" {
			status = http.StatusTooManyRequests
		}

		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"code":%q,"title":"No","status":%d,"request_id":"FROM-THE-FRONT"}`, code, status)
	}
}

// cut is the answer while the front is down: none.
const cut = "cut"

// planned returns the answer to a request in place of that of the server, or "". It records purchases.
func (f *front) planned(r *http.Request) string {
	f.mu.Lock()
	defer f.mu.Unlock()

	answer := ""
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, f.Watched) {
		f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
		if len(f.answers) > 0 {
			answer = f.answers[0]
			f.answers = f.answers[1:]
		}
	}

	if f.down.Load() {
		return cut
	}

	return answer
}

// Cut closes all connections and rejects new ones until Restore.
func (f *front) Cut() {
	f.down.Store(true)
	f.CloseClientConnections()
}

func (f *front) Restore() { f.down.Store(false) }

// RespondWith sets the answers to the next purchases, one code each, instead of forwarding them. With the code "lost" a
// purchase is forwarded and not answered; with "half" it is forwarded and a part of an answer is returned.
func (f *front) RespondWith(codes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = codes
	f.keys = nil
}

// KeysSeen returns the keys of the purchases since RespondWith.
func (f *front) KeysSeen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.keys...)
}

// hold makes the body of an event stream wait until the server ends it, as virus scanners and some networks do.
func hold(res *http.Response) { res.Body = &heldBody{ReadCloser: res.Body} }

// holdRest lets only the beginning pass, like a proxy with a buffer that it sends when it is full.
func holdRest(res *http.Response) {
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(res.Body, int64(len(":\n\n"))), &heldBody{ReadCloser: res.Body}), res.Body}
}

// refuse answers like a proxy that allows no event streams.
func refuse(res *http.Response) {
	_ = res.Body.Close()
	const page = "<h1>Forbidden</h1>"
	res.StatusCode = http.StatusForbidden
	res.Header = http.Header{"Content-Type": {"text/html"}}
	res.Body = io.NopCloser(strings.NewReader(page))
}

// heldBody returns nothing until the end of its body.
type heldBody struct {
	io.ReadCloser
	all *bytes.Reader
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.all == nil {
		text, err := io.ReadAll(b.ReadCloser)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		b.all = bytes.NewReader(text)
	}
	return b.all.Read(p)
}

// TestHeldStreams: behind a proxy that holds event streams back, or refuses them, the pages poll.
// Source: windmill-labs/windmill#10716, concourse/concourse#1859, SignalR/SignalR#3638.
func TestHeldStreams(t *testing.T) {
	env.Full(t)
	t.Parallel()
	browser := startBrowser(t)
	p := rig.EmbeddedStack(t).WithAdmins().Serve(t).Shop(t)
	held := startFront(t, p.URL)
	held.Stream = hold

	t.Run("turn in a waiting room", func(t *testing.T) {
		t.Parallel()
		begin := time.Now().Add(4 * time.Second)
		sale := p.Room(t, rig.Offer{Stock: 5, BeginAt: begin}, map[string]any{"rate": 1, "pass_ttl": 60})
		v := visit(t, browser, held.URL, "en")
		v.goTo("/sales/" + sale)
		v.joinByKeyboard(sale)
		v.until(canBuy(sale))
		v.reads(card(sale), "It's your turn!")
		v.click(buyOf(sale))
		v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	})

	// An order is paid while its page is open.
	for name, change := range map[string]func(*http.Response){"held": hold, "refused": refuse, "only the beginning": holdRest} {
		t.Run("paid elsewhere, streams "+name, func(t *testing.T) {
			t.Parallel()
			f := startFront(t, p.URL)
			f.Stream = change
			sale, phone := p.Publish(t, rig.Offer{Stock: 5}), rig.NewPhone()
			token := p.LoginToken(t, phone)
			o := p.Buy(t, token, sale)
			v := visit(t, browser, f.URL, "en")
			v.goTo("/orders/" + o.ID)
			v.click("main .center button.primary")
			v.login(phone)
			v.orderIs("pending_payment")
			p.Must(t, rig.Pay(o.ID, token))
			v.orderIs("paid")
			v.until(`document.querySelector(%q).checkVisibility()`, anOrder+" code")
			require.Positive(t, f.Streams.Load())
		})
	}

	t.Run("live view", func(t *testing.T) {
		t.Parallel()
		sale := p.Publish(t, rig.Offer{Title: "Held back", Stock: 5})
		v := visit(t, browser, held.URL, "en")
		v.enter("/console/sales/"+sale, rig.AdminPhone(0))
		v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
		p.Buy(t, p.LoginToken(t, rig.NewPhone()), sale)
		v.until(`document.querySelector('%s')?.textContent === "4"`, fact("database"))
		require.Equal(t, "0", evaluate[string](v.tab, `document.querySelector("[data-live]").dataset.holes`))
	})
	t.Cleanup(func() { require.Positive(t, held.Streams.Load(), "no stream was held back") })
}
