package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

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
	s := NewSales(SalesConfig{Loader: l, Changed: func(int64) {}})
	t.Cleanup(s.Close)
	return s
}

// A snapshot does not keep the vouchers in memory that were read with it.
func TestSnapshotIsKeptAlone(t *testing.T) {
	s := newSales(t, &loader{load: func(context.Context) (domain.Voucher, error) { return openSale(5), nil }})
	reads := env.Must(s.readBatch(t.Context(), []int64{1, 2}))(t)
	kept := reads[1]
	other := weak.Make(reads[2])
	clear(reads)

	runtime.GC()
	require.Nil(t, other.Value())
	runtime.KeepAlive(kept)
}

// The end of the context of the first caller does not stop the read, because other callers share it.
func TestSalesReadSurvivesItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := newSales(t, &loader{load: func(ctx context.Context) (domain.Voucher, error) {
		cancel()
		return openSale(5), ctx.Err()
	}})
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

// A change that this process made while the first read of a voucher ran, or a later one, is in every read that follows.
func TestSalesSeeOwnChangeDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := false
		s := newSales(t, &loader{load: func(context.Context) (domain.Voucher, error) {
			v := openSale(5)
			v.Sale.Entry.Paused = changed
			time.Sleep(100 * time.Millisecond) // as a busy database
			return v, nil
		}})
		for range 2 {
			changed = false
			s.Forget(1)
			go func() { _, _ = s.Get(t.Context(), 1) }()
			synctest.Wait()

			changed = true
			s.Forget(1)
			require.True(t, env.Must(s.Get(t.Context(), 1))(t).Sale.Entry.Paused)
		}
	})
}

// A change by another process is seen within a second, even without an invalidation message.
func TestSalesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Bool
		s := newSales(t, &loader{load: func(context.Context) (domain.Voucher, error) {
			v := openSale(5)
			if changed.Load() {
				v.Sale.EndAt = testNow
			}
			return v, nil
		}})
		for range 20 {
			changed.Store(false)
			s.Forget(1)
			env.Must(s.Get(t.Context(), 1))(t)
			time.Sleep(rand.N(saleStale))

			changed.Store(true)
			time.Sleep(time.Second)
			require.Equal(t, testNow, env.Must(s.Get(t.Context(), 1))(t).Sale.EndAt)
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
	for name, load := range map[string]func(context.Context) (domain.Voucher, error){
		"fails": func(context.Context) (domain.Voucher, error) { return domain.Voucher{}, domain.ErrUnavailable },
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
				require.Equal(t, int64(5), env.Must(s.Get(t.Context(), 1))(t).Sale.Stock)
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

// A sold-out sale costs one read of the list of buyers, and one query per purchase of a user on the list.
func TestSoldOutReadsStoreForBuyersOnly(t *testing.T) {
	lists, queries := 0, 0
	orders := newOrders(t, saleOf(0), OrdersConfig{Store: &store{
		users:  func() ([]int64, error) { lists++; return []int64{30, 10, 20, 10}, nil },
		active: func() (int, int64, error) { queries++; return 1, 99, nil },
	}})
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
		orders := newOrders(t, saleOf(0), OrdersConfig{Store: &store{
			users: func() ([]int64, error) { return nil, ErrTooMany },
			active: func() (int, int64, error) {
				queries.Add(1)
				time.Sleep(time.Second)
				return 1, 99, nil
			},
		}})
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

	orders := newOrders(t, saleOf(0), OrdersConfig{Store: &store{
		users:  func() ([]int64, error) { return nil, domain.ErrUnavailable },
		active: func() (int, int64, error) { return 0, 0, domain.ErrUnavailable },
	}})
	env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, domain.ErrUnavailable)
}

// testBuyers runs a test in a synctest bubble with a sold-out sale of 1,000 buyers. reads counts the reads of the list
// of buyers, which take 1 s, and queries those for the orders of one user.
func testBuyers(t *testing.T, test func(t *testing.T, orders *Orders, reads, queries *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var reads, queries atomic.Int64
		test(t, newOrders(t, saleOf(0), OrdersConfig{Store: &store{
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
		}}), &reads, &queries)
	})
}

// Ten cancellations per second for a minute cause only a few reads of the list of buyers, one at a time, and
// purchases do not wait for them.
func TestReturnedUnitsCauseFewReadsOfBuyers(t *testing.T) {
	t.Parallel()
	testBuyers(t, func(t *testing.T, orders *Orders, reads, queries *atomic.Int64) {
		require.Error(t, env.Err(orders.Place(t.Context(), 5, 1, 0)))
		time.Sleep(2 * time.Second)
		start := time.Now()
		for range 600 {
			orders.cfg.Sales.Forget(1)
			env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, new(*domain.DuplicateOrderError), "a user on the list")
			for range 20 {
				// It is sold out, or a duplicate order if a query was allowed.
				require.Error(t, env.Err(orders.Place(t.Context(), 5000, 1, 0)))
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

// A purchase of a returned unit is on the list after its next read. Then users outside the list are refused without a query.
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
		require.Equal(t, wasNoBuyer, known(6000), "the returned unit may have been sold to this user")
		require.EqualValues(t, 1, reads.Load())
		time.Sleep(buyersReadShare * time.Second)
		known(6000)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, reads.Load())
		require.Equal(t, noBuyer, known(6000))
		require.Zero(t, queries.Load())
	})
}

// A buyer of a returned unit is found although no more queries are allowed for users outside the outdated list.
func TestBuyerOfReturnedUnitIsFound(t *testing.T) {
	t.Parallel()
	testBuyers(t, func(t *testing.T, orders *Orders, _, queries *atomic.Int64) {
		sales := orders.cfg.Sales
		require.Error(t, env.Err(orders.Place(t.Context(), 5, 1, 0)))
		time.Sleep(2 * time.Second)
		sales.Forget(1)
		for sales.staleLookups.Allow() {
		}
		orders.recent.add(5000, 1)
		env.Fails(orders.Place(t.Context(), 5000, 1, 0))(t, new(*domain.DuplicateOrderError))
		require.EqualValues(t, 2, queries.Load())
		env.Fails(orders.Place(t.Context(), 6000, 1, 0))(t, domain.ErrSoldOut)
	})
}

type voucherDB struct {
	VoucherStore
	vouchers   []domain.Voucher
	reads      atomic.Int64
	takes      time.Duration // a read of vouchers by id
	idsRead    atomic.Int64
	beforeRead func() error
}

func (s *voucherDB) Vouchers(_ context.Context, ids []int64) ([]domain.Voucher, error) {
	s.reads.Add(1)
	s.idsRead.Add(int64(len(ids)))
	time.Sleep(max(s.takes, time.Millisecond))
	other := func(v domain.Voucher) bool { return !slices.Contains(ids, v.ID) }
	return slices.DeleteFunc(slices.Clone(s.vouchers), other), nil
}

func (s *voucherDB) NewestVouchers(_ context.Context, most int) ([]domain.Voucher, error) {
	s.reads.Add(1)
	if s.beforeRead != nil {
		if err := s.beforeRead(); err != nil {
			return nil, err
		}
	}
	found := make([]domain.Voucher, min(most, len(s.vouchers)))
	copy(found, s.vouchers)
	return found, nil
}

func (s *voucherDB) ChangeVoucher(_ context.Context, _ int64, _ domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error) {
	v := s.vouchers[0]
	_, err := change(&v)
	s.vouchers[0] = v
	return v, err
}

func (s *voucherDB) CreateVoucher(_ context.Context, _ *domain.Claim, v *domain.Voucher, _ domain.Actor) error {
	v.ID = int64(len(s.vouchers) + 1)
	s.vouchers = append([]domain.Voucher{*v}, s.vouchers...)
	return nil
}

// testCatalog runs a test in a synctest bubble with a database of one sale of 5 units.
func testCatalog(t *testing.T, test func(t *testing.T, db *voucherDB, sales *Sales, vouchers *Vouchers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := openSale(5)
		v.Sale.BeginAt, v.Sale.EndAt = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		db := &voucherDB{vouchers: []domain.Voucher{v}}
		sales := NewSales(SalesConfig{Loader: db, Changed: func(int64) {}})
		defer sales.Close()
		test(t, db, sales, NewVouchers(VouchersConfig{Store: db, Sales: sales, Now: time.Now}))
		time.Sleep(time.Millisecond) // the batcher may still wait for more calls
	})
}

// Ids that do not exist do not cost one query each.
func TestUnknownVouchersShareQueries(t *testing.T) {
	t.Parallel()
	testCatalog(t, func(t *testing.T, db *voucherDB, _ *Sales, vouchers *Vouchers) {
		errs := make(chan error)
		for id := range int64(1000) {
			go func() { _, err := vouchers.Get(t.Context(), 1000+id); errs <- err }()
		}
		for range 1000 {
			require.ErrorIs(t, <-errs, domain.ErrNotFound)
		}
		require.LessOrEqual(t, db.reads.Load(), int64(10))
		require.EqualValues(t, 1000, db.idsRead.Load())
	})
}

// Callers share reads, and results are less than a second old.
func TestCatalogSharesReads(t *testing.T) {
	t.Parallel()
	testCatalog(t, func(t *testing.T, db *voucherDB, _ *Sales, vouchers *Vouchers) {
		stock := func() int64 {
			c := env.Must(vouchers.Catalog(t.Context()))(t)
			page, ok := c.List(domain.VoucherFilter{Page: domain.Page{Limit: 10}}, time.Now())
			require.True(t, ok)
			require.Len(t, page, 1)
			return page[0].Sale.Stock
		}
		for range 3000 { // three seconds
			stock()
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.LessOrEqual(t, db.reads.Load(), int64(8))
		db.vouchers = []domain.Voucher{openSale(2)}
		start := time.Now()
		for stock() != 2 {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(start), time.Second)
	})
}

// A change by this process is visible at once, even for a caller that arrives during an older read.
func TestCatalogShowsOwnChangesAtOnce(t *testing.T) {
	t.Parallel()
	testCatalog(t, func(t *testing.T, db *voucherDB, sales *Sales, vouchers *Vouchers) {
		list := func() []*domain.Voucher {
			c := env.Must(vouchers.Catalog(t.Context()))(t)
			page, _ := c.List(domain.VoucherFilter{Page: domain.Page{Limit: 10}}, time.Now())
			return page
		}
		show := func() *domain.Voucher {
			return env.Must(vouchers.Get(t.Context(), 1))(t)
		}
		require.Equal(t, "", list()[0].Title)
		require.Equal(t, "", show().Title)

		time.Sleep(catalogFresh)
		reading, release := make(chan struct{}), make(chan struct{})
		old := db.vouchers[0]
		db.beforeRead = func() error {
			db.beforeRead = nil
			close(reading)
			<-release
			return nil
		}
		list() // starts a read in the background
		<-reading
		title := "new"
		env.Must(vouchers.Change(t.Context(), 1, 1, domain.VoucherChange{VoucherFields: domain.VoucherFields{Title: &title}}))(t)
		changed := db.vouchers[0]
		db.vouchers[0] = old // as that read sees it
		got := make(chan []*domain.Voucher)
		go func() { got <- list() }()
		synctest.Wait()
		db.beforeRead = func() error { db.beforeRead = nil; db.vouchers[0] = changed; return nil }
		close(release)
		require.Equal(t, "new", (<-got)[0].Title)
		require.Equal(t, "new", show().Title)

		title, db.takes = "newest", 2*saleWait
		env.Must(vouchers.Change(t.Context(), 1, 1, domain.VoucherChange{VoucherFields: domain.VoucherFields{Title: &title}}))(t)
		require.Equal(t, title, env.Must(sales.Get(t.Context(), 1))(t).Title)
		db.takes = 0

		shop, pay := domain.ID(1), int64(1)
		env.Must(vouchers.Create(t.Context(), nil, 1, domain.VoucherInput{VoucherFields: domain.VoucherFields{ShopID: &shop, Title: &title, PayValue: &pay, ActualValue: &pay}, Force: true}))(t)
		require.Len(t, list(), 2)

		sales.MarkSoldOut(1)
		require.Equal(t, domain.StateSoldOut, show().State(time.Now()))
	})
}

// While the database cannot be read, Catalog returns an error, where Get falls back to an old snapshot.
func TestCatalogFailsRatherThanBeStale(t *testing.T) {
	t.Parallel()
	testCatalog(t, func(t *testing.T, db *voucherDB, _ *Sales, vouchers *Vouchers) {
		down := errors.New("down")
		env.Must(vouchers.Catalog(t.Context()))(t)
		db.beforeRead = func() error { return down }
		time.Sleep(catalogStale)
		env.Fails(vouchers.Catalog(t.Context()))(t, down)
		db.beforeRead = func() error { panic("down") }
		env.Fails(vouchers.Catalog(t.Context()))(t, "panic")
		db.beforeRead = nil
		env.Must(vouchers.Catalog(t.Context()))(t)
	})
}

// Pages beyond the catalog are read from the database, a limited number at a time.
func TestCatalogIsBounded(t *testing.T) {
	t.Parallel()
	testCatalog(t, func(t *testing.T, db *voucherDB, _ *Sales, vouchers *Vouchers) {
		db.vouchers = nil
		for id := int64(maxCatalog + 1); id > 0; id-- {
			v := openSale(1)
			v.ID = id
			db.vouchers = append(db.vouchers, v)
		}
		c := env.Must(vouchers.Catalog(t.Context()))(t)
		f := domain.VoucherFilter{Page: domain.Page{Before: 12, Limit: 10}}
		page, ok := c.List(f, time.Now())
		require.True(t, ok)
		require.Len(t, page, 10)
		f.Page.Before = 11
		_, ok = c.List(f, time.Now())
		require.False(t, ok)
		require.True(t, vouchers.deep.TryAcquire(maxDeep))
		env.Fails(vouchers.Older(t.Context(), f, time.Now()))(t, domain.ErrOverloaded)
	})
}

// The sale that begins next is first, however old it is. After the sale of a cursor has begun, so have all above it.
func TestUpcomingByStart(t *testing.T) {
	c := &Catalog{}
	for i, hours := range []time.Duration{2, 1, 4, 3} {
		v := openSale(1)
		v.ID = int64(5 - i)
		v.Sale.BeginAt = testNow.Add(hours * time.Hour)
		v.Sale.EndAt = testNow.Add(9 * time.Hour)
		c.vouchers = append(c.vouchers, &v)
	}

	page := func(before int64, limit int, after time.Duration) []int64 {
		f := domain.StaffFilter{Tab: domain.TabUpcoming, Page: domain.Page{Before: before, Limit: limit}}
		found, counts := c.Browse(f, testNow.Add(after))
		ids := make([]int64, len(found))
		for i, v := range found {
			ids[i] = v.ID
		}
		require.GreaterOrEqual(t, counts[domain.TabUpcoming], len(ids))
		return ids
	}
	require.Equal(t, []int64{4, 5, 2, 3}, page(0, 9, 0))
	require.Equal(t, []int64{4, 5}, page(0, 2, 0))
	require.Equal(t, []int64{2, 3}, page(5, 2, 0))
	require.Equal(t, []int64{2, 3}, page(5, 2, 2*time.Hour), "both of the first page have begun")
	c.vouchers[0].Status = domain.VoucherOff
	require.Equal(t, []int64{2, 3}, page(5, 2, 0), "the last of the first page was taken off")
}
