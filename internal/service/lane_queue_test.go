package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeGate is a Gate. A test sets the functions that it needs.
type fakeGate struct {
	Gate
	reserve  func(as []Admission) ([]error, error)
	loads    int
	ticket   func() (Ticket, error)
	outcome  func(ctx context.Context) (Outcome, error)
	expected []int64
	closed   int
}

func (g *fakeGate) Reserve(_ context.Context, _ int64, _ Window, as []Admission) ([]error, error) {
	return g.reserve(as)
}
func (g *fakeGate) Load(context.Context, int64, GateReader) error        { g.loads++; return nil }
func (g *fakeGate) Ticket(context.Context, int64, int64) (Ticket, error) { return g.ticket() }
func (g *fakeGate) Instance() string                                     { return "me" }
func (g *fakeGate) Expect(id int64) OutcomeWaiter {
	g.expected = append(g.expected, id)
	return expectation{g}
}

type expectation struct{ gate *fakeGate }

func (e expectation) Close() { e.gate.closed++ }
func (e expectation) Wait(ctx context.Context, check func(context.Context) (Outcome, bool, error)) (Outcome, error) {
	if e.gate.outcome != nil {
		return e.gate.outcome(ctx)
	}
	o, known, err := check(ctx)
	if !known {
		return Outcome{}, errors.Join(err, context.DeadlineExceeded)
	}
	return o, nil
}

// gateStore is a GateStore. order returns the only order.
type gateStore struct {
	store
	order func() (Order, error)
}

func (s *gateStore) GateState(context.Context, int64, []int64) (GateState, error) {
	return GateState{}, nil
}
func (s *gateStore) Order(context.Context, int64, int64) (Order, error) { return s.order() }
func (s *gateStore) OrderFacts(_ context.Context, _ int64, ids []int64) ([]OrderFact, error) {
	if _, err := s.order(); err != nil {
		return nil, nil //nolint:nilerr // without an order there is no fact
	}
	return []OrderFact{{Holder: Holder{OrderID: ids[0], UserID: 7}, Active: true}}, nil
}

func admitAll(as []Admission) ([]error, error) { return make([]error, len(as)), nil }

func queuePurchase(wait time.Duration) Purchase {
	return Purchase{UserID: 7, VoucherID: 1, Amount: 5, Limit: 1, At: testNow, Deadline: time.Now().Add(time.Minute), Wait: wait}
}

// A cold gate is loaded, a limited number of times.
func TestQueueLaneLoadsAColdGate(t *testing.T) {
	g := &fakeGate{}
	g.reserve = func(as []Admission) ([]error, error) {
		if g.loads < 2 {
			return nil, ErrGateCold
		}
		return admitAll(as)
	}
	counter := &ids{}
	lane := NewQueueLane(g, counter, &gateStore{}, nil)
	o, _, err := lane.Place(t.Context(), queuePurchase(0))
	require.NoError(t, err)
	require.Equal(t, OrderQueued, o.Status)
	require.Equal(t, int64(1), o.ID)
	require.Equal(t, []int{1}, counter.blocks, "the ids are taken once")
	require.Equal(t, 2, g.loads)
	require.Empty(t, g.expected, "without a wait there is no subscription")

	g.reserve = func([]Admission) ([]error, error) { return nil, ErrGateCold }
	_, _, err = lane.Place(t.Context(), queuePurchase(0))
	require.ErrorIs(t, err, ErrUnavailable)
}

// A purchase that waits returns the outcome.
func TestQueueLaneReturnsOutcome(t *testing.T) {
	var dup *DuplicateOrderError
	for name, tc := range map[string]struct {
		outcome Outcome
		err     error
		check   func(t *testing.T, o Order, err error)
	}{
		"committed": {check: func(t *testing.T, o Order, err error) {
			require.NoError(t, err)
			require.Equal(t, OrderPendingPayment, o.Status)
		}},
		"sold out":  {outcome: Outcome{Failed: ReasonSoldOut}, check: func(t *testing.T, _ Order, err error) { require.ErrorIs(t, err, ErrSoldOut) }},
		"duplicate": {outcome: Outcome{Failed: ReasonDuplicate}, check: func(t *testing.T, _ Order, err error) { require.ErrorAs(t, err, &dup) }},
		"internal":  {outcome: Outcome{Failed: "internal"}, check: func(t *testing.T, _ Order, err error) { require.ErrorIs(t, err, ErrUnavailable) }},
		"not in time": {err: context.DeadlineExceeded, check: func(t *testing.T, o Order, err error) {
			require.NoError(t, err)
			require.Equal(t, OrderQueued, o.Status)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &fakeGate{outcome: func(ctx context.Context) (Outcome, error) {
				_, bounded := ctx.Deadline()
				require.True(t, bounded)
				return tc.outcome, tc.err
			}}
			g.reserve = func(as []Admission) ([]error, error) {
				require.Equal(t, "me", as[0].ReplyTo)
				require.Equal(t, []int64{as[0].OrderID}, g.expected, "subscribed before the reservation")
				return admitAll(as)
			}
			st := &gateStore{
				store: store{active: func() (int, int64, error) { return 1, 99, nil }},
				order: func() (Order, error) { return Order{Status: OrderPendingPayment}, nil },
			}
			o, _, err := NewQueueLane(g, &ids{}, st, nil).Place(t.Context(), queuePurchase(time.Second))
			tc.check(t, o, err)
			require.Equal(t, 1, g.closed)
		})
	}
}

// Redis lost the id counter, and the message is about the order of another user with the same id.
func TestQueueLaneOutcomeOfOtherUser(t *testing.T) {
	g := &fakeGate{reserve: admitAll, outcome: func(context.Context) (Outcome, error) { return Outcome{}, nil }}
	st := &gateStore{order: func() (Order, error) { return Order{}, ErrNotFound }}
	o, _, err := NewQueueLane(g, &ids{}, st, nil).Place(t.Context(), queuePurchase(time.Second))
	require.NoError(t, err)
	require.Equal(t, OrderQueued, o.Status)
}

// Without a message the outcome is read from the ticket, or from the database if there is no ticket.
func TestQueueLaneReadsOutcome(t *testing.T) {
	g := &fakeGate{reserve: admitAll}
	st := &gateStore{}
	lane := NewQueueLane(g, &ids{}, st, nil)
	place := func() (Order, error) {
		o, _, err := lane.Place(t.Context(), queuePurchase(time.Second))
		return o, err
	}

	g.ticket = func() (Ticket, error) { return Ticket{}, nil }
	o, err := place()
	require.NoError(t, err)
	require.Equal(t, OrderQueued, o.Status)
	g.ticket = func() (Ticket, error) { return Ticket{Failed: ReasonSoldOut}, nil }
	_, err = place()
	require.ErrorIs(t, err, ErrSoldOut)
	g.ticket = func() (Ticket, error) { return Ticket{}, ErrNotFound }
	st.order = func() (Order, error) { return Order{Status: OrderPendingPayment}, nil }
	o, err = place()
	require.NoError(t, err)
	require.Equal(t, OrderPendingPayment, o.Status)
	st.order = func() (Order, error) { return Order{}, ErrNotFound }
	o, err = place()
	require.NoError(t, err)
	require.Equal(t, OrderQueued, o.Status)
}

// A refused purchase does not wait, and its subscription is closed.
func TestQueueLaneRefusals(t *testing.T) {
	g := &fakeGate{reserve: func([]Admission) ([]error, error) { return []error{ErrSoldOut}, nil }}
	lane := NewQueueLane(g, &ids{}, &gateStore{}, nil)
	_, _, err := lane.Place(t.Context(), queuePurchase(time.Second))
	require.ErrorIs(t, err, ErrSoldOut)
	require.Equal(t, 1, g.closed)
	g.reserve = func([]Admission) ([]error, error) { return nil, ErrUnavailable }
	_, _, err = lane.Place(t.Context(), queuePurchase(time.Second))
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, 2, g.closed)
}
