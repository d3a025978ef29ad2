package handler_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
	"seckill/test/testenv"
)

// TestHmdpSessionIsExtendedByUse: requests extend the idle timeout of the session, even on routes without login.
func TestHmdpSessionIsExtendedByUse(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, p := e.sale(5), e.pageOf(phone)
	for range 3 {
		e.clock.advance(29 * time.Minute)
		p.get("/user/me").object()
	}
	for _, path := range []string{
		"/shop-type/list", "/shop/of/type?typeId=1", "/shop/1", "/voucher/list/1", "/blog/hot", "/blog/of/me", "/blog/of/follow",
		"/user/info/1",
	} {
		e.clock.advance(29 * time.Minute)
		p.get(path)
	}
	e.clock.advance(30*time.Minute - time.Millisecond)
	p.post("/voucher-order/seckill/"+v.ID, nil).fails("秒杀已经结束") // still logged in; the sale is over
	e.clock.advance(30 * time.Minute)
	p.post("/voucher-order/seckill/"+v.ID, nil).loggedOut()
	p.get("/user/me").loggedOut()
}

// TestHmdpSessionEndsAfterSevenDays: even if it is used all the time.
func TestHmdpSessionEndsAfterSevenDays(t *testing.T) {
	t.Parallel()
	testenv.Full(t)
	e := newEnv(t)
	p := e.pageOf(phone)
	for range 7*24*60/14 - 1 { // twice in an idle timeout: on a busy machine one extension may fail
		e.clock.advance(14 * time.Minute)
		p.get("/user/me").object()
	}
	e.clock.advance(14 * time.Minute)
	p.get("/user/me").loggedOut()
}

// TestHmdpSessionIsCached: requests within a minute read the session from the store once.
func TestHmdpSessionIsCached(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, p := e.sale(1), e.pageOf(phone)
	var slides atomic.Int64
	e.store.faults.Before(func(query string) error {
		if strings.HasPrefix(query, "UPDATE `sessions`") {
			slides.Add(1)
		}
		return nil
	})
	p.post("/voucher-order/seckill/"+v.ID, nil).text()
	require.Zero(t, slides.Load())
	e.clock.advance(time.Minute)
	for range 50 {
		p.post("/voucher-order/seckill/"+v.ID, nil).fails("用户已经购买过一次了")
	}
	require.EqualValues(t, 1, slides.Load())
}

// TestHmdpSessionOnOtherInstances: a session is in the database, so it is valid on every instance and after a restart,
// and a logout ends it everywhere.
func TestHmdpSessionOnOtherInstances(t *testing.T) {
	t.Parallel()
	one := newEnv(t)
	other := func() *env { return newEnv(t, func(s *setup) { s.store = one.store }) }
	at := func(e *env, p page) page { p.env = e; return p }
	two, p := other(), one.pageOf(phone)
	at(two, p).get("/user/me").object()
	for _, e := range []*env{one, two} { // only the second instance serves the session for an hour
		e.clock.advance(29 * time.Minute)
	}
	at(two, p).get("/user/me").object()
	for _, e := range []*env{one, two} {
		e.clock.advance(29 * time.Minute)
	}
	p.get("/user/me").object()

	p.post("/user/logout", nil).none()
	require.NoError(t, two.revoked.Load(t.Context())) // as the poller does twice per second
	at(two, p).get("/user/me").loggedOut()
	restarted := other()
	restarted.clock.advance(time.Hour)
	at(restarted, p).get("/user/me").loggedOut()
}

// TestHmdpSessionSurvivesStoreOutage: a cached session remains valid while the store is down.
func TestHmdpSessionSurvivesStoreOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) { s.lane = func(service.Lane) service.Lane { return failingLane{domain.ErrSoldOut} } })
	v, p := e.sale(5), e.pageOf(phone)
	for range 2 { // caches the sale and its buyers
		p.post("/voucher-order/seckill/"+v.ID, nil).fails("库存不足")
	}
	stranger := newEnv(t, func(s *setup) { s.store = e.store })
	e.store.fail(func() error { return domain.ErrUnavailable })
	e.clock.advance(20 * time.Minute)
	p.post("/voucher-order/seckill/"+v.ID, nil).fails("库存不足")
	p.env = stranger
	p.get("/user/me").broken(http.StatusServiceUnavailable)
	require.Len(t, p.get("/shop-type/list").list(), 10)
}

// TestHmdpSessionOfDeletedUser: the session of a deleted user is invalid.
func TestHmdpSessionOfDeletedUser(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.pageOf(phone)
	_, err := e.store.Pools()["write"].ExecContext(t.Context(), "DELETE FROM users")
	require.NoError(t, err)
	p.get("/user/me").loggedOut()
	e.clock.advance(time.Minute)
	p.post("/voucher-order/seckill/1", nil).loggedOut()
}
