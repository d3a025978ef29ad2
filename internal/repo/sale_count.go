package repo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
)

// SaleSnapshot implements salestats.MonitorStore.
func (s *Store) SaleSnapshot(ctx context.Context, voucherID int64) (domain.Voucher, int64, error) {
	var v domain.Voucher
	var added int64
	err := s.db.Snapshot(ctx, func(tx *gorm.DB) error {
		var err error
		if v, err = findVoucher(tx, voucherID); err != nil {
			return err
		}
		added, err = stockAdditions(tx, voucherID)
		return err
	})

	return v, added, s.db.Translate(err)
}

// stockAdditions returns the units that were added to a sale after it was published, less those that were removed.
func stockAdditions(tx *gorm.DB, voucherID int64) (int64, error) {
	var n int64
	err := tx.Raw("SELECT COALESCE(SUM(delta), 0) FROM stock_changes WHERE voucher_id = ?", voucherID).Row().Scan(&n)
	return n, err
}

// statusQuery counts the orders of a sale by status, by whether they have a slot, and by period: the seconds from a time
// until the order, divided by a length. It sums their amounts.
const statusQuery = `SELECT status, slot IS NULL, %s AS period, COUNT(*), SUM(amount) FROM voucher_orders WHERE voucher_id = ?
GROUP BY status, slot IS NULL, period`

// periods is the number of periods into which the window of a sale is divided for a count.
const periods = 600

// overLimitQuery counts the users with more active orders than the limit.
const overLimitQuery = `
SELECT COUNT(*) FROM (
  SELECT user_id FROM voucher_orders WHERE voucher_id = ? AND status IN (1, 2, 3, 5) GROUP BY user_id HAVING COUNT(*) > ?) h`

// CountSale implements salestats.MonitorStore.
func (s *Store) CountSale(ctx context.Context, voucherID int64) (salestats.SaleCount, error) {
	var c salestats.SaleCount
	err := s.db.LongSnapshot(ctx, func(tx *gorm.DB) error {
		var err error
		c, err = s.countSale(ctx, tx.Statement.ConnPool, voucherID)
		return err
	})

	return c, s.db.Translate(err)
}

func (s *Store) countSale(ctx context.Context, tx gorm.ConnPool, voucherID int64) (salestats.SaleCount, error) {
	c := salestats.SaleCount{Totals: domain.SaleTotals{VoucherID: voucherID}, ByStatus: map[domain.OrderStatus]int64{}}
	var limit int
	var begin, end time.Time
	err := tx.QueryRowContext(ctx, "SELECT initial_stock, stock, limit_per_user, begin_at, end_at FROM seckill_vouchers WHERE voucher_id = ?", voucherID).
		Scan(&c.Totals.InitialStock, &c.Totals.Stock, &limit, &begin, &end)
	if errors.Is(err, sql.ErrNoRows) {
		return c, domain.ErrNotFound
	}
	if err != nil {
		return c, err
	}

	err = tx.QueryRowContext(ctx, "SELECT COALESCE(SUM(delta), 0) FROM stock_changes WHERE voucher_id = ?", voucherID).
		Scan(&c.Totals.Additions)
	if err != nil {
		return c, err
	}

	length := max(1, int64(end.Sub(begin)/time.Second/periods))
	period := "TIMESTAMPDIFF(SECOND, ?, created_at) DIV ?"
	from := any(begin)

	// Times are milliseconds.
	if s.db.Dialect() == "sqlite" {
		period = "(created_at - ?) / 1000 / ?"
		from = begin.UnixMilli()
	}

	rows, err := tx.QueryContext(ctx, fmt.Sprintf(statusQuery, period), from, length, voucherID)
	if err != nil {
		return c, err
	}

	// rows.Err returns the error.
	defer func() { _ = rows.Close() }()

	for rows.Next() {
		var status domain.OrderStatus
		var slotless bool
		var at, n, amount int64
		if err := rows.Scan(&status, &slotless, &at, &n, &amount); err != nil {
			return c, err
		}

		c.ByStatus[status] += n
		c.Figures.Add(status, begin.Add(time.Duration(at*length)*time.Second), n, amount)

		if status.Active() {
			c.Totals.Active += n
		}
		if status.Active() == slotless {
			c.Totals.BadSlots += n
		}
	}

	if err := rows.Err(); err != nil {
		return c, err
	}

	c.Figures.Shorten(time.Duration(length) * time.Second)
	return c, tx.QueryRowContext(ctx, overLimitQuery, voucherID, limit).Scan(&c.Totals.OverLimit)
}
