package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

func set(t testing.TB, s *pool, n int64) {
	t.Helper()
	require.True(t, env.Must(s.SetPermits(soon(t), n))(t), "set before")
}

func requireAvailable(t testing.TB, s *pool, want int64) {
	t.Helper()
	require.Equal(t, want, env.Must(s.Available(soon(t)))(t), "available")
}

func countKey(k *kind, name string) string { return keysOf(DefaultPrefix, k.name, name)[0] }

func TestSemaphore(t *testing.T) {
	each(t, permitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		var seen recorder
		c, other := newLocks(t, addr, WithObserver(seen.observe)), newLocks(t, addr)
		s := k.pool(c, "a")
		requireAvailable(t, s, 0) // it was never set
		set(t, s, 5)
		requireAvailable(t, k.pool(other, "a"), 5)
		require.False(t, env.Must(s.SetPermits(ctx, 9))(t), "set again while none are taken")

		three := env.Must(k.of(3).lock(c, "a").TryLock(ctx))(t)
		requireAvailable(t, s, 2)
		env.Fails(k.of(3).lock(c, "a").TryLock(ctx))(t, ErrNotAcquired)
		two := env.Must(k.of(2).lock(other, "a").Lock(ctx))(t)
		requireAvailable(t, s, 0)
		require.False(t, env.Must(k.pool(other, "a").SetPermits(ctx, 9))(t), "set again when all were taken")

		// No waiter acquires while fewer permits remain than are held.
		require.NoError(t, s.AddPermits(ctx, -4))
		requireAvailable(t, s, -4)
		release(t, three)
		requireAvailable(t, s, -1)
		env.Fails(k.of(1).lock(other, "a").TryLock(ctx))(t, ErrNotAcquired)
		release(t, two)
		requireAvailable(t, s, 1)
		assert.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased}, seen.kinds())
		nothingLeft(t, newClient(t, addr), countKey(k.kind, "a"))
	})
}

func TestSemaphoreBounds(t *testing.T) {
	each(t, permitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		s := k.pool(c, "a")
		for _, n := range []int64{0, -1, MaxPermits + 1, -1 << 63, 1<<63 - 1} {
			want := fmt.Sprintf("count of %d", n)
			for _, lock := range bothWays(k.of(n).lock(c, "a")) {
				_, err := lock(ctx)
				require.ErrorContains(t, err, want)
			}
			_, err := s.SetPermits(ctx, n)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, c.Semaphore("a").Release(ctx, n), want)
			_, err = c.Latch("a").TrySetCount(ctx, n)
			require.ErrorContains(t, err, want)
		}
		for _, delta := range []int64{MaxPermits + 1, -MaxPermits - 1, -1 << 63, 1<<63 - 1} {
			require.ErrorIs(t, s.AddPermits(ctx, delta), errTooManyTotal)
		}
		require.Zero(t, newClient(t, addr).DBSize(ctx).Val(), "refused calls left keys")

		set(t, s, MaxPermits)
		require.ErrorIs(t, s.AddPermits(ctx, 1), errTooManyTotal)
		requireAvailable(t, s, MaxPermits)
		all := env.Must(k.of(MaxPermits).lock(c, "a").Lock(ctx))(t)
		requireAvailable(t, s, 0)
		require.NoError(t, s.AddPermits(ctx, -MaxPermits))
		require.NoError(t, s.AddPermits(ctx, -MaxPermits))
		require.ErrorIs(t, s.AddPermits(ctx, -1), errTooManyTotal)
		requireAvailable(t, s, -2*MaxPermits)
		release(t, all)
		requireAvailable(t, s, -MaxPermits)
		require.NoError(t, s.AddPermits(ctx, MaxPermits))
		require.NoError(t, s.AddPermits(ctx, 1))
		requireAvailable(t, s, 1)
	})
}

// A plain semaphore counts permits without recording their holders. Drained permits count as held.
func TestPermitsWithoutHolders(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	s := newLocks(t, startServer(t)).Semaphore("a")
	drain := func(want int64) {
		t.Helper()
		require.Equal(t, want, env.Must(s.Drain(ctx))(t))
	}
	require.ErrorIs(t, s.Release(ctx, 1), ErrNotHeld, "it was never set")
	drain(0)
	set(t, &s.pool, 5)
	require.ErrorIs(t, s.Release(ctx, 1), ErrNotHeld)

	require.NoError(t, s.Acquire(ctx, 2))
	require.ErrorIs(t, s.Release(ctx, 3), ErrNotHeld)
	drain(3)
	requireAvailable(t, &s.pool, 0)
	drain(0)
	require.ErrorIs(t, s.TryAcquire(ctx, 1), ErrNotAcquired)

	require.NoError(t, s.AddPermits(ctx, -1))
	drain(0)
	requireAvailable(t, &s.pool, -1)
	require.NoError(t, s.Release(ctx, 5))
	requireAvailable(t, &s.pool, 4)
	require.ErrorIs(t, s.Release(ctx, 1), ErrNotHeld)
}

// Each change wakes the waiters that it admits, and no others. A request for many permits is not overtaken by later
// ones for few, until it leaves the queue.
func TestOnlyAdmissibleWaitersAreWoken(t *testing.T) {
	each(t, permitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		w := listenTo(t, addr, c)
		s := k.pool(c, "a")
		wanting := func(n int64) *claim { return k.of(n).claim(c, "a", time.Minute) }
		a, b, big, z := wanting(2), wanting(1), wanting(3), wanting(1)
		for _, cl := range []*claim{a, b, big, z} {
			requireIn(t, cl, false)
		}
		require.Empty(t, w.received())

		set(t, s, 1)
		require.Empty(t, w.received(), "the first wants 2")
		require.NoError(t, s.AddPermits(ctx, 2))
		require.Equal(t, []string{a.id, b.id}, w.received())
		requireIn(t, b, true) // a is first, but has not retried
		requireIn(t, a, true)
		requireIn(t, big, false)
		require.NoError(t, s.AddPermits(ctx, -1))
		require.Empty(t, w.received())

		require.NoError(t, a.release(ctx))
		require.NoError(t, b.release(ctx))
		require.Empty(t, w.received(), "2 are free, and 3 wanted")
		requireIn(t, z, false)
		env.Fails(k.of(1).lock(c, "a").TryLock(ctx))(t, ErrNotAcquired, "a try passed the queue")
		require.ErrorIs(t, big.release(ctx), ErrNotHeld)
		require.Equal(t, []string{z.id}, w.received(), "the earlier waiter has left")
		requireIn(t, z, true)
		require.NoError(t, z.release(ctx))
		requireAvailable(t, s, 2)
		require.Empty(t, w.received(), "there are no waiters")
	})
}

// More waiters can be admitted than a script examines: those behind are woken as the queue advances.
func TestWakesContinueBeyondWindow(t *testing.T) {
	each(t, permitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		c := newLocks(t, addr)
		w := listenTo(t, addr, c)
		rdb := newClient(t, addr)
		const window, many = 64, 70 // WINDOW in semaphore.lua
		var line []*claim
		join := func(cl *claim) {
			requireIn(t, cl, false)
			stay(t, rdb, k.name, "a")
		}
		for range many {
			cl := k.of(1).claim(c, "a", time.Minute)
			join(cl)
			line = append(line, cl)
		}

		s := k.pool(c, "a")
		set(t, s, many+1)
		require.Len(t, w.received(), window)
		newcomer := k.of(1).claim(c, "a", time.Minute)
		join(newcomer)
		join(line[window])

		for i, cl := range line {
			requireIn(t, cl, true)
			stay(t, rdb, k.name, "a")
			if i+window < many {
				require.Contains(t, w.received(), line[i+window].id)
			}
		}
		requireIn(t, newcomer, true)
		requireAvailable(t, s, 0)
	})
}

// Only the holders' key is deleted: their permits are free, and are not returned again.
func TestPermitsOfDeletedHolders(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr, WithWatchdog(2400*time.Millisecond))
	s := c.LeasedSemaphore("a")
	set(t, &s.pool, 3)
	h := env.Must(leasedPermits.of(2).lock(c, "a").Lock(ctx))(t)
	require.NoError(t, newClient(t, addr).Del(ctx, s.keys[3]).Err())
	requireAvailable(t, &s.pool, 3)
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	requireAvailable(t, &s.pool, 3)
}

// takeFor takes permits with a short lease. The answer may come too late for it, on a machine that stalls.
func takeFor(t *testing.T, c *Client, n int64, lease time.Duration) *Hold {
	t.Helper()
	var h *Hold
	eventually(t, "taken", func() bool {
		var err error
		h, err = leasedPermits.of(n).lock(c, "a").TryLock(soon(t), WithLease(lease))
		return err == nil
	})
	return h
}

// Each waiter waits for as many leases to end as it needs, and retries at that moment: the first in the queue when they
// have ended, the next when the first counts as dead. A lease that ends is no reason to retry if too few permits are
// free then.
func TestWaiterAcquiresWhenNeededLeasesEnd(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	s := c.LeasedSemaphore("a")
	set(t, &s.pool, 4)
	began := time.Now()
	for _, lease := range []time.Duration{900, 1000, 1100, 60000} {
		takeFor(t, c, 1, lease*time.Millisecond)
	}

	four := leasedPermits.of(4).claim(c, "a", time.Minute)
	v := env.Must(four.acquireOnce(ctx, modeWait))(t)
	require.Equal(t, recheck, v.retry)
	require.ErrorIs(t, four.release(ctx), ErrNotHeld)

	two := leasedPermits.of(2).claim(c, "a", time.Minute)
	v = env.Must(two.acquireOnce(ctx, modeWait))(t)
	require.True(t, v.ok || v.retry <= time.Second+time.Millisecond)
	require.True(t, v.ok || time.Since(began)+v.retry >= 990*time.Millisecond, "too early by itself")
	_ = two.release(ctx)

	first := background(ctx, leasedPermits.of(2).lock(c, "a"))
	second := background(ctx, leasedPermits.of(1).lock(c, "a"))
	arrived(t, first)
	arrived(t, second)
	assert.GreaterOrEqual(t, time.Since(began), 1090*time.Millisecond)
	requireAvailable(t, &s.pool, 0)
}

// Every change that lets the first waiter acquire earlier wakes it, if leases are about to end.
func TestFirstWaiterIsWokenWhenExpiryChanges(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	w := listenTo(t, addr, c)
	s := c.LeasedSemaphore("a")
	set(t, &s.pool, 4)
	long, a, b := takeFor(t, c, 2, time.Hour), takeFor(t, c, 1, time.Hour), takeFor(t, c, 1, time.Hour)
	first := leasedPermits.of(3).claim(c, "a", time.Minute)
	second := leasedPermits.claim(c, "a", time.Minute)
	requireIn(t, first, false)
	requireIn(t, second, false)
	release(t, a)
	require.Empty(t, w.received(), "no lease is about to end")

	require.NoError(t, long.Extend(ctx, time.Second))
	require.Equal(t, []string{first.id}, w.received(), "a shorter lease")
	v := env.Must(first.acquireOnce(ctx, modeWait))(t)
	require.Less(t, v.retry, recheck)
	release(t, b)
	require.Equal(t, []string{first.id}, w.received(), "one permit less is needed")
	require.ErrorIs(t, first.release(ctx), ErrNotHeld)
	require.Equal(t, []string{second.id}, w.received(), "another waiter is first and can be admitted")
	requireIn(t, second, true)
	require.NoError(t, second.release(ctx))
	release(t, long)
	requireAvailable(t, &s.pool, 4)
}

func TestExpiredPermitsWakeWaiters(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	w := listenTo(t, addr, c)
	s := c.LeasedSemaphore("a")
	set(t, &s.pool, 1)
	h := takeFor(t, c, 1, 2*time.Second)
	first := leasedPermits.of(1).claim(c, "a", time.Minute)
	requireIn(t, first, false)

	requireDone(t, h.Context(), ErrLost)
	eventually(t, "over", func() bool {
		n, err := s.Available(ctx)
		return err == nil && n == 1
	})
	require.Equal(t, []string{first.id}, w.received(), "once")
	require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	requireAvailable(t, &s.pool, 1) // they were returned once
	env.Fails(s.TryAcquire(ctx, 1))(t, ErrNotAcquired, "the permits belong to the waiter")
	requireIn(t, first, true)
}
