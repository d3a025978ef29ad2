package handler_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
)

// TestVouchersAreRevalidated: the ETag covers everything but server_time, which a 304 has in a header.
func TestVouchersAreRevalidated(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.sale(5)
	for _, path := range []string{v.path(), vouchersPath, vouchersPath + "?status=on_sale"} {
		first := e.guest().raw("GET", path, nil)
		require.Equal(t, http.StatusOK, first.status)
		require.Equal(t, "no-cache", first.header.Get("Cache-Control"))
		etag := first.header.Get("ETag")
		e.clock.advance(time.Second)
		for _, tag := range []string{etag, `"x", ` + etag, etag[len("W/"):], "*"} {
			again := e.guest().with("If-None-Match", tag).raw("GET", path, nil)
			require.Equal(t, http.StatusNotModified, again.status, tag)
			require.Empty(t, string(again.body))
			require.Equal(t, etag, again.header.Get("ETag"))
			require.Equal(t, "no-cache", again.header.Get("Cache-Control"))
			require.Equal(t, e.clock.now().Format(time.RFC3339Nano), again.header.Get("X-Server-Time"))
		}
		other := e.guest().with("If-None-Match", `"x"`).raw("GET", path, nil)
		require.Equal(t, http.StatusOK, other.status)
		require.Contains(t, string(other.body), `"server_time":"`+e.clock.now().Format(time.RFC3339Nano)+`"`)

		e.admin().patch(v.adminPath(), map[string]string{"title": "for " + path}).want(http.StatusOK)
		changed := e.guest().with("If-None-Match", etag).raw("GET", path, nil)
		require.Equal(t, http.StatusOK, changed.status, "a change by this server is effective at once")
		require.Contains(t, string(changed.body), "for "+path)
	}
	tag := e.guest().raw("GET", vouchersPath, nil).header.Get("ETag")
	e.clock.advance(time.Hour)
	ended := e.guest().with("If-None-Match", tag).raw("GET", vouchersPath, nil)
	require.Equal(t, http.StatusOK, ended.status, "the window ends by the clock, without another read")
	require.Contains(t, string(ended.body), `"state":"ended"`)
}

// TestVouchersAreCompressed: large answers are compressed for clients that accept gzip.
func TestVouchersAreCompressed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var v voucherView
	for range 4 {
		v = e.sale(5)
	}
	zipped := e.guest().with("Accept-Encoding", "br, gzip;q=0.8")
	small := zipped.raw("GET", v.path(), nil)
	require.Empty(t, small.header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", small.header.Get("Vary"))
	for range 2 {
		large := zipped.raw("GET", vouchersPath, nil)
		require.Equal(t, "gzip", large.header.Get("Content-Encoding"))
		require.Equal(t, fmt.Sprint(len(large.body)), large.header.Get("Content-Length"))
		r, err := gzip.NewReader(bytes.NewReader(large.body))
		require.NoError(t, err)
		body, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, string(e.guest().raw("GET", vouchersPath, nil).body), string(body))
		require.Contains(t, string(body), `"server_time":"`+e.clock.now().Format(time.RFC3339Nano)+`"`)
		e.clock.advance(time.Second)
	}
	for _, none := range []string{"", "br", "gzip;q=0", "gzip;q=0.000", "x-gzip"} {
		require.Empty(t, e.guest().with("Accept-Encoding", none).raw("GET", vouchersPath, nil).header.Get("Content-Encoding"), none)
	}
}

func TestCatalogAndDatabaseFilterAlike(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *env) {
		now := e.clock.now()
		for _, window := range [][2]time.Duration{{-time.Hour, time.Hour}, {time.Minute, time.Hour}, {-time.Hour, 0}, {0, time.Hour}} {
			for stock := range 2 {
				for _, status := range []string{"on", "off", "expired"} {
					v := e.sale(stock, func(b map[string]any) {
						b["begin_at"], b["end_at"] = now.Add(window[0]).Format(time.RFC3339), now.Add(window[1]).Format(time.RFC3339)
						b["shop_id"] = fmt.Sprint(1 + stock)
					})
					e.admin().patch(v.adminPath(), map[string]string{"status": status}).want(http.StatusOK)
				}
			}
		}
		e.admin().post("/api/v1/admin/vouchers", map[string]any{"shop_id": 1, "title": "n", "pay_value": 1, "actual_value": 1, "force": true}).want(http.StatusCreated)
		sales := service.NewSales(service.SalesConfig{Loader: e.store})
		t.Cleanup(sales.Close)
		vouchers := service.NewVouchers(service.VouchersConfig{Store: e.store, Sales: sales, Now: e.clock.now})
		catalog, err := vouchers.Catalog(t.Context())
		require.NoError(t, err)
		for _, shop := range []int64{0, 1, 2} {
			for _, status := range []domain.VoucherStatus{0, 1, 2, 3} {
				for _, state := range []domain.SaleState{"", "upcoming", "on_sale", "sold_out", "ended"} {
					for _, before := range []int64{0, 12} {
						if status != 0 && state != "" {
							continue // the API permits only one of them
						}
						f := domain.VoucherFilter{
							ShopID: shop, Status: status, State: state, Lasts: state == "" && status == 0,
							Page: domain.Page{Before: before, Limit: 7},
						}
						want, err := vouchers.Older(t.Context(), f, now)
						require.NoError(t, err)
						got, ok := catalog.List(f, now)
						require.True(t, ok)
						require.Equal(t, indented(t, want), indented(t, got), "%+v", f)
					}
				}
			}
		}
	})
}

func indented(t *testing.T, vouchers []*domain.Voucher) string {
	t.Helper()
	if len(vouchers) == 0 {
		return ""
	}
	b, err := json.MarshalIndent(vouchers, "", " ")
	require.NoError(t, err)
	return string(bytes.TrimSpace(b))
}

// TestExcessReadsAreRefused: while maxReads reads are blocked in the database, further reads are refused at once and
// purchases succeed.
func TestExcessReadsAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
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

// TestHmdpReadsAreSnapshots: the cached reads of the course are revalidated and compressed, as those under /api/v1.
func TestHmdpReadsAreSnapshots(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.shops(1)
	for range 10 {
		e.sale(5)
	}
	for _, path := range []string{"/shop/1", "/shop/of/type?typeId=1", "/voucher/list/1"} {
		first := e.guest().raw("GET", path, nil)
		require.Equal(t, "no-cache", first.header.Get("Cache-Control"), path)
		again := e.guest().with("If-None-Match", first.header.Get("ETag")).raw("GET", path, nil)
		require.Equal(t, http.StatusNotModified, again.status, path)
		require.Empty(t, string(again.body))
	}
	large := e.guest().with("Accept-Encoding", "gzip").raw("GET", "/voucher/list/1", nil)
	require.Equal(t, "gzip", large.header.Get("Content-Encoding"))
}

// TestShopAnswersAreCached: repeated requests for the same shops cost at most one query per second.
func TestShopAnswersAreCached(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.shops(3)
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

// stalled is the connection of a client that reads nothing: its first write blocks until resume is closed.
type stalled struct {
	http.ResponseWriter

	began  *sync.WaitGroup
	resume <-chan struct{}
	once   sync.Once
}

func (s *stalled) Write(b []byte) (int, error) {
	s.once.Do(s.began.Done)
	<-s.resume
	return len(b), nil
}

// TestSlowReadersHoldNothing: the limits of concurrent reads protect the database. A client that reads its answer slowly,
// or not at all, keeps nobody else out.
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
				ended.Go(func() {
					e.handler.ServeHTTP(&stalled{ResponseWriter: httptest.NewRecorder(), began: &began, resume: resume}, c.request("", http.MethodGet, path, nil))
				})
			}
			began.Wait()
			a := c.raw(http.MethodGet, path, nil).want(http.StatusOK)
			assert.NotContains(t, string(a.body), `"success":false`)
		})
	}
}
