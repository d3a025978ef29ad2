package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestQueueAdmitsWithoutDatabase admits buyers while the database is down, up to the backlog limit. Every admitted
// buyer gets an order.
func TestQueueAdmitsWithoutDatabase(t *testing.T) {
	env.Full(t)
	t.Parallel()
	const room, buyers = 50, 80
	s := rig.RealStack(t).OwnDatabase(t).In("queue").With("SECKILL_QUEUE_BACKLOG=50")
	p := s.Serve(t)
	p.MayRefuse() // while the database is down
	sale, tokens := p.Sale(t, 200), s.Tokens(t, buyers+1)
	first := p.Queue(t, tokens[buyers], sale) // caches the sale and loads the gate
	rig.RequireOrdered(t, p, tokens[buyers], first)
	rig.RequireSettled(t, s)

	s.Database.Kill()
	answers := make([]rig.Answer, buyers)
	start := time.Now()
	answers[0] = p.Once(t, rig.Purchase(sale, tokens[0]).With("Prefer", "wait=2"))
	t.Logf("202 without a database, with Prefer: wait=2, after %s", time.Since(start))
	var wg sync.WaitGroup
	for i := 1; i < buyers; i++ {
		wg.Go(func() { answers[i] = p.Once(t, rig.Purchase(sale, tokens[i])) })
	}
	wg.Wait()
	requireNotReady(t, p)
	admitted, late := map[int]string{}, 0 // order ids by buyer
	for i, a := range answers {
		if a.Status == http.StatusAccepted {
			admitted[i] = rig.RequireQueued(t, a)
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
		if a.Body["code"] == "unavailable" { // on a busy machine the answer of an admission can be too late
			late++
			continue
		}
		require.Equal(t, "overloaded", a.Body["code"])
	}
	require.LessOrEqual(t, len(admitted), room)
	require.GreaterOrEqual(t, len(admitted)+late, room)

	// An order may be committed already, in which case "queued" would be wrong. At once, because each read waits for the database.
	reads := make([]rig.Answer, buyers)
	concurrently(buyers, func(i int) {
		if admitted[i] != "" {
			reads[i], _ = p.Send(t.Context(), rig.Get("/orders/"+admitted[i], tokens[i]))
		}
	})
	for i := range admitted {
		rig.RequireProblem(t, http.StatusServiceUnavailable, "unavailable", reads[i])
	}

	require.NoError(t, s.Database.Restart())
	for i, id := range admitted {
		rig.RequireOrdered(t, p, tokens[i], id)
	}
	rig.RequireStock(t, p.Client, sale, int64(200-1-room))
	s.Verify(t)
}

// TestWorkerKilledAroundCommit kills a worker's process with SIGKILL before, during and after the commit of a batch. A
// second server takes over.
func TestWorkerKilledAroundCommit(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before", "amid", "after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			if point != "amid" {
				env.Full(t)
			}
			s := rig.RealStack(t)
			s, addr := s.In("queue"), rig.FreeAddr(t)
			doomed := s.With(rig.EnvKill+"="+point).Spawn(t, addr)
			c := buyersOf(doomed.Sale(t, 400), 400, s.Tokens(t, 600), doomed)
			done := make(chan *rush.Report, 1)
			go func() { done <- c.Run(t.Context()) }()
			<-doomed.Done
			successor := s.With(rig.EnvRedeliver+"=1s").Spawn(t, addr)
			r := <-done
			requireSoldOut(t, s, c, r)
			requireConfirmed(t, successor, c, r)
		})
	}
}

// requireConfirmed requires that every admitted buyer has a committed order.
func requireConfirmed(t *testing.T, p *rig.Server, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	for i, a := range r.Answers {
		id := map[string]string{"ok": a.Order.ID, "duplicate_order": a.OrderID}[a.Code]
		if id == "" {
			continue
		}
		o := rig.Answered(t, func() (rush.Order, error) { return p.Order(t.Context(), c.Tokens[i], id) })
		require.Equal(t, "pending_payment", o.Status)
	}
}

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
	requireReady(t, p)

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

	rig.Poison(t, s, userOf(t, other))
	_, deadLetter = rig.PlacePoisoned(t, p, p.Sale(t, 1), other, admin)
	s.Exits(t, 0, "dead-letters", "discard", deadLetter)
	require.Empty(t, p.Items(t, rig.Get("/admin/dead-letters", admin)))
	s.Verify(t)
}
