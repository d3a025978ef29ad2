package lock

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
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
)

// newZooKeeper connects with a long request timeout, so that a busy machine does not fail a test; opts can shorten it.
func newZooKeeper(t testing.TB, servers []string, opts ...ZooKeeperOption) *ZooKeeper {
	t.Helper()
	z, err := NewZooKeeper(servers, append([]ZooKeeperOption{WithRequestTimeout(MaxNodeTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, z.Close()) })
	return z
}

// ownRoot keeps the locks of a test to itself on the shared ensemble.
func ownRoot(t testing.TB) ZooKeeperOption {
	return WithRoot("/" + strings.ReplaceAll(t.Name(), "/", "-"))
}

// children returns the names of the nodes of a lock's attempts.
func children(t testing.TB, z *ZooKeeper, name string) []string {
	t.Helper()
	_, err := z.sync(t.Context())
	require.NoError(t, err)
	names, _, err := z.conn.Children(z.parent(name))
	if err != zk.ErrNoNode { //nolint:errorlint // returned as it is
		require.NoError(t, err)
	}
	return names
}

func queuedNodes(t testing.TB, z *ZooKeeper, name string, n int) {
	t.Helper()
	eventually(t, "queued", func() bool { return len(children(t, z, name)) == n })
}

// watches returns the number of nodes that waiters of z watch.
func watches(z *ZooKeeper) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.watches)
}

// proxiedZooKeeper returns a ZooKeeper whose only server is behind a proxy, another one without the proxy, and the
// proxy. They share the root.
func proxiedZooKeeper(t *testing.T, opts ...ZooKeeperOption) (z, direct *ZooKeeper, p *proxy) {
	t.Helper()
	servers := env.SharedZooKeeper(t).Servers()
	p = startProxy(t, servers[0])
	z = newZooKeeper(t, []string{p.Addr}, slices.Concat([]ZooKeeperOption{ownRoot(t)}, opts)...)
	require.NoError(t, Do(soon(t), z.Mutex("a"), nothing))
	return z, newZooKeeper(t, servers, ownRoot(t)), p
}

// Parts of requests as they are on the wire: the operation, and the length and the beginning of the path.
func createOf(z *ZooKeeper, name string) string {
	return wireOf(1, len(z.parent(name)+"/"+z.newNode(name).prefix), z.parent(name)+"/_c_")
}

func deleteOf(z *ZooKeeper, name string) string {
	return wireOf(2, len(z.parent(name)+"/"+z.newNode(name).prefix)+10, z.parent(name)+"/_c_")
}

func wireOf(operation, length int, path string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(operation))
	return string(binary.BigEndian.AppendUint32(head, uint32(length))) + path
}

// The sequence numbers of a lock that was always in use overflow.
func TestPredecessor(t *testing.T) {
	t.Parallel()
	node := func(seq int32) string { return fmt.Sprintf("_c_X%s%010d", nodeSuffix, seq) }
	names := []string{node(math.MaxInt32), node(math.MinInt32 + 1), "foreign", node(math.MinInt32), node(math.MaxInt32 - 1), "x-lock-y"}
	require.Empty(t, predecessor(names, node(math.MaxInt32-1)))
	require.Equal(t, node(math.MaxInt32-1), predecessor(names, node(math.MaxInt32)))
	require.Equal(t, node(math.MaxInt32), predecessor(names, node(math.MinInt32)))
	require.Equal(t, node(math.MinInt32), predecessor(names, node(math.MinInt32+1)))
}

// Waiters acquire in order of arrival, and each watches another node: a release wakes one.
func TestZooKeeperWaitersFormAQueue(t *testing.T) {
	t.Parallel()
	ensemble := env.SharedZooKeeper(t)
	clients := []*ZooKeeper{newZooKeeper(t, ensemble.Servers(), ownRoot(t)), newZooKeeper(t, ensemble.Servers(), ownRoot(t))}
	const waiting = 6
	h := must(t)(clients[0].Mutex("a").Lock(soon(t)))

	var got []<-chan outcome
	for i := range waiting {
		got = append(got, background(soon(t), clients[i%2].Mutex("a")))
		queuedNodes(t, clients[0], "a", i+2)
	}
	watches := map[string]int{}
	eventually(t, "all watch", func() bool {
		clear(watches)
		for _, n := range ensemble.Nodes {
			found, err := n.Watches(t.Context())
			require.NoError(t, err)
			for path, sessions := range found {
				if strings.HasPrefix(path, clients[0].root+"/") {
					watches[path] += sessions
				}
			}
		}
		return len(watches) == waiting
	})

	for path, sessions := range watches {
		require.Equal(t, 1, sessions, path)
	}

	for i, next := range got {
		release(t, h)
		h = arrived(t, next)
		require.NoError(t, h.Context().Err(), "waiter %d", i)
	}

	release(t, h)
	require.Empty(t, children(t, clients[0], "a"))
}

// Waits that are cut short share a watch of the holder's node, which goes with it.
func TestCancelledZooKeeperWaitsLeaveNoWatches(t *testing.T) {
	t.Parallel()
	z := newZooKeeper(t, env.SharedZooKeeper(t).Servers(), ownRoot(t))
	h := must(t)(z.Mutex("a").Lock(soon(t)))

	for range 5 {
		ctx, cancel := context.WithCancel(soon(t))
		got := background(ctx, z.Mutex("a"))
		eventually(t, "watched", func() bool { return watches(z) == 1 && len(children(t, z, "a")) == 2 })
		cancel()
		require.ErrorIs(t, (<-got).err, ErrNotAcquired)
		queuedNodes(t, z, "a", 1)
	}
	require.Equal(t, 1, watches(z))

	release(t, h)
	eventually(t, "no watches", func() bool { return watches(z) == 0 })
}

// The server removes the node of a name that is not used any more, and tokens grow although the sequence begins anew.
func TestZooKeeperRemovesUnusedNames(t *testing.T) {
	t.Parallel()
	z := newZooKeeper(t, env.SharedZooKeeper(t).Servers(), ownRoot(t))
	h := must(t)(z.Mutex("a").Lock(soon(t)))
	release(t, h)
	eventually(t, "the container is gone", func() bool {
		exists, _, err := z.conn.Exists(z.parent("a"))
		require.NoError(t, err)
		return !exists
	})
	next := must(t)(z.Mutex("a").Lock(soon(t)))
	require.Greater(t, next.Token(), h.Token())
	release(t, next)
}

// The node before a waiter's goes while the waiter's connection is down. Other requests may be answered before its watch
// is set again, and the server then be asked for changes since a later time than that of the deletion. It reports it anyway.
// The library reads that time without synchronization: see .ci/race-suppressions.
func TestZooKeeperWatchSurvivesReconnects(t *testing.T) {
	if env.RaceDetector && !strings.Contains(os.Getenv("GORACE"), "suppressions=") {
		t.Skip("needs GORACE with .ci/race-suppressions, as make test sets it")
	}
	t.Parallel()
	servers, long := env.SharedZooKeeper(t).Servers(), WithSessionTimeout(30*time.Second)
	z, direct := newZooKeeper(t, servers, ownRoot(t), long), newZooKeeper(t, servers, ownRoot(t), long)

	var done atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer done.Store(true)

	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				_, _, _ = z.conn.Exists("/") // fails while there is no connection
				time.Sleep(time.Millisecond) // leaves time to the tests beside it
			}
		})
	}

	for range 10 {
		h := must(t)(persistent{direct.Mutex("a")}.Lock(soon(t)))
		waits := background(soon(t), persistent{z.Mutex("a")})
		eventually(t, "watched", func() bool { return watches(z) == 1 })
		z.dropTransport()
		release(t, h)
		release(t, arrived(t, waits))
	}
}

// The creation is executed and its reply is lost: the node is found by its name and removed.
func TestZooKeeperCreateReplyLost(t *testing.T) {
	t.Parallel()
	z, direct, p := proxiedZooKeeper(t)
	for _, lock := range bothWays(z.Mutex("a")) {
		p.Inject(dropReply, createOf(z, "a"), 1)
		_, err := lock(soon(t))
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the lock is taken")
		require.NotErrorIs(t, err, ErrUncertain, "the node was removed")
		require.Equal(t, 1, p.Broken())
		require.Empty(t, children(t, direct, "a"))
	}
}

func TestZooKeeperDeleteReplyLost(t *testing.T) {
	t.Parallel()
	var seen recorder
	z, direct, p := proxiedZooKeeper(t, WithZooKeeperObserver(seen.observe))
	h := must(t)(z.Mutex("a").TryLock(soon(t)))
	p.Inject(dropReply, deleteOf(z, "a"), 1)
	require.NoError(t, h.Release(soon(t)), "the first deletion was executed; the repeated one found nothing")
	require.Equal(t, 1, p.Broken())
	require.Empty(t, children(t, direct, "a"))
	require.Equal(t, 2, seen.count(EventReleased))
}

// The caller's context ends while the server is silent. What the calls leave behind is removed when it answers again.
func TestCancelDuringZooKeeperRequestReturnsAtOnce(t *testing.T) {
	t.Parallel()
	z, direct, p := proxiedZooKeeper(t, WithSessionTimeout(MaxSessionTimeout))
	h := must(t)(z.Mutex("a").TryLock(soon(t)))

	p.Inject(muteReply, anyCmd, always)
	for _, lock := range bothWays(z.Mutex("b")) {
		err := cancelled(t, func(ctx context.Context) error {
			_, err := lock(ctx)
			return err
		})
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, ErrNotAcquired)
	}
	err := cancelled(t, func(ctx context.Context) error { return h.Extend(ctx, time.Minute) })
	require.ErrorIs(t, err, ErrUncertain)
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
	h := must(t)(persistent{z.Mutex("a")}.Lock(soon(t)))
	fixed := must(t)(persistent{z.Mutex("fixed")}.Lock(soon(t), WithLease(time.Hour)))
	other := must(t)(direct.Mutex("b").Lock(soon(t)))
	waits := background(soon(t), z.Mutex("b"))
	eventually(t, "waiting", func() bool { return watches(z) == 1 })

	p.Inject(refuse, anyCmd, always)
	p.Cut()
	next := must(t)(direct.Mutex("a").Lock(soon(t)))
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

// The connection breaks for less than a session lives, but for longer than a hold relies on it. The hold is lost and the
// session continues: it must not keep the lock.
func TestSuspendedZooKeeperHoldIsFreed(t *testing.T) {
	env.Full(t)
	t.Parallel()
	z, direct, p := proxiedZooKeeper(t, WithSessionTimeout(6*time.Second))
	h := must(t)(z.Mutex("a").Lock(soon(t)))
	id := z.conn.SessionID()

	p.Inject(refuse, anyCmd, always)
	p.Cut()
	requireDone(t, h.Context(), ErrLost)
	require.Len(t, children(t, direct, "a"), 1, "the context ended too late")

	p.Heal()
	queuedNodes(t, direct, "a", 0) // without a release
	require.NoError(t, z.Ping(soon(t)))
	require.Equal(t, id, z.conn.SessionID(), "the test was too slow")
	require.NoError(t, TryDo(soon(t), z.Mutex("a"), nothing))
}

func TestZooKeeperCloseFreesItsLocks(t *testing.T) {
	t.Parallel()
	servers := env.SharedZooKeeper(t).Servers()
	z, other := newZooKeeper(t, servers, ownRoot(t)), newZooKeeper(t, servers, ownRoot(t))
	h := must(t)(z.Mutex("a").Lock(soon(t)))
	waits := background(soon(t), z.Mutex("a"))
	queuedNodes(t, other, "a", 2)
	require.NoError(t, z.Close())
	require.NoError(t, z.Close(), "the second call does nothing")
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, (<-waits).err, ErrClosed)
	_, err := z.Mutex("a").TryLock(soon(t))
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, TryDo(soon(t), other.Mutex("a"), nothing), "the session has ended with the Close")
}

// A server that has lost its leader still answers reads and pings of its clients. Their holds end nevertheless.
func cutOff(t *testing.T, ensemble *env.ZooKeeper) {
	t.Helper()
	leader := ensemble.Leader(t)
	follower := ensemble.Nodes[0]
	if follower == leader {
		follower = ensemble.Nodes[1]
	}
	witness, events, err := zk.Connect([]string{follower.Addr}, DefaultSessionTimeout, zk.WithLogger(noLog{}))
	require.NoError(t, err)
	defer func() {
		witness.Close()
		for range events { //nolint:revive // until it is closed
		}
	}()
	z := newZooKeeper(t, []string{follower.Addr}, WithSessionTimeout(4*time.Second))
	h := must(t)(persistent{z.Mutex("cut off")}.Lock(soon(t)))
	_, _, err = witness.Exists("/")
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
	h := must(t)(z.Mutex("held").Lock(soon(t)))

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
	first := ensemble.Leader(t)
	first.Kill()
	ensemble.Leader(t)
	before := uses.Load()
	eventually(t, "used again", func() bool { return uses.Load() > before+20 })
	done.Store(true)
	wg.Wait()
	t.Logf("%d uses; the longest pause was %v", uses.Load(), time.Duration(gap.Load()))
	require.NoError(t, h.Context().Err(), "the hold survives an election")
	_, err := newZooKeeper(t, ensemble.Servers()).Mutex("held").TryLock(soon(t))
	require.ErrorIs(t, err, ErrNotAcquired)

	second := ensemble.Leader(t)
	second.Kill()
	requireDone(t, h.Context(), ErrLost)
	require.Error(t, z.Ping(t.Context()))
	require.NoError(t, first.Restart())
	next := must(t)(newZooKeeper(t, ensemble.Servers()).Mutex("held").Lock(soon(t)))
	require.Greater(t, next.Token(), h.Token())
	release(t, next)
}
