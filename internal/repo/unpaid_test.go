package repo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// The orders of two users in two sales, one for each way in which an order can end.
func TestUnpaidRecords(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		limit := 1
		create := func() domain.Voucher {
			v := newSale(t, s, 20, 100)
			_, err := s.ChangeVoucher(ctx, v.ID, admin, func(v *domain.Voucher) (string, error) { v.Sale.UnpaidLimit = &limit; return "", nil })
			require.NoError(t, err)
			return v
		}
		v, other, open := create(), create(), newSale(t, s, 20, 100)
		place := func(id, user, voucher int64, expires time.Time) {
			o := newOrder(id, user, voucher)
			o.ExpiresAt = expires
			_, err := placeOrder(ctx, s, o, 100)
			require.NoError(t, err)
		}
		end := func(id int64, at time.Time) {
			_, err := cancel(ctx, s, 0, id, at)
			require.NoError(t, err)
		}
		ended := func() (ids []int64) {
			found, err := s.Vouchers(ctx, []int64{v.ID, other.ID, open.ID, 999})
			require.NoError(t, err)
			require.Len(t, found, 3)
			for _, v := range found {
				if v.Sale.EndedUnpaid {
					ids = append(ids, v.ID)
				}
			}
			return ids
		}
		deadline := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
		for id := int64(1); id <= 6; id++ {
			place(id, 10, v.ID, deadline)
		}
		require.NoError(t, s.db.Writer(ctx).Exec("UPDATE voucher_orders SET status = 6, slot = NULL WHERE id = 1").Error)
		require.NoError(t, s.db.Writer(ctx).Exec("UPDATE voucher_orders SET status = 2 WHERE id = 2").Error)
		require.Empty(t, ended(), "a refunded order was paid")

		end(3, now.Add(time.Second))
		end(4, deadline.Add(-time.Millisecond))
		end(5, deadline) // by its owner, before the closer
		require.Equal(t, []int64{v.ID}, ended())
		place(7, 10, v.ID, time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
		place(8, 10, other.ID, time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
		place(9, 11, v.ID, deadline)
		place(10, 11, open.ID, deadline)
		end(10, now)
		closed, err := s.CloseExpired(ctx, 10)
		require.NoError(t, err)
		require.Len(t, closed, 2)
		require.Equal(t, []int64{v.ID, other.ID}, ended(), "a sale without a limit is not marked")

		require.NoError(t, s.db.Writer(ctx).Exec("UPDATE voucher_orders SET entry_round = id WHERE id IN (6, 7)").Error)
		asked := []domain.SaleUser{{UserID: 10, VoucherID: v.ID}, {UserID: 10, VoucherID: other.ID}, {UserID: 11, VoucherID: v.ID},
			{UserID: 12, VoucherID: v.ID}, {UserID: 10, VoucherID: v.ID}}
		found, err := s.SaleRecords(ctx, asked)
		require.NoError(t, err)
		require.Equal(t, map[domain.SaleUser]domain.SaleRecord{
			asked[0]: {Active: 2, Newest: 6, Expired: 2, Cancelled: 2, LastCancel: deadline.Add(-time.Millisecond), LastRound: 7},
			asked[1]: {Expired: 1},
			asked[2]: {Active: 1, Newest: 9},
		}, found)

		place(11, 11, other.ID, deadline)
		unpaid, err := s.UnpaidOrders(ctx, []int64{10, 11, 12, 10})
		require.NoError(t, err)
		require.Equal(t, map[int64]int{10: 1, 11: 2}, unpaid)
	})
}
