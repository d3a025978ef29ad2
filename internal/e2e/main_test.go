package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/rush"
	"seckill/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(envRunMain) != "" {
		os.Exit(runBroken())
	}
	testenv.Main(m)
}

// stack is what servers of one test share: the configuration that points at a database and a Redis.
type stack struct {
	lane    string
	env     []string
	mariadb *testenv.MariaDB // nil on the embedded default, and where the server is not the test's own
	redis   *testenv.Redis   // nil on the embedded default
	// flush empties Redis, as a lost one would be.
	flush func() error
	// killRedis and restartRedis are nil where Redis lives inside the server.
	killRedis    func()
	restartRedis func() error
}

// testSecret signs the tokens of all test servers.
const testSecret = "a-secret-for-tests-only-0123456789"

// each runs a test on the embedded default and on real servers. shared says that several servers, or faults of
// Redis itself, need a Redis outside the server: then the first variant is SQLite and a miniredis beside it. The
// variants run side by side, for they wait most of the time.
func each(t *testing.T, shared bool, fn func(t *testing.T, s *stack)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		s := embeddedStack(t)
		if shared {
			m := testenv.StartMiniredis(t)
			s.env = append(s.env, "SECKILL_REDIS_ADDRS="+m.Addr())
			s.flush = func() error { m.FlushAll(); return nil }
			s.killRedis = func() { m.FlushAll(); m.Close() }
			s.restartRedis = func() error {
				// Close ends it, Restart does not make it anew, and blocking commands give no answer without it.
				m.Ctx, m.CtxCancel = context.WithCancel(context.Background())
				return m.Restart()
			}
		}
		fn(t, s)
	})
	t.Run("mariadb", func(t *testing.T) { t.Parallel(); fn(t, realStack(t)) })
	if os.Getenv(testenv.EnvMySQLDSN) != "" {
		t.Run("external", func(t *testing.T) { t.Parallel(); fn(t, externalStack(t)) })
	}
}

// lanes are the order lanes.
var lanes = []string{"lock", "batch", "queue"}

// eachLane runs a test as each does, in every order lane.
func eachLane(t *testing.T, shared bool, fn func(t *testing.T, s *stack)) {
	for _, lane := range lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			each(t, shared, func(t *testing.T, s *stack) { fn(t, s.in(lane)) })
		})
	}
}

// in returns the stack with its servers in a lane.
func (s *stack) in(lane string) *stack {
	c := s.with("SECKILL_ORDER_LANE=" + lane)
	c.lane = lane
	return c
}

func embeddedStack(t *testing.T) *stack {
	dir := t.TempDir()
	return &stack{
		env: []string{
			"SECKILL_DATA_DIR=" + dir, "SECKILL_RATE_LIMIT=off", "SECKILL_JWT_SECRET=" + testSecret, "SECKILL_DEMO=true",
		},
		flush: func() error {
			info, err := app.RunningRedis(dir)
			if err != nil || info == nil {
				return errors.Join(err, errors.New("no embedded Redis runs"))
			}
			rdb := app.OpenRedis(info.Password, info.Addr)
			defer rdb.Close()
			return rdb.FlushAll(context.Background()).Err()
		},
	}
}

// realStack starts a MariaDB and a Redis of the test's own, which it may kill.
func realStack(t *testing.T) *stack {
	db := testenv.StartMariaDB(t)
	s := serverStack(t, db.DSN(t))
	s.mariadb = db
	return s
}

// externalStack uses the MySQL server that the environment names, which nobody may kill.
func externalStack(t *testing.T) *stack { return serverStack(t, testenv.MySQLDSN(t)) }

func serverStack(t *testing.T, dsn string) *stack {
	rds := testenv.StartRedis(t)
	return &stack{
		redis: rds,
		env: []string{
			"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=" + rds.Addr, "SECKILL_DATA_DIR=" + t.TempDir(),
			"SECKILL_RATE_LIMIT=off", "SECKILL_JWT_SECRET=" + testSecret, "SECKILL_DEMO=true",
		},
		flush: func() error {
			rdb := redis.NewClient(&redis.Options{Addr: rds.Addr})
			defer rdb.Close()
			return rdb.FlushAll(context.Background()).Err()
		},
		killRedis:    rds.Kill,
		restartRedis: rds.Restart,
	}
}

// with returns the stack with more environment.
func (s *stack) with(env ...string) *stack {
	c := *s
	c.env = append(append([]string{}, s.env...), env...)
	return &c
}

// command makes the program as a process of its own.
func (s *stack) command(t *testing.T, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = []string{
		envRunMain + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"GORACE=atexit_sleep_ms=0", // else the race detector holds up each exit for a second
	}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Dir = t.TempDir()
	return cmd
}

// setting returns a variable of the stack's environment; the last one counts.
func (s *stack) setting(name string) (value string) {
	for _, e := range s.env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// client connects to the Redis of the stack's servers.
func (s *stack) client(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb, err := app.SharedRedis(app.Config{DataDir: s.setting("SECKILL_DATA_DIR"), RedisAddrs: strings.FieldsFunc(s.setting("SECKILL_REDIS_ADDRS"), func(r rune) bool { return r == ',' })})
	require.NoError(t, err)
	require.NotNil(t, rdb, "no embedded Redis runs")
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// run runs a command to its end.
func (s *stack) run(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	cmd := s.command(t, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// verify requires that the invariants hold.
func (s *stack) verify(t *testing.T) {
	t.Helper()
	code, out := s.run(t, "verify")
	require.Zero(t, code, out)
}

// tokens seeds n buyers and returns their access tokens.
func (s *stack) tokens(t *testing.T, n int) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	code, out := s.run(t, "seed", "--users", fmt.Sprint(n), "--tokens", file)
	require.Zero(t, code, out)
	lines, err := os.ReadFile(file)
	require.NoError(t, err)
	tokens := strings.Fields(string(lines))
	require.Len(t, tokens, n)
	for i, line := range tokens {
		_, tokens[i], _ = strings.Cut(line, ",") // after the user's id
	}
	return tokens
}

// process is a running server.
type process struct {
	*rush.Client
	url  string
	cmd  *exec.Cmd
	log  *buffer
	done chan struct{}
}

// serve starts a server and waits until it listens. addr may be empty: any port.
func (s *stack) serve(t *testing.T, addr string) *process {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	cmd := s.command(t, "serve", "--addr", addr)
	p := &process{cmd: cmd, log: &buffer{}, done: make(chan struct{})}
	cmd.Stderr = p.log
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		p.kill()
		require.NotContains(t, p.log.String(), "DATA RACE")
		if t.Failed() {
			t.Logf("server %s said:\n%s", p.url, p.log)
		}
	})
	lines := bufio.NewScanner(stdout)
	if lines.Scan() {
		p.url, _, _ = strings.Cut(strings.TrimPrefix(lines.Text(), "seckill listens on "), " ")
	}
	go func() {
		for lines.Scan() { // keep the pipe empty
		}
		_ = cmd.Wait()
		close(p.done)
	}()
	require.NotEmpty(t, p.url, "the server did not start:\n%s", p.log)
	p.Client, err = rush.NewClient(p.url, 256)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// kill is SIGKILL; stop is what an operator does, and returns the exit code.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) stop(t *testing.T) int {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("the server does not stop")
	}
	return p.cmd.ProcessState.ExitCode()
}

// admin logs the demo's admin in.
func (p *process) admin(t *testing.T) string {
	t.Helper()
	token, err := p.Login(t.Context(), app.DemoAdmin)
	require.NoError(t, err)
	return token
}

// sale publishes a sale.
func (p *process) sale(t *testing.T, stock int64) string {
	t.Helper()
	v, err := p.CreateSale(t.Context(), p.admin(t), stock)
	require.NoError(t, err)
	return v.ID
}

// freeAddr returns an address to listen on, for servers that must come back where they were.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// buffer is a bytes.Buffer that a process may write while a test reads.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// eventually waits for something that must happen, with room for a slow machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 20*time.Millisecond, what)
}

// Exit codes of verify, reconcile and doctor.
const (
	exitViolation = 1
	exitUnchecked = 2
)
