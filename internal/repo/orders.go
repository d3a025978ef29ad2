package repo

import (
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
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

// asPlaced returns the order as it was when it was placed, which is the answer to a repeated request.
func (r *orderRow) asPlaced() domain.Order {
	o := r.Order
	o.Status = domain.OrderPendingPayment
	o.PaidAt = nil
	o.RedeemedAt = nil
	o.CancelledAt = nil
	o.RefundedAt = nil
	o.Disputed = false
	return o
}

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

// ListOrders implements service.OrderStore.
func (s *Store) ListOrders(ctx context.Context, f domain.OrderFilter) ([]domain.Order, error) {
	q := newest(s.db.Reader(ctx).Model(&orderRow{}).Where("user_id = ?", f.UserID), f.Page)
	if f.Status != 0 {
		q = q.Where("status = ?", f.Status)
	}

	orders, err := list[domain.Order](s, q)
	if err != nil {
		return nil, err
	}

	return orders, s.AddOffers(ctx, orders)
}
