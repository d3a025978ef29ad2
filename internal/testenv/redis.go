package testenv

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// redisDatabases is the number of Redis databases, after which numbers are reused. An empty one takes a few hundred
// bytes.
const redisDatabases = 10_000

// Redis is a redis-server process. Its methods are safe for concurrent use.
type Redis struct {
	*server
	// Addr is host:port. Restart does not change it.
	Addr string
	// TLSAddr is host:port of the TLS listener, or empty.
	TLSAddr string

	handedOut atomic.Int64 // number of calls of database
}

// RunRedis starts a redis-server and returns when it answers. ctx and a timeout of 30 s bound only the start; the
// server runs until Stop. args are appended to the default arguments, which disable persistence, and override them. If
// the program is missing, the error wraps [exec.ErrNotFound].
func RunRedis(ctx context.Context, args ...string) (*Redis, error) {
	bin, err := findBinary("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	ready := redisReady(password(args))
	s := &server{bin: bin, dir: dir, ready: ready, args: func(s *server) []string {
		return append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.number), "--dir", dir.path,
			"--databases", strconv.Itoa(redisDatabases), "--save", "", "--appendonly", "no",
		}, args...)
	}}
	if err := s.run(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &Redis{server: s, Addr: s.addr()}, nil
}

// password returns the password in the arguments, which redisReady needs.
func password(args []string) string {
	i := slices.Index(args, "--requirepass")
	if i < 0 || i+1 == len(args) {
		return ""
	}
	return args[i+1]
}

// redisReady returns a check that succeeds when the process c answers and has loaded its data. Of the commands, INFO
// works even while Redis loads.
func redisReady(password string) func(context.Context, *server, *child) error {
	return func(ctx context.Context, s *server, c *child) error {
		lines, err := serverInfo(ctx, s.addr(), password)
		if err != nil {
			return err
		}
		if err := ofProcess(lines, c); err != nil {
			return err
		}
		if !slices.Contains(lines, "loading:0") {
			return errors.New("still loading its data")
		}
		return nil
	}
}

// serverInfo returns the lines of INFO.
func serverInfo(ctx context.Context, addr, password string) ([]string, error) {
	// go-redis logs every refused connection, and a starting server refuses the first ones.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	opts := clientOptions(addr)
	opts.Password = password
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	info, err := rdb.Info(ctx).Result()
	return strings.Split(info, "\r\n"), err
}

// ofProcess returns nil if INFO is the answer of the process c.
func ofProcess(info []string, c *child) error {
	if !slices.Contains(info, "process_id:"+strconv.Itoa(c.proc.Pid)) {
		return errors.New("another Redis answers on this port")
	}
	return nil
}

// peerAddr is the address for other servers and for clients with TLS, if there is TLS.
func (r *Redis) peerAddr() string { return cmp.Or(r.TLSAddr, r.Addr) }

// Client returns a client for database 0 that is closed at cleanup. It sends every command once, and a context can end
// a command in flight. edits change its options first.
func (r *Redis) Client(tb testing.TB, edits ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opts := clientOptions(r.Addr)
	for _, edit := range edits {
		edit(opts)
	}
	rdb := redis.NewClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// clientOptions returns options without retries: fault tests need every command sent once and every failure reported.
func clientOptions(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
}

// database returns a client for an empty database number. No other test uses it while fewer than redisDatabases are in
// use.
func (r *Redis) database(tb testing.TB) *redis.Client {
	tb.Helper()
	n := 1 + int(r.handedOut.Add(1)-1)%(redisDatabases-1) // clients without a number use 0
	rdb := r.Client(tb, func(o *redis.Options) { o.DB = n })
	if err := rdb.FlushDB(tb.Context()).Err(); err != nil {
		tb.Fatalf("empty database %d: %v", n, err)
	}
	return rdb
}

// StartMiniredis starts a Redis inside the test process and stops it at cleanup. Its keys expire with a delay of up to
// 100 ms; miniredis alone never expires a key.
func StartMiniredis(tb testing.TB) *miniredis.Miniredis {
	tb.Helper()
	m := miniredis.RunT(tb)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				now := time.Now()
				m.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	tb.Cleanup(func() { close(stop); <-stopped })
	return m
}

// EachRedis runs fn as the subtests "miniredis" and "redis", each with an empty database of its own. rdb.Options()
// serves to create more clients for the same database. Use FLUSHDB, never FLUSHALL. Pub/sub channels are shared with
// the other tests of the process.
func EachRedis(t *testing.T, fn func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		rdb := redis.NewClient(clientOptions(StartMiniredis(t).Addr()))
		t.Cleanup(func() { _ = rdb.Close() })
		fn(t, rdb)
	})
	t.Run("redis", func(t *testing.T) {
		fn(t, SharedRedis(t).database(t))
	})
}
