package lock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// A release hands an exclusive lock over to the first waiter if that is of the same client. The waiter gets it with the
// reply of the release, without a message or another command, with its own lease and its own token.
func TestReleaseHandsOverToWaiterOfSameClient(t *testing.T) {
	eachOnRedis(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		require.NoError(t, Do(ctx, l, nothing)) // loads the scripts
		h := must(t)(l.Lock(ctx))
		got := background(ctx, l, WithLease(time.Hour))
		queued(t, rdb, k.name, "a", 1)

		before := calls(t, rdb, "evalsha")
		release(t, h)
		next := arrived(t, got)
		assert.LessOrEqual(t, calls(t, rdb, "evalsha")-before, 2, "one, and a recheck if the machine stalled")
		assert.Zero(t, calls(t, rdb, "publish"))
		assert.Greater(t, next.Token(), h.Token())
		assert.Greater(t, rdb.PTTL(ctx, k.keys("a")[0]).Val(), 30*time.Minute)
		assert.Greater(t, time.Until(next.ValidUntil()), 30*time.Minute)

		_, err := l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, next.Extend(ctx, time.Minute))
		release(t, next)
		nothingLeft(t, rdb)
	})
}

// A handoff that arrives too late for its lease is not an error: the waiter acquires again.
func TestLateHandoffIsConfirmedByAcquire(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h := must(t)(k.lock(c, "a").Lock(ctx))
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		id := rdb.ZRange(ctx, k.keys("a")[1], 0, 0).Val()[0]

		require.True(t, c.hub.handOver(id, handoff{since: time.Now().Add(-time.Hour), token: 1}))
		queued(t, rdb, k.name, "a", 1)
		release(t, h)
		next := arrived(t, got)
		assert.Greater(t, next.Token(), h.Token())
		release(t, next)
	})
}

// A request that is still in flight puts a waiter that has left back into the queue. A release that hands the lock over
// to this waiter passes it on to the next one at once, not when its lease ends.
func TestHandoffToDepartedWaiterIsPassedOn(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h := must(t)(k.lock(c, "a").Lock(ctx))
		departed := k.claim(c, "a", time.Hour)
		_, _, err := c.hub.join(departed.id, departed.keys[0])
		require.NoError(t, err)
		require.False(t, c.hub.leave(departed.id, false))
		requireIn(t, departed, false)

		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 2)
		release(t, h)
		release(t, arrived(t, got))
	})
}

// A successor whose wait ends at the moment of the handoff releases the lock.
func TestDepartingSuccessorReleases(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)

		for range 50 {
			ctx := soon(t)
			h := must(t)(k.lock(c, "a").Lock(ctx))
			waiting, cancel := context.WithCancel(ctx)
			got := background(waiting, k.lock(c, "a"))
			queued(t, rdb, k.name, "a", 1)
			go cancel()
			release(t, h)
			if next := <-got; next.err == nil {
				release(t, next.hold)
			}
		}
		release(t, must(t)(k.lock(c, "a").Lock(soon(t))))
	})
}

// A waiter received the end of the previous holder's lease. If the new holder's lease ends earlier, the waiter is
// woken, whether the new holder acquired the lock or got it from a release of its client.
func TestShortLeaseWakesNextWaiter(t *testing.T) {
	t.Parallel()
	for name, publishes := range map[string]int{"acquired": 2, "handed over": 1} {
		t.Run(name, func(t *testing.T) {
			eachOnRedis(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
				ctx := soon(t)
				rdb := newClient(t, addr)
				c, first := newLocks(t, addr), newLocks(t, addr)
				if publishes == 1 {
					first = c
				}
				h := must(t)(k.lock(first, "a").Lock(ctx))
				short := background(ctx, k.lock(c, "a"), WithLease(time.Second))
				queued(t, rdb, k.name, "a", 1)
				last := background(ctx, k.lock(newLocks(t, addr), "a"))
				queued(t, rdb, k.name, "a", 2)

				release(t, h)
				arrived(t, short)
				eventually(t, "the last waiter is woken", func() bool { return calls(t, rdb, "publish") == publishes })
				release(t, arrived(t, last))
			})
		})
	}
}

// A successor's owner is followed by its other waiters, as after an acquire.
func TestWaitersOfSuccessorsOwnerFollow(t *testing.T) {
	eachOnRedis(t, exclusiveKinds[2:], func(t *testing.T, addr string, k lockKind) {
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h := must(t)(k.lock(c, "a").Lock(ctx))
		successor := background(me, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		follower := background(me, k.lock(newLocks(t, addr), "a"))
		queued(t, rdb, k.name, "a", 2)

		release(t, h)
		in := []*Hold{arrived(t, successor), arrived(t, follower)}
		assert.Equal(t, in[0].Token(), in[1].Token())
		assert.Equal(t, 1, calls(t, rdb, "publish"), "to the follower")
		release(t, in...)
		nothingLeft(t, rdb)
	})
}

// The reply of a release that hands the lock over is lost: the waiter retries and acquires the lock at once, no other
// caller does, and the repeated release does not take the lock from it.
func TestHandoffReplyLost(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c, p := k.faulty(t, addr)
		stranger := newLocks(t, addr)
		requireWoken(t, func(ctx context.Context) {
			h := must(t)(k.lock(c, "a").Lock(ctx))
			successor := background(ctx, k.lock(c, "a"))
			queued(t, rdb, k.name, "a", 1)
			other := background(ctx, k.lock(c, "a"))
			queued(t, rdb, k.name, "a", 2)

			p.Inject(dropReply, k.release.sha, 1)
			release(t, h)
			require.Equal(t, 1, p.Broken())
			next := arrived(t, successor)
			assert.Greater(t, next.Token(), h.Token())
			require.NoError(t, next.Extend(ctx, time.Minute), "the server has the hold too")
			assert.Empty(t, other, "two holders")
			_, err := k.lock(stranger, "a").TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			release(t, next)
			release(t, arrived(t, other))
		})
		nothingLeft(t, rdb)
	})
}

// A client is closed while a lock is handed over to one of its waiters: the waiter either acquires and loses it,
// like every hold of the client, or the lock is free.
func TestCloseDuringHandoff(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		for range 10 {
			ctx := soon(t)
			c := newLocks(t, addr)
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
				require.Zero(t, rdb.Exists(ctx, k.keys("a")[0]).Val(), "the key is left without a holder")
			default:
				require.ErrorIs(t, next.err, ErrClosed)
				require.True(t, errors.Is(err, ErrLost) || errors.Is(err, ErrClosed), "Close was first: %v", err)
			}
			require.Zero(t, waiters(t, rdb, k.name, "a"), "a waiter is left in the queue")
			require.NoError(t, rdb.FlushAll(ctx).Err())
		}
	})
}

// The waiters' connection is lost again and again while locks are handed over.
func TestPubSubKilledDuringHandoffs(t *testing.T) {
	testenv.Full(t)
	eachOnRedis(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr)}
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
	})
}

// When an owner acquires the lock, its other waiters acquire it too, wherever they are in the queue and whatever their
// client.
func TestOtherWaitersOfOwnerAreWoken(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		first, second, third := newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)
		for _, test := range []struct {
			name, kind       string
			hold, lead       func(c *Client) Locker
			stranger, follow func(c *Client) Locker // behind the leader, in this order
		}{
			{"reentrant", reentrantKind.name, reentrantOf, reentrantOf, reentrantOf, reentrantOf},
			{"writers", "rw", writeOf, writeOf, readOf, writeOf},
			{"writer and reader", "rw", writeOf, writeOf, readOf, readOf},
			{"readers", "rw", writeOf, readOf, writeOf, readOf},
		} {
			t.Run(test.name, func(t *testing.T) {
				requireWoken(t, func(ctx context.Context) {
					me := WithOwner(ctx, NewOwner())
					h := must(t)(test.hold(first).Lock(ctx))
					leader := background(me, test.lead(first))
					queued(t, rdb, test.kind, "a", 1)
					wait, leave := context.WithCancel(ctx)
					left := make(chan struct{})
					go func() { // it may acquire the lock first, and then releases it at once
						defer close(left)
						_ = Do(wait, test.stranger(third), nothing)
					}()
					queued(t, rdb, test.kind, "a", 2)
					follower := background(me, test.follow(second))
					queued(t, rdb, test.kind, "a", 3)

					release(t, h)
					in := []*Hold{arrived(t, leader), arrived(t, follower)}
					assert.Equal(t, in[0].Token(), in[1].Token())
					leave()
					<-left
					release(t, in...)
				})
			})
		}
		nothingLeft(t, rdb)
	})
}

func reentrantOf(c *Client) Locker { return c.Reentrant("a") }
func readOf(c *Client) Locker      { return c.RW("a").Read() }
func writeOf(c *Client) Locker     { return c.RW("a").Write() }

// A writer whose owner acquires the lock for reading gets ErrUpgrade at once.
func TestFollowingWriterGetsErrUpgrade(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	a, b := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")
	requireWoken(t, func(ctx context.Context) {
		me := WithOwner(ctx, NewOwner())
		h := must(t)(a.Write().Lock(ctx))
		reading := background(me, a.Read())
		queued(t, rdb, "rw", "a", 1)
		writing := background(me, b.Write())
		queued(t, rdb, "rw", "a", 2)

		release(t, h)
		require.ErrorIs(t, (<-writing).err, ErrUpgrade)
		release(t, arrived(t, reading))
	})
	nothingLeft(t, rdb)
}

// Each waiter of the owner gets one message; waiters without an owner or with another one get none, and no message is
// sent if the owner had the lock already.
func TestOnlyWaitersOfSameOwnerAreWoken(t *testing.T) {
	t.Parallel()
	addr := startRedis(t)
	ctx, me := soon(t), owned(t)
	rdb := newClient(t, addr)
	c := newLocks(t, addr)
	h := must(t)(c.Reentrant("a").Lock(ctx))
	var following []<-chan outcome
	for i := range 4 {
		following = append(following, background(me, newLocks(t, addr).Reentrant("a")))
		queued(t, rdb, reentrantKind.name, "a", int64(2*i+1))
		requireIn(t, c.newClaim(reentrantKind, c.Reentrant("a").keys, time.Minute, []string{"", "another"}[i%2]), false)
	}

	release(t, h)
	holds := []*Hold{arrived(t, following[0])}
	for _, got := range following[1:] {
		holds = append(holds, arrived(t, got))
	}
	assert.Equal(t, 4, calls(t, rdb, "publish"), "one by the release, three by the first holder")

	holds = append(holds, must(t)(c.Reentrant("a").Lock(me)))
	release(t, holds[1:]...)
	assert.Equal(t, 4, calls(t, rdb, "publish"))
	release(t, holds[0])
}
