package repo

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/service"
)

// CreateVoucher implements service.VoucherStore.
func (s *Store) CreateVoucher(ctx context.Context, v *service.Voucher, by service.Actor) error {
	return s.writeOnce(ctx, func(tx *gorm.DB) (int64, error) {
		if err := insertVoucher(tx, v); err != nil {
			return 0, err
		}
		return v.ID, audit(tx, service.AuditEntry{At: v.CreatedAt, Actor: by, Action: service.ActionCreateVoucher, VoucherID: v.ID})
	})
}

// insertVoucher stores the voucher and its sale, and sets v.ID.
func insertVoucher(tx *gorm.DB, v *service.Voucher) error {
	row := newVoucherRow(v)
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	v.ID = row.ID
	if v.Sale == nil {
		return nil
	}
	return tx.Create(&saleRow{
		VoucherID: v.ID, InitialStock: v.Sale.InitialStock, Stock: v.Sale.Stock,
		BeginAt: v.Sale.BeginAt, EndAt: v.Sale.EndAt, LimitPerUser: v.Sale.LimitPerUser,
		CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	}).Error
}

// ChangeVoucher implements service.VoucherStore. It does not write the stock, which orders change concurrently.
func (s *Store) ChangeVoucher(
	ctx context.Context, id int64, by service.Actor, change func(*service.Voucher) (string, error),
) (service.Voucher, error) {
	var v service.Voucher
	err := s.write(ctx, func(tx *gorm.DB) error {
		var err error
		if v, err = findVoucher(tx.Clauses(forUpdate), id); err != nil {
			return err
		}
		detail, err := change(&v)
		if err != nil {
			return err
		}
		err = audit(tx, service.AuditEntry{
			At: v.UpdatedAt, Actor: by, Action: service.ActionChangeVoucher, VoucherID: id, Detail: detail,
		})
		if err != nil {
			return err
		}
		row := newVoucherRow(&v)
		if err := tx.Select("*").Updates(&row).Error; err != nil || v.Sale == nil {
			return err
		}
		return tx.Model(&saleRow{VoucherID: id}).Updates(map[string]any{
			"begin_at": v.Sale.BeginAt, "end_at": v.Sale.EndAt,
			"limit_per_user": v.Sale.LimitPerUser, "updated_at": v.UpdatedAt,
		}).Error
	})
	return v, err
}

// ChangeStock implements service.VoucherStore. The condition prevents the removal of units that active orders hold.
func (s *Store) ChangeStock(ctx context.Context, c service.StockChange) (service.Voucher, error) {
	var v service.Voucher
	err := s.writeOnce(ctx, func(tx *gorm.DB) (int64, error) {
		change := stockChangeRow{VoucherID: c.VoucherID, Delta: c.Delta, Reason: c.Reason, ActorID: c.By.ID, CreatedAt: c.At}
		if err := tx.Create(&change).Error; err != nil {
			return 0, err
		}
		err := audit(tx, service.AuditEntry{
			At: c.At, Actor: c.By, Action: service.ActionChangeStock, VoucherID: c.VoucherID,
			Detail: fmt.Sprintf("%+d: %s", c.Delta, c.Reason),
		})
		if err != nil {
			return 0, err
		}
		res := tx.Model(&saleRow{}).
			Where("voucher_id = ? AND stock + ? BETWEEN 0 AND ?", c.VoucherID, c.Delta, int64(service.MaxStock)).
			Updates(map[string]any{"stock": gorm.Expr("stock + ?", c.Delta), "updated_at": c.At})
		if res.Error != nil {
			return 0, res.Error
		}
		if v, err = findVoucher(tx, c.VoucherID); err == nil && res.RowsAffected == 0 {
			err = service.ErrInvalidState
		}
		return c.VoucherID, err
	})
	return v, err
}

// Voucher implements service.VoucherStore.
func (s *Store) Voucher(ctx context.Context, id int64) (service.Voucher, error) {
	v, err := findVoucher(s.readPool.WithContext(ctx), id)
	return v, s.translate(err)
}

// Vouchers implements service.SaleLoader.
func (s *Store) Vouchers(ctx context.Context, ids []int64) ([]service.Voucher, error) {
	var rows []voucherRow
	if err := s.readPool.WithContext(ctx).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, s.translate(err)
	}
	vouchers, err := s.withSales(ctx, rows)
	return vouchers, s.translate(err)
}

// NewestVouchers implements service.SaleLoader.
func (s *Store) NewestVouchers(ctx context.Context, most int) ([]service.Voucher, error) {
	var rows []voucherRow
	if err := s.readPool.WithContext(ctx).Order("id DESC").Limit(most).Find(&rows).Error; err != nil {
		return nil, s.translate(err)
	}
	vouchers, err := s.withSales(ctx, rows)
	return vouchers, s.translate(err)
}

func findVoucher(db *gorm.DB, id int64) (service.Voucher, error) {
	var row voucherRow
	// Each query needs a fresh session, because a *gorm.DB with clauses accumulates conditions.
	db = db.Session(&gorm.Session{})
	if err := db.Take(&row, id).Error; err != nil {
		return service.Voucher{}, err
	}
	if service.VoucherType(row.Type) == service.VoucherNormal {
		return row.voucher(nil), nil
	}
	var sale saleRow
	if err := db.Take(&sale, id).Error; err != nil {
		return service.Voucher{}, err
	}
	return row.voucher(&sale), nil
}

// ListVouchers implements service.VoucherStore.
func (s *Store) ListVouchers(ctx context.Context, f service.VoucherFilter) ([]service.Voucher, error) {
	q := s.readPool.WithContext(ctx).Model(&voucherRow{}).Select("vouchers.*").
		Joins("LEFT JOIN seckill_vouchers s ON s.voucher_id = vouchers.id").
		Order("vouchers.id DESC").Limit(f.Page.Limit)
	if f.Page.Before > 0 {
		q = q.Where("vouchers.id < ?", f.Page.Before)
	}
	if f.ShopID > 0 {
		q = q.Where("vouchers.shop_id = ?", f.ShopID)
	}
	switch {
	case f.Status != 0:
		q = q.Where("vouchers.status = ?", f.Status)
	case f.State != service.StateEnded: // a voucher that is off counts as ended
		q = q.Where("vouchers.status = ?", service.VoucherOn)
	}
	if f.Lasts {
		q = q.Where("s.voucher_id IS NULL OR s.end_at > ?", f.Now)
	}
	var rows []voucherRow
	if err := inState(q, f.State, f.Now).Find(&rows).Error; err != nil {
		return nil, s.translate(err)
	}
	vouchers, err := s.withSales(ctx, rows)
	return vouchers, s.translate(err)
}

// inState adds the condition of a sale state. It must match service.Voucher.State.
func inState(q *gorm.DB, state service.SaleState, now time.Time) *gorm.DB {
	switch state {
	case service.StateUpcoming:
		return q.Where("s.begin_at > ?", now)
	case service.StateOnSale:
		return q.Where("s.voucher_id IS NULL OR (s.begin_at <= ? AND s.end_at > ? AND s.stock > 0)", now, now)
	case service.StateSoldOut:
		return q.Where("s.begin_at <= ? AND s.end_at > ? AND s.stock = 0", now, now)
	case service.StateEnded:
		return q.Where("vouchers.status <> ? OR s.end_at <= ?", service.VoucherOn, now)
	}
	return q
}

// withSales converts the rows, reading their sales with one query.
func (s *Store) withSales(ctx context.Context, rows []voucherRow) ([]service.Voucher, error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	var sales []saleRow
	if len(ids) > 0 {
		if err := s.readPool.WithContext(ctx).Find(&sales, ids).Error; err != nil {
			return nil, err
		}
	}
	byID := make(map[int64]*saleRow, len(sales))
	for i := range sales {
		byID[sales[i].VoucherID] = &sales[i]
	}
	vouchers := make([]service.Voucher, len(rows))
	for i := range rows {
		vouchers[i] = rows[i].voucher(byID[rows[i].ID])
	}
	return vouchers, nil
}
