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
			_, err := s.BeginRefund(t.Context(), o.UserID, o.ID, time.Now().Add(off))
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
