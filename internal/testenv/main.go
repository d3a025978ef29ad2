package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

const (
	// EnvRequire makes, when it is 1, a missing program a failure instead of a
	// skipped test, so that CI cannot turn green by testing nothing.
	EnvRequire = "SECKILL_TEST_REQUIRE"
	// EnvMySQLDSN names an external MySQL or MariaDB server for [MySQLDSN], as a
	// go-sql-driver DSN of a user who may create and drop databases.
	EnvMySQLDSN = "SECKILL_TEST_MYSQL_DSN"
)

// startTimeout bounds a start until the server answers. A start takes a
// fraction of a second; the rest is for machines that do much else.
const startTimeout = 30 * time.Second

// Main runs the tests of a package, stops the shared servers, runs the checks,
// and exits. A failed check fails a run that was green, as in
//
//	testenv.Main(m, func() error { return goleak.Find() })
//
// A package with a TestMain that cannot call Main loses nothing but the tidy
// end: the shared servers die with the process.
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	for _, check := range checks {
		if code != 0 {
			break // a failed test leaves things behind; its own message matters more
		}
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

var (
	sharedRedis   lazy[*Redis]
	sharedMariaDB lazy[*MariaDB]
)

// SharedRedis returns the Redis that all tests of this process share. It must
// not be killed, paused or flushed as a whole.
func SharedRedis(tb testing.TB) *Redis {
	tb.Helper()
	r, err := sharedRedis.get(func(ctx context.Context) (*Redis, error) { return RunRedis(ctx) })
	need(tb, err)
	return r
}

// SharedMariaDB returns the MariaDB that all tests of this process share. It
// must not be killed or paused. See [MySQLDSN] for tests that should also run
// on an external server.
func SharedMariaDB(tb testing.TB) *MariaDB {
	tb.Helper()
	m, err := sharedMariaDB.get(func(ctx context.Context) (*MariaDB, error) { return RunMariaDB(ctx) })
	need(tb, err)
	return m
}

// StartRedis starts a Redis for this test alone and stops it at cleanup. The
// args follow the package's own and override them: "--appendonly", "yes".
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	r, err := RunRedis(tb.Context(), args...)
	need(tb, err)
	stopAtCleanup(tb, r.server)
	return r
}

// StartMariaDB starts a MariaDB for this test alone and stops it at cleanup.
// The args follow the package's own and override them:
// "--innodb-flush-log-at-trx-commit=0".
func StartMariaDB(tb testing.TB, args ...string) *MariaDB {
	tb.Helper()
	m, err := RunMariaDB(tb.Context(), args...)
	need(tb, err)
	stopAtCleanup(tb, m.server)
	return m
}

func stopAtCleanup(tb testing.TB, s *server) {
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
}

// need skips or fails the test when a server could not be had.
func need(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, exec.ErrNotFound) && os.Getenv(EnvRequire) != "1" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// lazy is a server that starts when it is first asked for. A failed start is
// remembered: trying again would only cost each test the same time-out.
type lazy[S interface{ Stop() error }] struct {
	mu      sync.Mutex
	tried   bool
	running S
	err     error
}

func (l *lazy[S]) get(run func(context.Context) (S, error)) (S, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tried {
		// Not the context of the test that happens to be first: its end must
		// not spoil the start for the others.
		l.running, l.err = run(context.Background())
		l.tried = true
	}
	return l.running, l.err
}

func (l *lazy[S]) stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tried || l.err != nil {
		return nil
	}
	l.tried = false
	return l.running.Stop()
}

func stopShared() error {
	return errors.Join(sharedRedis.stop(), sharedMariaDB.stop())
}
