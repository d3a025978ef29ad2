package lock

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// An acquire that the network delivers twice is one hold, and does not shorten a lease that was extended in between.
func TestRepeatedAcquireDoesNotShortenLease(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		cl := k.claim(newLocks(t, addr), "a", time.Minute)
		first := env.Must(cl.acquireOnce(ctx, modeTry))(t)
		require.True(t, first.ok)
		env.Must(cl.renew(ctx, time.Hour))(t)

		again := env.Must(cl.acquireOnce(ctx, modeTry))(t)
		require.True(t, again.ok)
		assert.Equal(t, first.token, again.token)
		assert.Greater(t, rdb.PTTL(ctx, cl.keys[0]).Val(), 30*time.Minute)
		require.NoError(t, cl.release(ctx))
		nothingLeft(t, rdb)
	})
}

// Tokens increase even if the server has lost the last one or its clock is set back.
func TestTokensIncrease(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		last := uint64(0)
		take := func() {
			h := env.Must(l.TryLock(ctx))(t)
			assert.Greater(t, h.Token(), last)
			last = h.Token()
			require.NoError(t, h.Release(ctx))
		}
		take()
		require.NoError(t, rdb.FlushAll(ctx).Err())
		take()
		fence := k.keys("a")[3]
		assert.Greater(t, rdb.PTTL(ctx, fence).Val(), time.Hour-time.Minute)
		assert.Less(t, rdb.PTTL(ctx, fence).Val(), 2*time.Hour, "a key without expiry")

		// As if the clock had been an hour ahead.
		last = uint64(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, rdb.Set(ctx, fence, last, time.Hour).Err())
		take()
		take()
	})
}

// reenteredKinds can be acquired again by their owner.
var reenteredKinds = []lockKind{reentrant, writing}

// A shorter lease inside a longer one, and the other way round. A hold whose lease has ended is over, even if others of
// its owner continue.
func TestHoldsOfOneOwnerHaveOwnLeases(t *testing.T) {
	each(t, append(reenteredKinds, reading), startServer, func(t *testing.T, addr string, k lockKind) {
		ctx := owned(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		holds := k.holds("a")
		key := holds[0]
		if k.label == reading.label {
			key = holds[1]
		}
		ttl := func() time.Duration { return rdb.PTTL(ctx, key).Val() }

		long := env.Must(l.Lock(ctx, WithLease(time.Minute)))(t)
		short := env.Must(persistent{l}.Lock(ctx, WithLease(time.Second)))(t)
		ends := time.Now().Add(time.Second) // on the server too, however long the reply took
		assert.Greater(t, ttl(), 30*time.Second, "re-entry shortened the lease")
		requireDone(t, short.Context(), ErrLost)
		time.Sleep(time.Until(ends.Add(MinLease)))
		env.Fails(short.g.keeper.renew(ctx, time.Minute))(t, ErrNotHeld)
		require.ErrorIs(t, short.Release(ctx), ErrNotHeld)
		require.NoError(t, long.Context().Err())
		assert.Greater(t, ttl(), 30*time.Second)

		longer := env.Must(l.Lock(ctx, WithLease(time.Hour)))(t)
		assert.Greater(t, ttl(), 30*time.Minute)
		release(t, longer)
		assert.Less(t, ttl(), 2*time.Minute, "the key outlasts its last hold")
		require.NoError(t, long.Extend(ctx, 10*time.Second))
		assert.Less(t, ttl(), 11*time.Second)
		release(t, long)
		nothingLeft(t, rdb)
	})
}

// The owner does not wait for the queue; the last release wakes the first waiter.
func TestReentryPassesTheQueue(t *testing.T) {
	each(t, append(reenteredKinds, reading), startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		for _, waiting := range []*Client{c, newLocks(t, addr)} {
			requireWoken(t, func(ctx context.Context) {
				owner := WithOwner(ctx, NewOwner())
				outer := env.Must(k.lock(c, "a").Lock(owner))(t)
				got := background(ctx, k.block(waiting, "a"))
				k.queued(t, rdb, "a", 1)
				release(t, env.Must(k.lock(c, "a").TryLock(owner))(t))
				require.EqualValues(t, 1, waiters(t, rdb, k.name, "a"))
				release(t, outer)
				release(t, arrived(t, got))
			})
		}
		nothingLeft(t, rdb)
	})
}

// A release hands an exclusive lock over to the first waiter if that is of the same client. The waiter gets it with the
// reply of the release, without a message or another command, with its own lease and its own token.
func TestReleaseHandsOverToWaiterOfSameClient(t *testing.T) {
	each(t, exclusiveKinds, startRedis, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		require.NoError(t, Do(ctx, l, nothing)) // loads the scripts
		h := env.Must(l.Lock(ctx))(t)
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

		env.Fails(l.TryLock(ctx))(t, ErrNotAcquired)
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
		h := env.Must(k.lock(c, "a").Lock(ctx))(t)
		got := background(ctx, k.lock(c, "a"))
		k.queued(t, rdb, "a", 1)
		id := rdb.ZRange(ctx, k.keys("a")[1], 0, 0).Val()[0]

		c.hub.handOver(id, handoff{since: time.Now().Add(-time.Hour), token: 1})
		k.queued(t, rdb, "a", 1)
		release(t, h)
		next := arrived(t, got)
		assert.Greater(t, next.Token(), h.Token())
		release(t, next)
	})
}

// A release hands the lock over to a waiter that leaves before it has noticed. The lock is passed on to the next waiter at
// once, not when its lease ends.
func TestHandoffToDepartingWaiterIsPassedOn(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.lock(c, "a").Lock(ctx))(t)
			departing := k.claim(c, "a", time.Hour)
			requireIn(t, departing, false)
			got := background(ctx, k.lock(c, "a"))
			k.queued(t, rdb, "a", 2)

			release(t, h)
			require.ErrorIs(t, departing.withdraw(ctx, errWork), errWork)
			release(t, arrived(t, got))
		})
		nothingLeft(t, rdb)
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
				h := env.Must(k.block(first, "a").Lock(ctx))(t)
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
			h := env.Must(k.lock(c, "a").Lock(ctx))(t)
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
			env.Fails(k.lock(stranger, "a").TryLock(ctx))(t, ErrNotAcquired)
			release(t, next)
			release(t, arrived(t, other))
		})
		nothingLeft(t, rdb)
	})
}

// When an owner gets the lock, by an acquire or by a handoff, its other waiters are woken, wherever they are in the
// queue, and acquire it too. Waiters without an owner or with another one are not, and nobody is if the owner had the
// lock already.
func TestOtherWaitersOfOwnerAreWoken(t *testing.T) {
	for _, handedOver := range []bool{false, true} {
		t.Run(fmt.Sprintf("handed over %v", handedOver), func(t *testing.T) {
			t.Parallel()
			addr := startServer(t)
			c, other := newLocks(t, addr), newLocks(t, addr)
			w := listenTo(t, addr, c)
			holder := other
			if handedOver {
				holder = c
			}
			h := env.Must(holder.Reentrant("a").Lock(soon(t)))(t)
			var line []*claim
			for _, owner := range []string{"me", "", "me", "another", "me"} {
				cl := c.newClaim(reentrantKind, c.Reentrant("a").keys, time.Minute, owner)
				requireIn(t, cl, false)
				line = append(line, cl)
			}

			release(t, h)
			first, second, third := line[0], line[2], line[4]
			woken := []string{second.id, third.id}
			if !handedOver {
				require.Equal(t, []string{first.id}, w.received())
				requireIn(t, first, true)
			}
			require.ElementsMatch(t, woken, w.received())
			requireIn(t, third, true)
			requireIn(t, second, true)
			require.Empty(t, w.received())
		})
	}
}
