package lock

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

func setCount(t testing.TB, l *Latch, n int64) {
	t.Helper()
	require.True(t, env.Must(l.TrySetCount(soon(t), n))(t), "the latch has a count")
}

func requireCount(t testing.TB, l *Latch, want int64) {
	t.Helper()
	require.Equal(t, want, env.Must(l.Count(soon(t)))(t), "count")
}

// A change is a request of a semaphore or a latch that the server executes once.
type change struct {
	name     string
	script   *script
	ready    func(t testing.TB, c *Client) // prepares the name "a"
	do       func(ctx context.Context, c *Client, name string) (reply any, err error)
	reply    any
	count    func(ctx context.Context, c *Client) (int64, error) // what do changes
	want     int64                                               // after one execution
	detached bool                                                // it continues after its caller has left
}

func (ch change) String() string { return ch.name }

var changes = []change{
	{
		name:   "set permits",
		script: leasedPool.set,
		ready:  func(testing.TB, *Client) {},
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return c.LeasedSemaphore(name).SetPermits(ctx, 7)
		},
		reply: true,
		count: func(ctx context.Context, c *Client) (int64, error) { return c.LeasedSemaphore("a").Available(ctx) },
		want:  7,
	},
	{
		name:   "add permits",
		script: semaphorePool.add,
		ready:  takeOneOfThree,
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return nil, c.Semaphore(name).AddPermits(ctx, 10)
		},
		count: available,
		want:  12,
	},
	{
		name:   "drain",
		script: drainScript,
		ready:  takeOneOfThree,
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return c.Semaphore(name).Drain(ctx)
		},
		reply: int64(2),
		count: available,
		want:  0,
	},
	{
		name:   "release",
		script: releaseScript,
		ready:  takeOneOfThree,
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return nil, c.Semaphore(name).Release(ctx, 1)
		},
		count:    available,
		want:     3,
		detached: true,
	},
	{
		name:   "set the count",
		script: latchSetScript,
		ready:  func(testing.TB, *Client) {},
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return c.Latch(name).TrySetCount(ctx, 5)
		},
		reply: true,
		count: latchCountOf,
		want:  5,
	},
	{
		name:   "count down",
		script: latchDownScript,
		ready:  func(t testing.TB, c *Client) { setCount(t, c.Latch("a"), 9) },
		do: func(ctx context.Context, c *Client, name string) (any, error) {
			return nil, c.Latch(name).CountDown(ctx)
		},
		count:    latchCountOf,
		want:     8,
		detached: true,
	},
}

func takeOneOfThree(t testing.TB, c *Client) {
	t.Helper()
	set(t, &c.Semaphore("a").pool, 3)
	require.NoError(t, c.Semaphore("a").Acquire(soon(t), 1))
}

func available(ctx context.Context, c *Client) (int64, error) { return c.Semaphore("a").Available(ctx) }

func latchCountOf(ctx context.Context, c *Client) (int64, error) { return c.Latch("a").Count(ctx) }

// faulty returns a Client behind a proxy, which has the script loaded, and one without it.
func (ch change) faulty(t *testing.T, addr string) (c, direct *Client, p *proxy) {
	t.Helper()
	p = env.StartProxy(t, addr)
	c = newLocks(t, p.Addr)
	c.exec.maxInFlight = maxQueued // a repeated call has another command in flight
	direct = newLocks(t, addr)
	_, _ = ch.do(soon(t), c, "warm")
	ch.ready(t, direct)
	return c, direct, p
}

func (ch change) counted(t *testing.T, c *Client) {
	t.Helper()
	eventually(t, "executed once", func() bool {
		n, err := ch.count(soon(t), c)
		return err == nil && n == ch.want
	})
}

// Every change is executed once, and its reply is that of the first execution.
func TestRepliesOfChangesLost(t *testing.T) {
	each(t, changes, startServer, func(t *testing.T, addr string, ch change) {
		c, direct, p := ch.faulty(t, addr)
		p.Inject(dropReply, ch.script.sha, 2)
		reply := env.Must(ch.do(soon(t), c, "a"))(t)
		require.Equal(t, 2, p.Broken())
		require.Equal(t, ch.reply, reply)
		ch.counted(t, direct)
	})
}

// The caller's context ends while the server is silent. The change is executed once.
func TestCancelledChangesReturnAtOnce(t *testing.T) {
	each(t, changes, startServer, func(t *testing.T, addr string, ch change) {
		c, direct, p := ch.faulty(t, addr)
		p.Inject(muteReply, anyCmd, always)
		err := cancelled(t, func(ctx context.Context) error { return errorOf(ch.do(ctx, c, "a")) })
		require.ErrorIs(t, err, ErrUncertain)
		err = cancelled(t, func(ctx context.Context) error { return errorOf(ch.count(ctx, c)) })
		require.NotErrorIs(t, err, ErrUncertain)

		p.Heal()
		ch.counted(t, direct)
	})
}

// The caller leaves while its change is still queued behind another command: the change is dropped, unless others depend on
// it.
func TestQueuedChangesOfCallersThatLeave(t *testing.T) {
	each(t, changes, startServer, func(t *testing.T, addr string, ch change) {
		c, direct, p := ch.faulty(t, addr)
		c.exec.maxInFlight = 1
		before := env.Must(ch.count(soon(t), direct))(t)
		p.Inject(muteReply, anyCmd, always)
		first := c.exec.submit(callOf(echo, "x"))
		eventually(t, "sent", func() bool { return isSent(first, c.exec) })

		err := cancelled(t, func(ctx context.Context) error { return errorOf(ch.do(ctx, c, "a")) })
		require.Equal(t, ch.detached, errors.Is(err, ErrUncertain), err)
		p.Heal()
		if ch.detached {
			ch.counted(t, direct)
			return
		}
		var after int64
		eventually(t, "what was queued before is sent", func() (ok bool) {
			after, err = ch.count(soon(t), c)
			return err == nil
		})
		require.Equal(t, before, after, "executed although its caller has left")
	})
}

// The caller leaves between two tries of a change: it is tried no more, unless others depend on it.
func TestTriesEndWhenCallersLeave(t *testing.T) {
	each(t, changes, startServer, func(t *testing.T, addr string, ch change) {
		c, _, p := ch.faulty(t, addr)
		p.Inject(refuse, ch.script.sha, always)
		err := cancelled(t, func(ctx context.Context) error { return errorOf(ch.do(ctx, c, "a")) })
		require.ErrorIs(t, err, ErrUncertain)
		if ch.detached {
			tries := p.Broken()
			eventually(t, "tried again", func() bool { return p.Broken() > tries })
			return
		}
		allAnswered(t, c)
		tries := p.Broken()

		// Ten pauses of a change that continues take longer than the longest pause of this one would.
		q := env.StartProxy(t, addr)
		q.Inject(refuse, latchDownScript.sha, always)
		gone, cancel := context.WithCancel(soon(t))
		cancel()
		require.ErrorIs(t, newLocks(t, q.Addr).Latch("other").CountDown(gone), ErrUncertain)
		eventually(t, "tried again", func() bool { return q.Broken() > 10 })
		require.Equal(t, tries, p.Broken(), "tried again although its caller has left")
	})
}

// A ctx that has ended before does not stop a change on which others depend, but every other change.
func TestChangesAfterContextEnds(t *testing.T) {
	each(t, changes, startServer, func(t *testing.T, addr string, ch change) {
		c := newLocks(t, addr)
		ch.ready(t, c)
		before := env.Must(ch.count(soon(t), c))(t)
		ctx, cancel := context.WithCancel(soon(t))
		cancel()

		_, err := ch.do(ctx, c, "a")
		if ch.detached {
			require.True(t, err == nil || errors.Is(err, ErrUncertain), err)
			ch.counted(t, c)
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrUncertain)
		n := env.Must(ch.count(soon(t), c))(t)
		require.Equal(t, before, n)
	})
}

// After the caller has returned, the client retries even an error that would be final for a waiting caller.
func TestDetachedReleaseRetriesAfterErrors(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	rdb := newClient(t, addr)
	c := newLocks(t, addr)
	takeOneOfThree(t, c)
	key, aside := countKey(semaphoreKind, "a"), "aside"
	require.NoError(t, rdb.Rename(soon(t), key, aside).Err())
	require.NoError(t, rdb.Set(soon(t), key, "not a semaphore", 0).Err())
	err := c.Semaphore("a").Release(soon(t), 1)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, ErrUncertain)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, c.Semaphore("a").Release(ctx, 1), ErrUncertain)
	require.NoError(t, rdb.Rename(soon(t), aside, key).Err())
	eventually(t, "back", func() bool {
		n, err := available(soon(t), c)
		return err == nil && n == 3
	})
}

func TestCloseEndsRequests(t *testing.T) {
	t.Parallel()
	p := env.StartProxy(t, startServer(t))
	var seen recorder
	c := env.Must(New(newClient(t, p.Addr), WithObserver(seen.observe)))(t)
	set(t, &c.Semaphore("a").pool, 3)

	p.Inject(muteReply, anyCmd, always)
	done := make(chan error)
	go func() { done <- c.Semaphore("a").Release(context.Background(), 1) }()
	eventually(t, "sent", func() bool { return p.Broken() > 0 })

	require.NoError(t, c.Close())
	err := <-done
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, []EventKind{EventUncertain}, seen.kinds())
	require.ErrorIs(t, c.Semaphore("a").Release(context.Background(), 1), ErrClosed)
	env.Fails(c.Semaphore("a").Available(context.Background()))(t, ErrClosed)
	require.ErrorIs(t, c.Latch("a").Wait(context.Background()), ErrClosed)
}

func TestNameIsRequired(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	c := newLocks(t, "127.0.0.1:1")
	for _, k := range waitKinds {
		_, err := k.lock(c, "").TryLock(ctx)
		require.ErrorContains(t, err, "name", k)
	}
	for _, ch := range changes {
		_, err := ch.do(ctx, c, "")
		require.ErrorContains(t, err, "name", ch)
	}
	_, err := c.Semaphore("").Available(ctx)
	require.ErrorContains(t, err, "name")
}

func TestLatch(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	rdb := newClient(t, addr)
	l, other := newLocks(t, addr).Latch("a"), newLocks(t, addr).Latch("a")
	require.NoError(t, l.Wait(ctx), "it was never set")
	requireCount(t, l, 0)
	require.NoError(t, l.CountDown(ctx))
	requireCount(t, l, 0)

	for range 2 { // a latch at zero can be set again
		setCount(t, l, 2)
		for left := range int64(2) {
			again := env.Must(other.TrySetCount(ctx, 5))(t)
			require.False(t, again)
			require.NoError(t, other.CountDown(ctx))
			requireCount(t, l, 1-left)
		}
		require.Zero(t, rdb.Exists(ctx, countKey(latchKind, "a")).Val())
		require.NoError(t, l.CountDown(ctx))
		requireCount(t, l, 0)
		require.NoError(t, l.Wait(ctx), "the latch is at zero")
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
	join := func() *claim {
		cl := latches.claim(c, "a", unleased)
		requireIn(t, cl, false)
		requireIn(t, cl, false)
		stay(t, rdb, latchKind.name, "a")
		return cl
	}

	setCount(t, l, 2)
	var line []*claim
	var ids []string
	for range 40 {
		cl := join()
		line = append(line, cl)
		ids = append(ids, cl.id)
	}
	require.NoError(t, l.CountDown(ctx))
	require.Empty(t, w.received())
	require.NoError(t, l.CountDown(ctx))
	require.Equal(t, ids, w.received())
	setCount(t, l, 1)
	late := join()

	for _, cl := range line {
		requireIn(t, cl, true)
		stay(t, rdb, latchKind.name, "a")
	}
	require.NoError(t, l.CountDown(ctx))
	require.Equal(t, []string{late.id}, w.received())
	requireIn(t, late, true)
	nothingLeft(t, rdb, c.hub.channel) // the test's own subscription
}
