package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/test/env/servers"
)

// errInconsistent is returned if the database contradicts the answers.
var errInconsistent = errors.New("the answers do not match the database")

// drainTimeout bounds the time in which the workers commit the accepted orders, and other waits for the servers.
const drainTimeout = 2 * time.Minute

func (s *stack) verify(ctx context.Context) error { return s.seckill(ctx, "verify") }

func (s *stack) drain(ctx context.Context, sales []string, accepted int64) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()

	return servers.Until(ctx, func() error {
		// A query that ends with ctx would hide how many are missing.
		sold, err := s.sold(context.WithoutCancel(ctx), sales)
		if err == nil && sold < accepted {
			err = fmt.Errorf("%w: %d of %d accepted orders are in the database", errInconsistent, sold, accepted)
		}
		return err
	})
}

// sold returns the number of sold units of the sales. It is cheap, as it reads one row per sale.
func (s *stack) sold(ctx context.Context, sales []string) (int64, error) {
	return s.number(ctx, "SELECT CAST(SUM(initial_stock - stock) AS SIGNED) FROM seckill_vouchers WHERE voucher_id IN ("+list(sales)+")")
}

func (s *stack) committed(ctx context.Context, sales []string, answered int64) error {
	rows, err := s.number(ctx, "SELECT COUNT(*) FROM voucher_orders WHERE voucher_id IN ("+list(sales)+")")
	if err != nil {
		return err
	}

	if rows != answered {
		return fmt.Errorf("%w: %d orders answered, %d rows", errInconsistent, answered, rows)
	}

	return nil
}

func (s *stack) number(ctx context.Context, query string) (int64, error) {
	var n int64
	if err := s.db.QueryRowContext(ctx, query).Scan(&n); err != nil { //nolint:gosec // IDs from the server
		return 0, fmt.Errorf("query the database: %w", err)
	}
	return n, nil
}

func list(ids []string) string { return strings.Join(ids, ",") }

// fillChunk is the number of orders in one insert.
const fillChunk = 50_000

// Statements that create old sales, sold out and ended, with paid orders. Their IDs are those of a month ago, by time.
const (
	oldVoucher = `INSERT INTO vouchers (shop_id, title, pay_value, actual_value, type, status, created_at, updated_at)
		SELECT 1, 'An old sale', 100, 200, 1, 1, d, d FROM (SELECT NOW(3) - INTERVAL 30 DAY AS d) t`
	oldSale = `INSERT INTO seckill_vouchers (voucher_id, initial_stock, stock, begin_at, end_at, created_at, updated_at)
		SELECT ?, ?, 0, d, d + INTERVAL 1 DAY, d, d FROM (SELECT NOW(3) - INTERVAL 30 DAY AS d) t`
	oldOrders = `INSERT INTO voucher_orders
			(id, user_id, voucher_id, slot, status, pay_type, amount, created_at, expires_at, paid_at, updated_at)
		SELECT ((UNIX_TIMESTAMP(d) DIV 1 - 1009929600 + ?) << 32) + ROW_NUMBER() OVER (ORDER BY u.id),
			u.id, ?, 1, 2, 1, 100, d, d + INTERVAL 15 MINUTE, d, d
		FROM users u, (SELECT NOW(3) - INTERVAL 30 DAY AS d) t WHERE u.role = 'buyer' ORDER BY u.id LIMIT ?`
)

// fill inserts old orders, at most one per user and sale. They are durable only after flushPages.
func (s *stack) fill(ctx context.Context, orders int) error {
	if err := s.set(ctx, "innodb_flush_log_at_trx_commit", "0"); err != nil {
		return err
	}

	for sale := 0; orders > 0; sale++ {
		n := min(orders, fillChunk, len(s.tokens))
		if err := s.fillSale(ctx, sale, n); err != nil {
			return fmt.Errorf("create old orders: %w", err)
		}

		orders -= n
	}

	return s.set(ctx, "innodb_flush_log_at_trx_commit", "1")
}

func (s *stack) fillSale(ctx context.Context, sale, orders int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit

	res, err := tx.ExecContext(ctx, oldVoucher)
	if err != nil {
		return err
	}

	id, err := res.LastInsertId()
	if err != nil {
		return err
	}

	if _, err := tx.ExecContext(ctx, oldSale, id, orders); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, oldOrders, sale, id, orders); err != nil {
		return err
	}

	return tx.Commit()
}

// empty removes all orders and sales. Voucher IDs are not reused, so the caches of the servers stay valid.
func (s *stack) empty(ctx context.Context) error {
	for _, statement := range []string{
		"TRUNCATE TABLE voucher_orders", "DELETE FROM stock_changes", "DELETE FROM seckill_vouchers", "DELETE FROM vouchers",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// flushPages waits until the database has written its dirty pages, so that the next run does not include that work.
func (s *stack) flushPages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()

	if err := s.set(ctx, "innodb_io_capacity_max", "100000", "innodb_io_capacity", "100000", "innodb_max_dirty_pages_pct", "0"); err != nil {
		return err
	}

	err := servers.Until(ctx, func() error {
		var name string
		var pages int64
		row := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
		err := row.Scan(&name, &pages)
		if err == nil && pages >= 100 {
			err = fmt.Errorf("the database has %d dirty pages", pages)
		}
		return err
	})
	if err != nil {
		return err
	}

	return s.set(ctx, "innodb_io_capacity", "DEFAULT", "innodb_io_capacity_max", "DEFAULT", "innodb_max_dirty_pages_pct", "DEFAULT")
}

func (s *stack) set(ctx context.Context, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		statement := "SET GLOBAL " + pairs[i] + " = " + pairs[i+1] //nolint:gosec // constants of this file
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
