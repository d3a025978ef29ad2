package lock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

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
	t       *testing.T
	rng     *rand.Rand
	c       *Client
	rdb     *redis.Client
	wakes   *wakes
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
	if len(m.holds) == 0 && len(m.queue) > 0 && m.queue[0].write { // it is of the same client
		token, err := m.rdb.Get(context.Background(), a.keys[3]).Uint64()
		require.NoError(m.t, err)
		m.enter(m.queue[0], token)
	}
}

// downgrade sends the downgrade of a, whatever its state.
func (m *rwModel) downgrade(a *rwActor) {
	asker := *a.claim
	asker.kind = rwDowngradeKind
	_, err := asker.renew(context.Background(), time.Hour)
	if !slices.Contains(m.holds, a) {
		require.ErrorIs(m.t, err, ErrNotHeld)
		return
	}
	require.NoError(m.t, err) // the first time, or again
	a.write, a.kind = false, rwReadKind
}

// step runs one random command.
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
	a := &rwActor{owner: owner, write: m.rng.IntN(5) < 2}
	k := rwReadKind
	if a.write {
		k = rwWriteKind
	}
	a.claim = m.c.newClaim(k, rwKeys(DefaultPrefix, "a", Owner(owner)), time.Hour, owner)
	if owner == "" {
		a.owner = a.id
	}
	return a
}

func (m *rwModel) note(what string, a *rwActor) {
	m.history = append(m.history, fmt.Sprintf("%-10s %s write=%v owner=%s", what, a.id[len(m.c.id):], a.write, a.owner))
}

// check compares the server with the model. Above all, no wake is lost: every waiter that can be admitted, or
// never can, was woken since its last acquire, and no other was.
func (m *rwModel) check() {
	ctx := context.Background()
	for _, id := range m.wakes.received() {
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

// One command at a time, at random, compared with the model.
func TestRWModel(t *testing.T) {
	testenv.FullNoRace(t, "one command at a time")
	t.Parallel()
	addr := startServer(t)
	seed := rand.Uint64()
	m := &rwModel{t: t, rng: rand.New(rand.NewPCG(seed, 0)), c: newLocks(t, addr), rdb: newClient(t, addr)}
	m.wakes = listenTo(t, addr, m.c)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, the last of %d commands:", seed, len(m.history))
			for _, line := range m.history[max(0, len(m.history)-30):] {
				t.Log(line)
			}
		}
	}()

	for range 40 {
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
	nothingLeft(t, m.rdb, m.c.hub.channel) // the test's own subscription
}

// A line models a semaphore's queue and records which waiters were woken.
type line struct {
	t       *testing.T
	k       permitKind
	c       *Client
	s       permitSource
	wakes   *wakes
	held    []*claim
	queue   []*claim
	woken   map[string]bool // since its last acquire
	retried map[string]time.Time
}

func wants(cl *claim) int64 { return cl.extra[0].(int64) }

// come acquires for a claim, and compares the reply with the model.
func (l *line) come(cl *claim) {
	l.t.Helper()
	free, err := l.s.Available(soon(l.t))
	require.NoError(l.t, err)
	fits := free >= wants(cl)

	for _, before := range l.queue {
		if before == cl {
			break
		}
		free -= wants(before)
		fits = fits && free >= wants(cl)
	}
	requireIn(l.t, cl, fits)
	delete(l.woken, cl.id)
	at := slices.Index(l.queue, cl)
	switch {
	case fits && at >= 0:
		l.queue = slices.Delete(l.queue, at, at+1)
		l.held = append(l.held, cl)
	case fits:
		l.held = append(l.held, cl)
	default:
		l.retried[cl.id] = time.Now()
		if at < 0 {
			l.queue = append(l.queue, cl)
		}
	}
}

// end releases a claim or removes it from the queue.
func (l *line) end(from *[]*claim, at int) {
	cl := (*from)[at]
	*from = slices.Delete(*from, at, at+1)
	err := cl.release(soon(l.t))
	if from == &l.held {
		require.NoError(l.t, err)
	} else {
		require.ErrorIs(l.t, err, ErrNotHeld)
	}
}

// check requires that every admissible waiter was woken, and no other.
func (l *line) check(step int) {
	l.t.Helper()
	now := l.wakes.received()
	free, err := l.s.Available(soon(l.t))
	require.NoError(l.t, err)

	var fit []string
	for _, cl := range l.queue {
		if free -= wants(cl); free < 0 {
			break
		}
		fit = append(fit, cl.id)
	}

	for _, id := range now {
		require.Contains(l.t, fit, id, "step %d: woken but cannot be admitted", step)
		l.woken[id] = true
	}

	for _, id := range fit {
		require.True(l.t, l.woken[id], "step %d: %s can be admitted and was not woken", step, id)
	}
}

// After any sequence of changes, every admissible waiter was woken since its last acquire.
func TestNoWakeIsLost(t *testing.T) {
	testenv.FullNoRace(t, "one command at a time")
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
		t.Logf("seed %d", seed)
		for round := 0; !walk(t, addr, k, fmt.Sprint("walk ", round), seed); round++ {
			require.Less(t, round, 20, "the machine stalls again and again")
		}
	})
}

// walk makes random changes. It returns false if the machine stalled so long that waiters died, which the model does
// not represent.
func walk(t *testing.T, addr string, k permitKind, name string, seed uint64) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible
	c := newLocks(t, addr)
	l := &line{
		t: t, k: k, c: c, s: k.of(c, name), wakes: listenTo(t, addr, c),
		woken: map[string]bool{}, retried: map[string]time.Time{},
	}

	for step := range 500 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			if len(l.queue) < 10 {
				l.come(k.claim(c, name, 1+rng.Int64N(4)))
			}
		case 3:
			if len(l.held) > 0 {
				l.end(&l.held, rng.IntN(len(l.held)))
			}
		case 4:
			if len(l.queue) > 0 {
				l.end(&l.queue, rng.IntN(len(l.queue)))
			}
		case 5:
			free, err := l.s.Available(soon(t))
			require.NoError(t, err)
			require.NoError(t, l.s.AddPermits(soon(t), rng.Int64N(9)-2-free))
		default:
			if len(l.queue) > 0 {
				l.come(l.queue[rng.IntN(len(l.queue))])
			}
		}
		l.check(step)
		for _, cl := range slices.Clone(l.queue) {
			switch age := time.Since(l.retried[cl.id]); {
			case age > 3*time.Second:
				return false
			case age > time.Second:
				l.come(cl)
				l.check(step)
			}
		}
	}
	return true
}
