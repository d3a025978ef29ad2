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
	"seckill/internal/kit/batch"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// storedBefore is an order id that store reports as stored by an earlier call.
const storedBefore = 4_000_000

// store is the store of the lanes. A test sets the functions that it needs.
type store struct {
	GateStore
	place    func(o domain.NewOrder) (domain.Order, error)
	active   func() (int, int64, error)
	order    func() (domain.Order, error) // the only one, which every user may read unless it has a user
	repeated func() (domain.Placed, error)
}

func (s *store) PlaceOrders(_ context.Context, orders []domain.NewOrder) []domain.Placed {
	placed := make([]domain.Placed, len(orders))
	for i, o := range orders {
		placed[i].Order, placed[i].Err = s.place(o)
		placed[i].Before = placed[i].Order.ID == storedBefore
	}
	return placed
}

func (s *store) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return s.active()
}

func (s *store) Order(_ context.Context, userID, _ int64) (domain.Order, error) {
	o, err := s.order()
	if err == nil && o.UserID != 0 && userID != 0 && userID != o.UserID {
		return domain.Order{}, domain.ErrNotFound
	}
	return o, err
}

func (s *store) RepeatedOrders(context.Context, []domain.Purchase) ([]domain.Placed, error) {
	placed, err := s.repeated()
	return []domain.Placed{placed}, err
}

func accept(o domain.NewOrder) (domain.Order, error) { return o.Order, nil }

func refuse(err error) func(domain.NewOrder) (domain.Order, error) {
	return func(domain.NewOrder) (domain.Order, error) { return domain.Order{}, err }
}

// locks is a UserLocks that calls a function. nil runs every fn.
type locks func(ctx context.Context, fn func(context.Context) error) error

func (l locks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	if l == nil {
		return fn(ctx)
	}
	return l(ctx, fn)
}

// ids is an IDs that counts up. Skip jumps by 1,000.
type ids struct {
	mu      sync.Mutex
	next    int64
	skipped []int64
	blocks  []int // the number of ids of each call
	err     error
}

func (g *ids) NextN(_ context.Context, n int) ([]int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
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

type anyLane interface {
	Place(ctx context.Context, p domain.Purchase) domain.Placed
}

// place is Place without the mark of a repetition.
func place(ctx context.Context, l anyLane, p domain.Purchase) (domain.Order, error) {
	placed := l.Place(ctx, p)
	return placed.Order, placed.Err
}

func TestLock(t *testing.T) {
	broken := errors.New("broken")
	refuses := func(err error) locks {
		return func(context.Context, func(context.Context) error) error { return err }
	}
	keeps := func(ctx context.Context, fn func(context.Context) error) error { return errors.Join(fn(ctx), broken) }
	for name, tc := range map[string]struct {
		locks locks
		ids   error
		place func(domain.NewOrder) (domain.Order, error)
		want  error
	}{
		"placed":                 {place: accept},
		"in progress":            {locks: refuses(domain.ErrOrderInProgress), want: domain.ErrOrderInProgress},
		"lock server down":       {locks: refuses(broken), want: domain.ErrUnavailable},
		"id server down":         {ids: broken, place: accept, want: domain.ErrUnavailable},
		"sold out":               {place: refuse(domain.ErrSoldOut), want: domain.ErrSoldOut},
		"release failed":         {locks: keeps, place: accept}, // the commit counts
		"sold out, then release": {locks: keeps, place: refuse(domain.ErrSoldOut), want: domain.ErrSoldOut},
		"ids never free":         {place: refuse(domain.ErrIDTaken), want: domain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLock(tc.locks, NewBatch(&ids{err: tc.ids}, &store{place: tc.place}, nil))
			o, err := place(t.Context(), l, purchase(0))
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, domain.Order{ID: 1, UserID: 7, VoucherID: 1, Amount: 5, Status: domain.OrderPendingPayment, CreatedAt: testNow}, o)
		})
	}
}

// The database refuses an order whose fence has ended. That is the lock of its user, and not the end of its request.
func TestLockFencesItsOrder(t *testing.T) {
	lock, lose := context.WithCancel(t.Context())
	request, leave := context.WithCancel(t.Context())
	var fence context.Context
	st := &store{place: func(o domain.NewOrder) (domain.Order, error) {
		fence = o.Fence
		return accept(o)
	}}
	held := locks(func(_ context.Context, fn func(context.Context) error) error { return fn(lock) })
	env.Must(place(request, NewLock(held, NewBatch(&ids{}, st, nil)), purchase(0)))(t)
	require.NotNil(t, fence)
	leave()
	require.NoError(t, fence.Err())
	lose()
	require.ErrorIs(t, fence.Err(), context.Canceled)
}

// A purchase with a key waits for a taken lock, because its holder may be the same request.
func TestLockWaitsWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		held := locks(func(ctx context.Context, fn func(context.Context) error) error {
			if tries++; tries < 4 {
				return domain.ErrOrderInProgress
			}
			return fn(ctx)
		})
		l := NewLock(held, NewBatch(&ids{}, &store{place: accept}, nil))
		p := purchase(0)
		p.Deadline = time.Now().Add(time.Second)
		env.Fails(place(t.Context(), l, p))(t, domain.ErrOrderInProgress)
		require.Equal(t, 1, tries)
		p.Key = domain.NewRequestKey("k", [32]byte{})
		env.Must(place(t.Context(), l, p))(t)
		tries = -1000
		env.Fails(place(t.Context(), l, p))(t, domain.ErrOrderInProgress)
	})
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
			st := &store{repeated: func() (domain.Placed, error) {
				if tc.down {
					return domain.Placed{}, domain.ErrUnavailable
				}
				first := tc.stored[0]
				tc.stored = tc.stored[1:]
				return first, nil
			}}
			g := &fakeGate{reserve: func(as []domain.Admission) []error {
				require.Equal(t, key, as[0].Key)
				return []error{tc.gate}
			}}
			p := purchase(0)
			p.Key = key
			got := NewQueue(g, &ids{}, st, nil).Place(t.Context(), p)
			require.ErrorIs(t, got.Err, tc.err)
			require.Equal(t, tc.replayed, got.Replayed)
			require.Equal(t, tc.want, got.Order.ID)
			if tc.want != 0 {
				require.Equal(t, domain.OrderQueued, got.Order.Status, "as in the first answer")
			}
			require.Empty(t, tc.stored)
		})
	}
}

// Each purchase of a batch has its own result. Only purchases whose id exists are placed a second time.
func TestPlacerMixedOutcomes(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	g := &ids{}
	p := placer{ids: g, orders: &store{place: func(o domain.NewOrder) (domain.Order, error) {
		calls++
		switch {
		case o.UserID == 1:
			return domain.Order{}, domain.ErrSoldOut
		case o.UserID == 2 && o.ID < 1000:
			return domain.Order{}, domain.ErrIDTaken
		case o.UserID == 3:
			return domain.Order{}, broken
		}
		return accept(o)
	}}}
	results := p.commit(t.Context(), []domain.Purchase{purchaseOf(1), purchaseOf(2), purchaseOf(3), purchaseOf(4)})
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
	p := placer{ids: &ids{next: storedBefore - 1}, orders: &store{place: func(o domain.NewOrder) (domain.Order, error) {
		if o.ID == storedBefore {
			return accept(o)
		}
		return domain.Order{}, &domain.DuplicateOrderError{OrderID: storedBefore}
	}}}
	var dup *domain.DuplicateOrderError
	require.ErrorAs(t, p.commit(t.Context(), []domain.Purchase{purchaseOf(7)})[0].Err, &dup)
}

func TestBatchObserver(t *testing.T) {
	var observed []int
	l := NewBatch(&ids{}, &store{place: accept}, func(size int) { observed = append(observed, size) })
	env.Must(place(t.Context(), l, purchase(0)))(t)
	require.Equal(t, []int{1}, observed)
}

// Place returns at the deadline although the batch has not ended.
func TestPlaceReturnsByDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hangs = 2 * time.Second
		st := &store{place: func(o domain.NewOrder) (domain.Order, error) {
			time.Sleep(hangs)
			return accept(o)
		}}
		g := &fakeGate{reserve: func(as []domain.Admission) []error {
			time.Sleep(hangs)
			return admitAll(as)
		}}
		for _, l := range []anyLane{NewBatch(&ids{}, st, nil), NewQueue(g, &ids{}, &store{}, nil)} {
			start := time.Now()
			p := purchase(time.Second)
			p.Deadline = start.Add(time.Second)
			_, err := place(t.Context(), l, p)
			require.ErrorIs(t, err, domain.ErrUnavailable)
			require.ErrorIs(t, err, batch.ErrTimeout, "for the log")
			require.Equal(t, time.Second, time.Since(start))
			time.Sleep(hangs)
		}
	})
}

// Each admission is stored as the order that its buyer received, under the limit of the admission. After a long wait
// in the queue, the time to pay begins with the commit.
func TestCommitterStoresAdmissions(t *testing.T) {
	stored := map[int64]domain.NewOrder{}
	g := &ids{}
	orders := &store{place: func(o domain.NewOrder) (domain.Order, error) {
		stored[o.ID] = o
		switch o.UserID {
		case 2:
			return domain.Order{}, domain.ErrSoldOut
		case 3:
			return domain.Order{}, domain.ErrIDTaken
		}
		return accept(o)
	}}
	c := &Committer{IDs: g, Now: func() time.Time { return testNow }, PayTimeout: time.Hour, Orders: orders}
	late := testNow.Add(-maxQueued - time.Second)
	errs := c.Commit(t.Context(), []domain.Admission{
		{OrderID: 11, UserID: 1, VoucherID: 5, Amount: 100, Limit: 1, At: testNow.Add(-time.Second)},
		{OrderID: 12, UserID: 2, VoucherID: 6, Amount: 100, Limit: 1, At: testNow},
		{OrderID: 13, UserID: 3, VoucherID: 5, Amount: 100, Limit: 1, At: testNow},
		{OrderID: 14, UserID: 4, VoucherID: 7, Amount: 100, Limit: 3, At: late},
		{OrderID: 15, UserID: 5, VoucherID: 8, Amount: 100, Limit: 1, At: testNow.Add(-59 * time.Second), PayTimeout: 30 * time.Second},
	})
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], domain.ErrSoldOut)
	require.ErrorIs(t, errs[2], domain.ErrIDTaken)
	require.NoError(t, errs[3])
	require.Equal(t, []int64{13}, g.skipped, "later ids must not exist already")
	require.Equal(t, []int{1, 3}, []int{stored[11].Limit, stored[14].Limit})
	at := testNow.Add(-time.Second)
	require.Equal(t, domain.Order{
		ID: 11, UserID: 1, VoucherID: 5, Status: domain.OrderPendingPayment, Amount: 100, CreatedAt: at, ExpiresAt: at.Add(time.Hour),
	}, stored[11].Order)
	require.Equal(t, late, stored[14].CreatedAt)
	require.Equal(t, testNow.Add(time.Hour), stored[14].ExpiresAt)
	require.NoError(t, errs[4])
	require.Equal(t, testNow.Add(30*time.Second), stored[15].ExpiresAt, "not before the commit")
}

// fakeGate is a Gate. A test sets the functions that it needs.
type fakeGate struct {
	Gate
	reserve func(as []domain.Admission) []error
	load    func(ctx context.Context) error
	ticket  func() (domain.Ticket, error)
}

func (g *fakeGate) Reserve(_ context.Context, _ int64, _ domain.Window, as []domain.Admission) []error {
	return g.reserve(as)
}
func (g *fakeGate) Load(ctx context.Context, _ int64, _ domain.GateStore) error { return g.load(ctx) }
func (g *fakeGate) Ticket(context.Context, int64, int64, int64) (domain.Ticket, error) {
	return g.ticket()
}

func admitAll(as []domain.Admission) []error { return make([]error, len(as)) }

// purchase returns a purchase of user 7, which waits so long for a queued order.
func purchase(wait time.Duration) domain.Purchase {
	p := purchaseOf(7)
	p.Wait = wait
	return p
}

func purchaseOf(user int64) domain.Purchase {
	return domain.Purchase{
		Admission: domain.Admission{UserID: user, VoucherID: 1, Amount: 5, Limit: 1, At: testNow},
		Deadline:  time.Now().Add(time.Minute),
	}
}

// A gate that is cold, or may lack admissions, is loaded until the purchase has no time left.
func TestQueueLoadsAColdGate(t *testing.T) {
	loads := 0
	g := &fakeGate{load: func(context.Context) error { loads++; return nil }}
	g.reserve = func(as []domain.Admission) []error {
		switch loads {
		case 0:
			return []error{domain.ErrGateCold}
		case 1:
			return []error{domain.ErrGateLacking}
		}
		return admitAll(as)
	}
	counter := &ids{}
	l := NewQueue(g, counter, &store{}, nil)
	o := env.Must(place(t.Context(), l, purchase(0)))(t)
	require.Equal(t, domain.OrderQueued, o.Status)
	require.Equal(t, int64(1), o.ID)
	require.Equal(t, []int{1}, counter.blocks, "the ids are taken once")
	require.Equal(t, 2, loads)
	require.Empty(t, l.waits.byOrder)

	g.reserve = func([]domain.Admission) []error { return []error{domain.ErrGateCold} }
	p := purchase(0)
	p.Deadline = time.Now().Add(10 * time.Millisecond)
	env.Fails(place(t.Context(), l, p))(t, domain.ErrUnavailable)
}

// A purchase that gets no unit takes no id, and waits for no outcome.
func TestQueueAnswersPurchaseWithoutUnit(t *testing.T) {
	g := &fakeGate{reserve: func(as []domain.Admission) []error {
		require.Zero(t, as[0].OrderID)
		return []error{domain.ErrSoldOut}
	}}
	counter := &ids{}
	l := NewQueue(g, counter, &store{}, nil)
	p := purchase(time.Second)
	p.SoldOut = true
	env.Fails(place(t.Context(), l, p))(t, domain.ErrSoldOut)
	require.Empty(t, counter.blocks)
	require.Empty(t, l.waits.byOrder)
}

// A move ends the wait at once, even one that is reported before the reservation returns. The reason of a failure is read
// from the ticket.
func TestQueueReturnsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := domain.ErrNotFound
		st := &store{
			active: func() (int, int64, error) { return 1, 99, nil },
			order: func() (domain.Order, error) {
				return domain.Order{UserID: 7, Status: domain.OrderPendingPayment}, stored
			},
		}
		g := &fakeGate{}
		l := NewQueue(g, &ids{}, st, nil)
		g.reserve = func(as []domain.Admission) []error {
			l.Moved(as[0].OrderID)
			l.Moved(as[0].OrderID + 1)
			return admitAll(as)
		}
		after := func(failed string) (domain.Order, error) {
			g.ticket = func() (domain.Ticket, error) { return domain.Ticket{Failed: failed}, nil }
			start := time.Now()
			o, err := place(t.Context(), l, purchase(time.Second))
			require.Zero(t, time.Since(start))
			return o, err
		}

		for failed, want := range map[string]error{
			domain.ReasonSoldOut:  domain.ErrSoldOut,
			domain.ReasonMismatch: domain.ErrIdempotencyMismatch,
			domain.ReasonPassUsed: domain.ErrPassExpired,
			"internal":            domain.ErrUnavailable,
		} {
			env.Fails(after(failed))(t, want)
		}
		_, err := after(domain.ReasonDuplicate)
		require.Equal(t, &domain.DuplicateOrderError{OrderID: 99}, err)

		stored = nil
		g.ticket = nil // a stored order needs no ticket
		o := env.Must(place(t.Context(), l, purchase(time.Second)))(t)
		require.Equal(t, domain.OrderPendingPayment, o.Status)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, l.waits.byOrder)
	})
}

// A request and its repetition may wait for one order, until different times.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewQueue(nil, nil, nil, nil)
		first := l.waits.begin(1, time.Now().Add(time.Second))
		repeated := l.waits.begin(1, time.Now().Add(time.Minute))
		another := l.waits.begin(1, time.Now().Add(time.Minute))
		l.waits.begin(2, time.Now()) // of a purchase that its batch takes up too late
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, id := range []int64{1, 1, 2} {
			l.Moved(id)
		}
		require.Empty(t, first)
		require.Len(t, repeated, 1)
		require.Len(t, another, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, l.waits.byOrder)
	})
}

// Without a message the outcome is read from the ticket, or from the database if there is no ticket. An error of a read
// ends no wait, and neither does a move of another user's order with the same id.
func TestQueueReadsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Queue
		g := &fakeGate{}
		st := &store{order: func() (domain.Order, error) { return domain.Order{}, domain.ErrNotFound }}
		l = NewQueue(g, &ids{}, st, nil)
		g.reserve = func(as []domain.Admission) []error {
			l.Moved(as[0].OrderID) // of another user
			return admitAll(as)
		}
		reads := 0
		g.ticket = func() (domain.Ticket, error) {
			switch reads++; reads {
			case 1:
				return domain.Ticket{}, nil
			case 2:
				return domain.Ticket{Failed: domain.ReasonSoldOut}, domain.ErrUnavailable
			}
			return domain.Ticket{Failed: domain.ReasonSoldOut}, nil
		}
		start := time.Now()
		env.Fails(place(t.Context(), l, purchase(time.Minute)))(t, domain.ErrSoldOut)
		require.Equal(t, 3, reads)
		require.Equal(t, 3*recheck, time.Since(start), "after two pauses, the second twice as long")

		g.reserve = admitAll
		g.ticket = func() (domain.Ticket, error) { return domain.Ticket{}, nil }
		o := env.Must(place(t.Context(), l, purchase(time.Second)))(t)
		require.Equal(t, domain.OrderQueued, o.Status)

		g.ticket = func() (domain.Ticket, error) { return domain.Ticket{}, domain.ErrNotFound }
		st.order = func() (domain.Order, error) { return domain.Order{Status: domain.OrderPendingPayment}, nil }
		o = env.Must(place(t.Context(), l, purchase(time.Second)))(t)
		require.Equal(t, domain.OrderPendingPayment, o.Status)
		for _, stored := range []func() (domain.Order, error){
			func() (domain.Order, error) { return domain.Order{}, domain.ErrNotFound },
			// The order of another user with the same id, after Redis lost the id counter.
			func() (domain.Order, error) { return domain.Order{UserID: 8, Status: domain.OrderPendingPayment}, nil },
		} {
			st.order = stored
			o = env.Must(place(t.Context(), l, purchase(time.Second)))(t)
			require.Equal(t, domain.OrderQueued, o.Status)
			require.EqualValues(t, 7, o.UserID)
		}
	})
}

func TestQueueLoadsDelayNoOtherVoucher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{
			reserve: func(as []domain.Admission) []error {
				if as[0].VoucherID != 1 {
					return []error{domain.ErrGateCold}
				}
				return admitAll(as)
			},
			load: func(ctx context.Context) error {
				<-ctx.Done()
				return domain.ErrUnavailable
			},
		}
		l := NewQueue(g, &ids{}, &store{}, nil)
		var loading sync.WaitGroup
		for voucher := range int64(20) {
			p := purchase(0)
			p.VoucherID = 100 + voucher
			loading.Go(func() {
				env.Fails(place(t.Context(), l, p))(t, domain.ErrUnavailable)
			})
		}
		synctest.Wait()
		start := time.Now()
		env.Must(place(t.Context(), l, purchase(0)))(t)
		require.Zero(t, time.Since(start))
		loading.Wait()
	})
}
