package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

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
			_, errA := a.PlaceWithPass(t.Context(), tokens[0], sale, "")
			_, errB := b.PlaceWithPass(t.Context(), tokens[0], sale, "")
			return rig.HasCode(errA, "entry_required") && rig.HasCode(errB, "entry_required")
		})
		passes := make([]string, len(tokens))
		for i, token := range tokens {
			passes[i] = rig.Answered(t, func() (string, error) { return a.Enter(t.Context(), token, sale) })
		}
		b.Refuses(t, "entry_required", tokens[1], sale, passes[0])
		keyed := func(p *rig.Server) rig.Answer {
			return p.Once(t, rig.Purchase(sale, tokens[0]).Pass(passes[0]).Keyed("k").With("Prefer", "wait=3"))
		}
		var first rig.Answer
		rig.Eventually(t, "the purchase is an order", func() bool { first = keyed(b); return first.Status == http.StatusCreated })

		a.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", admin, map[string]any{"revoke": true}))
		a.Refuses(t, "entry_required", tokens[1], sale, passes[1])
		next := 1
		rig.Eventually(t, "the other server refuses the passes", func() bool {
			next++
			_, err := b.PlaceWithPass(t.Context(), tokens[next], sale, passes[next])
			return rig.HasCode(err, "entry_required")
		})
		for i := next; i < len(tokens); i++ {
			b.Refuses(t, "entry_required", tokens[i], sale, passes[i])
		}
		var again rig.Answer
		rig.Eventually(t, "the server is not too busy", func() bool { again = keyed(a); return again.Status == http.StatusCreated })
		require.Equal(t, first.Body["id"], again.Body["id"], "a repeated request returns its order")

		c := rig.BuyersOf(sale, 90, tokens, a, b) // which gets new passes
		rig.RequireInvariants(t, s, c, c.Run(t.Context()))
	})
}
