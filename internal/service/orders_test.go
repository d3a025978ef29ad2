package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error { return goleak.Find() })
}

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// store is an OrderStore. A test sets the functions that it needs.
type store struct {
	OrderStore
	active func() (int, int64, error)
	users  func() ([]int64, error)
}

func (s *store) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return s.active()
}

func (s *store) Holders(context.Context, int64, int) ([]int64, error) { return s.users() }

// laneFunc is a Lane that calls a function.
type laneFunc func(ctx context.Context, p domain.Purchase) (domain.Order, error)

func (f laneFunc) Place(ctx context.Context, p domain.Purchase) (domain.Order, bool, error) {
	o, err := f(ctx, p)
	return o, false, err
}

// newOrders returns a service with one voucher. It allows maxInFlight concurrent purchases.
func newOrders(t *testing.T, v domain.Voucher, maxInFlight int, lane laneFunc, change ...func(*OrdersConfig)) *Orders {
	cfg := OrdersConfig{
		Unpaid: noLimits{},
		Sales:  newSales(t, &loader{load: func(context.Context) (domain.Voucher, error) { return v, nil }}),
		Store:  &store{users: func() ([]int64, error) { return nil, nil }},
		Lane:   lane, Now: func() time.Time { return testNow }, PayTimeout: time.Minute, MaxInFlight: maxInFlight,
	}
	for _, c := range change {
		c(&cfg)
	}
	return NewOrders(cfg)
}

func TestPlacePassesPurchaseToLane(t *testing.T) {
	var got domain.Purchase
	orders := newOrders(t, openSale(1), 1, func(_ context.Context, p domain.Purchase) (domain.Order, error) {
		got = p
		return domain.Order{ID: 9}, nil
	})
	o, err := orders.Place(t.Context(), 7, 1, 0)
	require.NoError(t, err)
	require.Equal(t, int64(9), o.ID)
	require.WithinDuration(t, time.Now().Add(placeTimeout), got.Deadline, time.Minute)
	got.Deadline = time.Time{}
	sale := openSale(1).Sale
	require.Equal(t, domain.Purchase{
		UserID: 7, VoucherID: 1, Amount: 100, Limit: 1, At: testNow, ExpiresAt: testNow.Add(time.Minute),
		Window: domain.Window{Begin: sale.BeginAt, End: sale.EndAt},
	}, got)
}

// The end of the caller's context does not stop a purchase that has begun.
func TestPlaceContinuesWithoutItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	orders := newOrders(t, openSale(1), 1, func(laneCtx context.Context, _ domain.Purchase) (domain.Order, error) {
		cancel()
		return domain.Order{ID: 9}, laneCtx.Err()
	})
	_, err := orders.Place(ctx, 7, 1, 0)
	require.NoError(t, err)
}

func TestPlaceLimitsPurchasesInFlight(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	orders := newOrders(t, openSale(1), 1, func(context.Context, domain.Purchase) (domain.Order, error) {
		inside <- struct{}{}
		<-leave
		return domain.Order{}, nil
	})
	done := make(chan error)
	go func() { _, err := orders.Place(context.Background(), 1, 1, 0); done <- err }()
	<-inside
	_, err := orders.Place(t.Context(), 2, 1, 0)
	require.ErrorIs(t, err, domain.ErrOverloaded)
	close(leave)
	require.NoError(t, <-done)
}

// After ErrSoldOut from the lane, further purchases are refused without it.
func TestSoldOutIsCached(t *testing.T) {
	calls := 0
	orders := newOrders(t, openSale(1), 1, func(context.Context, domain.Purchase) (domain.Order, error) {
		calls++
		return domain.Order{}, domain.ErrSoldOut
	})
	for range 3 {
		_, err := orders.Place(t.Context(), 7, 1, 0)
		require.ErrorIs(t, err, domain.ErrSoldOut)
	}
	require.Equal(t, 1, calls)
}

// A repeated purchase within seconds is refused without the lane, by the orders in the store. It reaches the lane if
// the user may buy again, or after some seconds.
func TestRecentBuyerIsAnsweredFromStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placed, active := 0, 0
		orders := newOrders(t, openSale(100), 1, func(context.Context, domain.Purchase) (domain.Order, error) {
			placed++
			active = 1
			return domain.Order{ID: 9}, nil
		}, func(c *OrdersConfig) {
			c.Store = &store{active: func() (int, int64, error) { return active, 9, nil }}
		})
		place := func() error { _, err := orders.Place(t.Context(), 7, 1, 0); return err }
		require.NoError(t, place())
		var dup *domain.DuplicateOrderError
		require.ErrorAs(t, place(), &dup)
		require.Equal(t, int64(9), dup.OrderID)
		require.Equal(t, 1, placed)
		active = 0 // cancelled, possibly by another process
		require.NoError(t, place())
		require.Equal(t, 2, placed)
		time.Sleep(2*recentFor + time.Second)
		require.NoError(t, place())
		require.Equal(t, 3, placed)
	})
}

// noLimits does not limit unpaid orders.
type noLimits struct{}

func (noLimits) MayOrder(*domain.Purchase, *domain.Voucher) error { return nil }
