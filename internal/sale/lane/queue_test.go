package lane

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// fakeGate is a Gate. A test sets the functions that it needs.
type fakeGate struct {
	Gate
	reserve  func(as []domain.Admission) ([]error, error)
	load     func(ctx context.Context) error // nil: counts loads
	loads    int
	ticket   func() (domain.Ticket, error)
	outcome  func(ctx context.Context) (domain.Outcome, error)
	expected []int64
	closed   int
}

func (g *fakeGate) Reserve(_ context.Context, _ int64, _ domain.Window, as []domain.Admission) ([]error, error) {
	return g.reserve(as)
}
func (g *fakeGate) Load(ctx context.Context, _ int64, _ domain.GateStore) error {
	if g.load != nil {
		return g.load(ctx)
	}
	g.loads++
	return nil
}
func (g *fakeGate) Ticket(context.Context, int64, int64) (domain.Ticket, error) { return g.ticket() }
func (g *fakeGate) Instance() string                                            { return "me" }
func (g *fakeGate) Expect(id int64) OutcomeWaiter {
	g.expected = append(g.expected, id)
	return expectation{g}
}

type expectation struct{ gate *fakeGate }

func (e expectation) Close() { e.gate.closed++ }
func (e expectation) Wait(ctx context.Context, check func(context.Context) (domain.Outcome, bool, error)) (domain.Outcome, error) {
	if e.gate.outcome != nil {
		return e.gate.outcome(ctx)
	}
	o, known, err := check(ctx)
	if !known {
		return domain.Outcome{}, errors.Join(err, context.DeadlineExceeded)
	}
	return o, nil
}

// gateStore is a GateStore. order returns the only order, which every user may read unless it has a user.
type gateStore struct {
	domain.GateStore // no method is called
	store
	order func() (domain.Order, error)
}

func (s *gateStore) Order(_ context.Context, userID, _ int64) (domain.Order, error) {
	o, err := s.order()
	if err == nil && o.UserID != 0 && userID != 0 && userID != o.UserID {
		return domain.Order{}, domain.ErrNotFound
	}
	return o, err
}
func (s *gateStore) OrderFacts(_ context.Context, _ int64, ids []int64) ([]domain.OrderFact, error) {
	if _, err := s.order(); err != nil {
		return nil, nil //nolint:nilerr // without an order there is no fact
	}
	return []domain.OrderFact{{Holder: domain.Holder{OrderID: ids[0], UserID: 7}, Active: true}}, nil
}

func admitAll(as []domain.Admission) ([]error, error) { return make([]error, len(as)), nil }

// purchase returns a purchase of user 7, which waits so long for a queued order.
func purchase(wait time.Duration) domain.Purchase {
	return domain.Purchase{UserID: 7, VoucherID: 1, Amount: 5, Limit: 1, At: testNow, Deadline: time.Now().Add(time.Minute), Wait: wait}
}

// A gate that is cold, or may lack admissions, is loaded a limited number of times.
func TestQueueLoadsAColdGate(t *testing.T) {
	g := &fakeGate{}
	g.reserve = func(as []domain.Admission) ([]error, error) {
		switch g.loads {
		case 0:
			return nil, domain.ErrGateCold
		case 1:
			return []error{domain.ErrGateLacking}, nil
		}
		return admitAll(as)
	}
	counter := &ids{}
	l := NewQueue(g, counter, &gateStore{}, nil)
	o, _, err := l.Place(t.Context(), purchase(0))
	require.NoError(t, err)
	require.Equal(t, domain.OrderQueued, o.Status)
	require.Equal(t, int64(1), o.ID)
	require.Equal(t, []int{1}, counter.blocks, "the ids are taken once")
	require.Equal(t, 2, g.loads)
	require.Empty(t, g.expected, "without a wait there is no subscription")

	g.reserve = func([]domain.Admission) ([]error, error) { return nil, domain.ErrGateCold }
	_, _, err = l.Place(t.Context(), purchase(0))
	require.ErrorIs(t, err, domain.ErrUnavailable)
}

// A purchase that gets no unit takes no id, and waits for no outcome.
func TestQueueAnswersPurchaseWithoutUnit(t *testing.T) {
	g := &fakeGate{reserve: func(as []domain.Admission) ([]error, error) {
		require.Zero(t, as[0].OrderID)
		require.Empty(t, as[0].ReplyTo)
		return []error{domain.ErrSoldOut}, nil
	}}
	counter := &ids{}
	l := NewQueue(g, counter, &gateStore{}, nil)
	p := purchase(time.Second)
	p.SoldOut = true
	_, _, err := l.Place(t.Context(), p)
	require.ErrorIs(t, err, domain.ErrSoldOut)
	require.Empty(t, counter.blocks)
	require.Empty(t, g.expected)

	// Nor does a purchase that is refused at the gate, whose subscription is closed.
	g.reserve = func([]domain.Admission) ([]error, error) { return nil, domain.ErrUnavailable }
	_, _, err = l.Place(t.Context(), purchase(time.Second))
	require.ErrorIs(t, err, domain.ErrUnavailable)
	require.Equal(t, 1, g.closed)
}

// A purchase that waits returns the outcome.
func TestQueueReturnsOutcome(t *testing.T) {
	st := &gateStore{
		store: store{active: func() (int, int64, error) { return 1, 99, nil }},
		order: func() (domain.Order, error) { return domain.Order{Status: domain.OrderPendingPayment}, nil },
	}
	place := func(failed string, end error) (domain.Order, error) {
		g := &fakeGate{outcome: func(ctx context.Context) (domain.Outcome, error) {
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return domain.Outcome{Failed: failed}, end
		}}
		g.reserve = func(as []domain.Admission) ([]error, error) {
			require.Equal(t, "me", as[0].ReplyTo)
			require.Equal(t, []int64{as[0].OrderID}, g.expected, "subscribed before the reservation")
			return admitAll(as)
		}
		o, _, err := NewQueue(g, &ids{}, st, nil).Place(t.Context(), purchase(time.Second))
		require.Equal(t, 1, g.closed)
		return o, err
	}

	for failed, want := range map[string]error{
		domain.ReasonSoldOut:  domain.ErrSoldOut,
		domain.ReasonMismatch: domain.ErrIdempotencyMismatch,
		domain.ReasonPassUsed: domain.ErrPassExpired,
		"internal":            domain.ErrUnavailable,
	} {
		_, err := place(failed, nil)
		require.ErrorIs(t, err, want)
	}
	_, err := place(domain.ReasonDuplicate, nil)
	require.Equal(t, &domain.DuplicateOrderError{OrderID: 99}, err)

	o, err := place("", nil)
	require.NoError(t, err)
	require.Equal(t, domain.OrderPendingPayment, o.Status)
	o, err = place("", context.DeadlineExceeded)
	require.NoError(t, err)
	require.Equal(t, domain.OrderQueued, o.Status)
}

// Without a message the outcome is read from the ticket, or from the database if there is no ticket.
func TestQueueReadsOutcome(t *testing.T) {
	g := &fakeGate{reserve: admitAll}
	st := &gateStore{}
	l := NewQueue(g, &ids{}, st, nil)
	place := func() (domain.Order, error) {
		o, _, err := l.Place(t.Context(), purchase(time.Second))
		return o, err
	}

	g.ticket = func() (domain.Ticket, error) { return domain.Ticket{}, nil }
	o, err := place()
	require.NoError(t, err)
	require.Equal(t, domain.OrderQueued, o.Status)
	g.ticket = func() (domain.Ticket, error) { return domain.Ticket{Failed: domain.ReasonSoldOut}, nil }
	_, err = place()
	require.ErrorIs(t, err, domain.ErrSoldOut)
	g.ticket = func() (domain.Ticket, error) { return domain.Ticket{}, domain.ErrNotFound }
	st.order = func() (domain.Order, error) { return domain.Order{Status: domain.OrderPendingPayment}, nil }
	o, err = place()
	require.NoError(t, err)
	require.Equal(t, domain.OrderPendingPayment, o.Status)
	for _, stored := range []func() (domain.Order, error){
		func() (domain.Order, error) { return domain.Order{}, domain.ErrNotFound },
		// The order of another user with the same id, after Redis lost the id counter.
		func() (domain.Order, error) { return domain.Order{UserID: 8, Status: domain.OrderPendingPayment}, nil },
	} {
		st.order = stored
		o, err = place()
		require.NoError(t, err)
		require.Equal(t, domain.OrderQueued, o.Status)
		require.EqualValues(t, 7, o.UserID)
	}
}

// A purchase does not wait for the loads of other vouchers.
func TestQueueLoadsDelayNoOtherVoucher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{
			reserve: func(as []domain.Admission) ([]error, error) {
				if as[0].VoucherID != 1 {
					return nil, domain.ErrGateCold
				}
				return admitAll(as)
			},
			load: func(ctx context.Context) error {
				<-ctx.Done()
				return domain.ErrUnavailable
			},
		}
		l := NewQueue(g, &ids{}, &gateStore{}, nil)
		var loading sync.WaitGroup
		for voucher := range int64(20) {
			p := purchase(0)
			p.VoucherID = 100 + voucher
			loading.Go(func() {
				_, _, err := l.Place(t.Context(), p)
				require.ErrorIs(t, err, domain.ErrUnavailable)
			})
		}
		synctest.Wait()
		start := time.Now()
		_, _, err := l.Place(t.Context(), purchase(0))
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		loading.Wait()
	})
}
