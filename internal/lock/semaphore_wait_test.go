package lock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// A request for many permits is not overtaken by requests for few.
func TestLargeRequestsAreNotStarved(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		s := k.of(c, "a")
		set(t, s, 3)
		var held []func(context.Context) error
		for range 3 {
			one, err := s.take(ctx, 1, false)
			require.NoError(t, err)
			held = append(held, one)
		}
		large, small := k.claim(newLocks(t, addr), "a", 3), k.claim(c, "a", 1)
		requireIn(t, large, false)
		requireIn(t, small, false)
		for i := range held {
			requireIn(t, small, false)
			_, err := s.take(ctx, 1, false)
			require.ErrorIs(t, err, ErrNotAcquired, "a try passed the queue")
			requireAvailable(t, s, int64(i))
			require.NoError(t, held[i](ctx))
		}
		requireIn(t, small, false)
		requireIn(t, large, true)
		requireIn(t, small, false)
		require.NoError(t, large.release(ctx))
		requireIn(t, small, true)
		require.NoError(t, small.release(ctx))
		requireAvailable(t, s, 3)
	})
}

// Waiters of several clients are admitted in order of arrival, whatever number they want.
func TestSemaphoreIsFair(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		s := k.of(clients[0], "a")
		set(t, s, 3)
		all, err := s.take(ctx, 3, true)
		require.NoError(t, err)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		const many = 20
		for i := range many {
			wg.Go(func() {
				giveBack, err := k.of(clients[i%3], "a").take(ctx, 2+int64(i%2), true) // one at a time
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				assert.NoError(t, giveBack(ctx))
			})
			queued(t, rdb, k.name, "a", int64(i+1))
		}
		require.NoError(t, all(ctx))
		wg.Wait()
		require.IsIncreasing(t, order)
		require.Len(t, order, many)
		onlyCountsLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// Each change wakes the waiters that it admits, and no others.
func TestOnlyAdmissibleWaitersAreWoken(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		w := listenTo(t, addr, c)
		s := k.of(c, "a")
		a, b, big, z := k.claim(c, "a", 2), k.claim(c, "a", 1), k.claim(c, "a", 3), k.claim(c, "a", 1)
		for _, cl := range []*claim{a, b, big, z} {
			requireIn(t, cl, false)
		}
		require.Empty(t, w.received())
		set(t, s, 1)
		require.Empty(t, w.received(), "the first wants 2")
		require.NoError(t, s.AddPermits(ctx, 2))
		require.Equal(t, []string{a.id, b.id}, w.received())
		requireIn(t, b, true) // a is first, but has not retried
		requireIn(t, a, true)
		requireIn(t, big, false)
		require.NoError(t, s.AddPermits(ctx, -1))
		require.Empty(t, w.received())

		require.NoError(t, a.release(ctx))
		require.NoError(t, b.release(ctx))
		require.Empty(t, w.received(), "2 are free, and 3 wanted")
		require.ErrorIs(t, big.release(ctx), ErrNotHeld)
		require.Equal(t, []string{z.id}, w.received(), "the earlier waiter has left")
		requireIn(t, z, true)
		require.NoError(t, z.release(ctx))
		requireAvailable(t, s, 2)
		require.Empty(t, w.received(), "there are no waiters")
	})
}

// More waiters can be admitted than a script examines: those behind are woken as the queue advances.
func TestWakesContinueBeyondWindow(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		c := newLocks(t, addr)
		w := listenTo(t, addr, c)
		rdb := newClient(t, addr)
		const window, many = 64, 70 // WINDOW in semaphore.lua
		var line []*claim
		for range many {
			cl := k.claim(c, "a", 1)
			requireIn(t, cl, false)
			stay(t, rdb, k.name, "a", cl)
			line = append(line, cl)
		}
		s := k.of(c, "a")
		set(t, s, many+1)
		require.Len(t, w.received(), window)
		newcomer := k.claim(c, "a", 1)
		for _, cl := range []*claim{newcomer, line[window]} {
			requireIn(t, cl, false)
			stay(t, rdb, k.name, "a", cl)
		}
		for i, cl := range line {
			requireIn(t, cl, true)
			if i+window < many {
				require.Contains(t, w.received(), line[i+window].id)
			}
		}
		requireIn(t, newcomer, true)
		requireAvailable(t, s, 0)
	})
}

func TestSemaphoreWithoutWaitersPublishesNothing(t *testing.T) {
	eachSemaphoreOnRedis(t, func(t *testing.T, server *testenv.Redis, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		s := k.of(newLocks(t, server.Addr), "a")
		set(t, s, 1)
		for range 10 {
			one, err := s.take(ctx, 1, true)
			require.NoError(t, err)
			_, err = s.take(ctx, 1, false)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.NoError(t, s.AddPermits(ctx, 1))
			require.NoError(t, s.AddPermits(ctx, -1))
			require.NoError(t, one(ctx))
		}
		assert.Zero(t, calls(t, rdb, "publish"))
		assert.Zero(t, calls(t, rdb, "subscribe"))
		one, err := s.take(ctx, 1, true)
		require.NoError(t, err)
		got := waiting(ctx, s, 1)
		queued(t, rdb, k.name, "a", 1)
		require.NoError(t, one(ctx))
		require.NoError(t, (<-got).err)
		assert.Equal(t, 1, calls(t, rdb, "publish"), "one waiter, one message")
	})
}

func TestCancelledSemaphoreWaitLeavesQueue(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		rdb := newClient(t, addr)
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 2)
		one, err := s.take(soon(t), 1, true)
		require.NoError(t, err)
		why := errors.New("the caller has returned")
		ctx, cancel := context.WithCancelCause(soon(t))
		large := waiting(ctx, s, 2)
		queued(t, rdb, k.name, "a", 1)
		small := waiting(soon(t), s, 1) // waits only for the large request
		queued(t, rdb, k.name, "a", 2)
		cancel(why)
		err = (<-large).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.NotErrorIs(t, err, ErrUncertain)
		in := <-small
		require.NoError(t, in.err)
		for _, wait := range []bool{true, false} {
			_, err = s.take(ctx, 1, wait)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.ErrorIs(t, err, why)
		}
		require.NoError(t, in.giveBack(soon(t)))
		require.NoError(t, one(soon(t)))
		requireAvailable(t, s, 2)
		onlyCountsLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// A waiter whose process died delays the others for some seconds.
func TestSemaphoreDeadWaiterIsSkipped(t *testing.T) {
	testenv.Full(t)
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		rdb := newClient(t, addr)
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 1)
		requireOneWithin(t, deadBound, func() time.Duration {
			ctx := soon(t)
			requireIn(t, k.claim(newLocks(t, addr), "a", 2), false) // and never retries
			died := time.Now()
			in := <-waiting(ctx, s, 1)
			took := time.Since(died)
			require.NoError(t, in.err)
			require.NoError(t, in.giveBack(ctx))
			return took
		})
		onlyCountsLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// The waiters behind it retry at the moment when it counts as dead, not later.
func TestWaitersBehindDeadOneRetryInTime(t *testing.T) {
	testenv.Full(t)
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		c := newLocks(t, addr)
		set(t, k.of(c, "a"), 1)
		requireIn(t, k.claim(c, "a", 2), false) // and never retries
		behind := k.claim(c, "a", 1)
		retriesInTime := false
		eventually(t, "in", func() bool {
			v, err := behind.acquireOnce(soon(t), modeWait)
			require.NoError(t, err)
			retriesInTime = retriesInTime || !v.ok && v.retry < recheck/2
			return v.ok
		})
		require.True(t, retriesInTime)
	})
}

// Thousands of uses by several clients: never more permits out than exist, and nothing left except keys that expire.
func TestManyContendedPermits(t *testing.T) {
	testenv.Full(t)
	eachSemaphoreOnRedis(t, func(t *testing.T, server *testenv.Redis, k permitKind) {
		const uses, contenders, permits = 1000, 24, 5
		ctx := context.Background()
		rdb := newClient(t, server.Addr)
		clients, sent := countedClients(t, server.Addr)
		s := k.of(clients[0], "a")
		set(t, s, permits)
		began := time.Now()
		var left, out atomic.Int64
		left.Store(uses)
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				for use := left.Add(-1); use >= 0; use = left.Add(-1) {
					n := 1 + use%3
					giveBack, err := k.of(clients[i%3], "a").take(ctx, n, true)
					if !assert.NoError(t, err) {
						return
					}
					assert.LessOrEqual(t, out.Add(n), int64(permits))
					out.Add(-n)
					assert.NoError(t, giveBack(ctx))
				}
			})
		}
		wg.Wait()
		requireFewCommands(t, sent, uses, contenders, 4, time.Since(began))
		requireAvailable(t, s, permits)
		onlyCountsLeft(t, rdb, countKey(k.kind, "a"))
	})
}
