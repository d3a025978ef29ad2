package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestDowngrade(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		type key struct{}
		ctx := soon(t)
		rdb := newClient(t, addr)
		var seen recorder
		m, other := newLocks(t, addr, WithObserver(seen.observe)).RW("a"), newLocks(t, addr).RW("a")
		for _, me := range []context.Context{ctx, owned(t)} {
			w := must(t)(m.Write().Lock(me))
			before := []<-chan outcome{background(ctx, other.Read()), background(ctx, m.Read())}
			queued(t, rdb, "rw", "a", 2)
			writer := background(ctx, other.Write())
			queued(t, rdb, "rw", "a", 3)

			r := must(t)(m.Downgrade(context.WithValue(me, key{}, 7), w))
			requireDone(t, w.Context(), ErrReleased)
			assert.Equal(t, w.Token(), r.Token())
			assert.Equal(t, 7, r.Context().Value(key{}))
			for _, got := range before {
				h := arrived(t, got)
				assert.Equal(t, w.Token(), h.Token())
				release(t, h)
			}
			require.EqualValues(t, 1, waiters(t, rdb, "rw", "a"), "the writer")
			release(t, w)
			_, err := m.Downgrade(ctx, w)
			require.ErrorIs(t, err, ErrNotHeld)
			require.ErrorIs(t, err, ErrReleased)
			require.NoError(t, r.Extend(ctx, time.Minute), "the old hold's release freed the new one")
			release(t, r)
			h := arrived(t, writer)
			assert.Greater(t, h.Token(), w.Token())
			release(t, h)
			nothingLeft(t, rdb)
		}
		assert.Equal(t, seen.count(EventAcquired), seen.count(EventReleased))
	})
}

// Others may read when the last write hold has ended.
func TestDowngradeOfOneOfTwoWriteHolds(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	m, me := newLocks(t, addr).RW("a"), owned(t)
	first, second := must(t)(m.Write().Lock(me)), must(t)(m.Write().Lock(me))
	reader := background(soon(t), m.Read())
	queued(t, rdb, "rw", "a", 1)
	r1 := must(t)(m.Downgrade(me, first))
	_, err := m.Read().TryLock(soon(t))
	require.ErrorIs(t, err, ErrNotAcquired)
	require.NoError(t, second.Context().Err())
	r2 := must(t)(m.Downgrade(me, second))
	_, err = m.Write().TryLock(me)
	require.ErrorIs(t, err, ErrUpgrade)
	release(t, arrived(t, reader), r1, r2)
	nothingLeft(t, rdb)
}

func TestDowngradeRejectsOtherHolds(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	m := c.RW("a")
	other := newLocks(t, addr)
	holds := []*Hold{
		nil,
		must(t)(c.Mutex("a").Lock(ctx)),
		must(t)(c.RW("b").Write().Lock(ctx)),
		must(t)(m.Read().Lock(ctx)),
		must(t)(newLock(t, "a", []string{addr}).Lock(ctx)),
	}

	for i, h := range holds {
		_, err := m.Downgrade(ctx, h)
		require.ErrorContains(t, err, "not a write hold", i)
		require.NotErrorIs(t, err, ErrNotHeld, i)
	}
	release(t, holds[1:]...)
	w := must(t)(m.Write().Lock(ctx))
	_, err := other.RW("a").Downgrade(ctx, w)
	require.ErrorContains(t, err, "not a write hold")

	release(t, w)
	nothingLeft(t, newClient(t, addr))
}

func TestDowngradeKeepsKindOfLease(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	const lease = 3 * time.Second
	m := newLocks(t, addr, WithWatchdog(lease)).RW("a")
	r := must(t)(m.Downgrade(ctx, must(t)(m.Write().Lock(ctx))))
	first := r.ValidUntil()
	time.Sleep(time.Until(first.Add(300 * time.Millisecond))) // the first lease is over
	require.NoError(t, r.Context().Err())
	_, err := m.Write().TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	release(t, r)

	w := must(t)(m.Write().Lock(ctx, WithLease(time.Minute)))
	require.NoError(t, w.Extend(ctx, lease))
	r = must(t)(m.Downgrade(ctx, w))
	assert.WithinRange(t, r.ValidUntil(), time.Now(), time.Now().Add(lease))
	requireDone(t, r.Context(), ErrLost)
	require.ErrorIs(t, r.Release(ctx), ErrNotHeld)
	release(t, must(t)(m.Write().Lock(ctx)))
	nothingLeft(t, newClient(t, addr))
}

func TestDowngradeOfLostHold(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	m := newLocks(t, addr).RW("a")
	w := must(t)(persistent{m.Write()}.Lock(ctx, WithLease(time.Second)))
	requireDone(t, w.Context(), ErrLost)
	_, err := m.Downgrade(ctx, w)
	require.ErrorIs(t, err, ErrNotHeld)
	require.ErrorIs(t, err, ErrLost)

	// The hold was lost without its holder noticing, and the lock has another holder.
	w = must(t)(m.Write().Lock(ctx))
	require.NoError(t, rdb.Del(ctx, rwKeys(DefaultPrefix, "a", "")[0]).Err())
	next := must(t)(m.Write().Lock(ctx))
	_, err = m.Downgrade(ctx, w)
	require.ErrorIs(t, err, ErrNotHeld)
	require.ErrorIs(t, err, ErrLost)
	requireDone(t, w.Context(), ErrLost)
	_, err = m.Read().TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	require.NoError(t, next.Extend(ctx, time.Minute))
	release(t, next)
	nothingLeft(t, rdb)
}

// faultyDowngrade returns a Client behind a proxy, which has the scripts of a downgrade loaded.
func faultyDowngrade(t *testing.T, addr string, opts ...ClientOption) (*Client, *proxy) {
	t.Helper()
	c, p := rwSides[1].faulty(t, addr, opts...)
	m := c.RW("warm")
	release(t, must(t)(m.Downgrade(soon(t), must(t)(m.Write().Lock(soon(t))))))
	return c, p
}

// The downgrade was executed, and is repeated until its reply arrives.
func TestDowngradeReplyLost(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	var seen recorder
	c, p := faultyDowngrade(t, addr, WithObserver(seen.observe))
	m := c.RW("a")
	w := must(t)(m.Write().Lock(ctx))
	reader := background(ctx, newLocks(t, addr).RW("a").Read())
	queued(t, rdb, "rw", "a", 1)

	p.Inject(dropReply, rwDowngradeKind.renew.sha, 3)
	r := must(t)(m.Downgrade(ctx, w))
	require.Equal(t, 3, p.Broken())
	release(t, arrived(t, reader), w)
	assert.EqualValues(t, 1, rdb.ZCard(ctx, rwKeys(DefaultPrefix, "a", "")[4]).Val(), "counted twice")
	release(t, r)
	assert.Zero(t, seen.count(EventLost))
	nothingLeft(t, rdb)
}

// The downgrade may have been executed, and no reply ever arrives: its hold is not used, and nothing is left behind.
func TestDowngradeUnconfirmed(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	var seen recorder
	c, p := faultyDowngrade(t, addr, WithObserver(seen.observe))

	for _, how := range []fault{dropReply, refuse} {
		w := must(t)(c.RW("a").Write().Lock(ctx))
		p.Inject(how, rwDowngradeKind.renew.sha, always)
		_, err := c.RW("a").Downgrade(ctx, w)
		require.ErrorIs(t, err, ErrUncertain)
		requireDone(t, w.Context(), ErrLost)
		p.Heal()
		nothingLeft(t, newClient(t, addr))
		require.ErrorIs(t, w.Release(ctx), ErrLost)
	}
	assert.Equal(t, 2, seen.count(EventLost))
}

// The caller's context ends while the server is silent: the call returns at once, the downgrade ends later, and the
// lock is free.
func TestDowngradeCancelled(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	c, p := faultyDowngrade(t, addr)
	m := c.RW("a")
	w := must(t)(m.Write().Lock(soon(t)))
	p.Inject(muteReply, anyCmd, always)
	var left context.Context
	err := cancelled(t, func(ctx context.Context) error {
		left = ctx
		_, err := m.Downgrade(ctx, w)
		return err
	})
	require.ErrorIs(t, err, ErrUncertain)

	_, err = m.Downgrade(left, w)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUncertain, "the request was not sent")
	p.Heal()
	<-w.Context().Done()
	nothingLeft(t, newClient(t, addr))
}

// The server refuses: nothing was executed, and the caller keeps the write hold.
func TestDowngradeNotExecuted(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	ctx := soon(t)
	rdb := newClient(t, server.Addr)
	m := newLocks(t, server.Addr).RW("a")
	w := must(t)(m.Write().Lock(ctx))
	require.NoError(t, rdb.Do(ctx, "acl", "setuser", "default", "-evalsha").Err())
	_, err := m.Downgrade(ctx, w)
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, ErrUncertain)
	require.NotErrorIs(t, err, ErrNotHeld)
	require.NoError(t, rdb.Do(ctx, "acl", "setuser", "default", "+evalsha").Err())
	require.NoError(t, w.Context().Err())
	_, err = m.Read().TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	release(t, must(t)(m.Downgrade(ctx, w)))
	nothingLeft(t, rdb)
}
