package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/sale/entry"
)

// TestUnknownRoutes: TestHeadAndMethods has the methods of known routes.
func TestUnknownRoutes(t *testing.T) {
	e := start(t)
	admin := e.admin().bad()
	for _, r := range []string{
		"GET /", "GET /api/v1", "GET /api/v2/vouchers", "GET /nowhere", "GET /metrics", "GET /debug/pprof/", "GET /.env",
		"GET /api/v1/vouchers/1/2", "GET /api/v1/vouchers/%2e%2e/me", "POST //api/v1/auth/code",
		"GET /API/v1/vouchers", "GET /api/v1/vouchers/", "GET /healthz/", "POST /api/v1/auth/code/",
	} {
		method, path, _ := strings.Cut(r, " ")
		a := admin.do(method, path, nil)
		a.problem(http.StatusNotFound, "not_found")
		assert.Empty(t, a.header.Get("Location"))
	}
	for _, r := range []string{"BREW /api/v1/vouchers", "TRACE /healthz", "GET /api/v1/vouchers/1%2Forders"} {
		method, path, _ := strings.Cut(r, " ")
		admin.do(method, path, nil).problem(http.StatusMethodNotAllowed, "method_not_allowed")
	}
}

func TestRequestID(t *testing.T) {
	e := start(t)
	for id, kept := range map[string]bool{
		"A-1_b.c": true, strings.Repeat("x", 64): true, "": false, strings.Repeat("x", 65): false,
		"a b": false, "a\tb": false, "<script>": false, "ü": false, `"`: false, "a,b": false,
	} {
		for _, path := range []string{"/healthz", "/nowhere"} {
			c := e.guest().bad().with("X-Request-Id", id)
			one, two := c.get(path).header.Get("X-Request-Id"), c.get(path).header.Get("X-Request-Id")
			assert.NotEmpty(t, one)
			assert.Equal(t, kept, one == id, "%q -> %q", id, one)
			assert.Equal(t, kept, one == two, "a new id is unique")
		}
	}
}

type exchange struct {
	name string
	do   func() answer
}

// exchanges returns a valid request of each kind. The store must work during the call.
func exchanges(e *environment) []exchange {
	v, unread, admin, buyer, leaver := e.sale(5), e.sale(5), e.admin(), e.buyer(1), e.buyer(2)
	o := buyer.place(v)
	e.sendCode("13800000099").want(http.StatusOK)
	code := e.outbox.code("13800000099")
	return []exchange{
		{"code", func() answer { return e.sendCode(phone) }},
		{"login", func() answer { return e.tryCode("13800000099", code) }},
		{"refresh", func() answer { return e.refresh(admin.login.RefreshToken) }},
		{"me", func() answer { return buyer.get("/api/v1/me") }},
		{"vouchers", func() answer { return e.guest().get("/api/v1/vouchers") }},
		{"voucher", func() answer { return e.guest().get(unread.path()) }},
		{"place", func() answer { return buyer.post(v.orders(), nil) }},
		{"orders", func() answer { return buyer.get("/api/v1/orders") }},
		{"order", func() answer { return buyer.get(o.path()) }},
		{"cancel", func() answer { return buyer.post(o.path()+"/cancel", nil) }},
		{"create", func() answer { return admin.post("/api/v1/admin/vouchers", e.saleBody(1)) }},
		{"patch", func() answer { return admin.patch(v.adminPath(), map[string]string{"title": "t"}) }},
		{"logout", func() answer { return buyer.post("/api/v1/auth/logout", nil) }},
		{"logout everywhere", func() answer { return leaver.post("/api/v1/auth/logout-all", nil) }},
	}
}

const leak = "Error 1045: access denied for user 'root'@'10.1.2.3'"

// TestStoreErrorsAreMapped: an unavailable store is answered 503 with Retry-After, an unknown error 500 with one log
// line. Neither answer contains the cause, nothing is changed, and the requests succeed afterwards.
func TestStoreErrorsAreMapped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault  func() error
		status int
		code   string
	}{
		"down":    {func() error { return fmt.Errorf("%w: %s", domain.ErrUnavailable, leak) }, http.StatusServiceUnavailable, "unavailable"},
		"unknown": {func() error { return errors.New(leak) }, http.StatusInternalServerError, "internal"},
		"panic":   {func() error { panic(leak) }, http.StatusInternalServerError, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			all := exchanges(e)
			before := e.dump()
			e.store.fail(tc.fault)
			for _, x := range all {
				logged := len(e.logs.of("ERROR"))
				a := x.do()
				a.problem(tc.status, tc.code)
				assert.NotContains(t, string(a.body), "10.1.2.3", x.name)
				lines := e.logs.of("ERROR")[logged:]
				if tc.status == http.StatusServiceUnavailable {
					assert.Equal(t, 1, a.retryAfter(), x.name)
					assert.Empty(t, lines, x.name)
					continue
				}
				assert.Len(t, lines, 1, "%s: an unknown error is logged once", x.name)
				for _, line := range lines {
					assert.Equal(t, a.header.Get("X-Request-Id"), line["request_id"], x.name)
				}
				assert.Contains(t, fmt.Sprint(lines), leak, "%s: the log has the cause", x.name)
				if name == "panic" {
					assert.Contains(t, fmt.Sprint(lines), ".go:", "%s: the log has the stack", x.name)
					assert.NotContains(t, string(a.body), "goroutine")
				}
			}
			assert.Equal(t, before, e.dump(), "the database is unchanged")
			if tc.status == http.StatusServiceUnavailable {
				assert.NotEmpty(t, e.logs.of("WARN"), "an outage is logged, although not once per request")
			}
			e.store.fail(nil)
			for _, x := range all {
				if a := x.do(); x.name != "place" { // the buyer already has an order
					assert.Less(t, a.status, 300, "%s: %s", x.name, a.body)
				}
			}
			e.checkInvariants()
		})
	}
}

// TestPanicOfSaleReadIsNotCached: a purchase reads the sale through a cache, in a read that it may share.
func TestPanicOfSaleReadIsNotCached(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(5), e.buyer(1)
	e.store.fail(func() error { panic("in the middle of a shared read") })
	for range 2 {
		buyer.post(v.orders(), nil).problem(http.StatusInternalServerError, "internal")
	}
	e.store.fail(nil)
	buyer.place(v)
	e.checkInvariants()
}

type failingLane struct{ err error }

func (l failingLane) Place(context.Context, domain.Purchase) (domain.Order, bool, error) {
	return domain.Order{}, false, l.err
}

// A stream that panics before its answer leaves no subscription, which would let no server stop.
func TestPanicOfStreamLeavesNoSubscription(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) { c.Entry = new(entry.Service) }))
	e.buyer(1).with("X-Entry-Ticket", "x").get("/api/v1/vouchers/1/entry/events").problem(http.StatusInternalServerError, "internal")
	require.Zero(t, e.config.RoomSubscribers.Count())
}

func TestReadyzReportsFailedChecks(t *testing.T) {
	t.Parallel()
	up := func(context.Context) error { return nil }
	down := func(context.Context) error { return errors.New(leak) }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, tc := range map[string]struct {
		checks map[string]handler.Check
		want   int
	}{
		"no checks": {nil, http.StatusOK},
		"all up":    {map[string]handler.Check{"database": up, "redis": up}, http.StatusOK},
		"one down":  {map[string]handler.Check{"database": up, "redis": down}, http.StatusServiceUnavailable},
		"one hangs": {map[string]handler.Check{"database": up, "redis": hangs}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(s *setup) { s.ready = tc.checks })
			alive := e.guest().get("/healthz").want(http.StatusOK)
			assert.JSONEq(t, `{"status":"ok","version":"1.2.3"}`, string(alive.body))
			a := e.guest().get("/readyz").want(tc.want)
			if tc.want == http.StatusServiceUnavailable {
				a.problem(tc.want, "unavailable")
				assert.Equal(t, 1, a.retryAfter())
				assert.NotContains(t, string(a.body), "10.1.2.3")
			}
		})
	}
}

// TestHeadAndMethods: uptime monitors and previews ask by HEAD (gotify/server#687, thomiceli/opengist#773).
func TestHeadAndMethods(t *testing.T) {
	e := start(t)
	admin := e.admin()
	buyer := e.buyer(1)
	sale := e.sale(3).ID
	picture := "/api/v1/images/" + decode[imageView](admin.upload(aPicture(t, 30)).want(http.StatusCreated)).ID
	order := decode[orderView](buyer.post("/api/v1/vouchers/"+sale+"/orders", nil).want(http.StatusCreated)).ID

	send := func(method, path string, c client) answer {
		t.Helper()
		return c.send(c.request(e.url, method, path, nil))
	}

	for _, path := range []string{
		"/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/vouchers", "/api/v1/vouchers/" + sale, "/api/v1/vouchers/999",
		"/api/v1/me", "/api/v1/me/export", "/api/v1/admin/orders", "/api/v1/admin/orders.csv", "/api/v1/admin/audit.csv",
		"/api/v1/admin/payments.csv", picture, "/api/v1/images/" + noImage, "/problems",
		"/api/v1/orders/1/events", "/api/v1/nothing", "/shop-type/list", "/api/voucher/list/1",
	} {
		get, head := send(http.MethodGet, path, admin), send(http.MethodHead, path, admin)
		require.Equal(t, get.status, head.status, path)
		require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
		require.Empty(t, head.body, path)
		if strings.HasSuffix(path, ".csv") {
			require.Empty(t, head.header.Get("Content-Length"), path)
		}
	}

	// The answer to HEAD of a stream ends at once, the one of a file has no rows.
	for path, c := range map[string]client{"/api/v1/orders/" + order + "/events": buyer, "/api/v1/admin/vouchers/" + sale + "/events": admin} {
		require.Equal(t, "text/event-stream", send(http.MethodHead, path, c).want(http.StatusOK).header.Get("Content-Type"))
	}

	for path, allowed := range map[string][]string{
		"/healthz": {"GET", "HEAD"}, "/api/v1/me": {"DELETE", "GET", "HEAD"}, "/api/v1/auth/login": {"POST"},
		"/api/v1/vouchers/" + sale + "/entry": {"DELETE", "GET", "HEAD", "POST"}, "/api/v1/admin/vouchers/" + sale: {"DELETE", "PATCH"},
	} {
		for _, method := range []string{http.MethodPut, "PROPFIND"} {
			a := send(method, path, admin)
			a.problem(http.StatusMethodNotAllowed, "method_not_allowed")
			require.Equal(t, allowed, slices.Sorted(strings.SplitSeq(a.header.Get("Allow"), ", ")), path)
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(http.MethodHead, "/api/v1/auth/login", admin).status)
}
