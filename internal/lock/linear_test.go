package lock

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// envSeed repeats a round of the linearizability tests. The players then do the same, except for their speed.
const envSeed = "SECKILL_LOCK_SEED"

func games() []*game {
	return []*game{
		{name: "mutex", model: lockModel, kinds: []*kind{mutexKind}, claim: claimLock},
		{name: "fair", model: lockModel, kinds: []*kind{fairKind}, claim: claimLock, queues: true},
		{name: "reentrant", model: lockModel, kinds: []*kind{reentrantKind}, claim: claimLock, reenters: true},
		{name: "rw", model: lockModel, kinds: []*kind{rwReadKind, rwWriteKind}, claim: claimSide, queues: true},
		{
			name: "semaphore", model: permitModel(permits), kinds: []*kind{semaphoreKind}, claim: claimPermits, queues: true,
			pool: plainPermits.pool, give: givePermits, giveScript: releaseScript,
		},
		{
			name: "leased", model: permitModel(permits), kinds: []*kind{leasedKind}, claim: claimPermits, queues: true,
			pool: leasedPermits.pool,
		},
	}
}

const permits = 4

// claimLock has an owner if the lock can be acquired again.
func claimLock(g *game, c *Client, lock string, lease time.Duration, team string, _ *rand.Rand) (*claim, operation) {
	if !g.reenters {
		team = ""
	}
	cl := c.newClaim(g.kinds[0], keysOf(c.prefix, g.kinds[0].name, lock, fenceKey), lease, team)
	return cl, operation{what: take, id: cl.id, owner: cmp.Or(team, cl.id)}
}

// claimSide reads more often than it writes, and has no owner half of the time.
func claimSide(g *game, c *Client, lock string, lease time.Duration, team string, rng *rand.Rand) (*claim, operation) {
	k, read := g.kinds[0], true
	if rng.IntN(5) < 2 {
		k, read = g.kinds[1], false
	}
	if rng.IntN(2) == 0 {
		team = ""
	}
	cl := c.newClaim(k, rwKeys(c.prefix, lock, Owner(team)), lease, team)
	return cl, operation{what: take, id: cl.id, owner: cmp.Or(team, cl.id), read: read}
}

func claimPermits(g *game, c *Client, lock string, lease time.Duration, _ string, rng *rand.Rand) (*claim, operation) {
	n := 1 + rng.Int64N(permits)
	cl := c.newClaim(g.kinds[0], g.pool(c, lock).keys, lease, n)
	if g.give != nil {
		cl.lease = unleased
		cl.keys = requestKeys(cl.keys, cl.id)
	}
	return cl, operation{what: take, id: cl.id, n: n}
}

func givePermits(ctx context.Context, g *game, c *Client, lock string, n int64) error {
	given, err := c.Semaphore(lock).request(g.giveScript, n).doAnyway(ctx)
	if err == nil && given == 0 {
		return ErrNotHeld
	}
	return err
}

// Whatever the players do and whichever faults occur, the model allows some order of their operations. In the end no
// permit is missing or was created: a lease ends, and a release continues after its caller has left.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	rounds := env.ByLevel(3, 8)
	unjudged := env.ByLevel(2, 4)
	limit := env.ByLevel(2*time.Second, longTimeout)
	first := rand.Uint64()
	if s := os.Getenv(envSeed); s != "" {
		seed := env.Must(strconv.ParseUint(s, 10, 64))(t)
		rounds, unjudged, first = 1, 0, seed
	}
	run := func(t *testing.T, addr string, g *game, crashes bool) {
		tb, unknown := newTable(t, addr, crashes), 0
		tb.steps = env.ByLevel(fewSteps, steps)
		for seed := first; seed != first+uint64(rounds); seed++ { //nolint:gosec // not negative
			h := tb.play(t, g, seed)
			switch h.check(g, limit) {
			case porcupine.Illegal:
				report(t, h)
				require.Failf(t, "not linearizable", "%s=%d", envSeed, seed)
			case porcupine.Unknown: // the checker would need more time
				unknown++
			}
			if g.pool != nil && (g.give != nil || crashes) {
				eventually(t, "all permits are back", func() bool {
					n, err := g.pool(tb.clients[0], lockOf(t, seed)).Available(soon(t))
					return err == nil && n == permits
				})
			}
		}
		require.LessOrEqual(t, unknown, unjudged)
		t.Logf("%d rounds from %s=%d on; %d took too long to check", rounds, envSeed, first, unknown)
	}

	for _, g := range games() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			t.Run("miniredis", func(t *testing.T) {
				t.Parallel() // its leases end when the test moves its clock, much too early or too late
				run(t, env.StartMiniredis(t).Addr(), g, false)
			})
			t.Run("redis", func(t *testing.T) {
				t.Parallel()
				run(t, startRedis(t), g, true)
			})
		})
	}
}

func report(t *testing.T, h *history) {
	t.Helper()
	slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, op := range h.ops {
		back := "open"
		if op.Return != open {
			back = time.Duration(op.Return).String()
		}
		t.Logf("%v - %s: %+v %+v", time.Duration(op.Call), back, op.Input, op.Output)
	}
}

type mutant struct {
	game, fault string
	scripts     func(*kind) []**script // nil: the giveScript of the game
	what, with  string                 // replaced text, of which a script has one at most, and its replacement
}

func acquiring(k *kind) []**script { return []**script{&k.acquire} }
func renewing(k *kind) []**script  { return []**script{&k.renew} }
func freeing(k *kind) []**script   { return []**script{&k.release} }
func all(k *kind) []**script       { return []**script{&k.acquire, &k.renew, &k.release} }

var mutants = []mutant{
	{"mutex", "a second holder is admitted", acquiring, `ID, 'NX', 'PX'`, `ID, 'PX'`},
	{"mutex", "one token for all", acquiring, "  return token\n", "  return 1\n"},
	{"mutex", "every caller can renew", renewing, `if redis.call('GET', LOCK) ~= ID then return 0 end`, ``},
	{"mutex", "every caller can free", freeing, `if holder then return 0 end`, ``},
	{"mutex", "every release reports success", freeing, `if holder then return 0 end`, `if holder then return 1 end`},
	{"mutex", "the successor does not get the lock", freeing, `redis.call('SET', LOCK, successor.id, 'PX', LEASE)`, `redis.call('DEL', LOCK)`},
	{"mutex", "the successor gets an old token", freeing, `return {held, successor.id, new_token()}`, `return {held, successor.id, 1}`},
	{"mutex", "no release frees", freeing, `redis.call('DEL', LOCK)`, ``},
	{"mutex", "the lease is shorter than requested", acquiring, `'PX', LEASE)`, `'PX', 20)`},
	{"fair", "a try ignores the holder", acquiring, `not holder and`, ``},
	{"fair", "no waiter leaves the queue", acquiring, `if first then dequeue(ID) end`, ``},
	{"reentrant", "any owner will do", acquiring, `owner ~= OWNER`, `false`},
	{"reentrant", "each entry has a token of its own", acquiring, `if not owner then token = new_token() end`, `token = new_token()`},
	{"reentrant", "one release frees all", freeing, `if next(holds) then`, `if false then`},
	{"reentrant", "a release frees nothing while others hold", freeing, `redis.call('HDEL', LOCK, 'hold:' .. ID)`, ``},
	{"reentrant", "holds are not distinguished", acquiring, `'hold:' .. ID`, `'hold:' .. owner`},
	{"reentrant", "the lock ends before its holds do", acquiring, `last = math.max(last, deadline)`, `last = now_ms + (deadline - now_ms) / 4`},
	{"reentrant", "the successor does not get the lock", freeing, `set_hold(owner ~= '' and owner or ID, token, holds)`, ``},
	{"reentrant", "the successor gets an old token", freeing, `return {held, ID, token}`, `return {held, ID, 1}`},
	{"reentrant", "the lock is handed over to another owner", freeing, `owner ~= '' and owner or ID`, `'another'`},
	{"reentrant", "an expired hold renews", renewing, `if not holds[ID] then return 0 end`, `if not owner then return 0 end`},
	{"rw", "readers do not see the writer", acquiring, `if taken and not mine then`, `if false then`},
	{"rw", "writers do not see readers", acquiring, `last_deadline(READERS) or 0, other`, `0, other`},
	{"rw", "writers do not see writers", acquiring, `last_deadline(LOCK) or 0, last_deadline(READERS) or 0, other`, `last_deadline(READERS) or 0, other`},
	{"rw", "one reader's release removes all readers", freeing, `set_hold(READERS, ms)`, `redis.call('DEL', READERS)`},
	{"rw", "a new writer has the old token", acquiring, `new_token()` + "\nend\nset_write_hold", "end\nset_write_hold"},
	{"rw", "the successor does not get the lock", freeing, `set_write_hold(LEASE)`, ``},
	{"rw", "the lock is handed over to a writer beside readers", freeing, `not last_deadline(READERS) and`, ``},
	{"rw", "the lock is handed over to another owner", freeing, `OWNER = owner ~= '' and owner or ID`, ``},
	{"rw", "an owner can upgrade", acquiring, `return {-1, 0}`, `set_write_hold(LEASE) return {1, last_token()}`},
	{"semaphore", "permits are not counted", acquiring, `set_held(held + n)`, ``},
	{"semaphore", "one permit too many is granted", acquiring, `if free < n then return false end` + "\n  local line", `if free < n - 1 then return false end` + "\n  local line"},
	{"semaphore", "an undo releases permits that were not taken", freeing, `if taken then`, `if held >= n then`},
	{"semaphore", "a release has no effect", nil, `set_held(held - n)`, ``},
	{"semaphore", "a repeated release is executed twice", nil, `if answered then`, `if false then`},
	{"leased", "permits are not counted", acquiring, `set_held(held + n)`, ``},
	{"leased", "every release returns permits", freeing, `if had then`, `if true then`},
	{"leased", "an expired hold renews", renewing, `if not ends then return 0 end`, `ends = ends or 0`},
}

func (m mutant) mutate(t *testing.T) *game {
	t.Helper()
	list := games()
	g := list[slices.IndexFunc(list, func(g *game) bool { return g.name == m.game })]
	if m.scripts == nil {
		require.True(t, m.infect(t, &g.giveScript), "the script has changed; update the mutant")
	} else {
		g.kinds = m.plant(t, g.kinds)
	}
	return g
}

func (m mutant) plant(t *testing.T, kinds []*kind) []*kind {
	t.Helper()
	var planted []*kind
	found := false
	for _, k := range kinds {
		copied := *k
		for _, s := range m.scripts(&copied) {
			if m.infect(t, s) {
				found = true
			}
		}
		planted = append(planted, &copied)
	}
	require.True(t, found, "the scripts have changed; update the mutant")
	return planted
}

// infect replaces a script that has the mutant's text, and reports whether it did.
func (m mutant) infect(t *testing.T, s **script) bool {
	t.Helper()
	if *s == nil || !strings.Contains((*s).source, m.what) {
		return false
	}
	require.Equal(t, 1, strings.Count((*s).source, m.what), "the text occurs more than once")
	*s = rawScript(strings.Replace((*s).source, m.what, m.with, 1))
	return true
}

func TestMutantsAreCaught(t *testing.T) {
	env.FullNoRace(t, "it judges the scripts")
	t.Parallel()
	addr := env.SharedRedis(t).Addr

	for _, m := range mutants {
		t.Run(m.game+"/"+m.fault, func(t *testing.T) {
			t.Parallel()
			g := m.mutate(t)
			tb := newTable(t, addr, true)
			first, limit := rand.Uint64(), time.Duration(0)
			for seed := first; ; seed++ {
				limit += 100 * time.Millisecond // most violations show sooner; a slow machine needs more in a later round
				if tb.play(t, g, seed).check(g, limit) == porcupine.Illegal {
					t.Logf("caught in round %d, with %s=%d", seed-first+1, envSeed, seed)
					return
				}
				require.Less(t, seed-first, uint64(300), "the checker found no violation")
			}
		})
	}
}
