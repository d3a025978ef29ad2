package service

import (
	"context"

	"seckill/internal/domain"
)

// ShopStore reads shops. Errors: ErrNotFound, ErrUnavailable.
type ShopStore interface {
	Shop(ctx context.Context, id int64) (domain.Shop, error)
	ListShops(ctx context.Context, f domain.ShopFilter) ([]domain.Shop, error)
}
