package lock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestExclusive(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		var seen recorder
		l := k.lock(newLocks(t, addr, WithObserver(seen.observe)), "a")
		other := k.lock(newLocks(t, addr), "a")
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		assert.WithinRange(t, h.ValidUntil(), time.Now().Add(DefaultLease/2), time.Now().Add(DefaultLease*99/100))
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		_, err = other.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, h.Release(ctx))

		next, err := other.TryLock(ctx)
		require.NoError(t, err)
		assert.Greater(t, next.Token(), h.Token())
		require.NoError(t, h.Release(ctx), "the second release does nothing")
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "the release freed the next holder's lock")
		require.NoError(t, next.Release(ctx))
		assert.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased, EventNotAcquired}, seen.kinds())
		assert.Equal(t, k.name, seen.events[0].Lock)
		nothingLeft(t, newClient(t, addr))
	})
}

// A caller that is not the holder, or no longer is, can neither renew nor release.
func TestOnlyTheHolderRenewsAndReleases(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		l := k.lock(c, "a")
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		ttl := rdb.PTTL(ctx, keysOf(DefaultPrefix, k.name, "a")[0]).Val()

		stranger := k.attempt(c, "a", time.Minute)
		_, err = stranger.renew(ctx, time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, stranger.release(ctx), ErrNotHeld)
		assert.LessOrEqual(t, rdb.PTTL(ctx, keysOf(DefaultPrefix, k.name, "a")[0]).Val(), ttl)
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, h.Release(ctx))
		err = h.Extend(ctx, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrReleased)
		nothingLeft(t, rdb)
	})
}

func TestClientWatchdogRenews(t *testing.T) {
	testenv.Full(t)
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		c := newLocks(t, addr, WithWatchdog(6*time.Second))
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		first := h.ValidUntil()
		time.Sleep(time.Until(first.Add(300 * time.Millisecond))) // the first lease is over
		require.NoError(t, h.Context().Err())
		_, err = k.lock(c, "a").TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, h.Extend(ctx, time.Minute))
		assert.Greater(t, newClient(t, addr).PTTL(ctx, keysOf(DefaultPrefix, k.name, "a")[0]).Val(), 30*time.Second)
		require.NoError(t, h.Extend(ctx, 20*time.Second), "shorter")
		require.NoError(t, h.Release(ctx))
	})
}

// A waiter received the end of the lease; if the lease now ends earlier, the waiter is woken.
func TestShortenedLeaseWakesWaiter(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		h, err := k.lock(newLocks(t, server.Addr), "a").Lock(ctx, WithLease(time.Minute))
		require.NoError(t, err)
		got := background(ctx, k.lock(newLocks(t, server.Addr), "a"))
		queued(t, rdb, k.name, "a", 1)
		require.NoError(t, h.Extend(ctx, time.Hour))
		assert.Zero(t, calls(t, rdb, "publish"))
		require.NoError(t, h.Extend(ctx, recheck-100*time.Millisecond)) // a third of it is the time for an answer
		assert.Equal(t, 1, calls(t, rdb, "publish"))
		next := <-got
		require.NoError(t, next.err)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.NoError(t, next.hold.Release(ctx))
	})
}

func TestWaitersAreWoken(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		requireOneWithin(t, belowRecheck, func() time.Duration {
			h := must(t)(k.lock(clients[0], "a").Lock(ctx))
			const waiting = 12
			var wg sync.WaitGroup
			for i := range waiting {
				wg.Go(func() { assert.NoError(t, Do(ctx, k.lock(clients[i%3], "a"), nothing)) })
			}
			queued(t, rdb, k.name, "a", waiting)
			began := time.Now()
			release(t, h)
			wg.Wait()
			return time.Since(began)
		})
		nothingLeft(t, rdb)
	})
}

// Without a release, the waiter retries when the lease ends.
func TestWaiterAcquiresWhenLeaseEnds(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		l, next := k.lock(newLocks(t, addr), "a"), k.lock(newLocks(t, addr), "a")
		requireOneWithin(t, leaseEndBound, func() time.Duration {
			const lease = 900 * time.Millisecond
			_ = must(t)(l.Lock(ctx, WithLease(lease)))
			ends := time.Now().Add(lease)
			h := must(t)(next.Lock(ctx))
			late := time.Since(ends)
			assert.Zero(t, waiters(t, newClient(t, addr), k.name, "a"), "the holder is still in the queue")
			release(t, h)
			return late
		})
	})
}

func TestCancelledWaitLeavesQueue(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		h, err := l.Lock(context.Background())
		require.NoError(t, err)

		why := errors.New("the caller has returned")
		ctx, cancel := context.WithCancelCause(soon(t))
		got := background(ctx, l)
		queued(t, rdb, k.name, "a", 1)
		cancel(why)
		err = (<-got).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.NotErrorIs(t, err, ErrUncertain)
		queued(t, rdb, k.name, "a", 0)

		for _, lock := range []func(context.Context, ...Option) (*Hold, error){l.Lock, l.TryLock} {
			_, err = lock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.ErrorIs(t, err, why)
		}
		require.NoError(t, h.Release(context.Background()))
		nothingLeft(t, rdb)
	})
}

// A waiter that leaves after it was woken forwards the wake.
func TestDepartingWaiterForwardsWake(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l, other := k.lock(newLocks(t, addr), "a"), newLocks(t, addr)
		requireOneWithin(t, belowRecheck, func() time.Duration {
			h := must(t)(l.Lock(ctx))
			ignoring := k.attempt(other, "a", time.Minute) // it is woken, and does not react
			_, confirmed, err := other.hub.join(ignoring.id, ignoring.keys[0])
			require.NoError(t, err)
			<-confirmed
			v, err := ignoring.acquireOnce(ctx, modeWait)
			require.NoError(t, err)
			require.False(t, v.ok)
			got := background(ctx, l)
			queued(t, rdb, k.name, "a", 2)
			release(t, h)
			began := time.Now()
			_ = ignoring.release(ctx) // the other may have retried meanwhile
			other.hub.leave(ignoring.id, false)
			next := arrived(t, got)
			took := time.Since(began)
			release(t, next)
			return took
		})
		nothingLeft(t, rdb)
	})
}

func TestTryLockIsNeverQueued(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		wait, leave := context.WithCancel(ctx)
		got := background(wait, k.lock(c, "a")) // so that the hub is subscribed
		queued(t, rdb, k.name, "a", 1)
		for range 5 {
			_, err = k.lock(c, "a").TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.EqualValues(t, 1, waiters(t, rdb, k.name, "a"))
		}
		leave()
		require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		require.NoError(t, h.Release(ctx))
	})
}

// A dead waiter's place expires, and delays the others only a little.
func TestDeadWaiterIsSkipped(t *testing.T) {
	testenv.Full(t)
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		requireOneWithin(t, deadBound, func() time.Duration {
			ctx := soon(t)
			h := must(t)(l.Lock(ctx))
			_, err := k.attempt(newLocks(t, addr), "a", time.Minute).acquireOnce(ctx, modeWait)
			require.NoError(t, err)
			died := time.Now()
			got := background(ctx, l)
			queued(t, rdb, k.name, "a", 2)
			release(t, h)
			next := arrived(t, got)
			took := time.Since(died)
			release(t, next)
			return took
		})
		nothingLeft(t, rdb)
	})
}

func TestLockNames(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		var holds []*Hold
		for _, name := range []string{
			"order:1", "}", "{", "{}", "a}b{c", "%7B", "two words\r\n", "秒杀", "\x00\xff", "a:queue", "a:waiters", "a:fence", "a",
			strings.Repeat("k", 1024),
		} {
			l := k.lock(c, name)
			h, err := l.TryLock(ctx)
			require.NoError(t, err, "%q", name)
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired, "%q", name)
			holds = append(holds, h)
			wait, leave := context.WithCancel(ctx)
			got := background(wait, l)
			queued(t, rdb, k.name, name, 1)
			leave()
			require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		}
		for _, h := range holds {
			require.NoError(t, h.Release(ctx))
		}
		_, err := k.lock(c, "").TryLock(ctx)
		require.ErrorContains(t, err, "name")
		nothingLeft(t, rdb)
	})
}

// Locks of one name but different kinds are independent.
func TestKindsAreIndependent(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		c := newLocks(t, addr)
		for _, k := range exclusiveKinds {
			h, err := k.lock(c, "a").TryLock(ctx)
			require.NoError(t, err, k.name)
			defer func() { assert.NoError(t, h.Release(ctx)) }()
			other, err := k.lock(newLocks(t, addr, WithPrefix("another")), "a").TryLock(ctx)
			require.NoError(t, err, "another prefix is another lock")
			defer func() { assert.NoError(t, other.Release(ctx)) }()
		}
	})
}

// Thousands of uses by several clients: never two holders at a time, increasing tokens, at most three commands each,
// and nothing left behind.
func TestManyContendedUses(t *testing.T) {
	testenv.Full(t)
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		const uses, contenders = 1000, 24
		ctx := context.Background()
		rdb := newClient(t, server.Addr)
		clients, sent := countedClients(t, server.Addr)
		began := time.Now()
		var left atomic.Int64
		left.Store(uses)
		var inside atomic.Int32
		var last uint64 // guarded by the lock: the race detector checks it
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					h, err := k.lock(clients[i%3], "a").Lock(ctx)
					if !assert.NoError(t, err) {
						return
					}
					assert.EqualValues(t, 1, inside.Add(1))
					assert.Greater(t, h.Token(), last)
					last = h.Token()
					inside.Add(-1)
					assert.NoError(t, h.Release(ctx))
				}
			})
		}
		wg.Wait()
		requireFewCommands(t, sent, uses, contenders, 3.3, time.Since(began))
		nothingLeft(t, rdb)
	})
}

func TestReleaseWithoutWaitersPublishesNothing(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr)
		l := k.lock(c, "a")
		for range 10 {
			require.NoError(t, Do(ctx, l, nothing))
			require.NoError(t, TryDo(ctx, l, func(ctx context.Context) error {
				_, err := l.TryLock(ctx)
				assert.ErrorIs(t, err, ErrNotAcquired)
				return nil
			}))
		}
		assert.Zero(t, calls(t, rdb, "publish"))
		assert.Zero(t, calls(t, rdb, "subscribe"))

		h, err := l.Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, k.lock(newLocks(t, server.Addr), "a"))
		queued(t, rdb, k.name, "a", 1)
		require.NoError(t, h.Release(ctx))
		require.NoError(t, (<-got).err)
		assert.Equal(t, 1, calls(t, rdb, "publish"), "one waiter, one message")
	})
}

// The first waiter does not receive messages: the release wakes the second one too.
func TestUnreachableWaiterIsSkipped(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr)
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		var waiting []*claim
		for range 3 {
			ignoring := k.attempt(newLocks(t, server.Addr), "a", time.Minute)
			_, err = ignoring.acquireOnce(ctx, modeWait)
			require.NoError(t, err)
			stay(t, rdb, k.name, "a", ignoring)
			waiting = append(waiting, ignoring)
		}
		woken, confirmed, err := waiting[1].c.hub.join(waiting[1].id, waiting[1].keys[0])
		require.NoError(t, err)
		defer waiting[1].c.hub.leave(waiting[1].id, false)
		<-confirmed
		require.NoError(t, h.Release(ctx))
		select {
		case <-woken:
		case <-ctx.Done():
			require.FailNow(t, "not woken")
		}
		assert.Equal(t, 2, calls(t, rdb, "publish"), "the third need not be woken")
	})
}
