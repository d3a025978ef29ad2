package lock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExclusive(t *testing.T) {
	eachExclusive(t, func(t *testing.T, addr, _ string, lock func(*Client, string) Locker) {
		ctx := soon(t)
		var seen recorder
		l := lock(newLocks(t, addr, WithObserver(seen.observe)), "a")
		other := lock(newLocks(t, addr), "a")
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		_, err = other.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, h.Release(ctx))

		next, err := other.TryLock(ctx)
		require.NoError(t, err)
		assert.Greater(t, next.Token(), h.Token())
		require.NoError(t, h.Release(ctx), "the second release does nothing")
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "it freed the next holder's lock")
		require.NoError(t, next.Release(ctx))
		assert.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased, EventNotAcquired}, seen.kinds())
		nothingLeft(t, newClient(t, addr))
	})
}

func TestWaitersAreWoken(t *testing.T) {
	eachExclusive(t, func(t *testing.T, addr, kind string, lock func(*Client, string) Locker) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		h, err := lock(clients[0], "a").Lock(ctx)
		require.NoError(t, err)
		const waiting = 12
		var wg sync.WaitGroup
		for i := range waiting {
			wg.Go(func() {
				assert.NoError(t, Do(ctx, lock(clients[i%3], "a"), func(context.Context) error { return nil }))
			})
		}
		queued(t, rdb, kind, "a", waiting)
		began := time.Now()
		require.NoError(t, h.Release(ctx))
		wg.Wait()
		assert.Less(t, time.Since(began), waiting*recheck/2, "they found out by asking")
		nothingLeft(t, rdb)
	})
}
