package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// Each hold has a lease of its own: the hold of a dead process ends, and the longest lease counts.
func TestRWLeases(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		const lease = 2 * time.Second
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, addr)
		dead, m := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")

		// The last reader is dead, and then so is the writer.
		release(t, must(t)(dead.Read().Lock(ctx)))
		requireOneWithin(t, leaseEndBound, func() time.Duration {
			_ = must(t)(dead.Read().Lock(ctx, WithLease(lease)))
			_ = must(t)(m.Write().Lock(ctx, WithLease(lease)))
			var readers []<-chan outcome
			ends := time.Now().Add(lease)
			for range 5 {
				readers = append(readers, background(ctx, m.Read()))
			}
			var in []*Hold
			for _, got := range readers {
				in = append(in, arrived(t, got))
			}
			late := time.Since(ends)
			release(t, in...)
			return late
		})

		// One reader is dead, another is not.
		_ = must(t)(dead.Read().Lock(ctx, WithLease(lease)))
		alive := must(t)(m.Read().Lock(ctx))
		time.Sleep(lease + 10*time.Millisecond)
		_, err := m.Write().TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		release(t, alive)
		release(t, must(t)(m.Write().TryLock(ctx)))

		// An owner's lease that ends neither ends nor shortens its others.
		_ = must(t)(dead.Write().Lock(me, WithLease(lease)))
		w := must(t)(m.Write().Lock(me))
		_ = must(t)(m.Write().Lock(me, WithLease(lease)))
		_ = must(t)(m.Read().Lock(me, WithLease(lease)))
		time.Sleep(lease + 10*time.Millisecond)
		_, err = m.Read().TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, w.Extend(ctx, time.Minute))
		release(t, w)
		release(t, must(t)(m.Write().TryLock(me)))
		nothingLeft(t, rdb)
	})
}

// A hold whose lease has ended is over even if others of its kind continue. Holds that are never released expire.
func TestRWExpiredHoldBesideLiveOnes(t *testing.T) {
	testenv.Full(t)
	eachSide(t, onEachServer, func(t *testing.T, addr string, side rwSideOf) {
		me := owned(t)
		c := newLocks(t, addr)
		m := side.of(c.RW("a"))
		long := must(t)(m.Lock(me, WithLease(time.Minute)))
		short := must(t)(m.Lock(me, WithLease(time.Second)))
		ends := time.Now().Add(time.Second) // on the server too, however long the reply took
		requireDone(t, short.Context(), ErrLost)
		time.Sleep(time.Until(ends.Add(MinLease)))
		cl := short.g.keeper
		_, err := cl.renew(me, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, cl.release(me), ErrNotHeld)
		require.NoError(t, long.Context().Err())
		release(t, long)
		nothingLeft(t, newClient(t, addr))
	})
}

// A writer's lease ends, but not that of its read hold: then others may read.
func TestReadHoldContinuesAfterWriteEnds(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		const lease = 3 * time.Second
		rdb := newClient(t, addr)
		m, me := newLocks(t, addr).RW("a"), owned(t)
		for _, expires := range []bool{false, true} {
			w, r := must(t)(m.Write().Lock(me, WithLease(time.Minute))), must(t)(m.Read().Lock(me))
			reader := background(soon(t), m.Read())
			queued(t, rdb, "rw", "a", 1)
			writer := background(soon(t), m.Write())
			queued(t, rdb, "rw", "a", 2)
			if expires {
				require.NoError(t, w.Extend(me, lease))
			} else {
				release(t, w)
			}
			h := arrived(t, reader)
			require.EqualValues(t, 1, waiters(t, rdb, "rw", "a"))
			release(t, r, h)
			release(t, arrived(t, writer))
		}
		nothingLeft(t, rdb)
	})
}

// A read hold has the token of the last writer for as long as the lock is held.
func TestRWTokens(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		m := c.RW("a")
		fence := rwKeys(DefaultPrefix, "a", "")[3]
		ttl := func() time.Duration { return rdb.PTTL(ctx, fence).Val() }

		early := must(t)(m.Read().Lock(me))
		assert.Positive(t, early.Token(), "there was no writer yet")
		assert.Equal(t, early.Token(), must(t)(m.Read().Lock(ctx)).Token())
		require.NoError(t, rdb.FlushAll(ctx).Err())

		last := early.Token()
		for range 3 {
			w := must(t)(m.Write().Lock(me))
			assert.Greater(t, w.Token(), last)
			last = w.Token()
			release(t, w)
			one, two := must(t)(m.Read().Lock(ctx)), must(t)(m.Read().Lock(me))
			assert.Equal(t, last, one.Token())
			assert.Equal(t, last, two.Token())
			release(t, one, two)
		}
		// The token is kept as long as the holds, whatever is renewed or acquired.
		h := must(t)(m.Read().Lock(me, WithLease(MaxLease)))
		release(t, must(t)(m.Read().Lock(me, WithLease(time.Second))))
		assert.Greater(t, ttl(), MaxLease)
		require.NoError(t, rdb.PExpire(ctx, fence, time.Minute).Err())
		require.NoError(t, h.Extend(ctx, time.Minute))
		assert.Greater(t, ttl(), time.Hour)
		assert.Equal(t, last, h.Token())
		release(t, h)
		w := must(t)(m.Write().Lock(me))
		require.NoError(t, rdb.PExpire(ctx, fence, time.Minute).Err())
		require.NoError(t, w.Extend(ctx, time.Minute))
		assert.Greater(t, ttl(), time.Hour)
		release(t, w)
	})
}
