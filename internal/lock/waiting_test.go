package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// Waiters of several clients acquire the lock as soon as it is free.
func TestWaitersAreWoken(t *testing.T) {
	each(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		k.ready(t, clients[0], "a")

		requireWoken(t, func(ctx context.Context) {
			h := must(t)(k.block(clients[0], "a").Lock(ctx))
			const waiting = 6
			var wg sync.WaitGroup
			for i := range waiting {
				wg.Go(func() { assert.NoError(t, Do(ctx, k.lock(clients[i%3], "a"), nothing)) })
			}
			queued(t, rdb, k.name, "a", waiting)
			release(t, h)
			wg.Wait()
		})
		k.nothingLeft(t, rdb, "a")
	})
}

// Waiters of several clients acquire a lock with a fair queue in the order of their arrival.
func TestWaitersAreServedInOrder(t *testing.T) {
	fair := []lockKind{exclusiveKinds[1], rwSides[1], permitsOf(plainPermitKind), permitsOf(leasedPermitKind)}
	each(t, fair, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		k.ready(t, clients[0], "a")
		h := must(t)(k.block(clients[0], "a").Lock(ctx))

		var order []int // guarded by the lock: the race detector checks it
		var wg sync.WaitGroup
		const many = 60
		for i := range many {
			wg.Go(func() {
				l := k.lock
				if i%2 == 1 {
					l = k.block // also for one at a time
				}
				assert.NoError(t, Do(ctx, l(clients[i%3], "a"), func(context.Context) error {
					order = append(order, i)
					return nil
				}))
			})
			queued(t, rdb, k.name, "a", int64(i+1))
		}
		release(t, h)
		wg.Wait()
		require.IsIncreasing(t, order)
		require.Len(t, order, many)
		k.nothingLeft(t, rdb, "a")
	})
}

// Without a release, a waiter retries when the lease ends, and not only at its next recheck.
func TestWaiterAcquiresWhenLeaseEnds(t *testing.T) {
	each(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, other := newLocks(t, addr), newLocks(t, addr)
		k.ready(t, c, "a")
		const lease = 900 * time.Millisecond
		_ = must(t)(persistent{k.block(c, "a")}.Lock(ctx, WithLease(lease)))

		first := k.claim(other, "a", time.Minute)
		v, err := first.acquireOnce(ctx, modeWait)
		require.NoError(t, err)
		require.True(t, v.ok || v.retry <= lease+time.Millisecond)
		_ = first.release(ctx)

		h := must(t)(k.lock(other, "a").Lock(ctx))
		assert.Zero(t, waiters(t, rdb, k.name, "a"), "the holder is still in the queue")
		release(t, h)
		k.nothingLeft(t, rdb, "a")
	})
}

func TestCancelledWaitLeavesQueue(t *testing.T) {
	each(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(soon(t)))

		why := errors.New("the caller has returned")
		ctx, cancel := context.WithCancelCause(soon(t))
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		cancel(why)
		err := (<-got).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.NotErrorIs(t, err, ErrUncertain)
		queued(t, rdb, k.name, "a", 0)

		for _, lock := range bothWays(k.lock(c, "a")) {
			_, err = lock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.ErrorIs(t, err, why)
		}
		release(t, h)
		k.nothingLeft(t, rdb, "a")
	})
}

// A waiter that leaves after it was woken forwards the wake.
func TestDepartingWaiterForwardsWake(t *testing.T) {
	each(t, lockKinds, func(t *testing.T, addr string, k lockKind) {
		rdb := newClient(t, addr)
		c, other := newLocks(t, addr), newLocks(t, addr)
		k.ready(t, c, "a")
		requireWoken(t, func(ctx context.Context) {
			h := must(t)(k.block(c, "a").Lock(ctx))
			ignoring := k.claim(other, "a", time.Minute) // it is woken, and does not react
			_, confirmed, err := other.hub.join(ignoring.id, ignoring.keys[0])
			require.NoError(t, err)
			<-confirmed
			requireIn(t, ignoring, false)
			got := background(ctx, k.lock(c, "a"))
			queued(t, rdb, k.name, "a", 2)

			release(t, h)
			_ = ignoring.release(ctx) // the other may have retried meanwhile
			other.hub.leave(ignoring.id, false)
			release(t, arrived(t, got))
		})
		k.nothingLeft(t, rdb, "a")
	})
}

func TestTryIsNeverQueued(t *testing.T) {
	each(t, lockKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(ctx))
		wait, leave := context.WithCancel(ctx)
		got := background(wait, k.lock(c, "a")) // so that the hub is subscribed
		queued(t, rdb, k.name, "a", 1)

		for range 5 {
			_, err := k.lock(c, "a").TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.EqualValues(t, 1, waiters(t, rdb, k.name, "a"))
		}
		leave()
		require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		release(t, h)
	})
}

// A dead waiter's place expires; the others do not wait for it any longer.
func TestDeadWaiterIsSkipped(t *testing.T) {
	testenv.Full(t)
	each(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(ctx))
		requireIn(t, k.claim(newLocks(t, addr), "a", time.Minute), false) // and never retries
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 2)

		release(t, h)
		release(t, arrived(t, got))
		k.nothingLeft(t, rdb, "a")
	})
}

// The waiters behind a dead one retry at the moment when it counts as dead, not later.
func TestWaitersBehindDeadOneRetryInTime(t *testing.T) {
	testenv.Full(t)
	queues := []lockKind{exclusiveKinds[1], rwSides[0], rwSides[1], permitsOf(plainPermitKind), permitsOf(leasedPermitKind)}
	each(t, queues, func(t *testing.T, addr string, k lockKind) {
		c, other := newLocks(t, addr), newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(soon(t)))
		dead := k.claim(other, "a", time.Minute)
		if k.label == "read" {
			dead = rwSides[1].claim(other, "a", time.Minute)
		}
		requireIn(t, dead, false) // and never retries
		release(t, h)

		behind := k.claim(c, "a", time.Minute)
		retriesInTime := false
		eventually(t, "in", func() bool {
			v, err := behind.acquireOnce(soon(t), modeWait)
			require.NoError(t, err)
			retriesInTime = retriesInTime || !v.ok && v.retry < recheck/2
			return v.ok
		})
		require.True(t, retriesInTime)
		require.NoError(t, behind.release(soon(t)))
	})
}

// Without waiters nothing is published, and nobody subscribes. A waiter is sent one message.
func TestReleaseWithoutWaitersPublishesNothing(t *testing.T) {
	eachOnRedis(t, waitKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		for range 10 {
			require.NoError(t, Do(ctx, k.lock(c, "a"), nothing))
			h := must(t)(k.block(c, "a").TryLock(ctx))
			if k.kind != latchKind {
				_, err := k.lock(c, "a").TryLock(ctx)
				require.ErrorIs(t, err, ErrNotAcquired)
			}
			release(t, h)
		}
		assert.Zero(t, calls(t, rdb, "publish"))
		assert.Zero(t, calls(t, rdb, "subscribe"))

		h := must(t)(k.block(c, "a").Lock(ctx))
		got := background(ctx, k.lock(newLocks(t, addr), "a"))
		queued(t, rdb, k.name, "a", 1)
		release(t, h)
		arrived(t, got)
		assert.Equal(t, 1, calls(t, rdb, "publish"), "one waiter, one message")
	})
}

// A name may contain any bytes: locks of different names, kinds or prefixes are independent, as are their queues.
func TestNamesOfEveryKind(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	c, other := newLocks(t, addr), newLocks(t, addr, WithPrefix("another"))
	names := append(slices.Clone(oddNames), "a", "a:queue", "a:waiters", "a:fence", "a:readers", "a:reads:me", "a:holders", "{}", "a}b{c", "%7B")
	var holds []*Hold
	var stays []string
	for _, k := range waitKinds {
		if k.label == "read" {
			continue // its name has the keys of the write side
		}
		for _, name := range names {
			k.ready(t, c, name)
			stays = append(stays, k.stays(name)...)
			holds = append(holds, must(t)(k.block(c, name).TryLock(ctx)))
			wait, leave := context.WithCancel(ctx)
			got := background(wait, k.lock(c, name))
			queued(t, rdb, k.name, name, 1)
			leave()
			require.ErrorIs(t, (<-got).err, ErrNotAcquired, "%s %q", k, name)
		}
		k.ready(t, other, "a")
		holds = append(holds, must(t)(k.block(other, "a").TryLock(ctx)))
		if k.stays("a") != nil {
			stays = append(stays, keysOf("another", k.name, "a")[0])
		}
		_, err := k.lock(c, "").TryLock(ctx)
		require.ErrorContains(t, err, "name")
	}
	release(t, holds...)

	// The name of an owner is a part of a key as well.
	for i, name := range names {
		m, me := c.RW(name), WithOwner(ctx, Owner(names[len(names)-1-i]))
		h := must(t)(m.Read().TryLock(me))
		again := must(t)(m.Read().TryLock(me))
		_, err := m.Write().TryLock(me)
		require.ErrorIs(t, err, ErrUpgrade, "%q", name)
		release(t, h, again)
	}
	nothingLeft(t, rdb, stays...)
}

// Thousands of uses by several clients: never more holders than may be, increasing tokens of exclusive holders, few
// commands each, and nothing left behind.
func TestManyContendedUses(t *testing.T) {
	testenv.Full(t)
	each(t, lockKinds, func(t *testing.T, addr string, k lockKind) {
		const uses, contenders = 1000, 24
		ctx := context.Background()
		var sent counter
		var clients []*Client
		for range 3 {
			rdb := newClient(t, addr)
			rdb.AddHook(&sent)
			clients = append(clients, newLocksOf(t, rdb))
		}
		k.ready(t, clients[0], "a")

		began := time.Now()
		var left, inside, most, last atomic.Int64
		left.Store(uses)
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				for n := left.Add(-1); n >= 0; n = left.Add(-1) {
					l, weight := k.lock, k.weight
					if n%4 == 0 {
						l, weight = k.block, k.capacity
					}
					h, err := l(clients[i%3], "a").Lock(ctx)
					if !assert.NoError(t, err) {
						return
					}
					now := inside.Add(weight)
					assert.LessOrEqual(t, now, k.capacity, "too many holders")
					if weight < k.capacity {
						most.Store(max(now, most.Load()))
						time.Sleep(100 * time.Microsecond)
					} else if h.Token() > 0 {
						assert.Greater(t, int64(h.Token()), last.Swap(int64(h.Token()))) //nolint:gosec // microseconds
					}
					inside.Add(-weight)
					assert.NoError(t, h.Release(ctx))
				}
			})
		}
		wg.Wait()

		if k.label == "read" {
			assert.Greater(t, most.Load(), k.weight, "readers never held the lock together")
		}
		// Every waiter may send one more command per recheck: on a busy machine uses take longer, and waiters recheck more.
		rechecks := float64(contenders) * time.Since(began).Seconds() / recheck.Seconds()
		t.Logf("%.2f commands per use, up to %.2f of them rechecks", float64(sent.sent())/uses, rechecks/uses)
		assert.Less(t, float64(sent.sent()), 4*uses+rechecks)
		k.nothingLeft(t, newClient(t, addr), "a")
	})
}

// A waiter received the end of the lease; if the lease now ends earlier, the waiter is woken.
func TestShortenedLeaseWakesWaiter(t *testing.T) {
	eachOnRedis(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.block(c, "a").Lock(ctx, WithLease(time.Minute)))
		got := background(ctx, k.lock(newLocks(t, addr), "a"))
		queued(t, rdb, k.name, "a", 1)
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
	eachOnRedis(t, exclusiveKinds[:3], func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		h := must(t)(k.lock(newLocks(t, addr), "a").Lock(ctx))
		var waiting []*claim
		for range 3 {
			ignoring := k.claim(newLocks(t, addr), "a", time.Minute)
			requireIn(t, ignoring, false)
			stay(t, rdb, k.name, "a", ignoring)
			waiting = append(waiting, ignoring)
		}
		woken, confirmed, err := waiting[1].c.hub.join(waiting[1].id, waiting[1].keys[0])
		require.NoError(t, err)
		defer waiting[1].c.hub.leave(waiting[1].id, false)
		<-confirmed

		release(t, h)
		select {
		case <-woken:
		case <-ctx.Done():
			require.FailNow(t, "not woken")
		}
		assert.Equal(t, 2, calls(t, rdb, "publish"), "the third need not be woken")
	})
}
