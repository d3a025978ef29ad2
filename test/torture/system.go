package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/rush"
	"seckill/internal/repo"
	"seckill/test/env/servers"
)

// system are the processes of a campaign and the proxies between them.
type system struct {
	program    string
	dataDir    string
	env        []string // of the servers
	store      *repo.Store
	db         *sql.DB // of the same database
	signer     *auth.Tokens
	redis      redisServers
	redisLinks []*servers.Proxy // of the nodes
	database   *database
	servers    []*instance

	failedStarts atomic.Int64 // of servers, which were repeated
}

// instance is a server of the program with the proxy between buyers and it.
type instance struct {
	*servers.Program
	front *servers.Proxy
	clock atomic.Int64 // offset of its clock from its next start on, in ns
}

// downAfter is the time after which the Sentinels consider a Redis down.
const downAfter = 2 * time.Second

// startSystem starts all processes. The caller stops the system unless there is an error.
func startSystem(ctx context.Context, cfg Config) (*system, error) {
	s := &system{program: cfg.Program}
	if err := s.start(ctx, cfg); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("torture needs MariaDB and Redis on this machine (make deps): %w", err)
		}
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *system) start(ctx context.Context, cfg Config) (err error) {
	if s.dataDir, err = os.MkdirTemp("", "seckill-torture-"); err != nil {
		return err
	}
	if err := s.startRedis(ctx, cfg.Redis == Cluster); err != nil {
		return err
	}
	if s.database, err = startDatabase(ctx, cfg.Database == Galera); err != nil {
		return err
	}
	if s.store, err = app.OpenStore(app.Config{MySQLDSN: s.database.dsn}); err != nil { //nolint:contextcheck // it connects later
		return err
	}
	if s.db, err = openDatabase(s.database.dsn); err != nil {
		return err
	}
	dsn, err := withAddr(s.database.dsn, s.database.link.Addr)
	if err != nil {
		return err
	}
	secret, demo := rand.Text()+rand.Text(), true
	if s.signer, err = app.NewSigner(app.Config{JWTSecret: secret, Demo: &demo}); err != nil {
		return err
	}
	addrs, master := s.redis.addrs()
	s.env = append(foreignEnv(),
		"SECKILL_MYSQL_DSN="+dsn, "SECKILL_REDIS_ADDRS="+strings.Join(addrs, ","), "SECKILL_REDIS_SENTINEL="+master,
		"SECKILL_ORDER_LANE="+cfg.Lane, "SECKILL_DATA_DIR="+s.dataDir, "SECKILL_JWT_SECRET="+secret,
		"SECKILL_DEMO=true", "SECKILL_UNSAFE=all", "SECKILL_RATE_LIMIT=off", "SECKILL_DRAIN=500ms",
		"SECKILL_PAY_TIMEOUT=24h", "SECKILL_SANDBOX=delay=100ms,repeat=1", "SECKILL_LOG_LEVEL=warn",
	)
	for range cfg.Servers {
		if err := s.addServer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openDatabase opens a pool whose driver does not log the connections that faults break.
func openDatabase(dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (s *system) addServer(ctx context.Context) error {
	front, err := servers.StartProxy(ctx)
	if err != nil {
		return err
	}
	i := &instance{front: front}
	i.Program, err = servers.RunProgram(ctx, s.program, s.env, func(addr string) []string {
		return seckillArgs(time.Duration(i.clock.Load()), "serve", "--addr", addr)
	})
	if err != nil {
		front.Close()
		return err
	}
	front.Lead(i.Addr)
	s.servers = append(s.servers, i)
	return nil
}

// foreignEnv returns the environment of this process without the settings of the program.
func foreignEnv() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SECKILL_") || strings.HasPrefix(e, "SECKILL_TEST_") {
			env = append(env, e)
		}
	}
	return env
}

// stop ends all processes and removes their data.
func (s *system) stop() error {
	var errs []error
	for _, i := range s.servers {
		errs = append(errs, i.Stop())
		i.front.Close()
	}
	if s.store != nil {
		_ = s.store.Close() // its server ends next
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.database != nil {
		errs = append(errs, s.database.stop())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Stop())
	}
	for _, p := range s.redisLinks {
		p.Close()
	}
	return errors.Join(append(errs, os.RemoveAll(s.dataDir))...)
}

// addrs returns the addresses of the servers' proxies.
func (s *system) addrs() (addrs []string) {
	for _, i := range s.servers {
		addrs = append(addrs, i.front.Addr)
	}
	return addrs
}

// links returns the proxies with their names.
func (s *system) links() (proxies []*servers.Proxy, names []string) {
	for n, i := range s.servers {
		proxies, names = append(proxies, i.front), append(names, "server "+strconv.Itoa(n+1))
	}
	proxies, names = append(proxies, s.database.link), append(names, "database")
	for n, p := range s.redisLinks {
		proxies, names = append(proxies, p), append(names, "Redis "+strconv.Itoa(n+1))
	}
	return proxies, names
}

// command runs a command of the program with the configuration of the servers, past the database's proxy.
func (s *system) command(ctx context.Context, args ...string) (output string, err error) {
	cmd := exec.CommandContext(ctx, s.program, seckillArgs(0, args...)...) //nolint:gosec // this program
	cmd.Env = slices.Concat(s.env, []string{"SECKILL_MYSQL_DSN=" + s.database.dsn})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// seed creates n users and returns their ids and access tokens. Servers with a wrong clock accept the tokens as well.
func (s *system) seed(ctx context.Context, n int) (users []int64, tokens []string, err error) {
	now := time.Now()
	identities, err := s.store.SeedUsers(ctx, n, now, now.Add(auth.SeedTTL))
	if err != nil {
		return nil, nil, fmt.Errorf("create the buyers: %w", err)
	}
	for _, id := range identities {
		token, err := s.signer.Access(id, auth.SeedTTL/2)
		if err != nil {
			return nil, nil, err
		}
		users, tokens = append(users, id.UserID), append(tokens, token)
	}
	return users, tokens, nil
}

// enrollAdmin logs the admin in, which creates the account, and returns its identity.
func (s *system) enrollAdmin(ctx context.Context, client *rush.Client) (auth.Identity, error) {
	if _, err := client.Login(ctx, app.DemoAdmin); err != nil {
		return auth.Identity{}, err
	}
	id, err := s.store.UserIDByPhone(ctx, app.DemoAdmin)
	// The session need not be stored: servers check only whether it was revoked.
	return auth.Identity{UserID: id, SessionID: auth.NewSessionID(), Role: domain.RoleAdmin}, err
}

// startAgain starts a server that has ended, as a supervisor does: again within recovery if the start fails because a
// dependency is in a fault.
func (s *system) startAgain(i *instance) error {
	for end := time.Now().Add(recovery); ; {
		err := i.Restart()
		if err == nil || time.Now().After(end) {
			return err
		}
		s.failedStarts.Add(1)
		time.Sleep(500 * time.Millisecond)
	}
}

// heal ends every fault and returns when all servers are ready.
func (s *system) heal(ctx context.Context) error {
	links, _ := s.links()
	for _, l := range links {
		l.Delay(0)
		l.Heal()
	}
	if err := errors.Join(s.database.heal(ctx), s.startMissing()); err != nil { //nolint:contextcheck // each start is bounded
		return err
	}
	for n, i := range s.servers {
		for err := i.ready(ctx); err != nil; err = i.ready(ctx) {
			if loop.Sleep(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("server %d is not ready: %w", n+1, err)
			}
		}
	}
	return nil
}

// startMissing starts the processes that a failed injection has left down, and the servers with a wrong clock.
func (s *system) startMissing() error {
	var errs []error
	for _, r := range s.redis.nodes() {
		if !r.Answers() {
			errs = append(errs, r.Restart())
		}
	}
	for _, i := range s.servers {
		if wrong := i.clock.Swap(0) != 0; wrong || !i.Answers() {
			errs = append(errs, s.startAgain(i))
		}
	}
	return errors.Join(errs...)
}

// ready returns nil if /readyz answers 200.
func (i *instance) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.Addr+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", res.StatusCode)
	}
	return nil
}
