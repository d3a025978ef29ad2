package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/app"
	"seckill/internal/cli"
	"seckill/internal/domain"
	"seckill/internal/rush"
	"seckill/test/dbtest"
	"seckill/test/servers"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(envRunMain) != "" {
		os.Exit(runBroken())
	}
	for _, e := range os.Environ() { // run and serve read this environment, too
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST_") {
			_ = os.Unsetenv(name)
		}
	}
	testenv.Main(m, func() error {
		stopBrowser()
		return goroutines()
	})
}

// goroutines returns an error if goroutines are left. It waits for go-redis, which sees only after its next dial of a dead
// server that a client is closed.
func goroutines() (err error) {
	for range 20 {
		// otter ends the goroutine of a cache after the cache is collected.
		if err = goleak.Find(goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]")); err == nil {
			return nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	return err
}

// stack is the environment of the servers of one test: their configuration, database and Redis.
type stack struct {
	lane     string
	kind     testenv.Kind // of the database server
	env      []string
	binary   string            // of the program; empty: this version
	database *testenv.Database // nil unless ownDatabase or the test started it
	redis    *testenv.Redis    // nil unless the test started it
	// flush deletes all data in Redis, as after the loss of its disk.
	flush func() error
	// killRedis and restartRedis are nil if Redis is inside the server.
	killRedis    func()
	restartRedis func() error
}

// testSecret signs the tokens of all test servers.
const testSecret = "a-secret-for-tests-only-0123456789"

// testOps gives every server an ops port, so that its metrics are searched for secrets.
const testOps = "SECKILL_OPS_ADDR=127.0.0.1:0"

// testUnsafe accepts the settings of test servers.
const testUnsafe = "SECKILL_UNSAFE=demo,sandbox,jwt_secret,rate_limit,admins,codes"

// smoke names the tests that onEach runs with -short, on the embedded default. TestAPIFile sends every request in every
// lane. The others cover what it does not: no oversell, one order per user, and the commands.
var smoke = []string{
	"TestRush", "TestOneUserHundredTimes", "TestKeyHasOneEffect", "TestLimitPerUser", "TestHmdpPurchase", "TestOrderStreamFromAnyServer",
	"TestVerifyReportsViolations", "TestMigrateUpAndDown", "TestWithoutLocks",
}

// each runs a test in parallel on the embedded default, and on MariaDB and Redis. A test with several servers or with
// faults of Redis sets shared: the embedded variant then uses SQLite and a miniredis outside the server.
func each(t *testing.T, shared bool, fn func(t *testing.T, s *stack)) {
	onEach(t, []string{"embedded", "mariadb"}, shared, fn)
}

// onServers are the variants of a test of statements or transactions that does not depend on the lane.
var onServers = []string{"mariadb", "mysql"}

// lanes are the order lanes.
var lanes = []string{"lock", "batch", "queue"}

// lockAndQueue are the lanes that run the code of all: lane lock is lane batch within a lock. Tests of what holds without
// that lock also run lane batch.
var lockAndQueue = []string{"lock", "queue"}

// eachLane is each for a test whose outcome depends on the lane, with the lanes of lockAndQueue, and on the embedded
// default in its own lane only. Tests of a server's end also run the embedded lane queue.
func eachLane(t *testing.T, shared bool, fn func(t *testing.T, s *stack)) {
	onEach(t, eachLaneVariants, shared, fn)
}

var (
	eachLaneVariants = []string{"lock/embedded", "lock/mariadb", "queue/mariadb"}
	onEmbedded       = []string{"lock/embedded", "batch/embedded", "queue/embedded"}
	onMariaDB        = []string{"lock/mariadb", "batch/mariadb", "queue/mariadb"}
	onMySQL          = []string{"lock/mysql", "batch/mysql", "queue/mysql"}
)

// onEach runs a test in parallel on variants that are named by their database, after a lane if it has to be set. Where
// only one kind of server is tested, it takes the place of MariaDB.
func onEach(t *testing.T, variants []string, shared bool, fn func(t *testing.T, s *stack)) {
	if name, _, _ := strings.Cut(t.Name(), "/"); !slices.Contains(smoke, name) {
		testenv.Full(t)
	}
	kind := testenv.OneKind(t)
	for _, variant := range onKind(variants, kind) {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			var s *stack
			switch path.Base(variant) {
			case "embedded":
				s = embeddedStack(t)
				if shared {
					s.shareMiniredis(t)
				}
			case "mariadb":
				s = stackOn(t, testenv.MariaDB)
			case "mysql":
				s = stackOn(t, testenv.MySQL)
			}
			if lane := path.Dir(variant); lane != "." {
				s = s.in(lane)
			}
			fn(t, s)
		})
	}
}

// onKind returns the variants where a kind of server takes the place of MariaDB.
func onKind(variants []string, kind testenv.Kind) []string {
	var all []string
	for _, v := range variants {
		if lane, ok := strings.CutSuffix(v, string(testenv.MariaDB)); ok {
			v = lane + string(kind)
		}
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// shareMiniredis gives the servers of an embedded stack a miniredis outside of them.
func (s *stack) shareMiniredis(t *testing.T) {
	m := testenv.StartMiniredis(t)
	s.env = append(s.env, "SECKILL_REDIS_ADDRS="+m.Addr())
	s.flush = func() error { m.FlushAll(); return nil }
	s.killRedis = func() { m.FlushAll(); m.Close() }
	s.restartRedis = func() error {
		// Close cancels Ctx and Restart does not renew it. Blocking commands need it.
		m.Ctx, m.CtxCancel = context.WithCancel(context.Background())
		return m.Restart()
	}
}

// in returns the stack with its servers in the given lane.
func (s *stack) in(lane string) *stack {
	c := s.with("SECKILL_ORDER_LANE=" + lane)
	c.lane = lane
	return c
}

// embeddedStack has an embedded database with the newest schema, and the embedded Redis.
func embeddedStack(t *testing.T) *stack {
	dir := t.TempDir()
	dbtest.CreateSQLite(t, filepath.Join(dir, app.DatabaseFile))
	return &stack{
		env: []string{
			"SECKILL_DATA_DIR=" + dir, "SECKILL_RATE_LIMIT=off", "SECKILL_JWT_SECRET=" + testSecret, "SECKILL_DEMO=true", testUnsafe, testOps,
		},
		flush: func() error {
			rdb, err := app.SharedRedis(app.Config{DataDir: dir})
			if err != nil || rdb == nil {
				return errors.Join(err, errors.New("no embedded Redis is running"))
			}
			defer rdb.Close()
			return rdb.FlushAll(context.Background()).Err()
		},
	}
}

// realStack has a database with the newest schema on the server of all tests, and a Redis that the test may kill.
func realStack(t *testing.T) *stack {
	return stackOn(t, testenv.OneKind(t))
}

// stackOn is realStack on a kind of database server.
func stackOn(t *testing.T, kind testenv.Kind) *stack {
	s := serverStack(t, dbtest.DSN(t, kind))
	s.kind = kind
	return s
}

// ownDatabase returns the stack with a database server that the test may kill, with further arguments for it.
func (s *stack) ownDatabase(t *testing.T, args ...string) *stack {
	db := s.kind.Start(t, args...)
	c := s.with("SECKILL_MYSQL_DSN=" + dbtest.ServerDSN(t, db))
	c.database = db
	return c
}

// onEmptyDatabase returns the stack with a database without tables.
func (s *stack) onEmptyDatabase(t *testing.T) *stack {
	if s.isEmbedded() {
		return s.with("SECKILL_DATA_DIR=" + t.TempDir())
	}
	s.query(t, func(db *sql.DB) {
		var name string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
		for _, statement := range []string{"DROP DATABASE " + name, "CREATE DATABASE " + name + " CHARACTER SET utf8mb4"} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	})
	return s
}

func serverStack(t *testing.T, dsn string) *stack {
	rds := testenv.StartRedis(t)
	return &stack{
		kind:  testenv.OneKind(t),
		redis: rds,
		env: []string{
			"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=" + rds.Addr, "SECKILL_DATA_DIR=" + t.TempDir(),
			"SECKILL_RATE_LIMIT=off", "SECKILL_JWT_SECRET=" + testSecret, "SECKILL_DEMO=true", testUnsafe, testOps, "SECKILL_DRAIN=0s",
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

// isEmbedded reports whether the servers of the stack have the embedded database and Redis.
func (s *stack) isEmbedded() bool { return s.redis == nil }

// fresh returns a new stack of the same kind.
func (s *stack) fresh(t *testing.T) *stack {
	if s.isEmbedded() {
		return embeddedStack(t)
	}
	return stackOn(t, s.kind)
}

// with returns a copy of the stack with more environment variables.
func (s *stack) with(env ...string) *stack {
	c := *s
	c.env = append(append([]string{}, s.env...), env...)
	return &c
}

// command returns a command that runs the program as a separate process.
func (s *stack) command(t *testing.T, args ...string) *exec.Cmd {
	exe := s.binary
	if exe == "" {
		var err error
		exe, err = os.Executable()
		require.NoError(t, err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = []string{
		envRunMain + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"GORACE=atexit_sleep_ms=0", // by default the race detector delays each exit by a second
	}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Dir = t.TempDir()
	return cmd
}

// setting returns the last value of a variable in the stack's environment.
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
	rdb, err := app.SharedRedis(app.Config{
		DataDir:    s.setting("SECKILL_DATA_DIR"),
		RedisAddrs: strings.FieldsFunc(s.setting("SECKILL_REDIS_ADDRS"), func(r rune) bool { return r == ',' }),
		RedisCA:    s.setting("SECKILL_REDIS_CA"), RedisSentinel: s.setting("SECKILL_REDIS_SENTINEL"),
		RedisUsername: s.setting("SECKILL_REDIS_USERNAME"), RedisPassword: s.setting("SECKILL_REDIS_PASSWORD"),
	})
	require.NoError(t, err)
	require.NotNil(t, rdb, "no embedded Redis is running")
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// args returns the arguments of a command after flags with the settings of the stack. As an argument overrides the
// environment of a process, it overrides the flags.
func (s *stack) args(command ...string) (flags []string) {
	settings := map[string]string{}
	for _, e := range s.env {
		name, value, _ := strings.Cut(e, "=")
		settings[name] = value
	}
	for name, value := range settings {
		if flag, ok := strings.CutPrefix(name, "SECKILL_"); ok && value != "" && !strings.HasPrefix(flag, "TEST_") {
			flags = append(flags, "--"+strings.ToLower(strings.ReplaceAll(flag, "_", "-"))+"="+value)
		}
	}
	return append(flags, command...)
}

// run executes a command inside the test's process, which saves the start of the program, or that of another version in a
// process. It returns the exit code and the combined output. A command that got no connection is repeated.
func (s *stack) run(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	if s.binary != "" {
		return s.runProcess(t, args...)
	}
	for try := 1; ; try++ {
		var out buffer
		code = cli.Run(context.WithoutCancel(t.Context()), s.args(args...), &out, &out, tuning(s.setting))
		if try == 5 || !dialTimeout.MatchString(out.String()) {
			return code, out.String()
		}
	}
}

// dialTimeout is in the output of a command for which a busy machine did not complete a connection in time (2 s). A server
// that is dead refuses it, and a frozen one lets the kernel accept it.
var dialTimeout = regexp.MustCompile(`dial tcp \S+: i/o timeout`)

// runProcess is run in a process of its own, with the settings in its environment.
func (s *stack) runProcess(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	cmd := s.command(t, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// verify requires that `seckill verify` reports no violation. It repeats the command if a server did not answer in time.
func (s *stack) verify(t *testing.T) {
	t.Helper()
	code, out := s.check(t, "verify")
	require.Zero(t, code, out)
}

// tokens creates n buyers and returns their access tokens. It does what `seckill seed` does, without a process.
func (s *stack) tokens(t *testing.T, n int) []string {
	t.Helper()
	demo := true
	cfg := app.Config{
		DataDir: s.setting("SECKILL_DATA_DIR"), MySQLDSN: s.setting("SECKILL_MYSQL_DSN"), JWTSecret: s.setting("SECKILL_JWT_SECRET"), Demo: &demo,
	}
	signer, err := app.NewSigner(cfg)
	require.NoError(t, err)
	store, err := app.OpenStore(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var buyers []app.Buyer
	eventually(t, "the database answers", func() bool {
		buyers, err = app.SeedBuyers(t.Context(), store, signer, n)
		return !errors.Is(err, domain.ErrUnavailable)
	})
	require.NoError(t, err)
	tokens := make([]string, n)
	for i, b := range buyers {
		tokens[i] = b.Token
	}
	return tokens
}

// server is a running server.
type server struct {
	*rush.Client
	url       string
	log       *buffer
	interrupt func() error // has the effect of SIGTERM
	cmd       *exec.Cmd    // nil inside the test's process
	done      chan struct{}
	code      int // exit code after done

	metrics string // all that scrape read
}

// logs waits for a text in the log, which may arrive after the answer that it belongs to.
func (p *server) logs(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log has "+text, func() bool { return strings.Contains(p.log.String(), text) })
}

// serve starts a server inside the test's process, which saves the start and the runtime of another one, and returns when it
// listens. At the end of the test the server ends as after SIGTERM, and TestMain finds what it leaves running.
func (s *stack) serve(t *testing.T) *server {
	t.Helper()
	require.Empty(t, s.binary)
	for _, e := range s.env {
		require.True(t, strings.HasPrefix(e, "SECKILL_") && !strings.HasPrefix(e, envKill), "%s needs a process", e)
	}
	ctx, interrupt := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &server{log: &buffer{}, done: make(chan struct{}), interrupt: func() error { interrupt(); return nil }}
	stdout, out := io.Pipe()
	go func() {
		defer close(p.done)
		p.code = cli.Run(ctx, s.args("serve", "--addr=127.0.0.1:0"), out, p.log, tuning(s.setting))
		_ = out.Close() // never fails
	}()
	t.Cleanup(func() {
		defer s.examine(t, p)
		if p.running() {
			p.stop(t)
		}
		require.Zero(t, p.code)
	})
	p.listening(t, stdout)
	return p
}

// spawn starts a server in a process of its own, with the settings in its environment, and returns when it listens. An empty
// addr selects a free port. A server needs a process if the test kills it or starts it again on its address, if the
// environment, the limits of a process or the messages of go-redis matter, or if nothing but database and Redis may connect it
// with another one: SQLite locks its file between processes only.
func (s *stack) spawn(t *testing.T, addr string) *server {
	t.Helper()
	cmd := s.command(t, "serve", "--addr", cmp.Or(addr, "127.0.0.1:0"))
	p := &server{log: &buffer{}, done: make(chan struct{}), cmd: cmd, interrupt: func() error { return cmd.Process.Signal(syscall.SIGTERM) }}
	cmd.Stderr = p.log
	stdout, out := io.Pipe()
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
		p.code = cmd.ProcessState.ExitCode()
		_ = out.Close() // never fails
	}()
	t.Cleanup(func() {
		if p.running() {
			p.scrape()
		}
		p.kill()
		require.NotContains(t, p.log.String(), "DATA RACE")
		s.examine(t, p)
	})
	p.listening(t, stdout)
	return p
}

// listening waits for the first line of a server, which has its URL.
func (p *server) listening(t *testing.T, stdout io.Reader) {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	if lines.Scan() {
		p.url, _, _ = strings.Cut(strings.TrimPrefix(lines.Text(), "seckill listens on "), " ")
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // so that the server does not block
	require.NotEmpty(t, p.url, "the server did not start:\n%s", p.log)
	var err error
	p.Client, err = rush.NewClient(p.url, 256)
	require.NoError(t, err)
	t.Cleanup(p.Close)
}

// examine searches the log and the metrics of a server that has ended.
func (s *stack) examine(t *testing.T, p *server) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("log of server %s:\n%s", p.url, p.log)
		}
	}()
	require.Empty(t, s.leaks(p), "log or metrics have secrets")
}

// running reports whether the server has not ended.
func (p *server) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill sends SIGKILL and waits for the end of the process.
func (p *server) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop does what SIGTERM does, waits up to a minute and returns the exit code.
func (p *server) stop(t *testing.T) int {
	t.Helper()
	p.scrape()
	require.NoError(t, p.interrupt())
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("the server did not stop within a minute")
	}
	return p.code
}

// answered returns the result of a call that has to succeed. It repeats a call that is answered 503, as a server on a busy
// machine may do.
func answered[T any](t *testing.T, call func() (T, error)) (result T) {
	t.Helper()
	eventually(t, "an answer other than 503", func() bool {
		var err error
		result, err = call()
		if busy(err) {
			return false
		}
		require.NoError(t, err)
		return true
	})
	return result
}

// busy reports whether an answer asks to come back.
func busy(err error) bool {
	var refusal *rush.Problem
	return errors.As(err, &refusal) && slices.Contains([]string{"unavailable", "overloaded", "order_in_progress"}, refusal.Code)
}

// login logs in and returns the access token.
func (p *server) login(t *testing.T, phone string) string {
	t.Helper()
	return answered(t, func() (string, error) { return p.Login(t.Context(), phone) })
}

// admin logs in as the demo's admin and returns the access token.
func (p *server) admin(t *testing.T) string {
	t.Helper()
	return p.login(t, app.DemoAdmin)
}

// sale publishes a running sale and returns its id.
func (p *server) sale(t *testing.T, stock int64) string {
	t.Helper()
	admin := p.admin(t)
	return answered(t, func() (rush.Voucher, error) { return p.CreateSale(t.Context(), admin, stock) }).ID
}

// freeAddr returns an address that is reserved for the test: a server can be stopped and started again on it, and
// nothing listens there otherwise.
func freeAddr(t *testing.T) string {
	t.Helper()
	addr, release, err := servers.ReserveAddr(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, release()) })
	return addr
}

// buffer is a bytes.Buffer for concurrent use.
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

// eventually waits up to a minute for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 20*time.Millisecond, what)
}

// Exit codes of verify, reconcile and doctor.
const (
	exitViolation = 1
	exitUnchecked = 2
)
