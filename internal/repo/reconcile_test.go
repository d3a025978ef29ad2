package repo

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

var noneOverdue = domain.OverdueSince{}

func facts(t *testing.T, s *Store, voucherID int64, inFlight ...int64) domain.SaleFacts {
	t.Helper()
	return env.Must(s.SaleFacts(t.Context(), voucherID, inFlight, 1000, noneOverdue))(t)
}

func sold(t *testing.T, s *Store, limit int, orders ...domain.Order) {
	t.Helper()
	for _, p := range s.PlaceOrders(t.Context(), withLimit(limit, orders)) {
		require.NoError(t, p.Err)
	}
}

func damage(t *testing.T, s *Store, query string, args ...any) {
	t.Helper()
	env.Must(s.Pools()["write"].ExecContext(t.Context(), query, args...))(t)
}

func holder(order, user int64) domain.Holder { return domain.Holder{OrderID: order, UserID: user} }

func TestSaleFacts(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 10, 2), newSale(t, s, 5, 1)
		sold(t, s, 2, newOrder(3, 30, v.ID), newOrder(1, 10, v.ID), newOrder(2, 10, v.ID), newOrder(4, 40, v.ID))
		sold(t, s, 1, newOrder(9, 10, other.ID))
		env.Must(cancel(t.Context(), s, 40, 4, now))(t)

		f := facts(t, s, v.ID, 2, 4, 9, 77)
		require.Equal(t, int64(7), f.Voucher.Sale.Stock)
		require.Equal(t, []domain.Holder{holder(1, 10), holder(2, 10), holder(3, 30)}, f.Holders)
		require.Equal(t, []int64{3, 6}, []int64{f.Active, f.Sum})
		require.ElementsMatch(t, []int64{2, 4}, f.Settled, "of this voucher, active or not")
		require.Equal(t, domain.Named{Count: 1, Orders: []domain.Holder{holder(4, 40)}}, f.Returned)
		require.Empty(t, f.Check())

		f = env.Must(s.SaleFacts(t.Context(), v.ID, nil, 2, noneOverdue))(t)
		require.True(t, f.TooMany)
		require.Empty(t, f.Holders)
		require.Equal(t, int64(3), f.Active)
		require.Empty(t, f.Check())

		order := env.Must(s.OrderFacts(t.Context(), v.ID, []int64{1, 4, 9, 77}))(t)
		require.ElementsMatch(t, []domain.OrderFact{{Holder: holder(1, 10), Active: true}, {Holder: holder(4, 40)}}, order)
	})
}

// Each violated invariant names the orders that may be the cause.
func TestViolationsNameOrders(t *testing.T) {
	env.Full(t)
	insert := func(id, user int, slot string, status int) string {
		return fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
			SELECT %d, %d, voucher_id, %s, %d, amount, created_at, expires_at, updated_at FROM voucher_orders WHERE id = 1`, id, user, slot, status)
	}
	const less, more = "UPDATE seckill_vouchers SET stock = stock - 1", "UPDATE seckill_vouchers SET stock = stock + 1"
	for name, tc := range map[string]struct {
		stock     int64
		damage    []string
		invariant string
		orders    []domain.Holder
	}{
		"one order too many":     {2, []string{insert(3, 30, "1", 1)}, "I1", []domain.Holder{holder(3, 30)}},
		"two orders of a user":   {5, []string{insert(3, 20, "2", 1), less}, "I2", []domain.Holder{holder(2, 20), holder(3, 20)}},
		"missing slot":           {5, []string{"UPDATE voucher_orders SET slot = NULL WHERE id = 2"}, "I2", []domain.Holder{holder(2, 20)}},
		"slot of an ended order": {5, []string{insert(3, 30, "1", 4)}, "I2", []domain.Holder{holder(3, 30)}},
		"lost unit":              {5, []string{insert(3, 30, "NULL", 4), less}, "I5", []domain.Holder{holder(3, 30)}},
		"one unit too many":      {5, []string{more}, "I3", []domain.Holder{holder(2, 20), holder(1, 10)}},
		"no sale":                {5, []string{"DELETE FROM seckill_vouchers"}, "I1", []domain.Holder{holder(1, 10), holder(2, 20)}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *Store) {
				v := newSale(t, s, tc.stock, 1)
				sold(t, s, 1, newOrder(1, 10, v.ID), newOrder(2, 20, v.ID))
				for _, statement := range tc.damage {
					damage(t, s, statement)
				}
				var found []domain.Violation
				f := facts(t, s, v.ID)
				for _, violation := range f.Check() {
					if violation.Invariant == tc.invariant {
						found = append(found, violation)
					}
				}
				require.Len(t, found, 1)
				require.Equal(t, domain.Named{Count: int64(len(tc.orders)), Orders: tc.orders}, found[0].Orders)
				orphans := env.Must(s.OrphanVouchers(t.Context()))(t)
				require.Equal(t, name == "no sale", len(orphans) == 1 && orphans[0] == v.ID)
			})
		})
	}
}

func TestNamedOrdersAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const n = domain.MaxNamed + 5
		v := newSale(t, s, n, 1)
		for i := range int64(n) {
			sold(t, s, 1, newOrder(i+1, i+1, v.ID))
		}
		damage(t, s, "UPDATE voucher_orders SET slot = NULL WHERE voucher_id = ?", v.ID)
		f := facts(t, s, v.ID)
		require.EqualValues(t, n, f.BadSlots.Count)
		require.Len(t, f.BadSlots.Orders, domain.MaxNamed)
		require.Equal(t, holder(1, 1), f.BadSlots.Orders[0])
	})
}

// Overdue are unpaid orders that were not closed, and refunds that were not finished.
func TestSaleFactsReportOverdueOrders(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		late := newOrder(1, 10, v.ID)
		late.ExpiresAt = now.Add(-time.Minute)
		sold(t, s, 1, late, newOrder(2, 20, v.ID), newOrder(3, 30, v.ID), newOrder(4, 40, v.ID))
		damage(t, s, "UPDATE voucher_orders SET status = 5, updated_at = ? WHERE id = 3", now.Add(-time.Hour))
		damage(t, s, "UPDATE voucher_orders SET status = 5 WHERE id = 4")
		since := domain.OverdueSince{Expired: now, Refunding: now.Add(-time.Minute)}
		f := env.Must(s.SaleFacts(t.Context(), v.ID, nil, 1000, since))(t)
		require.Equal(t, domain.Named{Count: 1, Orders: []domain.Holder{holder(1, 10)}}, f.Expired)
		require.Equal(t, domain.Named{Count: 1, Orders: []domain.Holder{holder(3, 30)}}, f.Refunding)
	})
}

func TestSalesReturnsNewestUnended(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		a, b := newSale(t, s, 1, 1), newSale(t, s, 1, 1)
		for name, tc := range map[string]struct {
			endAfter time.Time
			most     int
			want     []int64
			all      int
		}{
			"all":         {now, 10, []int64{b.ID, a.ID}, 2},
			"the newest":  {now, 1, []int64{b.ID}, 2},
			"none":        {now.Add(2 * time.Hour), 10, []int64{}, 0},
			"ended, also": {time.Time{}, 10, []int64{b.ID, a.ID}, 2},
		} {
			ids, all, err := s.Sales(t.Context(), tc.endAfter, tc.most)
			require.NoError(t, err, name)
			require.Equal(t, tc.want, ids, name)
			require.EqualValues(t, tc.all, all, name)
		}
	})
}
