package lock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/test/env"
	"seckill/test/env/servers"
)

// quiet drops the libraries' own logs, because tests stop servers on purpose.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

type quietRedis struct{}

func (quietRedis) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quietRedis{})

	// Tests mostly wait, for leases to end and servers to start. -parallel overrides this value.
	_ = flag.Set("test.parallel", "16")

	env.Main(m, stopIdle, func() error {
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
		return env.StartMiniredis(t).Addr()
	}
	return startRedis(t)
}

func startServers(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for range n {
		addrs = append(addrs, startServer(t))
	}
	return addrs
}

// idle are the servers of tests that have ended, for others: to start one costs more than many a test.
var idle = make(chan *servers.Redis, 64)

// startRedis is startServer for what only a real Redis supports.
func startRedis(t testing.TB) string {
	t.Helper()
	env.Program(t, "redis-server") // or skips the test
	var server *servers.Redis
	select {
	case server = <-idle:
		rdb := newClient(t, server.Addr)
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	default:
		server = env.Must(servers.RunRedis(context.Background()))(t)
	}
	t.Cleanup(func() { idle <- server })
	return server.Addr
}

func stopIdle() error {
	var errs []error
	for len(idle) > 0 {
		errs = append(errs, (<-idle).Stop())
	}
	return errors.Join(errs...)
}

// ownRedis is startRedis for a test that stops or configures its server.
func ownRedis(t testing.TB) *env.Redis {
	t.Helper()
	return env.StartRedis(t)
}

// each runs test for each kind, on a server that belongs to that test alone.
func each[S any, K fmt.Stringer](t *testing.T, kinds []K, start func(testing.TB) S, test func(t *testing.T, s S, k K)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			test(t, start(t), k)
		})
	}
}

// newClient connects as the package documentation advises. A command ends with its context and not before.
func newClient(t testing.TB, addr string, changes ...func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 2 * longTimeout,
	}
	for _, change := range changes {
		change(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newLocks returns a Client on the given server, with connections of its own. It tolerates a machine that stalls.
func newLocks(t testing.TB, addr string, opts ...ClientOption) *Client {
	t.Helper()
	return newLocksOf(t, newClient(t, addr), opts...)
}

func newLocksOf(t testing.TB, rdb redis.UniversalClient, opts ...ClientOption) *Client {
	t.Helper()
	c := env.Must(New(rdb, opts...))(t)
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
	all := env.Must(NewRedLocks(nodes, append([]RedLockOption{WithNodeTimeout(patience)}, opts...)...))(t)
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

// newMortalClient returns a client of a server, and a function that kills the server. The port of a dead server is
// free, and within the time of a test the server of another test may take it: the lock would then find it alive. So the
// client refuses to connect after the kill, as an unused port does.
func newMortalClient(t *testing.T, server *env.Redis) (rdb *redis.Client, kill func()) {
	t.Helper()
	var dead atomic.Bool
	rdb = newClient(t, server.Addr, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dead.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	return rdb, func() {
		dead.Store(true)
		server.Kill()
	}
}

// afterwards returns a hook that calls f with the commands of each round trip that has ended.
func afterwards(f func(cmds []redis.Cmder)) env.RedisHook {
	return env.RedisHook{
		Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if err != nil {
				cmd.SetErr(err) // as go-redis does after the hooks
			}
			f([]redis.Cmder{cmd})
			return err
		},
		Pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			err := next(ctx, cmds)
			f(cmds)
			return err
		},
	}
}

// trips are the round trips of a client, each with the names of its commands.
type trips struct {
	mu  sync.Mutex
	all [][]string
}

func tripsOf(rdb *redis.Client) *trips {
	t := &trips{}
	rdb.AddHook(afterwards(func(cmds []redis.Cmder) {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all = append(t.all, names)
	}))
	return t
}

// scripts returns the number of round trips with scripts; opening a connection has others.
func (t *trips) scripts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, names := range t.all {
		if strings.HasPrefix(names[0], "eval") {
			n++
		}
	}
	return n
}
