package repo

import (
	"context"

	"gorm.io/gorm"

	"seckill/internal/domain"
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
