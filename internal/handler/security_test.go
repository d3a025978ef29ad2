package handler_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
	"seckill/internal/kit/ratelimit"
	"seckill/test/env"
)

func (e *environment) securityEvents(event string) int {
	e.t.Helper()
	families := env.Must(e.Metrics.(prometheus.Gatherer).Gather())(e.t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "seckill_security_events_total" && m.GetLabel()[0].GetValue() == event {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	require.Fail(e.t, "no such event", event)
	return 0
}

func (e *environment) securityLines(event string) (lines []map[string]any) {
	for _, l := range e.logs.of("INFO") {
		if l["msg"] == "security" && l["event"] == event {
			lines = append(lines, l)
		}
	}
	return lines
}

// TestSecurityEvents: TestCodeCooldown and TestLoginWithSecondFactor count those of blocked logins and of second factors.
func TestSecurityEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event  string
		attack func(e *environment)
	}{
		"a code":                     {"code_sent", func(e *environment) { e.sendCode("13800000077").want(http.StatusOK) }},
		"a code for a pasted number": {"code_sent", func(e *environment) { e.sendCode("１３８ ００００-００７７").want(http.StatusOK) }},
		"a login":                    {"login", func(e *environment) { e.login("13800000077") }},
		"a wrong code":               {"login_failed", func(e *environment) { e.tryCode("13800000077", "123456").want(http.StatusUnauthorized) }},
		"a wrong code, hm-dianping": {"login_failed", func(e *environment) {
			e.page().post("/user/login", map[string]string{"phone": "13800000077", "code": "123456"})
		}},
		"a forged token": {"token_refused", func(e *environment) { e.as("made up").get("/api/v1/me").want(http.StatusUnauthorized) }},
		"a stolen refresh token": {"refresh_reused", func(e *environment) {
			c := e.buyer(1)
			e.refresh(c.login.RefreshToken).want(http.StatusOK)
			e.refresh(c.login.RefreshToken).want(http.StatusUnauthorized)
		}},
		"a buyer on an admin route": {"admin_forbidden", func(e *environment) { e.buyer(1).get("/api/v1/admin/audit").want(http.StatusForbidden) }},
		"a notice with a wrong signature": {"webhook_signature", func(e *environment) {
			e.guest().bad().with("X-Seckill-Signature", signature("{}", e.clock.now())).post("/api/v1/payments/webhook/sandbox", `{"a":1}`).
				want(http.StatusUnauthorized)
		}},
		"a borrowed pass": {"pass_forged", func(e *environment) {
			v := e.passSale(5)
			pass := e.buyer(1).withPass(v).header.Get("X-Entry-Pass")
			e.buyer(2).with("X-Entry-Pass", pass).post(v.orders(), nil).want(http.StatusForbidden)
		}},
		"an unknown redeem code": {"redeem_unknown_code", func(e *environment) {
			e.admin().post("/api/v1/admin/redeem", map[string]string{"code": "AAAA-AAAA-AAAA-AAAA-AAAA-AAAA"}).want(http.StatusBadRequest)
		}},
		"a preview of an unknown redeem code": {"redeem_unknown_code", func(e *environment) {
			e.admin().post("/api/v1/admin/redeem/preview", map[string]string{"code": "AAAA-AAAA-AAAA-AAAA-AAAA-AAAA"}).want(http.StatusBadRequest)
		}},
		"an unknown redeem code for an order": {"redeem_unknown_code", func(e *environment) {
			path := e.buyer(1).place(e.sale(1)).path()
			e.admin().post("/api/v1/admin"+strings.TrimPrefix(path, "/api/v1")+"/redeem", map[string]string{"code": "made up"}).
				want(http.StatusBadRequest)
		}},
		"a page of another site": {"cross_origin", func(e *environment) {
			page{e.guest().with("Sec-Fetch-Site", "cross-site")}.post("/user/code?phone=13800000077", nil)
		}},
		"a deletion": {"account_erased", func(e *environment) { e.buyer(1).do(http.MethodDelete, "/api/v1/me", nil).want(http.StatusNoContent) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			require.Zero(t, e.securityEvents(tc.event))
			tc.attack(e)
			assert.Positive(t, e.securityEvents(tc.event))
			lines := e.securityLines(tc.event)
			require.NotEmpty(t, lines)
			assert.Equal(t, "127.0.0.0/24", lines[0]["network"])
			assert.NotEmpty(t, lines[0]["request_id"])
			if phone, ok := lines[0]["phone"]; ok {
				assert.Regexp(t, `^\d{3}\*{4}\d{4}$`, phone)
			}
		})
	}
}

func TestOrdinaryRefusalsAreNoSecurityEvents(t *testing.T) {
	e := start(t)
	v, c := e.sale(1), e.buyer(1)
	c.place(v)
	c.post(v.orders(), nil).want(http.StatusConflict)
	e.buyer(2).post(v.orders(), nil).want(http.StatusConflict)
	e.guest().bad().get("/api/v1/me").want(http.StatusUnauthorized)
	c.bad().get("/api/v1/orders?limit=x").want(http.StatusBadRequest)
	for _, event := range []string{"token_refused", "admin_forbidden", "pass_forged", "login_blocked", "redeem_unknown_code"} {
		assert.Zero(t, e.securityEvents(event), event)
	}
}

// TestSecurityEventOfDisconnectedClient: a client that hangs up before the answer does not escape the counters.
func TestSecurityEventOfDisconnectedClient(t *testing.T) {
	e := start(t)
	token := e.buyer(1).token
	for event, c := range map[string]client{"token_refused": e.as("made up"), "admin_forbidden": e.as(token)} {
		ctx, hangUp := context.WithCancel(t.Context())
		hangUp()
		a := c.serve(e.handler, c.request("", http.MethodGet, "/api/v1/admin/orders", nil).WithContext(ctx))
		assert.Empty(t, a.body, "no answer is written")
		assert.Equal(t, 1, e.securityEvents(event), event)
	}
}

// An attack is counted completely and cannot fill the disk with log lines.
func TestSecurityLogIsBounded(t *testing.T) {
	e := start(t)
	const guesses = 200
	for i := range guesses {
		e.guest().direct(http.MethodPost, "/api/v1/auth/login", map[string]string{"phone": "13800000077", "code": fmt.Sprintf("%06d", i)})
	}
	assert.Equal(t, guesses, e.securityEvents("login_failed"))
	assert.Less(t, len(e.securityLines("login_failed")), guesses/2)
}

// TestPlantedLeaksAreFound: the search at the end of each environment finds secrets in the log and in the metrics. TestLeaksAreFound of
// package env has them.
func TestPlantedLeaksAreFound(t *testing.T) {
	e := start(t)
	login := e.buyer(1).login
	require.Empty(t, e.leaks())
	for name, planted := range map[string]string{"code": e.outbox.code("13800000001"), "secret": string(secret), "token": login.AccessToken} {
		reg := prometheus.NewRegistry()
		counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "seckill_planted_total"}, []string{"x"})
		require.NoError(t, reg.Register(counter))
		fake := &environment{t: t, logs: &logBuffer{}, outbox: e.outbox, Config: handler.Config{Metrics: reg}}
		slog.New(slog.NewJSONHandler(fake.logs, nil)).Info("planted", "x", planted)
		assert.NotEmpty(t, fake.leaks(), "%s in the log", name)
		fake.logs = &logBuffer{}
		counter.WithLabelValues(planted)
		assert.NotEmpty(t, fake.leaks(), "%s in the metrics", name)
	}
}

func TestSecurityTxt(t *testing.T) {
	t.Parallel()
	const path = "/.well-known/security.txt"
	newEnv(t).guest().get(path).problem(http.StatusNotFound, "not_found")
	e := newEnv(t, configured(func(c *handler.Config) { c.SecurityContact = "mailto:security@example.com" }))
	a := e.guest().raw(http.MethodGet, path, nil)
	assert.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	assert.Equal(t, "Contact: mailto:security@example.com\nExpires: 2027-05-10T00:00:00Z\nPreferred-Languages: en, zh\n", string(a.body))
}

// TestCrossOriginRequestsAreRefused: net/http decides which they are (http.CrossOriginProtection).
func TestCrossOriginRequestsAreRefused(t *testing.T) {
	e := start(t)
	login := e.loginBrowser()
	before := e.dump()
	for name, headers := range map[string]http.Header{
		"fetch":             {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}},
		"older browser":     {"Origin": {"null"}},
		"forged forwarding": {"Origin": {"https://evil.example"}, "X-Forwarded-Host": {"evil.example"}},
	} {
		c := e.guest().bad().withCookie(login.cookie())
		maps.Copy(c.header, headers)
		send := func(method, path string) int {
			return c.send(c.request(e.url, method, path, `{"phone":"13800000009"}`)).status
		}
		for _, request := range []string{
			"POST /api/v1/auth/code", "POST /api/v1/auth/refresh", "POST /api/v1/vouchers/1/orders", "POST /nowhere", "POST /",
			"PATCH /api/v1/admin/vouchers/1", "DELETE /api/v1/admin/rush",
		} {
			method, path, _ := strings.Cut(request, " ")
			assert.Equal(t, http.StatusForbidden, send(method, path), "%s %s", name, path)
		}
		assert.Equal(t, http.StatusOK, send("GET", "/api/v1/vouchers"), "links from other sites work")
		page{c}.post("/user/code?phone=13800000009", nil).fails("请求来自其他网站，已拒绝")
	}
	assert.Equal(t, before, e.dump())
	assert.Empty(t, e.outbox.code("13800000009"), "no code was sent")

	own := e.guest().with("Sec-Fetch-Site", "same-origin").with("Origin", "https://shop.example") // behind a proxy that changes Host
	own.post("/api/v1/auth/code", phoneBody(phone)).want(http.StatusOK)
	page{own}.post("/user/code?phone="+phone, nil).none()
}

// TestDemoRefusesForeignHosts sends requests as a web page does whose name resolves to the demo's address.
func TestDemoRefusesForeignHosts(t *testing.T) {
	e := start(t, func(s *setup) {
		s.demo, s.change = true, func(cfg *handler.Config) { cfg.LocalHosts = true }
	})
	send := func(host string) answer {
		r := e.guest().request("", http.MethodPost, "/api/v1/auth/code", phoneBody(phone))
		r.Host = host
		return e.guest().serve(e.handler, r)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "EVIL.example.", "localhost.evil.example", "127.0.0.1.nip.io", "[evil.example]:80", "evil.notlocalhost"} {
		a := send(host)
		require.Equal(t, http.StatusForbidden, a.status, host)
		require.Empty(t, a.header.Get("X-Demo-Code"), host)
	}
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST.", "shop.localhost:8080", "127.0.0.1:8080", "192.0.2.7", "[::1]:8080", "[::1]", "backend", "host.docker.internal:8081"} {
		a := send(host)
		require.Less(t, a.status, 300, host)
		require.NotEmpty(t, a.header.Get("X-Demo-Code"), host)
	}
}

// TestPagesHaveSchemeOfBrowser: the URL of a page's request has the scheme of the browser, and TLS is demanded of a browser that uses it.
// Only a trusted proxy is believed: neither the header of another client nor a request for another server's URL.
func TestPagesHaveSchemeOfBrowser(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) {
		c.TrustedProxies = []string{"192.0.2.1", "10.0.0.0/8"}
		c.Pages = map[string]http.Handler{"/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.URL.Scheme)
		})}
	}))
	visit := func(url, from, claimed string, tls bool) answer {
		req := httptest.NewRequest(http.MethodGet, url, http.NoBody) // a URL with https is a connection over TLS
		if !tls {
			req.TLS = nil
		}
		req.RemoteAddr = from
		header := "X-Forwarded-Proto"
		if strings.Contains(claimed, "=") {
			header = "Forwarded"
		}
		req.Header.Set(header, claimed)
		return e.guest().serve(e.handler, req)
	}
	for _, c := range []struct {
		from, claimed, url string
		tls                bool
		want               string
	}{
		{"192.0.2.1:1", "https", "/", false, "https"}, {"10.1.2.3:1", "HTTPS, http", "/", false, "https"}, {"192.0.2.1:1", "http", "/", false, "http"},
		{"192.0.2.1:1", "", "/", false, "http"}, {"192.0.2.2:1", "https", "/", false, "http"}, {"192.0.2.2:1", "", "http://shop.example/", false, "http"},
		{"192.0.2.2:1", "", "https://shop.example/", true, "https"},
		{"192.0.2.1:1", `proto="HTTPS";for=198.51.100.1, proto=http`, "/", false, "https"}, {"192.0.2.2:1", "proto=https", "/", false, "http"},
		{"192.0.2.1:1", `for="198.51.100.1`, "/", false, "http"},
		{"192.0.2.2:1", "", "https://shop.example/", false, "http"}, // only the request line says so
	} {
		page := visit(c.url, c.from, c.claimed, c.tls)
		assert.Equal(t, c.want, string(page.body), "%+v", c)
		strict := map[string]string{"https": "max-age=31536000"}[c.want]
		assert.Equal(t, strict, page.header.Get("Strict-Transport-Security"), "%+v", c)
	}
	assert.NotEmpty(t, visit("/api/v1/openapi.json", "192.0.2.1:1", "https", false).header.Get("Strict-Transport-Security"))
}

// TestPagesAreServedBesideAPI: pages are served with their own headers to GET and HEAD.
func TestPagesAreServedBesideAPI(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) {
		c.Pages = map[string]http.Handler{"/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
			_, _ = io.WriteString(w, "a page")
		})}
		c.MissingPage = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
		})
	}))
	for method, body := range map[string]string{http.MethodGet: "a page", http.MethodHead: ""} {
		a := e.guest().send(e.guest().request(e.url, method, "/", nil)).want(http.StatusOK)
		assert.Equal(t, body, string(a.body))
		assert.Equal(t, "default-src 'self'", a.header.Get("Content-Security-Policy"))
		assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		assert.NotEmpty(t, a.header.Get("X-Request-Id"))
	}
	for other, status := range map[[2]string]int{
		{http.MethodPost, "/"}: http.StatusMethodNotAllowed, {http.MethodGet, "/other"}: http.StatusNotFound,
	} {
		a := e.guest().raw(other[0], other[1], nil).want(status)
		assert.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	}
	browser := e.guest().with("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	for _, c := range [][3]string{
		{http.MethodGet, "/other", "text/html"}, {http.MethodHead, "/other", "text/html"}, {http.MethodPost, "/other", "application/problem+json"},
		{http.MethodGet, "/api/v1/other", "application/problem+json"},
	} {
		a := browser.raw(c[0], c[1], nil).want(http.StatusNotFound)
		assert.Equal(t, c[2], a.header.Get("Content-Type"), c)
	}
}

func limited(s *setup) { s.rateLimit = true }

// untilLimited repeats a request until it is refused, and returns the refusal and the number of requests before it.
func untilLimited(t *testing.T, most int, request func() answer) (refusal answer, allowed int) {
	t.Helper()
	for allowed < most {
		a := request()
		if a.status == http.StatusTooManyRequests {
			a.problem(http.StatusTooManyRequests, "rate_limited")
			assert.NotEmpty(t, a.header.Get("Retry-After"))
			return a, allowed
		}
		allowed++
	}
	t.Fatalf("%d requests were allowed", most)
	return answer{}, 0
}

// TestReadsOfOneUserAreLimited: a user who reads too much is refused until the bucket refills. Purchases and answers from
// memory go on, and so do other users behind the same address. Exports are rarer. TestRoutesOfUsersAreLimited has the routes.
func TestReadsOfOneUserAreLimited(t *testing.T) {
	e := start(t, limited)
	v, greedy, other := e.sale(5), e.buyer(1), e.buyer(2)
	_, lists := untilLimited(t, 200, func() answer { return greedy.direct("GET", "/api/v1/orders?limit=100", nil) })
	assert.Equal(t, 400/5, lists)
	e.clock.advance(time.Second / 20)
	greedy.direct("GET", "/api/v1/me", nil).want(http.StatusOK)
	greedy.direct("GET", "/api/v1/me", nil).problem(http.StatusTooManyRequests, "rate_limited")
	for range 50 {
		greedy.direct("GET", v.path(), nil).want(http.StatusOK)
		greedy.direct("GET", vouchersPath, nil).want(http.StatusOK)
	}
	greedy.place(v)
	other.direct("GET", "/api/v1/orders?limit=100", nil).want(http.StatusOK)

	curious := e.buyer(3)
	for range 3 {
		curious.send(curious.request(e.url, http.MethodHead, "/api/v1/me/export", nil)).want(http.StatusOK) // is no export
	}
	refusal, exports := untilLimited(t, 10, func() answer { return curious.get("/api/v1/me/export") })
	assert.Equal(t, 2, exports)
	assert.Greater(t, refusal.retryAfter(), 30)
	other.get("/api/v1/me/export").want(http.StatusOK)

	// An admin's token that is misused costs the database no more than a buyer's.
	admin := e.admin()
	_, reports := untilLimited(t, 200, func() answer { return admin.direct("GET", "/api/v1/admin/reconcile", nil) })
	assert.Equal(t, 400/20, reports)
}

// TestRefusalWaits: a client that repeats refused requests in a loop is slowed down, with a token or without. Refusals
// that wait do not count as reads, of which 64 can run at a time.
func TestRefusalWaits(t *testing.T) {
	e := start(t, limited)
	for path, c := range map[string]client{"/api/v1/orders": e.buyer(1), "/api/v1/images/none": e.guest().bad()} {
		var began time.Time
		untilLimited(t, 5000, func() answer { began = time.Now(); return c.direct("GET", path, nil) })
		assert.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond, path)
	}

	var waiting sync.WaitGroup
	for i := range 2 * 64 {
		body := make(chan string, 1)
		waiting.Go(func() {
			e.guest().take(fmt.Sprintf("/shop/%d", 1000+i), func(part []byte) { body <- string(part) })
		})
		require.Contains(t, <-body, "操作太频繁，请稍后再试", "refused for the rate, and not for the reads that wait")
	}
	waiting.Wait()
}

// TestVisitorsReadsAreLimited: lists that the cache cannot answer cost tokens of the address.
func TestVisitorsReadsAreLimited(t *testing.T) {
	env.Full(t)
	e := start(t, limited)
	e.sale(5)
	// The catalog has 2,000 vouchers, so a list ends with a read of the database.
	e.exec(`INSERT INTO vouchers (shop_id, title, pay_value, actual_value, type, status, created_at, updated_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2001) SELECT 7, 'v', 1, 1, 0, 1, created_at, created_at FROM n, vouchers`)
	e.sale(5) // the catalog is read again
	_, allowed := untilLimited(t, 2000, func() answer { return e.guest().direct("GET", vouchersPath+"?shop_id=1", nil) })
	// Until the catalog is read again, a few lists come from memory.
	assert.InDelta(t, 1050, allowed, 50)
	e.guest().direct("GET", vouchersPath, nil).want(http.StatusOK) // from memory, for thousands behind one address
}

// A route with which a buyer changes something stores rows, unless it is named here with the reason.
func TestRoutesThatStoreRowsAreLimited(t *testing.T) {
	t.Parallel()
	others := regexp.MustCompile(`/admin/|/auth/|^(/api)?/user/|/webhook/` + // roles, logins with limits of their own, and the provider
		`|^(/api)?/voucher(/seckill)?$` + // of admins
		`|/vouchers/:id/(orders|entry)$|/voucher-order/` + // an account has one order or place at a time
		`|^/api/v1/me$`) // once
	e := newEnv(t, limited)
	buyer := e.buyer(1).bad()
	refused := func(method, pattern string) {
		path := strings.ReplaceAll(pattern, ":id", "1")
		_, allowed := untilLimited(t, 60, func() answer { return buyer.direct(method, path, nil) })
		assert.Equal(t, 50, allowed, pattern)
	}
	for _, r := range handler.Routes(e.Config) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !others.MatchString(r.Path) {
			refused(r.Method, r.Path)
		}
	}
	refused(http.MethodDelete, "/api/v1/vouchers/:id/entry") // a place can be left and taken again
}

// TestRoutesOfUsersAreLimited: every route that needs a login refuses a user without tokens. The routes of staff
// take no tokens, but for lists, files and checks of the whole database.
func TestRoutesOfUsersAreLimited(t *testing.T) {
	t.Parallel()
	costly := regexp.MustCompile(`^GET /api/v1/admin/(orders|orders.csv|payments.csv|audit|audit.csv|dead-letters|reconcile|vouchers/:id/refunds)$` +
		`|^POST /api/v1/admin/(orders/search|redeem/preview|reconcile)$`)
	e := newEnv(t, limited)
	guest, greedy := e.guest(), e.admin()
	for range 400 {
		greedy.raw("GET", "/api/v1/me", nil)
	}
	for range 200 {
		greedy.raw("POST", "/api/v1/vouchers/0/orders", nil)
		greedy.raw("POST", "/api/v1/vouchers/0/entry", nil)
		greedy.raw("GET", "/api/v1/vouchers/0/entry", nil)
	}

	var waiting sync.WaitGroup
	var private atomic.Int64
	for _, r := range handler.Routes(e.Config) {
		route := r.Method + " " + r.Path
		path := strings.ReplaceAll(r.Path, ":id", "1")
		if r.Method == http.MethodHead || guest.raw(r.Method, path, struct{}{}).status != http.StatusUnauthorized {
			continue
		}
		waiting.Go(func() { // a refusal waits
			private.Add(1)
			a := greedy.raw(r.Method, path, struct{}{})
			refused := a.status == http.StatusTooManyRequests || strings.Contains(string(a.body), "操作太频繁，请稍后再试")
			assert.Equal(t, !strings.Contains(route, "/admin/") || costly.MatchString(route), refused, route)
		})
	}
	waiting.Wait()
	assert.Greater(t, private.Load(), int64(60))
}

// TestRowsOfOneAccountAreBounded: three servers together store as many rows for an account as one would: 50 at once on a route, and
// one per minute. TestRoutesThatStoreRowsAreLimited has the routes.
func TestRowsOfOneAccountAreBounded(t *testing.T) {
	env.FullParallel(t)
	rdb := env.StartRedis(t).Client(t)
	e := newEnv(t, limited, configured(func(c *handler.Config) {
		c.SharedLimits = &ratelimit.Shared{Redis: rdb, Timeout: time.Minute, Secret: secret, Log: c.Log}
	}))
	buyer := e.buyer(1)
	began, allowed := time.Now(), 0
	for range 4 {
		for range 3 { // a new server has new local limits
			cfg := e.Config
			cfg.Metrics = prometheus.NewRegistry()
			server := handler.New(cfg)
			for range 30 {
				if buyer.serve(server, buyer.request("", http.MethodPost, "/api/v1/orders/1/pay", nil)).status != http.StatusTooManyRequests {
					allowed++
				}
			}
		}
		for _, key := range rdb.Keys(t.Context(), "seckill:limit:*").Val() { // twenty minutes pass
			left := rdb.PTTL(t.Context(), key).Val() - 20*time.Minute
			require.NoError(t, rdb.PExpire(t.Context(), key, max(left, time.Millisecond)).Err())
		}
	}
	assert.GreaterOrEqual(t, allowed, 50+3*20)
	assert.LessOrEqual(t, allowed, 50+3*20+1+int(time.Since(began).Minutes())) // with the minutes that the test took
}
