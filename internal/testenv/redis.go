package testenv

import (
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

// redisDatabases is how many tests can have a database number to themselves
// before numbers are used again. An empty one costs some hundred bytes.
const redisDatabases = 10_000

// Redis is a redis-server process. Kill, Restart, Pause, Resume and Stop act
// on the process and may be called from any goroutine.
type Redis struct {
	*server
	// Addr is host:port; it stays the same across Restart.
	Addr string

	handedOut atomic.Int64 // database numbers, see database
}

// RunRedis starts a redis-server and returns when it answers. ctx bounds the
// start only (as do 30 s); end it with Stop. The args follow the package's own,
// which switch persistence off, and override them. A missing program is an
// error that wraps [exec.ErrNotFound].
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
			"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", dir.path,
			"--databases", strconv.Itoa(redisDatabases), "--save", "", "--appendonly", "no",
		}, args...)
	}}
	if err := s.run(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &Redis{server: s, Addr: s.addr()}, nil
}

// password finds the one that the args set: without it nobody can ask whether
// the data is loaded.
func password(args []string) string {
	i := slices.Index(args, "--requirepass")
	if i < 0 || i+1 == len(args) {
		return ""
	}
	return args[i+1]
}

// redisReady wants an answer from the process c, with its data loaded. (INFO
// answers while Redis still loads, other commands do not.)
func redisReady(password string) func(context.Context, *server, *child) error {
	return func(ctx context.Context, s *server, c *child) error {
		// go-redis logs every refused connection, which is what a start begins with.
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr())
		if err != nil {
			return err
		}
		_ = conn.Close()
		opts := clientOptions(s.addr())
		opts.Password = password
		rdb := redis.NewClient(opts)
		defer func() { _ = rdb.Close() }()
		info, err := rdb.Info(ctx).Result()
		if err != nil {
			return err
		}
		lines := strings.Split(info, "\r\n")
		if !slices.Contains(lines, "process_id:"+strconv.Itoa(c.proc.Pid)) {
			return errors.New("another Redis answers on this port")
		}
		if !slices.Contains(lines, "loading:0") {
			return errors.New("still loading its data")
		}
		return nil
	}
}

// Client returns a client for database 0 that is closed at cleanup. It sends
// every command once and lets a context end a command in flight; edits change
// its options before it is made.
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

// clientOptions: a fault test must see each command once and each failure at
// once.
func clientOptions(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
}

// database returns a client for an empty database number that no other test
// has, as long as fewer than ten thousand are in use at a time.
func (r *Redis) database(tb testing.TB) *redis.Client {
	tb.Helper()
	n := 1 + int(r.handedOut.Add(1)-1)%(redisDatabases-1) // 0 is for those who ask for none
	rdb := r.Client(tb, func(o *redis.Options) { o.DB = n })
	if err := rdb.FlushDB(tb.Context()).Err(); err != nil {
		tb.Fatalf("empty database %d: %v", n, err)
	}
	return rdb
}

// StartMiniredis starts a Redis inside the test process. It is stopped at
// cleanup. Time passes in it, as in a real server and within 100 ms: by itself
// miniredis never lets a key expire.
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

// EachRedis runs fn as the subtests "miniredis" and "redis", each with an empty
// database that nobody else uses. More clients for the same database are made
// from rdb.Options(). Use FLUSHDB, never FLUSHALL; pub/sub channels are shared
// with the other tests of the process.
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
