package repo

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestOffers: an offer is stored once, whichever server stores it, and orders find it in the database.
func TestOffers(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		require.NoError(t, s.db.Writer(ctx).Exec("INSERT INTO shops (id, name, type_id, created_at, updated_at) VALUES (1, '桂花茶餐厅 🍜', 1, ?, ?)", now, now).Error)
		v := newSale(t, s, 9, 1)
		v.SubTitle, v.Rules, v.ActualValue = "  ", "Not on Sundays.\n𠮷", 300
		_, err := s.ChangeVoucher(ctx, v.ID, admin, func(stored *domain.Voucher) (string, error) {
			v.Sale = stored.Sale
			*stored = v
			return "", nil
		})
		require.NoError(t, err)
		loaded, err := s.Vouchers(ctx, []int64{v.ID})
		require.NoError(t, err)
		offer := loaded[0].Offer
		require.Equal(t, domain.NewOffer(&v, "桂花茶餐厅 🍜"), offer)

		// Many servers begin to sell at once.
		var servers sync.WaitGroup
		for range 8 {
			server := newStore(s.DB)
			for range 4 {
				servers.Go(func() {
					if err := server.KeepOffer(ctx, offer); err != nil {
						t.Error(err)
					}
				})
			}
		}
		servers.Wait()
		o := newOrder(1, 10, v.ID)
		o.OfferID, o.Offer = offer.ID, offer
		placed, err := placeOrder(ctx, s, o, 1)
		require.NoError(t, err)
		require.Same(t, offer, placed.Offer)
		v.Title, v.Rules = "another", ""
		later := domain.NewOffer(&v, "")
		require.NoError(t, s.KeepOffer(ctx, later))
		o = newOrder(2, 11, v.ID)
		o.OfferID = later.ID
		_, err = placeOrder(ctx, s, o, 1)
		require.NoError(t, err)
		_, err = placeOrder(ctx, s, newOrder(3, 12, v.ID), 1) // as an earlier release does
		require.NoError(t, err)

		reader := newStore(s.DB)
		orders, err := reader.ListOrders(ctx, domain.OrderFilter{UserID: 10, Page: domain.Page{Limit: 9}})
		require.NoError(t, err)
		require.Equal(t, offer, orders[0].Offer)
		unstored := []domain.Order{
			{ID: 3, VoucherID: v.ID}, {ID: 2, VoucherID: v.ID, OfferID: later.ID}, {ID: 1, VoucherID: v.ID, OfferID: offer.ID},
			{ID: 4, VoucherID: v.ID, OfferID: domain.OfferID{7}}, {ID: 5, VoucherID: v.ID + 1},
		}
		require.NoError(t, reader.AddOffers(ctx, unstored))
		require.Equal(t, []*domain.Offer{offer, later, offer, offer, nil}, []*domain.Offer{
			unstored[0].Offer, unstored[1].Offer, unstored[2].Offer, unstored[3].Offer, unstored[4].Offer,
		}, "an order without an offer, or with one that is gone, shows the voucher as it is")

		_, err = cancel(ctx, newStore(s.DB), 11, 2, now)
		require.NoError(t, err)
		stored, err := newStore(s.DB).Order(ctx, 11, 2)
		require.NoError(t, err)
		require.Equal(t, later, stored.Offer)
	})
}
