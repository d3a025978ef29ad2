package lock

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func setCount(t testing.TB, l *Latch, n int64) {
	t.Helper()
	ok, err := l.TrySetCount(soon(t), n)
	require.NoError(t, err)
	require.True(t, ok, "the latch has a count")
}

func requireCount(t testing.TB, l *Latch, want int64) {
	t.Helper()
	n, err := l.Count(soon(t))
	require.NoError(t, err)
	require.Equal(t, want, n, "count")
}

func waitFor(ctx context.Context, l *Latch) <-chan error {
	got := make(chan error, 1)
	go func() { got <- l.Wait(ctx) }()
	return got
}

func TestLatch(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l, other := newLocks(t, addr).Latch("a"), newLocks(t, addr).Latch("a")
		require.NoError(t, l.Wait(ctx), "it was never set")
		requireCount(t, l, 0)
		require.NoError(t, l.CountDown(ctx))
		requireCount(t, l, 0)

		for range 2 { // a latch at zero can be set again
			setCount(t, l, 2)
			again, err := other.TrySetCount(ctx, 5)
			require.NoError(t, err)
			require.False(t, again)
			require.NoError(t, other.CountDown(ctx))
			requireCount(t, l, 1)
			again, err = other.TrySetCount(ctx, 5)
			require.NoError(t, err)
			require.False(t, again)
			require.NoError(t, l.CountDown(ctx))
			requireCount(t, other, 0)
			require.Zero(t, rdb.Exists(ctx, countKey(latchKind, "a")).Val())
			require.NoError(t, l.CountDown(ctx))
			requireCount(t, l, 0)
			require.NoError(t, l.Wait(ctx), "the latch is at zero")
		}
		nothingLeft(t, rdb)
	})
}

func TestLatchBounds(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)

	for _, n := range []int64{0, -1, MaxPermits + 1} {
		_, err := c.Latch("a").TrySetCount(ctx, n)
		require.ErrorContains(t, err, "count of")
	}
	nameless := c.Latch("")
	_, err := nameless.TrySetCount(ctx, 1)
	require.ErrorContains(t, err, "name")
	_, err = nameless.Count(ctx)
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, nameless.CountDown(ctx), "name")
	require.ErrorContains(t, nameless.Wait(ctx), "name")
	setCount(t, c.Latch("a"), MaxPermits)
	require.NoError(t, c.Latch("a").CountDown(ctx))
	requireCount(t, c.Latch("a"), MaxPermits-1)
}

func TestLatchAdmitsAllWaiters(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
	l := clients[0].Latch("a")
	const many = 60
	setCount(t, l, many)

	var waits []<-chan error
	for i := range many {
		waits = append(waits, waitFor(ctx, clients[i%3].Latch("a")))
	}
	queued(t, rdb, latchKind.name, "a", many)

	var wg sync.WaitGroup
	for i := range many - 1 {
		wg.Go(func() { assert.NoError(t, clients[i%3].Latch("a").CountDown(ctx)) })
	}
	wg.Wait()
	requireCount(t, l, 1)

	for _, wait := range waits {
		require.Empty(t, wait, "one count is missing")
	}
	require.NoError(t, l.CountDown(ctx))

	for _, wait := range waits {
		require.NoError(t, <-wait)
	}
	nothingLeft(t, rdb)
}

// Every waiter is woken once, at zero and not before, even if the latch is set again before the waiters retry.
func TestLatchSetAgainAdmitsEarlierWaiters(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	w, rdb := listenTo(t, addr, c), newClient(t, addr)
	l := c.Latch("a")
	setCount(t, l, 2)

	var line []*claim
	var ids []string
	for range 40 {
		cl := c.newClaim(latchKind, l.keys, unleased)
		requireIn(t, cl, false)
		requireIn(t, cl, false)
		stay(t, rdb, latchKind.name, "a", cl)
		line, ids = append(line, cl), append(ids, cl.id)
	}
	require.NoError(t, l.CountDown(ctx))
	require.Empty(t, w.received())
	require.NoError(t, l.CountDown(ctx))
	require.Equal(t, ids, w.received())
	setCount(t, l, 1)
	late := c.newClaim(latchKind, l.keys, unleased)
	requireIn(t, late, false)
	stay(t, rdb, latchKind.name, "a", late)

	for _, cl := range line {
		requireIn(t, cl, true)
	}
	require.NoError(t, l.CountDown(ctx))
	require.Equal(t, []string{late.id}, w.received())
	requireIn(t, late, true)
	nothingLeft(t, rdb, "lock:wake:"+c.id) // the test's own subscription
}

// Every change is executed once.
func TestLatchRepliesLost(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	p := startProxy(t, addr)
	l, direct := newLocks(t, p.Addr).Latch("a"), newLocks(t, addr).Latch("a")
	setCount(t, l, 1)
	require.NoError(t, l.CountDown(ctx)) // loads the scripts

	p.Inject(dropReply, latchSetScript.sha, 2)
	setCount(t, l, 3)
	require.Equal(t, 2, p.Broken())
	p.Inject(dropReply, latchDownScript.sha, 2)
	require.NoError(t, l.CountDown(ctx))
	require.Equal(t, 2, p.Broken())
	requireCount(t, direct, 2)
}

// The caller of CountDown leaves while the server is silent: the latch is still counted down, once.
func TestCountDownContinuesAfterContextEnds(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	p := startProxy(t, addr)
	c := newLocks(t, p.Addr)
	l, direct := c.Latch("a"), newLocks(t, addr).Latch("a")
	left := int64(40)
	setCount(t, l, left)
	require.NoError(t, l.CountDown(soon(t)))
	left--
	require.ErrorIs(t, cancelled(t, func(ctx context.Context) error {
		p.Inject(muteReply, latchDownScript.sha, 1)
		left--
		return l.CountDown(ctx)
	}), ErrUncertain)

	p.Heal()
	require.NoError(t, direct.CountDown(soon(t)))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.CountDown(ctx); err != nil { // has ended before
		require.ErrorIs(t, err, ErrUncertain)
	}
	left -= 2
	eventually(t, "counted", func() bool { n, err := direct.Count(soon(t)); return err == nil && n == left })
}
