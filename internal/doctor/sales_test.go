package doctor

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo"
)

// TestDoctorSkipsSlowTotals checks that a timeout of the totals is not reported as a database that hangs.
func TestDoctorSkipsSlowTotals(t *testing.T) {
	t.Parallel()
	store, err := repo.OpenSQLite(filepath.Join(t.TempDir(), "seckill.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := &Sales{Store: store}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r := s.checkTotals(late)
	require.Equal(t, Skipped, r.Status, r.Found)
	require.False(t, r.Unasked)
	require.Contains(t, r.Found, "too many orders to check within 30s")
	require.Contains(t, r.Change, "seckill verify")
	r = s.checkTotals(t.Context()) // the tables do not exist
	require.Equal(t, Fail, r.Status, r.Found)
	require.True(t, r.Unasked)
}

func TestDoctorChecksSaleWindows(t *testing.T) {
	t.Parallel()
	begin := time.Now().Add(time.Hour)
	sale := func(edit func(*domain.Voucher)) domain.Voucher {
		v := domain.Voucher{ID: 7, Status: domain.VoucherOn, Sale: &domain.Sale{Stock: 5, BeginAt: begin, EndAt: begin.Add(time.Hour), LimitPerUser: 1}}
		edit(&v)
		return v
	}
	for found, tc := range map[string]struct {
		edit func(*domain.Voucher)
		want Status
	}{
		"1 sales have a valid window": {func(*domain.Voucher) {}, OK},
		"ends before it begins":       {func(v *domain.Voucher) { v.Sale.EndAt = begin }, Fail},
		"allows no orders":            {func(v *domain.Voucher) { v.Sale.LimitPerUser = 0 }, Fail},
		"is not published":            {func(v *domain.Voucher) { v.Status = domain.VoucherOff }, Warn},
		"has no units":                {func(v *domain.Voucher) { v.Sale.Stock = 0 }, Warn},
		"lasts 1h0m0s, so units":      {func(v *domain.Voucher) { v.Sale.PayTimeout = time.Hour }, Warn},
		"has a pay_timeout of 30s":    {func(v *domain.Voucher) { v.Sale.PayTimeout = 30 * time.Second }, Warn},
		"lasts 10m0s":                 {func(v *domain.Voucher) { v.Sale.EndAt = begin.Add(10 * time.Minute) }, Warn},
	} {
		r := (&Sales{upcoming: []domain.Voucher{sale(tc.edit)}, PayTimeout: 15 * time.Minute}).checkWindows(t.Context())
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
	off := sale(func(v *domain.Voucher) { v.Status = domain.VoucherOff })
	many := &Sales{upcoming: []domain.Voucher{off, off, off, off, off}, PayTimeout: time.Minute}
	require.Contains(t, many.checkWindows(t.Context()).Found, "and 2 more")
}
