package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// TestUpgradeOfEmbeddedServer starts a server on a data directory whose schema is that of version 25, in the middle of a
// sale: it changes the schema, keeps orders, keys and logins, and sells the rest.
func TestUpgradeOfEmbeddedServer(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		old := s.Serve(t)
		sale, tokens := old.Sale(t, 20), s.Tokens(t, 40)
		refresh := logIn(t, old, rig.NewPhone())["refresh_token"]
		keyed := rig.Purchase(sale, tokens[0]).Keyed("before")
		first := old.Do(t, keyed)
		cancelled := old.Buy(t, tokens[1], sale).ID
		old.MustCancel(t, tokens[1], cancelled)
		for _, token := range tokens[2:10] {
			old.Buy(t, token, sale)
		}
		require.Zero(t, old.Stop(t))
		for {
			code, out := s.Run(t, "migrate", "down")
			require.Zero(t, code, out)
			if strings.Contains(out, "rolled back 00027") {
				break
			}
		}

		p := s.Serve(t)
		require.Equal(t, first.Order(), p.Do(t, keyed).Order(), "the key has its order")
		o, err := p.Order(t.Context(), tokens[1], cancelled)
		require.NoError(t, err)
		require.Equal(t, "cancelled", o.Status)
		p.Must(t, rig.Post("/auth/refresh", "", map[string]any{"refresh_token": refresh}))

		c := rig.BuyersOf(sale, 20, tokens, p)
		r := c.Run(t.Context())
		rig.RequireSoldOut(t, s, c, r)
		rig.RequireInvariants(t, s, c, r)
		_, out := s.Run(t, "migrate", "status")
		require.NotContains(t, out, "pending")
	})
}

// logIn logs a phone in, and returns the answer.
func logIn(t *testing.T, p *rig.Server, phone string) map[string]any {
	t.Helper()
	sent := p.Do(t, rig.Post("/auth/code", "", map[string]any{"phone": phone}))
	return p.Must(t, rig.Post("/auth/login", "", map[string]any{"phone": phone, "code": sent.Header.Get("X-Demo-Code")}))
}
