package repo

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

// A purchase counts against its pass in the transaction of the order: each order once, however often it is delivered,
// and no purchase that was refused.
func TestOrdersCountAgainstPasses(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 4, 1)
		other := newSale(t, s, 9, 1)
		env.Must(s.JoinRoom(ctx, v.ID, []domain.PlaceRequest{{UserID: 1, Lost: -1}}))(t)
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
		records := env.Must(s.SaleRecords(ctx, []domain.SaleUser{{UserID: 11, VoucherID: v.ID}, {UserID: 14, VoucherID: v.ID}}))(t)
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
		env.Must(s.JoinRoom(ctx, v.ID, []domain.PlaceRequest{{UserID: 10, Lost: -1}}))(t)
		at := time.Now().UTC()
		for round := range uint32(3) {
			e := domain.RoomEvent{VoucherID: v.ID, Seq: round + 1, Kind: domain.RoomAdmitted, At: at, ExpiresAt: at.Add(time.Hour)}
			require.NoError(t, s.Admit(ctx, e))

			var placed atomic.Int64
			allAtOnce(t, 4, func(server int) error {
				id := 100*int64(round+1) + 10*int64(server)
				for _, p := range s.PlaceOrders(ctx, []domain.NewOrder{
					passOrder(round+1, id, 10, v.ID, 3), passOrder(round+1, id+1, 10, v.ID, 3),
				}) {
					if p.Err == nil {
						placed.Add(1)
					}
				}
				return nil
			})
			require.EqualValues(t, 1, placed.Load())
		}
		rooms, _, err := s.Rooms(ctx, map[int64]domain.RoomCursor{v.ID: {}})
		require.NoError(t, err)
		require.Equal(t, map[uint32]int{1: 1, 2: 1, 3: 1}, rooms[0].Bought)
		requireTotals(t, s, v.ID, 17, 3)
	})
}

func passOrder(round uint32, id, user, voucher int64, limit int) domain.NewOrder {
	return domain.NewOrder{Order: newOrder(id, user, voucher), Limit: limit, Round: round}
}

// The pass of an ended order does not buy again, whatever its batch, and neither does an earlier one. The same request
// and the same order are repeated all the same.
func TestPassOfEndedOrderBuysNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		expired := domain.ErrPassExpired.Error()
		for _, limit := range []int{1, 3} {
			v, other := newSale(t, s, 20, limit), newSale(t, s, 20, limit)
			at := v.ID * 1000
			user := v.ID * 10
			keyed := func(id int64) domain.NewOrder {
				o := keyedOrder(at+id, user, v.ID, limit, "k", "a")
				o.Round = 2
				return o
			}
			first := []domain.NewOrder{keyed(1), passOrder(2, at+2, user+1, v.ID, limit)}
			require.Equal(t, []string{fmt.Sprint("order ", at+1), fmt.Sprint("order ", at+2)}, keyedOutcomes(s.PlaceOrders(ctx, first)))
			for i := range int64(2) {
				env.Must(cancel(ctx, s, user+i, at+1+i, now))(t)
			}

			require.Equal(t, []string{
				fmt.Sprint("again order ", at+1), expired, expired, expired, fmt.Sprint("order ", at+14), fmt.Sprint("order ", at+15),
				fmt.Sprint("order ", at+16), fmt.Sprint("order ", at+17),
			}, keyedOutcomes(s.PlaceOrders(ctx, []domain.NewOrder{
				keyed(10),
				passOrder(2, at+11, user, v.ID, limit),
				passOrder(1, at+12, user, v.ID, limit),
				passOrder(2, at+13, user+1, v.ID, limit),
				passOrder(3, at+14, user+1, v.ID, limit),
				passOrder(2, at+15, user, other.ID, limit),
				passOrder(1, at+16, user+2, v.ID, limit),
				{Order: newOrder(at+17, user, v.ID), Limit: limit},
			})))
			requireTotals(t, s, v.ID, 17, 3)

			placed := s.PlaceOrders(ctx, first)
			require.Equal(t, []string{fmt.Sprint("order ", at+1), fmt.Sprint("order ", at+2)}, keyedOutcomes(placed))
			require.True(t, placed[0].Before && placed[1].Before, "delivered again")
			requireTotals(t, s, v.ID, 17, 3)
		}
	})
}

// passRace is a purchase during which another server buys with the same pass. The user holds the slots 1 and 2, and the
// purchase takes slot 3. Slot 1 becomes free meanwhile, and the other order takes it: no index refuses one of the two, and
// slot 2 keeps their locks apart.
type passRace struct {
	t               *testing.T
	s               *Store
	voucher         int64
	earlier         []domain.NewOrder
	purchase, other domain.NewOrder
}

func newPassRace(t *testing.T, s *Store) *passRace {
	v := newSale(t, s, 20, 3)
	at := v.ID * 10
	r := &passRace{
		t: t, s: s, voucher: v.ID,
		earlier:  []domain.NewOrder{passOrder(1, at+1, at, v.ID, 3), passOrder(2, at+2, at, v.ID, 3)},
		purchase: passOrder(3, at+3, at, v.ID, 3),
		other:    passOrder(3, at+4, at, v.ID, 3),
	}
	for _, placed := range s.PlaceOrders(t.Context(), r.earlier) {
		require.NoError(t, placed.Err)
	}
	return r
}

func (r *passRace) place(o domain.NewOrder) domain.Placed {
	return r.s.PlaceOrders(r.t.Context(), []domain.NewOrder{o})[0]
}

func (r *passRace) end(o domain.NewOrder) {
	env.Must(cancel(r.t.Context(), r.s, o.UserID, o.ID, now))(r.t)
}

func (r *passRace) usePass() {
	r.end(r.earlier[0])
	placed := r.place(r.other)
	require.NoError(r.t, placed.Err)
	require.Equal(r.t, 1, placed.Order.Slot)
}

// A pass is used while a purchase with it is under way. The purchase buys nothing, wherever in its transaction that
// happens, and whether the other order has ended or not.
func TestPassIsUsedDuringPurchase(t *testing.T) {
	env.OnEachServer(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), env.Inject(db)
		for _, ended := range []bool{false, true} {
			// After the read of the user's orders, and before the lock of the stock.
			for _, statement := range []string{"INSERT INTO voucher_orders", "UPDATE `seckill_vouchers`"} {
				r := newPassRace(t, s)
				faults.Before(func(query string) error {
					if strings.HasPrefix(query, statement) {
						faults.Before(nil)
						r.usePass()
						if ended {
							r.end(r.other)
						}
					}
					return nil
				})

				placed := r.place(r.purchase)
				if ended {
					require.ErrorIs(t, placed.Err, domain.ErrPassExpired, statement)
					requireTotals(t, s, r.voucher, 19, 1)
					continue
				}
				require.EqualError(t, placed.Err, duplicateOf(r.other.ID), statement)
				requireTotals(t, s, r.voucher, 18, 2)
			}
		}
	})
}

// A pass is used by a purchase that waits for the stock of the sale, which another purchase with the pass has locked. The
// one that waits buys nothing.
func TestPassIsUsedWhilePurchaseWaits(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		r := newPassRace(t, s)
		waiting := make(chan domain.Placed, 1)
		step := 0
		r.purchase.Fence = &losingContext{Context: t.Context(), lose: func() {
			switch step++; step {
			case 1:
				// Before the insert.
				r.end(r.earlier[0])
			case 2:
				// At the end of the transaction.
				go func() { waiting <- r.place(r.other) }()
				env.RequireBlocked(t, s.db, "seckill_vouchers")
			}
		}}
		require.NoError(t, r.place(r.purchase).Err)
		require.EqualError(t, (<-waiting).Err, duplicateOf(r.purchase.ID))
		requireTotals(t, s, r.voucher, 18, 2)
	})
}

// A group commit of a sale without passes executes two statements, and passes cost two more: the check of the passes and
// their count.
func TestStatementsOfGroupCommit(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), env.Inject(db)
		v := newSale(t, s, 20, 1)
		for withPass, statements := range []int{2, 4} {
			var orders []domain.NewOrder
			for i := range 5 {
				id := int64(1 + 10*withPass + i)
				orders = append(orders, passOrder(uint32(withPass*(i+1)), id, id, v.ID, 1))
			}

			executed := -1 // without BEGIN
			faults.Before(func(string) error { executed++; return nil })
			for _, placed := range s.PlaceOrders(t.Context(), orders) {
				require.NoError(t, placed.Err)
			}
			require.Equal(t, statements, executed)
			faults.Before(nil)
		}
		requireTotals(t, s, v.ID, 10, 10)
	})
}
