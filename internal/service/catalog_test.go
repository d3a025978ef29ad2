package service

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// shelf is a database of vouchers that counts its reads.
type shelf struct {
	VoucherStore
	vouchers   []Voucher
	reads      atomic.Int64
	idsRead    atomic.Int64
	beforeRead func() error
}

func (s *shelf) Vouchers(_ context.Context, ids []int64) (found []Voucher, err error) {
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

func (s *shelf) NewestVouchers(_ context.Context, most int) ([]Voucher, error) {
	s.reads.Add(1)
	if s.beforeRead != nil {
		if err := s.beforeRead(); err != nil {
			return nil, err
		}
	}
	found := make([]Voucher, min(most, len(s.vouchers)))
	copy(found, s.vouchers)
	return found, nil
}

func (s *shelf) ChangeVoucher(_ context.Context, _ int64, _ Actor, change func(*Voucher) (string, error)) (Voucher, error) {
	v := s.vouchers[0]
	_, err := change(&v)
	s.vouchers[0] = v
	return v, err
}

func (s *shelf) CreateVoucher(_ context.Context, v *Voucher, _ Actor) error {
	v.ID = int64(len(s.vouchers) + 1)
	s.vouchers = append([]Voucher{*v}, s.vouchers...)
	return nil
}

// shelfEnv runs a test in a bubble with its own time, beside a database of one sale of 5 units.
func shelfEnv(t *testing.T, test func(t *testing.T, db *shelf, sales *Sales, vouchers *Vouchers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := openSale(5)
		v.Sale.BeginAt, v.Sale.EndAt = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		db := &shelf{vouchers: []Voucher{v}}
		sales := NewSales(SalesConfig{Loader: db})
		defer sales.Close()
		test(t, db, sales, NewVouchers(VouchersConfig{Store: db, Sales: sales, Now: time.Now}))
		time.Sleep(time.Millisecond) // let the batcher end, which may still wait for more calls
	})
}

// TestUnknownVouchersShareQueries: made-up ids cost no query each.
func TestUnknownVouchersShareQueries(t *testing.T) {
	t.Parallel()
	shelfEnv(t, func(t *testing.T, db *shelf, _ *Sales, vouchers *Vouchers) {
		answers := make(chan error)
		for id := range int64(1000) {
			go func() { _, err := vouchers.Get(t.Context(), 1000+id); answers <- err }()
		}
		for range 1000 {
			require.ErrorIs(t, <-answers, ErrNotFound)
		}
		require.LessOrEqual(t, db.reads.Load(), int64(10))
		require.EqualValues(t, 1000, db.idsRead.Load())
	})
}

// TestCatalogIsShared: readers share reads, and none sees a voucher as it was a second ago.
func TestCatalogIsShared(t *testing.T) {
	t.Parallel()
	shelfEnv(t, func(t *testing.T, db *shelf, _ *Sales, vouchers *Vouchers) {
		stock := func() int64 {
			c, err := vouchers.Catalog(t.Context())
			require.NoError(t, err)
			page, ok := c.List(VoucherFilter{Page: Page{Limit: 10}}, time.Now())
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
		db.vouchers = []Voucher{sold}
		start := time.Now()
		for stock() != 2 {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(start), time.Second)
	})
}

// TestOwnChangesAreSeenAtOnce: even by a reader who comes while an older read is under way.
func TestOwnChangesAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	shelfEnv(t, func(t *testing.T, db *shelf, sales *Sales, vouchers *Vouchers) {
		list := func() []*Voucher {
			c, err := vouchers.Catalog(t.Context())
			require.NoError(t, err)
			page, _ := c.List(VoucherFilter{Page: Page{Limit: 10}}, time.Now())
			return page
		}
		show := func() *Voucher {
			v, err := vouchers.Get(t.Context(), 1)
			require.NoError(t, err)
			return v
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
		list() // begins a read in the background
		<-reading
		title := "new"
		_, err := vouchers.Change(t.Context(), 1, 1, VoucherChange{VoucherFields: VoucherFields{Title: &title}})
		require.NoError(t, err)
		changed := db.vouchers[0]
		db.vouchers[0] = old // which that read has seen
		got := make(chan []*Voucher)
		go func() { got <- list() }()
		synctest.Wait()
		db.beforeRead = func() error { db.beforeRead = nil; db.vouchers[0] = changed; return nil }
		close(release)
		require.Equal(t, "new", (<-got)[0].Title)
		require.Equal(t, "new", show().Title)

		shop, pay := int64(1), int64(1)
		_, err = vouchers.Create(t.Context(), 1, VoucherInput{VoucherFields: VoucherFields{ShopID: &shop, Title: &title, PayValue: &pay, ActualValue: &pay}})
		require.NoError(t, err)
		require.Len(t, list(), 2)

		sales.MarkSoldOut(1)
		require.Equal(t, StateSoldOut, show().State(time.Now()))
		require.Equal(t, StateSoldOut, list()[1].State(time.Now()))
	})
}

// TestReadsFailRatherThanLie: where the snapshot of a purchase falls back on old knowledge, a reader gets an error.
func TestReadsFailRatherThanLie(t *testing.T) {
	t.Parallel()
	shelfEnv(t, func(t *testing.T, db *shelf, _ *Sales, vouchers *Vouchers) {
		down := errors.New("down")
		_, err := vouchers.Catalog(t.Context())
		require.NoError(t, err)
		db.beforeRead = func() error { return down }
		time.Sleep(catalogStale)
		_, err = vouchers.Catalog(t.Context())
		require.ErrorIs(t, err, down)
		db.beforeRead = func() error { panic("down") }
		_, err = vouchers.Catalog(t.Context())
		require.ErrorContains(t, err, "panic")
		db.beforeRead = nil
		_, err = vouchers.Catalog(t.Context())
		require.NoError(t, err)
	})
}

// TestCatalogIsBounded: pages that reach further are read from the database, a few at a time.
func TestCatalogIsBounded(t *testing.T) {
	t.Parallel()
	shelfEnv(t, func(t *testing.T, db *shelf, _ *Sales, vouchers *Vouchers) {
		db.vouchers = nil
		for id := int64(maxCatalog + 1); id > 0; id-- {
			v := openSale(1)
			v.ID = id
			db.vouchers = append(db.vouchers, v)
		}
		c, err := vouchers.Catalog(t.Context())
		require.NoError(t, err)
		f := VoucherFilter{Page: Page{Before: 12, Limit: 10}}
		page, ok := c.List(f, time.Now())
		require.True(t, ok)
		require.Len(t, page, 10)
		f.Page.Before = 11
		_, ok = c.List(f, time.Now())
		require.False(t, ok)
		for range maxDeep {
			vouchers.deep <- struct{}{}
		}
		_, err = vouchers.Older(t.Context(), f, time.Now())
		require.ErrorIs(t, err, ErrOverloaded)
	})
}
