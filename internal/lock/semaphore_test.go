package lock

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSemaphore(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		var seen recorder
		s, other := k.of(newLocks(t, addr, WithObserver(seen.observe)), "a"), k.of(newLocks(t, addr), "a")
		set(t, s, 5)
		again, err := other.SetPermits(ctx, 9)
		require.NoError(t, err)
		require.False(t, again)
		requireAvailable(t, other, 5)

		three, err := s.take(ctx, 3, false)
		require.NoError(t, err)
		requireAvailable(t, s, 2)
		_, err = s.take(ctx, 3, false)
		require.ErrorIs(t, err, ErrNotAcquired)
		two, err := other.take(ctx, 2, true)
		require.NoError(t, err)
		requireAvailable(t, s, 0)
		again, err = s.SetPermits(ctx, 9)
		require.NoError(t, err)
		require.False(t, again, "set again when all were taken")
		require.NoError(t, three(ctx))
		requireAvailable(t, s, 3)
		require.NoError(t, two(ctx))
		requireAvailable(t, s, 5)
		assert.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased}, seen.kinds())
		onlyCountsLeft(t, newClient(t, addr), countKey(k.kind, "a"))
	})
}

func TestSemaphoreBounds(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		s := k.of(c, "a")
		for _, n := range []int64{0, -1, MaxPermits + 1, -1 << 63, 1<<63 - 1} {
			want := fmt.Sprintf("count of %d", n)
			_, err := s.take(ctx, n, true)
			require.ErrorContains(t, err, want)
			_, err = s.take(ctx, n, false)
			require.ErrorContains(t, err, want)
			_, err = s.SetPermits(ctx, n)
			require.ErrorContains(t, err, want)
		}
		for _, delta := range []int64{MaxPermits + 1, -MaxPermits - 1, -1 << 63, 1<<63 - 1} {
			require.ErrorIs(t, s.AddPermits(ctx, delta), errTooManyTotal)
		}
		nameless := k.of(c, "")
		require.ErrorContains(t, nameless.AddPermits(ctx, 1), "name")
		_, err := nameless.SetPermits(ctx, 1)
		require.ErrorContains(t, err, "name")
		_, err = nameless.Available(ctx)
		require.ErrorContains(t, err, "name")
		_, err = nameless.take(ctx, 1, false)
		require.ErrorContains(t, err, "name")
		require.Zero(t, newClient(t, addr).DBSize(ctx).Val(), "refused calls left keys")

		set(t, s, MaxPermits)
		require.ErrorIs(t, s.AddPermits(ctx, 1), errTooManyTotal)
		requireAvailable(t, s, MaxPermits)
		all, err := s.take(ctx, MaxPermits, false)
		require.NoError(t, err)
		requireAvailable(t, s, 0)
		require.NoError(t, s.AddPermits(ctx, -MaxPermits))
		requireAvailable(t, s, -MaxPermits)
		require.NoError(t, s.AddPermits(ctx, -MaxPermits))
		require.ErrorIs(t, s.AddPermits(ctx, -1), errTooManyTotal)
		requireAvailable(t, s, -2*MaxPermits)
		require.NoError(t, all(ctx))
		requireAvailable(t, s, -MaxPermits)
		require.NoError(t, s.AddPermits(ctx, MaxPermits))
		require.NoError(t, s.AddPermits(ctx, 1))
		requireAvailable(t, s, 1)
	})
}

// A semaphore that was never set has no permits; adding some admits the waiters.
func TestUnsetSemaphoreHasNoPermits(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		for name, give := range map[string]func(s permitSource) error{
			"set": func(s permitSource) error { _, err := s.SetPermits(ctx, 2); return err },
			"add": func(s permitSource) error { return s.AddPermits(ctx, 2) },
		} {
			s := k.of(c, name)
			requireAvailable(t, s, 0)
			_, err := s.take(ctx, 1, false)
			require.ErrorIs(t, err, ErrNotAcquired)
			got := waiting(ctx, s, 2)
			queued(t, rdb, k.name, name, 1)
			require.NoError(t, give(k.of(newLocks(t, addr), name)))
			in := <-got
			require.NoError(t, in.err)
			ok, err := s.SetPermits(ctx, 7)
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, in.giveBack(ctx))
			requireAvailable(t, s, 2)
		}
		onlyCountsLeft(t, rdb, countKey(k.kind, "add"), countKey(k.kind, "set"))
	})
}

func TestSemaphoreShrunkBelowHeld(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 4)
		var held []func(context.Context) error
		for range 4 {
			one, err := s.take(ctx, 1, false)
			require.NoError(t, err)
			held = append(held, one)
		}
		require.NoError(t, s.AddPermits(ctx, -2))
		requireAvailable(t, s, -2)
		for i, left := range []int64{-1, 0} {
			require.NoError(t, held[i](ctx))
			requireAvailable(t, s, left)
			_, err := s.take(ctx, 1, false)
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		require.NoError(t, held[2](ctx))
		one, err := s.take(ctx, 1, false)
		require.NoError(t, err)
		require.NoError(t, one(ctx))
		require.NoError(t, held[3](ctx))
		requireAvailable(t, s, 2)
	})
}

func TestSemaphoreNames(t *testing.T) {
	eachSemaphore(t, onEachServer, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		names := []string{"}", "{", "{}", "a}b{c", "%7B", "two words\r\n", "秒杀", "\x00\xff", "a:queue", "a:holders", "a", strings.Repeat("k", 1024)}
		for _, name := range names {
			set(t, k.of(c, name), 1)
			_, err := k.of(c, name).take(ctx, 1, false)
			require.NoError(t, err)
			wait, leave := context.WithCancel(ctx)
			got := waiting(wait, k.of(c, name), 1)
			queued(t, rdb, k.name, name, 1)
			leave()
			require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		}
		for _, name := range names {
			requireAvailable(t, k.of(c, name), 0)
		}
	})
}

// A plain semaphore counts permits without recording their holders.
func TestReleaseOfPermitsNotHeld(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		s := newLocks(t, addr).Semaphore("a")
		require.ErrorIs(t, s.Release(ctx, 1), ErrNotHeld, "it was never set")
		set(t, plainPermits{s}, 3)
		require.ErrorIs(t, s.Release(ctx, 1), ErrNotHeld)
		require.NoError(t, s.Acquire(ctx, 2))
		require.ErrorIs(t, s.Release(ctx, 3), ErrNotHeld)
		requireAvailable(t, plainPermits{s}, 1)
		require.NoError(t, s.Release(ctx, 1))
		require.NoError(t, s.Release(ctx, 1))
		require.ErrorIs(t, s.Release(ctx, 1), ErrNotHeld)
		requireAvailable(t, plainPermits{s}, 3)
		require.ErrorContains(t, s.Release(ctx, 0), "count of 0")
	})
}

func TestDrain(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		s := newLocks(t, addr).Semaphore("a")
		drain := func(want int64) {
			t.Helper()
			n, err := s.Drain(ctx)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		drain(0)
		set(t, plainPermits{s}, 5)
		require.NoError(t, s.Acquire(ctx, 2))
		drain(3)
		requireAvailable(t, plainPermits{s}, 0)
		drain(0)
		require.ErrorIs(t, s.TryAcquire(ctx, 1), ErrNotAcquired)
		require.NoError(t, s.AddPermits(ctx, -1))
		drain(0)
		requireAvailable(t, plainPermits{s}, -1)
		require.NoError(t, s.Release(ctx, 5), "drained permits count as held")
		requireAvailable(t, plainPermits{s}, 4)
		_, err := newLocks(t, addr).Semaphore("").Drain(ctx)
		require.ErrorContains(t, err, "name")
	})
}
