package lock

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

// Who is admitted, in which order, and who is woken for it, is shown by TestRWModel.

// A read hold has the token of the last writer, which is kept for as long as the lock is held, whatever is renewed or
// acquired. Readers before the first writer have a token too.
func TestRWTokens(t *testing.T) {
	s := newScene(t)
	me := owned(t)
	m := s.c.RW("a")
	fence := writing.keys("a")[3]
	ttl := func() time.Duration { return s.rdb.PTTL(s.ctx, fence).Val() }

	early := env.Must(m.Read().Lock(me))(t)
	assert.Positive(t, early.Token())
	release(t, early)
	w := env.Must(m.Write().Lock(me))(t)
	assert.Greater(t, w.Token(), early.Token())
	require.NoError(t, s.rdb.PExpire(s.ctx, fence, time.Minute).Err())
	require.NoError(t, w.Extend(s.ctx, time.Minute))
	assert.Greater(t, ttl(), time.Hour)
	release(t, w)

	h := env.Must(m.Read().Lock(me, WithLease(MaxLease)))(t)
	release(t, env.Must(m.Read().Lock(me, WithLease(time.Minute)))(t))
	assert.Greater(t, ttl(), MaxLease)
	require.NoError(t, s.rdb.PExpire(s.ctx, fence, time.Minute).Err())
	require.NoError(t, h.Extend(s.ctx, time.Minute))
	assert.Greater(t, ttl(), time.Hour)
	assert.Equal(t, w.Token(), h.Token())
	release(t, h)
}

// A waiter for a lease is woken if the lock becomes free earlier: the owner's shorter hold is left, or the hold is
// downgraded with a shorter lease.
func TestRWEarlierEndWakesFirstWaiter(t *testing.T) {
	each(t, []lockKind{reading, writing}, onServer, func(t *testing.T, s scene, side lockKind) {
		received := listenTo(t, s.addr, s.c)
		attempt := func(k *kind, lease time.Duration, owner Owner) *claim {
			return s.c.newClaim(k, rwKeys(DefaultPrefix, "a", owner), lease, string(owner))
		}

		const short = time.Second
		for name, change := range map[string]func(mine *claim){
			"the shorter hold is left": func(mine *claim) {
				requireIn(t, attempt(side.kind, short, "me"), true)
				require.NoError(t, mine.release(s.ctx))
			},
			"the shorter read hold is left": func(mine *claim) {
				requireIn(t, attempt(rwReadKind, short, "me"), true)
				require.NoError(t, mine.release(s.ctx))
			},
			"downgraded": func(mine *claim) {
				mine.kind = rwDowngradeKind
				env.Must(mine.renew(s.ctx, short))(t)
			},
		} {
			require.NoError(t, s.rdb.FlushAll(s.ctx).Err())
			mine, waiter := attempt(side.kind, time.Hour, "me"), attempt(rwWriteKind, time.Hour, "")
			requireIn(t, mine, true)
			requireIn(t, waiter, false)
			require.Empty(t, received(), name)
			change(mine)
			require.Contains(t, received(), waiter.id, name)
		}
	})
}

func TestDowngrade(t *testing.T) {
	s := newScene(t)
	var seen recorder
	m, other := newLocks(t, s.addr, WithObserver(seen.observe)).RW("a"), s.c.RW("a")
	for _, me := range []context.Context{s.ctx, owned(t)} {
		w := env.Must(m.Write().Lock(me))(t)
		before := []<-chan outcome{s.queue(s.ctx, t, reading, 1, other.Read()), s.queue(s.ctx, t, reading, 2, m.Read())}
		writer := s.queue(s.ctx, t, writing, 3, other.Write())

		r := env.Must(m.Downgrade(context.WithValue(me, ctxKey{}, 7), w))(t)
		requireDone(t, w.Context(), ErrReleased)
		assert.Equal(t, w.Token(), r.Token())
		assert.Equal(t, 7, r.Context().Value(ctxKey{}))
		for _, got := range before {
			h := arrived(t, got)
			assert.Equal(t, w.Token(), h.Token())
			release(t, h)
		}
		require.EqualValues(t, 1, waiters(t, s.rdb, "rw", "a"), "the writer")

		release(t, w)
		requireFails(t, env.Err(m.Downgrade(s.ctx, w)), ErrNotHeld, ErrReleased)
		require.NoError(t, r.Extend(s.ctx, time.Minute), "the old hold's release freed the new one")
		release(t, r)
		h := arrived(t, writer)
		assert.Greater(t, h.Token(), w.Token())
		release(t, h)
		nothingLeft(t, s.rdb)
	}
	assert.Equal(t, seen.count(EventAcquired), seen.count(EventReleased))
}

func TestDowngradeRejectsOtherHolds(t *testing.T) {
	s := newScene(t)
	m := s.c.RW("a")
	holds := []*Hold{
		env.Must(s.c.Mutex("a").Lock(s.ctx))(t),
		env.Must(s.c.RW("b").Write().Lock(s.ctx))(t),
		env.Must(newLocks(t, s.addr).RW("a").Write().Lock(s.ctx))(t),
		env.Must(redLockOf(s.c, "a").Lock(s.ctx))(t),
	}
	for _, h := range append(holds, nil) {
		requireFails(t, env.Err(m.Downgrade(s.ctx, h)), "not a write hold", not{ErrNotHeld})
	}

	release(t, holds...)
	r := env.Must(m.Read().Lock(s.ctx))(t)
	env.Fails(m.Downgrade(s.ctx, r))(t, "not a write hold")
	release(t, r)
	nothingLeft(t, s.rdb)
}

func TestDowngradeKeepsKindOfLease(t *testing.T) {
	env.Full(t)
	s := newScene(t)
	const lease = 3 * time.Second
	m := newLocks(t, s.addr, WithWatchdog(lease)).RW("a")
	r := env.Must(m.Downgrade(s.ctx, env.Must(m.Write().Lock(s.ctx))(t)))(t)
	first := r.ValidUntil()
	eventually(t, "renewed", func() bool { return r.ValidUntil().After(first) })
	release(t, r)

	w := env.Must(m.Write().Lock(s.ctx, WithLease(time.Minute)))(t)
	require.NoError(t, w.Extend(s.ctx, lease))
	r = env.Must(m.Downgrade(s.ctx, w))(t)
	assert.WithinRange(t, r.ValidUntil(), time.Now(), time.Now().Add(lease))
	requireDone(t, r.Context(), ErrLost)
	require.ErrorIs(t, r.Release(s.ctx), ErrNotHeld)
	release(t, env.Must(m.Write().Lock(s.ctx))(t))
	nothingLeft(t, s.rdb)
}

// The hold was lost without its holder noticing, and the lock has another holder.
func TestDowngradeOfLostHold(t *testing.T) {
	s := newScene(t)
	m := s.c.RW("a")
	w := env.Must(m.Write().Lock(s.ctx))(t)
	require.NoError(t, s.rdb.Del(s.ctx, writing.keys("a")[0]).Err())
	next := env.Must(m.Write().Lock(s.ctx))(t)
	requireFails(t, env.Err(m.Downgrade(s.ctx, w)), ErrNotHeld, ErrLost)
	requireDone(t, w.Context(), ErrLost)

	env.Fails(m.Read().TryLock(s.ctx))(t, ErrNotAcquired)
	require.NoError(t, next.Extend(s.ctx, time.Minute))
	release(t, next)
	nothingLeft(t, s.rdb)
}

// faultyDowngrade returns a Client behind a proxy, which has the scripts of a downgrade loaded.
func faultyDowngrade(t *testing.T, addr string, opts ...ClientOption) (*Client, *servers.Proxy) {
	t.Helper()
	c, p := writing.faulty(t, addr, opts...)
	m := c.RW("warm")
	release(t, env.Must(m.Downgrade(soon(t), env.Must(m.Write().Lock(soon(t)))(t)))(t))
	return c, p
}

// A downgrade whose reply is lost is repeated, and executed once. If no reply ever arrives, its hold is not used, and
// nothing is left behind.
func TestDowngradeReplyLost(t *testing.T) {
	s := newScene(t)
	var seen recorder
	c, p := faultyDowngrade(t, s.addr, WithObserver(seen.observe))
	m := c.RW("a")

	var w, r *Hold
	stalls := 0
	for err := ErrUncertain; err != nil; { // again, if the machine stalls for longer than a downgrade is repeated
		w = env.Must(m.Write().Lock(s.ctx))(t)
		p.Inject(servers.DropReply, rwDowngradeKind.renew.sha, 3)
		if r, err = m.Downgrade(s.ctx, w); err != nil {
			require.ErrorIs(t, err, ErrUncertain)
			stalls++
		}
	}
	require.Equal(t, 3, p.Broken())
	assert.EqualValues(t, 1, s.rdb.ZCard(s.ctx, writing.keys("a")[4]).Val(), "counted twice")
	release(t, w, r)
	assert.Equal(t, stalls, seen.count(EventLost))
	nothingLeft(t, s.rdb)

	for _, how := range []servers.Fault{servers.DropReply, servers.Refuse} {
		w := env.Must(m.Write().Lock(s.ctx))(t)
		p.Inject(how, rwDowngradeKind.renew.sha, servers.Always)
		env.Fails(m.Downgrade(s.ctx, w))(t, ErrUncertain)
		requireDone(t, w.Context(), ErrLost)
		p.Heal()
		nothingLeft(t, s.rdb)
		require.ErrorIs(t, w.Release(s.ctx), ErrLost)
	}
	assert.Equal(t, stalls+2, seen.count(EventLost))
}

// The caller's context ends while the server is silent: the call returns at once, the downgrade ends later, and the
// lock is free.
func TestDowngradeCancelled(t *testing.T) {
	s := newScene(t)
	c, p := faultyDowngrade(t, s.addr)
	m := c.RW("a")
	w := env.Must(m.Write().Lock(soon(t)))(t)
	p.Inject(servers.MuteReply, anyCmd, servers.Always)
	var left context.Context
	err := cancelled(t, func(ctx context.Context) error {
		left = ctx
		return env.Err(m.Downgrade(ctx, w))
	})
	require.ErrorIs(t, err, ErrUncertain)

	requireFails(t, env.Err(m.Downgrade(left, w)), context.Canceled, not{ErrUncertain}) // the request was not sent
	p.Heal()
	<-w.Context().Done()
	nothingLeft(t, s.rdb)
}

// The server refuses: nothing was executed, and the caller keeps the write hold.
func TestDowngradeNotExecuted(t *testing.T) {
	t.Parallel()
	server := env.StartRedis(t)
	ctx := soon(t)
	rdb := newClient(t, server.Addr)
	m := newLocks(t, server.Addr).RW("a")
	w := env.Must(m.Write().Lock(ctx))(t)
	require.NoError(t, rdb.Do(ctx, "acl", "setuser", "default", "-evalsha").Err())
	requireFails(t, env.Err(m.Downgrade(ctx, w)), "NOPERM", not{ErrUncertain}, not{ErrNotHeld})

	require.NoError(t, rdb.Do(ctx, "acl", "setuser", "default", "+evalsha").Err())
	require.NoError(t, w.Context().Err())
	env.Fails(m.Read().TryLock(ctx))(t, ErrNotAcquired)
	release(t, env.Must(m.Downgrade(ctx, w))(t))
	nothingLeft(t, rdb)
}

// An rwActor is a claim with its state in the model.
type rwActor struct {
	*claim
	owner string // its id if it has none
	write bool
	token uint64 // if it has a hold
	woken bool   // since its last acquire
}

// rwModel is an independent model of the scripts. It receives one command after another, each of which may be repeated,
// and no lease ends.
type rwModel struct {
	t       testing.TB
	rng     *rand.Rand
	kinds   [3]*kind // to read, to write, to downgrade
	clients [2]*Client
	wakes   [2]func() []string
	rdb     *redis.Client
	holds   []*rwActor
	queue   []*rwActor
	last    uint64 // token
	history []string
}

// can reports whether a can be admitted now, and whether it never can.
func (m *rwModel) can(a *rwActor) (yes, never bool) {
	reading, writing := false, false
	for _, h := range m.holds {
		mine := h.owner == a.owner
		if mine && h.write {
			return true, false
		}
		if mine {
			yes, never = !a.write, a.write
		}
		writing = writing || h.write
		reading = reading || !h.write
	}
	if yes || never {
		return yes, never
	}
	ahead := m.queue
	if i := slices.Index(ahead, a); i >= 0 {
		ahead = ahead[:i]
	}
	if a.write {
		return !writing && !reading && len(ahead) == 0, false
	}
	return !writing && !slices.ContainsFunc(ahead, func(b *rwActor) bool { return b.write }), false
}

// acquire lets a acquire, and compares the reply.
func (m *rwModel) acquire(a *rwActor, mode string) {
	yes, never := m.can(a)
	held := slices.Contains(m.holds, a)
	v, err := a.acquireOnce(context.Background(), mode)
	a.woken = false
	switch {
	case held:
		require.NoError(m.t, err)
		require.True(m.t, v.ok, "it had the hold")
		require.Equal(m.t, a.token, v.token)
	case never:
		require.ErrorIs(m.t, err, ErrUpgrade)
		m.end(a) // as acquire does
	default:
		require.NoError(m.t, err)
		require.Equal(m.t, yes, v.ok)
		if yes {
			m.enter(a, v.token)
		} else if mode == modeWait && !slices.Contains(m.queue, a) {
			m.queue = append(m.queue, a)
		}
	}
}

func (m *rwModel) enter(a *rwActor, token uint64) {
	again := slices.ContainsFunc(m.holds, func(h *rwActor) bool { return h.owner == a.owner })
	if a.write && !again || m.last == 0 {
		require.Greater(m.t, token, m.last)
		m.last = token
	}
	require.Equal(m.t, m.last, token)
	a.token = token
	m.queue = slices.DeleteFunc(m.queue, func(b *rwActor) bool { return b == a })
	m.holds = append(m.holds, a)
}

// end releases a, removes it from the queue, or has no effect.
func (m *rwModel) end(a *rwActor) {
	is := func(b *rwActor) bool { return b == a }
	had := slices.Contains(m.holds, a)
	m.holds = slices.DeleteFunc(m.holds, is)
	m.queue = slices.DeleteFunc(m.queue, is)
	err := a.release(context.Background())
	if had {
		require.NoError(m.t, err)
	} else {
		require.ErrorIs(m.t, err, ErrNotHeld)
	}
	if len(m.holds) > 0 || len(m.queue) == 0 {
		return
	}
	if first := m.queue[0]; first.write && first.c == a.c { // it is handed over
		m.enter(first, env.Must(m.rdb.Get(context.Background(), a.keys[3]).Uint64())(m.t))
	}
}

// downgrade sends the downgrade of a, whatever its state.
func (m *rwModel) downgrade(a *rwActor) {
	asker := *a.claim
	asker.kind = m.kinds[2]
	_, err := asker.renew(context.Background(), time.Hour)
	if !slices.Contains(m.holds, a) {
		require.ErrorIs(m.t, err, ErrNotHeld)
		return
	}
	require.NoError(m.t, err) // the first time, or again
	a.write = false
	a.kind = m.kinds[0]
}

func (m *rwModel) step() {
	all := slices.Concat(m.holds, m.queue)
	a := m.actor()
	if len(all) > 0 && m.rng.IntN(3) > 0 {
		a = all[m.rng.IntN(len(all))]
	}
	mode := modeWait
	what := m.rng.IntN(10)
	switch {
	case a.write && slices.Contains(m.holds, a) && what < 3, what == 9:
		m.note("downgrade", a)
		m.downgrade(a)
	case what < 5 && len(all) > m.rng.IntN(8):
		m.note("end", a)
		m.end(a)
	case what == 5 && !slices.Contains(all, a):
		mode = modeTry
		fallthrough
	default:
		m.note("acquire "+mode, a)
		m.acquire(a, mode)
	}
}

// actor returns a new actor with one of four owners, or none.
func (m *rwModel) actor() *rwActor {
	owner := ""
	if o := m.rng.IntN(8); o < 4 {
		owner = fmt.Sprintf("owner %d", o)
	}
	a := &rwActor{write: m.rng.IntN(5) < 2}
	k := m.kinds[0]
	if a.write {
		k = m.kinds[1]
	}
	a.claim = m.clients[m.rng.IntN(2)].newClaim(k, rwKeys(DefaultPrefix, "a", Owner(owner)), time.Hour, owner)
	a.owner = cmp.Or(owner, a.id)
	return a
}

func (m *rwModel) note(what string, a *rwActor) {
	m.history = append(m.history, fmt.Sprintf("%-10s %s write=%v owner=%s", what, a.id, a.write, a.owner))
}

// check compares the server with the model. Above all, no wake is lost: every waiter that can be admitted, or
// never can, was woken since its last acquire, and no other was.
func (m *rwModel) check() {
	ctx := context.Background()
	for _, id := range append(m.wakes[0](), m.wakes[1]()...) {
		i := slices.IndexFunc(m.queue, func(a *rwActor) bool { return a.id == id })
		require.GreaterOrEqual(m.t, i, 0, "an id that does not wait was woken")
		yes, never := m.can(m.queue[i])
		require.True(m.t, yes || never, "%s was woken but cannot be admitted", id)
		m.queue[i].woken = true
	}

	var queue []string
	for _, a := range m.queue {
		queue = append(queue, a.id)
		yes, never := m.can(a)
		require.True(m.t, !yes && !never || a.woken, "%s can be admitted, or never can, and was not woken", a.id)
	}
	keys := rwKeys(DefaultPrefix, "a", "")
	require.Equal(m.t, queue, append([]string(nil), m.rdb.ZRange(ctx, keys[1], 0, -1).Val()...))
	require.EqualValues(m.t, len(queue), m.rdb.HLen(ctx, keys[2]).Val())
	count := map[bool]int64{}

	for _, a := range m.holds {
		count[a.write]++
	}
	require.Equal(m.t, count[true], m.rdb.ZCard(ctx, keys[0]).Val(), "writers")
	require.Equal(m.t, count[false], m.rdb.ZCard(ctx, keys[4]).Val(), "readers")
}

// newRWModel returns the model of a lock with the scripts of kinds.
func newRWModel(t testing.TB, addr string, seed uint64, kinds ...*kind) *rwModel {
	t.Helper()
	m := &rwModel{t: t, rng: rand.New(rand.NewPCG(seed, 0)), kinds: [3]*kind(kinds), rdb: newClient(t, addr)}
	for i := range m.clients {
		m.clients[i] = newLocks(t, addr)
		m.wakes[i] = listenTo(t, addr, m.clients[i])
	}
	return m
}

// play runs one command at a time, at random, and compares the server with the model after each.
func (m *rwModel) play(rounds int) {
	for range rounds {
		// A waiter that sends nothing for 4 s is dead, which the model does not represent.
		for began, n := time.Now(), 0; n < 100 && time.Since(began) < 2*time.Second; n++ {
			m.step()
			m.check()
		}
		for _, a := range slices.Concat(m.queue, m.holds) {
			m.note("end", a)
			m.end(a)
			m.check()
		}
	}
}

func TestRWModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	m := newRWModel(t, startServer(t), seed, rwReadKind, rwWriteKind, rwDowngradeKind)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, the last of %d commands:", seed, len(m.history))
			for _, line := range m.history[max(0, len(m.history)-30):] {
				t.Log(line)
			}
		}
	}()

	m.play(env.ByLevel(10, 40))
	nothingLeft(t, m.rdb, m.clients[0].hub.channel, m.clients[1].hub.channel) // the test's own subscriptions
}

// The model detects every planted fault in the order of admissions and in the wakes. Other faults are those of
// TestMutantsAreCaught.
func TestRWModelFindsFaults(t *testing.T) {
	env.FullNoRace(t, "it judges the scripts")
	t.Parallel()
	for _, m := range []mutant{
		{"rw", "readers pass a waiting writer", acquiring, `if writer then return refuse(writer.deadline - now_ms, 'r') end`, ``},
		{"rw", "a writer passes other waiters", acquiring, `first and first.id ~= ID and first.deadline or 0`, `0`},
		{"rw", "a reader that reads again waits for the writer", acquiring, `mine or last_deadline(READS)`, `mine`},
		{"rw", "one reader is woken instead of all", all, `for _, reader in ipairs(readers) do wake(reader.id) end`, `if readers[1] then wake(readers[1].id) end`},
		{"rw", "no writer is woken", all, `wake(writer.id) end`, `end`},
		{"rw", "readers are woken while a write hold is left", all, "  if last_deadline(LOCK) then return end\n", ``},
		{"rw", "a departing waiter wakes no other", freeing, "  wake_admissible() -- even if ID was only queued", `  if held == 1 then wake_admissible() end -- even if ID was only queued`},
		{"rw", "a downgrade wakes no waiter", renewing, "last_token()\nwake_admissible()", `last_token()`},
		{"rw", "a reader's owner is not followed", acquiring, `if not again then wake_waiters_of(ARGV[5]) end`, ``},
		{"rw", "a writer's owner is not followed", acquiring, `if not mine then wake_waiters_of(ARGV[5]) end`, ``},
		{"rw", "a successor's owner is not followed", freeing, `wake_waiters_of(owner)` + "\nreturn", `return`},
	} {
		t.Run(m.fault, func(t *testing.T) {
			t.Parallel()
			model := newRWModel(t, startServer(t), rand.Uint64(), m.plant(t, []*kind{rwReadKind, rwWriteKind, rwDowngradeKind})...)

			require.True(t, env.Finds(t, func(t testing.TB) {
				model.t = t
				model.play(1000) // the rarest violation shows after 6,000 commands on average
			}), "the model found no violation")
			t.Logf("found after %d commands", len(model.history))
		})
	}
}
