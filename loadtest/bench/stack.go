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
	"golang.org/x/sync/errgroup"

	"seckill/internal/ops/rush"
	"seckill/test/env/servers"
)

// stack is a database, a Redis, the users, and the servers that are compared.
type stack struct {
	mariadb *servers.Database
	redis   *servers.Redis
	db      *sql.DB
	rdb     *redis.Client
	dbPID   int
	rdbPID  int

	// Path of the seckill program.
	binary string
	dir    string // private directory
	// Settings of seckill for this stack.
	env []string
	// Access tokens, one per user.
	tokens []string
	// Token of one more user.
	extra string
	// ID of the last published sale.
	newest string
	// The passes of the users for the last sale that needs passes.
	passes  []string
	servers map[*process]bool
}

const adminPhone = "13800000000"

// mariaDBArgs returns the arguments of a database of realistic size. A commit is on disk before it is acknowledged.
func mariaDBArgs(bufferPool int64) []string {
	return []string{
		"--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=512M",
		fmt.Sprintf("--innodb-buffer-pool-size=%d", bufferPool),
	}
}

// newStack starts MariaDB and Redis and seeds the users. dir must not exist; it gets all files.
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
	if s.mariadb, err = servers.RunMariaDB(ctx, mariaDBArgs(bufferPool)...); err != nil {
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
		"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=" + s.redis.Addr, "SECKILL_JWT_SECRET=" + rand.Text() + rand.Text(),
		"SECKILL_DATA_DIR=" + filepath.Join(dir, "data"), "SECKILL_ADDR=127.0.0.1:0",
		// Because the admin logs in often.
		"SECKILL_DEMO=true", "SECKILL_ADMIN_PHONES=" + adminPhone, "SECKILL_RATE_LIMIT=off",
		"SECKILL_UNSAFE=demo,sandbox,rate_limit",
		// Unpaid orders must stay open for the whole run.
		"SECKILL_PAY_TIMEOUT=24h",
		"SECKILL_LOG_LEVEL=warn", "SECKILL_DRAIN=0s",
	}

	if err := s.findPIDs(ctx); err != nil {
		return nil, err
	}

	return s, s.seed(ctx, users)
}

// close stops the servers and removes their data.
func (s *stack) close() error {
	s.stopServers()
	var errs []error
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

// findPIDs finds the process IDs of MariaDB and Redis, which cpuTime needs.
func (s *stack) findPIDs(ctx context.Context) error {
	var file string
	if err := s.db.QueryRowContext(ctx, "SELECT @@pid_file").Scan(&file); err != nil {
		return err
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	if s.dbPID, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return fmt.Errorf("process ID of the database: %w", err)
	}

	info, err := s.rdb.Info(ctx, "server").Result()
	if err != nil {
		return err
	}

	s.rdbPID, err = strconv.Atoi(infoField(info, "process_id"))
	return err
}

// infoField returns a field of Redis's INFO.
func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// seckill runs a command of the program on this stack.
func (s *stack) seckill(ctx context.Context, args ...string) error {
	_, _, err := seckill(ctx, s.binary, s.env, args...)
	return err
}

// seckill runs a command and returns its output and its CPU time. On failure the error contains the output.
func seckill(ctx context.Context, binary string, settings []string, args ...string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // built by this program
	cmd.Env = environment(settings)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("seckill %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// seed creates the users and one more.
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

// serve starts a server with the lane, and further settings.
func (s *stack) serve(ctx context.Context, lane string, settings ...string) (*process, error) {
	ops, _, err := servers.ReserveAddr(ctx)
	if err != nil {
		return nil, err
	}

	env := append([]string{"SECKILL_ORDER_LANE=" + lane, "SECKILL_OPS_ADDR=" + ops}, slices.Concat(s.env, settings)...)
	log := filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", lane, time.Now().UnixNano()))
	p, err := startProcess(ctx, env, log, s.binary, "serve")
	if err != nil {
		return nil, fmt.Errorf("lane %s: %w", lane, err)
	}

	p.ops = ops
	s.servers[p] = true
	return p, nil
}

// reference starts a reference server: bareGin or ginWithScript.
func (s *stack) reference(ctx context.Context, kind string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	log := filepath.Join(s.dir, kind+".log")
	p, err := startProcess(ctx, nil, log, self, referenceCommand, kind, s.redis.Addr)
	if err == nil {
		s.servers[p] = true
	}

	return p, err
}

// stopServers stops all servers except the database and Redis.
func (s *stack) stopServers() {
	for p := range s.servers {
		p.stop()
	}
	clear(s.servers)
}

// admin logs the admin in. The token expires before this program ends.
func (s *stack) admin(ctx context.Context, p *process) (*rush.Client, string, error) {
	client, err := rush.NewClient("http://"+p.addr, 1)
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

// enter changes a sale so that it needs passes, and gets one for each user. The orders of earlier rounds count as paid:
// users with too many unpaid orders get no pass.
func (s *stack) enter(ctx context.Context, p *process, sale string) error {
	if _, err := s.db.ExecContext(ctx, "UPDATE voucher_orders SET status = 2, paid_at = created_at WHERE status = 1"); err != nil {
		return fmt.Errorf("pay the orders: %w", err)
	}

	admins, admin, err := s.admin(ctx, p)
	if err != nil {
		return err
	}
	defer admins.Close()

	entry := map[string]any{"mode": "pass", "pass_ttl": 3600}
	if err := admins.ChangeVoucher(ctx, admin, sale, map[string]any{"entry": entry}); err != nil {
		return fmt.Errorf("require passes: %w", err)
	}

	const conns = 32
	client, err := rush.NewClient("http://"+p.addr, conns)
	if err != nil {
		return err
	}
	defer client.Close()

	s.passes = make([]string, len(s.tokens))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(conns)

	for i, token := range s.tokens {
		group.Go(func() (err error) {
			s.passes[i], err = client.Enter(ctx, token, sale)
			return err
		})
	}

	return group.Wait()
}

// sales publishes n sales of stock units each through the API of a server and returns their IDs.
func (s *stack) sales(ctx context.Context, p *process, n int, stock int64) ([]string, error) {
	client, admin, err := s.admin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	ids := make([]string, n)
	for i := range ids {
		v, err := client.CreateSale(ctx, admin, stock)
		if err != nil {
			return nil, fmt.Errorf("create a sale: %w", err)
		}
		ids[i] = v.ID
		s.newest = v.ID
	}

	return ids, nil
}
