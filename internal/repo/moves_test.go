package repo

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// placeOverdue stores n overdue orders, spread over the sales. Their ids and user ids begin at first.
func placeOverdue(t *testing.T, s *Store, first int64, n int, sales ...int64) {
	t.Helper()
	orders := make([]domain.Order, n)
	for i := range orders {
		id := first + int64(i)
		orders[i] = overdueOrder(id, id, sales[int(id)%len(sales)])
	}
	sold(t, s, 1, orders...)
}

func TestCloseExpiredUsesDatabaseClock(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		at := databaseTime(t, s)
		for id, expires := range map[int64]time.Time{1: at.Add(-time.Hour), 2: at, 3: at.Add(time.Hour)} {
			o := newOrder(id, id, v.ID)
			o.ExpiresAt = expires
			place(t, s, o)
		}
		paid := overdueOrder(4, 4, v.ID)
		place(t, s, paid)
		pay(t, s, paid, "ref")
		b := env.Must(s.Backlog(t.Context()))(t)
		require.EqualValues(t, 2, b.Orders)
		require.InDelta(t, time.Hour, b.OldestOrder, float64(10*time.Minute))
		require.Equal(t, []int64{1}, closeExpired(t, s, 1), "the oldest first")
		require.Equal(t, []int64{2}, closeExpired(t, s, 10))
		require.Empty(t, closeExpired(t, s, 10))
		requireTotals(t, s, v.ID, 8, 2)
		stored := env.Must(s.Order(t.Context(), 1, 1))(t)
		require.Equal(t, domain.OrderCancelled, stored.Status)
		require.Zero(t, stored.Slot)
		require.WithinDuration(t, at, *stored.CancelledAt, time.Minute)
	})
}

func closeExpired(t *testing.T, s *Store, most int) []int64 {
	t.Helper()
	return orderIDs(env.Must(s.CloseExpired(t.Context(), most, true))(t))
}

func orderIDs(orders []domain.Order) (ids []int64) {
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids
}

// A transaction that has locked one order, here a payment, does not delay the closing of the others. The units return to their
// sales.
func TestCloseExpiredSkipsLockedOrders(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
		placeOverdue(t, s, 1, 4, v.ID, other.ID)
		payer := s.db.Writer(t.Context()).Begin()
		env.Must(lockOrder(payer, 0, 2))(t)
		require.ElementsMatch(t, []int64{1, 3, 4}, closeExpired(t, s, 10))
		requireTotals(t, s, v.ID, 9, 1)
		requireTotals(t, s, other.ID, 10, 0)
		require.NoError(t, payer.Rollback().Error)
		require.Equal(t, []int64{2}, closeExpired(t, s, 10))
	})
}

// Orders that expire together keep the other times that each has, as another program may have written them.
func TestCloseExpiredKeepsOtherTimes(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		placeOverdue(t, s, 1, 3, v.ID)
		paid := s.db.Writer(t.Context()).Model(&orderRow{}).Where("id = 1")
		require.NoError(t, paid.Update("paid_at", now).Error)
		require.Len(t, closeExpired(t, s, 10), 3)
		for id := range int64(3) {
			o := env.Must(s.Order(t.Context(), 0, 1+id))(t)
			require.Equal(t, id == 0, o.PaidAt != nil, 1+id)
		}
	})
}

// A transaction that has locked the row of one sale delays neither the closing of the orders of others, even if that sale has
// more expired ones, nor the purchases of others.
func TestCloseExpiredOfOtherSales(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v, locked := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
		placeOverdue(t, s, 1, 3, locked.ID)
		placeOverdue(t, s, 4, 2, v.ID)
		other := s.db.Writer(t.Context()).Begin()
		require.NoError(t, returnUnits(other, locked.ID, 1, time.Now()))
		closed, err := s.CloseExpired(t.Context(), 2, true)
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.ElementsMatch(t, []int64{4, 5}, orderIDs(closed))
		requireTotals(t, s, v.ID, 10, 0)

		require.NoError(t, other.Rollback().Error)
		require.Len(t, env.Must(s.CloseExpired(t.Context(), 2, true))(t), 2)
		require.Len(t, env.Must(s.CloseExpired(t.Context(), 2, true))(t), 1)
		requireTotals(t, s, locked.ID, 10, 0)
	})
}

// The orders of two users in two sales, one for each way in which an order can end.
func TestUnpaidRecords(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		limit := 1
		create := func() domain.Voucher {
			v := newSale(t, s, 20, 100)
			change(t, s, v.ID, func(v *domain.Voucher) { v.Sale.UnpaidLimit = &limit })
			return v
		}
		v, other, open := create(), create(), newSale(t, s, 20, 100)
		place := func(id, user, voucher int64, expires time.Time) {
			o := newOrder(id, user, voucher)
			o.ExpiresAt = expires
			env.Must(placeOrder(t.Context(), s, o, 100))(t)
		}
		end := func(id int64, at time.Time) {
			env.Must(cancel(t.Context(), s, 0, id, at))(t)
		}
		ended := func() (ids []int64) {
			found := env.Must(s.Vouchers(t.Context(), []int64{v.ID, other.ID, open.ID, 999}))(t)
			require.Len(t, found, 3)
			for _, v := range found {
				if v.Sale.EndedUnpaid {
					ids = append(ids, v.ID)
				}
			}
			return ids
		}
		deadline := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
		for id := int64(1); id <= 6; id++ {
			place(id, 10, v.ID, deadline)
		}
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET status = 6, slot = NULL WHERE id = 1").Error)
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET status = 2 WHERE id = 2").Error)
		require.Empty(t, ended(), "a refunded order was paid")

		end(3, now.Add(time.Second))
		require.Equal(t, []int64{v.ID}, ended(), "cancelled in time")
		end(4, deadline.Add(-time.Millisecond))
		end(5, deadline) // by its owner, before the closer
		require.Equal(t, []int64{v.ID}, ended())
		place(7, 10, v.ID, time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
		place(8, 10, other.ID, time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
		place(9, 11, v.ID, deadline)
		place(10, 11, open.ID, deadline)
		end(10, now)
		require.Len(t, env.Must(s.CloseExpired(t.Context(), 10, true))(t), 2)
		require.Equal(t, []int64{v.ID, other.ID}, ended(), "a sale without a limit is not marked")

		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET entry_round = id WHERE id IN (6, 7)").Error)
		asked := []domain.SaleUser{{UserID: 10, VoucherID: v.ID}, {UserID: 10, VoucherID: other.ID}, {UserID: 11, VoucherID: v.ID},
			{UserID: 12, VoucherID: v.ID}, {UserID: 10, VoucherID: v.ID}}
		found := env.Must(s.SaleRecords(t.Context(), asked))(t)
		require.Equal(t, map[domain.SaleUser]domain.SaleRecord{
			asked[0]: {Active: 2, Newest: 6, Expired: 2, Cancelled: 2, LastCancel: deadline.Add(-time.Millisecond), LastRound: 7},
			asked[1]: {Expired: 1},
			asked[2]: {Active: 1, Newest: 9},
		}, found)

		place(11, 11, other.ID, deadline)
		require.Equal(t, map[int64]int{10: 1, 11: 2}, env.Must(s.UnpaidOrders(t.Context(), []int64{10, 11, 12, 10}))(t))
	})
}

// events returns the events in the outbox, oldest first, as "order type status".
func events(t *testing.T, s *Store) (all []string) {
	t.Helper()
	found := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{Page: domain.Page{Limit: 1000}}))(t)
	for _, e := range slices.Backward(found) {
		all = append(all, fmt.Sprint(e.Order.ID, " ", e.Type, " ", e.Order.Status))
		if e.Order.Status == domain.OrderRedeemed {
			require.Equal(t, e.CreatedAt, *e.Order.RedeemedAt)
		}
	}
	return all
}

// Every placement and move of an order writes one event in its transaction, which shows the order as the move left it.
// Refused purchases write none.
func TestMovesAreRecorded(t *testing.T) {
	onEachSale(t, 4, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		env.Must(placeOrder(t.Context(), s, newOrder(90, 90, v.ID), 1))(t)
		require.Empty(t, events(t, s), "without a receiver nothing is recorded")

		s.RecordEvents()
		orders := make([]domain.Order, 5) // with three units left, and one order of its user too many
		for i, user := range []int64{1, 2, 90, 3, 4} {
			orders[i] = newOrder(user, user, v.ID)
		}
		orders[2].ID = 91
		require.Equal(t, []string{"order 1", "order 2", duplicateOf(90), "order 3", domain.ErrSoldOut.Error()},
			outcomes(s.PlaceOrders(t.Context(), withLimit(1, orders))))
		env.Must(cancel(t.Context(), s, 1, 1, now))(t)
		env.Fails(cancel(t.Context(), s, 1, 1, now))(t, domain.ErrInvalidState)
		for i, m := range []domain.Move{domain.MovePay, domain.MoveRedeem, domain.MoveUndoRedeem, domain.MoveRedeem, domain.MoveUndoRedeem} {
			env.Must(s.MoveOrder(t.Context(), domain.OrderMove{Move: m, OrderID: 2, At: now.Add(time.Duration(i) * time.Second)}))(t)
		}
		env.Must(s.BeginRefund(t.Context(), domain.OrderMove{OrderID: 2, At: now}))(t) // without a payment there is nothing to wait for
		env.Must(s.CloseExpired(t.Context(), 10, true))(t)
		require.Equal(t, []string{
			"1 created pending_payment", "2 created pending_payment", "3 created pending_payment", "1 cancelled cancelled", "2 paid paid",
			"2 redeemed redeemed", "2 unredeemed paid", "2 redeemed redeemed", "2 unredeemed paid",
			"2 refunding refunding", "2 refunded refunded", "3 expired cancelled", "90 expired cancelled",
		}, events(t, s))
		of := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{OrderID: 2, Page: domain.Page{Limit: 3}}))(t)
		require.Len(t, of, 3)
		before := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{OrderID: 2, Page: domain.Page{Limit: 9, Before: of[1].ID}}))(t)
		require.Len(t, before, 6)
	})
}

// The connections for reads may lead to a server that does not have the order of an event yet. It is delivered when the lease
// is over, and not without its order.
func TestEventWaitsForItsOrder(t *testing.T) {
	onEachSale(t, 2, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		created, due := newOrder(7, 1, v.ID), now.Add(-time.Hour)
		e := eventRow{OrderID: created.ID, OrderEvent: domain.OrderEvent{Type: domain.EventCreated, CreatedAt: now}}
		e.Status, e.NextTryAt = domain.EventPending, &due
		require.NoError(t, s.db.Writer(t.Context()).Create(&e).Error)
		require.Empty(t, env.Must(s.ClaimEvents(t.Context(), 9, 0))(t)) // the lease ends at once
		place(t, s, created)
		require.Equal(t, created.ID, env.Only(t, env.Must(s.ClaimEvents(t.Context(), 9, time.Hour))(t)).Order.ID)
	})
}

// An event waits for the earlier ones of its order. Senders that run at once share the events.
func TestEventsAreClaimedInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		s.RecordEvents()
		const n = 20
		v := newSale(t, s, n, 1)
		orders := make([]domain.Order, n)
		for i := range orders {
			orders[i] = newOrder(int64(1+i), int64(1+i), v.ID)
		}
		sold(t, s, 1, orders...)
		for _, o := range orders {
			env.Must(cancel(t.Context(), s, o.UserID, o.ID, now))(t)
		}
		b := env.Must(s.Backlog(t.Context()))(t)
		require.EqualValues(t, 2*n, b.Events)
		require.InDelta(t, databaseTime(t, s).Sub(orders[0].CreatedAt), b.OldestEvent, float64(time.Minute))
		claim := func() []domain.OrderEvent { return env.Must(s.ClaimEvents(t.Context(), 4, time.Hour))(t) }
		var mu sync.Mutex
		var all []domain.OrderEvent
		allAtOnce(t, 3, func(int) error {
			for {
				some, err := s.ClaimEvents(t.Context(), 4, time.Hour)
				if err != nil || len(some) == 0 {
					return err
				}
				mu.Lock()
				all = append(all, some...)
				mu.Unlock()
			}
		})
		require.Len(t, all, n)
		seen := map[int64]bool{}
		for _, e := range all {
			require.Equal(t, domain.EventCreated, e.Type)
			require.Equal(t, 1, e.Tries)
			require.False(t, seen[e.Order.ID], "leased to one sender")
			seen[e.Order.ID] = true
		}
		finish := func(e domain.OrderEvent, r domain.EventResult) {
			r.Event = e
			require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{r}))
		}
		finish(all[0], domain.EventResult{Delivered: true, Status: 200, Answer: "ok"})
		next := env.Only(t, claim(), "only one order may go on")
		require.Equal(t, all[0].Order.ID, next.Order.ID)
		require.EqualValues(t, "cancelled", next.Type)

		finish(next, domain.EventResult{Retry: time.Hour, Status: 500, Answer: "later"})
		require.Empty(t, claim())
		finish(all[1], domain.EventResult{Answer: "given up"})
		finish(all[1], domain.EventResult{Delivered: true}) // it counts as given up, and nothing else changes
		require.Equal(t, all[1].Order.ID, claim()[0].Order.ID, "after an event that was given up, the next one is due")
	})
}

// The result of a sender whose lease has ended counts only if it is a success.
func TestLateResultsOfDeliveries(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		s.RecordEvents()
		v := newSale(t, s, 1, 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 1, v.ID), 1))(t)
		claim := func() domain.OrderEvent {
			return env.Only(t, env.Must(s.ClaimEvents(t.Context(), 9, 0))(t)) // the lease ends at once
		}
		first, second := claim(), claim()
		require.Equal(t, []int{1, 2}, []int{first.Tries, second.Tries})
		require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{{Event: first}, {Event: first, Retry: time.Hour}}))
		claim()
		require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{{Event: first, Delivered: true, Status: 204}}))
		require.Empty(t, env.Must(s.ClaimEvents(t.Context(), 9, 0))(t))

		require.NoError(t, s.RepeatEvent(t.Context(), nil, first.ID))
		again := claim()
		require.Equal(t, 1, again.Tries)
		require.NotNil(t, again.RepeatedAt)
		require.Equal(t, 204, again.AnswerStatus, "the last answer stays visible")
		require.ErrorIs(t, s.RepeatEvent(t.Context(), nil, 12345), domain.ErrNotFound)

		n := env.Must(s.PurgeEvents(t.Context(), now.Add(time.Hour)))(t)
		require.Zero(t, n, "a pending event is kept")
		require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{{Event: again}}))
		for _, want := range []int{1, 0} {
			n = env.Must(s.PurgeEvents(t.Context(), now.Add(time.Hour)))(t)
			require.Equal(t, want, n)
		}
	})
}
