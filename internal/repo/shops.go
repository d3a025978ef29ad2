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
	var shop domain.Shop
	err := s.db.Reader(ctx).Take(&shop, id).Error
	return shop, s.db.Translate(err)
}

// ListShops implements domain.ShopStore.
func (s *Store) ListShops(ctx context.Context, f domain.ShopFilter) ([]domain.Shop, error) {
	order := clause.OrderBy{Expression: clause.Expr{SQL: "id"}}
	if f.Near != nil {
		order = nearest(*f.Near)
	}

	return list[domain.Shop](s, s.db.Reader(ctx).Where("type_id = ?", f.TypeID).Order(order).Offset(f.Skip).Limit(f.Limit))
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
	return list[domain.Shop](s, newest(s.db.Reader(ctx), p))
}

// CreateShop implements domain.ShopStore.
func (s *Store) CreateShop(ctx context.Context, claim *domain.Claim, created *domain.Shop, by domain.Actor) error {
	return s.writeOnce(ctx, claim, readAgain(ctx, created, s.Shop), func(tx *gorm.DB) (int64, error) {
		row := *created
		if err := tx.Create(&row).Error; err != nil {
			return 0, err
		}

		created.ID = row.ID
		return row.ID, writeChange(tx, 0, domain.ActionCreateShop, by, created.CreatedAt, new(domain.Shop).Changes(created))
	})
}

// ChangeShop implements domain.ShopStore.
func (s *Store) ChangeShop(
	ctx context.Context, id int64, by domain.Actor, at time.Time, change func(*domain.Shop) error,
) (domain.Shop, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) (domain.Shop, error) {
		var before domain.Shop
		if err := tx.Clauses(sqldb.ForUpdate).Take(&before, id).Error; err != nil {
			return before, err
		}

		after := before
		if err := change(&after); err != nil {
			return after, err
		}

		after.UpdatedAt = at
		if err := tx.Select("*").Updates(&after).Error; err != nil {
			return after, err
		}

		return after, writeChange(tx, 0, domain.ActionChangeShop, by, at, before.Changes(&after))
	})
}
