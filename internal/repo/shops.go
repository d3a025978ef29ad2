package repo

import (
	"context"
	"math"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// Shop implements domain.ShopStore.
func (s *Store) Shop(ctx context.Context, id int64) (domain.Shop, error) {
	var row shopRow
	err := s.db.Reader(ctx).Take(&row, id).Error
	return row.shop(), s.db.Translate(err)
}

// ListShops implements domain.ShopStore.
func (s *Store) ListShops(ctx context.Context, f domain.ShopFilter) ([]domain.Shop, error) {
	order := clause.OrderBy{Expression: clause.Expr{SQL: "id"}}
	if f.Near != nil {
		order = nearest(*f.Near)
	}

	var rows []shopRow
	err := s.db.Reader(ctx).Where("type_id = ?", f.TypeID).Order(order).Offset(f.Skip).Limit(f.Limit).Find(&rows).Error
	if err != nil {
		return nil, s.db.Translate(err)
	}

	return shopsOf(rows), nil
}

// nearest orders by distance on a flat map, on which a degree of longitude has its length at this latitude. It needs
// only basic arithmetic, which SQLite has as well, and is inexact only for shops that are far away.
func nearest(p domain.Place) clause.OrderBy {
	shorter := math.Cos(p.Y * math.Pi / 180)
	return clause.OrderBy{Expression: clause.Expr{
		SQL:  "(x - ?) * (x - ?) * ? + (y - ?) * (y - ?), id",
		Vars: []any{p.X, p.X, shorter * shorter, p.Y, p.Y},
	}}
}

// Shops implements domain.ShopStore.
func (s *Store) Shops(ctx context.Context, p domain.Page) ([]domain.Shop, error) {
	q := s.db.Reader(ctx).Order("id DESC").Limit(p.Limit)
	if p.Before > 0 {
		q = q.Where("id < ?", p.Before)
	}
	var rows []shopRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, s.db.Translate(err)
	}
	return shopsOf(rows), nil
}

func shopsOf(rows []shopRow) []domain.Shop {
	shops := make([]domain.Shop, len(rows))
	for i := range rows {
		shops[i] = rows[i].shop()
	}
	return shops
}

// CreateShop implements domain.ShopStore.
func (s *Store) CreateShop(ctx context.Context, claim *domain.Claim, created *domain.Shop, by domain.Actor) error {
	err := writeOnce(ctx, s.db, claim, func(tx *gorm.DB) (int64, error) {
		row := newShopRow(created)
		if err := tx.Create(&row).Error; err != nil {
			return 0, err
		}

		created.ID = row.ID
		return row.ID, writeAudit(tx, domain.AuditEntry{
			At:     created.CreatedAt,
			Actor:  by,
			Action: domain.ActionCreateShop,
			Detail: new(domain.Shop).Changes(created),
		})
	})
	if id, done := domain.DoneBefore(err); done {
		*created, err = s.Shop(ctx, id)
	}

	return err
}

// ChangeShop implements domain.ShopStore.
func (s *Store) ChangeShop(
	ctx context.Context, id int64, by domain.Actor, at time.Time, change func(*domain.Shop) error,
) (domain.Shop, error) {
	var after domain.Shop
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		var row shopRow
		if err := tx.Clauses(sqldb.ForUpdate).Take(&row, id).Error; err != nil {
			return err
		}

		before := row.shop()
		after = before
		if err := change(&after); err != nil {
			return err
		}

		after.UpdatedAt = at
		row = newShopRow(&after)
		if err := tx.Select("*").Updates(&row).Error; err != nil {
			return err
		}

		return writeAudit(tx, domain.AuditEntry{
			At:     at,
			Actor:  by,
			Action: domain.ActionChangeShop,
			Detail: before.Changes(&after),
		})
	})

	return after, err
}
