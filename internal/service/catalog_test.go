package service

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

type voucherDB struct {
	VoucherStore
	vouchers   []domain.Voucher
	reads      atomic.Int64
	idsRead    atomic.Int64
	beforeRead func() error
}

func (s *voucherDB) Vouchers(_ context.Context, ids []int64) (found []domain.Voucher, err error) {
	s.reads.Add(1)
	s.idsRead.Add(int64(len(ids)))
	time.Sleep(time.Millisecond)
	for _, id := range ids {
		for _, v := range s.vouchers {
			if v.ID == id {
				found = append(found, v)
			}
		}
	}
	return found, nil
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
		sales := NewSales(SalesConfig{Loader: db})
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
		sold := openSale(2)
		db.vouchers = []domain.Voucher{sold}
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

		shop, pay := int64(1), int64(1)
		env.Must(vouchers.Create(t.Context(), nil, 1, domain.VoucherInput{VoucherFields: domain.VoucherFields{ShopID: &shop, Title: &title, PayValue: &pay, ActualValue: &pay}}))(t)
		require.Len(t, list(), 2)

		sales.MarkSoldOut(1)
		require.Equal(t, domain.StateSoldOut, show().State(time.Now()))
		require.Equal(t, domain.StateSoldOut, list()[1].State(time.Now()))
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
		_, err := vouchers.Catalog(t.Context())
		require.ErrorContains(t, err, "panic")
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
		for range maxDeep {
			vouchers.deep <- struct{}{}
		}
		env.Fails(vouchers.Older(t.Context(), f, time.Now()))(t, domain.ErrOverloaded)
	})
}

// TestUpcomingByStart: the sale that begins next is first, however old it is. After the sale of a cursor has begun, so have
// all above it.
func TestUpcomingByStart(t *testing.T) {
	c := &Catalog{}
	for id, hours := range []time.Duration{5: 2, 4: 1, 3: 4, 2: 3} {
		if hours > 0 {
			v := openSale(1)
			v.ID = int64(id)
			v.Sale.BeginAt = testNow.Add(hours * time.Hour)
			v.Sale.EndAt = testNow.Add(9 * time.Hour)
			c.vouchers = append([]*domain.Voucher{&v}, c.vouchers...)
		}
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
