package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/ops/rush"
	"seckill/test/env/servers"
)

// stack is a database, a Redis, the users, and the servers that are compared.
type stack struct {
	mariadb *servers.Database
	db      *sql.DB

	redis *servers.Redis
	rdb   *redis.Client

	// Path of the seckill program.
	binary string
	// Private directory.
	dir string
	// Settings of seckill for this stack.
	env []string
	// Access tokens, one per user.
	tokens []string
	// Token of one more user.
	extra string
	// ID of the last published sale.
	newest string
	// Running servers besides the database and Redis.
	servers map[*process]bool
}

// process is a server that this program started.
type process struct {
	*servers.Program

	// Host:port of metrics and profiles; empty if there is none.
	ops string
}

// stopTimeout is longer than the 20 s that a server may take to finish its requests.
const stopTimeout = 25 * time.Second

const adminPhone = "13800000000"

// newStack starts MariaDB, of a realistic size, and Redis, and seeds the users. A commit is on disk before it is acknowledged.
// dir must not exist; it gets all files.
func newStack(ctx context.Context, binary, dir string, users int, bufferPool int64) (_ *stack, err error) {
	s := &stack{
		binary:  binary,
		dir:     dir,
		servers: map[*process]bool{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()

	if err := os.Mkdir(dir, 0o700); err != nil { //nolint:gosec // a directory of this program
		return nil, err
	}

	s.mariadb, err = servers.RunMariaDB(ctx, "--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=512M",
		fmt.Sprintf("--innodb-buffer-pool-size=%d", bufferPool))
	if err != nil {
		return nil, err
	}

	dsn, err := s.mariadb.CreateDatabase(ctx, "seckill")
	if err != nil {
		return nil, err
	}

	if s.db, err = sql.Open("mysql", dsn); err != nil {
		return nil, err
	}

	if s.redis, err = servers.RunRedis(ctx, "--appendonly", "yes", "--appendfsync", "everysec"); err != nil {
		return nil, err
	}

	s.rdb = redis.NewClient(&redis.Options{Addr: s.redis.Addr})

	s.env = []string{
		"SECKILL_MYSQL_DSN=" + dsn,
		"SECKILL_REDIS_ADDRS=" + s.redis.Addr,
		"SECKILL_JWT_SECRET=" + rand.Text() + rand.Text(),
		"SECKILL_DATA_DIR=" + filepath.Join(dir, "data"),

		// Because the admin logs in often.
		"SECKILL_DEMO=true",
		"SECKILL_ADMIN_PHONES=" + adminPhone,
		"SECKILL_RATE_LIMIT=off",
		"SECKILL_UNSAFE=demo,sandbox,rate_limit",

		// Unpaid orders must stay open for the whole run.
		"SECKILL_PAY_TIMEOUT=24h",
		"SECKILL_LOG_LEVEL=warn",
		"SECKILL_DRAIN=0s",
	}

	return s, s.seed(ctx, users)
}

func (s *stack) close() error {
	errs := []error{s.stopServers()}
	if s.rdb != nil {
		errs = append(errs, s.rdb.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Stop())
	}
	if s.mariadb != nil {
		errs = append(errs, s.mariadb.Stop())
	}

	errs = append(errs, os.RemoveAll(s.dir)) //nolint:gosec // a directory of this program
	return errors.Join(errs...)
}

func (s *stack) seckill(ctx context.Context, args ...string) error {
	_, _, err := seckill(ctx, s.binary, s.env, args...)
	return err
}

func seckill(ctx context.Context, binary string, settings []string, args ...string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // built by this program
	cmd.Env = environment(settings)

	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("seckill %s: %w\n%s", strings.Join(args, " "), err, out)
	}

	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func (s *stack) seed(ctx context.Context, users int) error {
	file := filepath.Join(s.dir, "tokens")
	if err := s.seckill(ctx, "seed", "--users", strconv.Itoa(users+1), "--tokens", file); err != nil {
		return err
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	for line := range strings.Lines(string(text)) {
		_, token, _ := strings.Cut(strings.TrimSpace(line), ",")
		s.tokens = append(s.tokens, token)
	}

	if len(s.tokens) != users+1 {
		return fmt.Errorf("seckill seed wrote %d tokens for %d users", len(s.tokens), users+1)
	}

	s.extra = s.tokens[users]
	s.tokens = s.tokens[:users]
	return nil
}

func (s *stack) serve(ctx context.Context, lane string, settings ...string) (*process, error) {
	return s.start(ctx, slices.Concat(s.env, []string{"SECKILL_ORDER_LANE=" + lane}, settings))
}

// serveEmbedded starts a server with default settings, except for its addresses and its data directory, which is new. It
// returns the setting of that directory too.
func (s *stack) serveEmbedded(ctx context.Context) (*process, string, error) {
	data := "SECKILL_DATA_DIR=" + filepath.Join(s.dir, "embedded")
	p, err := s.start(ctx, []string{data})
	return p, data, err
}

func (s *stack) start(ctx context.Context, settings []string) (*process, error) {
	ops, _, err := servers.ReserveAddr(ctx)
	if err != nil {
		return nil, err
	}

	settings = slices.Concat(settings, []string{"SECKILL_OPS_ADDR=" + ops})
	p, err := s.startProcess(ctx, s.binary, settings, func(addr string) []string { return []string{"serve", "--addr", addr} })
	if err != nil {
		return nil, err
	}

	p.ops = ops
	return p, nil
}

func (s *stack) reference(ctx context.Context, kind string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	return s.startProcess(ctx, self, nil, func(addr string) []string {
		return []string{referenceCommand, kind, s.redis.Addr, addr}
	})
}

func (s *stack) stopServers() error {
	var errs []error
	for p := range s.servers {
		errs = append(errs, p.Terminate(stopTimeout), p.Stop())
	}

	clear(s.servers)
	return errors.Join(errs...)
}

// admin logs the admin in. The token expires before this program ends.
func (s *stack) admin(ctx context.Context, p *process) (*rush.Client, string, error) {
	client, err := rush.NewClient("http://"+p.Addr, 1)
	if err != nil {
		return nil, "", err
	}

	token, err := client.Login(ctx, adminPhone)
	if err != nil {
		client.Close()
		return nil, "", fmt.Errorf("log the admin in: %w", err)
	}

	return client, token, nil
}

func (s *stack) sales(ctx context.Context, p *process, n int, stock int64) ([]string, error) {
	client, admin, err := s.admin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	ids := make([]string, n)
	for i := range ids {
		v, err := client.CreateSale(ctx, admin, "Benchmark", stock)
		if err != nil {
			return nil, fmt.Errorf("create a sale: %w", err)
		}
		ids[i] = v.ID
		s.newest = v.ID
	}

	return ids, nil
}

func (s *stack) startProcess(ctx context.Context, bin string, settings []string, args func(addr string) []string) (*process, error) {
	program, err := servers.RunProgram(ctx, bin, environment(settings), args)
	if err != nil {
		return nil, err
	}

	p := &process{Program: program}
	s.servers[p] = true
	return p, nil
}

func environment(settings []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SECKILL_") })
	return append(env, settings...)
}
