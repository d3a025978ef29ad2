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
	*servers.Process

	// Of a seckill: host:port of metrics and profiles, and a client for a request now and then.
	ops    string
	client *rush.Client
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
	ops, release, err := servers.ReserveAddr(ctx)
	if err != nil {
		return nil, err
	}

	settings = slices.Concat(settings, []string{"SECKILL_OPS_ADDR=" + ops})
	p, err := s.startProcess(ctx, s.binary, settings, func(addr string) []string { return []string{"serve", "--addr", addr} })
	if err := errors.Join(err, release()); err != nil {
		return nil, err
	}

	p.ops = ops
	p.client, err = rush.NewClient("http://"+p.Addr, 1)
	return p, err
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
func (s *stack) admin(ctx context.Context, p *process) (string, error) {
	token, err := p.client.Login(ctx, adminPhone)
	if err != nil {
		return "", fmt.Errorf("log the admin in: %w", err)
	}

	return token, nil
}

func (s *stack) sales(ctx context.Context, p *process, n int, stock int64) ([]string, error) {
	admin, err := s.admin(ctx, p)
	if err != nil {
		return nil, err
	}

	ids := make([]string, n)
	for i := range ids {
		v, err := p.client.CreateSale(ctx, admin, "Benchmark", stock)
		if err != nil {
			return nil, fmt.Errorf("create a sale: %w", err)
		}
		ids[i] = v.ID
		s.newest = v.ID
	}

	return ids, nil
}

func (s *stack) startProcess(ctx context.Context, bin string, settings []string, args func(addr string) []string) (*process, error) {
	server, err := servers.RunProgram(ctx, bin, environment(settings), args)
	if err != nil {
		return nil, err
	}

	p := &process{Process: server}
	s.servers[p] = true
	return p, nil
}

func environment(settings []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SECKILL_") })
	return append(env, settings...)
}

// errInconsistent is returned if the database contradicts the answers.
var errInconsistent = errors.New("the answers do not match the database")

// drainTimeout bounds the time in which the workers commit the accepted orders, and other waits for the servers.
const drainTimeout = 2 * time.Minute

func (s *stack) verify(ctx context.Context) error { return s.seckill(ctx, "verify") }

func (s *stack) drain(ctx context.Context, sales []string, accepted int64) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()

	return servers.Until(ctx, func() error {
		// A query that ends with ctx would hide how many are missing.
		sold, err := s.sold(context.WithoutCancel(ctx), sales)
		if err == nil && sold < accepted {
			err = fmt.Errorf("%w: %d of %d accepted orders are in the database", errInconsistent, sold, accepted)
		}
		return err
	})
}

// sold returns the number of sold units of the sales. It is cheap, as it reads one row per sale.
func (s *stack) sold(ctx context.Context, sales []string) (int64, error) {
	return s.number(ctx, "SELECT CAST(SUM(initial_stock - stock) AS SIGNED) FROM seckill_vouchers WHERE voucher_id IN ("+list(sales)+")")
}

func (s *stack) committed(ctx context.Context, sales []string, answered int64) error {
	rows, err := s.number(ctx, "SELECT COUNT(*) FROM voucher_orders WHERE voucher_id IN ("+list(sales)+")")
	if err != nil {
		return err
	}

	if rows != answered {
		return fmt.Errorf("%w: %d orders answered, %d rows", errInconsistent, answered, rows)
	}

	return nil
}

func (s *stack) number(ctx context.Context, query string) (int64, error) {
	var n int64
	if err := s.db.QueryRowContext(ctx, query).Scan(&n); err != nil { //nolint:gosec // IDs from the server
		return 0, fmt.Errorf("query the database: %w", err)
	}
	return n, nil
}

func list(ids []string) string { return strings.Join(ids, ",") }

// Statements that create old sales, sold out and ended, with paid orders. Their IDs are those of a month ago, by time.
const (
	oldVoucher = `INSERT INTO vouchers (shop_id, title, pay_value, actual_value, type, status, created_at, updated_at)
		SELECT 1, 'An old sale', 100, 200, 1, 1, d, d FROM (SELECT NOW(3) - INTERVAL 30 DAY AS d) t`
	oldSale = `INSERT INTO seckill_vouchers (voucher_id, initial_stock, stock, begin_at, end_at, created_at, updated_at)
		SELECT ?, ?, 0, d, d + INTERVAL 1 DAY, d, d FROM (SELECT NOW(3) - INTERVAL 30 DAY AS d) t`
	oldOrders = `INSERT INTO voucher_orders
			(id, user_id, voucher_id, slot, status, pay_type, amount, created_at, expires_at, paid_at, updated_at)
		SELECT ((UNIX_TIMESTAMP(d) DIV 1 - 1009929600 + ?) << 32) + ROW_NUMBER() OVER (ORDER BY u.id),
			u.id, ?, 1, 2, 1, 100, d, d + INTERVAL 15 MINUTE, d, d
		FROM users u, (SELECT NOW(3) - INTERVAL 30 DAY AS d) t WHERE u.role = 'buyer' ORDER BY u.id LIMIT ?`
)

// fill inserts old orders, at most one per user and sale.
func (s *stack) fill(ctx context.Context, orders int) error {
	for sale := 0; orders > 0; sale++ {
		n := min(orders, len(s.tokens))
		if err := s.fillSale(ctx, sale, n); err != nil {
			return fmt.Errorf("create old orders: %w", err)
		}

		orders -= n
	}

	return nil
}

func (s *stack) fillSale(ctx context.Context, sale, orders int) error {
	res, err := s.db.ExecContext(ctx, oldVoucher)
	if err != nil {
		return err
	}

	id, err := res.LastInsertId()
	if err != nil {
		return err
	}

	if _, err := s.db.ExecContext(ctx, oldSale, id, orders); err != nil {
		return err
	}

	_, err = s.db.ExecContext(ctx, oldOrders, sale, id, orders)
	return err
}

// empty removes all orders and sales. Voucher IDs are not reused, so the caches of the servers stay valid.
func (s *stack) empty(ctx context.Context) error {
	for _, statement := range []string{
		"TRUNCATE TABLE voucher_orders", "DELETE FROM stock_changes", "DELETE FROM seckill_vouchers", "DELETE FROM vouchers",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// flushPages waits until the database has written its dirty pages, so that the next run does not include that work.
func (s *stack) flushPages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()

	if err := s.set(ctx, "innodb_io_capacity_max", "100000", "innodb_io_capacity", "100000", "innodb_max_dirty_pages_pct", "0"); err != nil {
		return err
	}

	err := servers.Until(ctx, func() error {
		var name string
		var pages int64
		row := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
		err := row.Scan(&name, &pages)
		if err == nil && pages >= 100 {
			err = fmt.Errorf("the database has %d dirty pages", pages)
		}
		return err
	})
	if err != nil {
		return err
	}

	return s.set(ctx, "innodb_io_capacity", "DEFAULT", "innodb_io_capacity_max", "DEFAULT", "innodb_max_dirty_pages_pct", "DEFAULT")
}

func (s *stack) set(ctx context.Context, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		statement := "SET GLOBAL " + pairs[i] + " = " + pairs[i+1] //nolint:gosec // constants of this file
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
