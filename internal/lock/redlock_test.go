package lock

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

func TestCommandsOfACycle(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, startServer(t))
	l := env.Must(NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(patience)))(t)
	require.NoError(t, TryDo(soon(t), l, nothing)) // loads the script

	seen := tripsOf(rdb)
	require.NoError(t, TryDo(soon(t), l, func(ctx context.Context) error {
		_, err := l.TryLock(ctx)
		assert.ErrorIs(t, err, ErrNotAcquired)
		return nil
	}))
	assert.Equal(t, [][]string{{"set"}, {"set"}, {"evalsha"}}, seen.all)
}

// newMortalLock is newLock with a function per node that kills it for good.
func newMortalLock(t *testing.T, name string, nodes int, opts ...RedLockOption) (l Locker, addrs []string, kill []func()) {
	t.Helper()
	var clients []redis.UniversalClient
	for range nodes {
		node := env.StartRedis(t)
		rdb, k := newMortalClient(t, node)
		clients = append(clients, rdb)
		addrs = append(addrs, node.Addr)
		kill = append(kill, k)
	}
	all := env.Must(NewRedLocks(clients, append([]RedLockOption{WithNodeTimeout(patience)}, opts...)...))(t)
	return all.Lock(name), addrs, kill
}

func TestThreeNodesOneDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var seen recorder
	l, addrs, kill := newMortalLock(t, "a", 3, WithWatchdogLease(6*time.Second), WithRedLockObserver(seen.observe))
	kill[2]()

	h := env.Must(l.TryLock(ctx))(t)
	first := h.ValidUntil()
	env.Fails(l.TryLock(ctx))(t, ErrNotAcquired, "two of three nodes agree")
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
			assert.NoError(t, Do(wait, l, nothing))
		})
	}
	wg.Wait()
}

func TestThreeNodesTwoDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l, addrs, kill := newMortalLock(t, "a", 3)
	h := env.Must(l.TryLock(ctx))(t)
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

// A node without the key is outvoted and gets it at the next renewal, whether it lost its data or another holder had it
// at first; the key of another holder stays. The release removes all of them.
// Source: go-redsync/redsync#186, go-redsync/redsync#147.
func TestBareQuorumIsCompleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	first, third := newClient(t, addrs[0]), newClient(t, addrs[2])
	require.NoError(t, third.Set(ctx, RedLockKey("a"), "another", 0).Err())
	h := env.Must(newLock(t, "a", addrs, WithWatchdogLease(6*time.Second)).TryLock(ctx))(t)

	began := h.ValidUntil()
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(began) })
	require.Equal(t, "another", third.Get(ctx, RedLockKey("a")).Val(), "the key of another holder stays")
	require.NoError(t, third.Del(ctx, RedLockKey("a")).Err())
	eventually(t, "the node has the key", func() bool { return third.Exists(ctx, RedLockKey("a")).Val() == 1 })
	require.NoError(t, first.FlushAll(ctx).Err())
	env.Fails(newLock(t, "a", addrs).TryLock(ctx))(t, ErrNotAcquired)
	eventually(t, "it has the key again", func() bool { return first.Exists(ctx, RedLockKey("a")).Val() == 1 })

	release(t, h)
	for _, addr := range addrs {
		keyGone(t, addr, "a")
	}
}

// Two nodes of three that lose their data before the next renewal end the hold.
func TestThreeNodesTwoLoseData(t *testing.T) {
	env.Full(t)
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	h := env.Must(newLock(t, "a", addrs, WithWatchdogLease(6*time.Second)).TryLock(ctx))(t)
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

// Each contender has one node of two: both fail, and leave nothing behind.
func TestSplitVote(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 2)
	h := env.Must(newLock(t, "a", addrs[:1]).TryLock(ctx))(t)
	env.Fails(newLock(t, "a", addrs).TryLock(ctx))(t, ErrNotAcquired)
	assert.Zero(t, newClient(t, addrs[1]).DBSize(ctx).Val())
	require.NoError(t, h.Release(ctx))
}

// A release that reached one node at the first attempt and the others at the second is one release.
func TestReleaseInParts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	first, second := env.StartProxy(t, addrs[0]), env.StartProxy(t, addrs[1])
	l := newLock(t, "a", []string{first.Addr, second.Addr, addrs[2]})
	require.NoError(t, TryDo(ctx, l, nothing))
	h := env.Must(l.TryLock(ctx))(t)
	first.Inject(refuse, scriptCmd, 1)
	second.Inject(dropReply, scriptCmd, 1)
	require.NoError(t, h.Release(ctx))
	for _, addr := range addrs {
		assert.Zero(t, newClient(t, addr).DBSize(ctx).Val())
	}
}

// The node timeout holds for clients with their default timeouts and retries. After it the node gets only PINGs, and no
// holder waits for it, until it answers again. A node that answers late is treated in the same way.
func TestSlowNodeIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name        string
		begin, heal func(server *env.Redis, link *proxy) error
	}{
		{
			name:  "hangs",
			begin: func(server *env.Redis, _ *proxy) error { return server.Pause() },
			heal:  func(server *env.Redis, _ *proxy) error { return server.Resume() },
		}, {
			name:  "slow",
			begin: func(_ *env.Redis, link *proxy) error { link.Delay(time.Second); return nil },
			heal:  func(_ *env.Redis, link *proxy) error { link.Delay(0); return nil },
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			last := env.StartRedis(t)
			link := env.StartProxy(t, last.Addr)
			var clients []redis.UniversalClient
			for _, addr := range append(startServers(t, 2), link.Addr) {
				rdb := redis.NewClient(&redis.Options{Addr: addr}) // read timeout 5 s, 3 retries
				defer func() { _ = rdb.Close() }()
				clients = append(clients, rdb)
			}
			l := env.Must(NewRedLock("a", clients, WithNodeTimeout(3*time.Second)))(t)
			require.NoError(t, TryDo(ctx, l, nothing))

			require.NoError(t, fault.begin(last, link))
			for range 20 {
				require.NoError(t, TryDo(ctx, l, nothing))
			}
			require.NoError(t, fault.heal(last, link))
			rdb := newClient(t, last.Addr)
			require.LessOrEqual(t, calls(t, rdb, "set"), 2, "one cycle before the fault, and one in it")

			eventually(t, "the node is asked again", func() bool {
				before := calls(t, rdb, "set")
				require.NoError(t, TryDo(ctx, l, nothing))
				return calls(t, rdb, "set") > before
			})
			keyGone(t, last.Addr, "a")
		})
	}
}

// Slow nodes are not left out if the others are no majority.
func TestSlowMajority(t *testing.T) {
	t.Parallel()
	addrs := startServers(t, 3)
	for i := range addrs[:2] {
		link := env.StartProxy(t, addrs[i])
		link.Delay(200 * time.Millisecond)
		addrs[i] = link.Addr
	}
	var clients []redis.UniversalClient
	for _, addr := range addrs {
		clients = append(clients, newClient(t, addr))
	}
	l := env.Must(NewRedLock("a", clients, WithNodeTimeout(time.Second)))(t)
	for range 3 {
		require.NoError(t, TryDo(context.Background(), l, nothing))
	}
}

// A dead node and a slow one leave no quorum of the quick ones, so the slow one is asked.
func TestSlowNodeBesideDeadOne(t *testing.T) {
	t.Parallel()
	link := env.StartProxy(t, startServer(t))
	link.Delay(200 * time.Millisecond)
	dead, kill := newMortalClient(t, env.StartRedis(t))
	kill()
	clients := []redis.UniversalClient{newClient(t, link.Addr), dead, newClient(t, startServer(t))}
	l := env.Must(NewRedLock("a", clients, WithNodeTimeout(time.Second)))(t)
	for range 3 {
		require.NoError(t, TryDo(context.Background(), l, nothing))
	}
}
