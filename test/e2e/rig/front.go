package rig

import (
	"cmp"
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
)

// front is a proxy between browsers and a server that injects faults of networks and proxies.
type front struct {
	*httptest.Server
	proxy *httputil.ReverseProxy

	Mu   sync.Mutex
	down bool
	// Path prefix of the POSTs that count as purchases.
	watched string
	// Answers to the next purchases, see respondWith.
	answers []string
	// Idempotency-Keys of the purchases.
	keys []string
	// Last-Event-IDs of the streams.
	Resumed []string
	// Forwarded writes of streams.
	Events atomic.Int64
}

// counting counts the writes to a response.
type counting struct {
	http.ResponseWriter
	writes *atomic.Int64
}

// Write implements http.ResponseWriter.
func (c counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.writes.Add(1)
	return n, err
}

// Unwrap returns the wrapped writer to http.ResponseController.
func (c counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// StartFront starts a front of the server.
func (p *Server) StartFront(t *testing.T) *front {
	t.Helper()
	target, err := url.Parse(p.URL)
	require.NoError(t, err)

	// Cut connections are expected.
	silent := stdlog.New(io.Discard, "", 0)
	f := &front{watched: "/api/v1/vouchers/", proxy: &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: silent,
	}}

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
	code := f.planned(r)
	switch code {
	case "":
		if strings.HasSuffix(r.URL.Path, "/events") {
			w = counting{w, &f.Events}
		}
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

// planned returns the answer to a request in place of that of the server, or "". It records purchases and streams.
func (f *front) planned(r *http.Request) string {
	f.Mu.Lock()
	defer f.Mu.Unlock()

	stream := strings.HasSuffix(r.URL.Path, "/events")
	if stream && !f.down {
		f.Resumed = append(f.Resumed, r.Header.Get("Last-Event-ID"))
	}

	answer := ""
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, f.watched) {
		f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
		if len(f.answers) > 0 {
			answer = f.answers[0]
			f.answers = f.answers[1:]
		}
	}

	if f.down {
		return cut
	}

	return answer
}

// Cut closes all connections and rejects new ones until restore.
func (f *front) Cut() {
	f.Mu.Lock()
	f.down = true
	f.Mu.Unlock()

	f.CloseClientConnections()
}

func (f *front) Restore() {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.down = false
}

// Watch sets the path prefix of the POSTs that count as purchases.
func (f *front) Watch(prefix string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.watched = prefix
}

// RespondWith sets the answers to the next purchases, one code each, instead of forwarding them. With the code "lost" a
// purchase is forwarded and not answered; with "half" it is forwarded and a part of an answer is returned.
func (f *front) RespondWith(codes ...string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.answers = codes
	f.keys = nil
}

// KeysSeen returns the keys of the purchases since respondWith.
func (f *front) KeysSeen() []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return append([]string{}, f.keys...)
}

// Offer is a sale that a test publishes.
type Offer struct {
	Title       string    `json:"title"`
	SubTitle    string    `json:"sub_title"`
	Rules       string    `json:"rules"`
	ShopID      string    `json:"shop_id"`
	PayValue    int64     `json:"pay_value"`
	ActualValue int64     `json:"actual_value"`
	Stock       int64     `json:"stock"`
	BeginAt     time.Time `json:"begin_at"`
	EndAt       time.Time `json:"end_at"`
	ValidUntil  time.Time `json:"valid_until,omitzero"`
	// Although the checklist has problems.
	Force bool `json:"force"`

	LimitPerUser int `json:"limit_per_user,omitempty"`
	// Seconds.
	PayTimeout int            `json:"pay_timeout,omitempty"`
	Segments   int            `json:"segments,omitempty"`
	Entry      map[string]any `json:"entry,omitempty"`
}

// Request publishes the offer. By default, it began an hour ago and ends in three hours.
func (o Offer) Request(admin string) Request {
	o.Title = cmp.Or(o.Title, "an offer")

	if o.BeginAt.IsZero() {
		o.BeginAt = time.Now().Add(-time.Hour)
	}
	if o.EndAt.IsZero() {
		o.EndAt = time.Now().Add(3 * time.Hour)
	}

	o.ShopID = cmp.Or(o.ShopID, "1")
	o.PayValue = max(o.PayValue, 100)
	o.ActualValue = max(o.ActualValue, 200)

	return Post("/admin/vouchers", admin, o)
}

// Publish publishes a sale and returns its id.
func (p *Server) Publish(t *testing.T, o Offer) string {
	t.Helper()
	return p.Shop(t).Publish(t, o)
}

// Shop is a server with the token of its admin, who logs in only once: a second login code would replace the first.
type Shop struct {
	*Server
	Token string
	// Of the server, if the test that started it sets this.
	Stack *Stack
}

// Shop returns the server with the token of the demo's admin.
func (p *Server) Shop(t *testing.T) *Shop {
	t.Helper()
	return &Shop{Server: p, Token: p.Admin(t)}
}

// Publish publishes a sale, even a nonsensical one, and returns its id.
func (p *Shop) Publish(t *testing.T, o Offer) string {
	t.Helper()
	o.Force = true
	o.Title = cmp.Or(o.Title, t.Name())
	return p.Must(t, o.Request(p.Token))["id"].(string)
}

// Change changes a voucher.
func (p *Shop) Change(t *testing.T, sale string, fields map[string]any) {
	t.Helper()
	p.Must(t, Patch("/admin/vouchers/"+sale, p.Token, fields))
}
