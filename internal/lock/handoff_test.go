package lock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A release hands an exclusive lock over to the first waiter if that is of the same client. The waiter gets it with the
// reply of the release, without a message or another command, with its own lease and its own token.
func TestReleaseHandsOverToWaiterOfSameClient(t *testing.T) {
	each(t, exclusiveKinds, startRedis, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		require.NoError(t, Do(ctx, l, nothing)) // loads the scripts
		h := must(t)(l.Lock(ctx))
		got := background(ctx, l, WithLease(time.Hour))
		k.queued(t, rdb, "a", 1)

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
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h := must(t)(k.lock(c, "a").Lock(ctx))
		got := background(ctx, k.lock(c, "a"))
		k.queued(t, rdb, "a", 1)
		id := rdb.ZRange(ctx, k.keys("a")[1], 0, 0).Val()[0]

		require.True(t, c.hub.handOver(id, handoff{since: time.Now().Add(-time.Hour), token: 1}))
		k.queued(t, rdb, "a", 1)
		release(t, h)
		next := arrived(t, got)
		assert.Greater(t, next.Token(), h.Token())
		release(t, next)
	})
}

// A request that is still in flight puts a waiter that has left back into the queue. A release that hands the lock over
// to this waiter passes it on to the next one at once, not when its lease ends.
func TestHandoffToDepartedWaiterIsPassedOn(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
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
		k.queued(t, rdb, "a", 2)
		release(t, h)
		release(t, arrived(t, got))
	})
}

// A successor whose wait ends at the moment of the handoff releases the lock. If its client is closed instead, it may
// lose the lock, as the client's other holds do; it is never left behind in the queue.
func TestSuccessorDepartsDuringHandoff(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		stranger := k.lock(newLocks(t, addr), "a")

		for round := range 50 {
			ctx := soon(t)
			waiting, cancel := context.WithCancel(ctx)
			c := newLocks(t, addr)
			h := must(t)(k.lock(c, "a").Lock(ctx))
			got := background(waiting, k.lock(c, "a"))
			k.queued(t, rdb, "a", 1)

			left := make(chan struct{})
			closes := round%5 == 0
			go func() {
				defer close(left)
				if closes {
					assert.NoError(t, c.Close())
				}
				cancel()
			}()
			released := h.Release(ctx)
			<-left
			next := <-got
			if closes && (next.err == nil || released != nil) { // a hold was lost
				require.NoError(t, rdb.Del(ctx, k.holds("a")...).Err())
			} else if next.err == nil {
				release(t, next.hold)
			}

			require.Zero(t, waiters(t, rdb, k.name, "a"), "a waiter is left in the queue")
			release(t, must(t)(stranger.Lock(ctx)))
		}
	})
}

// A waiter received the end of the previous holder's lease. If the new holder's lease ends earlier, the waiter is
// woken, whether the new holder acquired the lock or got it from a release of its client.
func TestShortLeaseWakesNextWaiter(t *testing.T) {
	for name, kinds := range map[string][]lockKind{
		"acquired":    append(slices.Clone(exclusiveKinds), reading),
		"handed over": exclusiveKinds,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, kinds, startRedis, func(t *testing.T, addr string, k lockKind) {
				ctx := soon(t)
				rdb := newClient(t, addr)
				c := newLocks(t, addr)
				first := c
				publishes := 1
				if name == "acquired" {
					first = newLocks(t, addr)
					publishes = 2
				}
				h := must(t)(k.block(first, "a").Lock(ctx))
				short := background(ctx, k.lock(c, "a"), WithLease(time.Second))
				k.queued(t, rdb, "a", 1)
				last := background(ctx, k.block(newLocks(t, addr), "a"))
				k.queued(t, rdb, "a", 2)

				release(t, h)
				arrived(t, short)
				eventually(t, "the last waiter is woken", func() bool { return calls(t, rdb, "publish") == publishes })
				release(t, arrived(t, last))
			})
		})
	}
}

// The reply of a release that hands the lock over is lost: the waiter retries and acquires the lock at once, no other
// caller does, and the repeated release does not take the lock from it.
func TestHandoffReplyLost(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c, p := k.faulty(t, addr)
		stranger := newLocks(t, addr)
		requireWoken(t, func(ctx context.Context) {
			h := must(t)(k.lock(c, "a").Lock(ctx))
			successor := background(ctx, k.lock(c, "a"))
			k.queued(t, rdb, "a", 1)
			other := background(ctx, k.lock(c, "a"))
			k.queued(t, rdb, "a", 2)

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

// When an owner gets the lock, by an acquire or by a handoff, its other waiters acquire it too, wherever they are in the
// queue and whatever their client. Each gets one message; waiters without an owner or with another one get none, and no
// message is sent if the owner had the lock already.
func TestOtherWaitersOfOwnerAreWoken(t *testing.T) {
	for name, publishes := range map[string]int{"acquired": 4, "handed over": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := startRedis(t)
			ctx, me := soon(t), owned(t)
			rdb := newClient(t, addr)
			c, first := newLocks(t, addr), newLocks(t, addr)
			if publishes == 3 {
				first = c
			}
			h := must(t)(c.Reentrant("a").Lock(ctx))
			following := []<-chan outcome{background(me, first.Reentrant("a"))}
			reentrant.queued(t, rdb, "a", 1)
			for i := range 3 {
				stranger := c.newClaim(reentrantKind, c.Reentrant("a").keys, time.Minute, []string{"", "another", ""}[i])
				requireIn(t, stranger, false)
				following = append(following, background(me, newLocks(t, addr).Reentrant("a")))
				reentrant.queued(t, rdb, "a", int64(2*i+3))
			}

			release(t, h)
			var holds []*Hold
			for _, got := range following {
				holds = append(holds, arrived(t, got))
				assert.Equal(t, holds[0].Token(), holds[len(holds)-1].Token())
			}
			assert.Equal(t, publishes, calls(t, rdb, "publish"), "three by the first holder, and one by the release")

			holds = append(holds, must(t)(c.Reentrant("a").Lock(me)))
			release(t, holds[1:]...)
			assert.Equal(t, publishes, calls(t, rdb, "publish"))
			release(t, holds[0])
		})
	}
}
