package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestServerKilledInMidRush kills the server with SIGKILL. Buyers without an answer send their request again.
func TestServerKilledInMidRush(t *testing.T) {
	t.Parallel()
	rig.Core("lock/mariadb", "queue/mariadb").Full("lock/embedded", "queue/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		addr := rig.FreeAddr(t)
		p := s.Spawn(t, addr)
		c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)
		wait := rig.LongRush(t, s, c, time.Second)

		p.Kill()
		s.Verify(t)
		s.Spawn(t, addr)

		r := wait()
		rig.RequireSoldOut(t, s, c, r)
		rig.RequireInvariants(t, s, c, r)
	})
}

// TestDependenciesKilledInMidRush kills and restarts Redis, then the database.
func TestDependenciesKilledInMidRush(t *testing.T) {
	t.Parallel()
	rig.Core("lock/mariadb", "queue/mariadb").Full("lock/embedded", "batch/mariadb", "lock/mysql", "queue/mysql").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		if !s.IsEmbedded() {
			s = s.OwnDatabase(t)
		}
		p := s.Serve(t)
		p.MayRefuse() // while Redis or the database is down
		tokens := s.Tokens(t, 801)
		outsider := tokens[800]
		c := rig.BuyersOf(p.Sale(t, 600), 600, tokens[:800], p)
		wait := rig.LongRush(t, s, c, 4*time.Second)

		s.KillRedis()
		requireUnavailable(t, p, outsider, c.VoucherID)
		require.NoError(t, s.RestartRedis())
		rig.RequireReady(t, p)

		if s.Database != nil {
			s.Database.Kill()
			if s.Lane == "queue" {
				requireNotReady(t, p) // buyers are still admitted: TestQueueAdmitsWithoutDatabase
			} else {
				requireUnavailable(t, p, outsider, c.VoucherID)
			}
			require.NoError(t, s.Database.Restart())
			rig.RequireReady(t, p)
		}
		r := wait()
		rig.RequireSoldOut(t, s, c, r)
		rig.RequireInvariants(t, s, c, r)
	})
}

// TestDependenciesFrozen freezes Redis or the database: connections stay open and no answer comes.
func TestDependenciesFrozen(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for name, pick := range map[string]func(*rig.Stack) freezer{
		"redis":    func(s *rig.Stack) freezer { return s.Redis },
		"database": func(s *rig.Stack) freezer { return s.Database },
	} {
		for _, lane := range rig.LockAndQueue {
			frozen(t, name, lane, pick)
		}
	}
	frozen(t, "redis", "batch", func(s *rig.Stack) freezer { return s.Redis })
}

// frozen freezes one dependency during a sale.
func frozen(t *testing.T, name, lane string, pick func(*rig.Stack) freezer) {
	t.Run(name+"/"+lane, func(t *testing.T) {
		t.Parallel()
		s := rig.RealStack(t).OwnDatabase(t).In(lane)
		p := s.Serve(t)
		p.MayRefuse() // while the dependency is frozen
		sale, tokens := p.Sale(t, 10), s.Tokens(t, 1)
		_, err := p.Voucher(t.Context(), sale)
		require.NoError(t, err)
		require.NoError(t, pick(s).Pause())
		start := time.Now()
		requireUnavailable(t, p, tokens[0], sale)
		t.Logf("503 and /readyz after %s", time.Since(start))
		require.NoError(t, pick(s).Resume())
		rig.RequireReady(t, p)
		c := rig.BuyersOf(sale, 10, tokens, p)
		r := c.Run(t.Context())
		// The unanswered purchase may have been committed.
		require.Contains(t, []string{"ok", "duplicate_order"}, r.Answers[0].Code)
		rig.RequireInvariants(t, s, c, r)
	})
}

// freezer is a server process that can be frozen with SIGSTOP.
type freezer interface {
	Pause() error
	Resume() error
}

// requireUnavailable requires 503 with Retry-After for a purchase, 503 from /readyz and 200 from /healthz.
func requireUnavailable(t *testing.T, p *rig.Server, token, sale string) {
	t.Helper()
	_, err := p.Place(t.Context(), token, sale)
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "unavailable", problem.Code)
	require.Positive(t, problem.RetryAfter)
	requireNotReady(t, p)
}

func requireNotReady(t *testing.T, p *rig.Server) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, rig.Fetch(t, p.URL+"/readyz").Status)
	require.Equal(t, http.StatusOK, rig.Fetch(t, p.URL+"/healthz").Status)
}
