package lock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

// What needs no Hold is tested in package zk.

// newZooKeeper connects with a long request timeout, so that a busy machine does not fail a test; opts can shorten it.
func newZooKeeper(t testing.TB, servers []string, opts ...ZooKeeperOption) *ZooKeeper {
	t.Helper()
	z := env.Must(NewZooKeeper(servers, append([]ZooKeeperOption{WithRequestTimeout(MaxNodeTimeout)}, opts...)...))(t)
	t.Cleanup(func() { assert.NoError(t, z.Close()) })
	return z
}

// ownRoot keeps the locks of a test to itself on the shared ensemble.
func ownRoot(t testing.TB) ZooKeeperOption {
	return WithRoot("/" + strings.ReplaceAll(t.Name(), "/", "-"))
}

// library returns a connection of the library alone.
func library(t testing.TB, servers ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(servers, DefaultSessionTimeout, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { //nolint:revive // until it is closed
		}
	})
	return conn
}

// children returns the paths of the nodes of a lock's attempts.
func children(t testing.TB, conn *zk.Conn, z *ZooKeeper, name string) (paths []string) {
	t.Helper()
	env.Must(conn.Sync("/"))(t)
	names, _, err := conn.Children(z.client.Path(name))
	if err != zk.ErrNoNode { //nolint:errorlint // returned as it is
		require.NoError(t, err)
	}
	for _, child := range names {
		paths = append(paths, z.client.Path(name)+"/"+child)
	}
	return paths
}

func queuedNodes(t testing.TB, z *ZooKeeper, name string, n int) {
	t.Helper()
	conn := library(t, z.cfg.Servers...)
	eventually(t, "queued", func() bool { return len(children(t, conn, z, name)) == n })
}

// proxiedZooKeeper returns a ZooKeeper whose only server is behind a proxy, another one without the proxy, and the
// proxy. They share the root.
func proxiedZooKeeper(t *testing.T, opts ...ZooKeeperOption) (z, direct *ZooKeeper, p *servers.Proxy) {
	t.Helper()
	servers := env.SharedZooKeeper(t).Servers()
	p = env.StartProxy(t, servers[0])
	z = newZooKeeper(t, []string{p.Addr}, slices.Concat([]ZooKeeperOption{ownRoot(t)}, opts)...)
	require.NoError(t, Do(soon(t), z.Mutex("a"), nothing))
	return z, newZooKeeper(t, servers, ownRoot(t), WithSessionTimeout(MaxSessionTimeout)), p
}

// The caller's context ends while the server is silent. What the calls leave behind is removed when it answers again.
func TestCancelDuringZooKeeperRequestReturnsAtOnce(t *testing.T) {
	t.Parallel()
	z, direct, p := proxiedZooKeeper(t, WithSessionTimeout(MaxSessionTimeout))
	h := env.Must(z.Mutex("a").TryLock(soon(t)))(t)

	p.Inject(servers.MuteReply, anyCmd, servers.Always)
	for _, lock := range bothWays(z.Mutex("b")) {
		requireFails(t, cancelled(t, func(ctx context.Context) error { return env.Err(lock(ctx)) }), ErrUncertain, ErrNotAcquired)
	}
	require.ErrorIs(t, cancelled(t, func(ctx context.Context) error { return h.Extend(ctx, time.Minute) }), ErrUncertain)
	require.ErrorIs(t, cancelled(t, h.Release), ErrUncertain)

	p.Heal()
	queuedNodes(t, direct, "a", 0)
	queuedNodes(t, direct, "b", 0)
}

// The connection of a holder breaks for longer than its session lives. Its context ends before the server gives the lock
// to the next holder. Afterwards it gets a new session by itself, and so does its waiter.
func TestZooKeeperSessionExpires(t *testing.T) {
	env.Full(t)
	t.Parallel()
	var seen recorder
	z, direct, p := proxiedZooKeeper(t, WithSessionTimeout(3*time.Second), WithZooKeeperObserver(seen.observe))
	h := env.Must(persistent{z.Mutex("a")}.Lock(soon(t)))(t)
	fixed := env.Must(persistent{z.Mutex("fixed")}.Lock(soon(t), WithLease(time.Hour)))(t)
	other := env.Must(direct.Mutex("b").Lock(soon(t)))(t)
	waits := background(soon(t), persistent{z.Mutex("b")})
	queuedNodes(t, direct, "b", 2)

	p.Inject(servers.Refuse, anyCmd, servers.Always)
	p.Cut()
	next := env.Must(direct.Mutex("a").Lock(soon(t)))(t)
	require.ErrorIs(t, h.Context().Err(), context.Canceled, "two holders at once")
	requireDone(t, h.Context(), ErrLost)
	requireDone(t, fixed.Context(), ErrLost)
	require.Greater(t, next.Token(), h.Token())
	queuedNodes(t, direct, "b", 1)

	p.Heal()
	queuedNodes(t, direct, "b", 2)
	release(t, other)
	waited := arrived(t, waits)
	require.Greater(t, waited.Token(), next.Token())
	release(t, waited)
	require.ErrorIs(t, h.Release(soon(t)), ErrNotHeld)
	require.NoError(t, next.Context().Err())
	release(t, next)
	require.Equal(t, 2, seen.count(EventLost))
}

func sessionOf(t testing.TB, z *ZooKeeper, name string) int64 {
	t.Helper()
	conn := library(t, z.cfg.Servers...)
	_, stat, err := conn.Exists(env.Only(t, children(t, conn, z, name)))
	require.NoError(t, err)
	return stat.EphemeralOwner
}

// The connection breaks for less than a session lives, but for longer than a hold relies on it. The hold is lost and the
// session continues: it must not keep the lock.
func TestSuspendedZooKeeperHoldIsFreed(t *testing.T) {
	env.Full(t)
	t.Parallel()
	z, direct, p := proxiedZooKeeper(t, WithSessionTimeout(6*time.Second))
	h := env.Must(z.Mutex("a").Lock(soon(t)))(t)
	session := sessionOf(t, direct, "a")

	p.Inject(servers.Refuse, anyCmd, servers.Always)
	p.Cut()
	requireDone(t, h.Context(), ErrLost)
	require.Equal(t, session, sessionOf(t, direct, "a"), "the context ended too late")

	p.Heal()
	queuedNodes(t, direct, "a", 0) // without a release
	require.NoError(t, z.Ping(soon(t)))
	require.NoError(t, TryDo(soon(t), z.Mutex("a"), func(context.Context) error {
		require.Equal(t, session, sessionOf(t, direct, "a"), "the test was too slow")
		return nil
	}))
}

func TestZooKeeperCloseFreesItsLocks(t *testing.T) {
	t.Parallel()
	servers := env.SharedZooKeeper(t).Servers()
	lost := make(chan error, 1)
	z := newZooKeeper(t, servers, ownRoot(t), WithZooKeeperObserver(func(e Event) {
		if e.Kind == EventLost {
			lost <- e.Err
		}
	}))
	other := newZooKeeper(t, servers, ownRoot(t))
	h := env.Must(z.Mutex("a").Lock(soon(t)))(t)
	waits := background(soon(t), z.Mutex("a"))
	queuedNodes(t, other, "a", 2)
	require.NoError(t, z.Close())
	require.NoError(t, z.Close(), "the second call does nothing")
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, <-lost, ErrClosed)
	require.ErrorIs(t, (<-waits).err, ErrClosed)
	env.Fails(z.Mutex("a").TryLock(soon(t)))(t, ErrClosed)
	require.NoError(t, TryDo(soon(t), other.Mutex("a"), nothing), "the session has ended with the Close")
}

// A server that has lost its leader still answers reads and pings of its clients. Their holds end nevertheless.
func cutOff(t *testing.T, ensemble *servers.ZooKeeper) {
	t.Helper()
	leader := env.Must(ensemble.Leader(t.Context()))(t)
	follower := ensemble.Nodes[0]
	if follower == leader {
		follower = ensemble.Nodes[1]
	}
	witness := library(t, follower.Addr)
	z := newZooKeeper(t, []string{follower.Addr}, WithSessionTimeout(4*time.Second))
	h := env.Must(persistent{z.Mutex("cut off")}.Lock(soon(t)))(t)
	_, _, err := witness.Exists("/")
	require.NoError(t, err)
	require.NoError(t, leader.Pause())

	requireDone(t, h.Context(), ErrLost)
	_, _, err = witness.Exists("/")
	require.NoError(t, err, "the follower has noticed too early for this test")
	require.NoError(t, leader.Resume())
	queuedNodes(t, z, "cut off", 0)
}

// The leader dies while a lock is held and many wait for another one. The hold survives, no two callers are inside at
// once, and tokens grow beyond the election. Then the majority dies: the hold ends, and the lock is free when the
// ensemble is back.
func TestZooKeeperLeaderDies(t *testing.T) {
	t.Parallel()
	ensemble := env.StartZooKeeper(t)
	cutOff(t, ensemble)
	z := newZooKeeper(t, ensemble.Servers(), WithRequestTimeout(DefaultRequestTimeout), WithSessionTimeout(15*time.Second))
	h := env.Must(z.Mutex("held").Lock(soon(t)))(t)

	var inside atomic.Int32
	var done atomic.Bool
	var uses atomic.Int64
	var gap atomic.Int64 // the longest time between two uses
	latest := time.Now()
	var wg sync.WaitGroup
	for range 2 {
		client := newZooKeeper(t, ensemble.Servers())
		for range 3 {
			wg.Go(func() {
				for !done.Load() {
					err := Do(context.Background(), client.Mutex("a"), func(ctx context.Context) error {
						assert.EqualValues(t, 1, inside.Add(1))
						defer inside.Add(-1)
						gap.Store(max(gap.Load(), int64(time.Since(latest))))
						latest = time.Now()
						return ctx.Err()
					})
					if err == nil {
						uses.Add(1)
					}
				}
			})
		}
	}
	eventually(t, "used", func() bool { return uses.Load() > 20 })
	first := env.Must(ensemble.Leader(t.Context()))(t)
	first.Kill()
	env.Must(ensemble.Leader(t.Context()))(t)
	before := uses.Load()
	eventually(t, "used again", func() bool { return uses.Load() > before+20 })
	done.Store(true)
	wg.Wait()
	t.Logf("%d uses; the longest pause was %v", uses.Load(), time.Duration(gap.Load()))
	require.NoError(t, h.Context().Err(), "the hold survives an election")
	env.Fails(newZooKeeper(t, ensemble.Servers()).Mutex("held").TryLock(soon(t)))(t, ErrNotAcquired)

	env.Must(ensemble.Leader(t.Context()))(t).Kill()
	requireDone(t, h.Context(), ErrLost)
	require.Error(t, z.Ping(t.Context()))
	require.NoError(t, first.Restart())
	next := env.Must(newZooKeeper(t, ensemble.Servers()).Mutex("held").Lock(soon(t)))(t)
	require.Greater(t, next.Token(), h.Token())
	release(t, next)
}
