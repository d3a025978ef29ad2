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

// events returns the events in the outbox, oldest first, as "order type status".
func events(t *testing.T, s *Store) (all []string) {
	t.Helper()
	found := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{Page: domain.Page{Limit: 1000}}))(t)
	for _, e := range slices.Backward(found) {
		all = append(all, fmt.Sprint(e.Order.ID, " ", e.Type, " ", e.Order.Status))
	}
	return all
}

// Every placement and move of an order writes one event in its transaction, which shows the order as the move left it.
// Refused purchases write none.
func TestMovesAreRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 4, 1)
		env.Must(placeOrder(ctx, s, newOrder(90, 90, v.ID), 1))(t)
		require.Empty(t, events(t, s), "without a receiver nothing is recorded")

		s.RecordEvents()
		orders := make([]domain.Order, 5) // with three units left, and one order of its user too many
		for i, user := range []int64{1, 2, 90, 3, 4} {
			orders[i] = newOrder(user, user, v.ID)
		}
		orders[2].ID = 91
		var placed []int64
		for _, p := range s.PlaceOrders(ctx, withLimit(1, orders)) {
			if p.Err == nil {
				placed = append(placed, p.Order.ID)
			}
		}
		require.Equal(t, []int64{1, 2, 3}, placed)
		env.Must(cancel(ctx, s, 1, 1, now))(t)
		env.Fails(cancel(ctx, s, 1, 1, now))(t, domain.ErrInvalidState)
		move := func(m domain.Move, id int64) {
			env.Must(s.MoveOrder(ctx, domain.OrderMove{Move: m, OrderID: id, At: now}))(t)
		}
		move(domain.MovePay, 2)
		env.Must(s.BeginRefund(ctx, domain.OrderMove{OrderID: 2, At: now}))(t) // without a payment there is nothing to wait for
		env.Must(s.CloseExpired(ctx, 10))(t)
		require.Equal(t, []string{
			"1 created pending_payment", "2 created pending_payment", "3 created pending_payment", "1 cancelled cancelled", "2 paid paid",
			"2 refunding refunding", "2 refunded refunded", "3 expired cancelled", "90 expired cancelled",
		}, events(t, s))
		of := env.Must(s.OrderEvents(ctx, domain.EventFilter{OrderID: 2, Page: domain.Page{Limit: 3}}))(t)
		require.Len(t, of, 3)
		require.NotNil(t, of[0].Order.RefundedAt)
		require.NotNil(t, of[2].Order.PaidAt)
		require.Nil(t, of[2].Order.RefundedAt)
		before := env.Must(s.OrderEvents(ctx, domain.EventFilter{OrderID: 2, Page: domain.Page{Limit: 9, Before: of[1].ID}}))(t)
		require.Len(t, before, 2)
	})
}

// The connections for reads may lead to a server that does not have the order of an event yet. It is delivered when the lease
// is over, and not without its order.
func TestEventWaitsForItsOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 2, 1)
		created, due := newOrder(7, 1, v.ID), now.Add(-time.Hour)
		e := newEventRow(created.ID, domain.EventCreated, now)
		e.Status, e.NextTryAt = domain.EventPending, &due
		require.NoError(t, s.db.Writer(t.Context()).Create(&e).Error)
		claimed := env.Must(s.ClaimEvents(t.Context(), 9, 0))(t) // the lease ends at once
		require.Empty(t, claimed)
		place(t, s, created)
		claimed = env.Must(s.ClaimEvents(t.Context(), 9, time.Hour))(t)
		require.Len(t, claimed, 1)
		require.Equal(t, created.ID, claimed[0].Order.ID)
	})
}

// An event waits for the earlier ones of its order. Senders that run at once share the events.
func TestEventsAreClaimedInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		s.RecordEvents()
		const n = 20
		v := newSale(t, s, n, 1)
		orders := make([]domain.Order, n)
		for i := range orders {
			orders[i] = newOrder(int64(1+i), int64(1+i), v.ID)
		}
		sold(t, s, 1, orders...)
		for _, o := range orders {
			env.Must(cancel(ctx, s, o.UserID, o.ID, now))(t)
		}
		claim := func() []domain.OrderEvent { return env.Must(s.ClaimEvents(ctx, 4, time.Hour))(t) }
		var mu sync.Mutex
		var all []domain.OrderEvent
		allAtOnce(t, 3, func(int) error {
			for {
				some, err := s.ClaimEvents(ctx, 4, time.Hour)
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
			require.NoError(t, s.FinishEvents(ctx, []domain.EventResult{r}))
		}
		finish(all[0], domain.EventResult{Delivered: true, Status: 200, Answer: "ok"})
		next := claim()
		require.Len(t, next, 1, "only one order may go on")
		require.Equal(t, all[0].Order.ID, next[0].Order.ID)
		require.EqualValues(t, "cancelled", next[0].Type)

		finish(next[0], domain.EventResult{Retry: time.Hour, Status: 500, Answer: "later"})
		require.Empty(t, claim())
		finish(all[1], domain.EventResult{Answer: "given up"})
		finish(all[1], domain.EventResult{Delivered: true}) // it counts as given up, and nothing else changes
		require.Equal(t, all[1].Order.ID, claim()[0].Order.ID, "after an event that was given up, the next one is due")
	})
}

// The result of a sender whose lease has ended counts only if it is a success.
func TestLateResultsOfDeliveries(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		s.RecordEvents()
		v := newSale(t, s, 1, 1)
		env.Must(placeOrder(ctx, s, newOrder(1, 1, v.ID), 1))(t)
		claim := func() domain.OrderEvent {
			claimed := env.Must(s.ClaimEvents(ctx, 9, 0))(t) // the lease ends at once
			require.Len(t, claimed, 1)
			return claimed[0]
		}
		first, second := claim(), claim()
		require.Equal(t, []int{1, 2}, []int{first.Tries, second.Tries})
		require.NoError(t, s.FinishEvents(ctx, []domain.EventResult{{Event: first}, {Event: first, Retry: time.Hour}}))
		claim()
		require.NoError(t, s.FinishEvents(ctx, []domain.EventResult{{Event: first, Delivered: true, Status: 204}}))
		none := env.Must(s.ClaimEvents(ctx, 9, 0))(t)
		require.Empty(t, none)

		require.NoError(t, s.RepeatEvent(ctx, nil, first.ID))
		again := claim()
		require.Equal(t, 1, again.Tries)
		require.NotNil(t, again.RepeatedAt)
		require.Equal(t, 204, again.AnswerStatus, "the last answer stays visible")
		require.ErrorIs(t, s.RepeatEvent(ctx, nil, 12345), domain.ErrNotFound)

		n := env.Must(s.PurgeEvents(ctx, now.Add(time.Hour)))(t)
		require.Zero(t, n, "a pending event is kept")
		require.NoError(t, s.FinishEvents(ctx, []domain.EventResult{{Event: again}}))
		for _, want := range []int{1, 0} {
			n = env.Must(s.PurgeEvents(ctx, now.Add(time.Hour)))(t)
			require.Equal(t, want, n)
		}
	})
}
