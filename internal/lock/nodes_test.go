package lock

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func startNodes(t *testing.T, n int) (nodes []*testenv.Redis, addrs []string) {
	t.Helper()
	for range n {
		s := testenv.StartRedis(t)
		nodes, addrs = append(nodes, s), append(addrs, s.Addr)
	}
	return nodes, addrs
}

// newMortalClient returns a client of a server, and a function that kills the server. The port of a dead server is
// free, and within the time of a test the server of another test may take it: the lock would then find it alive. So the
// client refuses to connect after the kill, as an unused port does.
func newMortalClient(t *testing.T, server *testenv.Redis) (rdb *redis.Client, kill func()) {
	t.Helper()
	var dead deadServer
	rdb = newClient(t, server.Addr)
	rdb.AddHook(&dead)
	return rdb, func() {
		dead.Store(true)
		server.Kill()
	}
}

// deadServer is a hook that refuses connections while it is true.
type deadServer struct{ atomic.Bool }

func (d *deadServer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if d.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return next(ctx, network, addr)
	}
}
func (d *deadServer) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (d *deadServer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// newMortalLock is newLock with a function per node that kills it for good.
func newMortalLock(t *testing.T, name string, nodes []*testenv.Redis, opts ...RedLockOption) (l Locker, kill []func()) {
	t.Helper()
	var clients []redis.UniversalClient
	for _, node := range nodes {
		rdb, k := newMortalClient(t, node)
		clients, kill = append(clients, rdb), append(kill, k)
	}
	all, err := NewRedLocks(clients, append([]RedLockOption{WithNodeTimeout(5 * time.Second)}, opts...)...)
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

	h, err := l.TryLock(ctx)
	require.NoError(t, err)
	first := h.ValidUntil()
	_, err = l.TryLock(ctx)
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
	h, err := l.TryLock(ctx)
	require.NoError(t, err)
	kill[0]()
	kill[1]()
	require.ErrorIs(t, h.Release(ctx), ErrUncertain)
	keyGone(t, addrs[2], "a")

	_, err = l.TryLock(ctx)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotAcquired)
	require.ErrorContains(t, err, "node 0")
	require.ErrorContains(t, err, "node 1")
	keyGone(t, addrs[2], "a")
}

// A node that lost its data is outvoted; a second one ends the hold.
func TestThreeNodesLosingData(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	ctx := context.Background()
	_, addrs := startNodes(t, 3)
	l := newLock(t, "a", addrs, WithWatchdogLease(6*time.Second))
	h, err := l.TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, newClient(t, addrs[0]).FlushAll(ctx).Err())
	first := h.ValidUntil()
	eventually(t, "renewed by two", func() bool { return h.ValidUntil().After(first) })
	require.NoError(t, h.Context().Err())

	require.NoError(t, newClient(t, addrs[1]).FlushAll(ctx).Err())
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	keyGone(t, addrs[2], "a")
}

// Each contender has one node of two: both fail, and leave nothing behind.
func TestSplitVote(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, addrs := startNodes(t, 2)
	other := newLock(t, "a", addrs[:1])
	h, err := other.TryLock(ctx)
	require.NoError(t, err)
	_, err = newLock(t, "a", addrs).TryLock(ctx)
	require.ErrorIs(t, err, ErrNotAcquired)
	assert.Zero(t, newClient(t, addrs[1]).DBSize(ctx).Val())
	require.NoError(t, h.Release(ctx))
}

// A release that reached one node at the first attempt and the others at the second is one release.
func TestReleaseInParts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, addrs := startNodes(t, 3)
	first, second := startProxy(t, addrs[0]), startProxy(t, addrs[1])
	l := newLock(t, "a", []string{first.Addr, second.Addr, addrs[2]})
	require.NoError(t, TryDo(ctx, l, func(context.Context) error { return nil }))
	h, err := l.TryLock(ctx)
	require.NoError(t, err)
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
