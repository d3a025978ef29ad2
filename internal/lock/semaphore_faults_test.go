package lock

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// faultyPermits returns a Client behind a proxy. Its connection is open, the scripts are loaded, and the permits of "a"
// are set.
func faultyPermits(t *testing.T, addr string, k permitKind, permits int64) (*Client, *proxy) {
	t.Helper()
	p := startProxy(t, addr)
	c := newLocks(t, p.Addr)
	withLongTimeout(c, func() {
		for _, name := range []string{"warm", "a"} {
			s := k.of(c, name)
			set(t, s, permits)
			giveBack, err := s.take(soon(t), 1, true)
			require.NoError(t, err)
			require.NoError(t, giveBack(soon(t)))
			require.NoError(t, s.AddPermits(soon(t), 1))
			require.NoError(t, s.AddPermits(soon(t), -1))
			requireAvailable(t, s, permits)
		}
	})
	require.NoError(t, newClient(t, addr).Del(soon(t), countKey(k.kind, "warm")).Err())
	return c, p
}

func TestPermitsAcquireReplyLost(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		c, p := faultyPermits(t, addr, k, 3)
		for _, wait := range []bool{false, true} {
			p.Inject(dropReply, k.acquire.sha, 1)
			_, err := k.of(c, "a").take(soon(t), 2, wait)
			require.ErrorIs(t, err, io.EOF)
			require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the permits are taken")
			require.NotErrorIs(t, err, ErrUncertain, "the acquire was undone")
			require.Equal(t, 1, p.Broken())
			requireAvailable(t, k.of(c, "a"), 3)
		}
		// The undo succeeds at the second try, and the first was executed: the permits are released once.
		p.Inject(dropReply, "\r\n"+c.id+":", 2)
		_, err := k.of(c, "a").take(soon(t), 2, false)
		require.ErrorIs(t, err, ErrUncertain)
		eventually(t, "undone", func() bool {
			n, err := k.of(newLocks(t, addr), "a").Available(soon(t))
			return err == nil && n == 3
		})
		onlyCountsLeft(t, newClient(t, addr), countKey(k.kind, "a"))
	})
}

// A waiter whose replies are lost repeats its attempt with the same id, and gets its permits once.
func TestPermitsWaiterReplyLost(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, p := faultyPermits(t, addr, k, 3)
		direct := k.of(newLocks(t, addr), "a")
		all, err := direct.take(ctx, 3, true)
		require.NoError(t, err)
		got := waiting(ctx, k.of(c, "a"), 2)
		queued(t, rdb, k.name, "a", 1)
		p.Inject(dropReply, k.acquire.sha, 2)
		require.NoError(t, all(ctx))
		in := <-got
		require.NoError(t, in.err)
		assert.Positive(t, p.Broken(), "no reply was lost")
		requireAvailable(t, direct, 1)
		assert.Zero(t, waiters(t, rdb, k.name, "a"))
		require.NoError(t, in.giveBack(ctx))
		requireAvailable(t, direct, 3)
	})
}

// Every change is executed once, and its reply is that of the first execution.
func TestPermitsRepliesLost(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, p := faultyPermits(t, addr, k, 3)
		s := k.of(c, "a")
		lose := func(script *script) { t.Helper(); p.Inject(dropReply, script.sha, 2) }
		lost := func() { t.Helper(); require.Equal(t, 2, p.Broken()) }

		lose(k.pool.add)
		require.NoError(t, s.AddPermits(ctx, 4))
		lost()
		requireAvailable(t, s, 7)
		require.NoError(t, s.AddPermits(ctx, -4))

		giveBack, err := s.take(ctx, 2, true)
		require.NoError(t, err)
		if k.kind == leasedKind {
			lose(leasedKind.release)
		} else {
			lose(releaseScript)
		}
		require.NoError(t, giveBack(ctx))
		lost()
		requireAvailable(t, s, 3)

		if k.kind == semaphoreKind {
			n, err := c.Semaphore("a").Drain(ctx) // loads its script
			require.NoError(t, err)
			require.NoError(t, c.Semaphore("a").Release(ctx, n-1))
			lose(drainScript)
			n, err = c.Semaphore("a").Drain(ctx)
			require.NoError(t, err)
			lost()
			require.EqualValues(t, 2, n, "the reply is that of the first execution")
			requireAvailable(t, s, 0)
			require.NoError(t, c.Semaphore("a").Release(ctx, 3))
		}

		require.NoError(t, rdb.Del(ctx, countKey(k.kind, "a")).Err())
		lose(k.pool.set)
		set(t, s, 5)
		lost()
		requireAvailable(t, s, 5)
	})
}

// A claim that is undone twice releases once, and one that arrives after its undo takes nothing.
func TestUndoIsIdempotent(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		s := k.of(c, "a")
		set(t, s, 4)
		other, err := s.take(ctx, 2, true)
		require.NoError(t, err)
		cl := k.claim(c, "a", 2)
		requireIn(t, cl, true)
		requireIn(t, cl, true)
		requireAvailable(t, s, 0)
		require.NoError(t, cl.release(ctx))
		require.ErrorIs(t, cl.release(ctx), ErrNotHeld)
		requireAvailable(t, s, 2)
		if k.kind == semaphoreKind { // they would never be released
			requireIn(t, cl, false)
			requireAvailable(t, s, 2)
			require.Zero(t, waiters(t, newClient(t, addr), k.name, "a"))
		}
		require.NoError(t, other(ctx))
		requireAvailable(t, s, 4)
	})
}

// The caller's context ends while the server is silent.
func TestPermitsCancelDuringCommandReturnsAtOnce(t *testing.T) {
	testenv.Full(t)
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		requireOneWithin(t, cancelBound, func() time.Duration { return leavePermits(t, addr, k) })
	})
}

// leavePermits cancels one call of every method, and returns how late the latest returned.
func leavePermits(t *testing.T, addr string, k permitKind) (latest time.Duration) {
	require.NoError(t, newClient(t, addr).FlushAll(soon(t)).Err())
	c, p := faultyPermits(t, addr, k, 3)
	c.exec.maxInFlight = maxInFlightSolo
	s, direct := k.of(c, "a"), k.of(newLocks(t, addr), "a")
	giveBack, err := s.take(soon(t), 1, true)
	require.NoError(t, err)
	leave := func(name string, call func(context.Context) error) error {
		t.Helper()
		took, err := cancelOnce(call)
		require.ErrorIs(t, err, context.Canceled, name)
		latest = max(latest, took)
		return err
	}
	p.Inject(muteReply, anyCmd, always)
	for _, wait := range []bool{false, true} {
		err := leave("take", func(ctx context.Context) error { _, err := s.take(ctx, 1, wait); return err })
		require.ErrorIs(t, err, ErrNotAcquired)
	}
	err = leave("add", func(ctx context.Context) error { return s.AddPermits(ctx, 5) })
	require.ErrorIs(t, err, ErrUncertain)
	_ = leave("set", func(ctx context.Context) error { _, err := s.SetPermits(ctx, 5); return err })
	err = leave("available", func(ctx context.Context) error { _, err := s.Available(ctx); return err })
	require.NotErrorIs(t, err, ErrUncertain)
	err = leave("release", giveBack)
	require.ErrorIs(t, err, ErrUncertain)
	p.Heal()
	var n int64
	eventually(t, "permits released", func() bool {
		n, err = direct.Available(soon(t))
		return err == nil && (n == 3 || n == 8) // 5 were added if that was executed
	})
	time.Sleep(300 * time.Millisecond) // time for repetitions
	requireAvailable(t, direct, n)
	return latest
}

// A ctx that has ended does not stop a release, but every other change.
func TestPermitsReleasedAfterContextEnds(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 3)
		giveBack, err := s.take(soon(t), 2, true)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(soon(t))
		cancel()
		_, err = s.take(ctx, 1, true)
		require.ErrorIs(t, err, ErrNotAcquired)
		for range 20 {
			err = s.AddPermits(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrUncertain)
		}
		if err := giveBack(ctx); err != nil {
			require.ErrorIs(t, err, ErrUncertain)
		}
		eventually(t, "back", func() bool { n, err := s.Available(soon(t)); return err == nil && n == 3 })
	})
}

// After the caller has returned, the client retries even an error that would be final for a waiting caller.
func TestDetachedReleaseRetriesAfterErrors(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		s := newLocks(t, addr).Semaphore("a")
		set(t, plainPermits{s}, 3)
		require.NoError(t, s.Acquire(soon(t), 2))
		key, aside := countKey(semaphoreKind, "a"), "aside"
		require.NoError(t, rdb.Rename(soon(t), key, aside).Err())
		require.NoError(t, rdb.Set(soon(t), key, "not a semaphore", 0).Err())
		err := s.Release(soon(t), 1)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NotErrorIs(t, err, ErrUncertain)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, s.Release(ctx, 2), ErrUncertain)
		require.NoError(t, rdb.Rename(soon(t), aside, key).Err())
		eventually(t, "back", func() bool { n, err := s.Available(soon(t)); return err == nil && n == 3 })
	})
}

// Close ends the repetition of requests.
func TestCloseEndsRequests(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		p := startProxy(t, addr)
		var seen recorder
		c, err := New(newClient(t, p.Addr), WithObserver(seen.observe))
		require.NoError(t, err)
		set(t, plainPermits{c.Semaphore("a")}, 3)
		p.Inject(muteReply, anyCmd, always)
		done := make(chan error)
		go func() { done <- c.Semaphore("a").Release(context.Background(), 1) }()
		eventually(t, "sent", func() bool { return p.Broken() > 0 })
		require.NoError(t, c.Close())
		err = <-done
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, []EventKind{EventUncertain}, seen.kinds())
		require.ErrorIs(t, c.Semaphore("a").Release(context.Background(), 1), ErrClosed)
		_, err = c.Semaphore("a").Available(context.Background())
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, c.Latch("a").Wait(context.Background()), ErrClosed)
	})
}

// serverFaults are the faults that a waiter must survive.
func serverFaults(t *testing.T, server *testenv.Redis, key string) map[string]func() error {
	rdb, ctx := newClient(t, server.Addr), soon(t)
	return map[string]func() error{
		"scripts are flushed":   func() error { return rdb.ScriptFlush(ctx).Err() },
		"no pub/sub connection": func() error { return rdb.Do(ctx, "client", "kill", "type", "pubsub").Err() },
		"key is gone":           func() error { return rdb.Del(ctx, key).Err() },
		"all keys are gone":     func() error { return rdb.FlushAll(ctx).Err() },
		"server restarts empty": server.Restart,
	}
}

func TestPermitsFaultsWhileWaiting(t *testing.T) {
	testenv.Full(t)
	eachSemaphoreOnRedis(t, func(t *testing.T, server *testenv.Redis, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		direct, c := newLocks(t, server.Addr), newLocks(t, server.Addr)
		s := k.of(c, "a")
		for name, fault := range serverFaults(t, server, countKey(k.kind, "a")) {
			_, err := k.of(direct, "a").SetPermits(ctx, 2)
			require.NoError(t, err)
			cl := k.claim(direct, "a", 2) // no watchdog renews it, so it does not notice
			requireIn(t, cl, true)
			got := waiting(ctx, s, 1)
			queued(t, rdb, k.name, "a", 1)
			allAnswered(t, c)
			require.NoError(t, fault(), name)
			_ = rdb.Ping(ctx).Err() // detects the dead connection
			_, _ = s.Available(ctx) // and so does the waiter's client
			again, err := k.of(direct, "a").SetPermits(ctx, 2)
			if err != nil {
				again, err = k.of(direct, "a").SetPermits(ctx, 2)
			}
			require.NoError(t, err, name)
			if again { // its key was deleted, so none of its permits are held
				require.Error(t, cl.release(ctx), name)
			} else {
				require.NoError(t, cl.release(ctx), name)
			}
			in := <-got
			require.NoError(t, in.err, name)
			require.NoError(t, in.giveBack(ctx), name)
			requireAvailable(t, s, 2)
		}
		onlyCountsLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// Without the key nothing is held, and a release of earlier permits does not affect later ones.
func TestPermitsDeletedKeyResetsCount(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr, WithWatchdog(2400*time.Millisecond))
		s := k.of(c, "a")
		set(t, s, 3)
		giveBack, err := s.take(ctx, 2, true)
		require.NoError(t, err)
		require.NoError(t, rdb.Del(ctx, countKey(k.kind, "a")).Err())
		requireAvailable(t, s, 0)
		_, err = s.take(ctx, 1, false)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, giveBack(ctx), ErrNotHeld)
		set(t, s, 3)
		requireAvailable(t, s, 3)
		giveBack, err = s.take(ctx, 2, true)
		require.NoError(t, err)
		require.NoError(t, rdb.FlushAll(ctx).Err())
		set(t, s, 3)
		require.ErrorIs(t, giveBack(ctx), ErrNotHeld)
		requireAvailable(t, s, 3)
		onlyCountsLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// A hold of permits is lost with the key.
func TestPermitsAreLostWithTheKey(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		s := newLocks(t, addr, WithWatchdog(2400*time.Millisecond)).LeasedSemaphore("a")
		for _, setAgain := range []bool{false, true} {
			_, err := s.SetPermits(ctx, 1)
			require.NoError(t, err)
			p, err := s.Acquire(ctx, 1)
			require.NoError(t, err)
			require.NoError(t, newClient(t, addr).Del(ctx, countKey(leasedKind, "a")).Err())
			if setAgain {
				set(t, leasedPermits{s}, 1)
			}
			requireDone(t, p.Context(), ErrLost)
			require.ErrorIs(t, p.Release(ctx), ErrNotHeld)
		}
		requireAvailable(t, leasedPermits{s}, 1)
	})
}

// All keys of a name are in one slot, including those of requests.
func TestPermitsAndLatchInACluster(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	ctx := soon(t)
	c, err := New(testenv.StartRedisCluster(t).Client(t))
	require.NoError(t, err)
	c.exec.timeout = longTimeout
	defer func() { assert.NoError(t, c.Close()) }()
	for _, name := range []string{"a", "b", "c", "}{"} {
		for _, k := range permitKinds {
			s := k.of(c, name)
			set(t, s, 2)
			require.NoError(t, s.AddPermits(ctx, 1))
			giveBack, err := s.take(ctx, 2, true)
			require.NoError(t, err)
			got := waiting(ctx, s, 3)
			require.NoError(t, giveBack(ctx))
			in := <-got
			require.NoError(t, in.err)
			require.NoError(t, in.giveBack(ctx))
			requireAvailable(t, s, 3)
		}
		n, err := c.Semaphore(name).Drain(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		setCount(t, c.Latch(name), 1)
		got := waitFor(ctx, c.Latch(name))
		require.NoError(t, c.Latch(name).CountDown(ctx))
		require.NoError(t, <-got)
		requireCount(t, c.Latch(name), 0)
	}
}
