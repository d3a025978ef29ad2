package entry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/entry"
)

// sale is the only voucher.
type sale struct{ domain.Voucher }

func (s sale) Get(context.Context, int64) (domain.Voucher, error) { return s.Voucher, nil }

// limits is a Limits with the same result for every user.
type limits struct{ err error }

func (l limits) MayEnter(context.Context, int64, *domain.Voucher, time.Time) error { return l.err }

// A user beyond the limits of unpaid orders gets no pass. Open sales do not check them.
func TestUnpaidOrdersGetNoPass(t *testing.T) {
	v := domain.Voucher{Status: domain.VoucherOn, Sale: &domain.Sale{
		Stock: 1, BeginAt: now, EndAt: now.Add(time.Hour), Entry: domain.Entry{Mode: domain.EntryPass, PassTTL: time.Minute},
	}}
	s := &entry.Service{Sales: sale{v}, Passes: entry.NewPasses(oldKey), Limits: limits{domain.ErrUnpaidLimit}, Now: func() time.Time { return now }}
	a, err := s.Enter(t.Context(), 7, 1, "")
	require.ErrorIs(t, err, domain.ErrUnpaidLimit)
	require.Empty(t, a.Pass)
	s.Limits = limits{}
	a, err = s.Enter(t.Context(), 7, 1, "")
	require.NoError(t, err)
	require.NotEmpty(t, a.Pass)
	v.Sale.Entry.Mode = domain.EntryOpen
	s.Limits = limits{domain.ErrUnpaidLimit}
	_, err = s.Enter(t.Context(), 7, 1, "")
	require.NoError(t, err)
}
