package env

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/test/env/servers"
)

const (
	// EnvRequire is the variable that, set to 1, makes a missing program fail the test instead of skipping it. CI sets
	// it so that it cannot pass without testing anything.
	EnvRequire = "SECKILL_TEST_REQUIRE"
	// EnvMySQLDSN is the variable with the go-sql-driver DSN of a running server that takes the place of the shared
	// [MySQL]. Its user must be allowed to create and drop databases.
	EnvMySQLDSN = "SECKILL_TEST_MYSQL_DSN"
	// EnvDatabase is the variable with the only kind of database server that the tests use, mysql or mariadb. Tests that
	// would use SQLite are skipped then.
	EnvDatabase = "SECKILL_TEST_DATABASE"
)

// Main runs the tests of a package, calls the functions, stops the shared servers and exits. On Linux the temporary
// directories of the tests are in memory, see doc.go. An error, or a goroutine that is left, makes the run fail.
//
// A package whose TestMain cannot call Main still works: its shared servers end with the process.
func Main(m *testing.M, after ...func() error) {
	flag.Parse()

	// Benchmarks stay on the disk.
	var removeTemp func() error
	if bench := flag.Lookup("test.bench"); bench == nil || bench.Value.String() == "" {
		removeTemp = servers.TempInMemory()
	}

	code := m.Run()

	var errs []error
	for _, f := range append(after, stopShared) {
		errs = append(errs, f())
	}
	if removeTemp != nil {
		errs = append(errs, removeTemp())
	}

	// A failed test may leave goroutines behind; its own message matters more.
	if code == 0 {
		errs = append(errs, noGoroutines())
	}

	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "env: after the tests:", err)
		code = max(code, 1)
	}

	os.Exit(code)
}

// noGoroutines returns an error if goroutines are left. It waits for those that end by themselves: go-redis sees only after its
// next dial of a dead server that a client is closed.
func noGoroutines() error {
	// otter ends the goroutine of a cache after the cache is collected.
	otter := goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return servers.Until(ctx, func() error { return goleak.Find(otter) })
}

// The servers that all tests of this process share.
var (
	sharedRedis     = shared(func(ctx context.Context) (*Redis, error) { return runRedis(ctx) })
	sharedMariaDB   = shared(MariaDB.runShared)
	sharedMySQL     = shared(MySQL.runShared)
	sharedZooKeeper = shared(servers.RunZooKeeper)
)

// running are the shared servers that were started.
var running struct {
	sync.Mutex
	servers []interface{ Stop() error }
}

// shared returns a function that starts a server when it is first called. It remembers a failed start, because a retry would
// cost each test the same timeout.
func shared[S interface{ Stop() error }](run func(context.Context) (S, error)) func() (S, error) {
	return sync.OnceValues(func() (S, error) {
		// The context of the first test would cancel the start for all others when that test ends.
		s, err := run(context.Background())
		if err != nil {
			return s, err
		}

		running.Lock()
		defer running.Unlock()
		running.servers = append(running.servers, s)
		return s, nil
	})
}

func stopShared() error {
	running.Lock()
	defer running.Unlock()

	var errs []error
	for _, s := range running.servers {
		errs = append(errs, s.Stop())
	}

	return errors.Join(errs...)
}

// started returns a function that returns a server, which is stopped at cleanup, or calls need.
func started[S interface{ Stop() error }](s S, err error) func(tb testing.TB) S {
	return func(tb testing.TB) S {
		tb.Helper()
		need(tb, err)
		tb.Cleanup(func() {
			if err := s.Stop(); err != nil {
				tb.Error(err)
			}
		})
		return s
	}
}

// need skips or fails the test if err is not nil: it skips if a program is missing and not required.
func need(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}

	if errors.Is(err, exec.ErrNotFound) {
		Missing(tb, err)
	}

	tb.Fatal(err)
}

// Missing skips a test for which this machine or checkout lacks something, or fails it if [EnvRequire] is 1.
func Missing(tb testing.TB, what any) {
	tb.Helper()
	if os.Getenv(EnvRequire) == "1" {
		tb.Fatal(what)
	}

	tb.Skip(what)
}
