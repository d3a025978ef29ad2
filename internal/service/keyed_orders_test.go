package service

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// orderKeyStore is a store with one result for all keys. It counts the lookups by key.
type orderKeyStore struct {
	store
	found   Placed
	err     error
	lookups atomic.Int64
}

func (s *orderKeyStore) RepeatedOrders(_ context.Context, ps []KeyedPurchase) ([]Placed, error) {
	s.lookups.Add(1)
	found := make([]Placed, len(ps))
	for i := range found {
		found[i] = s.found
	}
	return found, s.err
}

// In-flight duplicates share one run and its result. All but the first are replays.
func TestInFlightDuplicatesShareRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		orders := newOrders(t, openSale(1), 100, func(context.Context, Purchase) (Order, error) {
			runs.Add(1)
			time.Sleep(time.Second)
			return Order{ID: 5}, nil
		})
		key := NewRequestKey("k", [32]byte{1})
		var fresh, replays atomic.Int64
		place := func(ctx context.Context, user int64, key *RequestKey) {
			o, replayed, err := orders.PlaceOnce(ctx, user, 1, 0, key)
			require.NoError(t, err)
			require.Equal(t, int64(5), o.ID)
			if replayed {
				replays.Add(1)
			} else {
				fresh.Add(1)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		go place(gone, 7, key)
		synctest.Wait()
		cancel() // the first caller leaves; its run continues for the others
		for range 10 {
			go place(t.Context(), 7, key)
		}
		go place(t.Context(), 8, key)
		go place(t.Context(), 7, NewRequestKey("k", [32]byte{2}))
		go place(t.Context(), 7, NewRequestKey("l", [32]byte{1}))
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 4, runs.Load())
		require.EqualValues(t, 4, fresh.Load())
		require.EqualValues(t, 10, replays.Load())
	})
}

// After the end of the sale, a repeated request returns its order and a new one is refused. If the lookup fails, so
// does the request.
func TestReplayAfterSaleEnded(t *testing.T) {
	key := NewRequestKey("k", [32]byte{1})
	for name, tc := range map[string]struct {
		found    Placed
		err      error
		want     error
		replayed bool
	}{
		"placed":   {found: Placed{Order: Order{ID: 5}, Replayed: true}, replayed: true},
		"fresh":    {found: Placed{Err: ErrNotFound}, want: ErrSaleEnded},
		"mismatch": {found: Placed{Err: ErrIdempotencyMismatch}, want: ErrIdempotencyMismatch, replayed: true},
		"down":     {err: ErrUnavailable, want: ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			st := &orderKeyStore{found: tc.found, err: tc.err}
			orders := newOrders(t, openSale(1), 1, nil)
			orders.cfg.Store, orders.cfg.Now = st, func() time.Time { return openSale(1).Sale.EndAt }
			o, _, err := orders.PlaceOnce(t.Context(), 7, 1, 0, key)
			if tc.want == nil {
				require.NoError(t, err)
				require.Equal(t, tc.found.Order, o)
			} else {
				require.ErrorIs(t, err, tc.want)
			}
			require.EqualValues(t, 1, st.lookups.Load())
			_, err = orders.Place(t.Context(), 7, 1, 0)
			require.ErrorIs(t, err, ErrSaleEnded)
			require.EqualValues(t, 1, st.lookups.Load(), "no lookup without a key")
		})
	}
}

// A purchase with a key that reaches neither the lane nor the list of buyers is decided by its key and the orders in the
// store: that of a recent buyer, and one of a sold-out sale without a list.
func TestKeyedPurchaseIsAnsweredFromStore(t *testing.T) {
	key := NewRequestKey("k", [32]byte{1})
	earlier := Placed{Order: Order{ID: 5}, Replayed: true}
	for name, tc := range map[string]struct {
		found            Placed
		lookupErr        error
		active           int
		activeErr        error
		recent, soldOut  error // nil: an order
		recentID, soldID int64
	}{
		"placed before":  {found: earlier, recentID: 5, soldID: 5},
		"mismatch":       {found: Placed{Err: ErrIdempotencyMismatch}, recent: ErrIdempotencyMismatch, soldOut: ErrIdempotencyMismatch},
		"new, at limit":  {found: Placed{Err: ErrNotFound}, active: 1, recent: &DuplicateOrderError{OrderID: 99}, soldOut: &DuplicateOrderError{OrderID: 99}},
		"new, allowed":   {found: Placed{Err: ErrNotFound}, recentID: 9, soldOut: ErrSoldOut},
		"no key lookup":  {lookupErr: ErrUnavailable, active: 1, recentID: 9, soldOut: &DuplicateOrderError{OrderID: 99}},
		"no order count": {found: Placed{Err: ErrNotFound}, activeErr: ErrUnavailable, recentID: 9, soldOut: ErrSoldOut},
	} {
		t.Run(name, func(t *testing.T) {
			st := &orderKeyStore{found: tc.found, err: tc.lookupErr, store: store{
				users:  func() ([]int64, error) { return nil, ErrTooMany },
				active: func() (int, int64, error) { return tc.active, 99, tc.activeErr },
			}}
			check := func(orders *Orders, wantID int64, want error) {
				t.Helper()
				orders.cfg.Store = st
				o, replayed, err := orders.PlaceOnce(t.Context(), 7, 1, 0, key)
				require.Equal(t, want, err)
				require.Equal(t, wantID, o.ID)
				require.Equal(t, wantID == 5, replayed)
				require.Empty(t, orders.lookups)
			}
			recent := newOrders(t, openSale(100), 1, func(context.Context, Purchase) (Order, error) { return Order{ID: 9}, nil })
			recent.recent.add(7, 1)
			check(recent, tc.recentID, tc.recent)
			check(soldOutOrders(t, &store{}), tc.soldID, tc.soldOut)
		})
	}
}

// A purchase with a key waits for a taken lock, because its holder may be the same request.
func TestLockLaneWaitsWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		held := lockFunc(func(ctx context.Context, fn func(context.Context) error) error {
			if tries++; tries < 4 {
				return ErrOrderInProgress
			}
			return fn(ctx)
		})
		lane := NewLockLane(held, NewBatchLane(&ids{}, &store{place: func(_ context.Context, o Order) (Order, error) { return o, nil }}, nil))
		p := Purchase{UserID: 7, VoucherID: 1, Deadline: time.Now().Add(time.Second)}
		_, _, err := lane.Place(t.Context(), p)
		require.ErrorIs(t, err, ErrOrderInProgress)
		require.Equal(t, 1, tries)
		p.Key = NewRequestKey("k", [32]byte{})
		_, _, err = lane.Place(t.Context(), p)
		require.NoError(t, err)
		tries = -1000
		_, _, err = lane.Place(t.Context(), p)
		require.ErrorIs(t, err, ErrOrderInProgress)
	})
}

// lockFunc is a UserLocks that calls a function.
type lockFunc func(ctx context.Context, fn func(context.Context) error) error

func (f lockFunc) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	return f(ctx, fn)
}

// A repeated request is found in the store, at the gate, or by a second search of the store, and returns a queued order
// like the first one. If the store is unavailable, only the gate is searched.
func TestQueueLaneReplays(t *testing.T) {
	key := NewRequestKey("k", [32]byte{1})
	placed := Placed{Order: Order{ID: 5, Status: OrderPendingPayment}, Replayed: true}
	for name, tc := range map[string]struct {
		stored   []Placed // lookup by lookup
		down     bool
		gate     error
		want     int64
		err      error
		replayed bool
	}{
		"stored":             {stored: []Placed{placed}, want: 5, replayed: true},
		"of another request": {stored: []Placed{{Err: ErrIdempotencyMismatch}}, err: ErrIdempotencyMismatch},
		"queued":             {stored: []Placed{{Err: ErrNotFound}}, gate: &RepeatedError{OrderID: 6}, want: 6, replayed: true},
		"stored meanwhile":   {stored: []Placed{{Err: ErrNotFound}, placed}, gate: &DuplicateOrderError{OrderID: 5}, want: 5, replayed: true},
		"fresh":              {stored: []Placed{{Err: ErrNotFound}}, want: 1},
		"store down":         {down: true, want: 1},
		"sold out":           {stored: []Placed{{Err: ErrNotFound}}, gate: ErrSoldOut, err: ErrSoldOut},
	} {
		t.Run(name, func(t *testing.T) {
			st := &lookupSequence{found: tc.stored, down: tc.down}
			g := &fakeGate{reserve: func(as []Admission) ([]error, error) {
				require.Equal(t, key, as[0].Key)
				return []error{tc.gate}, nil
			}}
			p := queuePurchase(0)
			p.Key = key
			o, replayed, err := NewQueueLane(g, &ids{}, st, nil).Place(t.Context(), p)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.replayed, replayed)
			require.Equal(t, tc.want, o.ID)
			if tc.want != 0 {
				require.Equal(t, OrderQueued, o.Status, "as in the first answer")
			}
			require.Empty(t, st.found)
		})
	}
}

// lookupSequence is a GateStore with a list of results for its lookups by key.
type lookupSequence struct {
	gateStore
	found []Placed
	down  bool
}

func (s *lookupSequence) RepeatedOrders(context.Context, []KeyedPurchase) ([]Placed, error) {
	if s.down {
		return nil, errors.New("down")
	}
	first := s.found[0]
	s.found = s.found[1:]
	return []Placed{first}, nil
}

// A repeated request whose order is still queued returns that order even if the sale is sold out or has ended.
func TestReplayOfQueuedOrderAfterSale(t *testing.T) {
	key := NewRequestKey("k", [32]byte{1})
	queued := Ticket{Admission: Admission{OrderID: 6, UserID: 7, VoucherID: 1, Key: &RequestKey{Hash: key.Hash, Request: key.Request}}}
	failed := queued
	failed.OrderID, failed.Failed = 5, ReasonInternal
	for name, over := range map[string]func(*Orders){
		"ended": func(o *Orders) { o.cfg.Now = func() time.Time { return openSale(1).Sale.EndAt } },
		"sold out": func(o *Orders) {
			o.cfg.Sales = newSales(t, &loader{load: func(context.Context) (Voucher, error) { return openSale(0), nil }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			orders := newOrders(t, openSale(1), 1, nil)
			orders.cfg.Store = &orderKeyStore{found: Placed{Err: ErrNotFound}}
			orders.cfg.Queue = &ticketQueue{store: store{users: func() ([]int64, error) { return []int64{7}, nil }}, tickets: []Ticket{failed, queued}}
			over(orders)
			o, replayed, err := orders.PlaceOnce(t.Context(), 7, 1, 0, key)
			require.NoError(t, err)
			require.True(t, replayed)
			require.Equal(t, int64(6), o.ID)
			require.Equal(t, OrderQueued, o.Status)
			_, _, err = orders.PlaceOnce(t.Context(), 7, 1, 0, NewRequestKey("k", [32]byte{2}))
			require.ErrorIs(t, err, ErrIdempotencyMismatch)
		})
	}
}

// ticketQueue is a Queue with tickets of one user.
type ticketQueue struct {
	ReservationStore
	store
	tickets []Ticket
}

func (q *ticketQueue) Tickets(context.Context, int64) ([]Ticket, error) { return q.tickets, nil }
func (q *ticketQueue) Holders(ctx context.Context, voucherID int64, most int) ([]int64, error) {
	return q.store.Holders(ctx, voucherID, most)
}
func (q *ticketQueue) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return 1, 6, nil
}
