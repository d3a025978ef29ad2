package repo

import (
	"context"
	"maps"
	"slices"

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
	q.Add(`SELECT user_id, voucher_id, COUNT(slot) AS active, COALESCE(MAX(CASE WHEN slot IS NOT NULL THEN id END), 0) AS newest,
			COUNT(CASE WHEN status = ? AND cancelled_at >= expires_at THEN 1 END) AS expired,
			COUNT(CASE WHEN status = ? AND cancelled_at < expires_at THEN 1 END) AS cancelled,
			MAX(CASE WHEN status = ? AND cancelled_at < expires_at THEN cancelled_at END) AS last_cancel,
			COALESCE(MAX(entry_round), 0) AS last_round
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

	type record struct {
		domain.SaleUser
		domain.SaleRecord
	}

	rows, err := sqldb.QueryRows[record](s.db.Reader(ctx), q)
	return mapped(rows, func(r *record) (domain.SaleUser, domain.SaleRecord) { return r.SaleUser, r.SaleRecord }), s.db.Translate(err)
}

// UnpaidOrders implements entry.UnpaidStore.
func (s *Store) UnpaidOrders(ctx context.Context, users []int64) (map[int64]int, error) {
	query := "SELECT user_id, COUNT(*) AS orders FROM voucher_orders" + s.db.Syntax().ForceIndex(sqldb.UKUserVoucherSlot) +
		" WHERE user_id IN ? AND slot IS NOT NULL AND status = ? GROUP BY user_id"

	type unpaid struct {
		UserID int64
		Orders int
	}

	rows, err := list[unpaid](s, s.db.Reader(ctx).Raw(query, users, domain.OrderPendingPayment))
	return mapped(rows, func(r *unpaid) (int64, int) { return r.UserID, r.Orders }), err
}
