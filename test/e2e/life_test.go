package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// TestOrderFromPurchaseToRefund buys, pays through the sandbox and refunds an order. Its unit is then bought on another
// server.
func TestOrderFromPurchaseToRefund(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded", "queue/mariadb").Full("lock/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 2)
		sale := a.Sale(t, 1)
		o := a.Buy(t, tokens[0], sale)
		b.RequireSoldOut(t, tokens[1], sale)
		a.Must(t, rig.Pay(o.ID, tokens[0]))
		a.WaitFor(t, tokens[0], o.ID, "paid")
		rig.RequireProblem(t, http.StatusConflict, "invalid_state", b.Do(t, rig.Post("/orders/"+o.ID+"/cancel", tokens[0], nil)))
		a.Must(t, rig.Post("/orders/"+o.ID+"/refund", tokens[0], nil))
		a.WaitFor(t, tokens[0], o.ID, "refunded")
		b.BuyReturned(t, rig.Purchase(sale, tokens[1]))
		_, statuses := b.Payments(t, tokens[0], o.ID)
		require.Equal(t, []string{"refunded"}, statuses)
		s.Verify(t)
	})
}

// TestUnpaidOrdersAreClosed: one of two servers closes unpaid orders after their deadline, never before it. A paid
// order is not closed.
func TestUnpaidOrdersAreClosed(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 5)
		sale := a.Sale(t, 4)
		kept := a.Buy(t, tokens[0], sale)
		a.Must(t, rig.Pay(kept.ID, tokens[0]))
		a.WaitFor(t, tokens[0], kept.ID, "paid")
		s.Expire(t, kept.ID, time.Now().Add(-time.Hour))
		for _, token := range tokens[1:4] {
			o := a.Buy(t, token, sale)
			expires := time.Now().Add(time.Second)
			s.Expire(t, o.ID, expires)
			seen := b.WaitFor(t, token, o.ID, "cancelled")
			require.False(t, seen.Before(expires), "it was closed %s before its deadline", expires.Sub(seen))
			rig.RequireProblem(t, http.StatusConflict, "invalid_state", a.Do(t, rig.Pay(o.ID, token)))
		}
		b.BuyReturned(t, rig.Purchase(sale, tokens[4]))
		require.Equal(t, "paid", a.Must(t, rig.Get("/orders/"+kept.ID, tokens[0]))["status"])
		s.Verify(t)
	})
}
