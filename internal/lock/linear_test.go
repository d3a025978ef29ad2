package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
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
		rounds, unjudged, first = 1, 0, env.Must(strconv.ParseUint(s, 10, 64))(t)
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

// A history is what several players requested of one lock, and the replies.
type history struct {
	began time.Time

	mu    sync.Mutex
	ops   []porcupine.Operation
	waits []porcupine.Operation // Call and Return only: the periods in which there may have been waiters
}

// open is the Return of an operation that may have been executed at any later time, or never.
const open = math.MaxInt64

func (h *history) now() int64 { return h.at(time.Now()) }

func (h *history) at(t time.Time) int64 { return t.Sub(h.began).Nanoseconds() }

func (h *history) add(call int64, q operation, a reply, back int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: len(h.ops), Input: q, Call: call, Output: a, Return: back})
}

func (h *history) waited(call, back int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = append(h.waits, porcupine.Operation{Call: call, Return: back})
}

// check verifies the history with porcupine. A refusal during another player's wait is legal for a lock with a queue.
func (h *history) check(g *game, limit time.Duration) porcupine.CheckResult {
	for i, op := range h.ops {
		for _, w := range h.waits {
			if a := op.Output.(reply); g.queues && a.outcome == no && w.Call <= op.Return && op.Call <= w.Return {
				a.contended = true
				h.ops[i].Output = a
			}
		}
	}
	return porcupine.CheckOperationsTimeout(g.model, h.ops, limit)
}

// A game is a kind of lock with its model and the operations of its players.
type game struct {
	name     string
	model    porcupine.Model
	queues   bool // a refusal may be due to earlier waiters
	reenters bool // a holder may wait for the lock again
	kinds    []*kind

	// claim returns the next attempt of a player, whose team is the name of an owner, and its operation in the model.
	claim func(g *game, c *Client, lock string, lease time.Duration, team string, rng *rand.Rand) (*claim, operation)

	// pool (if not nil) has the permits.
	pool func(c *Client, lock string) *pool

	// give (if not nil) releases a lock without leases. If its error is not ErrUncertain, nothing was executed.
	give       func(ctx context.Context, g *game, c *Client, lock string, n int64) error
	giveScript *script // the script that give sends
}

const (
	players = 4
	// steps is the number of steps of a player in a round. A few histories of so many take the checker minutes.
	steps = 14
	// fewSteps are so few that it judges almost every history at once.
	fewSteps = 9
)

// A table is a server, and a client behind a proxy for each player.
type table struct {
	clients []*Client
	proxies []*servers.Proxy
	crashes bool // leases are short and end
	steps   int  // of each player
	grants  grants
}

// grants count by id how often the server has, or may have, given it the lock.
type grants struct {
	mu sync.Mutex
	of map[string]int
}

func (g *grants) add(cmds []redis.Cmder) {
	for _, cmd := range cmds {
		if id, given := grantOf(cmd); given {
			g.mu.Lock()
			g.of[id]++
			g.mu.Unlock()
		}
	}
}

// grantOf returns the id to which a script has, or may have, given a lock.
func grantOf(cmd redis.Cmder) (id string, given bool) {
	if !strings.HasPrefix(cmd.Name(), "eval") {
		return "", false
	}
	args := cmd.Args()
	args = args[3+args[2].(int):] // those of common.lua
	acquires := args[3] != ""
	if cmd.Err() != nil {
		return args[1].(string), acquires && !notExecuted(cmd.Err())
	}

	reply, _ := cmd.(interface{ Val() any }).Val().([]any)
	switch {
	case acquires:
		return args[1].(string), len(reply) == 0 || reply[0] == int64(1)
	case len(reply) == 3: // a release that hands the lock over
		return reply[1].(string), true
	default:
		return "", false
	}
}

// unused returns the number of grants to id that were not used; got tells whether one was.
func (g *grants) unused(id string, got bool) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if got {
		return max(g.of[id]-1, 0)
	}
	return g.of[id]
}

func newTable(t testing.TB, addr string, crashes bool) *table {
	t.Helper()
	tb := &table{crashes: crashes, steps: steps, grants: grants{of: map[string]int{}}}
	for range players {
		p := env.StartProxy(t, addr)
		// A lost reply is noticed by the end of the connection, and not by a timeout: on a machine that stalls, a command
		// that timed out can be executed after the release that undoes it.
		p.CutAfter = 250 * time.Millisecond
		rdb := newClient(t, p.Addr)
		rdb.AddHook(afterwards(tb.grants.add))
		tb.proxies = append(tb.proxies, p)
		tb.clients = append(tb.clients, newLocksOf(t, rdb))
	}
	return tb
}

// play runs one round: all players on the same lock, whose name is unique. Half of the rounds have no faults, half of
// those have only one player that waits, and in a further quarter no player crashes, so that a refusal has fewer
// explanations.
func (tb *table) play(t testing.TB, g *game, seed uint64) *history {
	t.Helper()
	lock := lockOf(t, seed)
	if g.pool != nil {
		require.NoError(t, g.pool(tb.clients[0], lock).AddPermits(soon(t), permits))
	}
	h := &history{began: time.Now()}

	var wg sync.WaitGroup
	for i := range players {
		at := i // the connections of the player
		if seed/8%2 == 1 {
			at = i % 2 // two share a client, one of each team, so that locks are handed over between them
		}
		p := &player{
			rng:      rand.New(rand.NewPCG(seed, uint64(i))),
			calm:     seed%2 == 0,
			hasty:    seed%4 == 0,
			first:    i == 0,
			careless: tb.crashes && g.give == nil && seed%4 == 1,
			tb:       tb,
			g:        g,
			h:        h,
			c:        tb.clients[at],
			proxy:    tb.proxies[at],
			team:     []string{"red", "blue"}[i/2],
			lock:     lock,
		}
		wg.Go(p.play)
	}
	wg.Wait()
	return h
}

func lockOf(t testing.TB, seed uint64) string { return fmt.Sprintf("%s %d", t.Name(), seed) }

// A player is a simulated caller: it acquires, renews and releases the lock, or lets its lease end, while faults occur.
type player struct {
	rng      *rand.Rand
	calm     bool // has no faults
	hasty    bool // never waits, except the first player of a lock with a queue
	first    bool
	careless bool // crashes and stalls
	tb       *table
	g        *game
	h        *history
	c        *Client
	proxy    *servers.Proxy
	team     string
	lock     string

	held  []*playerHold
	freed []*playerHold
	late  *time.Timer // the fault that is scheduled
}

type playerHold struct {
	cl        *claim
	operation operation
	until     time.Time // when the server may end it
	unsure    bool      // it may have been released
}

func (p *player) play() {
	p.late = time.AfterFunc(time.Hour, func() {})
	for range p.tb.steps {
		time.Sleep(time.Duration(p.rng.IntN(15)) * time.Millisecond)
		p.injectFault()
		p.step()
	}
	p.late.Stop()
	p.proxy.Inject(servers.None, anyCmd, 0)
	if !p.careless {
		for _, hold := range slices.Clone(p.held) {
			p.free(hold)
		}
	}
	for p.g.give != nil && len(p.held) > 0 { // no lease ends it
		p.free(p.held[0])
	}

	for _, hold := range p.held {
		p.over(hold, open) // the process crashes
	}
}

// injectFault makes one of the next commands fail, or none.
func (p *player) injectFault() {
	p.late.Stop()
	p.proxy.Inject(servers.None, anyCmd, 0)
	dice, late := p.rng.IntN(20), time.Duration(p.rng.IntN(60))*time.Millisecond
	if dice > 5 || p.calm {
		return
	}
	strike := func() {
		p.proxy.Inject([]servers.Fault{servers.DropReply, servers.Refuse, servers.MuteReply}[dice%3], scriptCmd, 1)
	}
	if late < 30*time.Millisecond {
		strike()
	} else {
		p.late = time.AfterFunc(late, strike) // perhaps while it waits
	}
}

func (p *player) step() {
	dice := p.rng.IntN(20)
	if len(p.held) == 0 || dice < 4 {
		wait := dice%2 == 0
		if p.hasty {
			wait = p.first && p.g.queues
		}
		p.take(wait && (p.g.reenters || len(p.held) == 0))
		return
	}
	hold := p.held[p.rng.IntN(len(p.held))]
	leased := p.g.give == nil
	switch {
	case dice >= 12 && dice < 16 && leased:
		p.refresh(hold)
	case dice >= 16 && dice < 18 && p.careless:
		p.forget(hold)
		p.over(hold, open)
	case dice == 18 && p.careless: // it stalls without noticing
		time.Sleep(time.Until(hold.until) + 30*time.Millisecond)
	case dice >= 18 && len(p.freed) > 0 && leased: // it renews or releases a hold that it has released
		again := p.freed[p.rng.IntN(len(p.freed))]
		p.held = append(p.held, again)
		if dice == 18 {
			p.refresh(again)
		} else {
			p.free(again)
		}
	default:
		p.free(hold)
	}
}

// lease returns a lease that is short enough to end during the game, if leases may end.
func (p *player) lease() time.Duration {
	if !p.tb.crashes {
		return time.Minute
	}
	return time.Duration(60+p.rng.IntN(200)) * time.Millisecond
}

// ctx returns the context of one call. Now and then it ends before the reply arrives.
func (p *player) ctx() (context.Context, context.CancelFunc) {
	d := 300 * time.Millisecond
	switch {
	case p.calm && p.tb.crashes && p.g.give == nil: // every lease will have ended by then
		d = time.Second
	case p.rng.IntN(4) == 0 && !p.calm:
		d = time.Duration(1+p.rng.IntN(30)) * time.Millisecond
	}
	return context.WithTimeout(context.Background(), d)
}

func (p *player) take(wait bool) {
	cl, q := p.g.claim(p.g, p.c, p.lock, p.lease(), p.team, p.rng)
	ctx, cancel := p.ctx()
	defer cancel()
	call := p.h.now()
	v, err := cl.acquire(ctx, wait)
	gaveUp := ctx.Err() != nil
	back := p.h.now()
	if wait {
		if err != nil {
			back = p.left(cl, err)
		}
		unused := p.tb.grants.unused(cl.id, err == nil)
		if gaveUp {
			unused++ // the last acquire may still be in flight
		}
		p.addUnused(call, q, unused, back)
	}
	switch {
	case err == nil:
		p.h.add(call, q, reply{outcome: yes, token: v.token}, back)
		p.held = append(p.held, &playerHold{cl: cl, operation: q, until: v.validUntil})
	case cl.kind.refusal != nil && errors.Is(err, cl.kind.refusal):
		p.h.add(call, q, reply{outcome: never}, back)
	case errors.Is(err, ErrUncertain):
		p.addUndone(call, q, open)
	case !wait && !gaveUp && errors.Is(err, ErrNotAcquired):
		p.h.add(call, q, reply{outcome: no}, back)
	default:
		p.addUndone(call, q, back)
	}
	if wait {
		p.h.waited(call, back)
	}
}

// left returns the time at which a failed wait has certainly left the queue.
func (p *player) left(cl *claim, err error) int64 {
	for range 3 {
		ctx, cancel := p.ctx()
		released := cl.release(ctx)
		cancel()
		if !errors.Is(err, ErrUncertain) && (released == nil || errors.Is(released, ErrNotHeld)) {
			return p.h.now()
		}
	}
	return open
}

// addUnused adds the holds that a wait may have had before the one it used, if any. Each lasted until its lease ended:
// those whose reply was lost or came too late, and one that a lost release handed over to it.
func (p *player) addUnused(call int64, q operation, known int, back int64) {
	id := q.id
	for i := range known + 1 {
		q.id = fmt.Sprintf("%s?%d", id, i)
		p.addUndone(call, q, back)
	}
}

// addUndone adds a take that was undone, if it was executed at all. The checker tries them in the order of their calls.
func (p *player) addUndone(call int64, q operation, back int64) {
	p.h.add(call, q, reply{outcome: unanswered}, back)
	q.what = undo
	p.h.add(call+1, q, reply{outcome: unanswered}, back)
}

func (p *player) refresh(hold *playerHold) {
	d := p.lease()
	ctx, cancel := p.ctx()
	defer cancel()
	began := time.Now()
	until, err := hold.cl.renew(ctx, d)
	back := p.h.now()
	q := hold.operation
	q.what = refresh
	switch {
	case err == nil:
		p.h.add(p.h.at(began), q, reply{outcome: yes}, back)
		hold.until = until
	case errors.Is(err, ErrNotHeld):
		p.h.add(p.h.at(began), q, reply{outcome: no}, back)
		p.forget(hold)
		p.over(hold, back)
	default: // the old or the new lease may end
		if sooner := began.Add(d - drift(d)); sooner.Before(hold.until) {
			hold.until = sooner
		}
	}
}

func (p *player) free(hold *playerHold) {
	ctx, cancel := p.ctx()
	defer cancel()
	call := p.h.now()
	release := hold.cl.release
	if p.g.give != nil {
		release = func(ctx context.Context) error { return p.g.give(ctx, p.g, p.c, p.lock, hold.operation.n) }
	}
	err := release(ctx)
	back := p.h.now()
	q := hold.operation
	q.what = free
	switch {
	case err != nil && p.g.give != nil && errors.Is(err, ErrUncertain): // it continues in the background
		p.h.add(call, q, reply{outcome: unanswered}, open)
		p.forget(hold)
	case err != nil && p.g.give != nil && !errors.Is(err, ErrNotHeld):
	case errors.Is(err, ErrNotHeld):
		p.h.add(call, q, reply{outcome: no}, back)
		p.forget(hold)
		p.over(hold, back)
	case err != nil:
		p.h.add(call, q, reply{outcome: unanswered}, open)
		hold.unsure = true
	case hold.unsure:
		p.h.add(call, q, reply{outcome: unanswered}, back)
		p.forget(hold)
		p.over(hold, back)
	default:
		p.h.add(call, q, reply{outcome: yes}, back)
		p.forget(hold)
		p.freed = append(p.freed, hold)
	}
}

func (p *player) forget(hold *playerHold) {
	p.held = slices.DeleteFunc(p.held, func(h *playerHold) bool { return h == hold })
}

// over adds that the lease has ended by back or, if it must not have ended yet, will end.
func (p *player) over(hold *playerHold, back int64) {
	q := hold.operation
	q.what = end
	call := p.h.at(hold.until)
	if call > back {
		back = open
	}
	p.h.add(call, q, reply{outcome: unanswered}, back)
}

type operation struct {
	what  string // one of those below
	id    string // of the hold
	owner string // of the hold; its id, for locks without owners
	read  bool   // the shared side
	n     int64  // permits
}

const (
	take    = "take"
	refresh = "refresh" // renew
	free    = "free"
	end     = "end"  // of the lease; not a request of a player
	undo    = "undo" // of a take whose reply was lost; a take that follows it does nothing
)

type reply struct {
	outcome   string
	token     uint64 // of a successful take
	contended bool   // there were waiters, so a try may fail
}

const (
	yes        = "yes"
	no         = "no"
	never      = "never"      // no, and waiting would not help
	unanswered = "unanswered" // it may have been executed; or it was, or there was nothing to do
)

// A lockState is the state of a read-write lock. A reentrant lock is one without readers, and a mutex is one whose
// owners are all different.
type lockState struct {
	writer string  // the owner, if the exclusive side is held
	writes holdSet // the writer's
	reads  holdSet
	undone holdSet // undone and not taken yet
	fence  uint64  // the last writer's token; 0 if it is unknown
	last   uint64  // the greatest known token
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(lockState).step(input.(operation), output.(reply))
	},
}

// step reports whether the operation can have that reply in this state, and returns the next state.
func (s lockState) step(q operation, a reply) (bool, lockState) {
	had := s.writes.has(q.id) || s.reads.has(q.id)
	switch {
	case q.what == take && s.undone.has(q.id):
		s.undone = s.undone.without(q.id)
		return true, s
	case q.what == take:
		return s.take(q, a)
	case q.what == undo && !had:
		s.undone = s.undone.with(q)
		return true, s
	case q.what == undo, q.what == end:
		return true, s.without(q.id)
	case a.outcome == yes && !had, a.outcome == no && had:
		return false, s
	case q.what == free:
		return true, s.without(q.id)
	default:
		return true, s
	}
}

func (s lockState) take(q operation, a reply) (bool, lockState) {
	fits := s.writer == q.owner || s.writer == "" && (q.read || s.reads == "")
	switch a.outcome {
	case no:
		return !fits || a.contended, s
	case never:
		return !q.read && s.writer != q.owner && s.reads.of(q.owner), s
	case yes:
		return s.enter(q, a.token, fits)
	default: // unanswered: it was executed if it could be
		if !fits {
			return true, s
		}
		return s.enter(q, 0, true)
	}
}

// enter adds a hold. token is 0 if it is unknown.
func (s lockState) enter(q operation, token uint64, fits bool) (bool, lockState) {
	newWriter := !q.read && s.writer == ""
	switch {
	case !fits:
		return false, s
	case token == 0 && newWriter:
		s.fence = 0
	case token == 0: // any token is possible, and none is learned
	case newWriter && token <= s.last, token < s.last, !newWriter && s.fence != 0 && token != s.fence:
		return false, s
	default:
		s.fence, s.last = token, token
	}
	if q.read {
		s.reads = s.reads.with(q)
	} else {
		s.writer, s.writes = q.owner, s.writes.with(q)
	}
	return true, s
}

func (s lockState) without(id string) lockState {
	s.writes, s.reads = s.writes.without(id), s.reads.without(id)
	if s.writes == "" {
		s.writer = ""
	}
	return s
}

type permitState struct {
	free   int64
	held   holdSet
	undone holdSet // undone and not taken yet
}

func permitModel(n int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return permitState{free: n} },
		Step: func(state, input, output any) (bool, any) {
			return state.(permitState).step(input.(operation), output.(reply))
		},
	}
}

func (s permitState) step(q operation, a reply) (bool, permitState) {
	had, undone := s.held.has(q.id), s.undone.has(q.id)
	fits := s.free >= q.n
	switch {
	case q.what == take && undone:
		s.undone = s.undone.without(q.id)
	case q.what == take && (a.outcome == yes && !fits || a.outcome == no && fits && !a.contended):
		return false, s
	case q.what == take && a.outcome != no && fits:
		s.free, s.held = s.free-q.n, s.held.with(q)
	case q.what == take:
	case q.what == undo && !had:
		s.undone = s.undone.with(q)
	case (q.what == refresh || q.what == free) && (a.outcome == yes && !had || a.outcome == no && had):
		return false, s
	case q.what != refresh && had:
		s.free, s.held = s.free+q.n, s.held.without(q.id)
	}
	return true, s
}

// A holdSet is the ids and owners of holds, each " id@owner;". It is a string so that states are comparable, and sorted
// so that equal sets are equal.
type holdSet string

func (s holdSet) with(q operation) holdSet {
	hold := " " + q.id + "@" + q.owner + ";"
	rest := string(s)
	var before strings.Builder
	for rest != "" && rest < hold {
		first, after, _ := strings.Cut(rest, ";")
		before.WriteString(first + ";")
		rest = after
	}
	return holdSet(before.String() + hold + rest)
}

func (s holdSet) without(id string) holdSet {
	before, after, found := strings.Cut(string(s), " "+id+"@")
	if !found {
		return s
	}
	_, after, _ = strings.Cut(after, ";")
	return holdSet(before + after)
}

func (s holdSet) has(id string) bool   { return strings.Contains(string(s), " "+id+"@") }
func (s holdSet) of(owner string) bool { return strings.Contains(string(s), "@"+owner+";") }
