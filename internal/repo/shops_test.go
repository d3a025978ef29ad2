package repo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// The nearest shops are those with the shortest distance on the ground, where a degree of longitude is shorter than one
// of latitude.
func TestListShops(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		here := domain.Place{X: 120, Y: 60}
		shop := func(name string, typ int64, x, y float64) domain.Shop {
			return domain.Shop{
				Name: name, TypeID: typ, X: x, Y: y, Images: "a.png,b.png", Area: "area", Address: "address", AvgPrice: 8000,
				Sold: 1, Comments: 2, Score: 47, OpenHours: "10:00-22:00", CreatedAt: now,
			}
		}
		shops := []domain.Shop{
			shop("north", 1, 120, 60.06), shop("east", 1, 120.1, 60), shop("here", 1, 120, 60), shop("other", 2, 120, 60),
			shop("too", 1, 120, 60), shop("west", 1, 119.87, 60),
		}
		for i := range shops {
			row := newShopRow(&shops[i])
			require.NoError(t, s.db.Writer(t.Context()).Create(&row).Error)
			shops[i].ID = row.ID
		}
		list := func(f domain.ShopFilter) (names []string) {
			found, err := s.ListShops(ctx, f)
			require.NoError(t, err)
			for i, shop := range found {
				names = append(names, shop.Name)
				if i > 0 && f.Near != nil {
					require.GreaterOrEqual(t, shop.Distance(here), found[i-1].Distance(here))
				}
			}
			return names
		}
		require.Equal(t, []string{"north", "east", "here", "too", "west"}, list(domain.ShopFilter{TypeID: 1, Limit: 9}))
		require.Equal(t, []string{"here", "too", "east", "north", "west"}, list(domain.ShopFilter{TypeID: 1, Limit: 9, Near: &here}))
		require.Equal(t, []string{"east", "north"}, list(domain.ShopFilter{TypeID: 1, Skip: 2, Limit: 2, Near: &here}))
		require.Empty(t, list(domain.ShopFilter{TypeID: 1, Skip: 5, Limit: 5}))
		require.Empty(t, list(domain.ShopFilter{TypeID: 3, Limit: 5}))

		one, err := s.Shop(ctx, shops[0].ID)
		require.NoError(t, err)
		require.Equal(t, shops[0], one)
		_, err = s.Shop(ctx, 999)
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

func TestListVouchersWithoutEndedSales(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		normal := domain.Voucher{
			ShopID: 1, Title: "n", Type: domain.VoucherNormal, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
		}
		require.NoError(t, s.CreateVoucher(t.Context(), nil, &normal, admin))
		sale := newSale(t, s, 5, 1)
		list := func(at time.Time, lasts bool) (ids []int64) {
			found, err := s.ListVouchers(t.Context(), domain.VoucherFilter{Lasts: lasts, Now: at, Page: domain.Page{Limit: 9}})
			require.NoError(t, err)
			for _, v := range found {
				ids = append(ids, v.ID)
			}
			return ids
		}
		require.Equal(t, []int64{sale.ID, normal.ID}, list(sale.Sale.BeginAt.Add(-time.Hour), true), "including a sale that has not begun")
		require.Equal(t, []int64{sale.ID, normal.ID}, list(sale.Sale.EndAt.Add(-time.Millisecond), true))
		require.Equal(t, []int64{normal.ID}, list(sale.Sale.EndAt, true))
		require.Equal(t, []int64{sale.ID, normal.ID}, list(sale.Sale.EndAt, false))
	})
}
