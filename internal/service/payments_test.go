package service

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// hangingQueue is a Queue whose Redis does not answer.
type hangingQueue struct {
	ReservationStore
	mu    sync.Mutex
	calls map[int64]error // the context's error at the start of a call, by voucher
}

func (q *hangingQueue) Release(ctx context.Context, voucherID int64, _ ...domain.Holder) error {
	q.mu.Lock()
	q.calls[voucherID] = ctx.Err()
	q.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// dueOrders is a CloserStore with expired orders, each of another voucher.
type dueOrders struct{ left int }

func (d *dueOrders) CloseExpired(_ context.Context, limit int) ([]domain.Order, error) {
	n := min(limit, d.left)
	orders := make([]domain.Order, n)
	for i := range orders {
		orders[i] = domain.Order{ID: int64(d.left - i), VoucherID: int64(d.left - i)}
	}
	d.left -= n
	return orders, nil
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
		closer := &Closer{Store: due, Returns: returns}
		n := env.Must(closer.CloseDue(t.Context()))(t)
		require.Equal(t, 2*closeBatch+1, n)
		require.LessOrEqual(t, time.Since(start), 5*time.Second, "expired orders are closed within 5 s")
		require.Len(t, changed, n)
		require.Equal(t, n, moved, "the streams of the orders are notified")
	})
}

// A unit is released even if the buyer has disconnected.
func TestReleaseIgnoresEndOfRequest(t *testing.T) {
	sales := newSales(t, &loader{})
	synctest.Test(t, func(t *testing.T) {
		ctx, disconnect := context.WithCancel(t.Context())
		disconnect()
		q := &hangingQueue{calls: map[int64]error{}}
		UnitReleaser{Sales: sales, Queue: q}.Release(ctx, domain.Order{VoucherID: 1}, domain.Order{VoucherID: 1})
		require.Equal(t, map[int64]error{1: nil}, q.calls)
	})
}

// stockStore is a VoucherStore during whose ChangeStock the admin disconnects.
type stockStore struct {
	VoucherStore
	disconnect func()
	err        error
}

func (s stockStore) ChangeStock(context.Context, domain.StockChange) (domain.Voucher, error) {
	s.disconnect()
	return domain.Voucher{}, s.err
}

// stockQueue is a gate that refuses calls with an ended context.
type stockQueue struct {
	ReservationStore
	level int64
}

func (q *stockQueue) AddStock(ctx context.Context, _, delta int64) error {
	if ctx.Err() == nil {
		q.level += delta
	}
	return ctx.Err()
}

// The gate follows the decision of the database even if the admin has disconnected.
func TestStockChangeIgnoresEndOfRequest(t *testing.T) {
	for _, tc := range []struct {
		delta, gate int64
		err         error
	}{
		{5, 15, nil}, {-5, 5, nil}, {-5, 10, domain.ErrInvalidState}, {-5, 10, domain.ErrNotFound}, {5, 10, domain.ErrInvalidState},
		// Possibly committed: the gate must not offer more than the database.
		{5, 10, domain.ErrUnavailable}, {-5, 5, domain.ErrUnavailable},
	} {
		ctx, disconnect := context.WithCancel(t.Context())
		gate := &stockQueue{level: 10}
		vouchers := NewVouchers(VouchersConfig{
			Store: stockStore{disconnect: disconnect, err: tc.err}, Sales: newSales(t, &loader{}), Queue: gate, Now: time.Now,
		})
		env.Fails(vouchers.ChangeStock(ctx, nil, 1, 1, tc.delta, "counted"))(t, tc.err)
		require.Equal(t, tc.gate, gate.level, "%+v", tc)
	}
}

// onceStore is a VoucherStore that changes the stock once per request. The answer of a change can be lost, before the
// commit or after it.
type onceStore struct {
	VoucherStore
	stock     int64
	done      bool
	lost      error // the result of the next change, if not nil
	committed bool  // the change whose answer is lost has committed
}

func (s *onceStore) ChangeStock(_ context.Context, c domain.StockChange) (domain.Voucher, error) {
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

func (q *fakeStockGate) AddStock(_ context.Context, _, delta int64) error {
	if q.down {
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

// A repeated change of the stock has the result of the first run, and the gate has the units of the database, whatever step
// the first run had reached.
func TestRepeatedStockChangeLeavesGateRight(t *testing.T) {
	for name, tc := range map[string]struct {
		delta     int64
		committed bool
		down      bool // Redis, in the first run
		lost      error
		stock     int64 // in the database
		first     error
		second    error
	}{
		"a decrease committed":              {delta: -6, committed: true, lost: domain.ErrUnavailable, stock: 9, first: domain.ErrUnavailable},
		"a decrease failed":                 {delta: -6, lost: domain.ErrUnavailable, stock: 9, first: domain.ErrUnavailable},
		"a decrease did not reach the gate": {delta: -6, down: true, stock: 9, first: domain.ErrUnavailable},
		"the answer was not stored":         {delta: -6, stock: 9},
		"the database has less":             {delta: -6, committed: true, lost: domain.ErrUnavailable, stock: 5, first: domain.ErrInvalidState, second: domain.ErrInvalidState},
		"an increase committed":             {delta: 6, committed: true, lost: domain.ErrUnavailable, stock: 9, first: domain.ErrUnavailable},
		"an increase, answer not stored":    {delta: 6, stock: 9},
	} {
		t.Run(name, func(t *testing.T) {
			db := &onceStore{stock: tc.stock, lost: tc.lost, committed: tc.committed}
			gate := &fakeStockGate{db: db, units: 9, down: tc.down}
			vouchers := NewVouchers(VouchersConfig{Store: db, Sales: newSales(t, &loader{}), Queue: gate, Now: time.Now})
			run := func(again bool) (domain.Voucher, error) {
				return vouchers.ChangeStock(t.Context(), &domain.Claim{Again: again}, 1, 1, tc.delta, "counted")
			}

			env.Fails(run(false))(t, tc.first)
			v, err := run(true)
			require.ErrorIs(t, err, tc.second)
			if err == nil {
				require.Equal(t, tc.stock+tc.delta, v.Sale.Stock)
			}
			require.Equal(t, db.stock, gate.units)
		})
	}
}
