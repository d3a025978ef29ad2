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

// keyStoreOfOrders is a store of which a test says what was placed under a key.
type keyStoreOfOrders struct {
	store
	found Placed
	err   error
	looks atomic.Int64
}

func (s *keyStoreOfOrders) RepeatedOrders(_ context.Context, ps []KeyedPurchase) ([]Placed, error) {
	s.looks.Add(1)
	found := make([]Placed, len(ps))
	for i := range found {
		found[i] = s.found
	}
	return found, s.err
}

// TestSameRequestsShareARun: those that are under way at once get one answer, and one of them is not a replay.
func TestSameRequestsShareARun(t *testing.T) {
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
		cancel() // the first one hangs up: its run serves the others
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

// TestRepetitionAfterTheSale: a request that placed an order gets it again when the sale is over or sold out; others are
// refused, and a look-up that fails is no refusal.
func TestRepetitionAfterTheSale(t *testing.T) {
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
			st := &keyStoreOfOrders{found: tc.found, err: tc.err}
			orders := newOrders(t, openSale(1), 1, nil)
			orders.cfg.Store, orders.cfg.Now = st, func() time.Time { return openSale(1).Sale.EndAt }
			o, _, err := orders.PlaceOnce(t.Context(), 7, 1, 0, key)
			if tc.want == nil {
				require.NoError(t, err)
				require.Equal(t, tc.found.Order, o)
			} else {
				require.ErrorIs(t, err, tc.want)
			}
			require.EqualValues(t, 1, st.looks.Load())
			_, err = orders.Place(t.Context(), 7, 1, 0)
			require.ErrorIs(t, err, ErrSaleEnded)
			require.EqualValues(t, 1, st.looks.Load(), "nothing to look up without a key")
		})
	}
}

// TestLockLaneWaitsForTheSameRequest: with a key a taken lock may be that of the same request, and is waited for.
func TestLockLaneWaitsForTheSameRequest(t *testing.T) {
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

type lockFunc func(ctx context.Context, fn func(context.Context) error) error

func (f lockFunc) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	return f(ctx, fn)
}

// TestQueueLaneRepeats: a request is answered from the store, from the gate, or from the store after all, in the form in
// which it was answered first; without the store the gate has to be enough.
func TestQueueLaneRepeats(t *testing.T) {
	key := NewRequestKey("k", [32]byte{1})
	placed := Placed{Order: Order{ID: 5, Status: OrderPendingPayment}, Replayed: true}
	for name, tc := range map[string]struct {
		stored   []Placed // look by look
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
			st := &sequence{found: tc.stored, down: tc.down}
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
				require.Equal(t, OrderQueued, o.Status, "as it was answered")
			}
			require.Empty(t, st.found)
		})
	}
}

// sequence is a GateStore that answers look-ups of keys in turn.
type sequence struct {
	gateStore
	found []Placed
	down  bool
}

func (s *sequence) RepeatedOrders(context.Context, []KeyedPurchase) ([]Placed, error) {
	if s.down {
		return nil, errors.New("down")
	}
	first := s.found[0]
	s.found = s.found[1:]
	return []Placed{first}, nil
}

// TestQueuedOrderIsRepeatedAfterTheSale: a request whose order still waits in the queue gets its 202 again when the sale is
// sold out or over.
func TestQueuedOrderIsRepeatedAfterTheSale(t *testing.T) {
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
			orders.cfg.Store = &keyStoreOfOrders{found: Placed{Err: ErrNotFound}}
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
	Queue
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
