package lock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// An rwSideOf is one side of a read-write lock.
type rwSideOf struct {
	name string
	kind *kind
	of   func(*RWMutex) Locker
}

var rwSides = []rwSideOf{{"read", rwReadKind, (*RWMutex).Read}, {"write", rwWriteKind, (*RWMutex).Write}}

// eachSide runs test for both sides on these servers. The server belongs to the test alone.
func eachSide(t *testing.T, on serverKinds, test func(t *testing.T, addr string, side rwSideOf)) {
	t.Helper()
	on(t, func(t *testing.T, addr string) {
		for _, side := range rwSides {
			t.Run(side.name, func(t *testing.T) {
				require.NoError(t, newClient(t, addr).FlushAll(context.Background()).Err())
				test(t, addr, side)
			})
		}
	})
}

// eachSideOnRedis is eachSide for what only a real Redis supports. The tests run in parallel.
func eachSideOnRedis(t *testing.T, test func(t *testing.T, server *testenv.Redis, side rwSideOf)) {
	t.Helper()
	testenv.Full(t)
	t.Parallel()
	for _, side := range rwSides {
		t.Run(side.name, func(t *testing.T) { t.Parallel(); test(t, testenv.StartRedis(t), side) })
	}
}

// must returns the hold of a Lock or TryLock that must succeed.
func must(t testing.TB) func(h *Hold, err error) *Hold {
	t.Helper()
	return func(h *Hold, err error) *Hold {
		t.Helper()
		require.NoError(t, err)
		return h
	}
}

func release(t testing.TB, holds ...*Hold) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Release(context.Background()))
	}
}

// arrived returns the hold of a background Lock that must succeed.
func arrived(t testing.TB, got <-chan outcome) *Hold {
	t.Helper()
	o := <-got
	require.NoError(t, o.err)
	return o.hold
}

// owned is soon with a new owner.
func owned(t testing.TB) context.Context {
	t.Helper()
	return WithOwner(soon(t), NewOwner())
}

func TestReadersTogetherWriterAlone(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		var seen recorder
		a, b := newLocks(t, addr, WithObserver(seen.observe)).RW("a"), newLocks(t, addr).RW("a")
		readers := []*Hold{must(t)(a.Read().TryLock(ctx)), must(t)(a.Read().Lock(ctx)), must(t)(b.Read().TryLock(ctx))}
		for _, m := range []*RWMutex{a, b} {
			_, err := m.Write().TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		release(t, readers[:2]...)
		_, err := b.Write().TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "one is left")
		release(t, readers...)

		h := must(t)(a.Write().TryLock(ctx))
		assert.Greater(t, h.Token(), readers[0].Token())
		for _, l := range []Locker{a.Read(), b.Read(), a.Write(), b.Write()} {
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		release(t, h)
		release(t, must(t)(b.Write().TryLock(ctx)))
		assert.Equal(t, "rw", seen.events[0].Lock)
		assert.Equal(t, 3, seen.count(EventAcquired))
		assert.Equal(t, 3, seen.count(EventReleased))
		nothingLeft(t, newClient(t, addr))
	})
}

func TestRWReentry(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		m, other := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")
		me, you := owned(t), owned(t)

		h := must(t)(m.Write().Lock(me))
		again := must(t)(other.Write().Lock(me))
		reading := must(t)(m.Read().Lock(me))
		assert.Equal(t, h.Token(), again.Token())
		assert.Equal(t, h.Token(), reading.Token())
		for _, ctx := range []context.Context{you, soon(t)} {
			_, err := m.Read().TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			_, err = m.Write().TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		release(t, h)
		_, err := m.Read().TryLock(you)
		require.ErrorIs(t, err, ErrNotAcquired, "the write hold is left")
		release(t, again)
		yours := must(t)(m.Read().TryLock(you))
		assert.Equal(t, h.Token(), yours.Token())
		_, err = m.Write().TryLock(soon(t))
		require.ErrorIs(t, err, ErrNotAcquired, "two readers are left")
		release(t, reading, yours)
		release(t, must(t)(m.Write().TryLock(you)))
		nothingLeft(t, rdb)
	})
}

// A reader reads again regardless of the queue, because the waiters wait for it.
func TestReaderReadsAgainBeforeWaitingWriter(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		m, me := c.RW("a"), owned(t)
		h := must(t)(m.Read().Lock(me))
		writer := background(soon(t), newLocks(t, addr).RW("a").Write())
		queued(t, rdb, "rw", "a", 1)
		again := []*Hold{must(t)(m.Read().TryLock(me)), must(t)(m.Read().Lock(me))}
		assert.Equal(t, h.Token(), again[0].Token())
		_, err := m.Read().TryLock(owned(t))
		require.ErrorIs(t, err, ErrNotAcquired, "another owner")
		release(t, h)
		_, err = m.Write().TryLock(me)
		require.ErrorIs(t, err, ErrUpgrade, "two read holds are left")
		release(t, again...)
		release(t, arrived(t, writer))
		nothingLeft(t, rdb)
	})
}

func TestNoUpgrade(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		m, me := c.RW("a"), owned(t)
		refused := func(why string) {
			for _, lock := range []func(context.Context, ...Option) (*Hold, error){m.Write().TryLock, m.Write().Lock} {
				_, err := lock(me)
				require.ErrorIs(t, err, ErrUpgrade, why)
				require.NotErrorIs(t, err, ErrNotAcquired, why)
			}
		}
		h := must(t)(m.Read().Lock(me))
		refused("alone")
		other := must(t)(m.Read().Lock(owned(t)))
		refused("beside another reader")
		writer := background(soon(t), m.Write())
		queued(t, rdb, "rw", "a", 1)
		refused("before a writer")
		require.EqualValues(t, 1, waiters(t, rdb, "rw", "a"))
		release(t, h, other)
		release(t, arrived(t, writer))

		w := must(t)(m.Write().Lock(me))
		r := must(t)(m.Read().Lock(me))
		release(t, w)
		refused("after having written")
		release(t, r)

		// Without an owner, the call cannot be matched to an earlier hold and waits like any other.
		h = must(t)(m.Read().Lock(soon(t)))
		wait, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := m.Write().Lock(wait)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release(t, h)
		nothingLeft(t, rdb)
	})
}

// A waiting writer whose owner acquires a read hold meanwhile gets ErrUpgrade at once.
func TestUpgradeWhileWaiting(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		m, me := newLocks(t, addr).RW("a"), owned(t)
		first := must(t)(m.Write().Lock(soon(t)))
		reading := background(me, m.Read())
		queued(t, rdb, "rw", "a", 1)
		writing := background(me, m.Write())
		queued(t, rdb, "rw", "a", 2)
		behind := background(soon(t), m.Read())
		queued(t, rdb, "rw", "a", 3)
		release(t, first)
		h := arrived(t, reading)
		require.ErrorIs(t, (<-writing).err, ErrUpgrade)
		release(t, arrived(t, behind), h)
		nothingLeft(t, rdb)
	})
}

func TestRWNames(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		names := []string{
			"order:1", "}", "{", "{}", "a}b{c", "%7B", "two words\r\n", "秒杀", "\x00\xff",
			"a:readers", "a:reads:me", "a:queue", "a", strings.Repeat("k", 1024),
		}
		var holds []*Hold
		for i, name := range names {
			m, me := c.RW(name), WithOwner(soon(t), Owner(names[len(names)-1-i]))
			holds = append(holds, must(t)(m.Read().TryLock(me)), must(t)(m.Read().TryLock(me)))
			_, err := m.Write().TryLock(me)
			require.ErrorIs(t, err, ErrUpgrade, "%q", name)
			wait, leave := context.WithCancel(soon(t))
			got := background(wait, m.Write())
			queued(t, rdb, "rw", name, 1)
			leave()
			require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		}
		release(t, holds...)
		for _, k := range exclusiveKinds {
			holds = append(holds, must(t)(k.lock(c, "a").TryLock(soon(t))))
		}
		holds = append(holds, must(t)(c.RW("a").Write().TryLock(soon(t))))
		release(t, holds...)
		for _, side := range rwSides {
			_, err := side.of(c.RW("")).TryLock(soon(t))
			require.ErrorContains(t, err, "name")
		}
		nothingLeft(t, rdb)
	})
}
