package repo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

// onEachWithSale runs a test on every database, with the sale of voucher 1.
func onEachWithSale(t *testing.T, fn func(t *testing.T, s *Store)) {
	onEachSale(t, 9, 1, func(t *testing.T, s *Store, _ domain.Voucher) { fn(t, s) })
}

func databaseTime(t *testing.T, s *Store) time.Time {
	t.Helper()
	return env.Must(s.db.Now(s.db.Writer(t.Context())))(t)
}

func room(t *testing.T, s *Store, after uint32) domain.Room {
	t.Helper()
	rooms, at, err := s.Rooms(t.Context(), map[int64]domain.RoomCursor{1: {Applied: after}, 3: {}})
	require.NoError(t, err)
	require.WithinDuration(t, databaseTime(t, s), at, time.Minute)
	return env.Only(t, rooms, "voucher 3 has no room")
}

// Numbers are dense and unique, and a user has one place, however many servers join users at once.
func TestJoinRoom(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		rooms, _, err := s.Rooms(t.Context(), map[int64]domain.RoomCursor{1: {}})
		require.NoError(t, err)
		require.Empty(t, rooms)
		const users, servers = 40, 4
		var mu sync.Mutex
		places := map[int64]uint32{}
		allAtOnce(t, servers, func(int) error {
			for _, i := range rand.Perm(users) {
				batch := []domain.PlaceRequest{{UserID: int64(i) + 1, Lost: -1}, {UserID: int64(i)/2 + 1, Lost: -1}, {UserID: int64(i) + 1, Lost: -1}}
				numbers, err := s.JoinRoom(t.Context(), 1, batch)
				if err != nil {
					return err
				}
				mu.Lock()
				for j, n := range numbers {
					if had, ok := places[batch[j].UserID]; ok && had != n {
						t.Errorf("user %d has the places %d and %d", batch[j].UserID, had, n)
					}
					places[batch[j].UserID] = n
				}
				mu.Unlock()
			}
			return nil
		})
		taken := map[uint32]bool{}
		for _, n := range places {
			require.Less(t, n, uint32(users))
			taken[n] = true
		}
		require.Len(t, taken, users)
		require.Equal(t, domain.Room{VoucherID: 1, Joined: users, Stock: 9, Bought: map[uint32]int{}}, room(t, s, 0))
	})
}

// A room does not start before its sale, even if a server believes so: the sale may have been postponed a moment ago. Buyers
// who joined before the start are in the lobby. A buyer who joins during the start comes after them.
func TestStartRoom(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		join(t, s, 30, -1)
		damage(t, s, "UPDATE seckill_vouchers SET begin_at = ?", time.Now().UTC().Add(time.Hour))
		require.NoError(t, s.StartRoom(t.Context(), 1, [32]byte{7}))
		require.Zero(t, room(t, s, 0).StartedAt)

		damage(t, s, "UPDATE seckill_vouchers SET begin_at = ?", time.Now().UTC().Add(-time.Hour))
		allAtOnce(t, 9, func(user int) error {
			_, err := s.JoinRoom(t.Context(), 1, []domain.PlaceRequest{{UserID: int64(user), Lost: -1}})
			if user%3 == 1 {
				err = errors.Join(err, s.StartRoom(t.Context(), 1, [32]byte{byte(user)}))
			}
			return err
		})
		r := room(t, s, 0)
		require.Equal(t, uint32(10), r.Joined)
		require.Positive(t, r.Size)
		require.Contains(t, []byte{1, 4, 7}, r.Seed[0])
		require.WithinDuration(t, databaseTime(t, s), r.StartedAt, time.Minute)
		require.NoError(t, s.StartRoom(t.Context(), 1, [32]byte{99}))
		require.Equal(t, r, room(t, s, 0), "a second start changes nothing")
	})
}

// A heartbeat after a silence stores one event, whichever server is the first. Before the start there is none.
func TestRoomHeartbeat(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		join(t, s, 10, -1)
		require.Zero(t, room(t, s, 0).Heartbeat)
		require.NoError(t, s.StartRoom(t.Context(), 1, [32]byte{}))
		r := room(t, s, 0)
		require.Equal(t, r.StartedAt, r.Heartbeat)
		require.NoError(t, s.Heartbeat(t.Context(), 1))
		require.Empty(t, room(t, s, 0).Events)

		last := r.StartedAt.Add(-time.Minute)
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE rooms SET heartbeat_at = ?", last).Error)
		allAtOnce(t, 4, func(int) error { return s.Heartbeat(t.Context(), 1) })
		r = room(t, s, 0)
		require.WithinDuration(t, databaseTime(t, s), r.Heartbeat, domain.RoomOutage)
		resumed := env.Only(t, r.Events)
		require.WithinDuration(t, r.Heartbeat, resumed.At, domain.RoomOutage)
		resumed.At = time.Time{}
		require.Equal(t, domain.RoomEvent{VoucherID: 1, Seq: 1, Kind: domain.RoomResumed, Since: last}, resumed)
	})
}

// Admissions and departures have the sequence numbers 1, 2, 3 and so on; of two servers that admit, one does.
func TestRoomEvents(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		env.Must(s.JoinRoom(ctx, 1, []domain.PlaceRequest{{UserID: 10, Lost: -1}, {UserID: 11, Lost: -1}, {UserID: 12, Lost: -1}}))(t)
		admitted := domain.RoomEvent{
			VoucherID: 1, Seq: 1, Kind: domain.RoomAdmitted, At: now, ExpiresAt: now.Add(time.Minute), Present: 3, Numbers: []uint32{2, 0, 1<<32 - 1},
		}
		requireWinners(t, 1, domain.ErrInvalidState, atOnce(4, func(int) error { return s.Admit(ctx, admitted) }))
		leave(t, s, []domain.RoomPlace{{UserID: 11, Number: 1}, {UserID: 12, Number: 7}, {UserID: 99, Number: 1}}...)
		leave(t, s, domain.RoomPlace{UserID: 11, Number: 1}) // once more
		r := room(t, s, 0)
		require.Len(t, r.Events, 2)
		require.Equal(t, admitted, r.Events[0])
		require.Equal(t, []uint32{1}, r.Events[1].Numbers)
		require.Equal(t, domain.RoomLeft, r.Events[1].Kind)
		require.Equal(t, uint32(2), r.Events[1].Seq)
		require.Len(t, room(t, s, 1).Events, 1)
		require.ErrorIs(t, s.Admit(ctx, domain.RoomEvent{VoucherID: 1, Seq: 5, Kind: domain.RoomAdmitted, At: now}), domain.ErrInvalidState)

		numbers := env.Must(s.JoinRoom(ctx, 1, []domain.PlaceRequest{{UserID: 10, Lost: 0}, {UserID: 11, Lost: -1}, {UserID: 12, Lost: 0}}))(t)
		require.Equal(t, []uint32{3, 4, 2}, numbers, "a lost place, one that was left, and another place than the lost one")
		require.Equal(t, uint32(3), join(t, s, 10, 0))

		damage(t, s, "UPDATE room_log SET data = ?", []byte{0x80})
		_, _, err := s.Rooms(ctx, map[int64]domain.RoomCursor{1: {}})
		require.ErrorContains(t, err, "cannot be read")
	})
}

func TestPurgePlaces(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		requests := make([]domain.PlaceRequest, sqldb.PurgeBatch+1)
		for i := range requests {
			requests[i] = domain.PlaceRequest{UserID: int64(i) + 1, Lost: -1}
		}
		env.Must(s.JoinRoom(t.Context(), 1, requests))(t)
		env.Must(s.JoinRoom(t.Context(), 2, requests[:2]))(t)
		newSale(t, s, 1, 1)
		for voucher, left := range map[int64]time.Duration{1: -time.Minute, 2: time.Minute} {
			damage(t, s, "UPDATE seckill_vouchers SET end_at = ? WHERE voucher_id = ?", time.Now().UTC().Add(left-domain.PlaceLife), voucher)
		}
		for _, want := range []int{sqldb.PurgeBatch, 1, 0} {
			require.Equal(t, want, env.Must(s.PurgePlaces(t.Context()))(t))
		}
		var left int64
		require.NoError(t, s.db.Reader(t.Context()).Model(&placeRow{}).Count(&left).Error)
		require.Equal(t, int64(2), left)
		require.Equal(t, uint32(len(requests)), room(t, s, 0).Joined)
	})
}

// The event of leaving names the places that wait and the valid passes that have not bought, each once: a pass counts
// once, and so does a unit.
func TestLeavingAfterPurchase(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		const (
			bought, unused, earlier, waiting, ghost, queued, expired = 0, 1, 2, 3, 4, 5, 6
		)
		takePlace(t, s, earlier, time.Now().Add(-time.Hour))
		for user := range int64(7) {
			require.Equal(t, uint32(user), join(t, s, user, -1))
		}
		takePlace(t, s, bought, time.Now().Add(time.Minute))
		takePlace(t, s, ghost, time.Now().Add(time.Minute))
		for range 2 {
			leave(t, s, []domain.RoomPlace{
				{UserID: bought, Number: bought, Over: true, Pass: true},
				{UserID: unused, Number: unused, Over: true, Pass: true},
				{UserID: earlier, Number: earlier},
				{UserID: waiting, Number: waiting},
				{UserID: ghost, Number: ghost}, // has bought with an earlier pass, and waits
				{UserID: queued, Number: queued, Over: true, Pass: true, Bought: true},
				{UserID: expired, Number: expired, Over: true},
			}...)
		}
		left := env.Only(t, room(t, s, 0).Events, "a repetition stores nothing")
		require.ElementsMatch(t, []uint32{unused, earlier, waiting, ghost}, left.Numbers)

		for i, user := range []int64{bought, earlier, waiting, ghost, queued} {
			require.Equal(t, uint32(7+i), join(t, s, user, -1))
		}
		require.Empty(t, room(t, s, 1).Events, "new places, at the end of the line")
		leave(t, s, domain.RoomPlace{UserID: waiting, Number: waiting})
		require.Empty(t, room(t, s, 1).Events, "a ticket of an earlier place gives up nothing")
		leave(t, s, domain.RoomPlace{UserID: waiting, Number: 9}, domain.RoomPlace{UserID: waiting, Number: waiting})
		require.Equal(t, []uint32{9}, env.Only(t, room(t, s, 1).Events, "beside one of the present place").Numbers)
	})
}

// The next place of a user who had a pass and did not buy is behind all others, however the turn ended, until the user
// buys, whatever becomes of the order.
func TestUnusedPassGoesBehind(t *testing.T) {
	onEachWithSale(t, func(t *testing.T, s *Store) {
		const expired, left, bought, gone = 0, 1, 2, 3
		for user := range int64(4) {
			join(t, s, user, -1)
		}
		takePlace(t, s, bought, time.Now().Add(time.Minute))
		behind := func(after uint32) (numbers []uint32) {
			for _, e := range room(t, s, after).Events {
				if e.Kind == domain.RoomBehind {
					numbers = append(numbers, e.Numbers...)
				}
			}
			return numbers
		}

		leave(t, s, domain.RoomPlace{UserID: left, Number: left, Over: true, Pass: true})
		leave(t, s, domain.RoomPlace{UserID: left, Number: left}) // another server, which has not read the admission
		leave(t, s, domain.RoomPlace{UserID: gone, Number: gone, Over: true})
		numbers, err := s.JoinRoom(t.Context(), 1, []domain.PlaceRequest{
			{UserID: expired, Lost: expired}, {UserID: left, Lost: -1}, {UserID: bought, Lost: bought}, {UserID: 9, Lost: -1},
			{UserID: gone, Lost: -1},
		})
		require.NoError(t, err)
		require.Equal(t, []uint32{4, 5, 6, 7, 8}, numbers)
		require.Equal(t, []uint32{4, 5, 8}, behind(1))

		leave(t, s, domain.RoomPlace{UserID: left, Number: 5}) // waits behind all others
		require.Equal(t, uint32(9), join(t, s, left, -1))
		require.Equal(t, []uint32{9}, behind(2))
		takePlace(t, s, left, time.Now().Add(time.Minute))
		require.Equal(t, uint32(10), join(t, s, left, 9))
		require.Equal(t, []uint32{9}, behind(2), "the user has bought")
	})
}

func leave(t *testing.T, s *Store, places ...domain.RoomPlace) {
	t.Helper()
	require.NoError(t, s.LeaveRoom(t.Context(), 1, places))
}

func join(t *testing.T, s *Store, user, lost int64) uint32 {
	t.Helper()
	return env.Must(s.JoinRoom(t.Context(), 1, []domain.PlaceRequest{{UserID: user, Lost: lost}}))(t)[0]
}

func takePlace(t *testing.T, s *Store, user int64, at time.Time) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Exec("INSERT INTO voucher_orders "+
		"(id, user_id, voucher_id, status, amount, created_at, expires_at, updated_at) VALUES (?, ?, 1, 4, 1, ?, ?, ?)",
		user+1, user, at.UTC(), now, now).Error)
}

// A purchase counts against its pass in the transaction of the order: each order once, however often it is delivered,
// and no purchase that was refused. Rooms has the counts by admission, from the cursor on.
func TestOrdersCountAgainstPasses(t *testing.T) {
	onEachSale(t, 4, 2, func(t *testing.T, s *Store, v domain.Voucher) {
		other := newSale(t, s, 9, 1)
		env.Must(s.JoinRoom(t.Context(), v.ID, []domain.PlaceRequest{{UserID: 1, Lost: -1}}))(t)
		at := time.Now().UTC()
		for seq := range uint32(3) {
			e := domain.RoomEvent{VoucherID: v.ID, Seq: seq + 1, Kind: domain.RoomAdmitted, At: at, ExpiresAt: at.Add(time.Hour)}
			require.NoError(t, s.Admit(t.Context(), e))
		}
		bought := func(from uint32) map[uint32]int {
			rooms, _, err := s.Rooms(t.Context(), map[int64]domain.RoomCursor{v.ID: {Round: from}})
			require.NoError(t, err)
			return rooms[0].Bought
		}
		batch := []domain.NewOrder{
			passOrder(1, 1, 10, v.ID, 2),
			passOrder(3, 2, 11, v.ID, 2),
			passOrder(3, 3, 12, v.ID, 2),
			passOrder(0, 4, 13, other.ID, 2),
			passOrder(1, 5, 10, v.ID, 2), // the user has bought with it
			passOrder(0, 6, 14, v.ID, 2), // an order without a pass
			passOrder(2, 7, 15, v.ID, 2), // sold out
		}
		s.PlaceOrders(t.Context(), batch[:2])
		require.Equal(t, map[uint32]int{1: 1, 3: 1}, bought(0))
		for range 2 {
			s.PlaceOrders(t.Context(), batch)
			require.Equal(t, map[uint32]int{1: 1, 3: 2}, bought(1))
		}
		require.Equal(t, map[uint32]int{3: 2}, bought(2))
		require.Empty(t, bought(4))
		requireTotals(t, s, v.ID, 0, 4)
		records := env.Must(s.SaleRecords(t.Context(), []domain.SaleUser{{UserID: 11, VoucherID: v.ID}, {UserID: 14, VoucherID: v.ID}}))(t)
		require.Equal(t, uint32(3), records[domain.SaleUser{UserID: 11, VoucherID: v.ID}].LastRound)
		require.Zero(t, records[domain.SaleUser{UserID: 14, VoucherID: v.ID}].LastRound)
	})
}

func passOrder(round uint32, id, user, voucher int64, limit int) domain.NewOrder {
	return domain.NewOrder{Order: newOrder(id, user, voucher), Limit: limit, Round: round}
}

// The pass of an ended order does not buy again, whatever its batch, and neither does an earlier one; a new pass buys once,
// whatever the limit. The same request and the same order are repeated all the same.
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
				fmt.Sprint("order ", at+16), fmt.Sprint("order ", at+17), fmt.Sprint("order ", at+18), duplicateOf(at + 18),
			}, keyedOutcomes(s.PlaceOrders(ctx, []domain.NewOrder{
				keyed(10),
				passOrder(2, at+11, user, v.ID, limit),
				passOrder(1, at+12, user, v.ID, limit),
				passOrder(2, at+13, user+1, v.ID, limit),
				passOrder(3, at+14, user+1, v.ID, limit),
				passOrder(2, at+15, user, other.ID, limit),
				passOrder(1, at+16, user+2, v.ID, limit),
				{Order: newOrder(at+17, user, v.ID), Limit: limit},
				passOrder(2, at+18, user+3, v.ID, limit),
				passOrder(2, at+19, user+3, v.ID, limit),
			})))
			requireTotals(t, s, v.ID, 16, 4)

			placed := s.PlaceOrders(ctx, first)
			require.Equal(t, []string{fmt.Sprint("order ", at+1), fmt.Sprint("order ", at+2)}, keyedOutcomes(placed))
			require.True(t, placed[0].Before && placed[1].Before, "delivered again")
			requireTotals(t, s, v.ID, 16, 4)
		}
	})
}

// passRace returns a purchase during which another server buys with the same pass. The user holds the slots 1 and 2, and
// the purchase takes slot 3. When the earlier order ends meanwhile, the other one takes slot 1: no index refuses one of the
// two, and slot 2 keeps their locks apart.
func passRace(t *testing.T, s *Store) (earlier, purchase, other domain.NewOrder) {
	t.Helper()
	v := newSale(t, s, 20, 3)
	user := v.ID * 10
	earlier = passOrder(1, user+1, user, v.ID, 3)
	placeAll(t, s, earlier, passOrder(2, user+2, user, v.ID, 3))
	return earlier, passOrder(3, user+3, user, v.ID, 3), passOrder(3, user+4, user, v.ID, 3)
}

func (s *Store) place(t *testing.T, o domain.NewOrder) domain.Placed {
	return s.PlaceOrders(t.Context(), []domain.NewOrder{o})[0]
}

func (s *Store) end(t *testing.T, o domain.NewOrder) {
	env.Must(cancel(t.Context(), s, o.UserID, o.ID, now))(t)
}

// A pass is used while a purchase with it is under way. The purchase buys nothing, wherever in its transaction that
// happens, and whether the other order has ended or not.
func TestPassIsUsedDuringPurchase(t *testing.T) {
	env.OnEachServer(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), env.Inject(db)
		for _, ended := range []bool{false, true} {
			// After the read of the user's orders, and before the lock of the stock.
			for _, statement := range []string{"INSERT INTO voucher_orders", "UPDATE `seckill_vouchers`"} {
				earlier, purchase, other := passRace(t, s)
				faults.Before(func(query string) error {
					if strings.HasPrefix(query, statement) {
						faults.Before(nil)
						s.end(t, earlier)
						require.Equal(t, 1, s.place(t, other).Order.Slot)
						if ended {
							s.end(t, other)
						}
					}
					return nil
				})

				placed := s.place(t, purchase)
				if ended {
					require.ErrorIs(t, placed.Err, domain.ErrPassExpired, statement)
					requireTotals(t, s, purchase.VoucherID, 19, 1)
					continue
				}
				require.EqualError(t, placed.Err, duplicateOf(other.ID), statement)
				requireTotals(t, s, purchase.VoucherID, 18, 2)
			}
		}
	})
}

// A pass is used by a purchase that waits for the stock of the sale, which another purchase with the pass has locked. The
// one that waits buys nothing.
func TestPassIsUsedWhilePurchaseWaits(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		earlier, purchase, other := passRace(t, s)
		waiting := make(chan domain.Placed, 1)
		step := 0
		purchase.Fence = &losingContext{Context: t.Context(), lose: func() {
			switch step++; step {
			case 1:
				// Before the insert.
				s.end(t, earlier)
			case 2:
				// At the end of the transaction.
				go func() { waiting <- s.place(t, other) }()
				env.RequireBlocked(t, s.db, "seckill_vouchers")
			}
		}}
		require.NoError(t, s.place(t, purchase).Err)
		require.EqualError(t, (<-waiting).Err, duplicateOf(purchase.ID))
		requireTotals(t, s, purchase.VoucherID, 18, 2)
	})
}

// A group commit of a sale without passes executes two statements, and passes cost two more: the check of the passes and
// their count.
func TestStatementsOfGroupCommit(t *testing.T) {
	onEachFaulty(t, func(t *testing.T, s *Store, faults *env.Faults) {
		v := newSale(t, s, 20, 1)
		for withPass, statements := range []int{2, 4} {
			var orders []domain.NewOrder
			for i := range 5 {
				id := int64(1 + 10*withPass + i)
				orders = append(orders, passOrder(uint32(withPass*(i+1)), id, id, v.ID, 1))
			}

			executed := -1 // without BEGIN
			faults.Before(func(string) error { executed++; return nil })
			placeAll(t, s, orders...)
			require.Equal(t, statements, executed)
			faults.Before(nil)
		}
		requireTotals(t, s, v.ID, 10, 10)
	})
}
