package repo

import (
	"context"
	"fmt"
	"strings"
	"time"

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
// millions of orders this takes seconds. A deadline of ctx limits the queries on the server as well.
func (s *Store) SaleTotals(ctx context.Context) ([]domain.SaleTotals, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) ([]domain.SaleTotals, error) {
		sales, err := totals(ctx, tx, totalsQuery)
		if err != nil {
			return nil, err
		}

		orphans, err := totals(ctx, tx, orphansQuery)
		return append(sales, orphans...), err
	})
}

func totals(ctx context.Context, tx *gorm.DB, query string) ([]domain.SaleTotals, error) {
	var found []domain.SaleTotals
	err := tx.Raw(withServerTimeout(ctx, query)).Scan(&found).Error
	return found, err
}

// serverTimeoutMargin is how much later than the client the server gives up.
const serverTimeoutMargin = time.Second

// withServerTimeout adds the deadline of ctx to a SELECT; without it the server keeps working for a client that has
// gone. MariaDB reads the first comment and MySQL the second. SQLite reads neither: it stops when its caller does.
func withServerTimeout(ctx context.Context, query string) string {
	end, ok := ctx.Deadline()
	if !ok {
		return query
	}
	left := max(time.Until(end), 0) + serverTimeoutMargin
	return fmt.Sprintf("/*M! SET STATEMENT max_statement_time = %.3f FOR */ SELECT /*+ MAX_EXECUTION_TIME(%d) */ ",
		left.Seconds(), left.Milliseconds()) + strings.TrimPrefix(strings.TrimSpace(query), "SELECT")
}
