package rig

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/cli"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/test/env"
)

// Stack is the environment of the servers of one test: their configuration, database and Redis.
type Stack struct {
	Lane string
	// Of the database server.
	Kind env.Kind
	Env  []string
	// The program that processes run; empty: this version.
	Binary string
	// Nil unless ownDatabase or the test started it.
	Database *env.Database
	// Nil unless the test started it.
	Redis *env.Redis
	// Nil if Redis is inside the server.
	KillRedis    func()
	RestartRedis func() error
}

// TestSecret signs the tokens of all test servers.
const TestSecret = "a-secret-for-tests-only-0123456789"

func testEnv() []string {
	return []string{
		"SECKILL_RATE_LIMIT=off",
		"SECKILL_JWT_SECRET=" + TestSecret,
		"SECKILL_DEMO=true",
		"SECKILL_UNSAFE=demo,sandbox,jwt_secret,rate_limit,admins,codes",

		// An ops port, so that the metrics are searched for secrets.
		"SECKILL_OPS_ADDR=127.0.0.1:0",
	}
}

// LockAndQueue are the lanes that run the code of all: lane lock is lane batch within a lock. Tests of what holds without
// that lock also run lane batch.
var LockAndQueue = []string{"lock", "queue"}

// Variants are the stacks on which a test runs: their database, after a lane if it has to be set, as in "queue/mariadb".
// The database is embedded, mariadb or mysql. The embedded one comes with the embedded Redis, the others with a Redis.
type Variants struct {
	core   []string
	full   []string
	raced  []string
	shared bool
}

// Core returns variants that run in every tier.
func Core(names ...string) Variants { return Variants{core: names} }

// Full returns variants that run in make test-all only.
func Full(names ...string) Variants { return Variants{full: names} }

// Full adds variants that run in make test-all only.
func (v Variants) Full(names ...string) Variants {
	v.full = names
	return v
}

// Raced selects what runs under the race detector, which is nothing by default: the tests of the packages race their code,
// and a few end-to-end tests their wiring.
func (v Variants) Raced(names ...string) Variants {
	v.raced = names
	return v
}

// Shared gives the embedded variant a miniredis outside the server, for tests with several servers or with faults of Redis.
func (v Variants) Shared() Variants {
	v.shared = true
	return v
}

// Each runs a test, which is parallel to others, in parallel on the variants of this run. Where only one kind of server is
// tested, it takes the place of MariaDB.
func (v Variants) Each(t *testing.T, fn func(t *testing.T, s *Stack)) {
	t.Helper()
	t.Parallel()
	kind := env.OneKind(t)

	var names []string
	switch {
	case env.RaceDetector:
		names = v.raced
	case env.IsFull():
		names = append(slices.Clone(v.core), v.full...)
	default:
		names = v.core
	}

	if len(names) == 0 {
		env.Full(t)
		env.NoRace(t, "another test races the wiring")
	}

	for _, name := range onKind(names, kind) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, v.stack(t, name))
		})
	}
}

func (v Variants) stack(t *testing.T, name string) *Stack {
	t.Helper()

	var s *Stack
	switch path.Base(name) {
	case "embedded":
		s = embeddedStack(t)
		if v.shared {
			s.shareMiniredis(t)
		}
	case "mariadb":
		s = stackOn(t, env.MariaDB)
	case "mysql":
		s = stackOn(t, env.MySQL)
	default:
		t.Fatalf("no variant is called %s", name)
	}

	if lane := path.Dir(name); lane != "." {
		s = s.In(lane)
	}
	return s
}

func onKind(variants []string, kind env.Kind) []string {
	var all []string
	for _, v := range variants {
		if lane, ok := strings.CutSuffix(v, string(env.MariaDB)); ok {
			v = lane + string(kind)
		}
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}

	return all
}

// shareMiniredis gives the servers of an embedded stack a miniredis outside of them.
func (s *Stack) shareMiniredis(t *testing.T) {
	m := env.StartMiniredis(t)
	s.Env = append(s.Env, "SECKILL_REDIS_ADDRS="+m.Addr())

	s.KillRedis = func() {
		m.FlushAll()
		m.Close()
	}

	s.RestartRedis = func() error {
		// Close cancels Ctx and Restart does not renew it. Blocking commands need it.
		m.Ctx, m.CtxCancel = context.WithCancel(context.Background())
		return m.Restart()
	}
}

// In returns the stack with its servers in the given lane.
func (s *Stack) In(lane string) *Stack {
	c := s.With("SECKILL_ORDER_LANE=" + lane)
	c.Lane = lane
	return c
}

// EmbeddedStack has an embedded database with the newest schema, and the embedded Redis. It skips a test under the race
// detector.
func EmbeddedStack(t *testing.T) *Stack {
	t.Helper()
	env.NoRace(t, "another test races the wiring")
	return embeddedStack(t)
}

func embeddedStack(t *testing.T) *Stack {
	dir := t.TempDir()
	env.CreateSQLite(t, filepath.Join(dir, app.DatabaseFile))

	return &Stack{Env: append(testEnv(), "SECKILL_DATA_DIR="+dir)}
}

// RealStack has a database with the newest schema on the server of all tests, and a Redis that the test may kill.
// It skips a test under the race detector.
func RealStack(t *testing.T) *Stack {
	t.Helper()
	env.NoRace(t, "another test races the wiring")
	return stackOn(t, env.OneKind(t))
}

func stackOn(t *testing.T, kind env.Kind) *Stack {
	s := ServerStack(t, kind.MigratedDSN(t))
	s.Kind = kind
	return s
}

// OwnDatabase returns the stack with a database server that the test may kill, with further arguments for it.
func (s *Stack) OwnDatabase(t *testing.T, args ...string) *Stack {
	db := s.Kind.Start(t, args...)
	c := s.With("SECKILL_MYSQL_DSN=" + db.MigratedDSN(t))
	c.Database = db
	return c
}

// OnEmptyDatabase returns the stack with a database without tables.
func (s *Stack) OnEmptyDatabase(t *testing.T) *Stack {
	if s.IsEmbedded() {
		return s.With("SECKILL_DATA_DIR=" + t.TempDir())
	}

	s.Query(t, func(db *sql.DB) {
		var name string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
		for _, statement := range []string{"DROP DATABASE " + name, "CREATE DATABASE " + name + " CHARACTER SET utf8mb4"} {
			env.Must(db.ExecContext(t.Context(), statement))(t)
		}
	})

	return s
}

// ServerStack has a database with the newest schema, named by its DSN, and a Redis that the test may kill.
func ServerStack(t *testing.T, dsn string) *Stack {
	rds := env.StartRedis(t)
	settings := append(testEnv(),
		"SECKILL_MYSQL_DSN="+dsn,
		"SECKILL_REDIS_ADDRS="+rds.Addr,
		"SECKILL_DATA_DIR="+t.TempDir(),
		"SECKILL_DRAIN=0s",
	)

	return &Stack{
		Kind:         env.OneKind(t),
		Redis:        rds,
		Env:          settings,
		KillRedis:    rds.Kill,
		RestartRedis: rds.Restart,
	}
}

// IsEmbedded reports whether the servers of the stack have the embedded database and Redis.
func (s *Stack) IsEmbedded() bool { return s.Redis == nil }

// Fresh returns a new stack of the same kind.
func (s *Stack) Fresh(t *testing.T) *Stack {
	if s.IsEmbedded() {
		return EmbeddedStack(t)
	}
	return stackOn(t, s.Kind)
}

// With returns a copy of the stack with more environment variables.
func (s *Stack) With(variables ...string) *Stack {
	c := *s
	c.Env = append(append([]string{}, s.Env...), variables...)
	return &c
}

func (s *Stack) command(t *testing.T, args ...string) *exec.Cmd {
	self := env.Must(os.Executable())(t)

	cmd := exec.Command(cmp.Or(s.Binary, self), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{
		EnvRunMain + "=1",
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + t.TempDir(),
	}, s.Env...)

	return cmd
}

// Setting returns the last value of a variable in the stack's environment.
func (s *Stack) Setting(name string) string {
	value := ""
	for _, e := range s.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}

	return value
}

// Client connects to the Redis of the stack's servers.
func (s *Stack) Client(t *testing.T) env.RedisClient {
	t.Helper()
	rdb := env.Must(s.openRedis())(t)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Flush deletes all data in Redis, as after the loss of its disk.
func (s *Stack) Flush() error {
	rdb, err := s.openRedis()
	if err != nil {
		return err
	}
	defer rdb.Close()

	return rdb.FlushAllAsync(context.Background()).Err()
}

func (s *Stack) openRedis() (env.RedisClient, error) {
	rdb, err := app.SharedRedis(app.Config{
		DataDir:       s.Setting("SECKILL_DATA_DIR"),
		RedisAddrs:    strings.FieldsFunc(s.Setting("SECKILL_REDIS_ADDRS"), func(r rune) bool { return r == ',' }),
		RedisCA:       s.Setting("SECKILL_REDIS_CA"),
		RedisSentinel: s.Setting("SECKILL_REDIS_SENTINEL"),
		RedisUsername: s.Setting("SECKILL_REDIS_USERNAME"),
		RedisPassword: s.Setting("SECKILL_REDIS_PASSWORD"),
	})
	if err == nil && rdb == nil {
		err = errors.New("no embedded Redis is running")
	}

	return rdb, err
}

// args returns the arguments of a command after flags with the settings of the stack. As an argument overrides the
// environment of a process, it overrides the flags.
func (s *Stack) args(command ...string) []string {
	settings := map[string]string{}
	for _, e := range s.Env {
		name, value, _ := strings.Cut(e, "=")
		settings[name] = value
	}

	var flags []string
	for name, value := range settings {
		if flag, ok := strings.CutPrefix(name, "SECKILL_"); ok && value != "" && !strings.HasPrefix(flag, "TEST_") {
			flags = append(flags, "--"+strings.ToLower(strings.ReplaceAll(flag, "_", "-"))+"="+value)
		}
	}

	return append(flags, command...)
}

// Run executes a command inside the test's process, which saves the start of the program. It returns the exit code and the
// combined output. A command that got no connection is repeated.
func (s *Stack) Run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	for try := 1; ; try++ {
		var out env.Buffer
		code := s.run(context.WithoutCancel(t.Context()), &out, &out, args...)
		if try == 5 || !dialTimeout.MatchString(out.String()) {
			return code, out.String()
		}

		forgiven.dials.Add(1)
	}
}

// Exits executes a command, requires its exit code and returns its output. It repeats a command that could not check the state,
// because a server did not answer in time.
func (s *Stack) Exits(t *testing.T, want int, args ...string) string {
	t.Helper()
	for try := 1; ; try++ {
		code, out := s.Run(t, args...)
		if code == ExitUnchecked && want != ExitUnchecked && try < 5 {
			forgiven.commands.Add(1)
			continue
		}

		require.Equal(t, want, code, out)
		return out
	}
}

func (s *Stack) run(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	return cli.Run(ctx, s.args(args...), stdout, stderr, parts(s.Setting, args))
}

// dialTimeout is in the output of a command for which a busy machine did not complete a connection in time (2 s). A server
// that is dead refuses it, and a frozen one lets the kernel accept it.
var dialTimeout = regexp.MustCompile(`dial tcp \S+: i/o timeout`)

// RunProcess is run in a process of its own, with the settings in its environment.
func (s *Stack) RunProcess(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := s.command(t, args...)

	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}

	return cmd.ProcessState.ExitCode(), string(out)
}

// Verify requires that `seckill verify` reports no violation.
func (s *Stack) Verify(t *testing.T) {
	t.Helper()
	s.Exits(t, 0, "verify")
}

// Tokens creates n buyers and returns their access tokens. It does what `seckill seed` does, without a process.
func (s *Stack) Tokens(t *testing.T, n int) []string {
	t.Helper()
	demo := true
	cfg := app.Config{
		DataDir:   s.Setting("SECKILL_DATA_DIR"),
		MySQLDSN:  s.Setting("SECKILL_MYSQL_DSN"),
		JWTSecret: s.Setting("SECKILL_JWT_SECRET"),
		Demo:      &demo,
	}

	signer := env.Must(app.NewSigner(cfg))(t)
	store := env.Must(app.OpenStore(cfg))(t)
	defer func() { require.NoError(t, store.Close()) }()

	var buyers []app.Buyer
	var err error
	Eventually(t, "the database answers", func() bool {
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

// Server is a running server.
type Server struct {
	*rush.Client
	URL string
	Log *env.Buffer
	// Has the effect of SIGTERM.
	interrupt func() error
	// Nil inside the test's process.
	Cmd  *exec.Cmd
	Done chan struct{}
	// Exit code after done.
	code int

	// The last that Scrape read.
	Metrics string
	stack   *Stack
	// See MayRefuse.
	mayRefuse bool
}

// Logs waits for a text in the log, which may arrive after the answer that it belongs to.
func (p *Server) Logs(t *testing.T, text string) {
	t.Helper()
	Eventually(t, "the log has "+text, func() bool { return strings.Contains(p.Log.String(), text) })
}

// Serve starts a server inside the test's process, which saves the start and the runtime of another one, and returns when it
// listens. At the end of the test the server ends as after SIGTERM, and TestMain finds what it leaves running.
func (s *Stack) Serve(t *testing.T) *Server {
	t.Helper()
	for _, e := range s.Env {
		require.True(t, strings.HasPrefix(e, "SECKILL_") && !strings.HasPrefix(e, EnvKillKeys), "%s needs a process", e)
	}

	ctx, interrupt := context.WithCancel(context.WithoutCancel(t.Context()))
	p := s.newServer(func() error {
		interrupt()
		return nil
	})

	stdout, out := io.Pipe()
	go func() {
		defer close(p.Done)
		p.code = s.run(ctx, out, p.Log, "serve", "--addr=127.0.0.1:0")
		_ = out.Close()
	}()

	t.Cleanup(func() {
		defer s.examine(t, p)
		if p.running() {
			p.Stop(t)
		}
		require.Zero(t, p.code)
	})

	p.listening(t, stdout)
	return p
}

func (s *Stack) newServer(interrupt func() error) *Server {
	return &Server{
		stack:     s,
		Log:       &env.Buffer{},
		Done:      make(chan struct{}),
		interrupt: interrupt,
	}
}

// Spawn starts a server in a process of its own, with the settings in its environment, and returns when it listens. An empty
// addr selects a free port. A server needs a process if the test kills it or starts it again on its address, if the
// environment, the limits of a process or the messages of go-redis matter, or if nothing but database and Redis may connect it
// with another one: SQLite locks its file between processes only.
func (s *Stack) Spawn(t *testing.T, addr string) *Server {
	t.Helper()
	cmd := s.command(t, "serve", "--addr", cmp.Or(addr, "127.0.0.1:0"))
	p := s.newServer(func() error { return cmd.Process.Signal(syscall.SIGTERM) })
	p.Cmd = cmd

	stdout, out := io.Pipe()
	cmd.Stdout = out
	cmd.Stderr = p.Log
	require.NoError(t, cmd.Start())

	go func() {
		defer close(p.Done)
		_ = cmd.Wait()
		p.code = cmd.ProcessState.ExitCode()
		_ = out.Close()
	}()

	t.Cleanup(func() {
		if p.running() {
			p.Scrape(t)
		}
		p.Kill()
		s.examine(t, p)
	})

	p.listening(t, stdout)
	return p
}

func (p *Server) listening(t *testing.T, stdout io.Reader) {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	if lines.Scan() {
		p.URL, _, _ = strings.Cut(strings.TrimPrefix(lines.Text(), "seckill listens on "), " ")
	}

	// So that the server does not block.
	go func() { _, _ = io.Copy(io.Discard, stdout) }()

	require.NotEmpty(t, p.URL, "the server did not start:\n%s", p.Log)
	forgiven.servers.Add(1)

	var err error
	p.Client, err = rush.NewClient(p.URL, 256)
	require.NoError(t, err)
	t.Cleanup(p.Close)
}

// examine searches the log and the metrics of a server that has ended for secrets, and the metrics for too many refusals.
func (s *Stack) examine(t *testing.T, p *Server) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("log of server %s:\n%s", p.URL, p.Log)
		}
	}()

	require.Empty(t, s.Leaks(p), "log or metrics have secrets")

	// The race detector makes a server many times slower.
	if !p.mayRefuse && !env.RaceDetector {
		require.NoError(t, JudgeRefusals(p.Metrics), "nothing that the test does explains this: see MayRefuse")
	}
}

func (p *Server) running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Kill sends SIGKILL and waits for the end of the process.
func (p *Server) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Done
}

// Stop does what SIGTERM does, waits up to a minute and returns the exit code.
func (p *Server) Stop(t *testing.T) int {
	t.Helper()
	p.Scrape(t)
	require.NoError(t, p.interrupt())

	select {
	case <-p.Done:
	case <-time.After(time.Minute):
		t.Fatal("the server did not stop within a minute")
	}

	return p.code
}

// LogIn logs in to a demo and returns the body of the answer.
func (p *Server) LogIn(t *testing.T, phone string) map[string]any {
	t.Helper()
	sent := p.Do(t, Post("/auth/code", "", map[string]any{"phone": phone}))
	return p.Must(t, Post("/auth/login", "", map[string]any{
		"phone":    phone,
		"login_id": sent.Body["login_id"],
		"code":     sent.Header.Get("X-Demo-Code"),
	}))
}

// LoginToken logs in and returns the access token.
func (p *Server) LoginToken(t *testing.T, phone string) string {
	t.Helper()
	return p.LogIn(t, phone)["access_token"].(string)
}

// Admin logs in as the demo's admin and returns the access token.
func (p *Server) Admin(t *testing.T) string {
	t.Helper()
	return p.LoginToken(t, app.DemoAdmin)
}

// Sale publishes a running sale and returns its id.
func (p *Server) Sale(t *testing.T, stock int64) string {
	t.Helper()
	return p.Publish(t, Offer{Stock: stock})
}

// Eventually waits up to a minute for a condition.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 20*time.Millisecond, what)
}

// Exit codes of verify, reconcile and doctor.
const (
	ExitViolation = 1
	ExitUnchecked = 2
)

// Commands returns the commands in the audit log, newest first.
func (p *Server) Commands(t *testing.T) []string {
	t.Helper()

	var commands []string
	for _, r := range p.Items(t, Get("/admin/audit?kind=request", p.Admin(t))) {
		if r["method"] == "CLI" {
			target, _ := r["target"].(string)
			commands = append(commands, strings.TrimSpace(r["route"].(string)+" "+target))
		}
	}

	return commands
}

var totpKey = regexp.MustCompile(`(?m)^key: ([A-Z2-7]+)$`)

// Enroll gives an admin a second factor and returns its key.
func (s *Stack) Enroll(t *testing.T, phone string) string {
	t.Helper()
	out := s.Exits(t, 0, "admin", "enroll", "--phone", phone, "--role", "admin")
	return totpKey.FindStringSubmatch(out)[1]
}

// Exec executes SQL directly on the stack's database, again after a deadlock with a server.
func (s *Stack) Exec(t *testing.T, query string) {
	t.Helper()
	s.Query(t, func(db *sql.DB) {
		// ER_LOCK_DEADLOCK.
		const deadlock = 1213

		for try := 1; ; try++ {
			_, err := db.ExecContext(t.Context(), query)
			refused, ok := errors.AsType[*mysql.MySQLError](err)
			if !ok || refused.Number != deadlock || try == 10 {
				require.NoError(t, err)
				return
			}
		}
	})
}

// Query passes an open connection to the stack's database to do.
func (s *Stack) Query(t *testing.T, do func(*sql.DB)) {
	t.Helper()

	driver := "mysql"
	dsn := s.Setting("SECKILL_MYSQL_DSN")
	if dsn == "" {
		driver = "sqlite"
		dsn = "file:" + filepath.Join(s.Setting("SECKILL_DATA_DIR"), app.DatabaseFile) + "?_pragma=busy_timeout(5000)"
	}

	db := env.Must(sql.Open(driver, dsn))(t)
	defer db.Close()

	do(db)
}

// RequireNoStart requires that a server waits at its start for what does not answer, and returns its output.
func (s *Stack) RequireNoStart(t *testing.T, what string) string {
	t.Helper()
	ctx, giveUp := context.WithCancel(context.WithoutCancel(t.Context()))
	defer giveUp()

	var out env.Buffer
	code := make(chan int, 1)
	go func() { code <- s.run(ctx, &out, &out, "serve", "--addr", "127.0.0.1:0") }()

	Eventually(t, "the server waits for "+what, func() bool { return strings.Contains(out.String(), "waiting for "+what) })
	giveUp()
	require.Equal(t, 1, <-code, out.String())
	require.Contains(t, out.String(), what+" does not answer")
	return out.String()
}

// AdminPhone is the number of an admin of the console tests, one per test: a second login code would replace the first.
func AdminPhone(i int) string { return fmt.Sprintf("138111100%02d", i) }

// WithAdmins returns the stack with the demo's admin for API requests and further ones for the console.
func (s *Stack) WithAdmins() *Stack {
	phones := app.DemoAdmin
	for i := range 40 {
		phones += "," + AdminPhone(i)
	}

	return s.With("SECKILL_ADMIN_PHONES=" + phones)
}
