package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/repo"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// TestReplicaIsNotReady: a Redis that became the replica of another one answers PING and refuses every purchase. An ACL
// that forbids the check does not make it red.
func TestReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	master, node := env.StartRedis(t), env.StartRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	admin := node.Client(t)
	cfg := Config{RedisAddrs: []string{node.Addr}, LockNodes: []string{node.Addr}}
	requireReady := func(checks map[string]handler.Check) {
		t.Helper()
		require.NoError(t, checks["redis"](t.Context()))
		require.NoError(t, checks["lock nodes"](t.Context()))
	}
	checks := redisChecks(t, cfg)

	requireReady(checks)
	require.NoError(t, admin.ReplicaOf(t.Context(), host, port).Err())
	for _, name := range []string{"redis", "lock nodes"} {
		require.ErrorContains(t, checks[name](t.Context()), "READONLY", name)
	}
	require.NoError(t, admin.ReplicaOf(t.Context(), "NO", "ONE").Err())
	requireReady(checks)
	keys := env.Must(admin.DBSize(t.Context()).Result())(t)
	require.Zero(t, keys, "the check stores nothing")

	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "narrow", "on", ">secret", "~other:*", "+@all").Err())
	cfg.RedisUsername, cfg.RedisPassword = "narrow", "secret"
	requireReady(redisChecks(t, cfg))
}

func redisChecks(t *testing.T, cfg Config) map[string]handler.Check {
	t.Helper()
	rdb := env.Must(SharedRedis(cfg))(t)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	locks := env.Must(openUserLocks(cfg, rdb))(t)
	t.Cleanup(locks.close)
	return readyChecks(cfg, backends{store: &repo.Store{}, rdb: rdb, locks: locks}, &drain{})
}

// A minority that hangs delays no check. A majority is waited for until the check ends.
func TestReadyWithNodesThatHang(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, node redis.UniversalClient) error {
		if node != nil {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	answers := redis.NewClient(&redis.Options{})
	defer func() { require.NoError(t, answers.Close()) }()

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, quorum(ctx, []redis.UniversalClient{nil, answers, answers}, hangs))
		require.NoError(t, quorum(ctx, []redis.UniversalClient{answers, nil, answers, nil, answers}, hangs))
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, quorum(ctx, []redis.UniversalClient{answers, nil, nil}, hangs), context.DeadlineExceeded)
	})
}

// TestStartGivesUp: a server that does not answer is waited for, but not without end.
func TestStartGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &Env{Ctx: t.Context(), Log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		tries := 0
		err := WaitFor(e, "the database", func(context.Context) error {
			tries++
			return domain.ErrUnavailable
		})
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.ErrorContains(t, err, "the database does not answer (waited for 30s)")
		require.Equal(t, startTimeout, time.Since(began))
		require.Greater(t, tries, 10)
	})
}

// firstEntry is the output of a log, of which it receives a token.
type firstEntry chan struct{}

func (f firstEntry) Write(p []byte) (int, error) {
	select {
	case f <- struct{}{}:
	default:
	}
	return len(p), nil
}

// A database that goes away after it answered the first time is waited for. Other errors end the start at once.
func TestPrepareDatabaseWaits(t *testing.T) {
	db := env.OneKind(t).Start(t)
	no := false
	cfg := Config{MySQLDSN: db.DSN(t), Demo: &no}
	store := env.Must(OpenStore(cfg))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	waits := make(firstEntry, 1)
	e := &Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.NewTextHandler(waits, nil))}
	require.NoError(t, store.Ping(t.Context()))
	db.Kill()
	done := make(chan error, 1)
	go func() { done <- prepareDatabase(e, store) }()
	<-waits
	require.Empty(t, done)
	require.NoError(t, db.Restart())
	require.NoError(t, <-done)
	all := env.Must(store.Migrations(t.Context()))(t)
	require.NotZero(t, all[len(all)-1].Applied)

	foreign := env.Must(OpenStore(Config{MySQLDSN: db.DSN(t)}))(t)
	t.Cleanup(func() { require.NoError(t, foreign.Close()) })
	env.Must(foreign.Pools()["write"].ExecContext(t.Context(), "CREATE TABLE users (id INT)"))(t)
	require.ErrorContains(t, prepareDatabase(e, foreign), "users")
}

// During the drain the check fails, idle and new connections are served, and every answer ends its connection.
func TestDrainServesAndClosesConnections(t *testing.T) {
	t.Parallel()
	var d drain
	server := httptest.NewServer(d.handler(http.NotFoundHandler()))
	defer server.Close()
	get := func() (reused, closes bool) {
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		req := env.Must(http.NewRequestWithContext(trace, http.MethodGet, server.URL, nil))(t)
		res := env.Must(server.Client().Do(req))(t)
		env.Must(io.Copy(io.Discard, res.Body))(t) // otherwise the client does not reuse the connection
		require.NoError(t, res.Body.Close())
		return reused, res.Close
	}
	_, closes := get()
	require.False(t, closes)
	require.NoError(t, d.check(t.Context()))

	failed, drained := make(chan error), make(chan error, 1)
	go func() { drained <- d.run(time.Hour, failed) }()
	require.Eventually(t, func() bool { return errors.Is(d.check(t.Context()), errDraining) }, time.Minute, time.Millisecond)
	reused, closes := get()
	require.True(t, reused, "the idle connection is served")
	require.True(t, closes)
	reused, closes = get()
	require.False(t, reused)
	require.True(t, closes)

	broken := errors.New("the listener failed")
	failed <- broken
	require.ErrorIs(t, <-drained, broken)
}

// pipes is a listener in memory, whose connections follow the clock of synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection and reads all that the server sends on it. ended receives that when the server has closed it.
func (p *pipes) dial() (conn net.Conn, ended <-chan string) {
	conn, server := net.Pipe()
	p.conns <- server
	done := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(conn) // the connection is closed in the middle
		done <- string(all)
	}()
	return conn, done
}

// A client that sends its request byte by byte, or does not read its answer, keeps its connection for seconds.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
	slow := func(conn net.Conn, text string) {
		for _, b := range []byte(text) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	for name, tc := range map[string]struct {
		send func(conn net.Conn)
		ends time.Duration
	}{
		"silence":     {func(net.Conn) {}, readTimeout},
		"slow header": {func(conn net.Conn) { slow(conn, head) }, readTimeout},
		"slow body": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, head)
			slow(conn, strings.Repeat("x", 1000))
		}, readTimeout},
		"idle after an answer": {func(conn net.Conn) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }, idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener, failed := serveMemory(t)
				began := time.Now()
				conn, ended := listener.dial()
				var sending sync.WaitGroup
				sending.Go(func() { tc.send(conn) })
				answer := <-ended
				took := time.Since(began)
				sending.Wait()
				require.NotContains(t, answer, "complete")
				require.GreaterOrEqual(t, took, tc.ends)
				require.Less(t, took, tc.ends+2*time.Second, "net/http waits 0.5 s for the client to read an error")
				require.Empty(t, failed)
			})
		})
	}

	t.Run("answer is not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			listener, failed := serveMemory(t)
			conn, server := net.Pipe()
			listener.conns <- server
			env.Must(io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			began := time.Now()
			require.ErrorIs(t, <-failed, os.ErrDeadlineExceeded)
			require.Equal(t, writeTimeout, time.Since(began))
			require.NoError(t, conn.Close())
		})
	})

	t.Run("many of them delay no other client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			listener, _ := serveMemory(t)
			var sending sync.WaitGroup
			for range 500 {
				conn, _ := listener.dial()
				sending.Go(func() { slow(conn, head) })
			}
			time.Sleep(readTimeout / 2)
			conn, server := net.Pipe()
			listener.conns <- server
			began := time.Now()
			env.Must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			res := env.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Zero(t, time.Since(began))
			require.NoError(t, conn.Close())
			sending.Wait()
		})
	})
}

// serveMemory runs the public server on a listener in memory. failed receives the errors of writes of the handler.
func serveMemory(t *testing.T) (listener *pipes, failed <-chan error) {
	t.Helper()
	listener = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	errs := make(chan error, 1)
	server := publicServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, err := w.Write(make([]byte, 1<<20))
			errs <- err
			return
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		if r.ContentLength > 0 {
			_, _ = io.WriteString(w, "complete")
		}
	}), slog.New(slog.DiscardHandler))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-stopped
	})
	return listener, errs
}
