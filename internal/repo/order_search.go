package repo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/internal/service"
)

// FindOrders implements service.OrderStore. Each kind of search walks one index from its newest end, so a page costs the same
// with millions of orders as with a hundred. By time, at most the orders of the query's ids that were placed outside
// of it are skipped, and by status and time those of longestPayTimeout.
func (s *Store) FindOrders(ctx context.Context, q service.SearchQuery) ([]domain.Order, error) {
	var orders []domain.Order
	var err error
	reader := s.db.Reader(ctx)
	switch {
	case q.ID != 0:
		orders, err = find(reader.Model(&orderRow{}), q)
	case len(q.Users) > 0:
		// A user has few orders.
		orders, err = find(s.ordersByIndex(reader, sqldb.UKUserVoucherSlot), q)
	case len(q.Vouchers) > 0:
		orders, err = run(ctx, s.db.Snapshot, func(tx *gorm.DB) ([]domain.Order, error) { return s.findByVoucher(tx, q) })
	case q.Status != 0:
		orders, err = run(ctx, s.db.Snapshot, func(tx *gorm.DB) ([]domain.Order, error) { return s.findByStatus(tx, q) })
	default:
		orders, err = find(reader.Model(&orderRow{}), q)
	}

	if err != nil {
		return nil, s.db.Translate(err)
	}

	return orders, s.AddOffers(ctx, orders)
}

func find(tx *gorm.DB, q service.SearchQuery) ([]domain.Order, error) {
	tx = newest(within(tx, q), q.Page)
	if q.ID != 0 {
		tx = tx.Where("id = ?", q.ID)
	}
	if len(q.Users) > 0 {
		tx = tx.Where("user_id IN ?", q.Users)
	}
	if len(q.Vouchers) > 0 {
		tx = tx.Where("voucher_id IN ?", q.Vouchers)
	}
	if q.Status != 0 {
		tx = tx.Where("status = ?", q.Status)
	}

	var rows []domain.Order
	err := tx.Find(&rows).Error
	return rows, err
}

func within(tx *gorm.DB, q service.SearchQuery) *gorm.DB {
	if !q.From.IsZero() {
		tx = tx.Where("created_at >= ?", q.From)
	}
	if !q.To.IsZero() {
		tx = tx.Where("created_at < ?", q.To)
	}

	// Few orders.
	if len(q.Users) > 0 || q.ID != 0 {
		return tx
	}

	// The range of ids, which grow with the time, makes the database skip the others.
	if q.FirstID > 0 {
		tx = tx.Where("id >= ?", q.FirstID)
	}
	if q.LastID > 0 {
		tx = tx.Where("id < ?", q.LastID)
	}

	return tx
}

// findByVoucher reads the newest orders of each voucher and status and merges them: the index begins with voucher and
// status, followed by the id. Once there is a page, only newer orders are read.
func (s *Store) findByVoucher(tx *gorm.DB, q service.SearchQuery) ([]domain.Order, error) {
	statuses := allStatuses
	if q.Status != 0 {
		statuses = []domain.OrderStatus{q.Status}
	}

	one := q
	var rows []domain.Order
	for _, voucher := range q.Vouchers {
		for _, status := range statuses {
			one.Vouchers = []int64{voucher}
			one.Status = status
			some, err := find(s.ordersByIndex(tx, "idx_voucher_status"), one)
			if err != nil {
				return nil, err
			}

			rows = append(rows, some...)
			slices.SortFunc(rows, func(a, b domain.Order) int { return cmp.Compare(b.ID, a.ID) })
			rows = rows[:min(len(rows), q.Page.Limit)]
			if len(rows) == q.Page.Limit {
				one.FirstID = rows[len(rows)-1].ID
			}
		}
	}

	return rows, nil
}

// ordersByIndex selects orders by the named index. Without the name, MySQL and MariaDB sometimes choose to walk all orders
// from the newest, or to sort those of one status, which is fast only while there are few.
func (s *Store) ordersByIndex(tx *gorm.DB, index string) *gorm.DB {
	return tx.Session(&gorm.Session{}).Table("voucher_orders" + s.db.Syntax().ForceIndex(index))
}

// allStatuses are the statuses of stored orders.
var allStatuses = append([]domain.OrderStatus{domain.OrderCancelled, domain.OrderRefunded}, domain.ActiveStatuses()...)

// longestPayTimeout is the longest time between the placement of an order and its ExpiresAt: a day to pay, which begins with
// the commit if the order waited in the queue, during an outage of the database of at most another day.
const longestPayTimeout = 48 * time.Hour

// findByStatus sorts by the time until which an order must be paid, which is the second column of the index. The cursor
// is the id of an order, whose time is read first.
func (s *Store) findByStatus(tx *gorm.DB, q service.SearchQuery) ([]domain.Order, error) {
	found := s.ordersByIndex(tx, "idx_status_expires").Where("status = ?", q.Status).Order("expires_at DESC, id DESC").Limit(q.Page.Limit)
	if !q.From.IsZero() {
		found = found.Where("created_at >= ? AND expires_at >= ?", q.From, q.From)
	}
	if !q.To.IsZero() {
		found = found.Where("created_at < ? AND expires_at < ?", q.To, q.To.Add(longestPayTimeout))
	}

	if q.Page.Before > 0 {
		var last orderRow
		err := tx.Session(&gorm.Session{}).Take(&last, q.Page.Before).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return nil, domain.Invalid("cursor", "must be a next_cursor of this list")
		}
		if err != nil {
			return nil, err
		}

		found = found.Where("expires_at <= ? AND (expires_at < ? OR id < ?)", last.ExpiresAt, last.ExpiresAt, last.ID)
	}

	var rows []domain.Order
	err := found.Find(&rows).Error
	return rows, err
}

// OrderOfPayment implements service.SearchStore.
func (s *Store) OrderOfPayment(ctx context.Context, ref string) (int64, error) {
	var row paymentRow
	err := s.db.Reader(ctx).Select("order_id").Where("provider_ref = ?", ref).Take(&row).Error
	return row.OrderID, s.db.Translate(err)
}

// CountOrders implements service.SearchStore. With a million orders it takes seconds.
func (s *Store) CountOrders(ctx context.Context, voucherID int64, status domain.OrderStatus) (int64, int64, error) {
	var found struct{ Count, Amount int64 }
	err := s.db.LongSnapshot(ctx, func(tx *gorm.DB) error {
		return s.ordersByIndex(tx, "idx_voucher_status").Where("voucher_id = ? AND status = ?", voucherID, status).
			Select("COUNT(*) AS count, COALESCE(SUM(amount), 0) AS amount").Scan(&found).Error
	})
	return found.Count, found.Amount, err
}
