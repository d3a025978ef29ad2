package salestats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	var f Figures
	f.Add(domain.OrderRedeemed, begin.Add(time.Minute), 2, 200)
	f.Add(domain.OrderPaid, begin, 1, 100)
	f.Add(domain.OrderRefunding, begin, 1, 100)
	f.Add(domain.OrderRefunded, begin, 3, 300)
	f.Add(domain.OrderCancelled, begin, 4, 400)
	f.Add(domain.OrderPendingPayment, begin.Add(time.Minute), 5, 500)
	require.Equal(t, Figures{
		Orders: 16, Paid: 7, Unpaid: 9, Refunded: 4, Revenue: 300, RefundedAmount: 400,
		Curve: []Sold{{begin, 9, 100}, {begin.Add(time.Minute), 7, 200}},
	}, f)

	f = Figures{}
	for n := range 601 {
		f.Add(domain.OrderPaid, begin.Add(time.Duration(n)*time.Second), 1, 10)
	}
	f.Shorten(time.Second)
	require.LessOrEqual(t, len(f.Curve), MaxPeriods)
	require.Equal(t, Sold{begin, 11, 110}, f.Curve[0])
	require.Equal(t, begin.Add(11*time.Second), f.Curve[1].At)
	total := int64(0)
	for _, s := range f.Curve {
		total += s.Orders
	}
	require.EqualValues(t, 601, total)
	new(Figures).Shorten(time.Second)
}
