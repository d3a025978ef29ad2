package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// runTogether runs all functions at once. turn rotates the order of their start, so that none always wins.
func runTogether(turn int, fns ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range fns {
		wg.Go(func() {
			<-start
			fns[(i+turn)%len(fns)]()
		})
	}
	close(start)
	wg.Wait()
}

// rounds returns how often a race runs on each of the two databases: n times with all tests, otherwise n/20 times.
func rounds(n int) int {
	if env.IsFull() {
		return n
	}
	return n / 20
}

// overdueOrder returns an order whose time to pay is over by every clock.
func overdueOrder(id, user, voucher int64) domain.Order {
	o := newOrder(id, user, voucher)
	o.ExpiresAt = now.AddDate(-20, 0, 0)
	return o
}

func place(t *testing.T, s *Store, o domain.Order) {
	t.Helper()
	env.Must(placeOrder(t.Context(), s, o, 1))(t)
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
			o := env.Must(s.FinishRefund(t.Context(), p.ID, now))(t)
			if o != nil {
				refunded = append(refunded, *o)
			}
		}
	}
}

// TestConcurrentEndsOfOneOrder runs two closers, a payment and a cancellation of one order at once, a thousand times
// over the two databases. One of them wins, the unit returns at most once, the audit log has only the winner, and a
// payment that lost is refunded.
func TestConcurrentEndsOfOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		n := rounds(100)
		v := newSale(t, s, int64(n), 1)
		wins, refs := map[string]int{}, map[string]bool{}
		for round := range n {
			o, ref := overdueOrder(int64(1+round), int64(1+round), v.ID), fmt.Sprint("ref-", round)
			place(t, s, o)
			env.Must(begin(t.Context(), s, o, ref))(t)

			winners := make(chan string, 100) // as the audit log must list them
			var payment domain.Payment
			closer := func() {
				closed, err := s.CloseExpired(t.Context(), 10)
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
			} else {
				require.Equal(t, domain.PaymentRefunding, payment.Status)
				refs[ref] = true
				want = append(want, "provider return_money")
			}
			require.Equal(t, want, auditTrail(t, s, o.ID), "round %d", round)
			requireTotals(t, s, v.ID, int64(n-wins["provider pay"]), int64(wins["provider pay"]))
		}
		t.Logf("winners: %v", wins)
		require.Empty(t, finishDueRefunds(t, s), "only unmatched payments are refunded")
		for _, p := range allPayments(t, s) {
			if refs[p.Ref] {
				require.Equal(t, domain.PaymentRefunded, p.Status, p.Ref)
			} else {
				require.Equal(t, domain.PaymentSucceeded, p.Status, p.Ref)
			}
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
		n := rounds(100)
		v := newSale(t, s, int64(n), 1)
		redeemed := 0
		for round := range n {
			o := newOrder(int64(1+round), int64(1+round), v.ID)
			place(t, s, o)
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
					done, err := s.FinishRefund(t.Context(), paid.ID, now)
					if assert.NoError(t, err) && done != nil {
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
		n := rounds(100)
		v := newSale(t, s, int64(n), 1)
		for round := range n {
			o := newOrder(int64(1+round), int64(1+round), v.ID)
			place(t, s, o)
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
			counts := map[domain.PaymentStatus]int{}
			require.Equal(t, settled[0].Payment, settled[2].Payment)
			require.NotEqual(t, settled[0].Changed, settled[2].Changed, "one of the two equal notices changes the payment")
			counts[settled[0].Payment.Status]++
			counts[settled[1].Payment.Status]++
			require.Equal(t, map[domain.PaymentStatus]int{domain.PaymentSucceeded: 1, domain.PaymentRefunding: 1}, counts)
			runTogether(round,
				func() { _, refundErr = s.BeginRefund(t.Context(), refundOf(o, now)) },
				func() { finishDueRefunds(t, s) })
			require.NoError(t, refundErr)
			finishDueRefunds(t, s)
			got := env.Must(s.Order(t.Context(), o.UserID, o.ID))(t)
			require.Equal(t, domain.OrderRefunded, got.Status)
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
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 50, 1)
		for round := range 20 {
			o := newOrder(int64(1+round), int64(1+round), v.ID)
			place(t, s, o)
			var payments [4]domain.Payment
			allAtOnce(t, len(payments), func(i int) (err error) {
				payments[i], err = begin(t.Context(), s, o, fmt.Sprint("ref-", round, "-", i))
				return err
			})
			for _, p := range payments {
				require.Equal(t, payments[0], p)
			}
			list := env.Must(s.Payments(t.Context(), o.UserID, o.ID))(t)
			require.Len(t, list, 1)
		}
	})
}

// Admins who change one sale at once lose no update: each change works on the result of the one before, of other fields too,
// and the audit log has an unbroken chain of old and new values.
func TestConcurrentChangesOfOneVoucher(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const admins = 4
		v := newSale(t, s, 5, 1)
		n := rounds(20)
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
		prices := v.PayValue
		for _, e := range slices.Backward(entries) {
			var old, changed int64
			if _, err := fmt.Sscanf(e.Detail, "price: %d -> %d", &old, &changed); err == nil {
				require.Equal(t, []int64{prices, prices + 1}, []int64{old, changed})
				prices = changed
			}
		}
		require.Equal(t, stored.PayValue, prices)
	})
}
