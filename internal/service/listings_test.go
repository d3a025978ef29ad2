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

// TestListIsReadOnce for all who ask in a quarter of a second, by filter, and again after a change.
func TestListIsReadOnce(t *testing.T) {
	t.Parallel()
	listEnv(t, func(t *testing.T, _ *listStore, v *Vouchers) {
		one, other := VoucherFilter{ShopID: 1}, VoucherFilter{ShopID: 2}
		for range 100 {
			wantList(t, v, one, 1)
			wantList(t, v, other, 2)
		}
		time.Sleep(listFresh - 1)
		wantList(t, v, one, 1)
		time.Sleep(time.Nanosecond)
		wantList(t, v, one, 3)
		_, err := v.ChangeStock(t.Context(), 1, 1, 1, "more")
		require.NoError(t, err)
		wantList(t, v, one, 4)
	})
}

// TestListIsReadTogether: who comes while it is read waits for that read, whoever began it and left; but what was changed
// meanwhile is read again.
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
		first, leave := context.WithCancel(t.Context())
		go func() { _, _ = v.List(first, VoucherFilter{}) }()
		answers := make(chan []Voucher, 50)
		synctest.Wait()
		short, hurry := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { _, err := v.List(short, VoucherFilter{}); left <- err }()
		for range cap(answers) {
			go func() { got, _ := v.List(t.Context(), VoucherFilter{}); answers <- got }()
		}
		synctest.Wait()
		leave()
		hurry()
		require.ErrorIs(t, <-left, ErrUnavailable, "who does not want to wait need not")
		_, err := v.ChangeStock(t.Context(), 1, 1, 1, "more")
		require.NoError(t, err)
		wantList(t, v, VoucherFilter{}, 2)
		close(release)
		for range cap(answers) {
			require.Equal(t, []Voucher{{ID: 1}}, <-answers)
		}
		wantList(t, v, VoucherFilter{}, 2)
	})
}

// TestListErrorsAreNotKept, nor more lists than there is room for.
func TestListErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	listEnv(t, func(t *testing.T, s *listStore, v *Vouchers) {
		good := s.list
		s.list = func(context.Context) ([]Voucher, error) { return nil, errors.New("down") }
		_, err := v.List(t.Context(), VoucherFilter{})
		require.ErrorContains(t, err, "down")
		s.list = good
		wantList(t, v, VoucherFilter{}, 2)
		for shop := range int64(2 * maxListings) {
			wantList(t, v, VoucherFilter{ShopID: shop + 1}, shop+3)
		}
		require.Len(t, v.lists.kept, maxListings)
		time.Sleep(listFresh)
		wantList(t, v, VoucherFilter{ShopID: 9999}, 2*maxListings+3)
		require.Len(t, v.lists.kept, 1)
	})
}

// BenchmarkList is what a page's look costs beside the database.
func BenchmarkList(b *testing.B) {
	store := &listStore{list: func(context.Context) ([]Voucher, error) { return make([]Voucher, 20), nil }}
	v := NewVouchers(VouchersConfig{Store: store, Now: time.Now})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = v.List(context.Background(), VoucherFilter{})
		}
	})
	b.ReportMetric(float64(store.reads)/b.Elapsed().Seconds(), "reads/s")
}
