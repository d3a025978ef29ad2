package lock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// An rwSideOf is one side of a read-write lock.
type rwSideOf struct {
	name string
	kind *kind
	of   func(*RWMutex) Locker
}

var rwSides = []rwSideOf{{"read", rwReadKind, (*RWMutex).Read}, {"write", rwWriteKind, (*RWMutex).Write}}

// eachSide runs test for each of them on each server. The server is the test's
// own.
func eachSide(t *testing.T, test func(t *testing.T, addr string, side rwSideOf)) {
	t.Helper()
	onEachServer(t, func(t *testing.T, addr string) {
		for _, side := range rwSides {
			t.Run(side.name, func(t *testing.T) {
				require.NoError(t, newClient(t, addr).FlushAll(context.Background()).Err())
				test(t, addr, side)
			})
		}
	})
}

// eachSideOnRedis is eachSide for what only a real Redis can do. The tests run
// side by side.
func eachSideOnRedis(t *testing.T, test func(t *testing.T, server *testenv.Redis, side rwSideOf)) {
	t.Helper()
	t.Parallel()
	for _, side := range rwSides {
		t.Run(side.name, func(t *testing.T) { t.Parallel(); test(t, testenv.StartRedis(t), side) })
	}
}

// must is the hold of a Lock or a TryLock that has to succeed.
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

// arrived is the hold of a background Lock that has to succeed.
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

// Who wants to read does not pass a writer who waits, be it by trying.
func TestWriterBeforeLaterReaders(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		m, other := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")
		reader := must(t)(m.Read().Lock(ctx))
		writer := background(ctx, other.Write())
		queued(t, rdb, "rw", "a", 1)
		for _, m := range []*RWMutex{m, other} {
			_, err := m.Read().TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		later := background(ctx, m.Read())
		queued(t, rdb, "rw", "a", 2)
		release(t, reader)
		h := arrived(t, writer)
		select {
		case <-later:
			require.FailNow(t, "a reader beside the writer")
		default:
		}
		release(t, h)
		release(t, arrived(t, later))
		nothingLeft(t, rdb)
	})
}

// Readers who overlap without end do not keep a writer out, nor do writers keep
// readers out.
func TestNobodyStarves(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr)}
		for _, one := range []int{0, 1} {
			many := rwSides[1-one]
			stop, wg := make(chan struct{}), sync.WaitGroup{}
			for i := range 8 {
				wg.Go(func() {
					for !isClosed(stop) {
						assert.NoError(t, Do(ctx, many.of(clients[i%2].RW("a")), func(context.Context) error {
							time.Sleep(time.Millisecond)
							return nil
						}))
					}
				})
			}
			for range 10 {
				assert.NoError(t, Do(ctx, rwSides[one].of(clients[0].RW("a")), nothing))
			}
			close(stop)
			wg.Wait()
		}
		nothingLeft(t, newClient(t, addr))
	})
}

// A writer's release lets in all readers before the next writer, and no more;
// the last of them lets that writer in.
func TestReadersWakeTogether(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		first := must(t)(clients[0].RW("a").Write().Lock(ctx))
		const together = 40
		var before []<-chan outcome
		for i := range together {
			before = append(before, background(ctx, clients[i%3].RW("a").Read()))
		}
		queued(t, rdb, "rw", "a", together)
		writer := background(ctx, clients[0].RW("a").Write())
		queued(t, rdb, "rw", "a", together+1)
		behind := background(ctx, clients[1].RW("a").Read())
		queued(t, rdb, "rw", "a", together+2)

		release(t, first)
		var readers []*Hold
		for _, got := range before { // each holds it until all do
			readers = append(readers, arrived(t, got))
		}
		require.EqualValues(t, 2, waiters(t, rdb, "rw", "a"))
		release(t, readers[1:]...)
		require.EqualValues(t, 2, waiters(t, rdb, "rw", "a"))
		release(t, readers[0])
		second := arrived(t, writer)
		require.EqualValues(t, 1, waiters(t, rdb, "rw", "a"))
		assert.Greater(t, second.Token(), first.Token())
		release(t, second)
		release(t, arrived(t, behind))
		nothingLeft(t, rdb)
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
		require.ErrorIs(t, err, ErrNotAcquired, "it writes still")
		release(t, again)
		yours := must(t)(m.Read().TryLock(you))
		assert.Equal(t, h.Token(), yours.Token())
		_, err = m.Write().TryLock(soon(t))
		require.ErrorIs(t, err, ErrNotAcquired, "two read still")
		release(t, reading, yours)
		release(t, must(t)(m.Write().TryLock(you)))
		nothingLeft(t, rdb)
	})
}

// A reader reads again whoever waits: the one who waits, waits for it.
func TestReaderReadsAgainBeforeAWriter(t *testing.T) {
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
		require.ErrorIs(t, err, ErrNotAcquired, "that is somebody else")
		release(t, h)
		_, err = m.Write().TryLock(me)
		require.ErrorIs(t, err, ErrUpgrade, "it reads twice still")
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

		// Without an owner nobody can know, and it is a wait like any other.
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

// An owner who waits to write, and reads meanwhile, need not wait any longer.
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

// Each hold has a lease of its own: the dead do not pin the lock, and what lasts
// longest counts.
func TestRWLeases(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		const lease = 400 * time.Millisecond
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, addr)
		dead, m := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")

		// The last reader is dead, and so is then the writer.
		release(t, must(t)(dead.Read().Lock(ctx)))
		_ = must(t)(dead.Read().Lock(ctx, WithLease(lease)))
		_ = must(t)(m.Write().Lock(ctx, WithLease(lease)))
		var readers []<-chan outcome
		ends := time.Now().Add(lease)
		for range 5 {
			readers = append(readers, background(ctx, m.Read()))
		}
		for _, got := range readers {
			release(t, arrived(t, got))
		}
		t.Logf("in %v after the lease", time.Since(ends))
		assert.Less(t, time.Since(ends), recheck-lease, "they found out by asking every so often")

		// A reader is dead, another is not.
		_ = must(t)(dead.Read().Lock(ctx, WithLease(lease)))
		alive := must(t)(m.Read().Lock(ctx))
		time.Sleep(lease + 10*time.Millisecond)
		_, err := m.Write().TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		release(t, alive)
		release(t, must(t)(m.Write().TryLock(ctx)))

		// An owner's lease that ends does not end its others, nor shorten them.
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

// A hold whose lease has ended is over, though others of its kind go on; and
// what nobody releases goes by itself.
func TestRWExpiredAmongOthers(t *testing.T) {
	eachSide(t, func(t *testing.T, addr string, side rwSideOf) {
		me := owned(t)
		c := newLocks(t, addr)
		m := side.of(c.RW("a"))
		long := must(t)(m.Lock(me, WithLease(time.Second)))
		short := must(t)(m.Lock(me, WithLease(MinLease)))
		requireDone(t, short.Context(), ErrLost)
		time.Sleep(time.Until(short.ValidUntil().Add(MinLease))) // on the server, too
		cl := short.g.keeper
		_, err := cl.renew(me, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, cl.release(me), ErrNotHeld)
		require.NoError(t, long.Context().Err())
		nothingLeft(t, newClient(t, addr))
	})
}

// A writer's lease ends, but not that of its read hold: then others may read.
func TestReadHoldOutlivesTheWrite(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		const lease = 400 * time.Millisecond
		rdb := newClient(t, addr)
		m, me := newLocks(t, addr).RW("a"), owned(t)
		for _, expires := range []bool{false, true} {
			var opts []Option
			if expires {
				opts = append(opts, WithLease(lease))
			}
			w, r := must(t)(m.Write().Lock(me, opts...)), must(t)(m.Read().Lock(me))
			reader := background(soon(t), m.Read())
			queued(t, rdb, "rw", "a", 1)
			writer := background(soon(t), m.Write())
			queued(t, rdb, "rw", "a", 2)
			if !expires {
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

// A read hold has the token of the last writer, for as long as anybody holds
// the lock.
func TestRWTokens(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		m := c.RW("a")
		fence := rwKeys(DefaultPrefix, "a", "")[3]
		ttl := func() time.Duration { return rdb.PTTL(ctx, fence).Val() }

		early := must(t)(m.Read().Lock(me))
		assert.Positive(t, early.Token(), "nobody has written yet")
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
		// The token lives as long as the holds do, whatever is renewed or taken.
		h := must(t)(m.Read().Lock(me, WithLease(MaxLease)))
		release(t, must(t)(m.Read().Lock(me, WithLease(MinLease))))
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

func TestRWWaitCutShort(t *testing.T) {
	eachSide(t, func(t *testing.T, addr string, side rwSideOf) {
		rdb := newClient(t, addr)
		m := newLocks(t, addr).RW("a")
		h := must(t)(m.Write().Lock(soon(t)))
		wait, leave := context.WithCancel(soon(t))
		got := background(wait, side.of(m))
		queued(t, rdb, "rw", "a", 1)
		leave()
		err := (<-got).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, waiters(t, rdb, "rw", "a"))
		release(t, h)
		nothingLeft(t, rdb)
	})
}

// The writer that leaves, or dies, was in the way of the readers behind it only.
func TestWriterLeavesTheQueue(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		m := c.RW("a")
		h := must(t)(m.Read().Lock(ctx))
		wait, leave := context.WithCancel(ctx)
		writer := background(wait, m.Write())
		queued(t, rdb, "rw", "a", 1)
		reader := background(ctx, m.Read())
		queued(t, rdb, "rw", "a", 2)
		leave()
		require.ErrorIs(t, (<-writer).err, ErrNotAcquired)
		release(t, arrived(t, reader))

		dead := newLocks(t, addr).newClaim(rwWriteKind, rwKeys(DefaultPrefix, "a", ""), time.Minute, "")
		v, err := dead.ask(ctx, modeWait)
		require.NoError(t, err)
		require.False(t, v.ok)
		_, err = m.Read().TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired, "nobody knows yet")
		began := time.Now()
		release(t, must(t)(m.Read().Lock(ctx)))
		t.Logf("skipped after %v", time.Since(began))
		assert.Less(t, time.Since(began), 10*time.Second)
		release(t, h)
		nothingLeft(t, rdb)
	})
}

func TestNamesOfRW(t *testing.T) {
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

func TestRWTryIsNeverQueued(t *testing.T) {
	eachSide(t, func(t *testing.T, addr string, side rwSideOf) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		m := newLocks(t, addr).RW("a")
		h := must(t)(m.Write().Lock(ctx))
		got := background(ctx, m.Write()) // so that the hub is live
		queued(t, rdb, "rw", "a", 1)
		for range 5 {
			_, err := side.of(m).TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.EqualValues(t, 1, waiters(t, rdb, "rw", "a"))
		}
		release(t, h)
		release(t, arrived(t, got))
	})
}

func TestRWPublishesNothingWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	ctx, me := soon(t), owned(t)
	rdb := newClient(t, server.Addr)
	m := newLocks(t, server.Addr).RW("a")
	for range 5 {
		w, r := must(t)(m.Write().Lock(me)), must(t)(m.Read().Lock(me))
		again := must(t)(m.Write().Lock(me))
		_, err := m.Read().TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		down := must(t)(m.Downgrade(ctx, w))
		release(t, again)
		release(t, must(t)(m.Read().Lock(ctx)), down, r)
	}
	assert.Zero(t, calls(t, rdb, "publish"))
	assert.Zero(t, calls(t, rdb, "subscribe"))
}

// Thousands of uses by several clients: never a writer beside anybody, and
// nothing is left.
func TestManyContendedUsesOfRW(t *testing.T) {
	t.Parallel()
	const uses, contenders = 5000, 24
	server := testenv.StartRedis(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	var sent counter
	var clients []*Client
	for range 3 {
		rdb := newClient(t, server.Addr)
		rdb.AddHook(&sent)
		c, err := New(rdb)
		require.NoError(t, err)
		defer func() { assert.NoError(t, c.Close()) }()
		clients = append(clients, c)
	}
	var left, inside, together atomic.Int64 // a writer counts for more than all readers
	left.Store(uses)
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				side, weight := rwSides[0], int64(1)
				if n%4 == 0 {
					side, weight = rwSides[1], contenders
				}
				h, err := side.of(clients[i%3].RW("a")).Lock(ctx)
				if !assert.NoError(t, err) {
					return
				}
				now := inside.Add(weight)
				assert.LessOrEqual(t, now, int64(contenders), "somebody beside the writer")
				if weight == 1 && now > 1 {
					together.Add(1)
				}
				time.Sleep(100 * time.Microsecond)
				inside.Add(-weight)
				assert.NoError(t, h.Release(ctx))
			}
		})
	}
	wg.Wait()
	assert.Positive(t, together.Load(), "no reader met another")
	perUse := float64(sent.sent()) / uses
	t.Logf("%.2f commands a use, %d readers met others", perUse, together.Load())
	assert.Less(t, perUse, 3.3, "three, and now and then a waiter that asks again")
	nothingLeft(t, newClient(t, server.Addr))
}
