package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An acquire that the network delivers twice is one hold, and does not shorten a lease that was extended in between.
func TestRepeatedAcquireDoesNotShortenLease(t *testing.T) {
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
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
	each(t, exclusiveKinds, startServer, func(t *testing.T, addr string, k lockKind) {
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

func TestReentry(t *testing.T) {
	each(t, reenteredKinds, startServer, func(t *testing.T, addr string, k lockKind) {
		stranger := soon(t)
		ctx := WithOwner(stranger, NewOwner())
		l, elsewhere := k.lock(newLocks(t, addr), "a"), k.lock(newLocks(t, addr), "a")
		outer := must(t)(l.Lock(ctx))
		inner := must(t)(l.TryLock(ctx))
		third := must(t)(elsewhere.Lock(ctx)) // the same owner in another process
		assert.Equal(t, outer.Token(), inner.Token())
		assert.Equal(t, outer.Token(), third.Token())
		for _, other := range []context.Context{stranger, WithOwner(stranger, NewOwner()), WithOwner(stranger, "")} {
			_, err := l.TryLock(other)
			require.ErrorIs(t, err, ErrNotAcquired)
		}

		// In any order; each once.
		for _, h := range []*Hold{outer, third} {
			release(t, h, h)
			requireDone(t, h.Context(), ErrReleased)
			_, err := l.TryLock(stranger)
			require.ErrorIs(t, err, ErrNotAcquired, "a partial release")
		}
		require.NoError(t, inner.Context().Err())
		require.NoError(t, inner.Extend(ctx, time.Minute))
		release(t, inner)
		nothingLeft(t, newClient(t, addr))

		h := must(t)(l.TryLock(stranger))
		assert.Greater(t, h.Token(), inner.Token())
		release(t, h)
	})
}

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

		long := must(t)(l.Lock(ctx, WithLease(time.Minute)))
		short := must(t)(persistent{l}.Lock(ctx, WithLease(time.Second)))
		ends := time.Now().Add(time.Second) // on the server too, however long the reply took
		assert.Greater(t, ttl(), 30*time.Second, "re-entry shortened the lease")
		requireDone(t, short.Context(), ErrLost)
		time.Sleep(time.Until(ends.Add(MinLease)))
		_, err := short.g.keeper.renew(ctx, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, short.Release(ctx), ErrNotHeld)
		require.NoError(t, long.Context().Err())
		assert.Greater(t, ttl(), 30*time.Second)

		longer := must(t)(l.Lock(ctx, WithLease(time.Hour)))
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
				outer := must(t)(k.lock(c, "a").Lock(owner))
				got := background(ctx, k.block(waiting, "a"))
				k.queued(t, rdb, "a", 1)
				release(t, must(t)(k.lock(c, "a").Lock(owner)))
				require.EqualValues(t, 1, waiters(t, rdb, k.name, "a"))
				release(t, outer)
				release(t, arrived(t, got))
			})
		}
		nothingLeft(t, rdb)
	})
}
