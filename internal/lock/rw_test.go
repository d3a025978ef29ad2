package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
	t.Parallel()
	addr := startServer(t)
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
}

func TestNoUpgrade(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	c := newLocks(t, addr)
	m, me := c.RW("a"), owned(t)
	refused := func(why string) {
		for _, lock := range bothWays(m.Write()) {
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
}

// A reader does not pass a waiting writer, even with TryLock.
func TestWriterBeforeLaterReaders(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
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
}

// A writer's release admits all readers before the next writer, and no more; the last of them admits that writer.
func TestReadersWakeTogether(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
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
}

// A writer that leaves the queue, or dies, admits the readers behind it.
func TestDepartingWriterAdmitsReaders(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	c := newLocks(t, addr)
	m := c.RW("a")
	h := must(t)(m.Read().Lock(ctx, WithLease(time.Hour)))
	wait, leave := context.WithCancel(ctx)
	writer := background(wait, m.Write())
	queued(t, rdb, "rw", "a", 1)
	reader := background(ctx, m.Read())
	queued(t, rdb, "rw", "a", 2)
	leave()
	require.ErrorIs(t, (<-writer).err, ErrNotAcquired)
	release(t, arrived(t, reader))

	dead := newLocks(t, addr).newClaim(rwWriteKind, rwKeys(DefaultPrefix, "a", ""), time.Minute, "")
	requireIn(t, dead, false)
	release(t, must(t)(m.Read().Lock(ctx)))
	release(t, h)
	nothingLeft(t, rdb)
}

func TestRWWithoutWaitersPublishesNothing(t *testing.T) {
	t.Parallel()
	addr := startRedis(t)
	ctx, me := soon(t), owned(t)
	rdb := newClient(t, addr)
	m := newLocks(t, addr).RW("a")

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

// Each hold has a lease of its own: the hold of a dead process ends, and the longest lease counts.
func TestRWLeases(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	const lease = 2 * time.Second
	ctx, me := soon(t), owned(t)
	rdb := newClient(t, addr)
	dead, m := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")

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
}

// A writer's lease ends, but not that of its read hold: then others may read.
func TestReadHoldContinuesAfterWriteEnds(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
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
}

// A read hold has the token of the last writer for as long as the lock is held.
func TestRWTokens(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
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
	release(t, must(t)(m.Read().Lock(me, WithLease(time.Minute))))
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
}

// A waiter for a lease is woken if the lock becomes free earlier.
func TestRWEarlierEndWakesFirstWaiter(t *testing.T) {
	each(t, rwSides, func(t *testing.T, addr string, side lockKind) {
		ctx := soon(t)
		c, rdb := newLocks(t, addr), newClient(t, addr)
		wakes := listenTo(t, addr, c)
		attempt := func(k *kind, lease time.Duration, owner Owner) *claim {
			return c.newClaim(k, rwKeys(DefaultPrefix, "a", owner), lease, string(owner))
		}
		elsewhere := newLocks(t, addr) // so that the lock is not handed over to mine
		acquire := func(cl *claim, ok bool) {
			v, err := cl.acquireOnce(ctx, modeWait)
			require.NoError(t, err)
			require.Equal(t, ok, v.ok)
		}

		const short = time.Second
		for name, change := range map[string]func(mine *claim){
			"renewed": func(mine *claim) {
				_, err := mine.renew(ctx, short)
				require.NoError(t, err)
			},
			"the shorter hold is left": func(mine *claim) {
				acquire(attempt(side.kind, short, "me"), true)
				require.NoError(t, mine.release(ctx))
			},
			"the shorter read hold is left": func(mine *claim) {
				acquire(attempt(rwReadKind, short, "me"), true)
				require.NoError(t, mine.release(ctx))
			},
			"downgraded": func(mine *claim) {
				mine.kind = rwDowngradeKind
				_, err := mine.renew(ctx, short)
				require.NoError(t, err)
			},
			"taken": nil,
		} {
			require.NoError(t, rdb.FlushAll(ctx).Err())
			first := elsewhere.newClaim(rwWriteKind, rwKeys(DefaultPrefix, "a", ""), time.Hour, "")
			mine, waiter := attempt(side.kind, time.Hour, "me"), attempt(rwWriteKind, time.Hour, "")
			acquire(first, true)
			acquire(mine, false)
			acquire(waiter, false)
			require.NoError(t, first.release(ctx))
			if change == nil {
				mine.lease = short
			}
			acquire(mine, true)
			if change != nil {
				require.Equal(t, []string{mine.id}, wakes.received(), name)
				change(mine)
			}
			require.Contains(t, wakes.received(), waiter.id, name)
		}
	})
}
