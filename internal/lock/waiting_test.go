package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

func TestWaitersAreWoken(t *testing.T) {
	each(t, waitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		k.ready(t, clients[0], "a")

		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.block(clients[0], "a").Lock(ctx))(t)
			const waiting = 6
			var wg sync.WaitGroup
			for i := range waiting {
				wg.Go(func() { assert.NoError(t, Do(ctx, k.lock(clients[i%3], "a"), nothing)) })
			}
			k.queued(t, rdb, "a", waiting)
			release(t, h)
			wg.Wait()
		})
		k.nothingLeft(t, rdb, "a")
	})
}

// queueKinds are granted in the order of arrival.
var queueKinds = []lockKind{fair, writing, plainPermits, leasedPermits}

// A waiter that retries keeps its place, even if the server's clock is set back, and a try passes none of them although
// the lock is free.
func TestWaitersKeepTheirPlaces(t *testing.T) {
	each(t, queueKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		queue := k.keys("a")[1]
		clients := []*Client{newLocks(t, addr), newLocks(t, addr)}
		k.ready(t, clients[0], "a")
		h := env.Must(k.block(newLocks(t, addr), "a").Lock(soon(t)))(t) // so that it is not handed over

		var line []*claim
		var ids []string
		for i := range 6 {
			cl := k.claim(clients[i%2], "a", time.Minute)
			requireIn(t, cl, false)
			stay(t, rdb, k.name, "a")
			line = append(line, cl)
			ids = append(ids, cl.id)
			if i == 0 { // as if it had come before the clock was set back by a day
				require.NoError(t, rdb.ZIncrBy(soon(t), queue, float64((24*time.Hour).Microseconds()), cl.id).Err())
			}
		}
		for _, cl := range slices.Backward(line) {
			requireIn(t, cl, false)
			stay(t, rdb, k.name, "a")
			require.Equal(t, ids, rdb.ZRange(soon(t), queue, 0, -1).Val())
		}

		require.ErrorIs(t, line[5].release(soon(t)), ErrNotHeld)
		release(t, h)
		env.Fails(k.lock(clients[0], "a").TryLock(soon(t)))(t, ErrNotAcquired)
		require.EqualValues(t, 5, waiters(t, rdb, k.name, "a"))
		requireIn(t, line[1], false)
		for _, cl := range line[:5] {
			stay(t, rdb, k.name, "a")
			requireIn(t, cl, true)
			require.NoError(t, cl.release(soon(t)))
		}
		k.nothingLeft(t, rdb, "a")
	})
}

// Without a release, a waiter retries when the lease ends, and not only at its next recheck.
func TestWaiterAcquiresWhenLeaseEnds(t *testing.T) {
	each(t, leasedKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, other := newLocks(t, addr), newLocks(t, addr)
		k.ready(t, c, "a")
		const lease = 900 * time.Millisecond
		_ = env.Must(persistent{k.block(c, "a")}.Lock(ctx, WithLease(lease)))(t)

		first := k.claim(other, "a", time.Minute)
		v := env.Must(first.acquireOnce(ctx, modeWait))(t)
		require.True(t, v.ok || v.retry <= lease+time.Millisecond)
		_ = first.release(ctx)

		h := env.Must(k.lock(other, "a").Lock(ctx))(t)
		assert.Zero(t, waiters(t, rdb, k.name, "a"), "the holder is still in the queue")
		release(t, h)
		k.nothingLeft(t, rdb, "a")
	})
}

// Waits that end while some are queued, some commands are in flight and some are not sent yet leave nothing behind.
// A try beside them is not queued.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	each(t, waitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := env.Must(k.block(c, "a").Lock(soon(t)))(t)
		why := errors.New("the caller has returned")
		ctx, cancel := context.WithCancelCause(soon(t))
		waits := []<-chan outcome{background(ctx, k.lock(c, "a"))}
		k.queued(t, rdb, "a", 1)

		if k.kind != latchKind {
			env.Fails(k.lock(c, "a").TryLock(soon(t)))(t, ErrNotAcquired)
			require.EqualValues(t, 1, waiters(t, rdb, k.name, "a"))
		}
		for range 99 {
			waits = append(waits, background(ctx, k.lock(c, "a")))
		}
		cancel(why)
		for _, wait := range waits {
			err := (<-wait).err
			require.ErrorIs(t, err, ErrNotAcquired)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
		}
		k.queued(t, rdb, "a", 0)

		release(t, h)
		k.nothingLeft(t, rdb, "a")
	})
}

func TestDepartingWaiterForwardsWake(t *testing.T) {
	each(t, lockKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c, other := newLocks(t, addr), newLocks(t, addr)
		k.ready(t, c, "a")
		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.block(c, "a").Lock(ctx))(t)
			ignoring := k.claim(other, "a", time.Minute) // it is woken, and does not react
			_, confirmed, err := other.hub.join(ignoring.id, ignoring.keys[0])
			require.NoError(t, err)
			<-confirmed
			requireIn(t, ignoring, false)
			got := background(ctx, k.lock(c, "a"))
			k.queued(t, rdb, "a", 2)

			release(t, h)
			_ = ignoring.release(ctx) // the other may have retried meanwhile
			other.hub.leave(ignoring.id)
			release(t, arrived(t, got))
		})
		k.nothingLeft(t, rdb, "a")
	})
}

// A waiter leaves, and Redis does not confirm its release. The undo frees what another release hands over to it; if all slots
// for undos are taken, the caller learns that the lock may stay taken. It is not parallel: the slots are those of the process.
func TestWaiterLeavesWithoutConfirmation(t *testing.T) {
	addr := startServer(t)
	rdb := newClient(t, addr)
	c, p := mutex.faulty(t, addr)
	for _, undone := range []bool{true, false} {
		h := env.Must(c.Mutex("a").Lock(soon(t)))(t)
		ctx, cancel := context.WithCancel(soon(t))
		got := background(ctx, c.Mutex("a"))
		queued(t, rdb, mutexKind.name, "a", 1)
		allAnswered(t, c)
		if !undone {
			takeUndoSlots(t)
		}

		p.Inject(refuse, mutexKind.release.sha, 1)
		cancel()
		err := (<-got).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, !undone, errors.Is(err, ErrUncertain), err)
		release(t, h)
		if undone {
			nothingLeft(t, rdb)
		}
	}
}

func takeUndoSlots(t *testing.T) {
	t.Helper()
	for range cap(undoSlots) {
		undoInBackground(func() { <-t.Context().Done() })
	}
}

// Without waiters nothing is published, and nobody subscribes. A waiter is sent one message.
func TestReleaseWithoutWaitersPublishesNothing(t *testing.T) {
	each(t, waitKinds, startRedis, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		for range 10 {
			require.NoError(t, Do(ctx, k.lock(c, "a"), nothing))
			h := env.Must(k.block(c, "a").TryLock(ctx))(t)
			if k.kind != latchKind {
				env.Fails(k.lock(c, "a").TryLock(ctx))(t, ErrNotAcquired)
			}
			release(t, h)
		}
		assert.Zero(t, calls(t, rdb, "publish"))
		assert.Zero(t, calls(t, rdb, "subscribe"))

		h := env.Must(k.block(c, "a").Lock(ctx))(t)
		got := background(ctx, k.lock(newLocks(t, addr), "a"))
		k.queued(t, rdb, "a", 1)
		release(t, h)
		arrived(t, got)
		assert.Equal(t, 1, calls(t, rdb, "publish"), "one waiter, one message")
	})
}

// A waiter received the end of the lease; if the lease now ends earlier, the waiter is woken.
func TestShortenedLeaseWakesWaiter(t *testing.T) {
	each(t, leasedKinds, startRedis, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := env.Must(k.block(c, "a").Lock(ctx, WithLease(time.Minute)))(t)
		got := background(ctx, k.lock(newLocks(t, addr), "a"))
		k.queued(t, rdb, "a", 1)
		require.NoError(t, h.Extend(ctx, time.Hour))
		assert.Zero(t, calls(t, rdb, "publish"))

		eventually(t, "shortened", func() bool { // a third of the lease is the time for an answer
			return h.Extend(ctx, recheck-100*time.Millisecond) == nil
		})
		assert.Equal(t, 1, calls(t, rdb, "publish"))
		next := arrived(t, got)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		release(t, next)
	})
}

// The first waiter does not receive messages: the release wakes the second one too.
func TestUnreachableWaiterIsSkipped(t *testing.T) {
	each(t, exclusiveKinds[:3], startRedis, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		h := env.Must(k.lock(newLocks(t, addr), "a").Lock(ctx))(t)
		var waiting []*claim
		for range 3 {
			ignoring := k.claim(newLocks(t, addr), "a", time.Minute)
			requireIn(t, ignoring, false)
			stay(t, rdb, k.name, "a")
			waiting = append(waiting, ignoring)
		}
		second := waiting[1]
		woken, confirmed, err := second.c.hub.join(second.id, second.keys[0])
		require.NoError(t, err)
		defer second.c.hub.leave(second.id)
		<-confirmed

		release(t, h)
		requireWake(ctx, t, woken)
		assert.Equal(t, 2, calls(t, rdb, "publish"), "the third need not be woken")
	})
}

func TestWaitersRetryAfterReconnect(t *testing.T) {
	t.Parallel()
	addr := startRedis(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	woken, confirmed, err := c.hub.join("me", "")
	require.NoError(t, err)
	defer c.hub.leave("me")
	<-confirmed
	require.Empty(t, woken, "woken by the first confirmation")

	require.NoError(t, newClient(t, addr).Do(ctx, "client", "kill", "type", "pubsub").Err())
	requireWake(ctx, t, woken)
}

func requireWake(ctx context.Context, t *testing.T, woken <-chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-ctx.Done():
		require.FailNow(t, "not woken")
	}
}

// The keys of a lock share a hash tag, and are those of no other name, kind, owner or prefix. A name may contain any
// bytes, as TestNamesOfEveryLocker shows.
func TestKeys(t *testing.T) {
	t.Parallel()
	names := append(slices.Clone(oddNames), "a", "a:queue", "a:fence", "a:reads:me", "{}", "{a}", "a}b{c", "%7B", "%7D", ":")
	seen := map[string]bool{}
	for _, prefix := range []string{DefaultPrefix, "another"} {
		for _, name := range names {
			for _, keys := range [][]string{
				keysOf(prefix, mutexKind.name, name, fenceKey, holdersKey),
				rwKeys(prefix, name, Owner(names[0])),
				rwKeys(prefix, name, Owner(names[1]))[6:],
			} {
				_, tag, _ := strings.Cut(keys[0], "{")
				tag, _, _ = strings.Cut(tag, "}")
				require.NotEmpty(t, tag)
				for _, key := range keys {
					require.Contains(t, key, ":{"+tag+"}")
					require.False(t, seen[key], "another lock has %q", key)
					seen[key] = true
				}
			}
		}
	}
}

func TestPrefixOfEveryKey(t *testing.T) {
	each(t, waitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		c := newLocks(t, addr, WithPrefix("another"))
		k.ready(t, c, "a")
		h := env.Must(k.block(c, "a").TryLock(soon(t)))(t)
		keys := newClient(t, addr).Keys(soon(t), "*").Val()
		require.NotEmpty(t, keys)
		for _, key := range keys {
			require.True(t, strings.HasPrefix(key, "another:"), key)
		}
		release(t, h)
	})
}
