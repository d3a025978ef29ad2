package repo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/dbtest"
)

// The nearest shops are those with the shortest distance on the ground, where a degree of longitude is shorter than one
// of latitude.
func TestListShops(t *testing.T) {
	dbtest.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s := newStore(db)
		ctx := t.Context()
		here := domain.Place{X: 120, Y: 60}
		newShop := func(name string, typ int64, x, y float64) domain.Shop {
			return domain.Shop{
				Name: name, TypeID: typ, X: x, Y: y, Images: "a.png,b.png", Area: "area", Address: "address", AvgPrice: 8000,
				Sold: 1, Comments: 2, Score: 47, OpenHours: "10:00-22:00", CreatedAt: time.Date(2026, 11, 11, 12, 0, 0, 123e6, time.UTC), UpdatedAt: time.Date(2026, 11, 11, 12, 0, 0, 123e6, time.UTC),
			}
		}
		shops := []domain.Shop{
			newShop("north", 1, 120, 60.06), newShop("east", 1, 120.1, 60), newShop("here", 1, 120, 60), newShop("other", 2, 120, 60),
			newShop("too", 1, 120, 60), newShop("west", 1, 119.87, 60),
		}
		for i := range shops {
			row := newShopRow(&shops[i])
			require.NoError(t, s.db.Writer(t.Context()).Create(&row).Error)
			shops[i].ID = row.ID
		}
		list := func(f domain.ShopFilter) (names []string) {
			found, err := s.ListShops(ctx, f)
			require.NoError(t, err)
			for i, one := range found {
				names = append(names, one.Name)
				if i > 0 && f.Near != nil {
					require.GreaterOrEqual(t, one.Distance(here), found[i-1].Distance(here))
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
