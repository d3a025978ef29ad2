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

// storedBefore is an order id that the store reports as placed by an earlier call.
const storedBefore = 4_000_000

// store is an OrderStore of which a test gives what it needs.
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

// locks grants, refuses or breaks.
type locks struct{ before, after error }

func (l locks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	if l.before != nil {
		return l.before
	}
	return errors.Join(fn(ctx), l.after)
}

// ids counts up; skip jumps.
type ids struct {
	next    int64
	skipped []int64
	blocks  []int // how many were asked for, call by call
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
		"release failed":         {locks: locks{after: broken}, place: placed}, // committed is committed
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

func TestLockLaneTakesAFreshID(t *testing.T) {
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

// laneFunc is a Lane.
type laneFunc func(ctx context.Context, p Purchase) (Order, error)

func (f laneFunc) Place(ctx context.Context, p Purchase) (Order, bool, error) {
	o, err := f(ctx, p)
	return o, false, err
}

func newOrders(t *testing.T, v Voucher, room int, lane laneFunc) *Orders {
	return NewOrders(OrdersConfig{
		Sales: newSales(t, &loader{load: func(context.Context) (Voucher, error) { return v, nil }}),
		Store: &store{users: func() ([]int64, error) { return nil, nil }},
		Lane:  lane, Now: func() time.Time { return testNow }, PayTimeout: time.Minute, MaxInFlight: room,
	})
}

func TestPlaceGivesTheLaneWhatItNeeds(t *testing.T) {
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

// TestPlaceOutlivesItsCaller: a buyer who hangs up does not break a purchase that has begun.
func TestPlaceOutlivesItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	orders := newOrders(t, openSale(1), 1, func(laneCtx context.Context, _ Purchase) (Order, error) {
		cancel()
		return Order{ID: 9}, laneCtx.Err()
	})
	_, err := orders.Place(ctx, 7, 1, 0)
	require.NoError(t, err)
}

func TestPlaceRefusesEarlyWhenFull(t *testing.T) {
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

// TestSoldOutIsRemembered: after the lane found nothing, the next buyer is answered without it.
func TestSoldOutIsRemembered(t *testing.T) {
	asked := 0
	orders := newOrders(t, openSale(1), 1, func(context.Context, Purchase) (Order, error) { asked++; return Order{}, ErrSoldOut })
	for range 3 {
		_, err := orders.Place(t.Context(), 7, 1, 0)
		require.ErrorIs(t, err, ErrSoldOut)
	}
	require.Equal(t, 1, asked)
}

// TestPressesAfterAPurchase: a user who bought a moment ago is answered without the lane, by what the store says now; one
// who may buy again reaches the lane, and so does everyone a while later.
func TestPressesAfterAPurchase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placed, active := 0, 0
		orders := newOrders(t, openSale(100), 1, func(context.Context, Purchase) (Order, error) { placed++; active = 1; return Order{ID: 9}, nil })
		orders.cfg.Store = &store{active: func() (int, int64, error) { return active, 9, nil }}
		press := func() error { _, err := orders.Place(t.Context(), 7, 1, 0); return err }
		require.NoError(t, press())
		var dup *DuplicateOrderError
		require.ErrorAs(t, press(), &dup)
		require.Equal(t, int64(9), dup.OrderID)
		require.Equal(t, 1, placed)
		active = 0 // cancelled, on whatever server
		require.NoError(t, press())
		require.Equal(t, 2, placed)
		time.Sleep(2*recentFor + time.Second)
		require.NoError(t, press())
		require.Equal(t, 3, placed)
	})
}
