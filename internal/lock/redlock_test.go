package lock

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestCommandsOfACycle(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	rdb := newClient(t, addr)
	l, err := NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
	require.NoError(t, err)
	nothing := func(context.Context) error { return nil }
	require.NoError(t, TryDo(ctx, l, nothing)) // loads the script

	var sent counter
	rdb.AddHook(&sent)
	require.NoError(t, TryDo(ctx, l, nothing))
	assert.Equal(t, []string{"set", "evalsha"}, sent.names)

	h := must(t)(l.TryLock(ctx))
	sent.names = nil
	_, err = l.TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	assert.Equal(t, []string{"set"}, sent.names)
	require.NoError(t, h.Release(ctx))
}

func TestNewRedLockValidates(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, "127.0.0.1:1")
	one := []redis.UniversalClient{rdb}

	for what, test := range map[string]struct {
		name  string
		nodes []redis.UniversalClient
		opts  []RedLockOption
		want  string
	}{
		"no name":        {"", one, nil, "name"},
		"no nodes":       {"a", nil, nil, "at least one node"},
		"nil node":       {"a", []redis.UniversalClient{rdb, nil}, nil, "node 1 is nil"},
		"nil pointer":    {"a", []redis.UniversalClient{(*redis.Client)(nil)}, nil, "node 0 is nil"},
		"no lease":       {"a", one, []RedLockOption{WithWatchdogLease(0)}, "lease"},
		"short lease":    {"a", one, []RedLockOption{WithWatchdogLease(MinLease - 1)}, "lease"},
		"long lease":     {"a", one, []RedLockOption{WithWatchdogLease(MaxLease + time.Second)}, "lease"},
		"short timeout":  {"a", one, []RedLockOption{WithNodeTimeout(0)}, "node timeout"},
		"eternal timout": {"a", one, []RedLockOption{WithNodeTimeout(time.Hour)}, "node timeout"},
	} {
		l, err := NewRedLock(test.name, test.nodes, test.opts...)
		require.ErrorContains(t, err, test.want, what)
		require.Nil(t, l, what)
	}
	l, err := NewRedLock("a", one)
	require.NoError(t, err)
	_, err = l.TryLock(context.Background(), WithLease(-time.Second))
	require.ErrorContains(t, err, "lease")
	var op *net.OpError
	require.NotErrorAs(t, err, &op, "an invalid lease is refused before a command is sent")
}

// One cycle through each type of go-redis client.
func TestRedLockOnEveryClientType(t *testing.T) {
	t.Parallel()
	addr := testenv.StartMiniredis(t).Addr()
	for name, rdb := range map[string]redis.UniversalClient{
		"client":  redis.NewClient(&redis.Options{Addr: addr}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}),
		"ring":    redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}}),
	} {
		l, err := NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
		require.NoError(t, err, name)
		require.NoError(t, TryDo(context.Background(), l, func(ctx context.Context) error {
			_, err := l.TryLock(ctx)
			assert.ErrorIs(t, err, ErrNotAcquired, name)
			return nil
		}), name)
		require.NoError(t, rdb.Close())
	}
}

func startServers(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		addrs = append(addrs, startServer(t))
	}
	return addrs
}

// startNodes is startServers for a test that stops its servers.
func startNodes(t *testing.T, n int) (nodes []*testenv.Redis, addrs []string) {
	t.Helper()
	for range n {
		s := testenv.StartRedis(t)
		nodes, addrs = append(nodes, s), append(addrs, s.Addr)
	}
	return nodes, addrs
}

// newMortalLock is newLock with a function per node that kills it for good.
func newMortalLock(t *testing.T, name string, nodes []*testenv.Redis, opts ...RedLockOption) (l Locker, kill []func()) {
	t.Helper()
	var clients []redis.UniversalClient
	for _, node := range nodes {
		rdb, k := newMortalClient(t, node)
		clients, kill = append(clients, rdb), append(kill, k)
	}
	all, err := NewRedLocks(clients, append([]RedLockOption{WithNodeTimeout(patience)}, opts...)...)
	require.NoError(t, err)
	return all.Lock(name), kill
}

func TestThreeNodesOneDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nodes, addrs := startNodes(t, 3)
	var seen recorder
	l, kill := newMortalLock(t, "a", nodes, WithWatchdogLease(6*time.Second), WithRedLockObserver(seen.observe))
	kill[2]()

	h := must(t)(l.TryLock(ctx))
	first := h.ValidUntil()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired, "two of three nodes agree")
	eventually(t, "renewed by two", func() bool { return h.ValidUntil().After(first) })
	require.NoError(t, h.Release(ctx))
	keyGone(t, addrs[0], "a")
	keyGone(t, addrs[1], "a")
	assert.Zero(t, seen.count(EventUncertain))

	// Contenders that acquire one live node each retry until one of them has both.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			wait, cancel := context.WithTimeout(ctx, longTimeout)
			defer cancel()
			assert.NoError(t, Do(wait, l, func(context.Context) error { return nil }))
		})
	}
	wg.Wait()
}

func TestThreeNodesTwoDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nodes, addrs := startNodes(t, 3)
	l, kill := newMortalLock(t, "a", nodes, WithNodeTimeout(MaxNodeTimeout)) // tolerates a busy machine
	h := must(t)(l.TryLock(ctx))
	kill[0]()
	kill[1]()
	require.ErrorIs(t, h.Release(ctx), ErrUncertain)
	keyGone(t, addrs[2], "a")

	_, err := l.TryLock(ctx)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotAcquired, "a dead server is not a taken lock")
	require.NotErrorIs(t, err, ErrUncertain, "a refused connection leaves nothing behind")
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.ErrorContains(t, err, "node 0")
	require.ErrorContains(t, err, "node 1")
	keyGone(t, addrs[2], "a")
}

// A node that lost its data is outvoted and gets the key again. Two that lose it before the next renewal end the hold.
func TestThreeNodesLosingData(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	l := newLock(t, "a", addrs, WithWatchdogLease(6*time.Second))
	h := must(t)(l.TryLock(ctx))
	require.NoError(t, newClient(t, addrs[0]).FlushAll(ctx).Err())
	restored := func(node int) {
		t.Helper()
		eventually(t, "the key is restored", func() bool {
			return newClient(t, addrs[node]).Exists(ctx, RedLockKey("a")).Val() == 1
		})
	}
	restored(0)
	require.NoError(t, newClient(t, addrs[1]).FlushAll(ctx).Err())
	_, err := newLock(t, "a", addrs).TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	restored(1)
	require.NoError(t, h.Context().Err())

	first, second := newClient(t, addrs[0]), newClient(t, addrs[1])
	eventually(t, "both have no key at a renewal", func() bool {
		require.NoError(t, first.FlushAll(ctx).Err())
		require.NoError(t, second.FlushAll(ctx).Err())
		return h.Context().Err() != nil
	})
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	keyGone(t, addrs[2], "a")
}

// TestBareQuorumIsCompleted: a node that another holder had at first gets the key when that one is gone, and the release
// removes it there as well.
func TestBareQuorumIsCompleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	third := newClient(t, addrs[2])
	require.NoError(t, third.Set(ctx, RedLockKey("a"), "another", 0).Err())
	h := must(t)(newLock(t, "a", addrs, WithWatchdogLease(6*time.Second)).TryLock(ctx))

	first := h.ValidUntil()
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
	require.Equal(t, "another", third.Get(ctx, RedLockKey("a")).Val(), "the key of another holder stays")
	require.NoError(t, third.Del(ctx, RedLockKey("a")).Err())
	eventually(t, "the node has the key", func() bool { return third.Exists(ctx, RedLockKey("a")).Val() == 1 })
	require.NoError(t, newClient(t, addrs[1]).FlushAll(ctx).Err())
	_, err := newLock(t, "a", addrs).TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)

	release(t, h)
	for _, addr := range addrs {
		keyGone(t, addr, "a")
	}
}

// Each contender has one node of two: both fail, and leave nothing behind.
func TestSplitVote(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 2)
	other := newLock(t, "a", addrs[:1])
	h := must(t)(other.TryLock(ctx))
	_, err := newLock(t, "a", addrs).TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	assert.Zero(t, newClient(t, addrs[1]).DBSize(ctx).Val())
	require.NoError(t, h.Release(ctx))
}

// A release that reached one node at the first attempt and the others at the second is one release.
func TestReleaseInParts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	first, second := startProxy(t, addrs[0]), startProxy(t, addrs[1])
	l := newLock(t, "a", []string{first.Addr, second.Addr, addrs[2]})
	require.NoError(t, TryDo(ctx, l, func(context.Context) error { return nil }))
	h := must(t)(l.TryLock(ctx))
	first.Inject(refuse, scriptCmd, 1)
	second.Inject(dropReply, scriptCmd, 1)
	require.NoError(t, h.Release(ctx))
	for _, addr := range addrs {
		assert.Zero(t, newClient(t, addr).DBSize(ctx).Val())
	}
}

// The node timeout holds for clients with their default timeouts and retries.
func TestHangingNodeIsBounded(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	ctx := context.Background()
	nodes, addrs := startNodes(t, 3)

	var clients []redis.UniversalClient
	for _, addr := range addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr}) // read timeout 5 s, 3 retries
		defer func() { _ = rdb.Close() }()
		clients = append(clients, rdb)
	}
	l, err := NewRedLock("a", clients, WithNodeTimeout(4*time.Second))
	require.NoError(t, err)
	require.NoError(t, TryDo(ctx, l, func(context.Context) error { return nil }))
	require.NoError(t, nodes[1].Pause())
	began := time.Now()
	require.NoError(t, TryDo(ctx, l, func(context.Context) error { return nil }))
	assert.Less(t, time.Since(began), longTimeout, "the client's own timeouts would take longer")
	require.NoError(t, nodes[1].Resume())
	keyGone(t, addrs[1], "a")
}

// proxied returns a lock behind a proxy. The connection is open and the script is loaded, so that the next requests are
// those of the lock.
func proxied(t *testing.T, addr string, opts ...RedLockOption) (Locker, *proxy) {
	t.Helper()
	p := startProxy(t, addr)
	l := newLock(t, "a", []string{p.Addr}, opts...)
	require.NoError(t, TryDo(context.Background(), l, func(context.Context) error { return nil }))
	return l, p
}

func TestRedLockAcquireReplyLost(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	l, p := proxied(t, addr)
	for _, lock := range bothWays(l) {
		p.Inject(dropReply, setCmd, 1)
		_, err := lock(ctx)
		require.ErrorIs(t, err, io.EOF)
		require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the lock is taken")
		require.NotErrorIs(t, err, ErrUncertain, "the acquire was undone")
		require.Equal(t, 1, p.Broken())
		require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
	}
}

// A client that retries would find its own key and report the lock as taken.
func TestRedLockAcquireReplyLostWithRetryingClient(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	p := startProxy(t, addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr}) // MaxRetries 3, no ContextTimeoutEnabled
	defer func() { _ = rdb.Close() }()
	l, err := NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
	require.NoError(t, err)
	p.Inject(dropReply, setCmd, 1)
	_, err = l.TryLock(ctx)
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())

	h := must(t)(l.TryLock(ctx))
	p.Inject(dropReply, scriptCmd, 1)
	require.NoError(t, h.Release(ctx))
	require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
}

// Neither the acquire nor its undo is answered: the error is ErrUncertain, and the lock is undone later.
func TestRedLockUndoAfterServerRecovers(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	var seen recorder
	l, p := proxied(t, addr, WithNodeTimeout(time.Second), WithRedLockObserver(seen.observe))
	p.Inject(dropReply, setCmd, 1)
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, seen.count(EventFailed))

	p.Inject(muteReply, setCmd, 1)
	h, err := l.TryLock(ctx)
	require.Error(t, err, "%v", h)
	require.NotErrorIs(t, err, ErrUncertain, "the undo succeeded on another connection")

	p.Inject(muteReply, anyCmd, always)
	_, err = l.TryLock(ctx)
	require.ErrorIs(t, err, ErrUncertain)
	require.NotErrorIs(t, err, ErrNotAcquired)
	require.Equal(t, 1, seen.count(EventUncertain))
	p.Heal()
	keyGone(t, addr, "a")
}

func TestRedLockReleaseReplyLost(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	var seen recorder
	l, p := proxied(t, addr, WithRedLockObserver(seen.observe))
	h := must(t)(l.TryLock(ctx))
	p.Inject(dropReply, scriptCmd, 2)
	require.NoError(t, h.Release(ctx), "the first release deleted the key; the repeated one found nothing")
	require.Equal(t, 2, p.Broken())
	require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
	assert.Equal(t, 2, seen.count(EventReleased))
	assert.Zero(t, seen.count(EventLost))
}

func TestRedLockReleaseUnreachable(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	l, p := proxied(t, addr)
	h := must(t)(l.TryLock(ctx))
	p.Inject(refuse, anyCmd, always)
	err := h.Release(ctx)
	require.ErrorIs(t, err, ErrUncertain)
	require.NotErrorIs(t, err, ErrNotHeld)
	requireDone(t, h.Context(), ErrReleased)
	p.Heal()
	require.NoError(t, h.Release(ctx), "a release that failed may be repeated")
	require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
}

// The caller's context ends while the server is silent. The node timeout is far above the bound, so it cannot end
// the call.
func TestRedLockCancelDuringCommandReturnsAtOnce(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	l, p := proxied(t, addr, WithNodeTimeout(MaxNodeTimeout))
	h := must(t)(l.TryLock(context.Background()))

	p.Inject(muteReply, anyCmd, always)
	calls := map[string]func(context.Context) error{
		"extend":  func(ctx context.Context) error { return h.Extend(ctx, time.Minute) },
		"trylock": func(ctx context.Context) error { _, err := l.TryLock(ctx); return err },
		"lock":    func(ctx context.Context) error { _, err := l.Lock(ctx); return err },
		"release": h.Release,
	}

	for _, name := range []string{"trylock", "lock", "extend", "release"} {
		err := cancelled(t, calls[name])
		require.ErrorIs(t, err, ErrUncertain, name)
		if name == "lock" || name == "trylock" {
			require.ErrorIs(t, err, ErrNotAcquired, name)
		}
	}

	p.Heal()
	keyGone(t, addr, "a")
}

// An acquire that is answered after its caller has returned is released.
func TestRedLockCancelledAcquireIsReleased(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := newLock(t, "a", []string{server.Addr}, WithNodeTimeout(MaxNodeTimeout))
	require.NoError(t, TryDo(context.Background(), l, func(context.Context) error { return nil }))

	require.NoError(t, server.Pause())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, server.Resume())
	eventually(t, "the lock is free", func() bool {
		h, err := l.TryLock(context.Background())
		if err == nil {
			require.NoError(t, h.Release(context.Background()))
		}
		return err == nil
	})
}

func TestRedLockContextEndsBeforeServerFreesLock(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	const lease = 12 * time.Second // leaves 0.7 s from the end of the hold to that of the key
	var seen recorder
	l, p := proxied(t, addr, WithWatchdogLease(lease), WithRedLockObserver(seen.observe))
	direct := newClient(t, addr)
	began := time.Now()
	h := must(t)(l.TryLock(ctx))
	require.WithinRange(t, h.ValidUntil(), began, time.Now().Add(lease-drift(lease)))
	p.Inject(refuse, scriptCmd, always) // so no renewal is executed
	requireDone(t, h.Context(), ErrLost)
	assert.EqualValues(t, 1, direct.Exists(ctx, "redlock:{a}").Val(), "the server freed the lock first")
	assert.Greater(t, seen.count(EventRenewFailed), 1, "a failed renewal is repeated")
	eventually(t, "observed", func() bool { return seen.count(EventLost) == 1 })

	p.Heal()
	require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	require.ErrorIs(t, h.Release(ctx), nil)
	keyGone(t, addr, "a")
}

// A server that hangs, rather than refuses, does not delay the end of a hold.
func TestRedLockContextEndsWhileServerHangs(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	const lease = 2 * time.Second
	l := newLock(t, "a", []string{server.Addr}, WithWatchdogLease(lease), WithNodeTimeout(MaxNodeTimeout))
	h := must(t)(l.TryLock(context.Background()))
	require.NoError(t, server.Pause())
	requireDone(t, h.Context(), ErrLost)
	require.NoError(t, server.Resume())
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
	keyGone(t, server.Addr, "a")
}

func TestRedLockFailedRenewalsAreRetried(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := context.Background()
	var seen recorder
	l, p := proxied(t, addr, WithWatchdogLease(6*time.Second), WithRedLockObserver(seen.observe))
	h := must(t)(l.TryLock(ctx))
	first := h.ValidUntil()

	p.Inject(dropReply, anyCmd, always)
	eventually(t, "two renewals failed", func() bool { return seen.count(EventRenewFailed) >= 2 })
	p.Heal()
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
	require.NoError(t, h.Context().Err())
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	require.NoError(t, h.Release(ctx))
	assert.Zero(t, seen.count(EventLost))
}
