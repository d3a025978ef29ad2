package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

// TestPasses checks that a sale in mode pass sells only to buyers with a pass, on every server, and that
// a revocation reaches the other server.
func TestPasses(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens, admin := s.Tokens(t, 100), a.Admin(t)
		sale := a.Sale(t, 90)
		a.Must(t, rig.Patch("/admin/vouchers/"+sale, admin, rig.PassMode))
		rig.Eventually(t, "both servers require passes", func() bool {
			_, errA := a.Place(t.Context(), tokens[0], sale, "", "")
			_, errB := b.Place(t.Context(), tokens[0], sale, "", "")
			return rig.HasCode(errA, "entry_required") && rig.HasCode(errB, "entry_required")
		})
		passes := make([]string, len(tokens))
		for i, token := range tokens {
			passes[i] = mustEntry(t, a, http.MethodPost, token, sale, "").Pass
			require.NotEmpty(t, passes[i])
		}
		requireRefused(t, b, "entry_required", tokens[1], sale, passes[0])
		keyed := func(p *rig.Server) rig.Answer {
			return p.Once(t, rig.Purchase(sale, tokens[0]).Pass(passes[0]).Keyed("k").With("Prefer", "wait=3"))
		}
		var first rig.Answer
		rig.Eventually(t, "the purchase is an order", func() bool { first = keyed(b); return first.Status == http.StatusCreated })

		a.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", admin, map[string]any{"revoke": true}))
		requireRefused(t, a, "entry_required", tokens[1], sale, passes[1])
		next := 1
		rig.Eventually(t, "the other server refuses the passes", func() bool {
			next++
			_, err := b.Place(t.Context(), tokens[next], sale, "", passes[next])
			return rig.HasCode(err, "entry_required")
		})
		for i := next; i < len(tokens); i++ {
			requireRefused(t, b, "entry_required", tokens[i], sale, passes[i])
		}
		var again rig.Answer
		rig.Eventually(t, "the server is not too busy", func() bool { again = keyed(a); return again.Status == http.StatusCreated })
		require.Equal(t, first.Body["id"], again.Body["id"], "a repeated request returns its order")

		c := withPasses(t, rig.BuyersOf(sale, 90, tokens, a, b), a)
		rig.RequireInvariants(t, s, c, c.Run(t.Context()))
	})
}

// TestHoarders lets 60 accounts that never pay compete for 50 units with 100 paying people. The accounts press first
// whenever there are units, on two servers at once. Each of them holds one unit for one pay_timeout at most, so the
// people have 40 units when the first time-out is over and all of them after the second.
func TestHoarders(t *testing.T) {
	t.Parallel()
	const units = 50
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 160)
		sale := a.Publish(t, rig.Offer{Stock: units, Entry: map[string]any{"mode": "pass", "pass_ttl": 3600}})
		hoarders := rig.BuyersOf(sale, units, tokens[:60], a, b)
		users := make([]string, len(hoarders.Tokens))
		for i, token := range hoarders.Tokens {
			users[i] = rig.UserOf(t, token)
		}
		people, paid := tokens[60:], map[string]string{} // order -> token
		left := func(p *rig.Server) int {
			return int(rig.Answered(t, func() (rush.Voucher, error) { return p.Voucher(t.Context(), sale) }).Stock)
		}
		for timeouts := range 3 {
			rig.Eventually(t, "unpaid orders are closed", func() bool { return left(a) == units-len(paid) && left(b) == units-len(paid) })
			held := len(rig.OrdersIn(withPasses(t, hoarders, a).Run(t.Context())))
			if timeouts == 0 {
				rig.Eventually(t, "the accounts hold all units", func() bool { return left(a) == 0 && left(b) == 0 })
			}
			for tries := 0; left(a) > 0 || left(b) > 0; tries++ {
				require.Less(t, tries, 1000, "the people do not get the rest")
				people = buyAndPay(t, withPasses(t, rig.BuyersOf(sale, units, people, a, b), a), a, paid)
			}
			t.Logf("after %d time-outs: the accounts hold %d units, the people have paid for %d", timeouts, held, len(paid))
			rig.RequireSettled(t, s)
			s.Exec(t, "UPDATE voucher_orders SET expires_at = created_at WHERE status = 1 AND user_id IN ("+strings.Join(users, ",")+")") // their time-out
		}
		for order, token := range paid {
			a.WaitFor(t, token, order, "paid")
		}
		require.GreaterOrEqual(t, len(paid), units*9/10)
		s.Verify(t)
	})
}

// buyAndPay lets buyers press once and pay at once. It adds the orders to paid, with the tokens of their buyers, and
// returns the buyers without an order.
func buyAndPay(t *testing.T, buyers *rush.Buyers, p *rig.Server, paid map[string]string) (without []string) {
	t.Helper()
	for i, a := range buyers.Run(t.Context()).Answers {
		order := a.Order.ID + a.OrderID // the latter if the answer to a former request was lost
		if order == "" {
			without = append(without, buyers.Tokens[i])
			continue
		}
		p.Must(t, rig.Pay(order, buyers.Tokens[i]))
		paid[order] = buyers.Tokens[i]
	}
	return without
}
