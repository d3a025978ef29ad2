package lock

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// faulty returns a Client behind a proxy. Its connection is open and the scripts are loaded, so that the next requests
// are those of the test.
func faulty(t *testing.T, addr string, k exclusiveKind, opts ...ClientOption) (*Client, *proxy) {
	t.Helper()
	p := startProxy(t, addr)
	c := newLocks(t, p.Addr, opts...)
	withLongTimeout(c, func() {
		h := must(t)(k.lock(c, "warm").Lock(soon(t)))
		require.NoError(t, h.Extend(soon(t), time.Minute))
		release(t, h)
	})
	return c, p
}

// lockKey returns the key of the lock "a".
func lockKey(k exclusiveKind) string { return keysOf(DefaultPrefix, k.name, "a")[0] }

func TestClientAcquireReplyLost(t *testing.T) {
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		c, p := faulty(t, addr, k)
		l := k.lock(c, "a")
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){l.TryLock, l.Lock} {
			p.Inject(dropReply, k.acquire.sha, 1)
			_, err := lock(ctx)
			require.ErrorIs(t, err, io.EOF)
			require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the lock is taken")
			require.NotErrorIs(t, err, ErrUncertain, "the acquire was undone")
			require.Equal(t, 1, p.Broken())
			nothingLeft(t, newClient(t, addr))
		}
	})
}

// A waiter whose replies are lost repeats its attempt with the same id, and acquires the lock once.
func TestWaiterReplyLost(t *testing.T) {
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, p := faulty(t, addr, k)
		h, err := k.lock(newLocks(t, addr), "a").Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		p.Inject(dropReply, k.acquire.sha, 2)
		require.NoError(t, h.Release(ctx))
		next := <-got
		require.NoError(t, next.err)
		assert.Positive(t, p.Broken(), "no reply was lost")
		assert.Greater(t, next.hold.Token(), h.Token())
		assert.Zero(t, waiters(t, rdb, k.name, "a"))
		require.NoError(t, next.hold.Release(ctx))
		assert.Zero(t, rdb.Exists(ctx, lockKey(k)).Val(), "counted twice")
		nothingLeft(t, rdb)
	})
}

func TestClientReleaseReplyLost(t *testing.T) {
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		var seen recorder
		c, p := faulty(t, addr, k, WithObserver(seen.observe))
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		p.Inject(dropReply, k.release.sha, 2)
		err = h.Release(ctx)
		for errors.Is(err, ErrUncertain) { // the machine stalled for 1.5 s
			err = h.Release(ctx)
		}
		require.NoError(t, err, "the first release freed the lock; the repeated one found nothing")
		require.Equal(t, 2, p.Broken())
		assert.Zero(t, seen.count(EventLost))
		nothingLeft(t, newClient(t, addr))
	})
}

func TestClientRenewReplyLost(t *testing.T) {
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		var seen recorder
		c, p := faulty(t, addr, k, WithWatchdog(6*time.Second), WithObserver(seen.observe))
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		p.Inject(dropReply, k.renew.sha, 1)
		first := h.ValidUntil()
		eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
		assert.Positive(t, seen.count(EventRenewFailed))
		require.NoError(t, h.Release(ctx))
		assert.Zero(t, seen.count(EventLost))
	})
}

// No renewal is executed: the hold ends before the server frees the lock, and the waiter acquires the lock.
func TestClientFailedRenewalsEndHold(t *testing.T) {
	testenv.Full(t)
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, p := faulty(t, addr, k, WithWatchdog(12*time.Second)) // leaves 0.7 s from the end of the hold to that of the key
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, k.lock(newLocks(t, addr), "a"))
		p.Inject(refuse, k.renew.sha, always)
		requireDone(t, h.Context(), ErrLost)
		assert.EqualValues(t, 1, rdb.Exists(ctx, lockKey(k)).Val(), "the server freed the lock first")
		next := <-got
		require.NoError(t, next.err)
		p.Heal()
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		assert.Greater(t, next.hold.Token(), h.Token())
		require.NoError(t, next.hold.Context().Err())
		require.NoError(t, next.hold.Release(ctx))
		nothingLeft(t, rdb)
	})
}

// The caller's context ends while the server is silent. The timeout is far above the bound, so it cannot end the call.
// A repeated call has another command in flight.
func TestClientCancelDuringCommandReturnsAtOnce(t *testing.T) {
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		c, p := faulty(t, addr, k)
		c.exec.timeout, c.exec.maxInFlight = 10*time.Second, maxInFlightSolo
		held, err := k.lock(c, "a").Lock(soon(t))
		require.NoError(t, err)
		l := k.lock(c, "b")
		p.Inject(muteReply, anyCmd, always)
		calls := map[string]func(context.Context) error{
			"trylock": func(ctx context.Context) error { _, err := l.TryLock(ctx); return err },
			"lock":    func(ctx context.Context) error { _, err := l.Lock(ctx); return err },
			"extend":  func(ctx context.Context) error { return held.Extend(ctx, time.Minute) },
			"release": held.Release,
		}
		for _, name := range []string{"trylock", "lock", "extend", "release"} {
			err := cancelled(t, calls[name])
			if name == "lock" || name == "trylock" {
				require.ErrorIs(t, err, ErrNotAcquired, name)
			}
		}
		p.Heal()
		eventually(t, "free", func() bool {
			return newClient(t, addr).Exists(context.Background(), lockKey(k), keysOf(DefaultPrefix, k.name, "b")[0]).Val() == 0
		})
	})
}

// An acquire that is answered after its caller has returned is released.
func TestClientCancelledAcquireIsReleased(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		c := newLocks(t, server.Addr)
		require.NoError(t, Do(soon(t), k.lock(c, "a"), nothing))
		require.NoError(t, server.Pause())
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := k.lock(c, "a").TryLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrUncertain)
		require.NoError(t, server.Resume())
		nothingLeft(t, newClient(t, server.Addr))
	})
}

// Waits that end while their queue commands are in flight leave nothing behind.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		c := newLocks(t, server.Addr)
		h, err := k.lock(c, "a").Lock(soon(t))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(soon(t))
		var waits []<-chan outcome
		for range 300 {
			waits = append(waits, background(ctx, k.lock(c, "a")))
		}
		time.Sleep(10 * time.Millisecond) // some are queued, some are in flight, some are not sent yet
		cancel()
		for _, wait := range waits {
			require.ErrorIs(t, (<-wait).err, ErrNotAcquired)
		}
		queued(t, newClient(t, server.Addr), k.name, "a", 0)
		require.NoError(t, h.Release(soon(t)))
		nothingLeft(t, newClient(t, server.Addr))
	})
}

func TestScriptFlush(t *testing.T) {
	eachExclusive(t, onSingleServers, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		flush := func() { require.NoError(t, rdb.ScriptFlush(ctx).Err()) }
		l := k.lock(newLocks(t, addr), "a")
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		flush()
		require.NoError(t, h.Extend(ctx, time.Minute))
		got := background(ctx, l)
		queued(t, rdb, k.name, "a", 1)
		flush()
		require.NoError(t, h.Release(ctx))
		next := <-got
		require.NoError(t, next.err)
		require.NoError(t, next.hold.Release(ctx))
	})
}

// The waiters' connection is killed. It is replaced, and a wake message that was lost meanwhile delays no waiter.
func TestWaiterSurvivesKilledPubSub(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr)
		h, err := k.lock(newLocks(t, server.Addr), "a").Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		listeners := func() int64 { return rdb.PubSubNumSub(ctx, c.hub.channel).Val()[c.hub.channel] }
		require.EqualValues(t, 1, listeners())
		for range 3 {
			require.NoError(t, rdb.Do(ctx, "client", "kill", "type", "pubsub").Err())
			eventually(t, "subscribed again", func() bool { return listeners() == 1 })
		}
		require.NoError(t, rdb.Do(ctx, "client", "kill", "type", "pubsub").Err())
		require.NoError(t, h.Release(ctx))
		next := <-got
		require.NoError(t, next.err)
		require.NoError(t, next.hold.Release(ctx))
		nothingLeft(t, rdb)
	})
}

// After a reconnect every waiter retries, even without a wake message.
func TestWaitersRetryAfterReconnect(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	ctx := soon(t)
	c := newLocks(t, server.Addr)
	woken, confirmed, err := c.hub.join("me", "")
	require.NoError(t, err)
	defer c.hub.leave("me", false)
	<-confirmed
	select {
	case <-woken:
		require.FailNow(t, "woken by the first confirmation")
	default:
	}
	require.NoError(t, newClient(t, server.Addr).Do(ctx, "client", "kill", "type", "pubsub").Err())
	select {
	case <-woken:
	case <-ctx.Done():
		require.FailNow(t, "not woken")
	}
}

func TestDeletedKeyEndsHold(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		h, err := k.lock(newLocks(t, addr, WithWatchdog(2400*time.Millisecond)), "a").Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, k.lock(newLocks(t, addr), "a"))
		queued(t, rdb, k.name, "a", 1)
		require.NoError(t, rdb.Del(ctx, lockKey(k)).Err())
		next := <-got
		require.NoError(t, next.err)
		requireDone(t, h.Context(), ErrLost)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.NoError(t, next.hold.Extend(ctx, time.Minute), "the loser freed the winner's lock")
		require.NoError(t, next.hold.Release(ctx))
		nothingLeft(t, rdb)
	})
}

// The server restarts without its data: the hold is lost, and the waiter acquires the lock with a greater token
// and is renewed.
func TestServerRestartedWithoutData(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		old, err := k.lock(newLocks(t, server.Addr, WithWatchdog(3*time.Second)), "a").Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, persistent{k.lock(newLocks(t, server.Addr, WithWatchdog(6*time.Second)), "a")})
		queued(t, rdb, k.name, "a", 1)
		require.NoError(t, server.Restart())
		next := <-got
		require.NoError(t, next.err)
		assert.Greater(t, next.hold.Token(), old.Token())
		requireDone(t, old.Context(), ErrLost)
		require.ErrorIs(t, old.Release(ctx), ErrNotHeld)
		first := next.hold.ValidUntil()
		eventually(t, "renewed", func() bool { return next.hold.ValidUntil().After(first) })
		require.NoError(t, next.hold.Release(ctx))
		nothingLeft(t, rdb)
	})
}

// The server is paused for longer than the lease.
func TestServerPausedBeyondLease(t *testing.T) {
	testenv.Full(t)
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr, WithWatchdog(12*time.Second))
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.Do(ctx, "client", "pause", "15000", "all").Err())
		requireDone(t, h.Context(), ErrLost)
		assert.WithinRange(t, time.Now(), time.Time{}, h.ValidUntil(), "the hold ends before the server's lease")
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		next, err := k.lock(c, "a").Lock(ctx)
		for ; err != nil && ctx.Err() == nil; next, err = k.lock(c, "a").Lock(ctx) { // still paused
		}
		require.NoError(t, err)
		assert.Greater(t, next.Token(), h.Token())
		require.NoError(t, next.Release(ctx))
		nothingLeft(t, rdb)
	})
}

func TestClientOfDeadServerReturnsItsError(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb, kill := newMortalClient(t, server)
		c, err := New(rdb)
		require.NoError(t, err)
		defer func() { assert.NoError(t, c.Close()) }()
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		kill()
		_, _ = k.lock(c, "a").TryLock(ctx) // detects the dead connection
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){k.lock(c, "a").TryLock, k.lock(c, "a").Lock} {
			_, err = lock(ctx)
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrNotAcquired, "a dead server is not a taken lock")
			require.NotErrorIs(t, err, ErrUncertain, "a refused connection leaves nothing behind")
		}
		require.ErrorIs(t, h.Release(ctx), ErrUncertain)
	})
}

// go-redis's own retries would count twice; a pipeline must not use them either.
func TestRetryingClientSendsOnce(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		p := startProxy(t, addr)
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr}) // MaxRetries 3, no ContextTimeoutEnabled
		defer func() { _ = rdb.Close() }()
		e := newExecutor(rdb)
		defer e.close()
		count := newScript(`return redis.call('INCR', KEYS[1])`)
		args := []any{"", "", 0, ""}
		_, err := e.run(ctx, count, []string{"warm"}, args)
		require.NoError(t, err)
		for _, batch := range []int{1, 5} {
			p.Inject(dropReply, count.sha, 1)
			var calls []*call
			for range batch {
				calls = append(calls, &call{script: count, keys: []string{"n"}, args: args, done: make(chan struct{})})
			}
			e.roundTrip(ctx, calls, true)
			require.Equal(t, 1, p.Broken())
			for _, c := range calls {
				require.Error(t, c.err)
				require.False(t, notExecuted(c.err))
			}
		}
		n, err := newClient(t, addr).Get(ctx, "n").Int()
		require.NoError(t, err)
		assert.LessOrEqual(t, n, 6, "1 and 5 were sent, none of them twice")
	})
}
