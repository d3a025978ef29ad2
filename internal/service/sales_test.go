package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// loader is a SaleLoader that counts its reads.
type loader struct {
	reads atomic.Int64
	load  func(ctx context.Context) (Voucher, error)
}

func (l *loader) Vouchers(ctx context.Context, ids []int64) ([]Voucher, error) {
	l.reads.Add(1)
	v, err := l.load(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	vouchers := slices.Repeat([]Voucher{v}, len(ids))
	for i := range vouchers {
		vouchers[i].ID = ids[i]
	}
	return vouchers, err
}

func (l *loader) NewestVouchers(context.Context, int) ([]Voucher, error) { return nil, nil }

func openSale(stock int64) Voucher {
	return Voucher{
		ID: 1, PayValue: 100, Type: VoucherSeckill, Status: VoucherOn,
		Sale: &Sale{InitialStock: stock, Stock: stock, BeginAt: testNow.Add(-time.Hour), EndAt: testNow.Add(time.Hour), LimitPerUser: 1},
	}
}

func newSales(t *testing.T, l *loader) *Sales {
	s := NewSales(SalesConfig{Loader: l})
	t.Cleanup(s.Close)
	return s
}

func TestSalesShareOneRead(t *testing.T) {
	release := make(chan struct{})
	l := &loader{load: func(context.Context) (Voucher, error) { <-release; return openSale(5), nil }}
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

// TestSalesReaderHangsUp: the reader works for everybody who waits, so its own caller's end must not end it.
func TestSalesReaderHangsUp(t *testing.T) {
	l := &loader{load: func(ctx context.Context) (Voucher, error) { return openSale(5), ctx.Err() }}
	ctx, cancel := context.WithCancel(context.Background())
	s := newSales(t, l)
	l.load = func(ctx context.Context) (Voucher, error) { cancel(); return openSale(5), ctx.Err() }
	_, err := s.Get(ctx, 1)
	require.NoError(t, err)
}

func TestSalesSoldOutAndBack(t *testing.T) {
	l := &loader{load: func(context.Context) (Voucher, error) { return openSale(5), nil }}
	s := newSales(t, l)
	s.MarkSoldOut(1) // unknown yet: nothing to mark
	first, err := s.Get(t.Context(), 1)
	require.NoError(t, err)
	s.MarkSoldOut(1)
	v, err := s.Get(t.Context(), 1)
	require.NoError(t, err)
	require.Zero(t, v.Sale.Stock)
	require.Equal(t, int64(5), first.Sale.Stock, "what was handed out before does not change")
	s.Forget(1)
	v, err = s.Get(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, int64(5), v.Sale.Stock)
}

// TestSalesExpire: what another process changed is seen although nobody tells this one.
func TestSalesExpire(t *testing.T) {
	var stock atomic.Int64
	s := newSales(t, &loader{load: func(context.Context) (Voucher, error) { return openSale(stock.Load()), nil }})
	_, err := s.Get(t.Context(), 1)
	require.NoError(t, err)
	stock.Store(3)
	require.Eventually(t, func() bool {
		v, err := s.Get(t.Context(), 1)
		return err == nil && v.Sale.Stock == 3
	}, time.Minute, 10*time.Millisecond)
}

func TestSalesErrors(t *testing.T) {
	for _, want := range []error{ErrNotFound, ErrUnavailable} {
		l := &loader{load: func(context.Context) (Voucher, error) { return Voucher{}, want }}
		s := newSales(t, l)
		_, err := s.Get(t.Context(), 1)
		require.ErrorIs(t, err, want)
		_, err = s.Get(t.Context(), 1)
		require.ErrorIs(t, err, want)
		require.Equal(t, int64(2), l.reads.Load(), "errors are not kept")
	}
}

// TestSalesWithoutDatabase: what is known must do while the database fails, and while it does not answer at all.
func TestSalesWithoutDatabase(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	fail := func(context.Context) (Voucher, error) { return Voucher{}, ErrUnavailable }
	for name, load := range map[string]func(context.Context) (Voucher, error){
		"fails": fail,
		"hangs": func(context.Context) (Voucher, error) { <-hang; return Voucher{}, ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			l := &loader{load: func(ctx context.Context) (Voucher, error) {
				if down.Load() {
					return load(ctx)
				}
				return openSale(5), nil
			}}
			s := newSales(t, l)
			_, err := s.Get(t.Context(), 1)
			require.NoError(t, err)
			down.Store(true)
			s.Forget(1)
			for range 3 {
				v, err := s.Get(t.Context(), 1)
				require.NoError(t, err)
				require.Equal(t, int64(5), v.Sale.Stock)
			}
			if name == "fails" {
				_, err = s.Get(t.Context(), 2)
				require.ErrorIs(t, err, ErrUnavailable, "nothing is known of another sale")
			}
		})
	}
}

// TestSalesChangedWhileRead: a read that began before a change must not pass for knowledge of it.
func TestSalesChangedWhileRead(t *testing.T) {
	var stock atomic.Int64
	stock.Store(1)
	reading, release := make(chan struct{}), make(chan struct{})
	first := true
	s := newSales(t, &loader{load: func(context.Context) (Voucher, error) {
		v := openSale(stock.Load())
		if !first {
			reading <- struct{}{}
			<-release
		}
		first = false
		return v, nil
	}})
	_, err := s.Get(t.Context(), 1)
	require.NoError(t, err)
	s.Forget(1)
	got := make(chan Voucher)
	go func() { v, _ := s.Get(context.Background(), 1); got <- v }()
	<-reading
	stock.Store(7)
	s.Forget(1)
	release <- struct{}{}
	<-got
	go func() { v, _ := s.Get(context.Background(), 1); got <- v }()
	<-reading
	release <- struct{}{}
	require.Equal(t, int64(7), (<-got).Sale.Stock)
}

// TestSalesVoucherGone: a voucher that does not exist any more is not sold from memory.
func TestSalesVoucherGone(t *testing.T) {
	var gone atomic.Bool
	s := newSales(t, &loader{load: func(context.Context) (Voucher, error) {
		if gone.Load() {
			return Voucher{}, ErrNotFound
		}
		return openSale(5), nil
	}})
	_, err := s.Get(t.Context(), 1)
	require.NoError(t, err)
	gone.Store(true)
	s.Forget(1)
	for range 2 {
		_, err = s.Get(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotFound)
	}
}

func TestSalesTellTheOthers(t *testing.T) {
	var told []int64
	s := NewSales(SalesConfig{Changed: func(id int64) { told = append(told, id) }})
	defer s.Close()
	s.Forget(1)
	s.Change(2)
	require.Equal(t, []int64{2}, told, "what was heard from another process is not passed on")
}

// soldOutOrders is a service whose snapshot says that nothing is left.
func soldOutOrders(t *testing.T, st *store) *Orders {
	return NewOrders(OrdersConfig{
		Sales: newSales(t, &loader{load: func(context.Context) (Voucher, error) { return openSale(0), nil }}), Store: st,
		Lane: laneFunc(func(context.Context, Purchase) (Order, error) { panic("nothing is left to place") }),
		Now:  func() time.Time { return testNow }, MaxInFlight: 1,
	})
}

// TestSoldOutIsCheap: one list for the whole crowd, and a look into the store only for those who are on it.
func TestSoldOutIsCheap(t *testing.T) {
	lists, looks := 0, 0
	orders := soldOutOrders(t, &store{
		users:  func() ([]int64, error) { lists++; return []int64{30, 10, 20, 10}, nil },
		active: func() (int, int64, error) { looks++; return 1, 99, nil },
	})
	for user := range int64(100) {
		_, err := orders.Place(t.Context(), user, 1, 0)
		if user == 10 || user == 20 || user == 30 {
			var dup *DuplicateOrderError
			require.ErrorAs(t, err, &dup, "user %d", user)
			require.Equal(t, int64(99), dup.OrderID)
		} else {
			require.ErrorIs(t, err, ErrSoldOut, "user %d", user)
		}
	}
	require.Equal(t, 1, lists)
	require.Equal(t, 3, looks)
}

// TestSoldOutWithoutList: the store is asked of each buyer where the list is too long, and the shortage is what is
// known where nobody can be asked.
func TestSoldOutWithoutList(t *testing.T) {
	looks := 0
	orders := soldOutOrders(t, &store{
		users:  func() ([]int64, error) { return nil, ErrTooMany },
		active: func() (int, int64, error) { looks++; return 1, 99, nil },
	})
	var dup *DuplicateOrderError
	for range 2 {
		_, err := orders.Place(t.Context(), 7, 1, 0)
		require.ErrorAs(t, err, &dup)
	}
	require.Equal(t, 2, looks)
	for range maxLooks {
		orders.looks <- struct{}{}
	}
	_, err := orders.Place(t.Context(), 7, 1, 0)
	require.ErrorIs(t, err, ErrSoldOut, "too many ask at once")

	orders = soldOutOrders(t, &store{
		users:  func() ([]int64, error) { return nil, ErrUnavailable },
		active: func() (int, int64, error) { return 0, 0, ErrUnavailable },
	})
	_, err = orders.Place(t.Context(), 7, 1, 0)
	require.ErrorIs(t, err, ErrSoldOut)
}

// holdersEnv runs a test in a bubble with its own time, beside a sale of 1,000 holders that is sold out.
func holdersEnv(t *testing.T, test func(t *testing.T, orders *Orders, reads, looks *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var reads, looks atomic.Int64
		sales := NewSales(SalesConfig{Loader: &loader{load: func(context.Context) (Voucher, error) {
			v := openSale(0)
			v.Sale.BeginAt, v.Sale.EndAt = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
			return v, nil
		}}})
		defer sales.Close()
		test(t, NewOrders(OrdersConfig{
			Sales: sales, Now: time.Now, MaxInFlight: 1,
			Store: &store{
				users: func() ([]int64, error) {
					reads.Add(1)
					time.Sleep(time.Second)
					users := make([]int64, 1000)
					for i := range users {
						users[i] = int64(i)
					}
					return users, nil
				},
				active: func() (int, int64, error) { looks.Add(1); return 1, 99, nil },
			},
		}), &reads, &looks)
	})
}

// TestReturnedUnitsDoNotReadTheHolders: a sale that is sold out, and from which ten orders a second are cancelled for
// five minutes, reads the list of its holders a few times, one at a time, and answers without waiting for it.
func TestReturnedUnitsDoNotReadTheHolders(t *testing.T) {
	t.Parallel()
	holdersEnv(t, func(t *testing.T, orders *Orders, reads, looks *atomic.Int64) {
		_, err := orders.Place(t.Context(), 5, 1, 0)
		require.Error(t, err)
		time.Sleep(2 * time.Second)
		start := time.Now()
		for range 3000 {
			orders.cfg.Sales.Forget(1)
			var dup *DuplicateOrderError
			_, err := orders.Place(t.Context(), 7, 1, 0)
			require.ErrorAs(t, err, &dup, "a holder is told so")
			for range 20 {
				_, err = orders.Place(t.Context(), 5000, 1, 0)
				require.Error(t, err) // a look finds an order here, and the list does not
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		took := time.Since(start)
		require.LessOrEqual(t, took, 301*time.Second, "nobody waits for the list")
		require.LessOrEqual(t, reads.Load(), int64(8))
		require.LessOrEqual(t, looks.Load(), 3002+looksPerSecond+int64(took.Seconds())*looksPerSecond)
	})
}

// TestHoldersAreKeptUpToDate: by purchases of this process at once, and by those of others with the next read; then "no"
// costs no query.
func TestHoldersAreKeptUpToDate(t *testing.T) {
	t.Parallel()
	holdersEnv(t, func(t *testing.T, orders *Orders, reads, looks *atomic.Int64) {
		sales := orders.cfg.Sales
		may := func(user int64) (may, sure bool) { return sales.mayHold(t.Context(), orders.cfg.Store, 1, user) }
		_, err := sales.Get(t.Context(), 1)
		require.NoError(t, err)
		got, sure := may(5000)
		require.True(t, got && !sure, "the first list takes too long")
		time.Sleep(time.Second)
		got, sure = may(5000)
		require.True(t, !got && sure)
		got, sure = may(999)
		require.True(t, got && sure)

		sales.Forget(1)
		sales.bought(1, 5000)
		got, sure = may(5000)
		require.True(t, got && sure, "who bought here is a holder at once")
		got, sure = may(6000)
		require.True(t, got && !sure, "another process may have sold the unit to him")
		require.EqualValues(t, 1, reads.Load())
		time.Sleep(holdersShare * time.Second)
		may(6000)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, reads.Load())
		got, sure = may(6000)
		require.True(t, !got && sure)
		got, _ = may(5000)
		require.False(t, got, "the list of the store replaces what was noted before")
		require.Zero(t, looks.Load())

		for user := range int64(maxBoughtSince + 1) {
			sales.bought(1, user)
		}
		require.False(t, (func() *sale { e, _ := sales.cache.GetIfPresent(1); return e })().holders.known, "a sale that goes on keeps no list")
	})
}
