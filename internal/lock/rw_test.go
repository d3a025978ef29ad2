package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// Who is admitted, in which order, and who is woken for it, is shown by TestRWModel.

// A read hold has the token of the last writer, which is kept for as long as the lock is held, whatever is renewed or
// acquired. Readers before the first writer have a token too.
func TestRWTokens(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx, me := soon(t), owned(t)
	rdb := newClient(t, addr)
	m := newLocks(t, addr).RW("a")
	fence := writing.keys("a")[3]
	ttl := func() time.Duration { return rdb.PTTL(ctx, fence).Val() }

	early := env.Must(m.Read().Lock(me))(t)
	assert.Positive(t, early.Token())
	release(t, early)
	w := env.Must(m.Write().Lock(me))(t)
	assert.Greater(t, w.Token(), early.Token())
	require.NoError(t, rdb.PExpire(ctx, fence, time.Minute).Err())
	require.NoError(t, w.Extend(ctx, time.Minute))
	assert.Greater(t, ttl(), time.Hour)
	release(t, w)

	h := env.Must(m.Read().Lock(me, WithLease(MaxLease)))(t)
	release(t, env.Must(m.Read().Lock(me, WithLease(time.Minute)))(t))
	assert.Greater(t, ttl(), MaxLease)
	require.NoError(t, rdb.PExpire(ctx, fence, time.Minute).Err())
	require.NoError(t, h.Extend(ctx, time.Minute))
	assert.Greater(t, ttl(), time.Hour)
	assert.Equal(t, w.Token(), h.Token())
	release(t, h)
}

// A waiter for a lease is woken if the lock becomes free earlier: the owner's shorter hold is left, or the hold is
// downgraded with a shorter lease.
func TestRWEarlierEndWakesFirstWaiter(t *testing.T) {
	each(t, []lockKind{reading, writing}, startServer, func(t *testing.T, addr string, side lockKind) {
		ctx := soon(t)
		c, rdb := newLocks(t, addr), newClient(t, addr)
		wakes := listenTo(t, addr, c)
		attempt := func(k *kind, lease time.Duration, owner Owner) *claim {
			return c.newClaim(k, rwKeys(DefaultPrefix, "a", owner), lease, string(owner))
		}

		const short = time.Second
		for name, change := range map[string]func(mine *claim){
			"the shorter hold is left": func(mine *claim) {
				requireIn(t, attempt(side.kind, short, "me"), true)
				require.NoError(t, mine.release(ctx))
			},
			"the shorter read hold is left": func(mine *claim) {
				requireIn(t, attempt(rwReadKind, short, "me"), true)
				require.NoError(t, mine.release(ctx))
			},
			"downgraded": func(mine *claim) {
				mine.kind = rwDowngradeKind
				env.Must(mine.renew(ctx, short))(t)
			},
		} {
			require.NoError(t, rdb.FlushAll(ctx).Err())
			mine, waiter := attempt(side.kind, time.Hour, "me"), attempt(rwWriteKind, time.Hour, "")
			requireIn(t, mine, true)
			requireIn(t, waiter, false)
			require.Empty(t, wakes.received(), name)
			change(mine)
			require.Contains(t, wakes.received(), waiter.id, name)
		}
	})
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	type key struct{}
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	var seen recorder
	m, other := newLocks(t, addr, WithObserver(seen.observe)).RW("a"), newLocks(t, addr).RW("a")
	for _, me := range []context.Context{ctx, owned(t)} {
		w := env.Must(m.Write().Lock(me))(t)
		before := []<-chan outcome{background(ctx, other.Read()), background(ctx, m.Read())}
		writing.queued(t, rdb, "a", 2)
		writer := background(ctx, other.Write())
		writing.queued(t, rdb, "a", 3)

		r := env.Must(m.Downgrade(context.WithValue(me, key{}, 7), w))(t)
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
}

func TestDowngradeRejectsOtherHolds(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	m := c.RW("a")
	holds := []*Hold{
		env.Must(c.Mutex("a").Lock(ctx))(t),
		env.Must(c.RW("b").Write().Lock(ctx))(t),
		env.Must(newLocks(t, addr).RW("a").Write().Lock(ctx))(t),
		env.Must(redLockOf(c, "a").Lock(ctx))(t),
	}
	for i, h := range append(holds, nil) {
		_, err := m.Downgrade(ctx, h)
		require.ErrorContains(t, err, "not a write hold", i)
		require.NotErrorIs(t, err, ErrNotHeld, i)
	}

	release(t, holds...)
	r := env.Must(m.Read().Lock(ctx))(t)
	_, err := m.Downgrade(ctx, r)
	require.ErrorContains(t, err, "not a write hold")
	release(t, r)
	nothingLeft(t, newClient(t, addr))
}

func TestDowngradeKeepsKindOfLease(t *testing.T) {
	env.Full(t)
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	const lease = 3 * time.Second
	m := newLocks(t, addr, WithWatchdog(lease)).RW("a")
	r := env.Must(m.Downgrade(ctx, env.Must(m.Write().Lock(ctx))(t)))(t)
	first := r.ValidUntil()
	eventually(t, "renewed", func() bool { return r.ValidUntil().After(first) })
	release(t, r)

	w := env.Must(m.Write().Lock(ctx, WithLease(time.Minute)))(t)
	require.NoError(t, w.Extend(ctx, lease))
	r = env.Must(m.Downgrade(ctx, w))(t)
	assert.WithinRange(t, r.ValidUntil(), time.Now(), time.Now().Add(lease))
	requireDone(t, r.Context(), ErrLost)
	require.ErrorIs(t, r.Release(ctx), ErrNotHeld)
	release(t, env.Must(m.Write().Lock(ctx))(t))
	nothingLeft(t, newClient(t, addr))
}

// The hold was lost without its holder noticing, and the lock has another holder.
func TestDowngradeOfLostHold(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	m := newLocks(t, addr).RW("a")
	w := env.Must(m.Write().Lock(ctx))(t)
	require.NoError(t, rdb.Del(ctx, writing.keys("a")[0]).Err())
	next := env.Must(m.Write().Lock(ctx))(t)
	_, err := m.Downgrade(ctx, w)
	require.ErrorIs(t, err, ErrNotHeld)
	require.ErrorIs(t, err, ErrLost)
	requireDone(t, w.Context(), ErrLost)

	env.Fails(m.Read().TryLock(ctx))(t, ErrNotAcquired)
	require.NoError(t, next.Extend(ctx, time.Minute))
	release(t, next)
	nothingLeft(t, rdb)
}

// faultyDowngrade returns a Client behind a proxy, which has the scripts of a downgrade loaded.
func faultyDowngrade(t *testing.T, addr string, opts ...ClientOption) (*Client, *proxy) {
	t.Helper()
	c, p := writing.faulty(t, addr, opts...)
	m := c.RW("warm")
	release(t, env.Must(m.Downgrade(soon(t), env.Must(m.Write().Lock(soon(t)))(t)))(t))
	return c, p
}

// A downgrade whose reply is lost is repeated, and executed once. If no reply ever arrives, its hold is not used, and
// nothing is left behind.
func TestDowngradeReplyLost(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	var seen recorder
	c, p := faultyDowngrade(t, addr, WithObserver(seen.observe))
	m := c.RW("a")

	w := env.Must(m.Write().Lock(ctx))(t)
	p.Inject(dropReply, rwDowngradeKind.renew.sha, 3)
	r := env.Must(m.Downgrade(ctx, w))(t)
	require.Equal(t, 3, p.Broken())
	assert.EqualValues(t, 1, rdb.ZCard(ctx, writing.keys("a")[4]).Val(), "counted twice")
	release(t, w, r)
	assert.Zero(t, seen.count(EventLost))
	nothingLeft(t, rdb)

	for _, how := range []fault{dropReply, refuse} {
		w := env.Must(m.Write().Lock(ctx))(t)
		p.Inject(how, rwDowngradeKind.renew.sha, always)
		env.Fails(m.Downgrade(ctx, w))(t, ErrUncertain)
		requireDone(t, w.Context(), ErrLost)
		p.Heal()
		nothingLeft(t, rdb)
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
	w := env.Must(m.Write().Lock(soon(t)))(t)
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
	server := env.StartRedis(t)
	ctx := soon(t)
	rdb := newClient(t, server.Addr)
	m := newLocks(t, server.Addr).RW("a")
	w := env.Must(m.Write().Lock(ctx))(t)
	require.NoError(t, rdb.Do(ctx, "acl", "setuser", "default", "-evalsha").Err())
	_, err := m.Downgrade(ctx, w)
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, ErrUncertain)
	require.NotErrorIs(t, err, ErrNotHeld)

	require.NoError(t, rdb.Do(ctx, "acl", "setuser", "default", "+evalsha").Err())
	require.NoError(t, w.Context().Err())
	env.Fails(m.Read().TryLock(ctx))(t, ErrNotAcquired)
	release(t, env.Must(m.Downgrade(ctx, w))(t))
	nothingLeft(t, rdb)
}
