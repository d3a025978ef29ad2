package repo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/service"
)

// booksQuery reads everything in one statement, so all numbers are of one moment even while buyers buy.
// Active orders are those neither cancelled (4) nor refunded (6); exactly they have a slot.
const booksQuery = `
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

// orphansQuery finds active orders of vouchers that have no sale: there is no unit that they could hold.
const orphansQuery = `
SELECT o.voucher_id, 0, 0, 0, COUNT(*), 0, 0 FROM voucher_orders o
WHERE o.status IN (1, 2, 3, 5) AND NOT EXISTS (SELECT 1 FROM seckill_vouchers s WHERE s.voucher_id = o.voucher_id)
GROUP BY o.voucher_id`

// Books reads the accounts of every sale, and of vouchers that have orders but no sale. With millions of orders it
// takes seconds, so it has a connection of its own without the deadlines of the others. A deadline of ctx binds the
// server as well.
func (s *Store) Books(ctx context.Context) (books []service.Books, err error) {
	db, err := s.dialect.patient()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, query := range []string{booksQuery, orphansQuery} {
		some, err := readBooks(ctx, db, query)
		if err != nil {
			return nil, s.translate(err)
		}
		books = append(books, some...)
	}
	return books, nil
}

// serverGrace is how much later than we the server gives up.
const serverGrace = time.Second

// bounded tells the server when nobody waits for a SELECT any more: it would work on for a client that has gone. MariaDB
// reads the first comment, MySQL the second, SQLite neither; it stops with its caller.
func bounded(ctx context.Context, query string) string {
	end, ok := ctx.Deadline()
	if !ok {
		return query
	}
	left := max(time.Until(end), 0) + serverGrace
	return fmt.Sprintf("/*M! SET STATEMENT max_statement_time = %.3f FOR */ SELECT /*+ MAX_EXECUTION_TIME(%d) */ ",
		left.Seconds(), left.Milliseconds()) + strings.TrimPrefix(strings.TrimSpace(query), "SELECT")
}

func readBooks(ctx context.Context, db *sql.DB, query string) (books []service.Books, err error) {
	rows, err := db.QueryContext(ctx, bounded(ctx, query))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		var b service.Books
		if err := rows.Scan(&b.VoucherID, &b.InitialStock, &b.Stock, &b.Additions, &b.Active, &b.OverLimit, &b.BadSlots); err != nil {
			return nil, err
		}
		books = append(books, b)
	}
	return books, rows.Err()
}
