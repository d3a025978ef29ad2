package repo

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// CreateVoucher implements service.VoucherStore.
func (s *Store) CreateVoucher(ctx context.Context, claim *domain.Claim, v *domain.Voucher, by domain.Actor) error {
	return s.writeOnce(ctx, claim, readAgain(ctx, v, s.Voucher), func(tx *gorm.DB) (int64, error) {
		if err := requireImage(tx, v.ImageID); err != nil {
			return 0, err
		}
		if err := insertVoucher(tx, v); err != nil {
			return 0, err
		}

		return v.ID, writeChange(tx, v.ID, domain.ActionCreateVoucher, by, v.CreatedAt, "")
	})
}

func insertVoucher(tx *gorm.DB, v *domain.Voucher) error {
	row := voucherRow{Voucher: *v}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}

	v.ID = row.ID
	if v.Sale == nil {
		return nil
	}

	v.Sale.ChangedAt = v.UpdatedAt
	sale := newSaleRow(v.ID, v.Sale)
	sale.CreatedAt = v.CreatedAt
	return tx.Create(&sale).Error
}

// checkDraw returns domain.ErrRoomDrawn if the sale has a waiting room whose draw forbids the change. It locks the room,
// so that it cannot start meanwhile, but only for a change that matters: purchases wait for the transaction.
func (s *Store) checkDraw(tx *gorm.DB, voucherID int64, before, after *domain.Sale) error {
	sameWindow := after.BeginAt.Equal(before.BeginAt) && after.EndAt.Equal(before.EndAt)
	if sameWindow && after.Entry.Mode == before.Entry.Mode {
		return nil
	}

	var room struct{ StartedAt *time.Time }
	err := tx.Table("rooms").Clauses(sqldb.ForUpdate).Where("voucher_id = ?", voucherID).Select("started_at").Scan(&room).Error
	if err != nil || room.StartedAt == nil {
		return err
	}

	now, err := s.db.Now(tx)
	if err != nil {
		return err
	}

	return domain.CheckDrawn(*room.StartedAt, before, after, now)
}

// ChangeVoucher implements service.VoucherStore. It does not write the stock, which orders change concurrently.
func (s *Store) ChangeVoucher(
	ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) (domain.Voucher, error) {
		return s.changeVoucher(tx, id, domain.ActionChangeVoucher, by, change)
	})
}

func (s *Store) changeVoucher(
	tx *gorm.DB, id int64, action string, by domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	v, err := findVoucher(tx.Clauses(sqldb.ForUpdate), id)
	if err != nil {
		return v, err
	}

	before := v.Copy()

	detail, err := change(&v)
	if err == nil && v.ImageID != before.ImageID {
		err = requireImage(tx, v.ImageID)
	}
	if err == nil && before.Sale != nil {
		err = s.checkDraw(tx, id, before.Sale, v.Sale)
	}

	if err != nil {
		return v, err
	}

	err = writeChange(tx, id, action, by, v.UpdatedAt, detail)
	if err != nil {
		return v, err
	}

	row := voucherRow{Voucher: v}
	if err := tx.Select("*").Updates(&row).Error; err != nil || v.Sale == nil {
		return v, err
	}

	v.Sale.ChangedAt = v.UpdatedAt
	sale := newSaleRow(id, v.Sale)
	if before.Sale == nil {
		return v, tx.Create(&sale).Error
	}

	return v, tx.Select("*").Omit("initial_stock", "stock", "created_at").Updates(&sale).Error
}

// DeleteDraft implements service.VoucherStore. A voucher has no orders until it is published, but other programs insert them.
func (s *Store) DeleteDraft(ctx context.Context, id int64, by domain.Actor, at time.Time) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		v, err := findVoucher(tx.Clauses(sqldb.ForUpdate), id)
		if err != nil {
			return err
		}

		var orders []orderRow
		if err := tx.Select("id").Where("voucher_id = ?", id).Limit(1).Find(&orders).Error; err != nil {
			return err
		}
		if v.Status != domain.VoucherDraft || len(orders) > 0 {
			return domain.ErrInvalidState
		}

		err = writeChange(tx, id, domain.ActionDeleteVoucher, by, at, v.Title)
		if err != nil {
			return err
		}

		for _, row := range []any{&stockChangeRow{}, &saleRow{}} {
			if err := tx.Where("voucher_id = ?", id).Delete(row).Error; err != nil {
				return err
			}
		}

		return tx.Delete(&voucherRow{}, id).Error
	})
}

// ChangeStock implements service.VoucherStore. The condition prevents the removal of units that active orders hold.
func (s *Store) ChangeStock(ctx context.Context, c domain.StockChange) (domain.Voucher, error) {
	var v domain.Voucher
	err := s.writeOnce(ctx, c.Claim, readAgain(ctx, &v, s.Voucher), func(tx *gorm.DB) (int64, error) {
		change := stockChangeRow{
			VoucherID: c.VoucherID,
			Delta:     c.Delta,
			Reason:    c.Reason,
			ActorID:   c.By.ID,
			CreatedAt: c.At,
		}
		if err := tx.Create(&change).Error; err != nil {
			return 0, err
		}

		err := writeChange(tx, c.VoucherID, domain.ActionChangeStock, c.By, c.At, fmt.Sprintf("%+d: %s", c.Delta, c.Reason))
		if err != nil {
			return 0, err
		}

		res := tx.Model(&saleRow{}).
			Where("voucher_id = ? AND stock + ? BETWEEN 0 AND ?", c.VoucherID, c.Delta, int64(domain.MaxStock)).
			Updates(map[string]any{"stock": gorm.Expr("stock + ?", c.Delta), "updated_at": c.At})
		if res.Error != nil {
			return 0, res.Error
		}

		if v, err = findVoucher(tx, c.VoucherID); err == nil && res.RowsAffected == 0 {
			err = domain.ErrInvalidState
		}

		return c.VoucherID, err
	})

	return v, err
}

// ChangeRoom implements service.VoucherStore.
func (s *Store) ChangeRoom(
	ctx context.Context, claim *domain.Claim, id int64, by domain.Actor, at time.Time, ch domain.RoomChange,
) (domain.Voucher, error) {
	action := domain.ActionChangeRoom
	if ch.Revoke {
		action = domain.ActionRevokePasses
	}

	var v domain.Voucher
	err := s.writeOnce(ctx, claim, readAgain(ctx, &v, s.Voucher), func(tx *gorm.DB) (int64, error) {
		var err error
		v, err = s.changeVoucher(tx, id, action, by, func(v *domain.Voucher) (string, error) {
			if v.Sale == nil {
				return "", domain.ErrInvalidState
			}

			before := v.Sale.Entry
			v.UpdatedAt = at
			err := ch.Apply(&v.Sale.Entry)
			return before.Changes(v.Sale.Entry), err
		})

		return id, err
	})

	return v, err
}

// Voucher implements service.VoucherStore.
func (s *Store) Voucher(ctx context.Context, id int64) (domain.Voucher, error) {
	return run(ctx, s.db.Snapshot, func(tx *gorm.DB) (domain.Voucher, error) { return findVoucher(tx, id) })
}

// Vouchers implements service.SaleLoader.
func (s *Store) Vouchers(ctx context.Context, ids []int64) ([]domain.Voucher, error) {
	return run(ctx, s.db.Snapshot, func(tx *gorm.DB) ([]domain.Voucher, error) {
		vouchers, err := withSales(tx, withShops(tx, ids))
		if err != nil {
			return nil, err
		}
		return vouchers, markEndedUnpaid(tx, vouchers)
	})
}

func withShops(tx *gorm.DB, ids []int64) *gorm.DB {
	return tx.Model(&voucherRow{}).Select("vouchers.*, COALESCE(shops.name, '') AS shop_name").
		Joins("LEFT JOIN shops ON shops.id = vouchers.shop_id").Where("vouchers.id IN ?", ids)
}

func presentOffers(db *gorm.DB, vouchers []int64) (map[int64]*domain.Offer, error) {
	var rows []voucherRow
	err := withShops(db.Session(&gorm.Session{}), vouchers).Find(&rows).Error
	return mapped(rows, func(r *voucherRow) (int64, *domain.Offer) { return r.ID, r.voucher(nil).Offer }), err
}

// markEndedUnpaid sets Sale.EndedUnpaid of the sales that limit unpaid orders. It is read with the stock, so that a snapshot
// with a unit that an unpaid order has returned also has the mark. Sales without a limit cost nothing.
func markEndedUnpaid(tx *gorm.DB, vouchers []domain.Voucher) error {
	limited := map[int64]*domain.Sale{}
	for i := range vouchers {
		if sale := vouchers[i].Sale; sale != nil && sale.MaxUnpaid() > 0 {
			limited[vouchers[i].ID] = sale
		}
	}

	if len(limited) == 0 {
		return nil
	}

	// A scalar subquery, because it ends at the first order of a sale: an optimizer may turn EXISTS into a join that
	// reads all of them.
	const query = `SELECT s.voucher_id, (SELECT 1 FROM voucher_orders o WHERE o.voucher_id = s.voucher_id AND o.status = ? LIMIT 1) AS ended
		FROM seckill_vouchers s WHERE s.voucher_id IN ?`

	var rows []struct {
		VoucherID int64
		Ended     *int
	}

	err := tx.Raw(query, domain.OrderCancelled, slices.Collect(maps.Keys(limited))).Scan(&rows).Error
	for _, r := range rows {
		limited[r.VoucherID].EndedUnpaid = r.Ended != nil
	}

	return err
}

// NewestVouchers implements service.SaleLoader.
func (s *Store) NewestVouchers(ctx context.Context, most int) ([]domain.Voucher, error) {
	return run(ctx, s.db.Snapshot, func(tx *gorm.DB) ([]domain.Voucher, error) {
		return withSales(tx, tx.Order("id DESC").Limit(most))
	})
}

func findVoucher(db *gorm.DB, id int64) (domain.Voucher, error) {
	// Each query needs a fresh session, because a *gorm.DB with clauses accumulates conditions.
	db = db.Session(&gorm.Session{})
	found, err := withSales(db, db.Where("id = ?", id))
	if err == nil && len(found) == 0 {
		err = gorm.ErrRecordNotFound
	}
	if err != nil {
		return domain.Voucher{}, err
	}

	return found[0], nil
}

// ListVouchers implements service.VoucherStore.
func (s *Store) ListVouchers(ctx context.Context, f domain.VoucherFilter) ([]domain.Voucher, error) {
	return run(ctx, s.db.Snapshot, func(tx *gorm.DB) ([]domain.Voucher, error) { return withSales(tx, selected(tx, f)) })
}

func selected(tx *gorm.DB, f domain.VoucherFilter) *gorm.DB {
	q := tx.Model(&voucherRow{}).Select("vouchers.*").
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
	case f.State == domain.StateEnded:
		// An expired voucher counts as ended.
		q = q.Where("vouchers.status IN ?", []domain.VoucherStatus{domain.VoucherOn, domain.VoucherExpired})
	default:
		q = q.Where("vouchers.status = ?", domain.VoucherOn)
	}

	if f.Lasts {
		q = q.Where("s.voucher_id IS NULL OR s.end_at > ?", f.Now)
	}

	return inState(q, f.State, f.Now)
}

const (
	// searchedTitles bounds the vouchers that a search by title reads, and titlesAtOnce those of one query.
	searchedTitles = 10_000
	titlesAtOnce   = 1000
)

// VouchersByTitle implements service.SearchStore. It searches the newest vouchers only, and not in SQL: the collations of the
// databases differ, and some find every emoji for each.
func (s *Store) VouchersByTitle(ctx context.Context, text string, most int) ([]int64, error) {
	contains := domain.Finder(text)
	var ids []int64
	before := int64(math.MaxInt64)
	for range searchedTitles / titlesAtOnce {
		var rows []voucherRow
		err := s.db.Reader(ctx).Select("id", "title").Where("id < ?", before).Order("id DESC").Limit(titlesAtOnce).Find(&rows).Error
		if err != nil {
			return nil, s.db.Translate(err)
		}

		for i := range rows {
			before = rows[i].ID
			if !contains(rows[i].Title) {
				continue
			}

			ids = append(ids, before)
			if len(ids) == most {
				return ids, nil
			}
		}

		if len(rows) < titlesAtOnce {
			break
		}
	}

	return ids, nil
}

// inState adds the condition of a sale state. It must match domain.Voucher.State.
func inState(q *gorm.DB, state domain.SaleState, now time.Time) *gorm.DB {
	switch state {
	case domain.StateUpcoming:
		return q.Where("s.begin_at > ?", now)
	case domain.StateOnSale:
		return q.Where("s.voucher_id IS NULL OR (s.begin_at <= ? AND s.end_at > ? AND s.stock > 0)", now, now)
	case domain.StateSoldOut:
		return q.Where("s.begin_at <= ? AND s.end_at > ? AND s.stock = 0", now, now)
	case domain.StateEnded:
		return q.Where("vouchers.status <> ? OR s.end_at <= ?", domain.VoucherOn, now)
	}

	return q
}

// withSales reads the vouchers that a query selects, and their sales with another one of the same session. Both must see the
// same state: a change of a price and of a time to pay takes effect at once.
func withSales(db, selected *gorm.DB) ([]domain.Voucher, error) {
	var rows []voucherRow
	if err := selected.Find(&rows).Error; err != nil {
		return nil, err
	}

	var sales []*saleRow
	if len(rows) > 0 {
		ids := column(rows, func(r *voucherRow) int64 { return r.ID })
		if err := db.Select(saleColumns).Find(&sales, ids).Error; err != nil {
			return nil, err
		}
	}

	byID := byKey(sales, func(s **saleRow) int64 { return (*s).VoucherID })
	return column(rows, func(r *voucherRow) domain.Voucher { return r.voucher(byID[r.ID]) }), nil
}
