package repo

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// placeOverdue stores n overdue orders, spread over the sales. Their ids and user ids begin at first.
func placeOverdue(tb testing.TB, s *Store, first int64, n int, sales ...int64) {
	tb.Helper()
	for done := 0; done < n; {
		batch := make([]domain.Order, min(1000, n-done))
		for i := range batch {
			id := first + int64(done+i)
			batch[i] = overdueOrder(id, id, sales[int(id)%len(sales)])
		}
		for _, p := range s.PlaceOrders(tb.Context(), withLimit(1, batch)) {
			require.NoError(tb, p.Err)
		}
		done += len(batch)
	}
}

// Three closers work on 5,000 overdue orders of several sales, while buyers place and cancel orders there. Each order
// is closed once, no deadlock is returned, and all units are in stock again.
func TestConcurrentClosersCloseEachOrderOnce(t *testing.T) {
	testenv.Full(t)
	onEach(t, func(t *testing.T, s *Store) {
		const due, nSales, nBuyers = 5000, 7, 4
		sales := make([]int64, nSales)
		for i := range sales {
			sales[i] = newSale(t, s, due, 1).ID
		}
		placeOverdue(t, s, 1, due, sales...)
		ctx, closing := context.WithCancel(t.Context())
		var buyers, closers sync.WaitGroup
		for b := range int64(nBuyers) {
			buyers.Go(func() {
				for i := int64(0); ctx.Err() == nil; i++ {
					id := 1_000_000*(1+b) + i
					if err := buyAndCancel(s, newOrder(id, id, sales[id%nSales])); err != nil {
						t.Errorf("buyer: %v", err)
						return
					}
				}
			})
		}
		var mu sync.Mutex
		closed := map[int64]int{}
		for range 3 {
			closers.Go(func() {
				orders, err := closeAll(s)
				if err != nil {
					t.Errorf("closer: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, o := range orders {
					closed[o.ID]++
				}
			})
		}
		closers.Wait()
		closing()
		buyers.Wait()
		require.Len(t, closed, due)
		for id, n := range closed {
			require.Equal(t, 1, n, "order %d", id)
		}
		for _, v := range sales {
			requireTotals(t, s, v, due, 0)
		}
		var entries int64
		require.NoError(t, s.db.Writer(t.Context()).Table("audit_log").Where("action = ?", "expire").Count(&entries).Error)
		require.EqualValues(t, due, entries)
	})
}

func buyAndCancel(s *Store, o domain.Order) error {
	o.ExpiresAt = time.Now().Add(time.Hour)
	_, err := placeOrder(context.Background(), s, o, 1)
	if err == nil {
		_, err = cancel(context.Background(), s, o.UserID, o.ID, now)
	}
	return err
}

// closeAll closes orders until none is due, not even one that another closer has locked.
func closeAll(s *Store) (closed []domain.Order, err error) {
	ctx := context.Background()
	for {
		orders, err := s.CloseExpired(ctx, 100)
		closed = append(closed, orders...)
		if err != nil || len(orders) > 0 {
			if err != nil {
				return closed, err
			}
			continue
		}
		b, err := s.Backlog(ctx)
		if err != nil || b.Orders == 0 {
			return closed, err
		}
	}
}

func TestCloseExpiredUsesDatabaseClock(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		at, err := s.db.Now(s.db.Writer(t.Context()))
		require.NoError(t, err)
		for id, expires := range map[int64]time.Time{1: at.Add(-time.Hour), 2: at, 3: at.Add(time.Hour)} {
			o := newOrder(id, id, v.ID)
			o.ExpiresAt = expires
			place(t, s, o)
		}
		paid := overdueOrder(4, 4, v.ID)
		place(t, s, paid)
		pay(t, s, paid, "ref")
		b, err := s.Backlog(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, b.Orders)
		require.InDelta(t, time.Hour, b.OldestOrder, float64(10*time.Minute))
		closed, err := s.CloseExpired(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, []int64{1}, orderIDs(closed), "the oldest first")
		closed, err = s.CloseExpired(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, []int64{2}, orderIDs(closed))
		closed, err = s.CloseExpired(t.Context(), 10)
		require.NoError(t, err)
		require.Empty(t, closed)
		requireTotals(t, s, v.ID, 8, 2)
		stored, err := s.Order(t.Context(), 1, 1)
		require.NoError(t, err)
		require.Equal(t, domain.OrderCancelled, stored.Status)
		require.Zero(t, stored.Slot)
		require.WithinDuration(t, at, *stored.CancelledAt, time.Minute)
	})
}

func orderIDs(orders []domain.Order) (ids []int64) {
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids
}

// A transaction that has locked one order, here a payment, does not delay the closing of the others.
func TestCloseExpiredSkipsLockedOrders(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		placeOverdue(t, s, 1, 3, v.ID)
		payer := s.db.Writer(t.Context()).Begin()
		_, err := lockOrder(payer, 0, 2)
		require.NoError(t, err)
		closed, err := s.CloseExpired(t.Context(), 10)
		require.NoError(t, err)
		require.ElementsMatch(t, []int64{1, 3}, orderIDs(closed))
		require.NoError(t, payer.Rollback().Error)
		closed, err = s.CloseExpired(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, []int64{2}, orderIDs(closed))
	})
}

// BenchmarkCloseExpired closes overdue orders of 1 or of 100 sales, in batches of the size that the closer uses:
// go test -run NONE -bench CloseExpired -benchtime 100000x ./internal/repo
func BenchmarkCloseExpired(b *testing.B) {
	const batch = 500
	for name, open := range map[string]func() (*Store, error){
		"sqlite": func() (*Store, error) { return OpenSQLite(filepath.Join(b.TempDir(), "bench.db")) },
		"mysql":  func() (*Store, error) { return OpenMySQL(testenv.MySQLDSN(b)) },
	} {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/sales=%d", name, n), func(b *testing.B) {
				s, err := open()
				require.NoError(b, err)
				defer func() { require.NoError(b, s.Close()) }()
				_, err = s.MigrateUp(b.Context())
				require.NoError(b, err)
				sales := make([]int64, n)
				for i := range sales {
					v := domain.Voucher{
						ShopID: 1, Title: "b", Type: domain.VoucherSeckill, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
						Sale: &domain.Sale{InitialStock: 1e9, Stock: 1e9, BeginAt: now, EndAt: now, LimitPerUser: 1},
					}
					require.NoError(b, s.CreateVoucher(b.Context(), nil, &v, admin))
					sales[i] = v.ID
				}
				placeOverdue(b, s, 1, b.N, sales...)
				closed := 0
				b.ResetTimer()
				for {
					orders, err := s.CloseExpired(b.Context(), batch)
					require.NoError(b, err)
					closed += len(orders)
					if len(orders) == 0 {
						break
					}
				}
				require.Equal(b, b.N, closed)
				b.ReportMetric(float64(closed)/b.Elapsed().Seconds(), "orders/s")
			})
		}
	}
}
