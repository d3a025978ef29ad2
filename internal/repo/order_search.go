package repo

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/service"
)

// FindOrders implements service.OrderFinder. Each kind of search walks one index from its newest end, so a page costs
// the same with millions of orders as with a hundred.
func (s *Store) FindOrders(ctx context.Context, f service.OrderSearch) ([]domain.Order, error) {
	var rows []orderRow
	err := s.db.Snapshot(ctx, func(tx *gorm.DB) (err error) {
		switch {
		case f.ID != 0 || f.UserID != 0: // a user has few orders
			rows, err = findByID(tx, f)
		case f.VoucherID != 0:
			rows, err = s.findByVoucher(tx, f)
		case f.Status != 0:
			rows, err = s.findByStatus(tx, f)
		default:
			rows, err = findByID(tx, f)
		}
		return err
	})
	orders := make([]domain.Order, len(rows))
	for i := range rows {
		orders[i] = rows[i].order()
	}
	return orders, s.db.Translate(err)
}

func findByID(tx *gorm.DB, f service.OrderSearch) (rows []orderRow, err error) {
	q := tx.Order("id DESC").Limit(f.Page.Limit)
	for column, value := range map[string]int64{
		"id": f.ID, "user_id": f.UserID, "voucher_id": f.VoucherID, "status": int64(f.Status),
	} {
		if value != 0 {
			q = q.Where(column+" = ?", value)
		}
	}
	if f.Page.Before > 0 {
		q = q.Where("id < ?", f.Page.Before)
	}
	return rows, q.Find(&rows).Error
}

// findByVoucher reads the newest orders of each status and merges them: the index begins with voucher and status,
// followed by the id.
func (s *Store) findByVoucher(tx *gorm.DB, f service.OrderSearch) (rows []orderRow, err error) {
	statuses := allStatuses
	if f.Status != 0 {
		statuses = []domain.OrderStatus{f.Status}
	}
	for _, status := range statuses {
		q := s.ordersByIndex(tx, "voucher_status").Where("voucher_id = ? AND status = ?", f.VoucherID, status).Order("id DESC").Limit(f.Page.Limit)
		if f.Page.Before > 0 {
			q = q.Where("id < ?", f.Page.Before)
		}
		var some []orderRow
		if err := q.Find(&some).Error; err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, func(a, b orderRow) int { return cmp.Compare(b.ID, a.ID) })
	return rows[:min(len(rows), f.Page.Limit)], nil
}

// ordersByIndex selects orders by the named index. Without the name, both databases sometimes choose to walk all orders
// from the newest, or to sort those of one status, which is fast only while there are few.
func (s *Store) ordersByIndex(tx *gorm.DB, index string) *gorm.DB {
	table := "voucher_orders INDEXED BY idx_orders_" + index
	if s.Dialect() == "mysql" {
		table = "voucher_orders FORCE INDEX (idx_" + index + ")"
	}
	return tx.Session(&gorm.Session{}).Table(table)
}

// allStatuses are the statuses of stored orders.
var allStatuses = append([]domain.OrderStatus{domain.OrderCancelled, domain.OrderRefunded}, domain.ActiveStatuses()...)

// findByStatus sorts by the time until which an order must be paid, which is the second column of the index. The cursor
// is the id of an order, whose time is read first.
func (s *Store) findByStatus(tx *gorm.DB, f service.OrderSearch) (rows []orderRow, err error) {
	q := s.ordersByIndex(tx, "status_expires").Where("status = ?", f.Status).Order("expires_at DESC, id DESC").Limit(f.Page.Limit)
	if f.Page.Before > 0 {
		var last orderRow
		err := tx.Session(&gorm.Session{}).Take(&last, f.Page.Before).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return nil, domain.Invalid("cursor", "must be a next_cursor of this list")
		}
		if err != nil {
			return nil, err
		}
		q = q.Where("expires_at <= ? AND (expires_at < ? OR id < ?)", last.ExpiresAt, last.ExpiresAt, last.ID)
	}
	return rows, q.Find(&rows).Error
}
