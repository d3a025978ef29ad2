package repo

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// A refund is due at once even if the clock of the instance is ahead, and is not retried early if the clock is behind.
func TestRefundsAreDueByDatabaseClock(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		for i, off := range []time.Duration{-time.Hour, time.Hour} {
			o := newOrder(int64(1+i), int64(1+i), v.ID)
			place(t, s, o)
			paid := pay(t, s, o, fmt.Sprint("ref-", i))
			env.Must(s.BeginRefund(t.Context(), refundOf(o, time.Now().Add(off))))(t)
			pauses := []time.Duration{0, 10 * time.Minute}
			wait := func(tries int) time.Duration { return pauses[tries] }
			for range pauses {
				due := env.Must(s.DueRefunds(t.Context(), 10, wait))(t)
				require.Len(t, due, 1, "at once, although the clock is off by %s", off)
				require.Equal(t, paid.ID, due[0].ID)
			}
			due := env.Must(s.DueRefunds(t.Context(), 10, wait))(t)
			require.Empty(t, due, "the next attempt is not due yet")
		}
	})
}

// A payment whose buyer is waiting is in the next batch, whatever is overdue, and the overdue ones keep their turn in a
// rush.
func TestBacklogOfInquiriesDelaysNoFreshPayment(t *testing.T) {
	const many, batch = 200, 16
	for name, tc := range map[string]struct{ manyAge, loneAge, manyDue, loneDue time.Duration }{
		"a fresh one behind abandoned ones": {manyAge: 10 * time.Hour, manyDue: time.Hour, loneAge: 10 * time.Second, loneDue: time.Second},
		"an old one in a rush":              {manyAge: time.Minute, manyDue: 10 * time.Second, loneAge: time.Hour, loneDue: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *Store) {
				clock := env.Must(s.db.Now(s.db.Writer(t.Context())))(t)
				row := func(order int64, age, due time.Duration) paymentRow {
					next := clock.Add(-due)
					return paymentRow{NextTryAt: &next, Payment: domain.Payment{
						OrderID: order, Provider: "bank", Ref: fmt.Sprint("pay_", order), Amount: 1, Currency: "CNY", Status: domain.PaymentPending,
						CreatedAt: clock.Add(-age), UpdatedAt: clock,
					}}
				}
				rows := []paymentRow{row(1, tc.loneAge, tc.loneDue)}
				for order := range int64(many) {
					rows = append(rows, row(2+order, tc.manyAge, tc.manyDue))
				}
				require.NoError(t, s.db.Writer(t.Context()).Create(&rows).Error)

				claim := func() (orders []int64) {
					due := env.Must(s.DueInquiries(t.Context(), "bank", batch, func(time.Duration) time.Duration { return time.Hour }))(t)
					for _, p := range due {
						orders = append(orders, p.OrderID)
					}
					return orders
				}
				seen := claim()
				require.Len(t, seen, batch)
				require.Contains(t, seen, int64(1))
				for more := claim(); len(more) > 0; more = claim() {
					seen = append(seen, more...)
				}
				require.Len(t, seen, 1+many)
				slices.Sort(seen)
				require.Len(t, slices.Compact(seen), 1+many, "each once")
			})
		})
	}
}

// A payment is queried when the time to pay its order ends, and then often until the order is closed at the latest.
func TestPaymentIsQueriedWhenTimeToPayEnds(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		clock := env.Must(s.db.Now(s.db.Writer(t.Context())))(t)
		wait := func(age time.Duration) time.Duration {
			if age == 0 {
				return 10 * time.Second
			}
			return time.Hour
		}
		for id, tc := range map[int64]struct{ end, earliest, latest time.Duration }{
			1: {30 * time.Minute, 30 * time.Minute, 30 * time.Minute},
			2: {2 * time.Hour, time.Hour, time.Hour + time.Minute},
			3: {-5 * time.Second, 10 * time.Second, 70 * time.Second},
			4: {-time.Hour, time.Hour, time.Hour + time.Minute}, // it is closed
		} {
			o := newOrder(id, id, v.ID)
			o.ExpiresAt = clock.Add(tc.end)
			place(t, s, o)
			ref := fmt.Sprint("ref-", id)
			env.Must(begin(t.Context(), s, o, ref))(t)
			require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE payments SET next_try_at = created_at WHERE provider_ref = ?", ref).Error)
			due := env.Must(s.DueInquiries(t.Context(), "bank", 10, wait))(t)
			require.Len(t, due, 1)
			var row paymentRow
			require.NoError(t, s.db.Reader(t.Context()).Take(&row, due[0].ID).Error)
			after := row.NextTryAt.Sub(clock)
			require.True(t, after >= tc.earliest && after <= tc.latest, "the time to pay ends after %s, the next query is after %s", tc.end, after)
		}

		soon := newOrder(5, 5, v.ID)
		soon.ExpiresAt = clock.Add(time.Second)
		place(t, s, soon)
		p := env.Must(begin(t.Context(), s, soon, "ref-5"))(t)
		var row paymentRow
		require.NoError(t, s.db.Reader(t.Context()).Take(&row, p.ID).Error)
		require.Equal(t, soon.ExpiresAt.UTC(), row.NextTryAt.UTC(), "the first query")
	})
}

func TestPaymentReferencesAreCaseSensitive(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o := newOrder(1, 1, v.ID)
		place(t, s, o)
		pay(t, s, o, "pi_3MtwBwLkdIwHu7ix")
		settled := env.Must(s.SettlePayment(t.Context(), "bank", notice(o, "pi_3MtwBwLkdIwHu7iX"), now))(t)
		require.Equal(t, domain.PaymentRefunding, settled.Payment.Status, "the order was paid twice, and the second payment is refunded")
		require.Len(t, allPayments(t, s), 2)
	})
}

// Two payments of one order are refunded, the unmatched one first. The order stays in refunding until the other refund
// is finished.
func TestOrderIsRefundedAfterLastPayment(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o := newOrder(1, 1, v.ID)
		place(t, s, o)
		first := pay(t, s, o, "first")
		second := env.Must(s.SettlePayment(t.Context(), "bank", notice(o, "second"), now))(t)
		env.Must(s.BeginRefund(t.Context(), refundOf(o, now)))(t)
		refunded := env.Must(s.FinishRefund(t.Context(), second.Payment.ID, now.Add(time.Second)))(t)
		require.Nil(t, refunded)
		requireTotals(t, s, v.ID, 9, 1)
		var touched orderRow
		require.NoError(t, s.db.Reader(t.Context()).Take(&touched, o.ID).Error)
		require.Equal(t, now.Add(time.Second), touched.UpdatedAt, "Galera lets one of two refunds on two nodes fail and see the other")
		refunded = env.Must(s.FinishRefund(t.Context(), first.ID, now))(t)
		require.Equal(t, domain.OrderRefunded, refunded.Status)
		require.Zero(t, refunded.Slot)
		requireTotals(t, s, v.ID, 10, 0)
		require.Equal(t, []string{
			"provider pay", "provider return_money", "buyer refund", "provider money_returned", "provider refunded",
		}, auditTrail(t, s, o.ID))
		env.Fails(s.FinishRefund(t.Context(), 999, now))(t, domain.ErrNotFound)
	})
}

func TestBacklogCountsDueRefunds(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		b := env.Must(s.Backlog(t.Context()))(t)
		require.Equal(t, Backlog{}, b)
		for i, since := range []time.Duration{time.Minute, time.Hour, -time.Hour} {
			o := newOrder(int64(1+i), int64(1+i), v.ID)
			place(t, s, o)
			pay(t, s, o, fmt.Sprint("ref-", i))
			env.Must(s.BeginRefund(t.Context(), refundOf(o, time.Now().Add(-since))))(t)
		}
		b = env.Must(s.Backlog(t.Context()))(t)
		require.EqualValues(t, 3, b.Refunds)
		require.InDelta(t, time.Hour, b.OldestRefund, float64(10*time.Minute))
		finishDueRefunds(t, s)
		b = env.Must(s.Backlog(t.Context()))(t)
		require.Equal(t, Backlog{}, b)
	})
}

// A reference belongs to one order and one provider, even if two notices with a new reference arrive at once.
func TestReferenceBelongsToOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		one, two := newOrder(1, 1, v.ID), newOrder(2, 2, v.ID)
		one.Currency, two.Currency = "CNY", "CNY"
		place(t, s, one)
		place(t, s, two)
		var invalid *domain.InvalidError
		pay(t, s, one, "ref")
		_, err := s.SettlePayment(t.Context(), "bank", notice(two, "ref"), now)
		require.ErrorAs(t, err, &invalid)
		_, err = s.SettlePayment(t.Context(), "another bank", notice(one, "ref"), now)
		require.ErrorAs(t, err, &invalid)

		errs := atOnce(2, func(i int) error {
			_, err := s.SettlePayment(t.Context(), "bank", notice([]domain.Order{one, two}[i], "new"), now)
			return err
		})
		require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v", errs)
		for _, err := range errs {
			if err != nil {
				require.ErrorAs(t, err, &invalid)
			}
		}
		require.Len(t, allPayments(t, s), 2)
	})
}

// A payment for an unknown order, with another amount or currency than the order's, or with a reference that was not
// begun here, is stored once even if its notices arrive at once, and is refunded in full.
func TestUnmatchedPaymentIsRefunded(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o, lost := newOrder(1, 1, v.ID), newOrder(2, 2, v.ID)
		o.Currency = "CNY"
		place(t, s, o)
		begin := func(ref string) {
			_, p, err := s.BeginPayment(t.Context(), nil, o.UserID, domain.Payment{
				OrderID: o.ID, Provider: "bank", Ref: ref, Status: domain.PaymentPending, CreatedAt: now, UpdatedAt: now,
			})
			require.NoError(t, err)
			require.Equal(t, ref, p.Ref, "a new payment")
		}
		less, more, inYen, zero := notice(o, "less"), notice(o, "more"), notice(o, "yen"), notice(lost, "zero")
		less.Amount, more.Amount, inYen.Currency, zero.Amount = 1, 1<<40, "JPY", 0

		for name, tc := range map[string]struct {
			domain.PaymentNotice
			currency string
			begun    bool
		}{
			"no order": {notice(lost, "lost"), "CNY", false}, "less": {less, "CNY", true}, "more": {more, "CNY", true},
			"currency": {inYen, "JPY", true}, "not begun here": {notice(o, "made up"), "CNY", false},
		} {
			if tc.begun {
				begin(tc.Ref)
			}
			n := tc.PaymentNotice
			var changed atomic.Int64
			allAtOnce(t, 4, func(int) error {
				settled, err := s.SettlePayment(t.Context(), "bank", n, now)
				if settled.Changed {
					changed.Add(1)
				}
				assert.Equal(t, domain.PaymentRefunding, settled.Payment.Status, name)
				assert.Equal(t, []any{n.OrderID, n.Amount, tc.currency},
					[]any{settled.Payment.OrderID, settled.Payment.Amount, settled.Payment.Currency}, name)
				return err
			})
			require.EqualValues(t, 1, changed.Load(), name)
			n.Result = domain.PaymentFailed // a failure after the success is ignored
			settled := env.Must(s.SettlePayment(t.Context(), "bank", n, now))(t)
			require.False(t, settled.Changed, name)
			n.Result = domain.PaymentSucceeded
			n.Amount += 5
			_, err := s.SettlePayment(t.Context(), "bank", n, now)
			require.ErrorAs(t, err, new(*domain.InvalidError), "%s: a payment cannot have two amounts", name)
		}
		_, err := s.SettlePayment(t.Context(), "bank", zero, now)
		require.ErrorAs(t, err, new(*domain.InvalidError))
		for _, of := range []domain.Order{lost, o} { // a failure that is stored would make a later success look begun
			none := notice(of, "none")
			none.Result = domain.PaymentFailed
			env.Fails(s.SettlePayment(t.Context(), "bank", none, now))(t, domain.ErrNotFound)
		}

		stored := env.Must(s.Order(t.Context(), o.UserID, o.ID))(t)
		require.Equal(t, domain.OrderPendingPayment, stored.Status, "the buyer can still pay the right amount")
		begin("again")
		require.Len(t, allPayments(t, s), 6)

		due := env.Must(s.DueRefunds(t.Context(), 10, func(int) time.Duration { return time.Minute }))(t)
		require.Len(t, due, 5)
		for _, p := range due {
			order := env.Must(s.FinishRefund(t.Context(), p.ID, now))(t)
			require.Nil(t, order)
		}
		b := env.Must(s.Backlog(t.Context()))(t)
		require.Zero(t, b.Refunds)
		require.Equal(t, []string{"provider return_money", "provider money_returned"}, auditTrail(t, s, lost.ID))
		requireTotals(t, s, v.ID, 9, 1)
	})
}

func refundOf(o domain.Order, at time.Time) domain.OrderMove {
	return domain.OrderMove{OrderID: o.ID, By: domain.Actor{Kind: domain.ActorBuyer, ID: o.UserID}, At: at}
}
