package entry

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// records is an UnpaidStore that counts its reads.
type records struct {
	of          map[domain.SaleUser]domain.SaleRecord
	unpaid      map[int64]int
	err         error
	saleReads   atomic.Int64
	unpaidReads atomic.Int64
}

func (r *records) SaleRecords(context.Context, []domain.SaleUser) (map[domain.SaleUser]domain.SaleRecord, error) {
	time.Sleep(time.Millisecond) // as long as a query
	r.saleReads.Add(1)
	return r.of, r.err
}

func (r *records) UnpaidOrders(context.Context, []int64) (map[int64]int, error) {
	r.unpaidReads.Add(1)
	return r.unpaid, r.err
}

func limitedSale(limit int) *domain.Voucher {
	return &domain.Voucher{ID: 1, Type: domain.VoucherSeckill, Status: domain.VoucherOn, Sale: &domain.Sale{
		Stock: 5, LimitPerUser: 1, BeginAt: start, EndAt: start.Add(time.Hour), UnpaidLimit: &limit, EndedUnpaid: true,
	}}
}

func purchase(user int64) *domain.Purchase {
	return &domain.Purchase{Admission: domain.Admission{UserID: user, VoucherID: 1, At: start}, Deadline: time.Now().Add(time.Minute)}
}

// Before an order of the sale has ended unpaid, a purchase reads nothing. Afterwards concurrent purchases share
// queries.
func TestPurchasesShareLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &records{of: map[domain.SaleUser]domain.SaleRecord{{UserID: 7, VoucherID: 1}: {Expired: 1}}}
		u := NewUnpaid(store)
		v := limitedSale(1)
		v.Sale.Entry.Mode = domain.EntryPass
		v.Sale.EndedUnpaid = false
		require.NoError(t, u.MayOrder(purchase(7), v))
		require.Zero(t, store.saleReads.Load())

		v.Sale.EndedUnpaid = true
		var wg sync.WaitGroup
		for user := range int64(50) {
			wg.Go(func() {
				if err := u.MayOrder(purchase(user), v); user == 7 {
					require.ErrorIs(t, err, domain.ErrUnpaidLimit)
				} else {
					require.NoError(t, err)
				}
			})
		}
		wg.Wait()
		require.Less(t, store.saleReads.Load(), int64(10))
		time.Sleep(time.Second) // the batcher ends
	})
}

func TestMayEnter(t *testing.T) {
	store := &records{
		of: map[domain.SaleUser]domain.SaleRecord{
			{UserID: 7, VoucherID: 1}:  {Expired: 1},
			{UserID: 8, VoucherID: 1}:  {Active: 1},
			{UserID: 10, VoucherID: 1}: {Cancelled: 1, LastCancel: start},
		},
		unpaid: map[int64]int{8: domain.MaxUnpaidOrders - 1, 9: domain.MaxUnpaidOrders},
	}
	u := NewUnpaid(store)
	enter := func(user int64, v *domain.Voucher) error { return env.Err(u.MayEnter(t.Context(), user, v, start)) }
	require.ErrorIs(t, enter(7, limitedSale(1)), domain.ErrUnpaidLimit)
	require.NoError(t, enter(8, limitedSale(1)), "the purchase tells the user about the order")
	require.ErrorIs(t, enter(9, limitedSale(1)), domain.ErrUnpaidElsewhere)
	require.ErrorAs(t, enter(10, limitedSale(1)), new(*domain.RateLimitedError), "the pause after a cancellation")
	require.ErrorAs(t, u.MayOrder(purchase(10), limitedSale(1)), new(*domain.RateLimitedError))
	store.saleReads.Store(0)
	store.unpaidReads.Store(0)
	require.NoError(t, enter(9, limitedSale(0)), "the sale has no limit")
	require.Zero(t, store.unpaidReads.Load())
	fresh := limitedSale(1)
	fresh.Sale.EndedUnpaid = false
	require.ErrorIs(t, enter(9, fresh), domain.ErrUnpaidElsewhere)
	require.Zero(t, store.saleReads.Load())
	store.err = domain.ErrUnavailable
	require.ErrorIs(t, enter(7, limitedSale(1)), domain.ErrUnavailable)
	require.ErrorIs(t, enter(7, fresh), domain.ErrUnavailable)
}

// A pass of a waiting room buys once, whatever became of its order and whether or not the sale limits unpaid orders. A
// later pass of the buyer is good, and a buyer with as many orders as allowed gets none.
func TestPassBuysOnce(t *testing.T) {
	for _, limit := range []int{0, 1} {
		store := &records{of: map[domain.SaleUser]domain.SaleRecord{
			{UserID: 7, VoucherID: 1}: {LastRound: 5},
			{UserID: 9, VoucherID: 1}: {LastRound: 5, Active: 1, Newest: 33},
		}}
		u := NewUnpaid(store)
		v := limitedSale(limit)
		v.Sale.EndedUnpaid = false
		v.Sale.Entry = domain.Entry{Mode: domain.EntryRoom, PassTTL: time.Minute}
		place := func(user int64, round uint32) error {
			p := purchase(user)
			p.Round = round
			return u.MayOrder(p, v)
		}
		require.ErrorIs(t, place(7, 5), domain.ErrPassExpired)
		require.ErrorIs(t, place(7, 4), domain.ErrPassExpired)
		require.NoError(t, place(7, 6))
		require.NoError(t, place(8, 5), "another buyer")

		var held *domain.DuplicateOrderError
		require.ErrorAs(t, place(9, 6), &held)
		env.Fails(u.MayEnter(t.Context(), 9, v, start))(t, &held)
		require.Equal(t, int64(33), held.OrderID)
		require.True(t, env.Must(u.MayEnter(t.Context(), 7, v, start))(t).HasUsed(5))
	}
}

// An open sale with a limit counts the unpaid orders of all sales at the purchase, one without a limit reads nothing. A user
// with as many active orders as allowed is refused at once: one of them may expire before the lane inserts the new order.
func TestOpenSaleCountsUnpaidOrders(t *testing.T) {
	store := &records{
		of:     map[domain.SaleUser]domain.SaleRecord{{UserID: 8, VoucherID: 1}: {Active: 1, Newest: 9}},
		unpaid: map[int64]int{7: domain.MaxUnpaidOrders, 8: domain.MaxUnpaidOrders - 1, 9: domain.MaxUnpaidOrders - 1},
	}
	u, v := NewUnpaid(store), limitedSale(1)
	v.Sale.EndedUnpaid = false
	require.ErrorIs(t, u.MayOrder(purchase(7), v), domain.ErrUnpaidElsewhere)
	require.Equal(t, &domain.DuplicateOrderError{OrderID: 9}, u.MayOrder(purchase(8), v))
	v.Sale.LimitPerUser = 2
	require.NoError(t, u.MayOrder(purchase(8), v))
	require.NoError(t, u.MayOrder(purchase(9), v))
	store.saleReads.Store(0)
	store.unpaidReads.Store(0)
	unlimited := limitedSale(0)
	unlimited.Sale.EndedUnpaid = false
	require.NoError(t, u.MayOrder(purchase(7), unlimited))
	require.Zero(t, store.saleReads.Load()+store.unpaidReads.Load())

	store.err, unlimited.Sale.EndedUnpaid = domain.ErrUnavailable, true // reads the orders of the sale only
	require.ErrorIs(t, u.MayOrder(purchase(9), unlimited), domain.ErrUnavailable)
	require.ErrorIs(t, u.MayOrder(purchase(9), v), domain.ErrUnavailable)
}
