package lock

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestRWAcquireReplyLost(t *testing.T) {
	eachSide(t, onSingleServers, func(t *testing.T, addr string, side rwSideOf) {
		me := owned(t)
		c, p := rwFaulty(t, addr)
		l := side.of(c.RW("a"))
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){l.TryLock, l.Lock} {
			p.Inject(dropReply, side.kind.acquire.sha, 1)
			_, err := lock(me)
			require.ErrorIs(t, err, io.EOF)
			require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the lock is taken")
			require.NotErrorIs(t, err, ErrUncertain, "the acquire was undone")
			require.Equal(t, 1, p.Broken())
			nothingLeft(t, newClient(t, addr))
		}
	})
}

// A waiter whose replies are lost repeats its attempt with the same id, and acquires the lock once.
func TestRWWaiterReplyLost(t *testing.T) {
	eachSide(t, onSingleServers, func(t *testing.T, addr string, side rwSideOf) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c, p := rwFaulty(t, addr)
		h := must(t)(newLocks(t, addr).RW("a").Write().Lock(ctx))
		got := background(owned(t), side.of(c.RW("a")))
		queued(t, rdb, "rw", "a", 1)
		p.Inject(dropReply, side.kind.acquire.sha, 2)
		release(t, h)
		next := arrived(t, got)
		assert.Positive(t, p.Broken(), "no reply was lost")
		assert.Zero(t, waiters(t, rdb, "rw", "a"))
		release(t, next)
		nothingLeft(t, rdb)
	})
}

// A release whose reply is lost still wakes the waiters, and succeeds.
func TestRWReleaseReplyLost(t *testing.T) {
	eachSide(t, onSingleServers, func(t *testing.T, addr string, side rwSideOf) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		var seen recorder
		c, p := rwFaulty(t, addr, WithObserver(seen.observe))
		h := must(t)(side.of(c.RW("a")).Lock(owned(t)))
		got := background(ctx, newLocks(t, addr).RW("a").Write())
		queued(t, rdb, "rw", "a", 1)
		p.Inject(dropReply, side.kind.release.sha, 2)
		release(t, h)
		require.Equal(t, 2, p.Broken())
		assert.Zero(t, seen.count(EventLost))
		release(t, arrived(t, got))
		nothingLeft(t, rdb)
	})
}

func TestRWRenewReplyLost(t *testing.T) {
	eachSide(t, onSingleServers, func(t *testing.T, addr string, side rwSideOf) {
		var seen recorder
		c, p := rwFaulty(t, addr, WithWatchdog(6*time.Second), WithObserver(seen.observe))
		h := must(t)(side.of(c.RW("a")).Lock(soon(t)))
		p.Inject(dropReply, side.kind.renew.sha, 1)
		first := h.ValidUntil()
		eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
		assert.Positive(t, seen.count(EventRenewFailed))
		release(t, h)
		assert.Zero(t, seen.count(EventLost))
	})
}

// No renewal is executed: the hold ends before the server frees the lock, and the waiter acquires it.
func TestRWFailedRenewalsEndHold(t *testing.T) {
	testenv.Full(t)
	eachSide(t, onSingleServers, func(t *testing.T, addr string, side rwSideOf) {
		ctx := soon(t)
		c, p := rwFaulty(t, addr, WithWatchdog(12*time.Second))
		h := must(t)(side.of(c.RW("a")).Lock(ctx))
		got := background(ctx, newLocks(t, addr).RW("a").Write())
		p.Inject(refuse, side.kind.renew.sha, always)
		requireDone(t, h.Context(), ErrLost)
		assert.Empty(t, got, "the server freed the lock first")
		next := arrived(t, got)
		p.Heal()
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.NoError(t, next.Extend(ctx, time.Minute))
		release(t, next)
		nothingLeft(t, newClient(t, addr))
	})
}

func TestRWCancelDuringCommandReturnsAtOnce(t *testing.T) {
	eachSide(t, onSingleServers, func(t *testing.T, addr string, side rwSideOf) {
		c, p := rwFaulty(t, addr)
		c.exec.timeout, c.exec.maxInFlight = 10*time.Second, maxInFlightSolo
		l := side.of(c.RW("a"))
		p.Inject(muteReply, anyCmd, always)
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){l.TryLock, l.Lock} {
			err := cancelled(t, func(ctx context.Context) error { _, err := lock(ctx); return err })
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		p.Heal()
		nothingLeft(t, newClient(t, addr))
	})
}

func TestRWScriptFlush(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		flush := func() { require.NoError(t, rdb.ScriptFlush(ctx).Err()) }
		m := newLocks(t, addr).RW("a")
		w := must(t)(m.Write().Lock(ctx))
		flush()
		require.NoError(t, w.Extend(ctx, time.Minute))
		got := background(ctx, m.Write())
		queued(t, rdb, "rw", "a", 1)
		flush()
		r := must(t)(m.Downgrade(ctx, w))
		flush()
		release(t, r)
		release(t, arrived(t, got))
		flush()
		release(t, must(t)(m.Read().Lock(ctx)))
		nothingLeft(t, rdb)
	})
}

// The keys of the holds are deleted: the holds are lost, and the waiter acquires the lock.
func TestRWDeletedKeysEndHolds(t *testing.T) {
	eachSide(t, onEachServer, func(t *testing.T, addr string, side rwSideOf) {
		ctx, me := soon(t), owned(t)
		rdb := newClient(t, addr)
		h := must(t)(side.of(newLocks(t, addr, WithWatchdog(2400*time.Millisecond)).RW("a")).Lock(me))
		got := background(ctx, newLocks(t, addr).RW("a").Write())
		queued(t, rdb, "rw", "a", 1)
		keys := rwKeys(DefaultPrefix, "a", "")
		require.NoError(t, rdb.Del(ctx, keys[0], keys[4]).Err())
		next := arrived(t, got)
		requireDone(t, h.Context(), ErrLost)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		_, err := side.of(newLocks(t, addr).RW("a")).TryLock(me)
		require.ErrorIs(t, err, ErrNotAcquired, "the hold is not lost")
		require.NoError(t, next.Extend(ctx, time.Minute), "the loser freed the winner's lock")
		release(t, next)
		nothingLeft(t, rdb)
	})
}

// Wake messages are lost with the connection; after a reconnect all waiters retry.
func TestRWWaitersSurviveKilledPubSub(t *testing.T) {
	eachSideOnRedis(t, func(t *testing.T, server *testenv.Redis, side rwSideOf) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		h := must(t)(newLocks(t, server.Addr).RW("a").Write().Lock(ctx))
		c := newLocks(t, server.Addr)
		got := []<-chan outcome{background(ctx, side.of(c.RW("a"))), background(ctx, side.of(c.RW("a")))}
		queued(t, rdb, "rw", "a", 2)
		require.NoError(t, rdb.Do(ctx, "client", "kill", "type", "pubsub").Err())
		release(t, h)
		for range got {
			select {
			case o := <-got[0]:
				release(t, must(t)(o.hold, o.err))
				got[0] = nil
			case o := <-got[1]:
				release(t, must(t)(o.hold, o.err))
				got[1] = nil
			}
		}
		nothingLeft(t, rdb)
	})
}

// The server restarts without its data: the hold is lost, and the waiter acquires the lock and is renewed. A writer has
// a greater token.
func TestRWServerRestartedWithoutData(t *testing.T) {
	eachSideOnRedis(t, func(t *testing.T, server *testenv.Redis, side rwSideOf) {
		ctx := soon(t)
		old := must(t)(newLocks(t, server.Addr, WithWatchdog(3*time.Second)).RW("a").Write().Lock(ctx))
		got := background(ctx, persistent{side.of(newLocks(t, server.Addr, WithWatchdog(6*time.Second)).RW("a"))})
		queued(t, newClient(t, server.Addr), "rw", "a", 1)
		require.NoError(t, server.Restart())
		next := arrived(t, got)
		assert.Greater(t, next.Token(), old.Token())
		requireDone(t, old.Context(), ErrLost)
		require.ErrorIs(t, old.Release(ctx), ErrNotHeld)
		first := next.ValidUntil()
		eventually(t, "renewed", func() bool { return next.ValidUntil().After(first) })
		release(t, next)
		nothingLeft(t, newClient(t, server.Addr))
	})
}

// All keys of a lock are on one node, and wake messages reach all waiters.
func TestRWOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartRedisCluster(t)
	ctx := soon(t)
	clients := make([]*Client, 2)
	for i := range clients {
		c, err := New(cluster.Client(t))
		require.NoError(t, err)
		c.exec.timeout = longTimeout
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		clients[i] = c
	}
	for i := range 6 {
		me := owned(t)
		m, other := clients[0].RW(fmt.Sprint("}", i)), clients[1].RW(fmt.Sprint("}", i))
		w := must(t)(m.Write().Lock(me))
		again := must(t)(other.Write().Lock(me))
		got := []<-chan outcome{background(ctx, other.Read()), background(ctx, m.Read())}
		release(t, again)
		r := must(t)(m.Downgrade(me, w))
		_, err := m.Write().TryLock(me)
		require.ErrorIs(t, err, ErrUpgrade)
		release(t, arrived(t, got[0]), arrived(t, got[1]))
		writer := background(ctx, other.Write())
		release(t, r)
		release(t, arrived(t, writer))
	}
	for _, node := range cluster.Nodes {
		nothingLeft(t, newClient(t, node.Addr))
	}
}
