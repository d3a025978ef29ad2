package lock

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A caller that is not the holder, or no longer is, can neither renew nor release.
func TestOnlyTheHolderRenewsAndReleases(t *testing.T) {
	each(t, leasedKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		k.ready(t, c, "a")
		h := must(t)(k.lock(c, "a").Lock(ctx))
		ttl := rdb.PTTL(ctx, k.keys("a")[0]).Val()

		stranger := k.claim(c, "a", time.Minute)
		_, err := stranger.renew(ctx, time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, stranger.release(ctx), ErrNotHeld)
		assert.LessOrEqual(t, rdb.PTTL(ctx, k.keys("a")[0]).Val(), ttl)
		_, err = k.block(c, "a").TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)

		release(t, h)
		err = h.Extend(ctx, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrReleased)
		k.nothingLeft(t, rdb, "a")
	})
}

// A hold whose lease has ended is over, even if others of its owner continue.
func TestExpiredHoldIsNotRevived(t *testing.T) {
	each(t, []lockKind{exclusiveKinds[2], rwSides[0], rwSides[1]}, func(t *testing.T, addr string, k lockKind) {
		me := owned(t)
		l := k.lock(newLocks(t, addr), "a")
		long := must(t)(l.Lock(me, WithLease(time.Minute)))
		short := must(t)(persistent{l}.Lock(me, WithLease(time.Second)))
		ends := time.Now().Add(time.Second) // on the server too, however long the reply took
		requireDone(t, short.Context(), ErrLost)
		time.Sleep(time.Until(ends.Add(MinLease)))

		_, err := short.g.keeper.renew(me, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, short.g.keeper.release(me), ErrNotHeld)
		require.NoError(t, long.Context().Err())
		release(t, long)
		nothingLeft(t, newClient(t, addr))
	})
}

// An acquire that the network delivers twice is one hold, and does not shorten a lease that was extended in between.
func TestRepeatedAcquireDoesNotShortenLease(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		cl := k.claim(newLocks(t, addr), "a", time.Minute)
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
		nothingLeft(t, rdb)
	})
}

// Tokens increase even if the server has lost the last one or its clock is set back.
func TestTokensIncrease(t *testing.T) {
	each(t, exclusiveKinds, func(t *testing.T, addr string, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		last := uint64(0)
		take := func() {
			h := must(t)(l.TryLock(ctx))
			assert.Greater(t, h.Token(), last)
			last = h.Token()
			require.NoError(t, h.Release(ctx))
		}
		take()
		require.NoError(t, rdb.FlushAll(ctx).Err())
		take()
		key := keysOf(DefaultPrefix, k.name, "a", fenceKey)[3]
		assert.Greater(t, rdb.PTTL(ctx, key).Val(), time.Hour-time.Minute)
		assert.Less(t, rdb.PTTL(ctx, key).Val(), 2*time.Hour, "a key without expiry")

		// As if the clock had been an hour ahead.
		last = uint64(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, rdb.Set(ctx, key, last, time.Hour).Err())
		take()
		take()
	})
}

// arrivals returns the queue of the fair lock "a" on the server.
func arrivals(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	ids, err := rdb.ZRange(context.Background(), keysOf(DefaultPrefix, fairKind.name, "a")[1], 0, -1).Result()
	require.NoError(t, err)
	return ids
}

// Waiters are queued in the order of their arrival, and one that retries keeps its place.
func TestFairWaitersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	c, other := newLocks(t, addr), newLocks(t, addr)
	h := must(t)(newLocks(t, addr).Fair("a").Lock(soon(t)))
	var line []*claim
	var ids []string
	for i := range 6 {
		cl := exclusiveKinds[1].claim([]*Client{c, other}[i%2], "a", time.Minute)
		requireIn(t, cl, false)
		stay(t, rdb, fairKind.name, "a", cl)
		line, ids = append(line, cl), append(ids, cl.id)
	}

	for _, cl := range slices.Backward(line) {
		requireIn(t, cl, false)
		require.Equal(t, ids, arrivals(t, rdb))
	}
	release(t, h)
	for _, cl := range line {
		requireIn(t, cl, true)
		require.NoError(t, cl.release(soon(t)))
	}
}

// Arrivals are strictly ordered even if the server's clock is set back.
func TestFairOrderSurvivesClockSetBack(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx, cancel := context.WithCancel(soon(t))
	rdb := newClient(t, addr)
	c := newLocks(t, addr)
	h := must(t)(c.Fair("a").Lock(ctx))
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
}

// TryLock fails while there are waiters, even if the lock is free.
func TestFairTryRespectsTheQueue(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	c := newLocks(t, addr)
	h := must(t)(c.Fair("a").Lock(ctx))
	slow := newLocks(t, addr).newClaim(fairKind, keysOf(DefaultPrefix, fairKind.name, "a", fenceKey), time.Minute)
	_, err := slow.acquireOnce(ctx, modeWait)
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
}

func TestReentry(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	stranger := soon(t)
	ctx := WithOwner(stranger, NewOwner())
	rdb := newClient(t, addr)
	l, elsewhere := newLocks(t, addr).Reentrant("a"), newLocks(t, addr).Reentrant("a")
	outer := must(t)(l.Lock(ctx))
	inner := must(t)(l.TryLock(ctx))
	third, err := elsewhere.Lock(ctx) // the same owner in another process
	require.NoError(t, err)
	assert.Equal(t, outer.Token(), inner.Token())
	assert.Equal(t, outer.Token(), third.Token())
	for _, other := range []context.Context{stranger, WithOwner(stranger, NewOwner()), WithOwner(stranger, "")} {
		_, err = l.TryLock(other)
		require.ErrorIs(t, err, ErrNotAcquired)
	}

	// In any order; each once.
	for _, h := range []*Hold{outer, third} {
		require.NoError(t, h.Release(ctx))
		require.NoError(t, h.Release(ctx))
		requireDone(t, h.Context(), ErrReleased)
		_, err = l.TryLock(stranger)
		require.ErrorIs(t, err, ErrNotAcquired, "a partial release")
	}
	require.NoError(t, inner.Context().Err())
	require.NoError(t, inner.Extend(ctx, time.Minute))
	require.NoError(t, inner.Release(ctx))
	nothingLeft(t, rdb)

	h := must(t)(l.TryLock(stranger))
	assert.Greater(t, h.Token(), inner.Token())
	require.NoError(t, h.Release(ctx))
}

// A shorter lease inside a longer one, and the other way round.
func TestReentrantHoldsHaveOwnLeases(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := WithOwner(soon(t), NewOwner())
	rdb := newClient(t, addr)
	l := newLocks(t, addr).Reentrant("a")
	ttl := func() time.Duration { return rdb.PTTL(ctx, exclusiveKinds[2].keys("a")[0]).Val() }

	long := must(t)(l.Lock(ctx, WithLease(time.Minute)))
	short := must(t)(persistent{l}.Lock(ctx, WithLease(time.Second)))
	assert.Greater(t, ttl(), 30*time.Second, "re-entry shortened the lease")
	requireDone(t, short.Context(), ErrLost)
	require.NoError(t, long.Context().Err())
	require.ErrorIs(t, short.Release(ctx), ErrNotHeld)
	assert.Greater(t, ttl(), 30*time.Second)

	longer := must(t)(l.Lock(ctx, WithLease(time.Hour)))
	assert.Greater(t, ttl(), 30*time.Minute)
	require.NoError(t, longer.Release(ctx))
	assert.Less(t, ttl(), 2*time.Minute, "the key outlasts its last hold")

	require.NoError(t, long.Extend(ctx, 10*time.Second))
	assert.Less(t, ttl(), 11*time.Second)
	require.NoError(t, long.Release(ctx))
	nothingLeft(t, rdb)
}

// The owner does not wait for the queue; the last release wakes the first waiter.
func TestReentryPassesTheQueue(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	l, elsewhere := newLocks(t, addr).Reentrant("a"), newLocks(t, addr).Reentrant("a")

	for _, waiting := range []*Reentrant{l, elsewhere} {
		requireWoken(t, func(ctx context.Context) {
			owner := WithOwner(ctx, NewOwner())
			outer := must(t)(l.Lock(owner))
			got := background(ctx, waiting)
			queued(t, rdb, reentrantKind.name, "a", 1)
			release(t, must(t)(l.Lock(owner)))
			require.EqualValues(t, 1, waiters(t, rdb, reentrantKind.name, "a"))
			release(t, outer)
			release(t, arrived(t, got))
		})
	}
	nothingLeft(t, rdb)
}
