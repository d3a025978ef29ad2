package repo

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
)

// totalsQuery reads all totals with one statement, so they belong to one moment even while orders are placed.
// Active orders are those neither cancelled (4) nor refunded (6); only they have a slot.
const totalsQuery = `
SELECT s.voucher_id, s.initial_stock, s.stock,
  (SELECT COALESCE(SUM(c.delta), 0) FROM stock_changes c WHERE c.voucher_id = s.voucher_id) AS additions,
  (SELECT COUNT(*) FROM voucher_orders o WHERE o.voucher_id = s.voucher_id AND o.status IN (1, 2, 3, 5)) AS active,
  (SELECT COUNT(*) FROM (
      SELECT o.voucher_id, COUNT(*) AS held FROM voucher_orders o WHERE o.status IN (1, 2, 3, 5)
      GROUP BY o.voucher_id, o.user_id) h
    WHERE h.voucher_id = s.voucher_id AND h.held > s.limit_per_user) AS over_limit,
  (SELECT COUNT(*) FROM voucher_orders o WHERE o.voucher_id = s.voucher_id AND
      (o.slot IS NULL) = (o.status IN (1, 2, 3, 5))) AS bad_slots
FROM seckill_vouchers s ORDER BY s.voucher_id`

// orphansQuery finds active orders of vouchers that have no sale and therefore no units.
const orphansQuery = `
SELECT o.voucher_id, COUNT(*) AS active FROM voucher_orders o
WHERE o.status IN (1, 2, 3, 5) AND NOT EXISTS (SELECT 1 FROM seckill_vouchers s WHERE s.voucher_id = o.voucher_id)
GROUP BY o.voucher_id`

// SaleTotals reads the totals of every sale, and of vouchers that have orders but no sale, in one snapshot. With
// millions of orders this takes seconds.
func (s *Store) SaleTotals(ctx context.Context) ([]domain.SaleTotals, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) ([]domain.SaleTotals, error) {
		sales, err := totals(tx, totalsQuery)
		if err != nil {
			return nil, err
		}

		orphans, err := totals(tx, orphansQuery)
		return append(sales, orphans...), err
	})
}

func totals(tx *gorm.DB, query string) ([]domain.SaleTotals, error) {
	var found []domain.SaleTotals
	err := tx.Raw(query).Scan(&found).Error
	return found, err
}

// statusQuery counts the orders of a sale by status, by whether they have a slot, and by period: the seconds from a time
// until the order, divided by a length. It sums their amounts.
const statusQuery = `SELECT status, slot IS NULL AS slotless, %s AS period, COUNT(*) AS n, SUM(amount) AS amount FROM voucher_orders WHERE voucher_id = ?
GROUP BY status, slotless, period`

// periods is the number of periods into which the window of a sale is divided for a count.
const periods = 600

// overLimitQuery counts the users with more active orders than the limit.
const overLimitQuery = `
SELECT COUNT(*) FROM (
  SELECT user_id FROM voucher_orders WHERE voucher_id = ? AND status IN (1, 2, 3, 5) GROUP BY user_id HAVING COUNT(*) > ?) h`

// CountSale implements salestats.MonitorStore.
func (s *Store) CountSale(ctx context.Context, voucherID int64) (salestats.SaleCount, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) (salestats.SaleCount, error) {
		return countSale(tx, s.db.Dialect(), voucherID)
	})
}

func countSale(tx *gorm.DB, dialect string, voucherID int64) (salestats.SaleCount, error) {
	c := salestats.SaleCount{Totals: domain.SaleTotals{VoucherID: voucherID}, ByStatus: map[domain.OrderStatus]int64{}}

	var sale saleRow
	if err := tx.Select(saleColumns).Take(&sale, voucherID).Error; err != nil {
		return c, err
	}

	c.Totals.InitialStock = sale.InitialStock
	c.Totals.Stock = sale.Stock
	c.Totals.Additions = sale.Added

	length := max(1, int64(sale.EndAt.Sub(sale.BeginAt)/time.Second/periods))
	period := "TIMESTAMPDIFF(SECOND, ?, created_at) DIV ?"
	from := any(sale.BeginAt)

	// Times are milliseconds.
	if dialect == "sqlite" {
		period = "(created_at - ?) / 1000 / ?"
		from = sale.BeginAt.UnixMilli()
	}

	var counts []struct {
		Status   domain.OrderStatus
		Slotless bool
		Period   int64
		N        int64
		Amount   int64
	}
	if err := tx.Raw(fmt.Sprintf(statusQuery, period), from, length, voucherID).Scan(&counts).Error; err != nil {
		return c, err
	}

	for _, n := range counts {
		c.ByStatus[n.Status] += n.N
		c.Figures.Add(n.Status, sale.BeginAt.Add(time.Duration(n.Period*length)*time.Second), n.N, n.Amount)

		if n.Status.Active() {
			c.Totals.Active += n.N
		}
		if n.Status.Active() == n.Slotless {
			c.Totals.BadSlots += n.N
		}
	}

	c.Figures.Shorten(time.Duration(length) * time.Second)
	return c, tx.Raw(overLimitQuery, voucherID, sale.LimitPerUser).Row().Scan(&c.Totals.OverLimit)
}
