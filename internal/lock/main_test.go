package lock

import (
	"context"
	"errors"
	"flag"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/test/servers"
	"seckill/test/testenv"
)

// quiet drops go-redis's own log, because tests stop servers on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})

	// Tests mostly wait, for leases to end and servers to start. -parallel overrides this value.
	_ = flag.Set("test.parallel", "16")

	testenv.Main(m, single.stop, clustered.stop, func() error {
		// Undos of locks on dead servers continue for a while, by design.
		for end := time.Now().Add(2 * undoWindow); len(undoSlots) > 0 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return goleak.Find()
	})
}

// startServer returns the address of an empty server that belongs to the test alone: a real Redis, or miniredis with
// -short.
func startServer(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		return testenv.StartMiniredis(t).Addr()
	}
	return startRedis(t)
}

// startRedis is startServer for what only a real Redis supports. A test that stops or configures its server calls
// testenv.StartRedis.
func startRedis(t testing.TB) string {
	t.Helper()
	server := single.take(t)
	empty(t, server)
	return server.Addr
}

// startCluster returns an address at which newClient and newLocks reach a whole cluster.
func startCluster(t testing.TB) string {
	t.Helper()
	testenv.Full(t)
	s := clustered.take(t)
	empty(t, s.Nodes...)
	cluster := &testenv.RedisCluster{RedisCluster: s}
	for _, node := range s.Nodes {
		cluster.Nodes = append(cluster.Nodes, &testenv.Redis{Redis: node})
	}
	clusters.Store(s.Nodes[0].Addr, cluster)
	return s.Nodes[0].Addr
}

// A serverPool has the servers of tests that have ended, for others: to start one costs more than many a test.
type serverPool[S interface{ Stop() error }] struct {
	start func(ctx context.Context) (S, error)
	idle  chan S
}

var (
	single = serverPool[*servers.Redis]{
		func(ctx context.Context) (*servers.Redis, error) { return servers.RunRedis(ctx) }, make(chan *servers.Redis, 64),
	}
	clustered = serverPool[*servers.RedisCluster]{
		func(ctx context.Context) (*servers.RedisCluster, error) { return servers.RunRedisCluster(ctx, nil) },
		make(chan *servers.RedisCluster, 64),
	}
)

// take returns a server that belongs to the test until its end.
func (p serverPool[S]) take(t testing.TB) S {
	t.Helper()
	testenv.Program(t, "redis-server") // or skips the test
	var server S
	select {
	case server = <-p.idle:
	default:
		var err error
		server, err = p.start(context.Background())
		require.NoError(t, err)
	}
	t.Cleanup(func() { p.idle <- server })
	return server
}

// stop stops the servers after the last test.
func (p serverPool[S]) stop() (err error) {
	for len(p.idle) > 0 {
		err = errors.Join(err, (<-p.idle).Stop())
	}
	return err
}

// empty removes what earlier tests have left on servers.
func empty(t testing.TB, all ...*servers.Redis) {
	t.Helper()
	for _, server := range all {
		rdb := redis.NewClient(servers.RedisOptions(server.Addr))
		require.NoError(t, rdb.FlushAll(context.Background()).Err())
		require.NoError(t, rdb.ScriptFlush(context.Background()).Err())
		require.NoError(t, rdb.ConfigResetStat(context.Background()).Err())
		require.NoError(t, rdb.Close())
	}
}

// onEachServer runs test, which shows the principal rules of a kind of lock, on miniredis, a real Redis and a cluster.
func onEachServer(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"miniredis": func(t *testing.T) string { return testenv.StartMiniredis(t).Addr() },
		"redis":     func(t *testing.T) string { return startRedis(t) },
		"cluster":   func(t *testing.T) string { return startCluster(t) },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, start(t)) })
	}
}

// each runs test for each kind, on a server that belongs to that test alone.
func each[K interface{ String() string }](t *testing.T, kinds []K, test func(t *testing.T, addr string, k K)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) { t.Parallel(); test(t, startServer(t), k) })
	}
}

// eachOnRedis is each for what only a real Redis supports.
func eachOnRedis[K interface{ String() string }](t *testing.T, kinds []K, test func(t *testing.T, addr string, k K)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) { t.Parallel(); test(t, startRedis(t), k) })
	}
}

// eachOnOwnRedis is eachOnRedis for a test that stops its server.
func eachOnOwnRedis[K interface{ String() string }](t *testing.T, kinds []K, test func(t *testing.T, s *testenv.Redis, k K)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) { t.Parallel(); test(t, testenv.StartRedis(t), k) })
	}
}

// newClient connects as the package documentation advises. A command ends with its context and not before.
func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 2 * longTimeout,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	if cluster := newClusterClient(t, addr); cluster != nil {
		rdb.AddHook(overCluster{cluster})
	}
	return rdb
}

// newLocks returns a Client on the given server, with connections of its own. It tolerates a machine that stalls.
func newLocks(t testing.TB, addr string, opts ...ClientOption) *Client {
	t.Helper()
	if cluster := newClusterClient(t, addr); cluster != nil {
		return newLocksOf(t, cluster, opts...)
	}
	return newLocksOf(t, newClient(t, addr), opts...)
}

func newLocksOf(t testing.TB, rdb redis.UniversalClient, opts ...ClientOption) *Client {
	t.Helper()
	c, err := New(rdb, opts...)
	require.NoError(t, err)
	c.exec.timeout = patience
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// newLock returns a RedLock on the given servers, with a client each. It tolerates a machine that stalls; opts can
// shorten its node timeout.
func newLock(t testing.TB, name string, addrs []string, opts ...RedLockOption) Locker {
	t.Helper()
	nodes := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		nodes[i] = newClient(t, addr)
	}
	all, err := NewRedLocks(nodes, append([]RedLockOption{WithNodeTimeout(patience)}, opts...)...)
	require.NoError(t, err)
	return all.Lock(name)
}

// The proxy between a client and its server, and its faults.
type (
	proxy = servers.Proxy
	fault = servers.Fault
)

const (
	none      = servers.None
	dropReply = servers.DropReply
	muteReply = servers.MuteReply
	refuse    = servers.Refuse

	always = servers.Always
)

// Parts of the commands of a RedLock, as they are on the wire.
const (
	setCmd    = "\r\nnx\r\n"
	scriptCmd = "\r\nevalsha\r\n"
	anyCmd    = ""
)

// startProxy starts a proxy and stops it at cleanup.
func startProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	p, err := servers.StartProxy(t.Context(), upstream)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
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

// counter is a hook that counts the commands that a client sends.
type counter struct {
	mu    sync.Mutex
	names []string
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(cmds...)
		return next(ctx, cmds)
	}
}

func (c *counter) add(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		c.names = append(c.names, cmd.Name())
	}
}

// sent returns the number of commands sent so far.
func (c *counter) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.names)
}

// clusters holds the clusters by the address of their first node.
var clusters sync.Map

// newClusterClient returns a client of the cluster at that address, or nil if there is none.
func newClusterClient(t testing.TB, addr string) *redis.ClusterClient {
	t.Helper()
	c, ok := clusters.Load(addr)
	if !ok {
		return nil
	}
	return c.(*testenv.RedisCluster).Client(t)
}

// overCluster is a hook that redirects a single-node client to the cluster, because the tests inspect a server through
// a *redis.Client.
type overCluster struct{ rdb *redis.ClusterClient }

func (o overCluster) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o overCluster) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "keys", "pubsub", "flushall":
			return o.onAllNodes(ctx, cmd)
		default:
			return o.rdb.Process(ctx, cmd)
		}
	}
}

// onAllNodes runs a command on every node, and joins the lists that they return.
func (o overCluster) onAllNodes(ctx context.Context, cmd redis.Cmder) error {
	var all []string
	var mu sync.Mutex
	list, lists := cmd.(*redis.StringSliceCmd)

	err := o.rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		if !lists {
			return node.Do(ctx, cmd.Args()...).Err()
		}
		one := redis.NewStringSliceCmd(ctx, cmd.Args()...)
		err := node.Process(ctx, one)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, one.Val()...)
		return err
	})

	if lists {
		list.SetVal(all)
	}
	cmd.SetErr(err)
	return err
}

func (o overCluster) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := o.rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // only queues
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}
