package repo

import (
	"context"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/internal/service"
)

type orderRow struct {
	domain.Order
	// Set by package service.
	UpdatedAt time.Time `gorm:"autoUpdateTime:false"`
	// domain.KeyHash of the request's Idempotency-Key; nil without one.
	IdemKey []byte
	// Hash of the request's method, path and body; nil without a key.
	IdemRequest []byte
	// The round of the pass of a waiting room; nil without one.
	EntryRound *uint32
}

func (orderRow) TableName() string { return "voucher_orders" }

func (r *orderRow) keyExpired(at time.Time) bool { return at.Sub(r.CreatedAt) >= domain.KeyLife }

func activeOrders(db *gorm.DB, userID, voucherID int64) *gorm.DB {
	return db.Model(&orderRow{}).Where("user_id = ? AND voucher_id = ? AND slot IS NOT NULL", userID, voucherID)
}

// Order implements service.OrderStore.
func (s *Store) Order(ctx context.Context, userID, id int64) (domain.Order, error) {
	row, err := takeOrder(s.db.Reader(ctx), userID, id)
	if err == nil {
		err = s.addOffers(s.db.Reader(ctx), &row.Order)
	}
	return row.Order, s.db.Translate(err)
}

func takeOrder(db *gorm.DB, userID, id int64) (orderRow, error) {
	if userID != 0 {
		db = db.Where("user_id = ?", userID)
	}
	var row orderRow
	err := db.Take(&row, id).Error
	return row, err
}

// ActiveOrders implements service.OrderStore.
func (s *Store) ActiveOrders(ctx context.Context, userID, voucherID int64) (int, int64, error) {
	var found struct {
		Count  int
		Newest int64
	}
	err := activeOrders(s.db.Reader(ctx), userID, voucherID).
		Select("COUNT(*) AS count, COALESCE(MAX(id), 0) AS newest").Scan(&found).Error
	return found.Count, found.Newest, s.db.Translate(err)
}

// Holders implements service.BuyerStore.
func (s *Store) Holders(ctx context.Context, voucherID int64, most int) ([]int64, error) {
	var users []int64
	err := s.db.Reader(ctx).Model(&orderRow{}).Where("voucher_id = ? AND status IN ?", voucherID, domain.ActiveStatuses()).
		Limit(most+1).Pluck("user_id", &users).Error
	if err == nil && len(users) > most {
		return nil, service.ErrTooMany
	}
	return users, s.db.Translate(err)
}

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
