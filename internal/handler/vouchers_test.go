package handler_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

const vouchersPath = "/api/v1/vouchers"

// withoutClock returns the body without server_time, the only field that differs between two reads.
func withoutClock(a answer) map[string]any {
	a.t.Helper()
	m := decode[map[string]any](a)
	delete(m, "server_time")
	return m
}

// TestCreateVoucher has one voucher of each kind, with the longest texts and the earliest times that are stored.
func TestCreateVoucher(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		admin := e.admin()
		title, rules := strings.Repeat("😀", 248)+"\n\"'\\ <b", strings.Repeat("é", 1024) // in characters, not bytes
		for _, tc := range []struct {
			body string
			want map[string]any // a part of the answer
		}{
			{
				fmt.Sprintf(`{"force":true,"shop_id":9007199254740993,"title":%q,"rules":%q,"pay_value":0,"actual_value":100000000000}`, title, rules),
				map[string]any{
					"shop_id": "9007199254740993", "title": title, "sub_title": "", "rules": rules, "pay_value": 0.0, "actual_value": 1e11,
					"type": "normal", "status": "on", "state": "on_sale",
				},
			},
			{
				`{"force":true,"shop_id":"7","title":"t","pay_value":1,"actual_value":2,"stock":5,` +
					`"begin_at":"2026-11-11T21:00:00+08:00","end_at":"2026-11-11T13:00:00.001Z"}`,
				map[string]any{
					"type": "seckill", "state": "upcoming", "stock": 5.0, "initial_stock": 5.0, "limit_per_user": 1.0,
					"begin_at": "2026-11-11T13:00:00Z", "end_at": "2026-11-11T13:00:00.001Z",
				},
			},
			{ // below 10^12 milliseconds, which a driver could take for seconds
				`{"force":true,"shop_id":"7","title":"t","pay_value":1,"actual_value":2,"stock":1000000000,"limit_per_user":100,` +
					`"begin_at":"2002-01-01T00:00:00Z","end_at":"9998-12-31T23:59:59Z"}`,
				map[string]any{"state": "on_sale", "limit_per_user": 100.0},
			},
		} {
			a := admin.post("/api/v1/admin/vouchers", tc.body).want(http.StatusCreated)
			created := withoutClock(a)
			for field, want := range tc.want {
				assert.Equal(t, want, created[field], field)
			}
			at := a.header.Get("Location")
			assert.Equal(t, vouchersPath+"/"+created["id"].(string), at)
			assert.Equal(t, created, withoutClock(admin.get(at).want(http.StatusOK)), "the answer is the stored voucher")
		}
	})
}

// TestListVouchers has one voucher for every state. The filters are those of TestListVouchers in package repo, in memory and in SQL.
func TestListVouchers(t *testing.T) {
	e := start(t)
	admin, now := e.admin(), e.clock.now()
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	ids := map[string]string{
		"running":  e.sale(1, with("shop_id", "2")).ID,
		"upcoming": e.sale(1, with("begin_at", at(time.Minute))).ID,
		"over":     e.sale(1, with("end_at", at(-time.Minute))).ID,
		"sold out": e.sale(0).ID,
	}
	expired := e.sale(1)
	admin.patch(expired.adminPath(), map[string]string{"status": "expired"}).want(http.StatusOK)
	ids["expired"], ids["normal"] = expired.ID, e.normal().ID
	first := decode[listView[voucherView]](e.guest().get(vouchersPath + "?limit=4").want(http.StatusOK))

	for query, names := range map[string][]string{
		"":                             {"normal", "sold out", "over", "upcoming", "running"}, // newest first
		"?status=expired":              {"expired"},
		"?status=current":              {"normal", "sold out", "upcoming", "running"},
		"?status=upcoming":             {"upcoming"},
		"?status=on_sale":              {"normal", "running"},
		"?status=sold_out":             {"sold out"},
		"?status=ended":                {"expired", "over"},
		"?shop_id=2":                   {"running"},
		"?shop_id=2&status=ended":      {},
		"?cursor=" + *first.NextCursor: {"running"},
	} {
		want := make([]string, len(names))
		for i, n := range names {
			want[i] = ids[n]
		}
		l := decode[listView[voucherView]](admin.get(vouchersPath + query).want(http.StatusOK))
		assert.Nil(t, l.NextCursor)
		assert.Equal(t, want, idsOf(l.Items), query)
		if state := strings.TrimPrefix(query, "?status="); state == "on_sale" || state == "ended" {
			for _, v := range l.Items { // the filter and the field are computed in two places
				assert.Equal(t, state, v.State, v.ID)
			}
		}
	}
}

func idsOf(vouchers []voucherView) []string {
	ids := make([]string, len(vouchers))
	for i, v := range vouchers {
		ids[i] = v.ID
	}
	return ids
}

func TestPatchVoucher(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, admin := e.sale(5), e.admin()
		before := withoutClock(e.guest().get(v.path()).want(http.StatusOK))
		for _, step := range []struct {
			patch string
			want  map[string]any // fields that change
		}{
			{`{"title":"new","sub_title":"s","rules":"r"}`, map[string]any{"title": "new", "sub_title": "s", "rules": "r"}},
			{`{"pay_value":1,"actual_value":2,"shop_id":"9"}`, map[string]any{"pay_value": 1.0, "actual_value": 2.0, "shop_id": "9"}},
			{`{"end_at":"2026-11-12T00:00:00+08:00"}`, map[string]any{"end_at": "2026-11-11T16:00:00Z"}},
			{`{"begin_at":"2026-11-11T15:00:00Z"}`, map[string]any{"begin_at": "2026-11-11T15:00:00Z", "state": "upcoming"}},
			{`{"begin_at":"2026-11-11T11:00:00Z"}`, map[string]any{"begin_at": "2026-11-11T11:00:00Z", "state": "on_sale"}},
			{`{"status":"off"}`, map[string]any{"status": "off", "state": "ended"}},
			{`{"status":"on"}`, map[string]any{"status": "on", "state": "on_sale"}},
			{`{"limit_per_user":3}`, map[string]any{"limit_per_user": 3.0}},
			{`{"limit_per_user":3}`, nil},
			{`{"sub_title":""}`, map[string]any{"sub_title": ""}},
			{`{"valid_from":"2026-11-12T00:00:00+08:00","valid_until":"2027-01-01T00:00:00+08:00"}`, map[string]any{
				"valid_from": "2026-11-11T16:00:00Z", "valid_until": "2026-12-31T16:00:00Z",
			}},
			{`{"valid_from":null}`, map[string]any{"valid_from": nil}},
		} {
			e.clock.advance(time.Second)
			after := withoutClock(admin.patch(v.adminPath(), step.patch).want(http.StatusOK))
			for field, want := range step.want {
				before[field] = want
				if want == nil {
					delete(before, field)
				}
			}
			before["updated_at"] = after["updated_at"]
			require.Equal(t, before, after, step.patch)
			require.Equal(t, after, withoutClock(admin.get(v.path()).want(http.StatusOK)), "the answer is the stored voucher")
		}
	})
}

// TestReadsOfUnpublishedVouchersAreRecorded covers members of the staff with and without the permission. Requests of
// others, and for published vouchers, are not recorded.
func TestReadsOfUnpublishedVouchersAreRecorded(t *testing.T) {
	e := start(t)
	off, shown := e.sale(5), e.sale(5)
	admin, viewer, redeemer := e.admin(), e.staff("13900000003", domain.RoleViewer), e.staff("13900000004", domain.RoleRedeemer)
	admin.patch(off.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	for range 2 { // equal requests of a minute are recorded once
		viewer.get(off.path()).want(http.StatusOK)
		viewer.get(vouchersPath + "?status=off").want(http.StatusOK)
		viewer.get(shown.path()).want(http.StatusOK)
		redeemer.get(off.path()).problem(http.StatusNotFound, "not_found")
		redeemer.get(vouchersPath+"?status=off").problem(http.StatusForbidden, "forbidden")
	}
	viewer.get(vouchersPath).want(http.StatusOK)
	e.guest().get(off.path()).problem(http.StatusNotFound, "not_found")
	assert.Equal(t, []string{
		"viewer POST /auth/login  OK", "viewer GET /vouchers/:id " + off.ID + " OK", "viewer GET /vouchers  OK",
	}, e.requests(admin, viewer))
	assert.Equal(t, []string{
		"redeemer POST /auth/login  OK", "redeemer GET /vouchers/:id " + off.ID + " Not Found", "redeemer GET /vouchers  Forbidden",
	}, e.requests(admin, redeemer))
}

// Users may already have as many orders as the limit allowed, even if the window is moved afterwards.
func TestLimitCannotBeLowered(t *testing.T) {
	e := start(t)
	v, admin, buyer := e.sale(5, with("limit_per_user", 3)), e.admin(), e.buyer(1)
	buyer.post(v.orders(), nil).want(http.StatusCreated)
	buyer.post(v.orders(), nil).want(http.StatusCreated)
	before := e.dump()
	admin.patch(v.adminPath(), map[string]int{"limit_per_user": 1}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), `{"limit_per_user":2,"begin_at":"2026-11-11T12:30:00Z"}`).
		problem(http.StatusConflict, "invalid_state")
	assert.Equal(t, before, e.dump())
	admin.patch(v.adminPath(), map[string]string{"begin_at": "2026-11-11T12:30:00Z"}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]int{"limit_per_user": 1}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), map[string]int{"limit_per_user": 4}).want(http.StatusOK)
	e.checkInvariants()
}

// TestVouchersAreRevalidated: the ETag covers everything but server_time, which a 304 has in a header.
func TestVouchersAreRevalidated(t *testing.T) {
	e := start(t)
	v := e.sale(5)
	read := func(path, tag string, status int) answer {
		t.Helper()
		a := e.guest().with("If-None-Match", tag).raw("GET", path, nil)
		require.Equal(t, status, a.status, "%s %s", path, tag)
		require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
		return a
	}
	for _, path := range []string{v.path(), vouchersPath, vouchersPath + "?status=on_sale"} {
		etag := read(path, "", http.StatusOK).header.Get("ETag")
		e.clock.advance(time.Second)
		now := e.clock.now().Format(time.RFC3339Nano)
		for _, tag := range []string{etag, `"x", ` + etag, etag[len("W/"):], "*"} {
			again := read(path, tag, http.StatusNotModified)
			require.Empty(t, string(again.body))
			require.Equal(t, etag, again.header.Get("ETag"))
			require.Equal(t, now, again.header.Get("X-Server-Time"))
		}
		require.Contains(t, string(read(path, `"x"`, http.StatusOK).body), `"server_time":"`+now+`"`)

		e.admin().patch(v.adminPath(), map[string]string{"title": "for " + path}).want(http.StatusOK)
		changed := read(path, etag, http.StatusOK) // a change by this server is effective at once
		require.Contains(t, string(changed.body), "for "+path)
	}
	tag := read(vouchersPath, "", http.StatusOK).header.Get("ETag")
	e.clock.advance(time.Hour)
	ended := read(vouchersPath, tag, http.StatusOK) // the window ends by the clock, without another read
	require.Contains(t, string(ended.body), `"state":"ended"`)
}

// TestVouchersAreCompressed: large answers are compressed for clients that accept gzip. TestGzipIsThePlainAnswer has the contents.
func TestVouchersAreCompressed(t *testing.T) {
	e := start(t)
	var v voucherView
	for range 4 {
		v = e.sale(5)
	}
	for accept, zipped := range map[string]bool{
		"br, gzip;q=0.8": true, "": false, "br": false, "gzip;q=0": false, "gzip;q=0.000": false, "x-gzip": false,
	} {
		c := e.guest().with("Accept-Encoding", accept)
		small, large := c.raw("GET", v.path(), nil), c.raw("GET", vouchersPath, nil)
		require.Empty(t, small.header.Get("Content-Encoding"))
		require.Equal(t, "Accept-Encoding", small.header.Get("Vary"))
		require.Equal(t, zipped, large.header.Get("Content-Encoding") == "gzip", accept)
		require.Equal(t, fmt.Sprint(len(large.body)), large.header.Get("Content-Length"))
	}
}

// While maxReads reads are blocked in the database, further reads are refused at once and purchases succeed.
func TestExcessReadsAreRefused(t *testing.T) {
	e := start(t)
	v, buyer, other := e.sale(5), e.buyer(1), e.buyer(2)
	order := buyer.place(v)
	release, reading := make(chan struct{}), make(chan struct{}, 1000)
	e.store.fail(func() error { reading <- struct{}{}; <-release; return nil })
	const maxReads = 64
	answers := make(chan int, maxReads)
	for range maxReads {
		go func() {
			answers <- buyer.raw("GET", order.path(), nil).status
		}()
	}
	for range maxReads {
		<-reading
	}
	for _, path := range []string{order.path(), "/api/v1/orders", order.path() + "/payments", "/api/v1/me"} {
		a := buyer.get(path)
		a.problem(http.StatusServiceUnavailable, "overloaded")
		require.Equal(t, 1, a.retryAfter())
	}
	e.store.fail(nil)
	other.post(v.orders(), nil).want(http.StatusCreated)
	close(release)
	for range maxReads { // those that were blocked for longer than their time limit are answered 503
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, <-answers)
	}
	buyer.get(order.path()).want(http.StatusOK)
}

// TestHmdpReadsAreSnapshots: the reads of the course are cached and revalidated as those under /api/v1.
func TestHmdpReadsAreSnapshots(t *testing.T) {
	e := start(t)
	e.shops(1)
	e.sale(5)
	for _, path := range []string{"/shop/1", "/shop/of/type?typeId=1", "/voucher/list/1"} {
		first := e.guest().raw("GET", path, nil)
		require.Equal(t, "no-cache", first.header.Get("Cache-Control"), path)
		again := e.guest().with("If-None-Match", first.header.Get("ETag")).raw("GET", path, nil)
		require.Equal(t, http.StatusNotModified, again.status, path)
		require.Empty(t, string(again.body))
	}

	// Repeated requests for the same shops cost at most one query per second.
	var queries atomic.Int64
	e.store.fail(func() error { queries.Add(1); return nil })
	start := time.Now()
	for range 50 {
		for _, path := range []string{"/shop/1", "/shop/of/type?typeId=1"} {
			require.Contains(t, string(e.guest().raw("GET", path, nil).body), `"success":true`)
		}
	}
	require.LessOrEqual(t, queries.Load(), 2*(1+int64(time.Since(start)/time.Second)))
}

// TestSlowReadersHoldNothing: the limits of concurrent reads protect the database. A client that reads its answer slowly,
// or not at all, blocks no other client.
func TestSlowReadersHoldNothing(t *testing.T) {
	t.Parallel()
	const readers = 65 // one more than any limit
	for _, path := range []string{
		"/api/v1/me", "/api/v1/me/export", "/api/v1/orders", "/api/v1/shops", "/api/v1/admin/orders.csv", "/api/v1/admin/payments.csv", "/api/v1/admin/audit.csv",
		"/shop/of/type?typeId=1&current=1",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			c := e.admin()
			resume := make(chan struct{})
			var began, ended sync.WaitGroup
			defer ended.Wait()
			defer close(resume)
			for range readers {
				began.Add(1)
				var once sync.Once
				ended.Go(func() {
					c.take(path, func([]byte) { once.Do(began.Done); <-resume })
				})
			}
			began.Wait()
			a := c.raw(http.MethodGet, path, nil).want(http.StatusOK)
			assert.NotContains(t, string(a.body), `"success":false`)
		})
	}
}
