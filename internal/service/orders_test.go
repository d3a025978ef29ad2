package service

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// store is an OrderStore. A test sets the functions that it needs.
type store struct {
	noOffers
	active func() (int, int64, error)
	users  func() ([]int64, error)
	order  func() (domain.Order, error)
}

func (s *store) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return s.active()
}

func (s *store) Holders(context.Context, int64, int) ([]int64, error) { return s.users() }

func (s *store) Order(context.Context, int64, int64) (domain.Order, error) { return s.order() }

type laneFunc func(ctx context.Context, p domain.Purchase) (domain.Order, error)

func (f laneFunc) Place(ctx context.Context, p domain.Purchase) domain.Placed {
	o, err := f(ctx, p)
	return domain.Placed{Order: o, Err: err}
}

// newOrders returns the orders of a sale, by default at testNow, with a store that has no buyers, and with one purchase in
// flight at most: after one that keeps its place, the next is overloaded.
func newOrders(t *testing.T, sale func() (domain.Voucher, error), cfg OrdersConfig) *Orders {
	cfg.Sales = newSales(t, &loader{load: func(context.Context) (domain.Voucher, error) { return sale() }})
	cfg.Unpaid, cfg.PayTimeout, cfg.MaxInFlight = noLimits{}, time.Minute, cmp.Or(cfg.MaxInFlight, 1)
	if cfg.Store == nil {
		cfg.Store = &store{users: func() ([]int64, error) { return nil, nil }}
	}
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return testNow }
	}
	cfg.Observe, cfg.ObserveKey = func(context.Context, error, time.Duration) {}, func(string) {}
	return NewOrders(cfg)
}

// saleOf is a sale with a stock.
func saleOf(stock int64) func() (domain.Voucher, error) {
	return func() (domain.Voucher, error) { return openSale(stock), nil }
}

// After ErrSoldOut from the lane, further purchases are refused without it.
func TestSoldOutIsCached(t *testing.T) {
	calls := 0
	orders := newOrders(t, saleOf(1), OrdersConfig{Lane: laneFunc(func(context.Context, domain.Purchase) (domain.Order, error) {
		calls++
		return domain.Order{}, domain.ErrSoldOut
	})})
	for range 3 {
		env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, domain.ErrSoldOut)
	}
	require.Equal(t, 1, calls)
}

// The lane of a purchase has to answer within 5 s, even if a dependency hangs.
func TestPurchaseEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := newOrders(t, saleOf(1), OrdersConfig{Lane: laneFunc(func(_ context.Context, p domain.Purchase) (domain.Order, error) {
			require.LessOrEqual(t, time.Until(p.Deadline), 5*time.Second)
			return domain.Order{ID: 9}, nil
		})})
		env.Must(orders.Place(t.Context(), 7, 1, time.Minute))(t)
	})
}

// A repeated purchase within seconds is refused without the lane, by the orders in the store. It reaches the lane if
// the user may buy again, or after some seconds.
func TestRecentBuyerIsAnsweredFromStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placed, active := 0, 0
		orders := newOrders(t, saleOf(100), OrdersConfig{
			Store: &store{active: func() (int, int64, error) { return active, 9, nil }},
			Lane: laneFunc(func(context.Context, domain.Purchase) (domain.Order, error) {
				placed++
				active = 1
				return domain.Order{ID: 9}, nil
			}),
		})
		place := func() error { _, err := orders.Place(t.Context(), 7, 1, 0); return err }
		require.NoError(t, place())
		require.Equal(t, &domain.DuplicateOrderError{OrderID: 9}, place())
		require.Equal(t, 1, placed)
		active = 0 // cancelled, possibly by another process
		require.NoError(t, place())
		require.Equal(t, 2, placed)
		time.Sleep(2*recentFor + time.Second)
		require.NoError(t, place())
		require.Equal(t, 3, placed)
	})
}

type noLimits struct{}

func (noLimits) MayOrder(*domain.Purchase, *domain.Voucher) error { return nil }

// noOffers is the part of a store whose offers are not known.
type noOffers struct{ OrderStore }

func (noOffers) AddOffers(context.Context, []domain.Order) error { return nil }

// moving is a store and a queue with an order that moves from the queue to the store after its first read.
type moving struct {
	noOffers
	ReservationStore
	order  domain.Order
	stored bool
}

func (m *moving) move() { m.stored = true }

func (m *moving) FindOrders(context.Context, SearchQuery) ([]domain.Order, error) {
	defer m.move()
	if m.stored {
		return []domain.Order{m.order}, nil
	}
	return nil, nil
}

func (m *moving) Tickets(context.Context, int64) ([]domain.Ticket, error) {
	defer m.move()
	if m.stored {
		return nil, nil
	}
	return []domain.Ticket{
		{Admission: domain.Admission{OrderID: 5, VoucherID: 8}, Failed: domain.ReasonSoldOut},
		{Admission: domain.Admission{OrderID: m.order.ID, VoucherID: 7}},
	}, nil
}

// An order that is committed during a search is found once, with its new status.
func TestListDuringCommit(t *testing.T) {
	for _, status := range []domain.OrderStatus{0, domain.OrderPendingPayment} {
		m := &moving{order: domain.Order{ID: 3, VoucherID: 7, Status: domain.OrderPendingPayment}, stored: status == domain.OrderPendingPayment}
		s := NewOrders(OrdersConfig{Store: m, Queue: m, PayTimeout: time.Minute})
		list := env.Must(s.Find(t.Context(), SearchQuery{Users: []int64{1}, Vouchers: []int64{7}, Status: status, Page: domain.Page{Limit: 20}}))(t)
		require.Equal(t, []domain.Order{m.order}, list, "status %d", status)
	}

	s := NewOrders(OrdersConfig{Store: &moving{}, Queue: &moving{}})
	require.EqualValues(t, 5, env.Only(t, env.Must(s.List(t.Context(), 1, domain.OrderFailed, domain.Page{Limit: 20}))(t)).ID)
}

// An order is returned as queued only if the store does not have it. While the store is unavailable, it may be stored.
func TestGetQueuedOrder(t *testing.T) {
	reads, result := 0, domain.ErrUnavailable
	db := &store{order: func() (domain.Order, error) { reads++; return domain.Order{}, result }}
	s := NewOrders(OrdersConfig{Store: db, Queue: &ticketQueue{}})
	env.Fails(s.Get(t.Context(), 7, 1))(t, domain.ErrUnavailable)
	env.Fails(s.Follow(t.Context(), 7, domain.Order{ID: 1, Status: domain.OrderPendingPayment}))(t, domain.ErrUnavailable)
	reads, result = 0, domain.ErrNotFound
	o := env.Must(s.Get(t.Context(), 7, 1))(t)
	require.Equal(t, domain.OrderQueued, o.Status)
	o = env.Must(s.Follow(t.Context(), 7, o))(t)
	require.Equal(t, domain.OrderQueued, o.Status)
	require.Equal(t, 1, reads, "following a queued order reads only its ticket")
}

// The times of a search become a range of ids. It has the orders of a server whose clock was set by ten minutes: the id of an
// order comes from that clock, and the time of an order of a waiting room from the database.
func TestTimesBecomeIDs(t *testing.T) {
	s := &Search{FirstID: time.Time.Unix}
	from := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	to := from.Add(time.Hour)
	const step = 10 * time.Minute

	q := env.Must(s.resolve(t.Context(), SearchFilter{SearchQuery: SearchQuery{From: from, To: to}}))(t)
	require.LessOrEqual(t, q.FirstID, from.Add(-step).Unix())
	require.Greater(t, q.FirstID, from.Add(-time.Hour).Unix(), "other orders are skipped")
	require.Greater(t, q.LastID, to.Add(step).Unix())
	require.Less(t, q.LastID, to.Add(time.Hour).Unix())
}

// hangingQueue is a Queue whose Redis does not answer.
type hangingQueue struct {
	ReservationStore
	calls map[int64]error // the context's error at the start of a call, by voucher
}

func (q *hangingQueue) Release(ctx context.Context, voucherID int64, _ ...domain.Holder) error {
	q.calls[voucherID] = ctx.Err()
	<-ctx.Done()
	return ctx.Err()
}

// dueOrders is a CloserStore with expired orders, each of another voucher.
type dueOrders struct {
	left       int
	calls      int
	err        error
	unanswered bool // of the last call
}

func (d *dueOrders) CloseExpired(_ context.Context, limit int, unanswered bool) ([]domain.Order, error) {
	d.unanswered = unanswered
	d.calls++
	n := min(limit, d.left)
	orders := make([]domain.Order, n)
	for i := range orders {
		orders[i] = domain.Order{ID: int64(d.left - i), VoucherID: int64(d.left - i)}
	}
	d.left -= n
	return orders, d.err
}

// The units of 1,001 vouchers are back in the database. A Redis that does not answer delays neither the closer nor the
// notification of the other instances.
func TestCloserDoesNotWaitForRedis(t *testing.T) {
	var changed []int64
	sales := NewSales(SalesConfig{Loader: &loader{}, Changed: func(id int64) { changed = append(changed, id) }})
	t.Cleanup(sales.Close)
	synctest.Test(t, func(t *testing.T) {
		start, due := time.Now(), &dueOrders{left: 2*closeBatch + 1}
		moved := 0
		returns := UnitReleaser{Sales: sales, Queue: &hangingQueue{calls: map[int64]error{}}, Moved: func(int64) { moved++ }}
		closed := 0
		closer := &Closer{Store: due, Returns: returns, Closed: func(n int) { closed += n }}
		require.NoError(t, closer.Task().Run(t.Context()))
		require.Equal(t, 2*closeBatch+1, closed)
		require.Equal(t, 3, due.calls, "orders that expire meanwhile are closed together, in the next second")
		require.LessOrEqual(t, time.Since(start), 5*time.Second, "expired orders are closed within 5 s")
		require.Len(t, changed, closed)
		require.Equal(t, closed, moved, "the streams of the orders are notified")
	})
}

// Orders without an answer about their payment are closed only by a server that has searched without a break for the
// time in which providers must answer: while servers or database were away, no payment could be reported or queried.
func TestCloserWaitsAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := &dueOrders{}
		closer := &Closer{Store: due}
		closesAfter := func() time.Duration {
			began := time.Now()
			for due.unanswered = false; !due.unanswered; time.Sleep(closeEvery) {
				env.Must(closer.CloseDue(t.Context()))(t)
			}
			return time.Since(began).Round(10 * time.Second)
		}

		require.Equal(t, domain.CloseGrace, closesAfter(), "after the start")
		require.Zero(t, closesAfter())

		due.err = errors.New("a sale breaks a rule of the database")
		for range 10 {
			env.Fails(closer.CloseDue(t.Context()))(t, due.err)
			time.Sleep(closeEvery)
		}
		require.True(t, due.unanswered, "one sale holds up no other")
		due.err = nil

		time.Sleep(time.Minute)
		require.Equal(t, domain.CloseGrace, closesAfter(), "after the process stood still")

		due.err = domain.ErrUnavailable
		for range 60 {
			env.Fails(closer.CloseDue(t.Context()))(t, domain.ErrUnavailable)
			time.Sleep(closeEvery)
		}
		due.err = nil
		require.Equal(t, domain.CloseGrace, closesAfter(), "after an outage of the database")
	})
}

// A unit is released even if the buyer has disconnected.
func TestReleaseIgnoresEndOfRequest(t *testing.T) {
	sales := newSales(t, &loader{})
	synctest.Test(t, func(t *testing.T) {
		q := &hangingQueue{calls: map[int64]error{}}
		gone := env.Cancelled(t.Context())
		UnitReleaser{Sales: sales, Queue: q, Moved: func(int64) {}}.Release(gone, domain.Order{VoucherID: 1}, domain.Order{VoucherID: 1})
		require.Equal(t, map[int64]error{1: nil}, q.calls)
	})
}

// onceStore is a VoucherStore that changes the stock once per request. The answer of a change can be lost, before the
// commit or after it.
type onceStore struct {
	VoucherStore
	stock     int64
	done      bool
	lost      error  // the result of the next change, if not nil
	committed bool   // the change whose answer is lost has committed
	during    func() // called by every change
}

func (s *onceStore) ChangeStock(_ context.Context, c domain.StockChange) (domain.Voucher, error) {
	s.during()
	err := s.lost
	switch s.lost = nil; {
	case s.done:
		return openSale(s.stock), nil
	case err != nil && !s.committed:
		return domain.Voucher{}, err
	case s.stock+c.Delta < 0:
		return domain.Voucher{}, domain.ErrInvalidState
	}
	s.stock, s.done = s.stock+c.Delta, true
	return openSale(s.stock), err
}

// fakeStockGate is a gate that refuses to go below 0 units, and that has those of the database after it was discarded.
type fakeStockGate struct {
	ReservationStore
	db    *onceStore
	units int64
	down  bool // the next change is not answered
}

func (q *fakeStockGate) AddStock(ctx context.Context, _, delta int64) error {
	if q.down || ctx.Err() != nil {
		q.down = false
		return domain.ErrUnavailable
	}
	if q.units+delta < 0 {
		return domain.ErrInvalidState
	}
	q.units += delta
	return nil
}

func (q *fakeStockGate) Unload(context.Context, int64) error {
	q.units = q.db.stock
	return nil
}

// The gate follows the decision of the database even if the admin disconnects while it is made. A repeated change of the
// stock has the result of the first run, and the gate has the units of the database, whatever step the first run had reached.
func TestStockChangeLeavesGateRight(t *testing.T) {
	unavailable, invalid := domain.ErrUnavailable, domain.ErrInvalidState
	for name, tc := range map[string]struct {
		delta     int64
		committed bool
		down      bool // Redis, in the first run
		lost      error
		stock     int64 // in the database
		gate      int64 // after the first run
		first     error
		second    error
	}{
		"a decrease committed":      {delta: -6, committed: true, lost: unavailable, stock: 9, gate: 3, first: unavailable},
		"a decrease failed":         {delta: -6, lost: unavailable, stock: 9, gate: 3, first: unavailable},
		"a decrease was refused":    {delta: -6, lost: invalid, stock: 9, gate: 9, first: invalid},
		"no voucher":                {delta: -6, lost: domain.ErrNotFound, stock: 9, gate: 9, first: domain.ErrNotFound},
		"the gate was not reached":  {delta: -6, down: true, stock: 9, gate: 9, first: unavailable},
		"the answer was not stored": {delta: -6, stock: 9, gate: 3},
		"the database has less": {
			delta: -6, committed: true, lost: unavailable, stock: 5, gate: 9, first: invalid, second: invalid,
		},
		// Possibly committed: the gate must not offer more than the database.
		"an increase committed":          {delta: 6, committed: true, lost: unavailable, stock: 9, gate: 9, first: unavailable},
		"an increase was refused":        {delta: 6, lost: invalid, stock: 9, gate: 9, first: invalid},
		"an increase, answer not stored": {delta: 6, stock: 9, gate: 15},
	} {
		t.Run(name, func(t *testing.T) {
			admin, disconnect := context.WithCancel(t.Context())
			db := &onceStore{stock: tc.stock, lost: tc.lost, committed: tc.committed, during: disconnect}
			gate := &fakeStockGate{db: db, units: 9, down: tc.down}
			vouchers := NewVouchers(VouchersConfig{Store: db, Sales: newSales(t, &loader{}), Queue: gate, Now: time.Now})
			run := func(ctx context.Context, again bool) (domain.Voucher, error) {
				return vouchers.ChangeStock(ctx, &domain.Claim{Again: again}, 1, 1, tc.delta, "counted")
			}

			env.Fails(run(admin, false))(t, tc.first)
			require.Equal(t, tc.gate, gate.units)
			v, err := run(t.Context(), true)
			require.ErrorIs(t, err, tc.second)
			if err == nil {
				require.Equal(t, tc.stock+tc.delta, v.Sale.Stock)
			}
			require.Equal(t, db.stock, gate.units)
		})
	}
}
