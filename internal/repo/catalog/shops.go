package catalog

import (
	"context"
	"math"

	"gorm.io/gorm/clause"

	"seckill/internal/shop"
)

// Shop implements shop.Store.
func (s *Store) Shop(ctx context.Context, id int64) (shop.Shop, error) {
	var row shopRow
	err := s.db.Reader(ctx).Take(&row, id).Error
	return row.shop(), s.db.Translate(err)
}

// ListShops implements shop.Store.
func (s *Store) ListShops(ctx context.Context, f shop.Filter) ([]shop.Shop, error) {
	order := clause.OrderBy{Expression: clause.Expr{SQL: "id"}}
	if f.Near != nil {
		order = nearest(*f.Near)
	}
	var rows []shopRow
	err := s.db.Reader(ctx).Where("type_id = ?", f.TypeID).Order(order).Offset(f.Skip).Limit(f.Limit).Find(&rows).Error
	if err != nil {
		return nil, s.db.Translate(err)
	}
	shops := make([]shop.Shop, len(rows))
	for i := range rows {
		shops[i] = rows[i].shop()
	}
	return shops, nil
}

// nearest orders by distance on a flat map, on which a degree of longitude has its length at this latitude. It needs
// only basic arithmetic, which SQLite has as well, and is inexact only for shops that are far away.
func nearest(p shop.Place) clause.OrderBy {
	shorter := math.Cos(p.Y * math.Pi / 180)
	return clause.OrderBy{Expression: clause.Expr{
		SQL:  "(x - ?) * (x - ?) * ? + (y - ?) * (y - ?), id",
		Vars: []any{p.X, p.X, shorter * shorter, p.Y, p.Y},
	}}
}
