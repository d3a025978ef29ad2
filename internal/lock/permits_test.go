package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

func set(t testing.TB, s *pool, n int64) {
	t.Helper()
	require.True(t, env.Must(s.SetPermits(soon(t), n))(t), "set before")
}

func requireAvailable(t testing.TB, s *pool, want int64) {
	t.Helper()
	require.Equal(t, want, env.Must(s.Available(soon(t)))(t), "available")
}

func TestSemaphore(t *testing.T) {
	each(t, permitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		var seen recorder
		c, other := newLocks(t, s.addr, WithObserver(seen.observe)), newLocks(t, s.addr)
		sem := k.pool(c, "a")
		requireAvailable(t, sem, 0) // it was never set
		set(t, sem, 5)
		requireAvailable(t, k.pool(other, "a"), 5)
		require.False(t, env.Must(sem.SetPermits(s.ctx, 9))(t), "set again while none are taken")

		three := env.Must(k.of(3).lock(c, "a").TryLock(s.ctx))(t)
		requireAvailable(t, sem, 2)
		env.Fails(k.of(3).lock(c, "a").TryLock(s.ctx))(t, ErrNotAcquired)
		two := env.Must(k.of(2).lock(other, "a").Lock(s.ctx))(t)
		requireAvailable(t, sem, 0)
		require.False(t, env.Must(k.pool(other, "a").SetPermits(s.ctx, 9))(t), "set again when all were taken")

		// No waiter acquires while fewer permits remain than are held.
		require.NoError(t, sem.AddPermits(s.ctx, -4))
		requireAvailable(t, sem, -4)
		release(t, three)
		requireAvailable(t, sem, -1)
		env.Fails(k.of(1).lock(other, "a").TryLock(s.ctx))(t, ErrNotAcquired)
		release(t, two)
		requireAvailable(t, sem, 1)
		assert.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased}, seen.kinds())
		nothingLeft(t, s.rdb, k.keys("a")[0])
	})
}

func TestSemaphoreBounds(t *testing.T) {
	each(t, permitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		sem := k.pool(s.c, "a")
		for _, n := range []int64{0, -1, MaxPermits + 1, -1 << 63, 1<<63 - 1} {
			want := fmt.Sprintf("count of %d", n)
			for _, lock := range bothWays(k.of(n).lock(s.c, "a")) {
				env.Fails(lock(s.ctx))(t, want)
			}
			env.Fails(sem.SetPermits(s.ctx, n))(t, want)
			require.ErrorContains(t, s.c.Semaphore("a").Release(s.ctx, n), want)
			env.Fails(s.c.Latch("a").TrySetCount(s.ctx, n))(t, want)
		}
		for _, delta := range []int64{MaxPermits + 1, -MaxPermits - 1, -1 << 63, 1<<63 - 1} {
			require.ErrorIs(t, sem.AddPermits(s.ctx, delta), errTooManyTotal)
		}
		require.Zero(t, s.rdb.DBSize(s.ctx).Val(), "refused calls left keys")

		set(t, sem, MaxPermits)
		require.ErrorIs(t, sem.AddPermits(s.ctx, 1), errTooManyTotal)
		requireAvailable(t, sem, MaxPermits)
		all := env.Must(k.of(MaxPermits).lock(s.c, "a").Lock(s.ctx))(t)
		requireAvailable(t, sem, 0)
		require.NoError(t, sem.AddPermits(s.ctx, -MaxPermits))
		require.NoError(t, sem.AddPermits(s.ctx, -MaxPermits))
		require.ErrorIs(t, sem.AddPermits(s.ctx, -1), errTooManyTotal)
		requireAvailable(t, sem, -2*MaxPermits)
		release(t, all)
		requireAvailable(t, sem, -MaxPermits)
		require.NoError(t, sem.AddPermits(s.ctx, MaxPermits))
		require.NoError(t, sem.AddPermits(s.ctx, 1))
		requireAvailable(t, sem, 1)
	})
}

// A plain semaphore counts permits without recording their holders. Drained permits count as held.
func TestPermitsWithoutHolders(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	sem := newLocks(t, startServer(t)).Semaphore("a")
	drain := func(want int64) {
		require.Equal(t, want, env.Must(sem.Drain(ctx))(t))
	}
	require.ErrorIs(t, sem.Release(ctx, 1), ErrNotHeld, "it was never set")
	drain(0)
	set(t, &sem.pool, 5)
	require.ErrorIs(t, sem.Release(ctx, 1), ErrNotHeld)

	require.NoError(t, sem.Acquire(ctx, 2))
	require.ErrorIs(t, sem.Release(ctx, 3), ErrNotHeld)
	drain(3)
	requireAvailable(t, &sem.pool, 0)
	drain(0)
	require.ErrorIs(t, sem.TryAcquire(ctx, 1), ErrNotAcquired)

	require.NoError(t, sem.AddPermits(ctx, -1))
	drain(0)
	requireAvailable(t, &sem.pool, -1)
	require.NoError(t, sem.Release(ctx, 5))
	requireAvailable(t, &sem.pool, 4)
	require.ErrorIs(t, sem.Release(ctx, 1), ErrNotHeld)
}

// Each change wakes the waiters that it admits, and no others. A request for many permits is not overtaken by later
// ones for few, until it leaves the queue.
func TestOnlyAdmissibleWaitersAreWoken(t *testing.T) {
	each(t, permitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		received := listenTo(t, s.addr, s.c)
		sem := k.pool(s.c, "a")
		wanting := func(n int64) *claim { return k.of(n).claim(s.c, "a", time.Minute) }
		a, b, big, z := wanting(2), wanting(1), wanting(3), wanting(1)
		for _, cl := range []*claim{a, b, big, z} {
			requireIn(t, cl, false)
		}
		require.Empty(t, received())

		set(t, sem, 1)
		require.Empty(t, received(), "the first wants 2")
		require.NoError(t, sem.AddPermits(s.ctx, 2))
		require.Equal(t, []string{a.id, b.id}, received())
		requireIn(t, b, true) // a is first, but has not retried
		requireIn(t, a, true)
		requireIn(t, big, false)
		require.NoError(t, sem.AddPermits(s.ctx, -1))
		require.Empty(t, received())

		require.NoError(t, a.release(s.ctx))
		require.NoError(t, b.release(s.ctx))
		require.Empty(t, received(), "2 are free, and 3 wanted")
		requireIn(t, z, false)
		env.Fails(k.of(1).lock(s.c, "a").TryLock(s.ctx))(t, ErrNotAcquired, "a try passed the queue")
		require.ErrorIs(t, big.release(s.ctx), ErrNotHeld)
		require.Equal(t, []string{z.id}, received(), "the earlier waiter has left")
		requireIn(t, z, true)
		require.NoError(t, z.release(s.ctx))
		requireAvailable(t, sem, 2)
		require.Empty(t, received(), "there are no waiters")
	})
}

// More waiters can be admitted than a script examines: those behind are woken as the queue advances.
func TestWakesContinueBeyondWindow(t *testing.T) {
	each(t, permitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		received := listenTo(t, s.addr, s.c)
		const window, many = 64, 70 // WINDOW in semaphore.lua
		var line []*claim
		join := func(cl *claim) {
			requireIn(t, cl, false)
			stay(t, s.rdb, k.name, "a")
		}
		for range many {
			cl := k.of(1).claim(s.c, "a", time.Minute)
			join(cl)
			line = append(line, cl)
		}

		sem := k.pool(s.c, "a")
		set(t, sem, many+1)
		require.Len(t, received(), window)
		newcomer := k.of(1).claim(s.c, "a", time.Minute)
		join(newcomer)
		join(line[window])

		for i, cl := range line {
			requireIn(t, cl, true)
			stay(t, s.rdb, k.name, "a")
			if i+window < many {
				require.Contains(t, received(), line[i+window].id)
			}
		}
		requireIn(t, newcomer, true)
		requireAvailable(t, sem, 0)
	})
}

// Only the holders' key is deleted: their permits are free, and are not returned again.
func TestPermitsOfDeletedHolders(t *testing.T) {
	s := newScene(t)
	c := newLocks(t, s.addr, WithWatchdog(2400*time.Millisecond))
	sem := c.LeasedSemaphore("a")
	set(t, &sem.pool, 3)
	h := env.Must(leasedPermits.of(2).lock(c, "a").Lock(s.ctx))(t)
	require.NoError(t, s.rdb.Del(s.ctx, sem.keys[3]).Err())
	requireAvailable(t, &sem.pool, 3)
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(s.ctx), ErrNotHeld)
	requireAvailable(t, &sem.pool, 3)
}

// takeFor takes permits with a short lease. The answer may come too late for it, on a machine that stalls.
func takeFor(t *testing.T, c *Client, n int64, lease time.Duration) *Hold {
	t.Helper()
	return env.Must(persistent{leasedPermits.of(n).lock(c, "a")}.Lock(soon(t), WithLease(lease)))(t)
}

// Each waiter waits for as many leases to end as it needs, and retries at that moment: the first in the queue when they
// have ended, the next when the first counts as dead. A lease that ends is no reason to retry if too few permits are
// free then.
func TestWaiterAcquiresWhenNeededLeasesEnd(t *testing.T) {
	s := newScene(t)
	sem := s.c.LeasedSemaphore("a")
	set(t, &sem.pool, 4)
	began := time.Now()
	for _, lease := range []time.Duration{900, 1000, 1100, 60000} {
		takeFor(t, s.c, 1, lease*time.Millisecond)
	}

	four := leasedPermits.of(4).claim(s.c, "a", time.Minute)
	v := env.Must(four.acquireOnce(s.ctx, modeWait))(t)
	require.Equal(t, recheck, v.retry)
	require.ErrorIs(t, four.release(s.ctx), ErrNotHeld)

	two := leasedPermits.of(2).claim(s.c, "a", time.Minute)
	v = env.Must(two.acquireOnce(s.ctx, modeWait))(t)
	require.True(t, v.ok || v.retry <= time.Second+time.Millisecond)
	require.True(t, v.ok || time.Since(began)+v.retry >= 990*time.Millisecond, "too early by itself")
	_ = two.release(s.ctx)

	first := background(s.ctx, leasedPermits.of(2).lock(s.c, "a"))
	second := background(s.ctx, leasedPermits.of(1).lock(s.c, "a"))
	arrived(t, first)
	arrived(t, second)
	assert.GreaterOrEqual(t, time.Since(began), 1090*time.Millisecond)
	requireAvailable(t, &sem.pool, 0)
}

// Every change that lets the first waiter acquire earlier wakes it, if leases are about to end.
func TestFirstWaiterIsWokenWhenExpiryChanges(t *testing.T) {
	s := newScene(t)
	received := listenTo(t, s.addr, s.c)
	sem := s.c.LeasedSemaphore("a")
	set(t, &sem.pool, 4)
	long, a, b := takeFor(t, s.c, 2, time.Hour), takeFor(t, s.c, 1, time.Hour), takeFor(t, s.c, 1, time.Hour)
	first := leasedPermits.of(3).claim(s.c, "a", time.Minute)
	second := leasedPermits.claim(s.c, "a", time.Minute)
	requireIn(t, first, false)
	requireIn(t, second, false)
	release(t, a)
	require.Empty(t, received(), "no lease is about to end")

	require.NoError(t, long.Extend(s.ctx, time.Second))
	require.Equal(t, []string{first.id}, received(), "a shorter lease")
	require.Less(t, env.Must(first.acquireOnce(s.ctx, modeWait))(t).retry, recheck)
	release(t, b)
	require.Equal(t, []string{first.id}, received(), "one permit less is needed")
	require.ErrorIs(t, first.release(s.ctx), ErrNotHeld)
	require.Equal(t, []string{second.id}, received(), "another waiter is first and can be admitted")
	requireIn(t, second, true)
	require.NoError(t, second.release(s.ctx))
	release(t, long)
	requireAvailable(t, &sem.pool, 4)
}

func TestExpiredPermitsWakeWaiters(t *testing.T) {
	s := newScene(t)
	received := listenTo(t, s.addr, s.c)
	sem := s.c.LeasedSemaphore("a")
	set(t, &sem.pool, 1)
	h := takeFor(t, s.c, 1, 2*time.Second)
	first := leasedPermits.of(1).claim(s.c, "a", time.Minute)
	requireIn(t, first, false)

	requireDone(t, h.Context(), ErrLost)
	eventually(t, "over", func() bool {
		n, err := sem.Available(s.ctx)
		return err == nil && n == 1
	})
	require.Equal(t, []string{first.id}, received(), "once")
	require.ErrorIs(t, h.Release(s.ctx), ErrNotHeld)
	requireAvailable(t, &sem.pool, 1) // they were returned once
	env.Fails(sem.TryAcquire(s.ctx, 1))(t, ErrNotAcquired, "the permits belong to the waiter")
	requireIn(t, first, true)
}

func setCount(t testing.TB, l *Latch, n int64) {
	t.Helper()
	require.True(t, env.Must(l.TrySetCount(soon(t), n))(t), "the latch has a count")
}

func requireCount(t testing.TB, l *Latch, want int64) {
	t.Helper()
	require.Equal(t, want, env.Must(l.Count(soon(t)))(t), "count")
}

// A change is a request of a semaphore or a latch that the server executes once.
type change struct {
	name     string
	script   *script
	ready    func(t testing.TB, c *Client) // prepares the name "a"
	do       func(ctx context.Context, c *Client, name string) (reply any, err error)
	reply    any
	count    func(ctx context.Context, c *Client) (int64, error) // what do changes
	want     int64                                               // after one execution
	detached bool                                                // it continues after its caller has left
}

func (ch change) String() string { return ch.name }

var changes = []change{
	{
		name:   "set permits",
		script: leasedPool.set,
		ready:  func(testing.TB, *Client) {},
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return c.LeasedSemaphore(name).SetPermits(ctx, 7)
		},
		reply: true,
		count: func(ctx context.Context, c *Client) (int64, error) { return c.LeasedSemaphore("a").Available(ctx) },
		want:  7,
	},
	{
		name:   "add permits",
		script: semaphorePool.add,
		ready:  takeOneOfThree,
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return nil, c.Semaphore(name).AddPermits(ctx, 10)
		},
		count: available,
		want:  12,
	},
	{
		name:   "drain",
		script: drainScript,
		ready:  takeOneOfThree,
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return c.Semaphore(name).Drain(ctx)
		},
		reply: int64(2),
		count: available,
		want:  0,
	},
	{
		name:   "release",
		script: releaseScript,
		ready:  takeOneOfThree,
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return nil, c.Semaphore(name).Release(ctx, 1)
		},
		count:    available,
		want:     3,
		detached: true,
	},
	{
		name:   "set the count",
		script: latchSetScript,
		ready:  func(testing.TB, *Client) {},
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return c.Latch(name).TrySetCount(ctx, 5)
		},
		reply: true,
		count: latchCountOf,
		want:  5,
	},
	{
		name:   "count down",
		script: latchDownScript,
		ready:  func(t testing.TB, c *Client) { setCount(t, c.Latch("a"), 9) },
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return nil, c.Latch(name).CountDown(ctx)
		},
		count:    latchCountOf,
		want:     8,
		detached: true,
	},
}

func takeOneOfThree(t testing.TB, c *Client) {
	t.Helper()
	set(t, &c.Semaphore("a").pool, 3)
	require.NoError(t, c.Semaphore("a").Acquire(soon(t), 1))
}

func available(ctx context.Context, c *Client) (int64, error) { return c.Semaphore("a").Available(ctx) }

func latchCountOf(ctx context.Context, c *Client) (int64, error) { return c.Latch("a").Count(ctx) }

// faulty returns a Client behind a proxy, which has the script loaded, and one without it.
func (ch change) faulty(t *testing.T, addr string) (c, direct *Client, p *servers.Proxy) {
	t.Helper()
	p = env.StartProxy(t, addr)
	c = newLocks(t, p.Addr)
	c.exec.maxInFlight = maxQueued // a repeated call has another command in flight
	direct = newLocks(t, addr)
	_, _ = ch.do(soon(t), c, "warm")
	ch.ready(t, direct)
	return c, direct, p
}

func (ch change) counted(t *testing.T, c *Client) {
	t.Helper()
	eventually(t, "executed once", func() bool {
		n, err := ch.count(soon(t), c)
		return err == nil && n == ch.want
	})
}

// Every change is executed once, and its reply is that of the first execution.
func TestRepliesOfChangesLost(t *testing.T) {
	each(t, changes, onServer, func(t *testing.T, s scene, ch change) {
		c, direct, p := ch.faulty(t, s.addr)
		p.Inject(servers.DropReply, ch.script.sha, 2)
		reply := env.Must(ch.do(soon(t), c, "a"))(t)
		require.Equal(t, 2, p.Broken())
		require.Equal(t, ch.reply, reply)
		ch.counted(t, direct)
	})
}

// The caller's context ends while the server is silent. The change is executed once.
func TestCancelledChangesReturnAtOnce(t *testing.T) {
	each(t, changes, onServer, func(t *testing.T, s scene, ch change) {
		c, direct, p := ch.faulty(t, s.addr)
		p.Inject(servers.MuteReply, anyCmd, servers.Always)
		err := cancelled(t, func(ctx context.Context) error { return env.Err(ch.do(ctx, c, "a")) })
		require.ErrorIs(t, err, ErrUncertain)
		err = cancelled(t, func(ctx context.Context) error { return env.Err(ch.count(ctx, c)) })
		require.NotErrorIs(t, err, ErrUncertain)

		p.Heal()
		ch.counted(t, direct)
	})
}

// The caller leaves while its change is still queued behind another command, or before: the change is not sent, unless others
// depend on it.
func TestQueuedChangesOfCallersThatLeave(t *testing.T) {
	each(t, changes, onServer, func(t *testing.T, s scene, ch change) {
		c, direct, p := ch.faulty(t, s.addr)
		c.exec.maxInFlight = 1
		before := env.Must(ch.count(soon(t), direct))(t)
		p.Inject(servers.MuteReply, anyCmd, servers.Always)
		first := c.exec.submit(callOf(echo, "x"))
		eventually(t, "sent", func() bool { return isSent(first, c.exec) })

		err := cancelled(t, func(ctx context.Context) error { return env.Err(ch.do(ctx, c, "a")) })
		require.Equal(t, ch.detached, errors.Is(err, ErrUncertain), err)
		p.Heal()
		if ch.detached {
			ch.counted(t, direct)
			return
		}
		eventually(t, "what was queued before is sent", func() bool { return env.Err(ch.count(soon(t), c)) == nil })
		requireFails(t, env.Err(ch.do(env.Cancelled(soon(t)), c, "a")), context.Canceled, not{ErrUncertain})
		require.Equal(t, before, env.Must(ch.count(soon(t), c))(t), "executed although its caller has left")
	})
}

// The caller leaves between two tries of a change: it is tried no more, unless others depend on it.
func TestTriesEndWhenCallersLeave(t *testing.T) {
	each(t, changes, onServer, func(t *testing.T, s scene, ch change) {
		c, _, p := ch.faulty(t, s.addr)
		p.Inject(servers.Refuse, ch.script.sha, servers.Always)
		require.ErrorIs(t, cancelled(t, func(ctx context.Context) error { return env.Err(ch.do(ctx, c, "a")) }), ErrUncertain)
		if ch.detached {
			tries := p.Broken()
			eventually(t, "tried again", func() bool { return p.Broken() > tries })
			return
		}
		allAnswered(t, c)
		tries := p.Broken()

		// Ten pauses of a change that continues take longer than the longest pause of this one would.
		q := env.StartProxy(t, s.addr)
		q.Inject(servers.Refuse, latchDownScript.sha, servers.Always)
		require.ErrorIs(t, newLocks(t, q.Addr).Latch("other").CountDown(env.Cancelled(soon(t))), ErrUncertain)
		eventually(t, "tried again", func() bool { return q.Broken() > 10 })
		require.Equal(t, tries, p.Broken(), "tried again although its caller has left")
	})
}

// After the caller has returned, the client retries even an error that would be final for a waiting caller.
func TestDetachedReleaseRetriesAfterErrors(t *testing.T) {
	s := newScene(t)
	takeOneOfThree(t, s.c)
	key, aside := plainPermits.keys("a")[0], "aside"
	require.NoError(t, s.rdb.Rename(soon(t), key, aside).Err())
	require.NoError(t, s.rdb.Set(soon(t), key, "not a semaphore", 0).Err())
	requireFails(t, s.c.Semaphore("a").Release(soon(t), 1), "WRONGTYPE", not{ErrUncertain})

	require.ErrorIs(t, s.c.Semaphore("a").Release(env.Cancelled(context.Background()), 1), ErrUncertain)
	require.NoError(t, s.rdb.Rename(soon(t), aside, key).Err())
	eventually(t, "back", func() bool {
		n, err := available(soon(t), s.c)
		return err == nil && n == 3
	})
}

func TestCloseEndsRequests(t *testing.T) {
	t.Parallel()
	p := env.StartProxy(t, startServer(t))
	var seen recorder
	c := env.Must(New(newClient(t, p.Addr), WithObserver(seen.observe)))(t)
	set(t, &c.Semaphore("a").pool, 3)

	p.Inject(servers.MuteReply, anyCmd, servers.Always)
	done := env.Go(func() error { return c.Semaphore("a").Release(context.Background(), 1) })
	eventually(t, "sent", func() bool { return p.Broken() > 0 })

	require.NoError(t, c.Close())
	requireFails(t, <-done, ErrUncertain, ErrClosed)
	require.Equal(t, []EventKind{EventUncertain}, seen.kinds())
	require.ErrorIs(t, c.Semaphore("a").Release(context.Background(), 1), ErrClosed)
	env.Fails(c.Semaphore("a").Available(context.Background()))(t, ErrClosed)
	require.ErrorIs(t, c.Latch("a").Wait(context.Background()), ErrClosed)
}

func TestNameIsRequired(t *testing.T) {
	ctx := soon(t)
	c := newLocks(t, "127.0.0.1:1")
	for _, k := range waitKinds {
		env.Fails(k.lock(c, "").TryLock(ctx))(t, "name", k)
	}
	for _, ch := range changes {
		env.Fails(ch.do(ctx, c, ""))(t, "name", ch)
	}
	env.Fails(c.Semaphore("").Available(ctx))(t, "name")
}

func TestLatch(t *testing.T) {
	s := newScene(t)
	l, other := s.c.Latch("a"), newLocks(t, s.addr).Latch("a")
	require.NoError(t, l.Wait(s.ctx), "it was never set")
	requireCount(t, l, 0)
	require.NoError(t, l.CountDown(s.ctx))
	requireCount(t, l, 0)

	for range 2 { // a latch at zero can be set again
		setCount(t, l, 2)
		for left := range int64(2) {
			require.False(t, env.Must(other.TrySetCount(s.ctx, 5))(t))
			require.NoError(t, other.CountDown(s.ctx))
			requireCount(t, l, 1-left)
		}
		require.Zero(t, s.rdb.Exists(s.ctx, latches.keys("a")[0]).Val())
		require.NoError(t, l.CountDown(s.ctx))
		requireCount(t, l, 0)
		require.NoError(t, l.Wait(s.ctx), "the latch is at zero")
	}
	nothingLeft(t, s.rdb)
}

// Every waiter is woken once, at zero and not before, even if the latch is set again before the waiters retry.
func TestLatchSetAgainAdmitsEarlierWaiters(t *testing.T) {
	s := newScene(t)
	received := listenTo(t, s.addr, s.c)
	l := s.c.Latch("a")
	join := func() *claim {
		cl := latches.claim(s.c, "a", unleased)
		requireIn(t, cl, false)
		requireIn(t, cl, false)
		stay(t, s.rdb, latchKind.name, "a")
		return cl
	}

	setCount(t, l, 2)
	var line []*claim
	var ids []string
	for range 40 {
		cl := join()
		line = append(line, cl)
		ids = append(ids, cl.id)
	}
	require.NoError(t, l.CountDown(s.ctx))
	require.Empty(t, received())
	require.NoError(t, l.CountDown(s.ctx))
	require.Equal(t, ids, received())
	setCount(t, l, 1)
	late := join()

	for _, cl := range line {
		requireIn(t, cl, true)
		stay(t, s.rdb, latchKind.name, "a")
	}
	require.NoError(t, l.CountDown(s.ctx))
	require.Equal(t, []string{late.id}, received())
	requireIn(t, late, true)
	nothingLeft(t, s.rdb, s.c.hub.channel) // the test's own subscription
}
