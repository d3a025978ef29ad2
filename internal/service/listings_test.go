package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// listStore counts its readers.
type listStore struct {
	VoucherStore
	reads int
	list  func(context.Context) ([]Voucher, error)
}

func (s *listStore) ListVouchers(ctx context.Context, _ VoucherFilter) ([]Voucher, error) {
	s.reads++
	return s.list(ctx)
}

func (s *listStore) ChangeStock(context.Context, StockChange) (Voucher, error) { return Voucher{}, nil }

// listEnv runs test in a bubble of its own time.
func listEnv(t *testing.T, test func(t *testing.T, s *listStore, v *Vouchers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &listStore{}
		store.list = func(context.Context) ([]Voucher, error) { return []Voucher{{ID: int64(store.reads)}}, nil }
		sales := NewSales(SalesConfig{})
		defer sales.Close()
		test(t, store, NewVouchers(VouchersConfig{Store: store, Sales: sales, Now: time.Now}))
	})
}

// wantList requires the list of the n-th read.
func wantList(t *testing.T, v *Vouchers, f VoucherFilter, n int64) {
	t.Helper()
	got, err := v.List(t.Context(), f)
	require.NoError(t, err)
	require.Equal(t, []Voucher{{ID: n}}, got)
}

// TestListIsNeverOld: a list shows what was there when it was asked for, however often it is.
func TestListIsNeverOld(t *testing.T) {
	t.Parallel()
	listEnv(t, func(t *testing.T, s *listStore, v *Vouchers) {
		for n := range int64(20) {
			wantList(t, v, VoucherFilter{}, n+1)
		}
		require.Equal(t, 20, s.reads)
	})
}

// TestListIsReadTogether: who comes while it is read waits for the next read, and all who wait share that one; nobody is
// failed because another one left.
func TestListIsReadTogether(t *testing.T) {
	t.Parallel()
	listEnv(t, func(t *testing.T, s *listStore, v *Vouchers) {
		release := make(chan struct{})
		s.list = func(ctx context.Context) ([]Voucher, error) {
			n := int64(s.reads)
			if n == 1 {
				<-release
			}
			return []Voucher{{ID: n}}, ctx.Err()
		}
		answers := make(chan []Voucher, 51)
		ask := func(ctx context.Context) { got, _ := v.List(ctx, VoucherFilter{}); answers <- got }
		go ask(t.Context())
		synctest.Wait()
		leaver, leave := context.WithCancel(t.Context())
		go ask(leaver) // and he would be the next reader
		synctest.Wait()
		for range 49 {
			go ask(t.Context())
		}
		short, hurry := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { _, err := v.List(short, VoucherFilter{}); left <- err }()
		synctest.Wait()
		leave()
		hurry()
		require.ErrorIs(t, <-left, ErrUnavailable, "who does not want to wait need not")
		close(release)
		require.Equal(t, []Voucher{{ID: 1}}, <-answers)
		for range 50 {
			require.Equal(t, []Voucher{{ID: 2}}, <-answers)
		}
		require.Equal(t, 2, s.reads)
	})
}

// TestListsAreReadApart by filter, with a pause between the reads of one; errors are for those who waited, and made-up
// filters do not pile up.
func TestListsAreReadApart(t *testing.T) {
	t.Parallel()
	listEnv(t, func(t *testing.T, s *listStore, v *Vouchers) {
		good := s.list
		s.list = func(context.Context) ([]Voucher, error) { return nil, errors.New("down") }
		_, err := v.List(t.Context(), VoucherFilter{})
		require.ErrorContains(t, err, "down")
		s.list = good
		start := time.Now()
		wantList(t, v, VoucherFilter{}, 2)
		require.Equal(t, listPause, time.Since(start))
		for shop := range int64(2 * maxListings) {
			wantList(t, v, VoucherFilter{ShopID: shop + 1}, shop+3)
		}
		require.Equal(t, listPause, time.Since(start), "they wait for nobody")
		require.LessOrEqual(t, len(v.lists.lists), maxListings)
		time.Sleep(listPause + 1)
		wantList(t, v, VoucherFilter{ShopID: 9999}, 2*maxListings+3)
		require.Len(t, v.lists.lists, 1)
	})
}
