package repo

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/service"
)

// TestRefundsAreDueByTheDatabasesClock: an instance whose clock is ahead does not make a buyer wait for his money, nor
// does one that is behind ask the provider in the midst of a pause.
func TestRefundsAreDueByTheDatabasesClock(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		for i, off := range []time.Duration{-time.Hour, time.Hour} {
			o := newOrder(int64(1+i), int64(1+i), v.ID)
			place(t, s, o)
			paid := pay(t, s, o, fmt.Sprint("ref-", i))
			_, err := s.BeginRefund(t.Context(), refundOf(o, time.Now().Add(off)))
			require.NoError(t, err)
			due, err := s.DueRefunds(t.Context(), 10, func(int) time.Duration { return 10 * time.Minute })
			require.NoError(t, err)
			require.Len(t, due, 1, "at once, although the clock is off by %s", off)
			require.Equal(t, paid.ID, due[0].ID)
			due, err = s.DueRefunds(t.Context(), 10, func(int) time.Duration { return 10 * time.Minute })
			require.NoError(t, err)
			require.Empty(t, due, "it is being asked for")
		}
	})
}

// TestReferencesAreExact: two references are two payments, also if they differ in nothing but capitals.
func TestReferencesAreExact(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o := newOrder(1, 1, v.ID)
		place(t, s, o)
		pay(t, s, o, "pi_3MtwBwLkdIwHu7ix")
		settled, err := s.SettlePayment(t.Context(), "bank", notice(o, "pi_3MtwBwLkdIwHu7iX"), now)
		require.NoError(t, err)
		require.Equal(t, service.PaymentRefunding, settled.Payment.Status, "it was paid twice, and one goes back")
		require.Len(t, allPayments(t, s), 2)
	})
}

// TestRefundedWhenAllMoneyIsBack: of two payments that go back, the one that the order did not want may come first. The
// order waits for the other.
func TestRefundedWhenAllMoneyIsBack(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o := newOrder(1, 1, v.ID)
		place(t, s, o)
		first := pay(t, s, o, "first")
		second, err := s.SettlePayment(t.Context(), "bank", notice(o, "second"), now)
		require.NoError(t, err)
		_, err = s.BeginRefund(t.Context(), refundOf(o, now))
		require.NoError(t, err)
		refunded, err := s.FinishRefund(t.Context(), second.Payment.ID, now)
		require.NoError(t, err)
		require.Nil(t, refunded)
		requireBooks(t, s, v.ID, 9, 1)
		refunded, err = s.FinishRefund(t.Context(), first.ID, now)
		require.NoError(t, err)
		require.Equal(t, service.OrderRefunded, refunded.Status)
		require.Zero(t, refunded.Slot)
		requireBooks(t, s, v.ID, 10, 0)
		require.Equal(t, []string{
			"provider pay", "provider return_money", "buyer refund", "provider money_returned", "provider refunded",
		}, trail(t, s, o.ID))
		_, err = s.FinishRefund(t.Context(), 999, now)
		require.ErrorIs(t, err, service.ErrNotFound)
	})
}

// TestBacklogOfRefunds counts what is to go back, and since when.
func TestBacklogOfRefunds(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		b, err := s.Backlog(t.Context())
		require.NoError(t, err)
		require.Equal(t, Backlog{}, b)
		for i, since := range []time.Duration{time.Minute, time.Hour, -time.Hour} {
			o := newOrder(int64(1+i), int64(1+i), v.ID)
			place(t, s, o)
			pay(t, s, o, fmt.Sprint("ref-", i))
			_, err = s.BeginRefund(t.Context(), refundOf(o, time.Now().Add(-since)))
			require.NoError(t, err)
		}
		b, err = s.Backlog(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, b.Refunds)
		require.InDelta(t, time.Hour, b.OldestRefund, float64(10*time.Minute))
		returnMoney(t, s)
		b, err = s.Backlog(t.Context())
		require.NoError(t, err)
		require.Equal(t, Backlog{}, b)
	})
}

// TestRefundOfWhatWasNotPaid: an order that is paid without a payment of ours has no money to wait for.
func TestRefundOfWhatWasNotPaid(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o := newOrder(1, 1, v.ID)
		place(t, s, o)
		_, err := s.MoveOrder(t.Context(), service.OrderMove{Move: service.MovePay, OrderID: o.ID, By: admin, At: now})
		require.NoError(t, err)
		got, err := s.BeginRefund(t.Context(), refundOf(o, now))
		require.NoError(t, err)
		require.Equal(t, service.OrderRefunded, got.Status)
		require.Equal(t, []string{"admin pay", "buyer refund", "system refunded"}, trail(t, s, o.ID))
		requireBooks(t, s, v.ID, 10, 0)
	})
}

// TestNoticeOfAnotherOrder: a reference belongs to one order and one provider, also when it was never seen before.
func TestNoticeOfAnotherOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		one, two := newOrder(1, 1, v.ID), newOrder(2, 2, v.ID)
		one.Currency, two.Currency = "CNY", "CNY"
		place(t, s, one)
		place(t, s, two)
		var invalid *service.InvalidError
		inYen := notice(one, "ref")
		inYen.Currency = "JPY"
		_, err := s.SettlePayment(t.Context(), "bank", inYen, now)
		require.ErrorAs(t, err, &invalid)
		pay(t, s, one, "ref")
		_, err = s.SettlePayment(t.Context(), "bank", notice(two, "ref"), now)
		require.ErrorAs(t, err, &invalid)
		_, err = s.SettlePayment(t.Context(), "another bank", notice(one, "ref"), now)
		require.ErrorAs(t, err, &invalid)

		var errs [2]error // and both at once
		tell := func(i int, o service.Order) func() {
			return func() { _, errs[i] = s.SettlePayment(t.Context(), "bank", notice(o, "new"), now) }
		}
		together(0, tell(0, one), tell(1, two))
		require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v", errs)
		for _, err := range errs {
			if err != nil {
				require.ErrorAs(t, err, &invalid)
			}
		}
		require.Len(t, allPayments(t, s), 2)
	})
}

// refundOf asks for a refund by the buyer.
func refundOf(o service.Order, at time.Time) service.OrderMove {
	return service.OrderMove{OrderID: o.ID, UserID: o.UserID, By: service.Actor{Kind: service.ActorBuyer, ID: o.UserID}, At: at}
}
