package lock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func set(t testing.TB, s permitSource, n int64) {
	t.Helper()
	ok, err := s.SetPermits(soon(t), n)
	require.NoError(t, err)
	require.True(t, ok, "set before")
}

func requireAvailable(t testing.TB, s permitSource, want int64) {
	t.Helper()
	n, err := s.Available(soon(t))
	require.NoError(t, err)
	require.Equal(t, want, n, "available")
}

// grab takes permits that are free.
func grab(t testing.TB, s permitSource, n int64) (giveBack func(context.Context) error) {
	t.Helper()
	giveBack, err := s.take(soon(t), n, true)
	require.NoError(t, err)
	return giveBack
}

// waiting takes permits in a goroutine and sends the outcome.
func waiting(ctx context.Context, s permitSource, n int64) <-chan taken {
	got := make(chan taken, 1)
	go func() {
		giveBack, err := s.take(ctx, n, true)
		got <- taken{giveBack, err}
	}()
	return got
}

type taken struct {
	giveBack func(context.Context) error
	err      error
}

func countKey(k *kind, name string) string { return keysOf(DefaultPrefix, k.name, name)[0] }

func TestSemaphore(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
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
		nothingLeft(t, newClient(t, addr), countKey(k.kind, "a"))
	})
}

func TestSemaphoreBounds(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
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
		all := grab(t, s, MaxPermits)
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
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
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
		nothingLeft(t, rdb, countKey(k.kind, "add"), countKey(k.kind, "set"))
	})
}

func TestSemaphoreShrunkBelowHeld(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 4)

		var held []func(context.Context) error
		for range 4 {
			one := grab(t, s, 1)
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
		one := grab(t, s, 1)
		require.NoError(t, one(ctx))
		require.NoError(t, held[3](ctx))
		requireAvailable(t, s, 2)
	})
}

// A plain semaphore counts permits without recording their holders.
func TestReleaseOfPermitsNotHeld(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
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
}

func TestDrain(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
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
}

// A request for many permits is not overtaken by requests for few.
func TestLargeRequestsAreNotStarved(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		s := k.of(c, "a")
		set(t, s, 3)

		var held []func(context.Context) error
		for range 3 {
			one := grab(t, s, 1)
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

// Each change wakes the waiters that it admits, and no others.
func TestOnlyAdmissibleWaitersAreWoken(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
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
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
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

// Every change is executed once, and its reply is that of the first execution.
func TestPermitsRepliesLost(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, p := permitsOf(k).faulty(t, addr)
		s := k.of(c, "a")
		require.NoError(t, s.AddPermits(ctx, 1)) // loads the script
		require.NoError(t, s.AddPermits(ctx, -1))
		lose := func(script *script) { t.Helper(); p.Inject(dropReply, script.sha, 2) }
		lost := func() { t.Helper(); require.Equal(t, 2, p.Broken()) }

		lose(k.pool.add)
		require.NoError(t, s.AddPermits(ctx, 4))
		lost()
		requireAvailable(t, s, 7)
		require.NoError(t, s.AddPermits(ctx, -4))

		if k.kind == semaphoreKind {
			n, err := c.Semaphore("a").Drain(ctx) // loads its script
			require.NoError(t, err)
			require.NoError(t, c.Semaphore("a").Release(ctx, n-1))

			lose(drainScript)
			n, err = c.Semaphore("a").Drain(ctx)
			require.NoError(t, err)
			lost()
			require.EqualValues(t, 2, n, "the reply is that of the first execution")
			requireAvailable(t, s, 0)
			require.NoError(t, c.Semaphore("a").Release(ctx, 3))
		}

		require.NoError(t, rdb.Del(ctx, countKey(k.kind, "a")).Err())
		lose(k.pool.set)
		set(t, s, 5)
		lost()
		requireAvailable(t, s, 5)
	})
}

// A claim that is undone twice releases once, and one that arrives after its undo takes nothing.
func TestUndoIsIdempotent(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		c := newLocks(t, addr)
		s := k.of(c, "a")
		set(t, s, 4)
		other := grab(t, s, 2)

		cl := k.claim(c, "a", 2)
		requireIn(t, cl, true)
		requireIn(t, cl, true)
		requireAvailable(t, s, 0)

		require.NoError(t, cl.release(ctx))
		require.ErrorIs(t, cl.release(ctx), ErrNotHeld)
		requireAvailable(t, s, 2)
		if k.kind == semaphoreKind { // they would never be released
			requireIn(t, cl, false)
			requireAvailable(t, s, 2)
			require.Zero(t, waiters(t, newClient(t, addr), k.name, "a"))
		}
		require.NoError(t, other(ctx))
		requireAvailable(t, s, 4)
	})
}

// A ctx that has ended does not stop a release, but every other change.
func TestPermitsReleasedAfterContextEnds(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 3)
		giveBack := grab(t, s, 2)

		ctx, cancel := context.WithCancel(soon(t))
		cancel()
		_, err := s.take(ctx, 1, true)
		require.ErrorIs(t, err, ErrNotAcquired)

		for range 20 {
			err := s.AddPermits(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrUncertain)
		}
		if err := giveBack(ctx); err != nil {
			require.ErrorIs(t, err, ErrUncertain)
		}
		eventually(t, "back", func() bool { n, err := s.Available(soon(t)); return err == nil && n == 3 })
	})
}

// After the caller has returned, the client retries even an error that would be final for a waiting caller.
func TestDetachedReleaseRetriesAfterErrors(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	s := newLocks(t, addr).Semaphore("a")
	set(t, plainPermits{s}, 3)
	require.NoError(t, s.Acquire(soon(t), 2))
	key, aside := countKey(semaphoreKind, "a"), "aside"
	require.NoError(t, rdb.Rename(soon(t), key, aside).Err())
	require.NoError(t, rdb.Set(soon(t), key, "not a semaphore", 0).Err())
	err := s.Release(soon(t), 1)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, ErrUncertain)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Release(ctx, 2), ErrUncertain)
	require.NoError(t, rdb.Rename(soon(t), aside, key).Err())
	eventually(t, "back", func() bool { n, err := s.Available(soon(t)); return err == nil && n == 3 })
}

// Close ends the repetition of requests.
func TestCloseEndsRequests(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	p := startProxy(t, addr)
	var seen recorder
	c, err := New(newClient(t, p.Addr), WithObserver(seen.observe))
	require.NoError(t, err)
	set(t, plainPermits{c.Semaphore("a")}, 3)

	p.Inject(muteReply, anyCmd, always)
	done := make(chan error)
	go func() { done <- c.Semaphore("a").Release(context.Background(), 1) }()
	eventually(t, "sent", func() bool { return p.Broken() > 0 })

	require.NoError(t, c.Close())
	err = <-done
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, []EventKind{EventUncertain}, seen.kinds())
	require.ErrorIs(t, c.Semaphore("a").Release(context.Background(), 1), ErrClosed)
	_, err = c.Semaphore("a").Available(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, c.Latch("a").Wait(context.Background()), ErrClosed)
}

// Without the key nothing is held, and a release of earlier permits does not affect later ones.
func TestPermitsDeletedKeyResetsCount(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr, WithWatchdog(2400*time.Millisecond))
		s := k.of(c, "a")
		set(t, s, 3)
		giveBack := grab(t, s, 2)

		require.NoError(t, rdb.Del(ctx, countKey(k.kind, "a")).Err())
		requireAvailable(t, s, 0)
		_, err := s.take(ctx, 1, false)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, giveBack(ctx), ErrNotHeld)
		set(t, s, 3)
		requireAvailable(t, s, 3)
		giveBack = grab(t, s, 2)

		require.NoError(t, rdb.FlushAll(ctx).Err())
		set(t, s, 3)
		require.ErrorIs(t, giveBack(ctx), ErrNotHeld)
		requireAvailable(t, s, 3)
		nothingLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// A hold of permits is lost with the key, even if the number is set again before its renewal.
func TestPermitsAreLostWithTheKey(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	s := newLocks(t, addr, WithWatchdog(2400*time.Millisecond)).LeasedSemaphore("a")
	set(t, leasedPermits{s}, 1)
	p, err := s.Acquire(ctx, 1)
	require.NoError(t, err)

	require.NoError(t, newClient(t, addr).Del(ctx, countKey(leasedKind, "a")).Err())
	set(t, leasedPermits{s}, 1)
	requireDone(t, p.Context(), ErrLost)
	require.ErrorIs(t, p.Release(ctx), ErrNotHeld)
	requireAvailable(t, leasedPermits{s}, 1)
}

// A request that leaves the queue admits those behind it.
func TestCancelledLargeRequestAdmitsSmallOne(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		rdb := newClient(t, addr)
		s := k.of(newLocks(t, addr), "a")
		set(t, s, 2)
		one := grab(t, s, 1)
		ctx, cancel := context.WithCancel(soon(t))
		large := waiting(ctx, s, 2)
		queued(t, rdb, k.name, "a", 1)
		small := waiting(soon(t), s, 1) // waits only for the large request
		queued(t, rdb, k.name, "a", 2)

		cancel()
		require.ErrorIs(t, (<-large).err, ErrNotAcquired)
		in := <-small
		require.NoError(t, in.err)
		require.NoError(t, in.giveBack(soon(t)))
		require.NoError(t, one(soon(t)))
		requireAvailable(t, s, 2)
		nothingLeft(t, rdb, countKey(k.kind, "a"))
	})
}

// The undo of an acquire succeeds at the second try, and the first was executed: the permits are released once.
func TestUndoReplyLost(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		c, p := permitsOf(k).faulty(t, addr)
		p.Inject(dropReply, "\r\n"+c.id+":", 2)
		_, err := k.of(c, "a").take(soon(t), 2, false)
		require.ErrorIs(t, err, ErrUncertain)
		eventually(t, "undone", func() bool {
			n, err := k.of(newLocks(t, addr), "a").Available(soon(t))
			return err == nil && n == allPermits
		})
		nothingLeft(t, newClient(t, addr), countKey(k.kind, "a"))
	})
}

// The caller's context ends while the server is silent.
func TestCancelledChangesReturnAtOnce(t *testing.T) {
	each(t, permitKinds, func(t *testing.T, addr string, k permitKind) {
		c, p := permitsOf(k).faulty(t, addr)
		c.exec.maxInFlight = maxInFlightSolo
		s, direct := k.of(c, "a"), k.of(newLocks(t, addr), "a")
		require.NoError(t, s.AddPermits(soon(t), 1)) // loads the script
		require.NoError(t, s.AddPermits(soon(t), -1))

		p.Inject(muteReply, anyCmd, always)
		require.ErrorIs(t, cancelled(t, func(ctx context.Context) error { return s.AddPermits(ctx, 5) }), ErrUncertain)
		_ = cancelled(t, func(ctx context.Context) error { _, err := s.SetPermits(ctx, 5); return err })
		err := cancelled(t, func(ctx context.Context) error { _, err := s.Available(ctx); return err })
		require.NotErrorIs(t, err, ErrUncertain)

		p.Heal()
		requireAvailable(t, direct, allPermits+5) // the addition was executed, once
	})
}
