package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// A reader does not pass a waiting writer, even with TryLock.
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

// Overlapping readers do not keep a writer out, nor do writers keep readers out.
func TestNeitherReadersNorWritersStarve(t *testing.T) {
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

// A writer's release admits all readers before the next writer, and no more; the last of them admits that writer.
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

func TestRWCancelledWaitLeavesQueue(t *testing.T) {
	eachSide(t, onEachServer, func(t *testing.T, addr string, side rwSideOf) {
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
		queued(t, rdb, "rw", "a", 0)
		release(t, h)
		nothingLeft(t, rdb)
	})
}

// A writer that leaves the queue, or dies, admits the readers behind it.
func TestDepartingWriterAdmitsReaders(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
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

		requireOneWithin(t, deadBound, func() time.Duration {
			ctx := soon(t)
			dead := newLocks(t, addr).newClaim(rwWriteKind, rwKeys(DefaultPrefix, "a", ""), time.Minute, "")
			v, err := dead.acquireOnce(ctx, modeWait)
			require.NoError(t, err)
			require.False(t, v.ok)
			died := time.Now()
			_, err = m.Read().TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired, "not noticed yet")
			next := must(t)(m.Read().Lock(ctx))
			took := time.Since(died)
			release(t, next)
			return took
		})
		release(t, h)
		nothingLeft(t, rdb)
	})
}

func TestRWTryIsNeverQueued(t *testing.T) {
	eachSide(t, onEachServer, func(t *testing.T, addr string, side rwSideOf) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		m := newLocks(t, addr).RW("a")
		h := must(t)(m.Write().Lock(ctx))
		got := background(ctx, m.Write()) // so that the hub is subscribed
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

func TestRWWithoutWaitersPublishesNothing(t *testing.T) {
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

// Thousands of uses by several clients: never a writer beside another holder, and nothing left behind.
func TestManyContendedUsesOfRW(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	const uses, contenders = 1000, 24
	server := testenv.StartRedis(t)
	ctx := context.Background()
	clients, sent := countedClients(t, server.Addr)
	began := time.Now()
	var left, inside, together atomic.Int64 // a writer counts more than all readers
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
				assert.LessOrEqual(t, now, int64(contenders), "another holder beside the writer")
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
	assert.Positive(t, together.Load(), "readers never held the lock together")
	t.Logf("%d readers held the lock with others", together.Load())
	requireFewCommands(t, sent, uses, contenders, 3.3, time.Since(began))
	nothingLeft(t, newClient(t, server.Addr))
}
