package zk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

func TestMain(m *testing.M) { env.Main(m) }

// longTimeout bounds waits for events that are expected soon, even on a busy machine.
const longTimeout = 100 * time.Second

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, longTimeout, 2*time.Millisecond)
}

// connect keeps the locks of a test to itself on the shared ensemble.
func connect(t testing.TB, addrs []string) *Client {
	t.Helper()
	return connectFor(t, addrs, 30*time.Second)
}

func connectFor(t testing.TB, addrs []string, session time.Duration) *Client {
	t.Helper()
	c, err := Connect(Config{
		Servers:        addrs,
		Root:           "/" + strings.ReplaceAll(t.Name(), "/", "-"),
		SessionTimeout: session,
		RequestTimeout: 10 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// proxied returns a client whose only server is behind a proxy, another one without the proxy, and the proxy.
func proxied(t testing.TB, session time.Duration) (c, direct *Client, p *servers.Proxy) {
	t.Helper()
	addrs := env.SharedZooKeeper(t).Servers()
	p = env.StartProxy(t, addrs[0])
	c = connectFor(t, []string{p.Addr}, session)
	remove(t, acquire(t, c))
	return c, connect(t, addrs), p
}

// All tests use a lock of this name, below a root of their own.
const name = "a"

func acquire(t testing.TB, c *Client) *Node {
	t.Helper()
	return <-inBackground(t.Context(), c)
}

// inBackground waits for the lock. It repeats the attempt, as a caller must whose connection may break.
func inBackground(ctx context.Context, c *Client) <-chan *Node {
	got := make(chan *Node, 1)
	go func() {
		n, err := c.Acquire(ctx, name, true)
		for err != nil && ctx.Err() == nil {
			n, err = c.Acquire(ctx, name, true)
		}
		got <- n
	}()
	return got
}

func remove(t testing.TB, n *Node) {
	t.Helper()
	require.NoError(t, n.Remove(t.Context()))
}

// nodes returns the number of attempts, or -1 if a server does not answer.
func nodes(c *Client) int {
	if c.sync() != nil {
		return -1
	}
	names, _, err := c.conn.Children(c.Path(name))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return -1
	}
	return len(names)
}

// watches returns the number of nodes that waiters of c watch.
func watches(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}

// The sequence numbers of a lock that was always in use overflow.
func TestPredecessor(t *testing.T) {
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
	addrs := env.SharedZooKeeper(t).Servers()
	clients := []*Client{connect(t, addrs), connect(t, addrs)}
	const waiting = 6
	first := acquire(t, clients[0])

	var got []<-chan *Node
	for i := range waiting {
		got = append(got, inBackground(t.Context(), clients[i%2]))
		eventually(t, func() bool { return nodes(clients[0]) == i+2 })
	}
	eventually(t, func() bool { return watches(clients[0])+watches(clients[1]) == waiting })

	remove(t, first)
	for i, next := range got {
		n := <-next
		require.NoError(t, n.Life().Err(), "waiter %d", i)
		remove(t, n)
	}
	require.Zero(t, nodes(clients[0]))
}

// Waits that are cut short share a watch of the holder's node, which goes with it.
func TestCancelledZooKeeperWaitsLeaveNoWatches(t *testing.T) {
	t.Parallel()
	c := connect(t, env.SharedZooKeeper(t).Servers())
	n := acquire(t, c)

	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		got := inBackground(ctx, c)
		eventually(t, func() bool { return watches(c) == 1 && nodes(c) == 2 })
		cancel()
		require.Nil(t, <-got)
		eventually(t, func() bool { return nodes(c) == 1 })
	}
	require.Equal(t, 1, watches(c))

	remove(t, n)
	eventually(t, func() bool { return watches(c) == 0 })
}

// The server removes the node of a name that is not used any more, and tokens grow although the sequence begins anew.
func TestZooKeeperRemovesUnusedNames(t *testing.T) {
	t.Parallel()
	c := connect(t, env.SharedZooKeeper(t).Servers())
	n := acquire(t, c)
	remove(t, n)
	eventually(t, func() bool {
		exists, _, err := c.conn.Exists(c.Path(name))
		return err == nil && !exists
	})
	next := acquire(t, c)
	require.Greater(t, next.Token, n.Token)
	remove(t, next)
}

// The node before a waiter's goes while the waiter's connection is down. Other requests may be answered before its watch
// is set again, and the server then be asked for changes since a later time than that of the deletion. It reports it anyway.
// The library reads that time without synchronization: see .ci/race-suppressions.
func TestZooKeeperWatchSurvivesReconnects(t *testing.T) {
	if env.RaceDetector && !strings.Contains(os.Getenv("GORACE"), "suppressions=") {
		t.Skip("needs GORACE with .ci/race-suppressions, as make test sets it")
	}
	t.Parallel()
	addrs := env.SharedZooKeeper(t).Servers()
	c, direct := connect(t, addrs), connect(t, addrs)

	var done atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer done.Store(true)

	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				_, _, _ = c.conn.Exists("/") // fails while there is no connection
				time.Sleep(time.Millisecond) // leaves time to the tests beside it
			}
		})
	}

	for range 10 {
		n := acquire(t, direct)
		waits := inBackground(t.Context(), c)
		eventually(t, func() bool { return watches(c) == 1 })
		c.dropTransport()
		remove(t, n)
		remove(t, <-waits)
	}
}

// A follower that is behind may still have a node that was deleted elsewhere, so Check asks the leader first.
func TestZooKeeperCheckIsNotStale(t *testing.T) {
	t.Parallel()
	addrs := env.SharedZooKeeper(t).Servers()
	var clients []*Client
	for _, addr := range addrs {
		clients = append(clients, connect(t, []string{addr}))
	}

	for i := range 60 {
		holder, other := clients[i%len(clients)], clients[(i+1)%len(clients)]
		n := acquire(t, holder)
		require.NoError(t, n.Check(t.Context()))
		require.NoError(t, other.conn.Delete(n.path, -1))
		require.ErrorIs(t, n.Check(t.Context()), ErrGone, "round %d", i)
		require.ErrorIs(t, n.Remove(t.Context()), ErrGone)
	}
}

// The session of a waiter ends before the waiter watches the node before its own. It must not watch it in the next session,
// without a place in the queue.
func TestZooKeeperSessionEndsBeforeWatch(t *testing.T) {
	t.Parallel()
	c, direct, p := proxied(t, 2*time.Second)
	first := acquire(t, direct)
	n := c.newNode(name)
	require.NoError(t, n.create(t.Context()))
	before := env.Must(n.look(t.Context()))(t)
	require.NotEmpty(t, before)

	p.Inject(servers.Refuse, "", servers.Always)
	p.Cut()
	eventually(t, func() bool { return nodes(direct) == 1 })
	p.Heal()
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout/4)
	defer cancel()
	env.Fails(n.await(ctx, before))(t, errEnded)
	remove(t, first)
}

// The creation is executed and its reply is lost: the node is found by its name and removed. The deletion is executed and its
// reply is lost: the repeated one finds nothing, and that is a success.
func TestZooKeeperRepliesLost(t *testing.T) {
	t.Parallel()
	c, direct, p := proxied(t, 30*time.Second)
	attempt := c.Path(name) + "/_c_" // the next request with it is that of the test
	for _, wait := range []bool{false, true} {
		p.Inject(servers.DropReply, attempt, 1)
		_, err := c.Acquire(t.Context(), name, wait)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrTaken, "a failing server does not mean that the lock is taken")
		require.NotErrorIs(t, err, ErrUncertain, "the node was removed")
		require.Equal(t, 1, p.Broken())
		require.Zero(t, nodes(direct))
	}

	n := env.Must(c.Acquire(t.Context(), name, false))(t)
	p.Inject(servers.DropReply, attempt, 1)
	remove(t, n)
	require.Equal(t, 1, p.Broken())
	require.Zero(t, nodes(direct))
}
