package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
