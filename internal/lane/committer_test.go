package lane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// limits is a store that counts the orders by limit.
type limits struct {
	store
	orders map[int]int
}

func (l *limits) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	for _, o := range orders {
		l.orders[o.Limit]++
	}
	return l.store.PlaceOrders(ctx, orders)
}

// Each admission is stored as the order that its buyer received, under the limit of the admission. After a long wait
// in the queue, the time to pay begins with the commit.
func TestCommitterStoresAdmissions(t *testing.T) {
	var stored []domain.Order
	g := &ids{}
	orders := &limits{orders: map[int]int{}, store: store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		stored = append(stored, o)
		switch o.UserID {
		case 2:
			return domain.Order{}, domain.ErrSoldOut
		case 3:
			return domain.Order{}, domain.ErrIDTaken
		}
		return o, nil
	}}}
	c := &Committer{IDs: g, Now: func() time.Time { return testNow }, PayTimeout: time.Hour, Orders: orders}
	late := testNow.Add(-maxQueued - time.Second)
	errs := c.Commit(t.Context(), []domain.Admission{
		{OrderID: 11, UserID: 1, VoucherID: 5, Amount: 100, Limit: 1, At: testNow.Add(-time.Second)},
		{OrderID: 12, UserID: 2, VoucherID: 6, Amount: 100, Limit: 1, At: testNow},
		{OrderID: 13, UserID: 3, VoucherID: 5, Amount: 100, Limit: 1, At: testNow},
		{OrderID: 14, UserID: 4, VoucherID: 7, Amount: 100, Limit: 3, At: late},
	})
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], domain.ErrSoldOut)
	require.ErrorIs(t, errs[2], domain.ErrIDTaken)
	require.NoError(t, errs[3])
	require.Equal(t, []int64{13}, g.skipped, "later ids must not exist already")
	require.Equal(t, map[int]int{1: 3, 3: 1}, orders.orders)
	byID := map[int64]domain.Order{}
	for _, o := range stored {
		byID[o.ID] = o
	}
	at := testNow.Add(-time.Second)
	require.Equal(t, domain.Order{
		ID: 11, UserID: 1, VoucherID: 5, Status: domain.OrderPendingPayment, Amount: 100, CreatedAt: at, ExpiresAt: at.Add(time.Hour),
	}, byID[11])
	require.Equal(t, late, byID[14].CreatedAt)
	require.Equal(t, testNow.Add(time.Hour), byID[14].ExpiresAt)
}
