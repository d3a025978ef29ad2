package repo

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// A purchase counts against its pass in the transaction of the order: each order once, however often it is delivered,
// and no purchase that was refused.
func TestOrdersCountAgainstPasses(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 4, 1)
		other := newSale(t, s, 9, 1)
		_, err := s.JoinRoom(ctx, v.ID, []domain.PlaceRequest{{UserID: 1, Lost: -1}})
		require.NoError(t, err)
		at := time.Now().UTC()
		for seq := range uint32(3) {
			e := domain.RoomEvent{VoucherID: v.ID, Seq: seq + 1, Kind: domain.RoomAdmitted, At: at, ExpiresAt: at.Add(time.Hour)}
			require.NoError(t, s.Admit(ctx, e))
		}
		bought := func() map[uint32]int {
			rooms, _, err := s.Rooms(ctx, map[int64]domain.RoomCursor{v.ID: {}})
			require.NoError(t, err)
			return rooms[0].Bought
		}
		place := func(id, user, voucher int64, round uint32) domain.NewOrder {
			return domain.NewOrder{Order: newOrder(id, user, voucher), Limit: 1, Round: round}
		}

		batch := []domain.NewOrder{
			place(1, 10, v.ID, 1),
			place(2, 11, v.ID, 3),
			place(3, 12, v.ID, 3),
			place(4, 13, other.ID, 0),
			place(5, 10, v.ID, 1), // the user has an active order
			place(6, 14, v.ID, 0), // an order without a pass
			place(7, 15, v.ID, 2), // sold out
		}
		for range 2 {
			s.PlaceOrders(ctx, batch)
			require.Equal(t, map[uint32]int{1: 1, 3: 2}, bought())
		}
		requireTotals(t, s, v.ID, 0, 4)
		records, err := s.SaleRecords(ctx, []domain.SaleUser{{UserID: 11, VoucherID: v.ID}, {UserID: 14, VoucherID: v.ID}})
		require.NoError(t, err)
		require.Equal(t, uint32(3), records[domain.SaleUser{UserID: 11, VoucherID: v.ID}].LastRound)
		require.Zero(t, records[domain.SaleUser{UserID: 14, VoucherID: v.ID}].LastRound)
	})
}

// A pass buys once, even if its purchases are sent at once to several servers, in a sale that allows more orders. The
// next pass buys another unit.
func TestPassBuysOnceWhateverTheLimit(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 20, 3)
		_, err := s.JoinRoom(ctx, v.ID, []domain.PlaceRequest{{UserID: 10, Lost: -1}})
		require.NoError(t, err)
		at := time.Now().UTC()
		for round := range uint32(3) {
			e := domain.RoomEvent{VoucherID: v.ID, Seq: round + 1, Kind: domain.RoomAdmitted, At: at, ExpiresAt: at.Add(time.Hour)}
			require.NoError(t, s.Admit(ctx, e))

			var wg sync.WaitGroup
			var mu sync.Mutex
			placed := map[bool]int{}
			for server := range int64(4) {
				wg.Go(func() {
					id := 100*int64(round+1) + 10*server
					results := s.PlaceOrders(ctx, []domain.NewOrder{
						{Order: newOrder(id, 10, v.ID), Limit: 3, Round: round + 1},
						{Order: newOrder(id+1, 10, v.ID), Limit: 3, Round: round + 1},
					})
					mu.Lock()
					defer mu.Unlock()
					for _, r := range results {
						placed[r.Err == nil]++
					}
				})
			}
			wg.Wait()
			require.Equal(t, map[bool]int{true: 1, false: 7}, placed)
		}
		rooms, _, err := s.Rooms(ctx, map[int64]domain.RoomCursor{v.ID: {}})
		require.NoError(t, err)
		require.Equal(t, map[uint32]int{1: 1, 2: 1, 3: 1}, rooms[0].Bought)
		requireTotals(t, s, v.ID, 17, 3)
	})
}
