package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// takeFor takes permits with a short lease. The answer may come too late for it, on a machine that stalls.
func takeFor(t *testing.T, s *LeasedSemaphore, n int64, lease time.Duration) *Permits {
	t.Helper()
	var p *Permits
	eventually(t, "taken", func() bool {
		var err error
		p, err = s.TryAcquire(soon(t), n, WithLease(lease))
		return err == nil
	})
	return p
}

func TestPermitsAreRenewed(t *testing.T) {
	testenv.Full(t)
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := context.WithValue(soon(t), ctxKey{}, "trace")
		var seen recorder
		s := newLocks(t, addr, WithWatchdog(6*time.Second), WithObserver(seen.observe)).LeasedSemaphore("a")
		set(t, leasedPermits{s}, 3)
		p, err := s.Acquire(ctx, 2)
		require.NoError(t, err)
		assert.Equal(t, "trace", p.Context().Value(ctxKey{}))
		time.Sleep(6300 * time.Millisecond) // the first lease is over
		require.NoError(t, p.Context().Err())
		requireAvailable(t, leasedPermits{s}, 1)
		require.NoError(t, p.Release(ctx))

		requireDone(t, p.Context(), ErrReleased)
		require.NoError(t, p.Release(ctx), "the second release does nothing")
		requireAvailable(t, leasedPermits{s}, 3)
		require.ErrorIs(t, p.Extend(ctx, time.Minute), ErrNotHeld)
		assert.Zero(t, seen.count(EventLost))
		_, err = s.Acquire(ctx, 1, WithLease(time.Millisecond))
		require.ErrorContains(t, err, "lease of")
	})
}

// The permits of a dead holder are returned once.
func TestPermitsExpire(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		s := newLocks(t, addr).LeasedSemaphore("a")
		set(t, leasedPermits{s}, 3)
		other, err := s.TryAcquire(ctx, 1)
		require.NoError(t, err)
		p := takeFor(t, s, 2, 2*time.Second)
		requireAvailable(t, leasedPermits{s}, 0)

		requireDone(t, p.Context(), ErrLost)
		eventually(t, "back", func() bool { n, err := s.Available(ctx); return err == nil && n == 2 })
		require.ErrorIs(t, p.Release(ctx), ErrNotHeld)
		require.NoError(t, p.Release(ctx), "it was reported")
		requireAvailable(t, leasedPermits{s}, 2)
		require.NoError(t, other.Release(ctx))
		requireAvailable(t, leasedPermits{s}, 3)
		nothingLeft(t, rdb, countKey(leasedKind, "a"))
	})
}

// Each waiter waits for as many leases to end as it needs, and retries at that moment: the first in the queue when they
// have ended, the next when the first counts as dead.
func TestWaiterAcquiresWhenNeededLeasesEnd(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	s := c.LeasedSemaphore("a")
	set(t, leasedPermits{s}, 4)
	began := time.Now()
	for _, lease := range []time.Duration{900, 1000, 1100, 60000} {
		takeFor(t, s, 1, lease*time.Millisecond)
	}

	two := leasedPermitKind.claim(c, "a", 2)
	v, err := two.acquireOnce(ctx, modeWait)
	require.NoError(t, err)
	require.True(t, v.ok || v.retry <= time.Second+time.Millisecond)
	require.True(t, v.ok || time.Since(began)+v.retry >= 990*time.Millisecond, "too early by itself")
	_ = two.release(ctx)

	both := []<-chan taken{waiting(ctx, leasedPermits{s}, 2), waiting(ctx, leasedPermits{s}, 1)}
	for _, wait := range both {
		in := <-wait
		require.NoError(t, in.err)
	}
	assert.GreaterOrEqual(t, time.Since(began), 1090*time.Millisecond)
	requireAvailable(t, leasedPermits{s}, 0)
}

// A lease that ends does not wake a waiter for which there are still too few permits.
func TestInsufficientExpiredLeasesWakeNoWaiter(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	s := c.LeasedSemaphore("a")
	set(t, leasedPermits{s}, 2)

	for _, lease := range []time.Duration{500 * time.Millisecond, time.Hour} {
		takeFor(t, s, 1, lease)
	}
	one, two := leasedPermitKind.claim(c, "a", 1), leasedPermitKind.claim(c, "a", 2)
	v, err := two.acquireOnce(ctx, modeWait)
	require.NoError(t, err)
	require.False(t, v.ok)
	require.Equal(t, recheck, v.retry)
	require.ErrorIs(t, two.release(ctx), ErrNotHeld)
	v, err = one.acquireOnce(ctx, modeWait)
	require.NoError(t, err)
	require.True(t, v.ok || v.retry < recheck)
}

// Every change that lets the first waiter acquire earlier wakes it, if leases are about to end.
func TestFirstWaiterIsWokenWhenExpiryChanges(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	w := listenTo(t, addr, c)
	s := c.LeasedSemaphore("a")
	kind := leasedPermitKind
	set(t, leasedPermits{s}, 4)
	long, err := s.Acquire(ctx, 2, WithLease(time.Hour))
	require.NoError(t, err)
	a, err := s.Acquire(ctx, 1, WithLease(time.Hour))
	require.NoError(t, err)
	b, err := s.Acquire(ctx, 1, WithLease(time.Hour))
	require.NoError(t, err)
	first, second := kind.claim(c, "a", 3), kind.claim(c, "a", 2)
	requireIn(t, first, false)
	requireIn(t, second, false)
	require.NoError(t, a.Release(ctx))
	require.Empty(t, w.received(), "no lease is about to end")

	require.NoError(t, long.Extend(ctx, time.Second))
	require.Equal(t, []string{first.id}, w.received(), "a shorter lease")
	v, err := first.acquireOnce(ctx, modeWait)
	require.NoError(t, err)
	require.Less(t, v.retry, recheck)
	require.NoError(t, b.Release(ctx))
	require.Equal(t, []string{first.id}, w.received(), "one permit less is needed")
	require.ErrorIs(t, first.release(ctx), ErrNotHeld)
	require.Equal(t, []string{second.id}, w.received(), "another waiter is first and can be admitted")
	requireIn(t, second, true)
	require.NoError(t, second.release(ctx))
	require.NoError(t, long.Release(ctx))
	requireAvailable(t, leasedPermits{s}, 4)
}

// A command that finds expired leases wakes the waiters that can be admitted.
func TestExpiredPermitsWakeWaiters(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	w := listenTo(t, addr, c)
	s := c.LeasedSemaphore("a")
	set(t, leasedPermits{s}, 1)
	p := takeFor(t, s, 1, 2*time.Second)
	first := leasedPermitKind.claim(c, "a", 1)
	requireIn(t, first, false)

	requireDone(t, p.Context(), ErrLost)
	eventually(t, "over", func() bool { n, err := s.Available(ctx); return err == nil && n == 1 })
	require.Equal(t, []string{first.id}, w.received(), "once")
	_, err := s.TryAcquire(ctx, 1)
	require.ErrorIs(t, err, ErrNotAcquired, "the permits belong to the other hold")
	requireIn(t, first, true)
}

// If only the holders' key is deleted, its permits are free.
func TestDeletedHoldersKeyFreesPermits(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	s := newLocks(t, addr, WithWatchdog(2400*time.Millisecond)).LeasedSemaphore("a")
	set(t, leasedPermits{s}, 3)
	p, err := s.Acquire(ctx, 2)
	require.NoError(t, err)
	require.NoError(t, newClient(t, addr).Del(ctx, s.keys[3]).Err())
	requireAvailable(t, leasedPermits{s}, 3)
	requireDone(t, p.Context(), ErrLost)
	require.ErrorIs(t, p.Release(ctx), ErrNotHeld)
	requireAvailable(t, leasedPermits{s}, 3)
}
