package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// handingOver are the kinds whose release hands the lock over to a waiter of the same client.
var handingOver = append(slices.Clip(exclusiveKinds), exclusiveKind{rwWriteKind, func(c *Client, name string) Locker { return c.RW(name).Write() }})

// A release hands the lock over to the first waiter if that is of the same client. The waiter gets it with the reply of
// the release, without a message or another command, with its own lease and its own token.
func TestReleaseHandsOverToWaiterOfSameClient(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, k := range handingOver {
		ctx := soon(t)
		server := testenv.StartRedis(t)
		rdb := newClient(t, server.Addr)
		l := k.lock(newLocks(t, server.Addr), "a")
		require.NoError(t, Do(ctx, l, nothing)) // loads the scripts
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, l, WithLease(time.Hour))
		queued(t, rdb, k.name, "a", 1)
		before := calls(t, rdb, "evalsha")
		require.NoError(t, h.Release(ctx))
		next := <-got
		require.NoError(t, next.err)
		assert.LessOrEqual(t, calls(t, rdb, "evalsha")-before, 2, "one, and a recheck if the machine stalled")
		assert.Zero(t, calls(t, rdb, "publish"))
		assert.Greater(t, next.hold.Token(), h.Token())
		assert.Greater(t, rdb.PTTL(ctx, lockKey(k)).Val(), 30*time.Minute)
		assert.Greater(t, time.Until(next.hold.ValidUntil()), 30*time.Minute)
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, next.hold.Extend(ctx, time.Minute))
		require.NoError(t, next.hold.Release(ctx))
		nothingLeft(t, rdb)
	}
}

// A handoff that arrives too late for its lease is not an error: the waiter acquires again.
func TestLateHandoffIsConfirmedByAcquire(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		for _, k := range handingOver {
			c := newLocks(t, addr)
			h, err := k.lock(c, "late").Lock(ctx)
			require.NoError(t, err)
			got := background(ctx, k.lock(c, "late"))
			queued(t, rdb, k.name, "late", 1)
			id := rdb.ZRange(ctx, keysOf(DefaultPrefix, k.name, "late")[1], 0, 0).Val()[0]
			require.True(t, c.hub.handOver(id, handoff{since: time.Now().Add(-time.Hour), token: 1}))
			queued(t, rdb, k.name, "late", 1)
			require.NoError(t, h.Release(ctx))
			next := <-got
			require.NoError(t, next.err)
			assert.Greater(t, next.hold.Token(), h.Token())
			require.NoError(t, next.hold.Release(ctx))
		}
	})
}

// A request that is still in flight puts a waiter that has left back into the queue. A release that hands the lock over
// to this waiter passes it on to the next one at once, not when its lease ends.
func TestHandoffToDepartedWaiterIsPassedOn(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		for _, k := range handingOver {
			c := newLocks(t, addr)
			h, err := k.lock(c, "departed").Lock(ctx)
			require.NoError(t, err)
			departed := k.attempt(c, "departed", time.Hour)
			_, _, err = c.hub.join(departed.id, departed.keys[0])
			require.NoError(t, err)
			require.False(t, c.hub.leave(departed.id, false))
			_, err = departed.acquireOnce(ctx, modeWait)
			require.NoError(t, err)
			got := background(ctx, k.lock(c, "departed"))
			queued(t, rdb, k.name, "departed", 2)
			require.NoError(t, h.Release(ctx))
			next := <-got
			require.NoError(t, next.err)
			require.NoError(t, next.hold.Release(ctx))
		}
	})
}

// A successor whose wait ends at the moment of the handoff releases the lock.
func TestDepartingSuccessorReleases(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		for _, k := range handingOver {
			c := newLocks(t, addr)
			for range 50 {
				ctx := soon(t)
				h, err := k.lock(c, "a").Lock(ctx)
				require.NoError(t, err)
				waiting, cancel := context.WithCancel(ctx)
				got := background(waiting, k.lock(c, "a"))
				queued(t, rdb, k.name, "a", 1)
				go cancel()
				require.NoError(t, h.Release(ctx))
				if next := <-got; next.err == nil {
					require.NoError(t, next.hold.Release(ctx))
				}
				cancel()
			}
			release(t, must(t)(k.lock(c, "a").Lock(soon(t))))
		}
	})
}

// An acquire that the network delivers twice does not shorten a lease that was extended in between.
func TestRepeatedAcquireDoesNotShortenLease(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		cl := k.attempt(newLocks(t, addr), "a", time.Minute)
		first, err := cl.acquireOnce(ctx, modeTry)
		require.NoError(t, err)
		require.True(t, first.ok)
		_, err = cl.renew(ctx, time.Hour)
		require.NoError(t, err)
		again, err := cl.acquireOnce(ctx, modeTry)
		require.NoError(t, err)
		require.True(t, again.ok)
		assert.Equal(t, first.token, again.token)
		assert.Greater(t, rdb.PTTL(ctx, cl.keys[0]).Val(), 30*time.Minute)
		require.NoError(t, cl.release(ctx))
	})
}

// A waiter received the end of the previous holder's lease. If the new holder's lease ends earlier, the waiter is
// woken.
func TestShortLeaseWakesNextWaiter(t *testing.T) {
	eachOnRedis(t, func(t *testing.T, server *testenv.Redis, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		h, err := k.lock(newLocks(t, server.Addr), "a").Lock(ctx)
		require.NoError(t, err)
		short := background(ctx, k.lock(newLocks(t, server.Addr), "a"), WithLease(time.Second))
		queued(t, rdb, k.name, "a", 1)
		last := background(ctx, k.lock(newLocks(t, server.Addr), "a"))
		queued(t, rdb, k.name, "a", 2)
		require.NoError(t, h.Release(ctx))
		require.NoError(t, (<-short).err)
		eventually(t, "the last waiter is woken too", func() bool { return calls(t, rdb, "publish") == 2 })
		next := <-last
		require.NoError(t, next.err)
		require.NoError(t, next.hold.Release(ctx))
	})
}

// The same holds for the lease of a successor.
func TestSuccessorsShortLeaseWakesNextWaiter(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, k := range handingOver {
		server := testenv.StartRedis(t)
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr)
		h := must(t)(k.lock(c, "a").Lock(ctx))
		successor := background(ctx, k.lock(c, "a"), WithLease(time.Second))
		queued(t, rdb, k.name, "a", 1)
		last := background(ctx, k.lock(newLocks(t, server.Addr), "a"))
		queued(t, rdb, k.name, "a", 2)
		release(t, h)
		arrived(t, successor)
		eventually(t, "the last waiter is woken", func() bool { return calls(t, rdb, "publish") == 1 })
		release(t, arrived(t, last))
	}
}

// A successor's owner is followed by its other waiters, as after an acquire.
func TestWaitersOfSuccessorsOwnerFollow(t *testing.T) {
	t.Parallel()
	for _, k := range handingOver[2:] {
		server := testenv.StartRedis(t)
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, server.Addr)
		c := newLocks(t, server.Addr)
		h := must(t)(k.lock(c, "a").Lock(ctx))
		successor := background(me, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		follower := background(me, k.lock(newLocks(t, server.Addr), "a"))
		queued(t, rdb, k.name, "a", 2)
		release(t, h)
		in := []*Hold{arrived(t, successor), arrived(t, follower)}
		assert.Equal(t, in[0].Token(), in[1].Token())
		assert.Equal(t, 1, calls(t, rdb, "publish"), "to the follower")
		release(t, in...)
		nothingLeft(t, rdb)
	}
}

// The reply of a release that hands the lock over is lost: the waiter retries and acquires the lock at once, no other
// caller does, and the repeated release does not take the lock from it.
func TestHandoffReplyLost(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		for _, k := range handingOver {
			requireOneWithin(t, belowRecheck, func() time.Duration {
				ctx := soon(t)
				rdb := newClient(t, addr)
				p := startProxy(t, addr)
				c := newLocks(t, p.Addr)
				require.NoError(t, Do(ctx, k.lock(c, "lost"), nothing)) // loads the scripts
				h := must(t)(k.lock(c, "lost").Lock(ctx))
				successor := background(ctx, k.lock(c, "lost"))
				queued(t, rdb, k.name, "lost", 1)
				second := background(ctx, k.lock(c, "lost"))
				queued(t, rdb, k.name, "lost", 2)
				p.Inject(dropReply, k.release.sha, 1)
				began := time.Now()
				require.NoError(t, h.Release(ctx))
				require.Equal(t, 1, p.Broken())
				next, other := <-successor, second
				took := time.Since(began)
				require.NoError(t, next.err)
				assert.Greater(t, next.hold.Token(), h.Token())
				require.NoError(t, next.hold.Extend(ctx, time.Minute), "the server has the hold too")
				assert.Empty(t, other, "two holders")
				_, err := k.lock(newLocks(t, addr), "lost").TryLock(ctx)
				require.ErrorIs(t, err, ErrNotAcquired)
				release(t, next.hold)
				release(t, arrived(t, other))
				nothingLeft(t, rdb)
				return took
			})
		}
	})
}

// A client is closed while a lock is handed over to one of its waiters: the waiter either acquires and loses it,
// like every hold of the client, or the lock is free.
func TestCloseDuringHandoff(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		for _, k := range handingOver {
			for range 10 {
				ctx := soon(t)
				c := newLocks(t, addr)
				c.exec.timeout = longTimeout // tolerates a busy machine
				h := must(t)(k.lock(c, "a").Lock(ctx))
				successor := background(ctx, k.lock(c, "a"))
				queued(t, rdb, k.name, "a", 1)
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					assert.NoError(t, c.Close())
				}()
				err := h.Release(ctx)
				<-closed
				next := <-successor
				switch {
				case next.err == nil:
					requireDone(t, next.hold.Context(), ErrLost)
				case err == nil:
					require.ErrorIs(t, next.err, ErrClosed)
					require.Zero(t, rdb.Exists(ctx, lockKey(k)).Val(), "the key is left without a holder")
				default:
					require.ErrorIs(t, next.err, ErrClosed)
					require.True(t, errors.Is(err, ErrLost) || errors.Is(err, ErrClosed), "Close was first: %v", err)
				}
				require.Zero(t, waiters(t, rdb, k.name, "a"), "a waiter is left in the queue")
				require.NoError(t, rdb.FlushAll(ctx).Err())
			}
		}
	})
}

// The waiters' connection is lost again and again while locks are handed over.
func TestPubSubKilledDuringHandoffs(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, k := range handingOver {
		server := testenv.StartRedis(t)
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		clients := []*Client{newLocks(t, server.Addr), newLocks(t, server.Addr)}
		stop, killer := make(chan struct{}), sync.WaitGroup{}
		killer.Go(func() {
			for !isClosed(stop) {
				assert.NoError(t, rdb.Do(ctx, "client", "kill", "type", "pubsub").Err())
				time.Sleep(5 * time.Millisecond)
			}
		})
		const each, contenders = 60, 8
		inside := 0 // guarded by the lock: the race detector checks it
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				for range each {
					assert.NoError(t, Do(ctx, k.lock(clients[i%2], "a"), func(context.Context) error { inside++; return nil }))
				}
			})
		}
		wg.Wait()
		close(stop)
		killer.Wait()
		assert.Equal(t, each*contenders, inside)
		nothingLeft(t, rdb)
	}
}
