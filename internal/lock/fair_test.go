package lock

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// arrivals returns the queue of the fair lock "a" on the server.
func arrivals(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	ids, err := rdb.ZRange(context.Background(), keysOf(DefaultPrefix, fairKind.name, "a")[1], 0, -1).Result()
	require.NoError(t, err)
	return ids
}

// Hundreds of contenders of several clients acquire the lock in the exact order of their arrival at the server.
func TestFairOrder(t *testing.T) {
	for server, contenders := range map[string]int{"miniredis": 60, "redis": 500} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			if server == "redis" {
				testFairOrder(t, testenv.StartRedis(t).Addr, contenders)
			} else {
				testFairOrder(t, testenv.StartMiniredis(t).Addr(), contenders)
			}
		})
	}
}

func testFairOrder(t *testing.T, addr string, contenders int) {
	ctx := soon(t)
	rdb := newClient(t, addr)
	clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
	first, err := clients[0].Fair("a").Lock(ctx)
	require.NoError(t, err)
	var mu sync.Mutex
	var served []string
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			h, err := clients[i%3].Fair("a").Lock(ctx)
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			served = append(served, h.g.keeper.(*claim).id)
			mu.Unlock()
			assert.NoError(t, h.Release(ctx))
		})
	}
	queued(t, rdb, fairKind.name, "a", int64(contenders))
	came := arrivals(t, rdb)
	require.NoError(t, first.Release(ctx))
	wg.Wait()
	require.Equal(t, came, served)
	nothingLeft(t, rdb)
}

// Waiters that arrive one after the other are queued in that order.
func TestFairQueuesInOrderOfArrival(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancel(soon(t))
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr)}
		h, err := clients[0].Fair("a").Lock(ctx)
		require.NoError(t, err)
		var waits []<-chan outcome
		for i := range 6 {
			waits = append(waits, background(ctx, clients[i%2].Fair("a")))
			queued(t, rdb, fairKind.name, "a", int64(i+1))
		}
		for i, id := range arrivals(t, rdb) {
			assert.Contains(t, id, clients[i%2].id+":")
		}
		before := arrivals(t, rdb)
		time.Sleep(2 * recheck)
		assert.Equal(t, before, arrivals(t, rdb), "a waiter that retries keeps its place")
		cancel()
		for _, wait := range waits {
			require.ErrorIs(t, (<-wait).err, ErrNotAcquired)
		}
		require.NoError(t, h.Release(context.Background()))
	})
}

// Arrivals are strictly ordered even if the server's clock is set back.
func TestFairOrderSurvivesClockSetBack(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancel(soon(t))
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h, err := c.Fair("a").Lock(ctx)
		require.NoError(t, err)
		keys := keysOf(DefaultPrefix, fairKind.name, "a")
		tomorrow := time.Now().Add(24 * time.Hour)
		require.NoError(t, rdb.ZAdd(ctx, keys[1], redis.Z{Score: float64(tomorrow.UnixMicro()), Member: "early:1"}).Err())
		require.NoError(t, rdb.HSet(ctx, keys[2], "early:1", strconv.FormatInt(tomorrow.UnixMilli(), 10)+":").Err())
		got := background(ctx, c.Fair("a"))
		queued(t, rdb, fairKind.name, "a", 2)
		assert.Equal(t, 0, slices.Index(arrivals(t, rdb), "early:1"))
		cancel()
		require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		require.NoError(t, h.Release(context.Background()))
	})
}

// TryLock fails while there are waiters, even if the lock is free.
func TestFairTryRespectsTheQueue(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h, err := c.Fair("a").Lock(ctx)
		require.NoError(t, err)
		slow := newLocks(t, addr).newClaim(fairKind, keysOf(DefaultPrefix, fairKind.name, "a", fenceKey), time.Minute)
		_, err = slow.acquireOnce(ctx, modeWait)
		require.NoError(t, err)
		stay(t, rdb, fairKind.name, "a", slow)
		require.NoError(t, h.Release(ctx))
		_, err = c.Fair("a").TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		assert.EqualValues(t, 1, waiters(t, rdb, fairKind.name, "a"))
		v, err := slow.acquireOnce(ctx, modeWait)
		require.NoError(t, err)
		require.True(t, v.ok, "it is first")
		require.NoError(t, slow.release(ctx))
		nothingLeft(t, rdb)
	})
}
