package repo

import (
	"context"
	"maps"
	"slices"
	"time"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// SaleRecords implements entry.UnpaidStore. An order that was cancelled at or after its deadline counts as expired:
// whether the buyer or the closer comes first makes no difference.
//
// The query lists the users of each sale: with pairs of user and sale, the optimizer of MariaDB needs some 100 ms for 500
// of them, and with one list of sales it would look up every combination.
func (s *Store) SaleRecords(ctx context.Context, of []domain.SaleUser) (map[domain.SaleUser]domain.SaleRecord, error) {
	q := &sqldb.Statement{}
	q.Add(`SELECT user_id, voucher_id, COUNT(slot), COALESCE(MAX(CASE WHEN slot IS NOT NULL THEN id END), 0),
			COUNT(CASE WHEN status = ? AND cancelled_at >= expires_at THEN 1 END),
			COUNT(CASE WHEN status = ? AND cancelled_at < expires_at THEN 1 END),
			MAX(CASE WHEN status = ? AND cancelled_at < expires_at THEN cancelled_at END),
			COALESCE(MAX(entry_round), 0)
		FROM voucher_orders`+s.db.Syntax().ForceIndex(sqldb.UKUserVoucherSlot)+" WHERE ",
		domain.OrderCancelled, domain.OrderCancelled, domain.OrderCancelled)

	users := map[int64][]any{}
	for _, u := range of {
		users[u.VoucherID] = append(users[u.VoucherID], u.UserID)
	}

	for _, voucherID := range slices.Sorted(maps.Keys(users)) {
		q.Or("voucher_id = ? AND user_id", voucherID)
		q.In(users[voucherID])
	}

	q.Add(" GROUP BY user_id, voucher_id")

	rows, err := q.Rows(s.db.Reader(ctx))
	if err != nil {
		return nil, s.db.Translate(err)
	}

	// rows.Err returns the error.
	defer func() { _ = rows.Close() }()

	records := make(map[domain.SaleUser]domain.SaleRecord, len(of))
	for rows.Next() {
		var u domain.SaleUser
		var r domain.SaleRecord
		var lastCancel any
		err := rows.Scan(&u.UserID, &u.VoucherID, &r.Active, &r.Newest, &r.Expired, &r.Cancelled, &lastCancel, &r.LastRound)
		if err != nil {
			return nil, err
		}

		r.LastCancel = timeOf(lastCancel)
		records[u] = r
	}

	return records, s.db.Translate(rows.Err())
}

func timeOf(value any) time.Time {
	switch value := value.(type) {
	case time.Time:
		return value
	case int64:
		// SQLite returns the stored milliseconds, because an expression has no declared type.
		return time.UnixMilli(value).UTC()
	}
	return time.Time{}
}

// UnpaidOrders implements entry.UnpaidStore.
func (s *Store) UnpaidOrders(ctx context.Context, users []int64) (map[int64]int, error) {
	query := "SELECT user_id, COUNT(*) AS orders FROM voucher_orders" + s.db.Syntax().ForceIndex(sqldb.UKUserVoucherSlot) +
		" WHERE user_id IN ? AND slot IS NOT NULL AND status = ? GROUP BY user_id"

	var rows []struct {
		UserID int64
		Orders int
	}

	err := s.db.Reader(ctx).Raw(query, users, domain.OrderPendingPayment).Scan(&rows).Error
	counts := make(map[int64]int, len(rows))
	for _, r := range rows {
		counts[r.UserID] = r.Orders
	}

	return counts, s.db.Translate(err)
}
