package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestMissedCancelReturnsUnit: a cancelled unit is on sale again although the gate missed the release, because Redis was
// unavailable.
func TestMissedCancelReturnsUnit(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	p := s.Serve(t)
	sale, tokens := p.Sale(t, 1), s.Tokens(t, 2)
	order := p.Buy(t, tokens[0], sale).ID
	p.RequireSoldOut(t, tokens[1], sale)

	s.KillRedis()
	require.True(t, p.Once(t, rig.Post("/orders/"+order+"/cancel", tokens[0], nil)).Success(), "the database decides")
	require.NoError(t, s.RestartRedis())
	p.RequireReady(t)

	p.BuyReturned(t, rig.Purchase(sale, tokens[1]))
	s.Verify(t)
}

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
	out := s.Exits(t, 0, "dead-letters", "list")
	for _, want := range []string{deadLetter, order, user, "poison"} {
		require.Contains(t, out, want)
	}
	s.Verify(t)

	// The unit of the failed order is free again. Once another buyer has it, a replay fails.
	unit := p.BuyReturned(t, rig.Purchase(sale, other))
	rig.RequireProblem(t, http.StatusConflict, "sold_out", p.Do(t, rig.Post("/admin/dead-letters/"+deadLetter+"/replay", admin, nil)))
	require.Contains(t, s.Exits(t, 1, "dead-letters", "replay", deadLetter), "sold out; the dead letter is kept")
	rig.RequireSettled(t, s)
	p.MustCancel(t, other, unit)

	cure()
	require.Contains(t, s.Exits(t, 0, "dead-letters", "replay", deadLetter), "order "+order)
	rig.RequireOrdered(t, p, ill, order)
	require.Empty(t, p.Items(t, rig.Get("/admin/dead-letters", admin)))
	require.Contains(t, s.Exits(t, 1, "dead-letters", "replay", deadLetter), "not found")

	rig.Poison(t, s, rig.UserOf(t, other))
	_, deadLetter = rig.PlacePoisoned(t, p, p.Sale(t, 1), other, admin)
	s.Exits(t, 0, "dead-letters", "discard", deadLetter)
	require.Empty(t, p.Items(t, rig.Get("/admin/dead-letters", admin)))
	s.Verify(t)
}
