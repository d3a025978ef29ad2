package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// storedBefore is an order id that store reports as stored by an earlier call.
const storedBefore = 4_000_000

// store is the store of the lanes. A test sets the functions that it needs.
type store struct {
	GateStore
	place  func(ctx context.Context, o domain.Order) (domain.Order, error)
	active func() (int, int64, error)
}

func (s *store) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	placed := make([]domain.Placed, len(orders))
	for i, o := range orders {
		placed[i].Order, placed[i].Err = s.place(ctx, o.Order)
		placed[i].Before = placed[i].Order.ID == storedBefore
	}
	return placed
}

func (s *store) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return s.active()
}

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

func TestLock(t *testing.T) {
	placed := func(_ context.Context, o domain.Order) (domain.Order, error) { return o, nil }
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		locks locks
		ids   ids
		place func(context.Context, domain.Order) (domain.Order, error)
		want  error
	}{
		"placed":                 {place: placed},
		"in progress":            {locks: locks{before: domain.ErrOrderInProgress}, want: domain.ErrOrderInProgress},
		"lock server down":       {locks: locks{before: broken}, want: domain.ErrUnavailable},
		"id server down":         {ids: ids{err: broken}, place: placed, want: domain.ErrUnavailable},
		"sold out":               {place: func(context.Context, domain.Order) (domain.Order, error) { return domain.Order{}, domain.ErrSoldOut }, want: domain.ErrSoldOut},
		"release failed":         {locks: locks{after: broken}, place: placed}, // the commit counts
		"sold out, then release": {locks: locks{after: broken}, place: func(context.Context, domain.Order) (domain.Order, error) { return domain.Order{}, domain.ErrSoldOut }, want: domain.ErrSoldOut},
		"ids never free":         {place: func(context.Context, domain.Order) (domain.Order, error) { return domain.Order{}, domain.ErrIDTaken }, want: domain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLock(tc.locks, NewBatch(&tc.ids, &store{place: tc.place}, nil))
			o, _, err := l.Place(t.Context(), domain.Purchase{UserID: 7, VoucherID: 1, Amount: 5, Limit: 1, At: testNow, Deadline: time.Now().Add(time.Minute)})
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, domain.Order{ID: 1, UserID: 7, VoucherID: 1, Amount: 5, Status: domain.OrderPendingPayment, CreatedAt: testNow}, o)
		})
	}
}

// heldLock is a UserLocks whose lock is held until its context ends.
type heldLock struct{ context.Context }

func (l heldLock) TryDo(_ context.Context, _ int64, fn func(context.Context) error) error {
	return fn(l)
}

// fenceStore records the fence of the last order.
type fenceStore struct{ fence context.Context }

func (s *fenceStore) PlaceOrders(_ context.Context, orders []domain.NewOrder) []domain.Placed {
	s.fence = orders[0].Fence
	return make([]domain.Placed, len(orders))
}

// The database refuses an order whose fence has ended. That is the lock of its user, and not the end of its request.
func TestLockFencesItsOrder(t *testing.T) {
	lock, lose := context.WithCancel(t.Context())
	request, leave := context.WithCancel(t.Context())
	st := &fenceStore{}
	_, _, err := NewLock(heldLock{lock}, NewBatch(&ids{}, st, nil)).Place(request, domain.Purchase{UserID: 7, Deadline: time.Now().Add(time.Minute)})
	require.NoError(t, err)
	require.NotNil(t, st.fence)
	leave()
	require.NoError(t, st.fence.Err())
	lose()
	require.ErrorIs(t, st.fence.Err(), context.Canceled)
}

// A purchase with a key waits for a taken lock, because its holder may be the same request.
func TestLockWaitsWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		held := lockFunc(func(ctx context.Context, fn func(context.Context) error) error {
			if tries++; tries < 4 {
				return domain.ErrOrderInProgress
			}
			return fn(ctx)
		})
		l := NewLock(held, NewBatch(&ids{}, &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) { return o, nil }}, nil))
		p := domain.Purchase{UserID: 7, VoucherID: 1, Deadline: time.Now().Add(time.Second)}
		_, _, err := l.Place(t.Context(), p)
		require.ErrorIs(t, err, domain.ErrOrderInProgress)
		require.Equal(t, 1, tries)
		p.Key = domain.NewRequestKey("k", [32]byte{})
		_, _, err = l.Place(t.Context(), p)
		require.NoError(t, err)
		tries = -1000
		_, _, err = l.Place(t.Context(), p)
		require.ErrorIs(t, err, domain.ErrOrderInProgress)
	})
}

// lockFunc is a UserLocks that calls a function.
type lockFunc func(ctx context.Context, fn func(context.Context) error) error

func (f lockFunc) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	return f(ctx, fn)
}

// A repeated request is found in the store, at the gate, or by a second search of the store, and returns a queued order
// like the first one. If the store is unavailable, only the gate is searched, and the request is not refused as sold out.
func TestQueueReplays(t *testing.T) {
	key := domain.NewRequestKey("k", [32]byte{1})
	placed := domain.Placed{Order: domain.Order{ID: 5, Status: domain.OrderPendingPayment}, Replayed: true}
	for name, tc := range map[string]struct {
		stored   []domain.Placed // lookup by lookup
		down     bool
		gate     error
		want     int64
		err      error
		replayed bool
	}{
		"stored":             {stored: []domain.Placed{placed}, want: 5, replayed: true},
		"of another request": {stored: []domain.Placed{{Err: domain.ErrIdempotencyMismatch}}, err: domain.ErrIdempotencyMismatch},
		"queued":             {stored: []domain.Placed{{Err: domain.ErrNotFound}}, gate: &domain.RepeatedError{OrderID: 6}, want: 6, replayed: true},
		"stored meanwhile":   {stored: []domain.Placed{{Err: domain.ErrNotFound}, placed}, gate: &domain.DuplicateOrderError{OrderID: 5}, want: 5, replayed: true},
		"fresh":              {stored: []domain.Placed{{Err: domain.ErrNotFound}}, want: 1},
		"store down":         {down: true, want: 1},
		"sold out":           {stored: []domain.Placed{{Err: domain.ErrNotFound}}, gate: domain.ErrSoldOut, err: domain.ErrSoldOut},
		"sold out, down":     {down: true, gate: domain.ErrSoldOut, err: domain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			st := &lookupSequence{found: tc.stored, down: tc.down}
			g := &fakeGate{reserve: func(as []domain.Admission) ([]error, error) {
				require.Equal(t, key, as[0].Key)
				return []error{tc.gate}, nil
			}}
			p := queuePurchase(0)
			p.Key = key
			o, replayed, err := NewQueue(g, &ids{}, st, nil).Place(t.Context(), p)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.replayed, replayed)
			require.Equal(t, tc.want, o.ID)
			if tc.want != 0 {
				require.Equal(t, domain.OrderQueued, o.Status, "as in the first answer")
			}
			require.Empty(t, st.found)
		})
	}
}

// lookupSequence is a GateStore with a list of results for its lookups by key.
type lookupSequence struct {
	gateStore
	found []domain.Placed
	down  bool
}

func (s *lookupSequence) RepeatedOrders(context.Context, []domain.KeyedPurchase) ([]domain.Placed, error) {
	if s.down {
		return nil, domain.ErrUnavailable
	}
	first := s.found[0]
	s.found = s.found[1:]
	return []domain.Placed{first}, nil
}

// Each purchase of a batch has its own result. Only purchases whose id exists are placed a second time.
func TestPlacerMixedOutcomes(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	g := &ids{}
	p := placer{ids: g, orders: &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		calls++
		switch {
		case o.UserID == 1:
			return domain.Order{}, domain.ErrSoldOut
		case o.UserID == 2 && o.ID < 1000:
			return domain.Order{}, domain.ErrIDTaken
		case o.UserID == 3:
			return domain.Order{}, broken
		}
		return o, nil
	}}}
	results := p.commit(t.Context(), []domain.Purchase{{UserID: 1}, {UserID: 2}, {UserID: 3}, {UserID: 4}})
	require.ErrorIs(t, results[0].Err, domain.ErrSoldOut)
	require.Equal(t, "2 1003 <nil>", fmt.Sprint(results[1].Order.UserID, results[1].Order.ID, results[1].Err))
	require.ErrorIs(t, results[2].Err, broken)
	require.NoError(t, results[3].Err)
	require.Equal(t, 5, calls)
	require.Equal(t, []int{4, 1}, g.blocks, "one round trip per batch")
}

// Redis loses the counter between two purchases of a user within a millisecond, and the second one is given the id of
// the first. Its result is not the order of the first.
func TestPlacerDetectsRepeatedIDOfSameUser(t *testing.T) {
	p := placer{ids: &ids{next: storedBefore - 1}, orders: &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		if o.ID == storedBefore {
			return o, nil
		}
		return domain.Order{}, &domain.DuplicateOrderError{OrderID: storedBefore}
	}}}
	var dup *domain.DuplicateOrderError
	require.ErrorAs(t, p.commit(t.Context(), []domain.Purchase{{UserID: 7}})[0].Err, &dup)
}

// The observer receives orders and refusals.
func TestBatchObserver(t *testing.T) {
	var observed []error
	l := NewBatch(&ids{}, &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		if o.UserID == 2 {
			return domain.Order{}, domain.ErrSoldOut
		}
		return o, nil
	}}, func(batch []domain.Purchase, placed []domain.Placed) {
		for i := range batch {
			observed = append(observed, placed[i].Err)
		}
	})
	for user := range int64(3) {
		_, _, _ = l.Place(t.Context(), domain.Purchase{UserID: user, VoucherID: 7, Deadline: time.Now().Add(time.Minute)})
	}
	require.Equal(t, []error{nil, nil, domain.ErrSoldOut}, observed)
}

// Place returns by the deadline even if the transaction of its batch hangs, or that of the batch before it.
func TestBatchReturnsByDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		l := NewBatch(&ids{}, &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) { <-hang; return o, nil }}, nil)
		start := time.Now()
		var wg sync.WaitGroup
		for user := range int64(2) {
			wg.Go(func() {
				_, _, err := l.Place(t.Context(), domain.Purchase{UserID: user, VoucherID: 1, Deadline: start.Add(3 * time.Second)})
				require.ErrorIs(t, err, domain.ErrUnavailable)
				require.Equal(t, 3*time.Second, time.Since(start))
			})
		}
		wg.Wait()
		close(hang)
		o, _, err := l.Place(t.Context(), domain.Purchase{UserID: 3, VoucherID: 1, Deadline: time.Now().Add(3 * time.Second)})
		require.NoError(t, err)
		require.Equal(t, int64(3), o.UserID)
	})
}

// limits is a store that counts the orders by limit.
type limits struct {
	store
	orders map[int]int
}

func (l *limits) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	for _, o := range orders {
		l.orders[o.Limit]++
	}
	return l.store.PlaceOrders(ctx, orders)
}

// Each admission is stored as the order that its buyer received, under the limit of the admission. After a long wait
// in the queue, the time to pay begins with the commit.
func TestCommitterStoresAdmissions(t *testing.T) {
	var stored []domain.Order
	g := &ids{}
	orders := &limits{orders: map[int]int{}, store: store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		stored = append(stored, o)
		switch o.UserID {
		case 2:
			return domain.Order{}, domain.ErrSoldOut
		case 3:
			return domain.Order{}, domain.ErrIDTaken
		}
		return o, nil
	}}}
	c := &Committer{IDs: g, Now: func() time.Time { return testNow }, PayTimeout: time.Hour, Orders: orders}
	late := testNow.Add(-maxQueued - time.Second)
	errs := c.Commit(t.Context(), []domain.Admission{
		{OrderID: 11, UserID: 1, VoucherID: 5, Amount: 100, Limit: 1, At: testNow.Add(-time.Second)},
		{OrderID: 12, UserID: 2, VoucherID: 6, Amount: 100, Limit: 1, At: testNow},
		{OrderID: 13, UserID: 3, VoucherID: 5, Amount: 100, Limit: 1, At: testNow},
		{OrderID: 14, UserID: 4, VoucherID: 7, Amount: 100, Limit: 3, At: late},
	})
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], domain.ErrSoldOut)
	require.ErrorIs(t, errs[2], domain.ErrIDTaken)
	require.NoError(t, errs[3])
	require.Equal(t, []int64{13}, g.skipped, "later ids must not exist already")
	require.Equal(t, map[int]int{1: 3, 3: 1}, orders.orders)
	byID := map[int64]domain.Order{}
	for _, o := range stored {
		byID[o.ID] = o
	}
	at := testNow.Add(-time.Second)
	require.Equal(t, domain.Order{
		ID: 11, UserID: 1, VoucherID: 5, Status: domain.OrderPendingPayment, Amount: 100, CreatedAt: at, ExpiresAt: at.Add(time.Hour),
	}, byID[11])
	require.Equal(t, late, byID[14].CreatedAt)
	require.Equal(t, testNow.Add(time.Hour), byID[14].ExpiresAt)
}
