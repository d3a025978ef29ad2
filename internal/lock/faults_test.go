package lock

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// The faults of this file happen to every kind of lock of a Client. Those of a RedLock are in redlock_test.go, those of
// ZooKeeper in zk_test.go.

// The acquire was executed, and its reply is lost: the caller gets the error, and nothing is left.
func TestAcquireReplyLost(t *testing.T) {
	each(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c, p := k.faulty(t, addr)

		for _, lock := range bothWays(k.lock(c, "a")) {
			p.Inject(dropReply, k.acquire.sha, 1)
			_, err := lock(owned(t))
			require.ErrorIs(t, err, io.EOF)
			require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the lock is taken")
			require.NotErrorIs(t, err, ErrUncertain, "the acquire was undone")
			require.Equal(t, 1, p.Broken())
			k.nothingLeft(t, rdb, "a")
		}
		release(t, must(t)(k.block(c, "a").TryLock(soon(t))))
	})
}

// A waiter whose replies are lost repeats its attempt with the same id, and acquires the lock once.
func TestWaiterReplyLost(t *testing.T) {
	each(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c, p := k.faulty(t, addr)
		direct := newLocks(t, addr)
		h := must(t)(k.block(direct, "a").Lock(soon(t)))
		got := background(owned(t), k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)

		p.Inject(dropReply, k.acquire.sha, 2)
		release(t, h)
		next := arrived(t, got)
		assert.Positive(t, p.Broken(), "no reply was lost")
		assert.Zero(t, waiters(t, rdb, k.name, "a"))

		release(t, next)
		release(t, must(t)(k.block(direct, "a").TryLock(soon(t)))) // it was not counted twice
		k.nothingLeft(t, rdb, "a")
	})
}

// The first release was executed, and wakes the waiter. The repeated one finds nothing, and succeeds.
func TestReleaseReplyLost(t *testing.T) {
	each(t, lockKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		var seen recorder
		c, p := k.faulty(t, addr, WithObserver(seen.observe))
		h := must(t)(k.lock(c, "a").Lock(owned(t)))
		got := background(ctx, k.block(newLocks(t, addr), "a"))
		queued(t, rdb, k.name, "a", 1)

		p.Inject(dropReply, k.freeing.sha, 2)
		err := h.Release(ctx)
		for errors.Is(err, ErrUncertain) { // the machine stalled for 1.5 s
			err = h.Release(ctx)
		}
		require.NoError(t, err)
		require.Equal(t, 2, p.Broken())
		assert.Zero(t, seen.count(EventLost))

		release(t, arrived(t, got))
		k.nothingLeft(t, rdb, "a")
	})
}

// A renewal that fails is repeated.
func TestRenewReplyLost(t *testing.T) {
	each(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		var seen recorder
		c, p := k.faulty(t, addr, WithWatchdog(6*time.Second), WithObserver(seen.observe))
		h := must(t)(k.lock(c, "a").Lock(soon(t)))

		p.Inject(dropReply, k.renew.sha, 1)
		first := h.ValidUntil()
		eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
		assert.Positive(t, seen.count(EventRenewFailed))

		release(t, h)
		assert.Zero(t, seen.count(EventLost))
	})
}

// No renewal is executed: the hold ends before the server frees the lock, and then the waiter acquires it.
func TestFailedRenewalsEndHold(t *testing.T) {
	testenv.Full(t)
	each(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		c, p := k.faulty(t, addr, WithWatchdog(12*time.Second)) // leaves 0.7 s from the end of the hold to that of the key
		h := must(t)(k.lock(c, "a").Lock(ctx))
		got := background(ctx, k.block(newLocks(t, addr), "a"))

		p.Inject(refuse, k.renew.sha, always)
		requireDone(t, h.Context(), ErrLost)
		assert.Empty(t, got, "the server freed the lock first")
		next := arrived(t, got)

		p.Heal()
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.NoError(t, next.Extend(ctx, time.Minute))
		release(t, next)
		k.nothingLeft(t, newClient(t, addr), "a")
	})
}

// The caller's context ends while the server is silent. A repeated call has another command in flight.
func TestCancelDuringCommandReturnsAtOnce(t *testing.T) {
	each(t, lockKinds, func(t *testing.T, addr string, k lockKind) {
		c, p := k.faulty(t, addr)
		c.exec.maxInFlight = maxInFlightSolo
		held := must(t)(k.lock(c, "a").Lock(soon(t)))
		k.ready(t, c, "b")

		p.Inject(muteReply, anyCmd, always)
		for _, lock := range bothWays(k.lock(c, "b")) {
			err := cancelled(t, func(ctx context.Context) error { _, err := lock(ctx); return err })
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		if k.leased() {
			err := cancelled(t, func(ctx context.Context) error { return held.Extend(ctx, time.Minute) })
			require.ErrorIs(t, err, ErrUncertain)
		}
		require.ErrorIs(t, cancelled(t, held.Release), ErrUncertain)

		p.Heal()
		k.nothingLeft(t, newClient(t, addr), "a", "b")
	})
}

// An acquire that is answered after its caller has returned is undone.
func TestCancelledAcquireIsReleased(t *testing.T) {
	eachOnOwnRedis(t, lockKinds, func(t *testing.T, server *testenv.Redis, k lockKind) {
		c := newLocks(t, server.Addr)
		k.ready(t, c, "a")
		require.NoError(t, Do(soon(t), k.lock(c, "a"), nothing))

		require.NoError(t, server.Pause())
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := k.lock(c, "a").TryLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrUncertain)

		require.NoError(t, server.Resume())
		k.nothingLeft(t, newClient(t, server.Addr), "a")
	})
}

// Waits that end while some are queued, some commands are in flight and some are not sent yet leave nothing behind.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	each(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(soon(t)))
		ctx, cancel := context.WithCancel(soon(t))
		var waits []<-chan outcome
		for range 100 {
			waits = append(waits, background(ctx, k.lock(c, "a")))
		}
		eventually(t, "some are queued", func() bool { return rdb.ZCard(soon(t), k.keys("a")[1]).Val() > 0 })

		cancel()
		for _, wait := range waits {
			require.ErrorIs(t, (<-wait).err, ErrNotAcquired)
		}
		queued(t, rdb, k.name, "a", 0)
		release(t, h)
		k.nothingLeft(t, rdb, "a")
	})
}

// The server forgets its scripts while a hold is renewed, handed over and released.
func TestScriptFlush(t *testing.T) {
	each(t, lockKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		flush := func() { require.NoError(t, rdb.ScriptFlush(ctx).Err()) }
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.lock(c, "a").Lock(ctx))
		flush()
		if k.leased() {
			require.NoError(t, h.Extend(ctx, time.Minute))
		}

		got := background(ctx, k.block(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		flush()
		release(t, h)
		flush()
		release(t, arrived(t, got))
		k.nothingLeft(t, rdb, "a")
	})
}

// A waiter of a dead holder acquires the lock after each of these faults.
func TestWaiterSurvivesFaults(t *testing.T) {
	eachOnOwnRedis(t, waitKinds, func(t *testing.T, server *testenv.Redis, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		direct := newLocks(t, server.Addr)
		for _, fault := range []struct {
			name   string
			strike func() error
		}{
			{"scripts are flushed", func() error { return rdb.ScriptFlush(ctx).Err() }},
			{"no pub/sub connection", func() error { return rdb.Do(ctx, "client", "kill", "type", "pubsub").Err() }},
			{"the holds are gone", func() error { return rdb.Del(ctx, k.holds("a")...).Err() }},
			{"all keys are gone", func() error { return rdb.FlushAll(ctx).Err() }},
			{"the server restarts empty", server.Restart},
		} {
			c := newLocks(t, server.Addr)
			k.ready(t, direct, "a")
			old := must(t)(k.block(direct, "a").Lock(ctx))
			got := background(ctx, persistent{k.lock(c, "a")})
			queued(t, rdb, k.name, "a", 1)
			allAnswered(t, c)

			require.NoError(t, fault.strike(), fault.name)
			_ = rdb.Ping(ctx).Err() // detects the dead connection
			k.ready(t, direct, "a")
			_ = old.Release(ctx) // it may be lost
			next := arrived(t, got)
			release(t, next)
			k.nothingLeft(t, rdb, "a")
		}
	})
}

// The keys of a hold are deleted: the hold is lost, and the waiter acquires the lock.
func TestDeletedKeyEndsHold(t *testing.T) {
	each(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, other := newLocks(t, addr, WithWatchdog(2400*time.Millisecond)), newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(persistent{k.lock(c, "a")}.Lock(ctx))
		got := background(ctx, k.block(other, "a"))
		queued(t, rdb, k.name, "a", 1)

		require.NoError(t, rdb.Del(ctx, append(k.holds("a"), k.stays("a")...)...).Err())
		requireDone(t, h.Context(), ErrLost)
		k.ready(t, other, "a")
		next := arrived(t, got)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		_, err := k.lock(other, "a").TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "the loser freed the winner's lock")
		require.NoError(t, next.Extend(ctx, time.Minute))
		release(t, next)
		k.nothingLeft(t, rdb, "a")
	})
}

// The server restarts without its data: the hold is lost, and the waiter acquires the lock with a greater token and is
// renewed.
func TestServerRestartedWithoutData(t *testing.T) {
	eachOnOwnRedis(t, leasedKinds, func(t *testing.T, server *testenv.Redis, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c, other := newLocks(t, server.Addr, WithWatchdog(3*time.Second)), newLocks(t, server.Addr, WithWatchdog(6*time.Second))
		k.ready(t, c, "a")
		old := must(t)(persistent{k.block(c, "a")}.Lock(ctx))
		got := background(ctx, persistent{k.lock(other, "a")})
		queued(t, rdb, k.name, "a", 1)

		require.NoError(t, server.Restart())
		k.ready(t, c, "a")
		next := arrived(t, got)
		if old.Token() > 0 {
			assert.Greater(t, next.Token(), old.Token())
		}
		requireDone(t, old.Context(), ErrLost)
		require.ErrorIs(t, old.Release(ctx), ErrNotHeld)
		first := next.ValidUntil()
		eventually(t, "renewed", func() bool { return next.ValidUntil().After(first) })
		release(t, next)
		k.nothingLeft(t, rdb, "a")
	})
}

// The server is paused for longer than the lease.
func TestServerPausedBeyondLease(t *testing.T) {
	testenv.Full(t)
	eachOnOwnRedis(t, leasedKinds, func(t *testing.T, server *testenv.Redis, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr, WithWatchdog(12*time.Second))
		k.ready(t, c, "a")
		h := must(t)(k.lock(c, "a").Lock(ctx))

		require.NoError(t, rdb.Do(ctx, "client", "pause", "15000", "all").Err())
		requireDone(t, h.Context(), ErrLost)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)

		next := must(t)(persistent{k.block(c, "a")}.Lock(ctx)) // the server may still be paused
		if h.Token() > 0 {
			assert.Greater(t, next.Token(), h.Token())
		}
		release(t, next)
		k.nothingLeft(t, rdb, "a")
	})
}

// A dead server is not a taken lock, and a refused connection leaves nothing behind.
func TestDeadServerReturnsItsError(t *testing.T) {
	eachOnOwnRedis(t, leasedKinds, func(t *testing.T, server *testenv.Redis, k lockKind) {
		ctx := soon(t)
		rdb, kill := newMortalClient(t, server)
		c := newLocksOf(t, rdb)
		k.ready(t, c, "a")
		h := must(t)(k.lock(c, "a").Lock(ctx))
		kill()

		_, _ = k.lock(c, "a").TryLock(ctx) // detects the dead connection
		for _, lock := range bothWays(k.lock(c, "a")) {
			_, err := lock(ctx)
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrNotAcquired)
			require.NotErrorIs(t, err, ErrUncertain)
		}
		require.ErrorIs(t, h.Release(ctx), ErrUncertain)
	})
}

// Close ends holds and waits, and frees nothing on the server.
func TestClose(t *testing.T) {
	each(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(ctx))
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)

		require.NoError(t, c.Close())
		err := (<-got).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, ErrClosed)
		require.NotErrorIs(t, err, ErrUncertain)
		requireDone(t, h.Context(), ErrLost)
		assert.Zero(t, waiters(t, rdb, k.name, "a"))
		_, err = k.lock(newLocks(t, addr), "a").TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "it is left to its lease")

		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		for _, lock := range bothWays(k.lock(c, "b")) {
			_, err = lock(ctx)
			require.ErrorIs(t, err, ErrClosed)
		}
		require.NoError(t, c.Close(), "the second call does nothing")
	})
}

func TestCloseWhileServerHangs(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	server := testenv.StartRedis(t)
	c := newLocks(t, server.Addr)
	h := must(t)(c.Mutex("a").Lock(soon(t)))
	got := background(soon(t), c.Mutex("a"))
	queued(t, newClient(t, server.Addr), mutexKind.name, "a", 1)

	require.NoError(t, server.Pause())
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	require.ErrorIs(t, (<-got).err, ErrClosed)
	requireDone(t, h.Context(), ErrLost)
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(2 * longTimeout):
		require.FailNow(t, "Close waits for the server")
	}
	require.NoError(t, server.Resume())
}
