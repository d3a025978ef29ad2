package repo

import (
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/service"
)

// activeOrders selects the orders that hold a unit of the voucher for the user.
func activeOrders(db *gorm.DB, userID, voucherID int64) *gorm.DB {
	return db.Model(&orderRow{}).Where("user_id = ? AND voucher_id = ? AND slot IS NOT NULL", userID, voucherID)
}

// CancelOrder implements service.OrderStore. Only the transaction that moves the status returns the unit.
func (s *Store) CancelOrder(ctx context.Context, userID, id int64, at time.Time) (service.Order, error) {
	var row orderRow
	err := s.write(ctx, func(tx *gorm.DB) error {
		row = orderRow{}
		if err := tx.Where("user_id = ?", userID).Take(&row, id).Error; err != nil {
			return err
		}
		res := tx.Model(&orderRow{}).Where("id = ? AND status = ?", id, service.OrderPendingPayment).
			Updates(map[string]any{"status": service.OrderCancelled, "slot": nil, "cancelled_at": at, "updated_at": at})
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return service.ErrInvalidState
		}
		row.Status, row.Slot, row.CancelledAt = int8(service.OrderCancelled), nil, &at
		return returnUnit(tx, row.VoucherID, at)
	})
	err = s.settle(ctx, err, func(tx *gorm.DB) error {
		return tx.Where("id = ? AND status = ? AND cancelled_at = ?", id, service.OrderCancelled, at).Take(&orderRow{}).Error
	})
	return row.order(), err
}

// returnUnit gives one unit back to the sale.
func returnUnit(tx *gorm.DB, voucherID int64, at time.Time) error {
	return tx.Model(&saleRow{}).Where("voucher_id = ?", voucherID).
		Updates(map[string]any{"stock": gorm.Expr("stock + 1"), "updated_at": at}).Error
}

// Order implements service.OrderStore.
func (s *Store) Order(ctx context.Context, userID, id int64) (service.Order, error) {
	var row orderRow
	err := s.r.WithContext(ctx).Where("user_id = ?", userID).Take(&row, id).Error
	return row.order(), s.translate(err)
}

// StoredOrders implements service.OrderStore.
func (s *Store) StoredOrders(ctx context.Context, userID int64, ids []int64) ([]int64, error) {
	var stored []int64
	err := s.r.WithContext(ctx).Model(&orderRow{}).Where("user_id = ? AND id IN ?", userID, ids).Pluck("id", &stored).Error
	return stored, s.translate(err)
}

// ActiveOrders implements service.OrderStore.
func (s *Store) ActiveOrders(ctx context.Context, userID, voucherID int64) (int, int64, error) {
	var found struct {
		Count  int
		Newest int64
	}
	err := activeOrders(s.r.WithContext(ctx), userID, voucherID).
		Select("COUNT(*) AS count, COALESCE(MAX(id), 0) AS newest").Scan(&found).Error
	return found.Count, found.Newest, s.translate(err)
}

// Holders implements service.HolderStore.
func (s *Store) Holders(ctx context.Context, voucherID int64, most int) ([]int64, error) {
	var users []int64
	err := s.r.WithContext(ctx).Model(&orderRow{}).Where("voucher_id = ? AND status IN ?", voucherID, activeStatuses).
		Limit(most+1).Pluck("user_id", &users).Error
	if err == nil && len(users) > most {
		return nil, service.ErrTooMany
	}
	return users, s.translate(err)
}

// activeStatuses are those of orders that hold a unit.
var activeStatuses = []service.OrderStatus{
	service.OrderPendingPayment, service.OrderPaid, service.OrderRedeemed, service.OrderRefunding,
}

// ListOrders implements service.OrderStore.
func (s *Store) ListOrders(ctx context.Context, f service.OrderFilter) ([]service.Order, error) {
	q := s.r.WithContext(ctx).Where("user_id = ?", f.UserID).Order("id DESC").Limit(f.Page.Limit)
	if f.Status != 0 {
		q = q.Where("status = ?", f.Status)
	}
	if f.Page.Before > 0 {
		q = q.Where("id < ?", f.Page.Before)
	}
	var rows []orderRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, s.translate(err)
	}
	orders := make([]service.Order, len(rows))
	for i := range rows {
		orders[i] = rows[i].order()
	}
	return orders, nil
}
