package handler_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
)

func userID(t testing.TB, c client) int64 {
	t.Helper()
	id, err := strconv.ParseInt(c.login.User.ID, 10, 64)
	require.NoError(t, err)
	return id
}

// place buys one unit and returns the order.
func (c client) place(v voucherView) orderView {
	c.t.Helper()
	return decode[orderView](c.post(v.orders(), nil).want(http.StatusCreated))
}

func TestPlaceOrder(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db)
		v, buyer := e.sale(2), e.buyer(1)
		a := buyer.post(v.orders(), nil).want(http.StatusCreated)
		o := decode[orderView](a)
		assert.Equal(t, o.path(), a.header.Get("Location"))
		assert.Equal(t, orderView{
			ID: o.ID, VoucherID: v.ID, UserID: buyer.login.User.ID, Status: "pending_payment", Amount: 8000,
			CreatedAt: "2026-11-11T12:00:00Z", ExpiresAt: "2026-11-11T12:15:00Z",
		}, o)
		assert.Greater(t, o.ID, "3000000000000000000", "an id that a JavaScript number cannot represent")
		assert.Equal(t, decode[map[string]any](a), decode[map[string]any](buyer.get(o.path()).want(http.StatusOK)))
		assert.EqualValues(t, 1, e.stock(v.ID))

		for range 2 { // a repeated click places no second order
			p := buyer.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order")
			assert.Equal(t, o.ID, p.OrderID)
		}
		assert.EqualValues(t, 1, e.stock(v.ID))
		e.checkInvariants()
	})
}

func TestSoldOut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, owner := e.sale(1), e.buyer(1)
	o := owner.place(v)
	for i := range 3 { // from the database first, then from the cached sale
		e.buyer(2+i).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
		p := owner.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order")
		assert.Equal(t, o.ID, p.OrderID, "a buyer with an order gets duplicate_order instead of sold_out")
	}
	assert.Equal(t, "sold_out", decode[voucherView](e.guest().get(v.path()).want(http.StatusOK)).State)

	owner.post(o.path()+"/cancel", nil).want(http.StatusOK)
	e.buyer(9).place(v) // the unit is for sale again at once
	owner.post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
	e.checkInvariants()
}

func TestSaleWindow(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	now := e.clock.now()
	v, buyer := e.sale(5, func(b map[string]any) {
		b["begin_at"], b["end_at"] = now.Add(time.Minute).Format(time.RFC3339), now.Add(2*time.Minute).Format(time.RFC3339)
	}), e.buyer(1)
	before := e.dump()
	e.clock.advance(time.Minute - time.Millisecond)
	buyer.post(v.orders(), nil).problem(http.StatusConflict, "sale_not_started")
	e.clock.advance(time.Minute + time.Millisecond)
	buyer.post(v.orders(), nil).problem(http.StatusConflict, "sale_ended")
	assert.Equal(t, before, e.dump())
	e.clock.advance(-time.Millisecond)
	buyer.place(v)
	e.clock.advance(-time.Minute + time.Millisecond)
	e.buyer(2).place(v)
}

func TestVouchersThatCannotBeBought(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, buyer := e.admin(), e.buyer(1)
	normal := decode[voucherView](admin.post("/api/v1/admin/vouchers",
		map[string]any{"shop_id": "1", "title": "n", "pay_value": 1, "actual_value": 1}).want(http.StatusCreated))
	buyer.post(normal.orders(), nil).problem(http.StatusConflict, "invalid_state")
	admin.patch(normal.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	buyer.post(normal.orders(), nil).problem(http.StatusNotFound, "not_found")
	for range 2 {
		buyer.post("/api/v1/vouchers/4711/orders", nil).problem(http.StatusNotFound, "not_found")
	}
	never := e.sale(0)
	buyer.post(never.orders(), nil).problem(http.StatusConflict, "sold_out")
}

func TestOrderInProgress(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, buyer := e.sale(5), e.buyer(1)
	before := e.dump()
	require.NoError(t, e.locks.take(userID(t, buyer)))
	a := buyer.post(v.orders(), nil)
	a.problem(http.StatusConflict, "order_in_progress")
	assert.Equal(t, 1, a.retryAfter())
	assert.Equal(t, before, e.dump())
	e.buyer(2).place(v) // other users are not affected
	e.locks.release(userID(t, buyer))
	buyer.place(v)
}

func TestLockOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, buyer := e.sale(5), e.buyer(1)
	before := e.dump()
	e.locks.fail(errors.New("dial tcp 10.1.2.3:6379: connection refused"))
	a := buyer.post(v.orders(), nil)
	a.problem(http.StatusServiceUnavailable, "unavailable")
	assert.Equal(t, 1, a.retryAfter())
	assert.NotContains(t, string(a.body), "10.1.2.3")
	assert.Equal(t, before, e.dump())
	e.locks.fail(nil)
	buyer.place(v)
}

// slowLane announces each purchase on entered and blocks it until leave is readable.
type slowLane struct {
	service.Lane
	entered, leave chan struct{}
}

func (l slowLane) Place(ctx context.Context, p domain.Purchase) (domain.Order, bool, error) {
	l.entered <- struct{}{}
	<-l.leave
	return l.Lane.Place(ctx, p)
}

func TestOverloaded(t *testing.T) {
	t.Parallel()
	slow := slowLane{entered: make(chan struct{}), leave: make(chan struct{})}
	e := newEnv(t, func(s *setup) {
		s.maxInFlight = 1
		s.lane = func(inner service.Lane) service.Lane { slow.Lane = inner; return slow }
	})
	leave := sync.OnceFunc(func() { close(slow.leave) })
	t.Cleanup(leave) // releases the server if the test fails early
	v, one, two := e.sale(5), e.buyer(1), e.buyer(2)
	first := make(chan answer, 1)
	go func() { first <- one.do("POST", v.orders(), nil) }()
	<-slow.entered
	a := two.post(v.orders(), nil)
	a.problem(http.StatusServiceUnavailable, "overloaded")
	assert.Equal(t, 1, a.retryAfter())
	two.get(v.path()).want(http.StatusOK) // reads are still possible
	leave()
	(<-first).want(http.StatusCreated)
	go func() { <-slow.entered }()
	two.place(v)
	assert.EqualValues(t, 3, e.stock(v.ID))
}

func TestOrdersBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, owner, other := e.sale(5), e.buyer(1), e.buyer(2)
	o := owner.place(v)
	for _, c := range []client{other, e.admin()} {
		before := e.dump()
		c.get(o.path()).problem(http.StatusNotFound, "not_found")
		c.post(o.path()+"/cancel", nil).problem(http.StatusNotFound, "not_found")
		assert.Empty(t, decode[listView[orderView]](c.get("/api/v1/orders").want(http.StatusOK)).Items)
		assert.Equal(t, before, e.dump())
	}
	owner.get("/api/v1/orders/4711").problem(http.StatusNotFound, "not_found")
	owner.post("/api/v1/orders/4711/cancel", nil).problem(http.StatusNotFound, "not_found")
}

func TestCancelReturnsUnitOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db)
		v, buyer := e.sale(3), e.buyer(1)
		o := buyer.place(v)
		e.clock.advance(time.Second)
		a := buyer.post(o.path()+"/cancel", nil).want(http.StatusOK)
		got := decode[orderView](a)
		assert.Equal(t, "cancelled", got.Status)
		assert.Equal(t, "2026-11-11T12:00:01Z", got.CancelledAt)
		assert.Equal(t, decode[map[string]any](a), decode[map[string]any](buyer.get(o.path()).want(http.StatusOK)))
		assert.EqualValues(t, 3, e.stock(v.ID))

		buyer.post(o.path()+"/cancel", nil).problem(http.StatusConflict, "invalid_state")
		assert.EqualValues(t, 3, e.stock(v.ID), "the unit is returned once")

		again := buyer.place(v)
		assert.NotEqual(t, o.ID, again.ID)
		assert.EqualValues(t, 2, e.stock(v.ID))
		e.checkInvariants()
	})
}

func TestListOrders(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db)
		buyer := e.buyer(1)
		var newestFirst []string
		for range 5 {
			newestFirst = append([]string{buyer.place(e.sale(1)).ID}, newestFirst...)
		}
		e.buyer(2).place(e.sale(1)) // must not be in the list
		buyer.post("/api/v1/orders/"+newestFirst[1]+"/cancel", nil).want(http.StatusOK)

		list := func(c client, path string) []string {
			_, orders := walk[orderView](c, path, 2)
			ids := make([]string, len(orders))
			for i, o := range orders {
				ids[i] = o.ID
			}
			return ids
		}
		assert.Equal(t, newestFirst, list(buyer, "/api/v1/orders"))
		assert.Equal(t, newestFirst[1:2], list(buyer, "/api/v1/orders?status=cancelled"))
	})
}
