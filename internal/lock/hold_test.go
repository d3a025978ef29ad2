package lock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type ctxKey struct{}

func TestHoldContext(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		wait, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "trace"))
		h, err := newLock(t, "a", []string{addr}).Lock(wait)
		require.NoError(t, err)
		cancel()
		assert.NoError(t, h.Context().Err(), "the wait's end does not end the hold")
		assert.Equal(t, "trace", h.Context().Value(ctxKey{}))
		assert.WithinRange(t, h.ValidUntil(), time.Now().Add(DefaultLease/2), time.Now().Add(DefaultLease*99/100))

		require.NoError(t, h.Release(context.Background()))
		requireDone(t, h.Context(), ErrReleased)
		assert.NotErrorIs(t, context.Cause(h.Context()), ErrLost)
	})
}

func TestReleaseTwice(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		l := newLock(t, "a", []string{addr})
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { assert.NoError(t, h.Release(ctx)) })
		}
		wg.Wait()

		next, err := l.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "the second release freed the next holder's lock")
		require.NoError(t, next.Release(ctx))

		err = h.Extend(ctx, time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrReleased)
	})
}

func TestReleaseWithEndedContext(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		h, err := newLock(t, "a", []string{addr}).Lock(context.Background())
		require.NoError(t, err)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := h.Release(ended); err != nil { // on a very busy machine
			require.ErrorIs(t, err, ErrUncertain)
			require.ErrorIs(t, err, context.Canceled)
		}
		keyGone(t, addr, "a")
	})
}

// The next renewal detects that the key vanished or has another holder's value.
func TestWatchdogDetectsLoss(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		rdb := newClient(t, addr)
		for _, thief := range []string{"", "another holder"} {
			var seen recorder
			l := newLock(t, "a", []string{addr}, WithWatchdogLease(3*time.Second), WithRedLockObserver(seen.observe))
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			if thief == "" {
				require.NoError(t, rdb.Del(ctx, "redlock:{a}").Err())
			} else {
				require.NoError(t, rdb.Set(ctx, "redlock:{a}", thief, 0).Err())
			}
			requireDone(t, h.Context(), ErrLost)
			eventually(t, "observed", func() bool { return seen.count(EventLost) == 1 })
			err = h.Extend(ctx, time.Second)
			require.ErrorIs(t, err, ErrNotHeld)
			err = h.Release(ctx)
			require.ErrorIs(t, err, ErrNotHeld)
			require.ErrorIs(t, err, ErrLost)
			require.NoError(t, h.Release(ctx))
			assert.Equal(t, thief, rdb.Get(ctx, "redlock:{a}").Val(), "another holder's lock is unchanged")
			assert.Equal(t, 1, seen.count(EventLost))
		}
	})
}

// Without a renewal in between, the release detects it.
func TestReleaseDetectsLoss(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		rdb := newClient(t, addr)
		h, err := newLock(t, "a", []string{addr}).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.Set(ctx, "redlock:{a}", "another holder", 0).Err())
		err = h.Release(ctx)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrLost)
		assert.Equal(t, "another holder", rdb.Get(ctx, "redlock:{a}").Val())
	})
}

func TestWatchdogRenews(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		l := newLock(t, "a", []string{addr}, WithWatchdogLease(4*time.Second))
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		first := h.ValidUntil()
		time.Sleep(time.Until(first.Add(300 * time.Millisecond))) // the first lease is over
		require.NoError(t, h.Context().Err())
		assert.True(t, h.ValidUntil().After(first))
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, h.Release(ctx))
	})
}

func TestWithLeaseEnds(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		var seen recorder
		l := newLock(t, "a", []string{addr}, WithRedLockObserver(seen.observe))
		h, err := l.Lock(ctx, WithLease(3*time.Second))
		require.NoError(t, err)
		requireDone(t, h.Context(), ErrLost)
		keyGone(t, addr, "a")
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.NoError(t, h.Release(ctx))
		eventually(t, "observed", func() bool { return seen.count(EventLost) == 1 })
		assert.Zero(t, seen.count(EventRenewFailed))
	})
}

func TestExtend(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		rdb := newClient(t, addr)
		h, err := newLock(t, "a", []string{addr}).Lock(ctx, WithLease(10*time.Second))
		require.NoError(t, err)
		require.Error(t, h.Extend(ctx, 0))
		require.Error(t, h.Extend(ctx, MaxLease+time.Second))

		require.NoError(t, h.Extend(ctx, time.Minute))
		assert.Greater(t, time.Until(h.ValidUntil()), 30*time.Second)
		assert.Greater(t, rdb.PTTL(ctx, "redlock:{a}").Val(), 30*time.Second)

		require.NoError(t, h.Extend(ctx, 3*time.Second), "a lease may be shortened")
		requireDone(t, h.Context(), ErrLost)
		keyGone(t, addr, "a")
		require.ErrorIs(t, h.Extend(ctx, time.Minute), ErrLost)
		assert.Zero(t, rdb.Exists(ctx, "redlock:{a}").Val(), "a lost lock is not taken again")
	})
}

func TestExtendChangesWatchdogLease(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		h, err := newLock(t, "a", []string{addr}).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Extend(ctx, 6*time.Second))
		first := h.ValidUntil()
		eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
		assert.Less(t, time.Until(h.ValidUntil()), 7*time.Second)
		require.NoError(t, h.Release(ctx))
	})
}

func TestExtendOfLostLock(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		rdb := newClient(t, addr)
		h, err := newLock(t, "a", []string{addr}).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.Del(ctx, "redlock:{a}").Err())
		err = h.Extend(ctx, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrLost)
		requireDone(t, h.Context(), ErrLost)
		assert.Zero(t, rdb.Exists(ctx, "redlock:{a}").Val())
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	})
}
