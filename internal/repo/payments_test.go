package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		for i, off := range []time.Duration{-time.Hour, time.Hour} {
			o := place(t, s, newOrder(int64(1+i), int64(1+i), v.ID))
			paid := pay(t, s, o, fmt.Sprint("ref-", i))
			env.Must(s.BeginRefund(t.Context(), refundOf(o, time.Now().Add(off))))(t)
			pauses := []time.Duration{0, 10 * time.Minute}
			wait := func(tries int) time.Duration { return pauses[tries] }
			for range pauses {
				due := env.Must(s.DueRefunds(t.Context(), 10, wait))(t)
				require.Equal(t, paid.ID, env.Only(t, due, "at once, although the clock is off by %s", off).ID)
			}
			require.Empty(t, env.Must(s.DueRefunds(t.Context(), 10, wait))(t), "the next attempt is not due yet")
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
				clock := databaseTime(t, s)
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
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		clock := databaseTime(t, s)
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
			4: {-time.Hour, 10 * time.Second, 70 * time.Second}, // after an outage
		} {
			o := newOrder(id, id, v.ID)
			o.ExpiresAt = clock.Add(tc.end)
			place(t, s, o)
			ref := fmt.Sprint("ref-", id)
			env.Must(begin(t.Context(), s, o, ref))(t)
			require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE payments SET next_try_at = created_at WHERE provider_ref = ?", ref).Error)
			due := env.Only(t, env.Must(s.DueInquiries(t.Context(), "bank", 10, wait))(t))
			var row paymentRow
			require.NoError(t, s.db.Reader(t.Context()).Take(&row, due.ID).Error)
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

// Two payments of one order are refunded, the unmatched one first. The order stays in refunding until the other refund
// is finished.
func TestOrderIsRefundedAfterLastPayment(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		o := place(t, s, newOrder(1, 1, v.ID))
		first := pay(t, s, o, "first")
		second := env.Must(s.SettlePayment(t.Context(), "bank", notice(o, "second"), now))(t)
		env.Must(s.BeginRefund(t.Context(), refundOf(o, now)))(t)
		refunded := env.Must(s.FinishRefund(t.Context(), second.Payment, now.Add(time.Second)))(t)
		require.False(t, refunded.Freed)
		requireTotals(t, s, v.ID, 9, 1)
		var touched orderRow
		require.NoError(t, s.db.Reader(t.Context()).Take(&touched, o.ID).Error)
		require.Equal(t, now.Add(time.Second), touched.UpdatedAt, "Galera lets one of two refunds on two nodes fail and see the other")
		refunded = env.Must(s.FinishRefund(t.Context(), first, now))(t)
		require.True(t, refunded.Freed)
		require.Equal(t, domain.OrderRefunded, refunded.Order.Status)
		require.Zero(t, refunded.Order.Slot)
		requireTotals(t, s, v.ID, 10, 0)
		require.Equal(t, []string{
			"provider pay", "provider return_money", "buyer refund", "provider money_returned", "provider refunded",
		}, auditTrail(t, s, o.ID))
		env.Fails(s.FinishRefund(t.Context(), domain.Payment{OrderID: o.ID, Ref: "none"}, now))(t, domain.ErrNotFound)
	})
}

func TestBacklogCountsDueRefunds(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		b := env.Must(s.Backlog(t.Context()))(t)
		require.Equal(t, Backlog{}, b)
		for i, since := range []time.Duration{time.Minute, time.Hour, -time.Hour} {
			o := place(t, s, newOrder(int64(1+i), int64(1+i), v.ID))
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

// A reference belongs to one order and one provider, even if two notices with a new reference arrive at once. Case counts.
func TestReferenceBelongsToOneOrder(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		one, two := newOrder(1, 1, v.ID), newOrder(2, 2, v.ID)
		one.Currency, two.Currency = "CNY", "CNY"
		place(t, s, one)
		place(t, s, two)
		var invalid *domain.InvalidError
		pay(t, s, one, "ref")
		env.Fails(s.SettlePayment(t.Context(), "bank", notice(two, "ref"), now))(t, &invalid)
		env.Fails(s.SettlePayment(t.Context(), "another bank", notice(one, "ref"), now))(t, &invalid)
		second := env.Must(s.SettlePayment(t.Context(), "bank", notice(one, "Ref"), now))(t)
		require.Equal(t, domain.PaymentRefunding, second.Payment.Status, "of an order that was paid twice")

		errs := atOnce(2, func(i int) error {
			_, err := s.SettlePayment(t.Context(), "bank", notice([]domain.Order{one, two}[i], "new"), now)
			return err
		})
		require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v", errs)
		require.ErrorAs(t, errors.Join(errs...), &invalid)
		require.Len(t, allPayments(t, s), 3)
	})
}

// A payment for an unknown order, with another amount or currency than the order's, or with a reference that was not
// begun here, is stored once even if its notices arrive at once, and is refunded in full.
func TestUnmatchedPaymentIsRefunded(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		o, lost := newOrder(1, 1, v.ID), newOrder(2, 2, v.ID)
		o.Currency = "CNY"
		place(t, s, o)
		begin := func(ref string) {
			require.Equal(t, ref, env.Must(begin(t.Context(), s, o, ref))(t).Ref, "a new payment")
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
			require.False(t, env.Must(s.SettlePayment(t.Context(), "bank", n, now))(t).Changed, name)
			n.Result = domain.PaymentSucceeded
			n.Amount += 5
			env.Fails(s.SettlePayment(t.Context(), "bank", n, now))(t, new(*domain.InvalidError), "%s: a payment cannot have two amounts", name)
		}
		env.Fails(s.SettlePayment(t.Context(), "bank", zero, now))(t, new(*domain.InvalidError))
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
			require.False(t, env.Must(s.FinishRefund(t.Context(), p, now))(t).Freed)
		}
		require.Zero(t, env.Must(s.Backlog(t.Context()))(t).Refunds)
		require.Equal(t, []string{"provider return_money", "provider money_returned"}, auditTrail(t, s, lost.ID))
		log := env.Must(s.AuditLog(t.Context(), domain.AuditFilter{OrderID: o.ID, Page: domain.Page{Limit: 99}}))(t)
		require.Contains(t, fmt.Sprint(log), "yen: received 100 JPY for an order of 1.00 CNY")
		requireTotals(t, s, v.ID, 9, 1)
	})
}

// A part of the money, or other money, that went back before the success arrived does not end the payment.
func TestPartOfMoneyReturnsBeforeSuccess(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		o := place(t, s, newOrder(1, 1, v.ID))
		env.Must(begin(t.Context(), s, o, "ref"))(t)

		for _, result := range []domain.PaymentStatus{domain.PaymentRefunded, domain.PaymentDisputed} {
			part, other := notice(o, "ref"), notice(o, "ref")
			part.Result, other.Result = result, result
			part.Amount--
			other.Currency = "JPY"
			env.Fails(s.SettlePayment(t.Context(), "bank", part, now))(t, new(*domain.InvalidError))
			env.Fails(s.SettlePayment(t.Context(), "bank", other, now))(t, new(*domain.InvalidError))
		}

		settled := env.Must(s.SettlePayment(t.Context(), "bank", notice(o, "ref"), now))(t)
		require.Equal(t, domain.OrderPaid, settled.Order.Status)
	})
}

// An order is paid in its own currency, even if ISO 4217 has withdrawn it since, or another program wrote it in small letters.
// Other money is a currency of today.
func TestPaidInCurrencyOfOrder(t *testing.T) {
	onEachSale(t, 10, 2, func(t *testing.T, s *Store, v domain.Voucher) {
		for i, currency := range []string{"BGN", "cny"} {
			o := newOrder(int64(1+i), int64(1+i), v.ID)
			o.Currency = currency
			place(t, s, o)
			env.Must(begin(t.Context(), s, o, currency))(t)

			n := notice(o, currency)
			n.Currency = "DEM"
			env.Fails(s.SettlePayment(t.Context(), "bank", n, now))(t, new(*domain.InvalidError))

			n.Currency = strings.ToUpper(currency)
			settled := env.Must(s.SettlePayment(t.Context(), "bank", n, now))(t)
			require.Equal(t, domain.OrderPaid, settled.Order.Status, currency)
			require.Equal(t, currency, settled.Payment.Currency)

			// An earlier release stored the currency of the notice.
			stored := s.db.Writer(t.Context()).Model(&paymentRow{}).Where("id = ?", settled.Payment.ID)
			require.NoError(t, stored.Update("currency", n.Currency).Error)
			env.Must(s.SettlePayment(t.Context(), "bank", n, now))(t)
		}
	})
}

func refundOf(o domain.Order, at time.Time) domain.OrderMove {
	return domain.OrderMove{OrderID: o.ID, By: domain.Actor{Kind: domain.ActorBuyer, ID: o.UserID}, At: at}
}

// runTogether runs all functions at once. turn rotates the order of their start, so that none always wins.
func runTogether(turn int, fns ...func()) {
	atOnce(len(fns), func(i int) error {
		fns[(i+turn)%len(fns)]()
		return nil
	})
}

// overdueOrder returns an order whose time to pay is over by every clock.
func overdueOrder(id, user, voucher int64) domain.Order {
	o := newOrder(id, user, voucher)
	o.ExpiresAt = now.AddDate(-20, 0, 0)
	return o
}

func place(t *testing.T, s *Store, o domain.Order) domain.Order {
	t.Helper()
	env.Must(placeOrder(t.Context(), s, o, 1))(t)
	return o
}

func begin(ctx context.Context, s *Store, o domain.Order, ref string) (domain.Payment, error) {
	_, p, err := s.BeginPayment(ctx, nil, o.UserID, domain.Payment{
		OrderID: o.ID, Provider: "bank", Ref: ref, Status: domain.PaymentPending, CreatedAt: now, UpdatedAt: now,
	})
	return p, err
}

func notice(o domain.Order, ref string) domain.PaymentNotice {
	return domain.PaymentNotice{Ref: ref, OrderID: o.ID, Amount: o.Amount, Result: domain.PaymentSucceeded}
}

func pay(t *testing.T, s *Store, o domain.Order, ref string) domain.Payment {
	t.Helper()
	env.Must(begin(t.Context(), s, o, ref))(t)
	settled := env.Must(s.SettlePayment(t.Context(), "bank", notice(o, ref), now))(t)
	require.Equal(t, domain.OrderPaid, settled.Order.Status)
	return settled.Payment
}

func auditTrail(t *testing.T, s *Store, order int64) []string {
	t.Helper()
	entries := env.Must(s.AuditLog(t.Context(), domain.AuditFilter{OrderID: order, Page: domain.Page{Limit: 99}}))(t)
	var actions []string
	for _, e := range slices.Backward(entries) {
		actions = append(actions, string(e.Kind)+" "+e.Action)
	}
	return actions
}

func finishDueRefunds(t *testing.T, s *Store) (refunded []domain.Order) {
	t.Helper()
	for {
		due := env.Must(s.DueRefunds(t.Context(), 100, func(int) time.Duration { return time.Minute }))(t)
		if len(due) == 0 {
			return refunded
		}
		for _, p := range due {
			settled := env.Must(s.FinishRefund(t.Context(), p, now))(t)
			if settled.Freed {
				refunded = append(refunded, settled.Order)
			}
		}
	}
}

// TestConcurrentEndsOfOneOrder runs two closers, a payment and a cancellation of one order at once, a thousand times
// over the two databases. One of them wins, the unit returns at most once, the audit log has only the winner, and a
// payment that lost is refunded.
func TestConcurrentEndsOfOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		n := env.ByLevel(5, 100)
		v := newSale(t, s, int64(n), 1)
		wins, ends := map[string]int{}, map[string]domain.PaymentStatus{}
		for round := range n {
			o, ref := overdueOrder(int64(1+round), int64(1+round), v.ID), fmt.Sprint("ref-", round)
			place(t, s, o)
			env.Must(begin(t.Context(), s, o, ref))(t)

			winners := make(chan string, 100) // as the audit log must list them
			var payment domain.Payment
			closer := func() {
				closed, err := s.CloseExpired(t.Context(), 10, true)
				assert.NoError(t, err)
				for range closed {
					winners <- "system expire"
				}
			}
			runTogether(round, closer, closer,
				func() {
					settled, err := s.SettlePayment(t.Context(), "bank", notice(o, ref), now)
					assert.NoError(t, err, "a late notice is accepted")
					payment = settled.Payment
					if settled.Order.Status == domain.OrderPaid {
						winners <- "provider pay"
					}
				},
				func() {
					_, err := cancel(t.Context(), s, o.UserID, o.ID, now)
					if err == nil {
						winners <- "buyer cancel"
						return
					}
					assert.ErrorIs(t, err, domain.ErrInvalidState)
				})

			require.Len(t, winners, 1, "round %d", round)
			winner := <-winners
			wins[winner]++
			want := []string{winner}
			if winner == "provider pay" {
				require.Equal(t, domain.PaymentSucceeded, payment.Status)
				ends[ref] = domain.PaymentSucceeded
			} else {
				require.Equal(t, domain.PaymentRefunding, payment.Status)
				ends[ref] = domain.PaymentRefunded
				want = append(want, "provider return_money")
			}
			require.Equal(t, want, auditTrail(t, s, o.ID), "round %d", round)
			requireTotals(t, s, v.ID, int64(n-wins["provider pay"]), int64(wins["provider pay"]))
		}
		t.Logf("winners: %v", wins)
		require.Empty(t, finishDueRefunds(t, s), "only unmatched payments are refunded")
		for _, p := range allPayments(t, s) {
			require.Equal(t, ends[p.Ref], p.Status, p.Ref)
		}
		requireTotals(t, s, v.ID, int64(n-wins["provider pay"]), int64(wins["provider pay"]))
	})
}

func allPayments(t *testing.T, s *Store) (rows []paymentRow) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Order("id").Find(&rows).Error)
	return rows
}

// Money that went back at the provider returns the unit once, whatever happens to the order meanwhile; a redeemed order
// keeps it.
func TestReversalRacesMoves(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		n := env.ByLevel(5, 100)
		v := newSale(t, s, int64(n), 1)
		redeemed := 0
		for round := range n {
			o := place(t, s, newOrder(int64(1+round), int64(1+round), v.ID))
			ref := fmt.Sprint("ref-", round)
			paid := pay(t, s, o, ref)
			var freed atomic.Int64
			reverse := func(result domain.PaymentStatus) func() {
				return func() {
					n := notice(o, ref)
					n.Result = result
					settled, err := s.SettlePayment(t.Context(), "bank", n, now)
					if assert.NoError(t, err) && settled.Freed {
						freed.Add(1)
					}
				}
			}
			var redeemErr error
			runTogether(round, reverse(domain.PaymentRefunded), reverse(domain.PaymentRefunded), reverse(domain.PaymentDisputed),
				func() {
					_, redeemErr = s.MoveOrder(t.Context(), domain.OrderMove{Move: domain.MoveRedeem, OrderID: o.ID, By: admin, At: now})
				},
				func() {
					_, err := s.BeginRefund(t.Context(), refundOf(o, now))
					assert.True(t, err == nil || errors.Is(err, domain.ErrInvalidState), err)
				},
				func() {
					settled, err := s.ReturnOutside(t.Context(), domain.OutsideReturn{OrderID: o.ID, Ref: ref, Reason: "by transfer", By: admin, At: now})
					assert.True(t, err == nil || errors.Is(err, domain.ErrInvalidState), err)
					if settled.Freed {
						freed.Add(1)
					}
				},
				func() {
					settled, err := s.FinishRefund(t.Context(), paid, now)
					if assert.NoError(t, err) && settled.Freed {
						freed.Add(1)
					}
				})

			got := env.Must(s.Order(t.Context(), o.UserID, o.ID))(t)
			require.True(t, got.Disputed)
			if redeemErr == nil {
				redeemed++
				require.Equal(t, domain.OrderRedeemed, got.Status)
				require.Zero(t, freed.Load())
				continue
			}
			require.Equal(t, domain.OrderRefunded, got.Status)
			require.EqualValues(t, 1, freed.Load(), "the unit is returned to the gate once")
		}
		for _, p := range allPayments(t, s) {
			require.Equal(t, domain.PaymentDisputed, p.Status)
		}
		requireTotals(t, s, v.ID, int64(n-redeemed), int64(redeemed))
	})
}

// Two payments of one order succeed at once; one was reported as failed before. One of them pays the order and the other is refunded. A later refund of
// the order completes even if it runs beside the refund of the other payment.
func TestSecondPaymentIsRefunded(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		n := env.ByLevel(5, 100)
		v := newSale(t, s, int64(n), 1)
		for round := range n {
			o := place(t, s, newOrder(int64(1+round), int64(1+round), v.ID))
			env.Must(begin(t.Context(), s, o, fmt.Sprint("one", round)))(t)
			failed := notice(o, fmt.Sprint("one", round))
			failed.Result = domain.PaymentFailed
			env.Must(s.SettlePayment(t.Context(), "bank", failed, now))(t)
			env.Must(begin(t.Context(), s, o, fmt.Sprint("two", round)))(t)
			var settled [3]domain.Settled
			var refundErr error
			allAtOnce(t, len(settled), func(i int) (err error) {
				ref := []string{"one", "two", "one"}[i]
				settled[i], err = s.SettlePayment(t.Context(), "bank", notice(o, fmt.Sprint(ref, round)), now)
				return err
			})
			require.Equal(t, settled[0].Payment, settled[2].Payment)
			require.NotEqual(t, settled[0].Changed, settled[2].Changed, "one of the two equal notices changes the payment")
			require.ElementsMatch(t, []domain.PaymentStatus{domain.PaymentSucceeded, domain.PaymentRefunding},
				[]domain.PaymentStatus{settled[0].Payment.Status, settled[1].Payment.Status})
			runTogether(round,
				func() { _, refundErr = s.BeginRefund(t.Context(), refundOf(o, now)) },
				func() { finishDueRefunds(t, s) })
			require.NoError(t, refundErr)
			finishDueRefunds(t, s)
			require.Equal(t, domain.OrderRefunded, env.Must(s.Order(t.Context(), o.UserID, o.ID))(t).Status)
			require.Equal(t, 1, strings.Count(strings.Join(auditTrail(t, s, o.ID), ","), "provider refunded"))
		}
		for _, p := range allPayments(t, s) {
			require.Equal(t, domain.PaymentRefunded, p.Status)
		}
		requireTotals(t, s, v.ID, int64(n), 0)
	})
}

// Concurrent requests to pay one order get the same payment.
func TestConcurrentBeginPayment(t *testing.T) {
	onEachSale(t, 50, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		for round := range 20 {
			o := place(t, s, newOrder(int64(1+round), int64(1+round), v.ID))
			var payments [4]domain.Payment
			allAtOnce(t, len(payments), func(i int) (err error) {
				payments[i], err = begin(t.Context(), s, o, fmt.Sprint("ref-", round, "-", i))
				return err
			})
			for _, p := range payments {
				require.Equal(t, payments[0], p)
			}
			require.Len(t, env.Must(s.Payments(t.Context(), o.UserID, o.ID))(t), 1)
		}
	})
}

// Concurrent changes of one sale lose no update: each works on the result of the one before, of other fields too, and the
// audit log has an unbroken chain of old and new values.
func TestConcurrentChangesOfOneVoucher(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const admins = 4
		v := newSale(t, s, 5, 1)
		n := env.ByLevel(1, 20)
		allAtOnce(t, admins, func(i int) (err error) {
			for range n {
				_, failed := s.ChangeVoucher(t.Context(), v.ID, admin, func(v *domain.Voucher) (string, error) {
					// Orders change it at the same time, so it is not written.
					v.Sale.Stock = 99
					switch i { // two admins change one field, the others each their own
					case 2:
						v.ActualValue++
					case 3:
						v.Sale.EndAt = v.Sale.EndAt.Add(time.Second)
					default:
						v.PayValue++
						return fmt.Sprintf("price: %d -> %d", v.PayValue-1, v.PayValue), nil
					}
					return "", nil
				})
				err = errors.Join(err, failed)
			}
			return err
		})
		stored := env.Must(s.Voucher(t.Context(), v.ID))(t)
		require.Equal(t, v.PayValue+2*int64(n), stored.PayValue)
		require.Equal(t, v.ActualValue+int64(n), stored.ActualValue)
		require.Equal(t, v.Sale.EndAt.Add(time.Duration(n)*time.Second), stored.Sale.EndAt)
		require.Equal(t, v.Sale.Stock, stored.Sale.Stock)

		entries := env.Must(s.AuditLog(t.Context(), domain.AuditFilter{VoucherID: v.ID, Page: domain.Page{Limit: 1 + admins*n}}))(t)
		price := v.PayValue
		for _, e := range slices.Backward(entries) {
			if strings.HasPrefix(e.Detail, "price") {
				require.Equal(t, fmt.Sprintf("price: %d -> %d", price, price+1), e.Detail)
				price++
			}
		}
		require.Equal(t, stored.PayValue, price)
	})
}
