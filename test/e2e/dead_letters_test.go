package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestDeadLetterIsReplayed replays an order that the database rejected, first while the sale is sold out, and discards the
// next one.
func TestDeadLetterIsReplayed(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue").With(rig.EnvRedeliver + "=300ms")
	p := s.Serve(t)
	sale, tokens, admin := p.Sale(t, 1), s.Tokens(t, 2), p.Admin(t)
	ill, other := tokens[0], tokens[1]
	user := p.Must(t, rig.Get("/me", ill))["id"].(string)
	cure := rig.Poison(t, s, user)

	order, deadLetter := rig.PlacePoisoned(t, p, sale, ill, admin)
	code, out := s.Run(t, "dead-letters", "list")
	require.Zero(t, code, out)
	for _, want := range []string{deadLetter, order, user, "poison"} {
		require.Contains(t, out, want)
	}
	s.Verify(t)

	// The unit of the failed order is free again. Once another buyer has it, a replay fails.
	unit := p.BuyReturned(t, rig.Purchase(sale, other))
	rig.RequireProblem(t, http.StatusConflict, "sold_out", p.Do(t, rig.Post("/admin/dead-letters/"+deadLetter+"/replay", admin, nil)))
	code, out = s.Run(t, "dead-letters", "replay", deadLetter)
	require.Equal(t, 1, code)
	require.Contains(t, out, "sold out; the dead letter is kept")
	rig.RequireSettled(t, s)
	p.MustCancel(t, other, unit)

	cure()
	code, out = s.Run(t, "dead-letters", "replay", deadLetter)
	require.Zero(t, code, out)
	require.Contains(t, out, "order "+order)
	rig.RequireOrdered(t, p, ill, order)
	require.Empty(t, rig.DeadLetters(t, p, admin))
	code, out = s.Run(t, "dead-letters", "replay", deadLetter)
	require.Equal(t, 1, code)
	require.Contains(t, out, "not found")

	rig.Poison(t, s, rig.UserOf(t, other))
	_, deadLetter = rig.PlacePoisoned(t, p, p.Sale(t, 1), other, admin)
	code, out = s.Run(t, "dead-letters", "discard", deadLetter)
	require.Zero(t, code, out)
	require.Empty(t, rig.DeadLetters(t, p, admin))
	s.Verify(t)
}
