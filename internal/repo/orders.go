package repo

import (
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/service"
)

// PlaceOrder implements service.OrderStore. The hot row comes last: its lock, for which every buyer of the
// voucher queues, is held for one statement and the commit.
func (s *Store) PlaceOrder(ctx context.Context, o service.Order, limit int) (service.Order, error) {
	row := newOrderRow(&o)
	err := s.write(ctx, func(tx *gorm.DB) error {
		if err := s.insertOrder(tx, &row, limit); err != nil {
			return err
		}
		return takeUnit(tx, row.VoucherID, o.CreatedAt)
	})
	err = s.settle(ctx, err, func(tx *gorm.DB) error {
		return tx.Where("id = ? AND user_id = ?", row.ID, row.UserID).Take(&orderRow{}).Error
	})
	if err != nil {
		return service.Order{}, err
	}
	return row.order(), nil
}

// insertOrder stores the row under the lowest slot that is free. The unique index decides between purchases that
// saw the same slot free; the loser looks for another, as often as there are slots.
func (s *Store) insertOrder(tx *gorm.DB, row *orderRow, limit int) error {
	for range limit {
		slot, err := freeSlot(tx, row, limit)
		if err != nil {
			return err
		}
		if slot > limit {
			break
		}
		row.Slot = &slot
		err = tx.Create(row).Error
		switch {
		case s.duplicate(err, primaryKey):
			return service.ErrIDTaken
		case !s.duplicate(err, ukUserVoucherSlot):
			return err
		}
	}
	return duplicateOrder(tx, row)
}

// freeSlot returns the lowest slot that no active order of the user has. With one slot there is nothing to look for.
func freeSlot(tx *gorm.DB, row *orderRow, limit int) (int, error) {
	slot := 1
	if limit == 1 {
		return slot, nil
	}
	var taken []int
	err := activeOrders(tx, row.UserID, row.VoucherID).Order("slot").Pluck("slot", &taken).Error
	for _, t := range taken {
		if t == slot {
			slot++
		}
	}
	return slot, err
}

// activeOrders selects the orders that hold a unit of the voucher for the user.
func activeOrders(db *gorm.DB, userID, voucherID int64) *gorm.DB {
	return db.Model(&orderRow{}).Where("user_id = ? AND voucher_id = ? AND slot IS NOT NULL", userID, voucherID)
}

// duplicateOrder names the order that is in the way.
func duplicateOrder(tx *gorm.DB, row *orderRow) error {
	var id int64
	if err := activeOrders(tx, row.UserID, row.VoucherID).Select("COALESCE(MAX(id), 0)").Scan(&id).Error; err != nil {
		return err
	}
	if id == 0 { // cancelled since the insert was refused: nothing is in the way any more
		return service.ErrOrderInProgress
	}
	return &service.DuplicateOrderError{OrderID: id}
}

// takeUnit deducts one unit. The condition, not a value read before, decides: of 100 units 100 sell.
func takeUnit(tx *gorm.DB, voucherID int64, at time.Time) error {
	res := tx.Model(&saleRow{}).Where("voucher_id = ? AND stock > 0", voucherID).
		Updates(map[string]any{"stock": gorm.Expr("stock - 1"), "updated_at": at})
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected == 0 {
		return service.ErrSoldOut
	}
	return nil
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
