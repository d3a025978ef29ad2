package handler_test

import (
	"fmt"
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
// memory go on, and so do other users behind the same address. TestRoutesOfUsersAreLimited has the routes.
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

	// An admin's token that is misused costs the database no more than a buyer's.
	admin := e.admin()
	_, reports := untilLimited(t, 200, func() answer { return admin.direct("GET", "/api/v1/admin/reconcile", nil) })
	assert.Equal(t, 400/20, reports)
}

// TestRefusalWaits: a client that repeats refused requests in a loop is slowed down, with a token or a made-up cursor.
func TestRefusalWaits(t *testing.T) {
	e := start(t, limited)
	for path, c := range map[string]client{"/api/v1/orders": e.buyer(1), vouchersPath + "?cursor=bWFkZSB1cA": e.guest()} {
		var began time.Time
		untilLimited(t, 5000, func() answer { began = time.Now(); return c.direct("GET", path, nil) })
		assert.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond, path)
	}
}

// announced is the connection of a client that announces the body of its answer.
type announced struct {
	*httptest.ResponseRecorder
	begun chan struct{}
}

func (a *announced) Write(b []byte) (int, error) {
	defer close(a.begun)
	return a.ResponseRecorder.Write(b)
}

// TestRefusalHoldsNoSlot: refusals that wait do not count as reads, of which 64 can run at a time.
func TestRefusalHoldsNoSlot(t *testing.T) {
	e := start(t, limited)
	e.sale(5)
	untilLimited(t, 5000, func() answer { return e.guest().direct("GET", vouchersPath+"?cursor=bWFkZSB1cA", nil) })
	var waiting sync.WaitGroup
	for i := range 2 * 64 {
		w := &announced{httptest.NewRecorder(), make(chan struct{})}
		req := e.guest().request("", http.MethodGet, fmt.Sprintf("/shop/%d", 1000+i), nil)
		req.RemoteAddr = "192.0.2.1:1234"
		waiting.Go(func() { e.handler.ServeHTTP(w, req) })
		<-w.begun
		require.Contains(t, w.Body.String(), "操作太频繁，请稍后再试", "refused for the rate, and not for the reads that wait")
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
	assert.Equal(t, 1000, allowed)
	e.guest().direct("GET", vouchersPath, nil).want(http.StatusOK) // from memory, for thousands behind one address
}

// TestRoutesThatStoreRowsAreLimited: a route with which a buyer changes something stores rows, unless it is named here with the
// reason.
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
	for _, r := range handler.Router(e.handler).Routes() {
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
	for _, r := range handler.Router(e.handler).Routes() {
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
	t.Parallel()
	env.Full(t)
	rdb := env.StartRedis(t).Client(t)
	e := newEnv(t, limited, configured(func(c *handler.Config) {
		c.SharedLimits = &ratelimit.Shared{Redis: rdb, Timeout: time.Minute, Secret: secret, Log: c.Log}
	}))
	buyer := e.buyer(1)
	began, allowed := time.Now(), 0
	for range 4 {
		for range 3 { // a new server has new local limits
			cfg := e.config
			cfg.Metrics = prometheus.NewRegistry()
			server := env.Must(handler.New(cfg))(t)
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
