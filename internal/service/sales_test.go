package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

type loader struct {
	reads atomic.Int64
	load  func(ctx context.Context) (domain.Voucher, error)
}

func (l *loader) Vouchers(ctx context.Context, ids []int64) ([]domain.Voucher, error) {
	l.reads.Add(1)
	v, err := l.load(ctx)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	vouchers := slices.Repeat([]domain.Voucher{v}, len(ids))
	for i := range vouchers {
		vouchers[i].ID = ids[i]
	}
	return vouchers, err
}

func (l *loader) NewestVouchers(context.Context, int) ([]domain.Voucher, error) { return nil, nil }

func openSale(stock int64) domain.Voucher {
	return domain.Voucher{
		ID: 1, PayValue: 100, Type: domain.VoucherSeckill, Status: domain.VoucherOn,
		Sale: &domain.Sale{InitialStock: stock, Stock: stock, BeginAt: testNow.Add(-time.Hour), EndAt: testNow.Add(time.Hour), LimitPerUser: 1},
	}
}

func newSales(t *testing.T, l *loader) *Sales {
	s := NewSales(SalesConfig{Loader: l})
	t.Cleanup(s.Close)
	return s
}

func TestSalesShareOneRead(t *testing.T) {
	release := make(chan struct{})
	l := &loader{load: func(context.Context) (domain.Voucher, error) { <-release; return openSale(5), nil }}
	s := newSales(t, l)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if v, err := s.Get(context.Background(), 1); err != nil || v.Sale.Stock != 5 {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
	require.Eventually(t, func() bool { return l.reads.Load() > 0 }, time.Minute, time.Millisecond)
	close(release)
	wg.Wait()
	require.Less(t, l.reads.Load(), int64(50))
}

// The end of the context of the first caller does not stop the read, because other callers share it.
func TestSalesReadSurvivesItsCaller(t *testing.T) {
	l := &loader{load: func(ctx context.Context) (domain.Voucher, error) { return openSale(5), ctx.Err() }}
	ctx, cancel := context.WithCancel(context.Background())
	s := newSales(t, l)
	l.load = func(ctx context.Context) (domain.Voucher, error) { cancel(); return openSale(5), ctx.Err() }
	env.Must(s.Get(ctx, 1))(t)
}

func TestSalesSoldOutAndBack(t *testing.T) {
	l := &loader{load: func(context.Context) (domain.Voucher, error) { return openSale(5), nil }}
	s := newSales(t, l)
	s.MarkSoldOut(1) // not cached yet: no effect
	first := env.Must(s.Get(t.Context(), 1))(t)
	s.MarkSoldOut(1)
	v := env.Must(s.Get(t.Context(), 1))(t)
	require.Zero(t, v.Sale.Stock)
	require.Equal(t, int64(5), first.Sale.Stock, "a voucher that was returned before does not change")
	s.Forget(1)
	v = env.Must(s.Get(t.Context(), 1))(t)
	require.Equal(t, int64(5), v.Sale.Stock)
}

// A change by another process is seen within a second, even without an invalidation message.
func TestSalesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Bool
		s := NewSales(SalesConfig{Loader: &loader{load: func(context.Context) (domain.Voucher, error) {
			v := openSale(5)
			if changed.Load() {
				v.Sale.EndAt = testNow
			}
			return v, nil
		}}})
		defer s.Close()
		for range 20 {
			changed.Store(false)
			s.Forget(1)
			env.Must(s.Get(t.Context(), 1))(t)
			time.Sleep(rand.N(saleStale))

			changed.Store(true)
			time.Sleep(time.Second)
			v := env.Must(s.Get(t.Context(), 1))(t)
			require.Equal(t, testNow, v.Sale.EndAt)
		}
	})
}

func TestSalesErrors(t *testing.T) {
	for _, want := range []error{domain.ErrNotFound, domain.ErrUnavailable} {
		l := &loader{load: func(context.Context) (domain.Voucher, error) { return domain.Voucher{}, want }}
		s := newSales(t, l)
		env.Fails(s.Get(t.Context(), 1))(t, want)
		env.Fails(s.Get(t.Context(), 1))(t, want)
		require.Equal(t, int64(2), l.reads.Load(), "errors are not cached")
	}
}

// The last snapshot is used while the database fails, and while it does not answer, however often the voucher changes
// meanwhile.
func TestSalesWithoutDatabase(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	fail := func(context.Context) (domain.Voucher, error) { return domain.Voucher{}, domain.ErrUnavailable }
	for name, load := range map[string]func(context.Context) (domain.Voucher, error){
		"fails": fail,
		"hangs": func(context.Context) (domain.Voucher, error) { <-hang; return domain.Voucher{}, domain.ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			l := &loader{load: func(ctx context.Context) (domain.Voucher, error) {
				if down.Load() {
					return load(ctx)
				}
				return openSale(5), nil
			}}
			s := newSales(t, l)
			env.Must(s.Get(t.Context(), 1))(t)
			down.Store(true)
			for range 1000 {
				s.Forget(1)
			}
			for range 3 {
				v := env.Must(s.Get(t.Context(), 1))(t)
				require.Equal(t, int64(5), v.Sale.Stock)
			}
			if name == "fails" {
				env.Fails(s.Get(t.Context(), 2))(t, domain.ErrUnavailable, "a sale without a snapshot")
			}
		})
	}
}

// A deleted voucher is not sold from its last snapshot.
func TestSalesDeletedVoucher(t *testing.T) {
	var gone atomic.Bool
	s := newSales(t, &loader{load: func(context.Context) (domain.Voucher, error) {
		if gone.Load() {
			return domain.Voucher{}, domain.ErrNotFound
		}
		return openSale(5), nil
	}})
	env.Must(s.Get(t.Context(), 1))(t)
	gone.Store(true)
	s.Forget(1)
	for range 2 {
		env.Fails(s.Get(t.Context(), 1))(t, domain.ErrNotFound)
	}
}

func TestSalesPublishesOwnChanges(t *testing.T) {
	var published []int64
	s := NewSales(SalesConfig{Changed: func(id int64) { published = append(published, id) }})
	defer s.Close()
	s.Forget(1)
	s.Change(2)
	require.Equal(t, []int64{2}, published, "a change by another process is not published again")
}

func soldOutOrders(t *testing.T, st *store) *Orders {
	none := func(context.Context, domain.Purchase) (domain.Order, error) { panic("the lane was called") }
	return newOrders(t, openSale(0), 1, none, func(c *OrdersConfig) { c.Store = st })
}

// A sold-out sale costs one read of the list of buyers, and one query per purchase of a user on the list.
func TestSoldOutReadsStoreForBuyersOnly(t *testing.T) {
	lists, queries := 0, 0
	orders := soldOutOrders(t, &store{
		users:  func() ([]int64, error) { lists++; return []int64{30, 10, 20, 10}, nil },
		active: func() (int, int64, error) { queries++; return 1, 99, nil },
	})
	for user := range int64(100) {
		_, err := orders.Place(t.Context(), user, 1, 0)
		if user == 10 || user == 20 || user == 30 {
			require.Equal(t, &domain.DuplicateOrderError{OrderID: 99}, err, "user %d", user)
		} else {
			require.ErrorIs(t, err, domain.ErrSoldOut, "user %d", user)
		}
	}
	require.Equal(t, 1, lists)
	require.Equal(t, 3, queries)
}

// If the list of buyers is too long, each purchase costs a query. If too many queries run, the answer is ErrSoldOut.
// If the store is unavailable it is not, because the buyer may hold an order.
func TestSoldOutWithoutList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int64
		orders := soldOutOrders(t, &store{
			users: func() ([]int64, error) { return nil, ErrTooMany },
			active: func() (int, int64, error) {
				queries.Add(1)
				time.Sleep(time.Second)
				return 1, 99, nil
			},
		})
		var all sync.WaitGroup
		for user := range int64(maxLookups) {
			all.Go(func() {
				_, err := orders.Place(t.Context(), user, 1, 0)
				if !errors.As(err, new(*domain.DuplicateOrderError)) {
					t.Errorf("user %d: %v", user, err)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, maxLookups, queries.Load())
		env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, domain.ErrSoldOut, "too many lookups are running")
		all.Wait()
	})

	orders := soldOutOrders(t, &store{
		users:  func() ([]int64, error) { return nil, domain.ErrUnavailable },
		active: func() (int, int64, error) { return 0, 0, domain.ErrUnavailable },
	})
	env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, domain.ErrUnavailable)
}

// testBuyers runs a test in a synctest bubble with a sold-out sale of 1,000 buyers. reads counts the reads of the list
// of buyers, which take 1 s, and queries those for the orders of one user.
func testBuyers(t *testing.T, test func(t *testing.T, orders *Orders, reads, queries *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var reads, queries atomic.Int64
		test(t, newOrders(t, openSale(0), 1, nil, func(c *OrdersConfig) {
			c.Store = &store{
				users: func() ([]int64, error) {
					reads.Add(1)
					time.Sleep(time.Second)
					users := make([]int64, 1000)
					for i := range users {
						users[i] = int64(i)
					}
					return users, nil
				},
				active: func() (int, int64, error) { queries.Add(1); return 1, 99, nil },
			}
		}), &reads, &queries)
	})
}

// Ten cancellations per second for a minute cause only a few reads of the list of buyers, one at a time, and
// purchases do not wait for them.
func TestReturnedUnitsCauseFewReadsOfBuyers(t *testing.T) {
	t.Parallel()
	testBuyers(t, func(t *testing.T, orders *Orders, reads, queries *atomic.Int64) {
		_, err := orders.Place(t.Context(), 5, 1, 0)
		require.Error(t, err)
		time.Sleep(2 * time.Second)
		start := time.Now()
		for range 600 {
			orders.cfg.Sales.Forget(1)
			_, err := orders.Place(t.Context(), 7, 1, 0)
			require.ErrorAs(t, err, new(*domain.DuplicateOrderError), "a user on the list")
			for range 20 {
				_, err = orders.Place(t.Context(), 5000, 1, 0)
				require.Error(t, err) // sold out, or a duplicate order if a query was allowed
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		took := time.Since(start)
		require.LessOrEqual(t, took, 61*time.Second, "no purchase waits for the list")
		require.LessOrEqual(t, reads.Load(), int64(2))
		require.LessOrEqual(t, queries.Load(), 602+staleLookupsPerSecond+int64(took.Seconds())*staleLookupsPerSecond)
	})
}

// A purchase of this process is on the list at once, and one of another process after the next read. Then users outside
// the list are refused without a query.
func TestBuyersAreKeptUpToDate(t *testing.T) {
	t.Parallel()
	testBuyers(t, func(t *testing.T, orders *Orders, reads, queries *atomic.Int64) {
		sales := orders.cfg.Sales
		known := func(user int64) standing {
			env.Must(sales.Get(t.Context(), 1))(t)
			return sales.standing(t.Context(), orders.cfg.Store, 1, user)
		}
		require.Equal(t, mayBeBuyer, known(5000), "the first list takes too long")
		time.Sleep(time.Second)
		require.Equal(t, noBuyer, known(5000))
		require.Equal(t, isBuyer, known(999))

		sales.Forget(1)
		sales.addBuyer(1, 5000)
		require.Equal(t, isBuyer, known(5000), "a purchase of this process is on the list at once")
		require.Equal(t, wasNoBuyer, known(6000), "another process may have sold the returned unit to this user")
		require.EqualValues(t, 1, reads.Load())
		time.Sleep(buyersReadShare * time.Second)
		known(6000)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, reads.Load())
		require.Equal(t, noBuyer, known(6000))
		require.Equal(t, noBuyer, known(5000), "the next read replaces the list")
		require.Zero(t, queries.Load())

		for user := range int64(maxNewBuyers + 1) {
			sales.addBuyer(1, user)
		}
		require.Equal(t, mayBeBuyer, known(6000), "a sale that is not sold out any more has no list")
	})
}
