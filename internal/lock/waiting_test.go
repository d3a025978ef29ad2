package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

func TestWaitersAreWoken(t *testing.T) {
	eachKind(t, waitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		clients := []*Client{s.c, newLocks(t, s.addr), newLocks(t, s.addr)}
		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.block(clients[0], "a").Lock(ctx))(t)
			const waiting = 6
			var wg sync.WaitGroup
			for i := range waiting {
				wg.Go(func() { assert.NoError(t, Do(ctx, k.lock(clients[i%3], "a"), nothing)) })
			}
			k.queued(t, s.rdb, "a", waiting)
			release(t, h)
			wg.Wait()
		})
	})
}

// queueKinds are granted in the order of arrival.
var queueKinds = []lockKind{fair, writing, plainPermits, leasedPermits}

// A waiter that retries keeps its place, even if the server's clock is set back, and a try passes none of them although
// the lock is free.
func TestWaitersKeepTheirPlaces(t *testing.T) {
	eachKind(t, queueKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		queue := k.keys("a")[1]
		clients := []*Client{s.c, newLocks(t, s.addr)}
		h := env.Must(k.block(newLocks(t, s.addr), "a").Lock(soon(t)))(t) // so that it is not handed over

		var line []*claim
		var ids []string
		for i := range 6 {
			cl := k.claim(clients[i%2], "a", time.Minute)
			requireIn(t, cl, false)
			stay(t, s.rdb, k.name, "a")
			line = append(line, cl)
			ids = append(ids, cl.id)
			if i == 0 { // as if it had come before the clock was set back by a day
				require.NoError(t, s.rdb.ZIncrBy(soon(t), queue, float64((24*time.Hour).Microseconds()), cl.id).Err())
			}
		}
		for _, cl := range slices.Backward(line) {
			requireIn(t, cl, false)
			stay(t, s.rdb, k.name, "a")
			require.Equal(t, ids, s.rdb.ZRange(soon(t), queue, 0, -1).Val())
		}

		require.ErrorIs(t, line[5].release(soon(t)), ErrNotHeld)
		release(t, h)
		env.Fails(k.lock(clients[0], "a").TryLock(soon(t)))(t, ErrNotAcquired)
		require.EqualValues(t, 5, waiters(t, s.rdb, k.name, "a"))
		requireIn(t, line[1], false)
		for _, cl := range line[:5] {
			stay(t, s.rdb, k.name, "a")
			requireIn(t, cl, true)
			require.NoError(t, cl.release(soon(t)))
		}
	})
}

// Without a release, a waiter retries when the lease ends, and not only at its next recheck.
func TestWaiterAcquiresWhenLeaseEnds(t *testing.T) {
	eachKind(t, leasedKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		other := newLocks(t, s.addr)
		const lease = 900 * time.Millisecond
		_ = env.Must(persistent{k.block(s.c, "a")}.Lock(s.ctx, WithLease(lease)))(t)

		first := k.claim(other, "a", time.Minute)
		v := env.Must(first.acquireOnce(s.ctx, modeWait))(t)
		require.True(t, v.ok || v.retry <= lease+time.Millisecond)
		_ = first.release(s.ctx)

		h := env.Must(k.lock(other, "a").Lock(s.ctx))(t)
		assert.Zero(t, waiters(t, s.rdb, k.name, "a"), "the holder is still in the queue")
		release(t, h)
	})
}

// Waits that end while some are queued, some commands are in flight and some are not sent yet leave nothing behind.
// A try beside them is not queued.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	eachKind(t, waitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		h := env.Must(k.block(s.c, "a").Lock(soon(t)))(t)
		why := errors.New("the caller has returned")
		ctx, cancel := context.WithCancelCause(soon(t))
		waits := []<-chan outcome{background(ctx, k.lock(s.c, "a"))}
		k.queued(t, s.rdb, "a", 1)

		if k.kind != latchKind {
			env.Fails(k.lock(s.c, "a").TryLock(soon(t)))(t, ErrNotAcquired)
			require.EqualValues(t, 1, waiters(t, s.rdb, k.name, "a"))
		}
		for range 99 {
			waits = append(waits, background(ctx, k.lock(s.c, "a")))
		}
		cancel(why)
		for _, wait := range waits {
			requireFails(t, (<-wait).err, ErrNotAcquired, context.Canceled, why)
		}
		k.queued(t, s.rdb, "a", 0)

		release(t, h)
	})
}

func TestDepartingWaiterForwardsWake(t *testing.T) {
	eachKind(t, lockKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		other := newLocks(t, s.addr)
		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.block(s.c, "a").Lock(ctx))(t)
			ignoring := k.claim(other, "a", time.Minute) // it is woken, and does not react
			_, leave := awaitWakes(t, other, ignoring.id, ignoring.keys[0])
			requireIn(t, ignoring, false)
			got := s.queue(ctx, t, k, 2, k.lock(s.c, "a"))

			release(t, h)
			_ = ignoring.release(ctx) // the other may have retried meanwhile
			leave()
			release(t, arrived(t, got))
		})
	})
}

// A waiter leaves, and Redis does not confirm its release. The undo frees what another release hands over to it; if all slots
// for undos are taken, the caller learns that the lock may stay taken. It is not parallel: the slots are those of the process.
func TestWaiterLeavesWithoutConfirmation(t *testing.T) {
	s := onServer(t)
	c, p := mutex.faulty(t, s.addr)
	for _, undone := range []bool{true, false} {
		h := env.Must(c.Mutex("a").Lock(s.ctx))(t)
		ctx, cancel := context.WithCancel(s.ctx)
		got := s.queue(ctx, t, mutex, 1, c.Mutex("a"))
		allAnswered(t, c)
		for !undone && len(undoSlots) < cap(undoSlots) {
			undoInBackground(func() { <-t.Context().Done() })
		}

		p.Inject(servers.Refuse, mutexKind.release.sha, 1)
		cancel()
		err := (<-got).err
		requireFails(t, err, ErrNotAcquired, context.Canceled)
		require.Equal(t, !undone, errors.Is(err, ErrUncertain), err)
		release(t, h)
		if undone {
			nothingLeft(t, s.rdb)
		}
	}
}

// Without waiters nothing is published, and nobody subscribes. A waiter is sent one message.
func TestReleaseWithoutWaitersPublishesNothing(t *testing.T) {
	eachKind(t, waitKinds, onRedis, func(t *testing.T, s scene, k lockKind) {
		for range 10 {
			require.NoError(t, Do(s.ctx, k.lock(s.c, "a"), nothing))
			h := env.Must(k.block(s.c, "a").TryLock(s.ctx))(t)
			if k.kind != latchKind {
				env.Fails(k.lock(s.c, "a").TryLock(s.ctx))(t, ErrNotAcquired)
			}
			release(t, h)
		}
		assert.Zero(t, calls(t, s.rdb, "publish"))
		assert.Zero(t, calls(t, s.rdb, "subscribe"))

		h := env.Must(k.block(s.c, "a").Lock(s.ctx))(t)
		got := s.queue(s.ctx, t, k, 1, k.lock(newLocks(t, s.addr), "a"))
		release(t, h)
		release(t, arrived(t, got))
		assert.Equal(t, 1, calls(t, s.rdb, "publish"), "one waiter, one message")
	})
}

// A waiter received the end of the lease; if the lease now ends earlier, the waiter is woken.
func TestShortenedLeaseWakesWaiter(t *testing.T) {
	eachKind(t, leasedKinds, onRedis, func(t *testing.T, s scene, k lockKind) {
		h := env.Must(k.block(s.c, "a").Lock(s.ctx, WithLease(time.Minute)))(t)
		got := s.queue(s.ctx, t, k, 1, k.lock(newLocks(t, s.addr), "a"))
		require.NoError(t, h.Extend(s.ctx, time.Hour))
		assert.Zero(t, calls(t, s.rdb, "publish"))

		eventually(t, "shortened", func() bool { // a third of the lease is the time for an answer
			return h.Extend(s.ctx, recheck-100*time.Millisecond) == nil
		})
		assert.Equal(t, 1, calls(t, s.rdb, "publish"))
		next := arrived(t, got)
		require.ErrorIs(t, h.Release(s.ctx), ErrNotHeld)
		release(t, next)
	})
}

// The first waiter does not receive messages: the release wakes the second one too.
func TestUnreachableWaiterIsSkipped(t *testing.T) {
	each(t, exclusiveKinds[:3], onRedis, func(t *testing.T, s scene, k lockKind) {
		h := env.Must(k.lock(newLocks(t, s.addr), "a").Lock(s.ctx))(t)
		var waiting []*claim
		for range 3 {
			ignoring := k.claim(newLocks(t, s.addr), "a", time.Minute)
			requireIn(t, ignoring, false)
			stay(t, s.rdb, k.name, "a")
			waiting = append(waiting, ignoring)
		}
		woken, leave := awaitWakes(t, waiting[1].c, waiting[1].id, waiting[1].keys[0])
		defer leave()

		release(t, h)
		eventually(t, "woken", func() bool { return len(woken) == 1 })
		assert.Equal(t, 2, calls(t, s.rdb, "publish"), "the third need not be woken")
	})
}

func TestWaitersRetryAfterReconnect(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	woken, leave := awaitWakes(t, s.c, "me", "")
	defer leave()
	require.Empty(t, woken, "woken by the first confirmation")

	require.NoError(t, s.rdb.Do(s.ctx, "client", "kill", "type", "pubsub").Err())
	eventually(t, "woken", func() bool { return len(woken) == 1 })
}

// awaitWakes returns the wakes of a waiter, to which its client has subscribed until leave is called.
func awaitWakes(t testing.TB, c *Client, id, lock string) (woken <-chan struct{}, leave func()) {
	t.Helper()
	woken, confirmed, err := c.hub.join(id, lock)
	require.NoError(t, err)
	<-confirmed
	return woken, func() { c.hub.leave(id) }
}

// The keys of a lock share a hash tag as well, whatever its name contains.
func TestPrefixOfEveryKey(t *testing.T) {
	each(t, waitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		c := newLocks(t, s.addr, WithPrefix("another"))
		k.ready(t, c, "}")
		h := env.Must(k.block(c, "}").TryLock(soon(t)))(t)
		ctx, leave := context.WithCancel(soon(t))
		wait := background(ctx, k.lock(c, "}"))
		eventually(t, "queued", func() bool { return len(s.rdb.Keys(soon(t), "*:waiters*").Val()) > 0 })
		keys := s.rdb.Keys(soon(t), "*").Val()
		for _, key := range keys {
			require.Regexp(t, `^another:[a-z-]+:\{%7D\}`, key)
		}

		leave()
		require.Error(t, (<-wait).err)
		release(t, h)
	})
}

// An acquire that the network delivers twice is one hold, and does not shorten a lease that was extended in between.
func TestRepeatedAcquireDoesNotShortenLease(t *testing.T) {
	eachKind(t, exclusiveKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		cl := k.claim(s.c, "a", time.Minute)
		first := env.Must(cl.acquireOnce(s.ctx, modeTry))(t)
		require.True(t, first.ok)
		env.Must(cl.renew(s.ctx, time.Hour))(t)

		again := env.Must(cl.acquireOnce(s.ctx, modeTry))(t)
		require.True(t, again.ok)
		assert.Equal(t, first.token, again.token)
		assert.Greater(t, s.rdb.PTTL(s.ctx, cl.keys[0]).Val(), 30*time.Minute)
		require.NoError(t, cl.release(s.ctx))
	})
}

// Tokens increase even if the server has lost the last one or its clock is set back.
func TestTokensIncrease(t *testing.T) {
	eachKind(t, exclusiveKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		l := k.lock(s.c, "a")
		last := uint64(0)
		take := func() {
			h := env.Must(l.TryLock(s.ctx))(t)
			assert.Greater(t, h.Token(), last)
			last = h.Token()
			require.NoError(t, h.Release(s.ctx))
		}
		take()
		require.NoError(t, s.rdb.FlushAll(s.ctx).Err())
		take()
		fence := k.keys("a")[3]
		assert.Greater(t, s.rdb.PTTL(s.ctx, fence).Val(), time.Hour-time.Minute)
		assert.Less(t, s.rdb.PTTL(s.ctx, fence).Val(), 2*time.Hour, "a key without expiry")

		// As if the clock had been an hour ahead.
		last = uint64(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, s.rdb.Set(s.ctx, fence, last, time.Hour).Err())
		take()
		take()
	})
}

// reenteredKinds can be acquired again by their owner.
var reenteredKinds = []lockKind{reentrant, writing}

// A shorter lease inside a longer one, and the other way round. A hold whose lease has ended is over, even if others of
// its owner continue.
func TestHoldsOfOneOwnerHaveOwnLeases(t *testing.T) {
	eachKind(t, append(reenteredKinds, reading), onServer, func(t *testing.T, s scene, k lockKind) {
		ctx := owned(t)
		l := k.lock(s.c, "a")
		holds := k.holds("a")
		key := holds[0]
		if k.label == reading.label {
			key = holds[1]
		}
		ttl := func() time.Duration { return s.rdb.PTTL(ctx, key).Val() }

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
	})
}

// The owner does not wait for the queue; the last release wakes the first waiter.
func TestReentryPassesTheQueue(t *testing.T) {
	eachKind(t, append(reenteredKinds, reading), onServer, func(t *testing.T, s scene, k lockKind) {
		for _, waiting := range []*Client{s.c, newLocks(t, s.addr)} {
			requireWoken(t, func(ctx context.Context) {
				owner := WithOwner(ctx, NewOwner())
				outer := env.Must(k.lock(s.c, "a").Lock(owner))(t)
				got := s.queue(ctx, t, k, 1, k.block(waiting, "a"))
				release(t, env.Must(k.lock(s.c, "a").TryLock(owner))(t))
				require.EqualValues(t, 1, waiters(t, s.rdb, k.name, "a"))
				release(t, outer)
				release(t, arrived(t, got))
			})
		}
	})
}

// A release hands an exclusive lock over to the first waiter if that is of the same client. The waiter gets it with the
// reply of the release, without a message or another command, with its own lease and its own token.
func TestReleaseHandsOverToWaiterOfSameClient(t *testing.T) {
	eachKind(t, exclusiveKinds, onRedis, func(t *testing.T, s scene, k lockKind) {
		l := k.lock(s.c, "a")
		require.NoError(t, Do(s.ctx, l, nothing)) // loads the scripts
		h := env.Must(l.Lock(s.ctx))(t)
		got := s.queue(s.ctx, t, k, 1, l, WithLease(time.Hour))

		before := calls(t, s.rdb, "evalsha")
		release(t, h)
		next := arrived(t, got)
		assert.LessOrEqual(t, calls(t, s.rdb, "evalsha")-before, 2, "one, and a recheck if the machine stalled")
		assert.Zero(t, calls(t, s.rdb, "publish"))
		assert.Greater(t, next.Token(), h.Token())
		assert.Greater(t, s.rdb.PTTL(s.ctx, k.keys("a")[0]).Val(), 30*time.Minute)
		assert.Greater(t, time.Until(next.ValidUntil()), 30*time.Minute)

		env.Fails(l.TryLock(s.ctx))(t, ErrNotAcquired)
		require.NoError(t, next.Extend(s.ctx, time.Minute))
		release(t, next)
	})
}

// A handoff that arrives too late for its lease is not an error: the waiter acquires again.
func TestLateHandoffIsConfirmedByAcquire(t *testing.T) {
	eachKind(t, exclusiveKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		h := env.Must(k.lock(s.c, "a").Lock(s.ctx))(t)
		got := s.queue(s.ctx, t, k, 1, k.lock(s.c, "a"))
		id := s.rdb.ZRange(s.ctx, k.keys("a")[1], 0, 0).Val()[0]

		s.c.hub.handOver(id, handoff{since: time.Now().Add(-time.Hour), token: 1})
		k.queued(t, s.rdb, "a", 1)
		release(t, h)
		next := arrived(t, got)
		assert.Greater(t, next.Token(), h.Token())
		release(t, next)
	})
}

// A release hands the lock over to a waiter that leaves before it has noticed. The lock is passed on to the next waiter at
// once, not when its lease ends.
func TestHandoffToDepartingWaiterIsPassedOn(t *testing.T) {
	eachKind(t, exclusiveKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.lock(s.c, "a").Lock(ctx))(t)
			departing := k.claim(s.c, "a", time.Hour)
			requireIn(t, departing, false)
			got := s.queue(ctx, t, k, 2, k.lock(s.c, "a"))

			release(t, h)
			require.ErrorIs(t, departing.withdraw(ctx, errWork), errWork)
			release(t, arrived(t, got))
		})
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
			eachKind(t, kinds, onRedis, func(t *testing.T, s scene, k lockKind) {
				first := s.c
				publishes := 1
				if name == "acquired" {
					first = newLocks(t, s.addr)
					publishes = 2
				}
				h := env.Must(k.block(first, "a").Lock(s.ctx))(t)
				short := s.queue(s.ctx, t, k, 1, k.lock(s.c, "a"), WithLease(time.Second))
				last := s.queue(s.ctx, t, k, 2, k.block(newLocks(t, s.addr), "a"))

				release(t, h)
				arrived(t, short)
				eventually(t, "the last waiter is woken", func() bool { return calls(t, s.rdb, "publish") == publishes })
				release(t, arrived(t, last))
			})
		})
	}
}

// The reply of a release that hands the lock over is lost: the waiter retries and acquires the lock at once, no other
// caller does, and the repeated release does not take the lock from it.
func TestHandoffReplyLost(t *testing.T) {
	eachKind(t, exclusiveKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		c, p := k.faulty(t, s.addr)
		requireWoken(t, func(ctx context.Context) {
			h := env.Must(k.lock(c, "a").Lock(ctx))(t)
			successor := s.queue(ctx, t, k, 1, k.lock(c, "a"))
			other := s.queue(ctx, t, k, 2, k.lock(c, "a"))

			p.Inject(servers.DropReply, k.release.sha, 1)
			releaseAnswered(t, h)
			require.Equal(t, 1, p.Broken())
			next := arrived(t, successor)
			assert.Greater(t, next.Token(), h.Token())
			require.NoError(t, next.Extend(ctx, time.Minute), "the server has the hold too")
			assert.Empty(t, other, "two holders")
			env.Fails(k.lock(s.c, "a").TryLock(ctx))(t, ErrNotAcquired)
			release(t, next)
			release(t, arrived(t, other))
		})
	})
}

// When an owner gets the lock, by an acquire or by a handoff, its other waiters are woken, wherever they are in the
// queue, and acquire it too. No waiter without an owner or with another one is woken, and none at all if the owner had the
// lock already.
func TestOtherWaitersOfOwnerAreWoken(t *testing.T) {
	for _, handedOver := range []bool{false, true} {
		t.Run(fmt.Sprintf("handed over %v", handedOver), func(t *testing.T) {
			s := newScene(t)
			received := listenTo(t, s.addr, s.c)
			holder := s.c
			if !handedOver {
				holder = newLocks(t, s.addr)
			}
			h := env.Must(holder.Reentrant("a").Lock(s.ctx))(t)
			var line []*claim
			for _, owner := range []string{"me", "", "me", "another", "me"} {
				cl := s.c.newClaim(reentrantKind, s.c.Reentrant("a").keys, time.Minute, owner)
				requireIn(t, cl, false)
				line = append(line, cl)
			}

			release(t, h)
			first, second, third := line[0], line[2], line[4]
			woken := []string{second.id, third.id}
			if !handedOver {
				require.Equal(t, []string{first.id}, received())
				requireIn(t, first, true)
			}
			require.ElementsMatch(t, woken, received())
			requireIn(t, third, true)
			requireIn(t, second, true)
			require.Empty(t, received())
		})
	}
}
