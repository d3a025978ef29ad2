package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReentry(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		stranger := soon(t)
		ctx := WithOwner(stranger, NewOwner())
		rdb := newClient(t, addr)
		l, elsewhere := newLocks(t, addr).Reentrant("a"), newLocks(t, addr).Reentrant("a")
		outer, err := l.Lock(ctx)
		require.NoError(t, err)
		inner, err := l.TryLock(ctx)
		require.NoError(t, err)
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

		h, err := l.TryLock(stranger)
		require.NoError(t, err)
		assert.Greater(t, h.Token(), inner.Token())
		require.NoError(t, h.Release(ctx))
	})
}

// A shorter lease inside a longer one, and the other way round.
func TestReentrantHoldsHaveOwnLeases(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := WithOwner(soon(t), NewOwner())
		rdb := newClient(t, addr)
		l := newLocks(t, addr).Reentrant("a")
		ttl := func() time.Duration { return rdb.PTTL(ctx, lockKey(exclusiveKind{kind: reentrantKind})).Val() }

		long, err := l.Lock(ctx, WithLease(time.Minute))
		require.NoError(t, err)
		short, err := l.Lock(ctx, WithLease(time.Second))
		require.NoError(t, err)
		assert.Greater(t, ttl(), 30*time.Second, "re-entry shortened the lease")
		requireDone(t, short.Context(), ErrLost)
		require.NoError(t, long.Context().Err())
		require.ErrorIs(t, short.Release(ctx), ErrNotHeld)
		assert.Greater(t, ttl(), 30*time.Second)

		longer, err := l.Lock(ctx, WithLease(time.Hour))
		require.NoError(t, err)
		assert.Greater(t, ttl(), 30*time.Minute)
		require.NoError(t, longer.Release(ctx))
		assert.Less(t, ttl(), 2*time.Minute, "the key outlasts its last hold")

		require.NoError(t, long.Extend(ctx, 10*time.Second))
		assert.Less(t, ttl(), 11*time.Second)
		require.NoError(t, long.Release(ctx))
		nothingLeft(t, rdb)
	})
}

// A hold that has expired is over, even though its owner still has the lock.
func TestExpiredReentryIsNotRevived(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := WithOwner(soon(t), NewOwner())
		c := newLocks(t, addr)
		long, err := c.Reentrant("a").Lock(ctx)
		require.NoError(t, err)
		crashed := c.newClaim(reentrantKind, long.g.keeper.(*claim).keys, time.Second, ownerOf(ctx))
		v, err := crashed.acquireOnce(ctx, modeTry)
		require.NoError(t, err)
		require.True(t, v.ok)
		time.Sleep(1100 * time.Millisecond)
		_, err = crashed.renew(ctx, time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, crashed.release(ctx), ErrNotHeld)
		require.NoError(t, long.Release(ctx))
		nothingLeft(t, newClient(t, addr))
	})
}

// An acquire that is repeated because its reply was lost is one hold.
func TestRepeatedReentryIsOneHold(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		c := newLocks(t, addr)
		cl := c.newClaim(reentrantKind, c.Reentrant("a").keys, time.Minute, "me")
		first, err := cl.acquireOnce(ctx, modeTry)
		require.NoError(t, err)
		again, err := cl.acquireOnce(ctx, modeTry)
		require.NoError(t, err)
		require.True(t, first.ok && again.ok)
		assert.Equal(t, first.token, again.token)
		require.NoError(t, cl.release(ctx))
		nothingLeft(t, newClient(t, addr))
	})
}

// The owner does not wait for the queue; the last release wakes the first waiter.
func TestReentryPassesTheQueue(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		owner := WithOwner(ctx, NewOwner())
		rdb := newClient(t, addr)
		l, elsewhere := newLocks(t, addr).Reentrant("a"), newLocks(t, addr).Reentrant("a")
		for _, waiting := range []*Reentrant{l, elsewhere} {
			requireOneWithin(t, belowRecheck, func() time.Duration {
				outer := must(t)(l.Lock(owner))
				got := background(ctx, waiting)
				queued(t, rdb, reentrantKind.name, "a", 1)
				inner := must(t)(l.Lock(owner))
				release(t, inner)
				require.EqualValues(t, 1, waiters(t, rdb, reentrantKind.name, "a"))
				began := time.Now()
				release(t, outer)
				next := arrived(t, got)
				took := time.Since(began)
				release(t, next)
				return took
			})
		}
		nothingLeft(t, rdb)
	})
}
