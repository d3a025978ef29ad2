package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error { return goleak.Find() })
}

// storedBefore is an order id that store reports as stored by an earlier call.
const storedBefore = 4_000_000

// store is an OrderStore. A test sets the functions that it needs.
type store struct {
	OrderStore
	place  func(ctx context.Context, o Order) (Order, error)
	active func() (int, int64, error)
	users  func() ([]int64, error)
}

func (s *store) PlaceOrders(ctx context.Context, orders []NewOrder) []Placed {
	placed := make([]Placed, len(orders))
	for i, o := range orders {
		placed[i].Order, placed[i].Err = s.place(ctx, o.Order)
		placed[i].Before = placed[i].Order.ID == storedBefore
	}
	return placed
}

func (s *store) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return s.active()
}

func (s *store) Holders(context.Context, int64, int) ([]int64, error) { return s.users() }

// locks is a UserLocks that fails with before, or runs fn and fails with after; nil means success.
type locks struct{ before, after error }

func (l locks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	if l.before != nil {
		return l.before
	}
	return errors.Join(fn(ctx), l.after)
}

// ids is an IDs that counts up. Skip jumps by 1,000.
type ids struct {
	next    int64
	skipped []int64
	blocks  []int // the number of ids of each call
	err     error
}

func (g *ids) NextN(_ context.Context, n int) ([]int64, error) {
	g.blocks = append(g.blocks, n)
	block := make([]int64, n)
	for i := range block {
		g.next++
		block[i] = g.next
	}
	return block, g.err
}

func (g *ids) Skip(_ context.Context, taken int64) error {
	g.skipped = append(g.skipped, taken)
	g.next = taken + 1000
	return nil
}

func TestLockLane(t *testing.T) {
	placed := func(_ context.Context, o Order) (Order, error) { return o, nil }
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		locks locks
		ids   ids
		place func(context.Context, Order) (Order, error)
		want  error
	}{
		"placed":                 {place: placed},
		"in progress":            {locks: locks{before: ErrOrderInProgress}, want: ErrOrderInProgress},
		"lock server down":       {locks: locks{before: broken}, want: ErrUnavailable},
		"id server down":         {ids: ids{err: broken}, place: placed, want: ErrUnavailable},
		"sold out":               {place: func(context.Context, Order) (Order, error) { return Order{}, ErrSoldOut }, want: ErrSoldOut},
		"release failed":         {locks: locks{after: broken}, place: placed}, // the commit counts
		"sold out, then release": {locks: locks{after: broken}, place: func(context.Context, Order) (Order, error) { return Order{}, ErrSoldOut }, want: ErrSoldOut},
		"ids never free":         {place: func(context.Context, Order) (Order, error) { return Order{}, ErrIDTaken }, want: ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			lane := NewLockLane(tc.locks, NewBatchLane(&tc.ids, &store{place: tc.place}, nil))
			o, _, err := lane.Place(t.Context(), Purchase{UserID: 7, VoucherID: 1, Amount: 5, Limit: 1, At: testNow, Deadline: time.Now().Add(time.Minute)})
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Order{ID: 1, UserID: 7, VoucherID: 1, Amount: 5, Status: OrderPendingPayment, CreatedAt: testNow}, o)
		})
	}
}

func TestLockLaneReplacesTakenID(t *testing.T) {
	g := &ids{}
	lane := NewLockLane(locks{}, NewBatchLane(g, &store{place: func(_ context.Context, o Order) (Order, error) {
		if o.ID < 1000 {
			return Order{}, ErrIDTaken
		}
		return o, nil
	}}, nil))
	o, _, err := lane.Place(t.Context(), Purchase{UserID: 7, Deadline: time.Now().Add(time.Minute)})
	require.NoError(t, err)
	require.Equal(t, int64(1002), o.ID)
	require.Equal(t, []int64{1}, g.skipped)
}

// laneFunc is a Lane that calls a function.
type laneFunc func(ctx context.Context, p Purchase) (Order, error)

func (f laneFunc) Place(ctx context.Context, p Purchase) (Order, bool, error) {
	o, err := f(ctx, p)
	return o, false, err
}

// newOrders returns a service with one voucher. It allows maxInFlight concurrent purchases.
func newOrders(t *testing.T, v Voucher, maxInFlight int, lane laneFunc) *Orders {
	return NewOrders(OrdersConfig{
		Sales: newSales(t, &loader{load: func(context.Context) (Voucher, error) { return v, nil }}),
		Store: &store{users: func() ([]int64, error) { return nil, nil }},
		Lane:  lane, Now: func() time.Time { return testNow }, PayTimeout: time.Minute, MaxInFlight: maxInFlight,
	})
}

func TestPlacePassesPurchaseToLane(t *testing.T) {
	var got Purchase
	orders := newOrders(t, openSale(1), 1, func(_ context.Context, p Purchase) (Order, error) { got = p; return Order{ID: 9}, nil })
	o, err := orders.Place(t.Context(), 7, 1, 0)
	require.NoError(t, err)
	require.Equal(t, int64(9), o.ID)
	require.WithinDuration(t, time.Now().Add(placeTimeout), got.Deadline, time.Minute)
	got.Deadline = time.Time{}
	sale := openSale(1).Sale
	require.Equal(t, Purchase{
		UserID: 7, VoucherID: 1, Amount: 100, Limit: 1, At: testNow, ExpiresAt: testNow.Add(time.Minute),
		Window: Window{Begin: sale.BeginAt, End: sale.EndAt},
	}, got)
}

// The end of the caller's context does not stop a purchase that has begun.
func TestPlaceContinuesWithoutItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	orders := newOrders(t, openSale(1), 1, func(laneCtx context.Context, _ Purchase) (Order, error) {
		cancel()
		return Order{ID: 9}, laneCtx.Err()
	})
	_, err := orders.Place(ctx, 7, 1, 0)
	require.NoError(t, err)
}

func TestPlaceLimitsPurchasesInFlight(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	orders := newOrders(t, openSale(1), 1, func(context.Context, Purchase) (Order, error) {
		inside <- struct{}{}
		<-leave
		return Order{}, nil
	})
	done := make(chan error)
	go func() { _, err := orders.Place(context.Background(), 1, 1, 0); done <- err }()
	<-inside
	_, err := orders.Place(t.Context(), 2, 1, 0)
	require.ErrorIs(t, err, ErrOverloaded)
	close(leave)
	require.NoError(t, <-done)
}

// After ErrSoldOut from the lane, further purchases are refused without it.
func TestSoldOutIsCached(t *testing.T) {
	calls := 0
	orders := newOrders(t, openSale(1), 1, func(context.Context, Purchase) (Order, error) { calls++; return Order{}, ErrSoldOut })
	for range 3 {
		_, err := orders.Place(t.Context(), 7, 1, 0)
		require.ErrorIs(t, err, ErrSoldOut)
	}
	require.Equal(t, 1, calls)
}

// A repeated purchase within seconds is refused without the lane, by the orders in the store. It reaches the lane if
// the user may buy again, or after some seconds.
func TestRecentBuyerIsAnsweredFromStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placed, active := 0, 0
		orders := newOrders(t, openSale(100), 1, func(context.Context, Purchase) (Order, error) { placed++; active = 1; return Order{ID: 9}, nil })
		orders.cfg.Store = &store{active: func() (int, int64, error) { return active, 9, nil }}
		place := func() error { _, err := orders.Place(t.Context(), 7, 1, 0); return err }
		require.NoError(t, place())
		var dup *DuplicateOrderError
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
