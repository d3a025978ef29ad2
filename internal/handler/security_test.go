package handler_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/sale/entry"
	"seckill/test/env"
)

func (e *environment) securityEvents(event string) int {
	e.t.Helper()
	families := env.Must(e.config.Metrics.(prometheus.Gatherer).Gather())(e.t)
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

func TestSecurityEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event  string
		attack func(e *environment)
	}{
		"a code":       {"code_sent", func(e *environment) { e.sendCode("13800000077").want(http.StatusOK) }},
		"a login":      {"login", func(e *environment) { e.login("13800000077") }},
		"a wrong code": {"login_failed", func(e *environment) { e.tryCode("13800000077", "123456").want(http.StatusUnauthorized) }},
		"a wrong code, hm-dianping": {"login_failed", func(e *environment) {
			e.page().post("/user/login", map[string]string{"phone": "13800000077", "code": "123456"})
		}},
		"codes without a pause": {"login_blocked", func(e *environment) {
			for range 3 {
				e.sendCode("13800000077").want(http.StatusOK)
			}
			e.sendCode("13800000077").want(http.StatusTooManyRequests)
		}},
		"a forged token": {"token_refused", func(e *environment) {
			forged := sign(e.t, jwt.SigningMethodHS256, []byte("another secret that is long enough to sign"), e.goodClaims("1"))
			e.as(forged).get("/api/v1/me").want(http.StatusUnauthorized)
		}},
		"a stolen refresh token": {"refresh_reused", func(e *environment) {
			c := e.buyer(1)
			e.refresh(c.login.RefreshToken).want(http.StatusOK)
			e.refresh(c.login.RefreshToken).want(http.StatusUnauthorized)
		}},
		"a buyer on an admin route": {"admin_forbidden", func(e *environment) {
			e.buyer(1).get("/api/v1/admin/audit").want(http.StatusForbidden)
		}},
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
		"a login without the second factor": {"totp_required", func(e *environment) {
			e.enroll(operatorPhone, domain.RoleOperator)
			e.sendCode(operatorPhone).want(http.StatusOK)
			e.tryTOTP(operatorPhone, "").problem(http.StatusUnauthorized, "totp_required")
		}},
		"a wrong second factor": {"totp_failed", func(e *environment) {
			app := e.enroll(operatorPhone, domain.RoleOperator)
			e.sendCode(operatorPhone).want(http.StatusOK)
			e.tryTOTP(operatorPhone, otherCode(app.password(0))).problem(http.StatusUnauthorized, "totp_required")
		}},
		"a deletion": {"account_erased", func(e *environment) {
			e.buyer(1).do(http.MethodDelete, "/api/v1/me", nil).want(http.StatusNoContent)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(s *setup) { s.limits, s.factors = true, strings.HasPrefix(tc.event, "totp") })
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

// Ordinary refusals of a sale are no security events.
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

// TestPlantedLeaksAreFound: the search at the end of each environment finds secrets in the log and in the metrics.
func TestPlantedLeaksAreFound(t *testing.T) {
	e := start(t)
	login := e.buyer(1).login
	require.Empty(t, e.leaks())
	for name, planted := range map[string]string{
		"phone": "13800000001", "code": e.outbox.code("13800000001"), "secret": string(secret), "access token": login.AccessToken,
		"refresh token": login.RefreshToken, "pass": entry.NewPasses(keys).Issue(1, 2, 3, 0, e.clock.now()),
		"redeem code": domain.NewRedeemCodes(keys).Of(3368803458027454464),
	} {
		log, reg := &logBuffer{}, prometheus.NewRegistry()
		counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "seckill_planted_total"}, []string{"x"})
		require.NoError(t, reg.Register(counter))
		fake := &environment{t: t, logs: log, outbox: e.outbox, config: handler.Config{Metrics: reg}}
		slog.New(slog.NewJSONHandler(log, nil)).Info("planted", "x", planted)
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
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST.", "shop.localhost:8080", "127.0.0.1:8080", "192.0.2.7", "[::1]:8080", "[::1]", "backend"} {
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
		req.Header.Set("X-Forwarded-Proto", claimed)
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
