package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/internal/repo"
	"seckill/test/e2e/rig"
	"seckill/test/env/servers"
)

// system are the processes of a campaign and the proxies between them.
type system struct {
	// This program, which is also seckill.
	program string
	dataDir string
	// Of the servers.
	env   []string
	store *repo.Store
	// Of the same database.
	db     *sql.DB
	signer *auth.Tokens
	redis  redisServers
	// Of the nodes.
	redisLinks []*servers.Proxy
	database   database
	servers    []*instance

	// Starts of servers that failed and were repeated.
	failedStarts atomic.Int64
}

// instance is a server of the program with the proxy between buyers and it.
type instance struct {
	*servers.Process

	front *servers.Proxy
	// Has the offset of its clock.
	clock string
}

// setClock sets how far the clock is ahead. The server must not run.
func (i *instance) setClock(ahead time.Duration) error {
	return os.WriteFile(i.clock, []byte(ahead.String()), 0o600)
}

// link is a proxy with the name of what it leads to.
type link struct {
	name  string
	proxy *servers.Proxy
}

// downAfter is the time after which the Sentinels consider a Redis down.
const downAfter = 2 * time.Second

// startSystem starts all processes. The caller stops the system unless there is an error.
func startSystem(ctx context.Context, cfg Config) (*system, error) {
	s := &system{}
	if err := s.start(ctx, cfg); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("torture needs MariaDB and Redis on this machine (make deps): %w", err)
		}
		return nil, errors.Join(err, s.stop())
	}

	return s, nil
}

func (s *system) start(ctx context.Context, cfg Config) error {
	var err error
	if s.program, err = os.Executable(); err != nil {
		return err
	}

	if s.dataDir, err = os.MkdirTemp("", "seckill-torture-"); err != nil {
		return err
	}

	if err := s.startRedis(ctx, cfg.Redis == redisCluster); err != nil {
		return err
	}

	if err := s.database.start(ctx, cfg.Database == galera); err != nil {
		return err
	}

	secret := rand.Text() + rand.Text()
	if err := s.connect(secret); err != nil { //nolint:contextcheck // it connects later
		return err
	}

	if err := s.configure(cfg.Lane, secret); err != nil {
		return err
	}

	for n := range cfg.Servers {
		if err := s.addServer(ctx, n); err != nil {
			return err
		}
	}

	return nil
}

func (s *system) connect(secret string) error {
	cfg, err := mysql.ParseDSN(s.database.dsn)
	if err != nil {
		return err
	}

	if s.db, err = servers.Open(cfg); err != nil {
		return err
	}

	if s.store, err = app.OpenStore(app.Config{MySQLDSN: s.database.dsn}); err != nil {
		return err
	}

	demo := true
	s.signer, err = app.NewSigner(app.Config{JWTSecret: secret, Demo: &demo})
	return err
}

func (s *system) configure(lane, secret string) error {
	dsn, err := withAddr(s.database.dsn, s.database.link.Addr)
	if err != nil {
		return err
	}

	s.env = append(os.Environ(),
		rig.EnvRunMain+"=1",
		"SECKILL_MYSQL_DSN="+dsn,
		"SECKILL_REDIS_ADDRS="+strings.Join(s.redis.addrs, ","),
		"SECKILL_REDIS_SENTINEL="+s.redis.sentinel,
		"SECKILL_ORDER_LANE="+lane,
		"SECKILL_DATA_DIR="+s.dataDir,
		"SECKILL_JWT_SECRET="+secret,
		"SECKILL_DEMO=true",
		"SECKILL_UNSAFE=all",
		"SECKILL_RATE_LIMIT=off",
		"SECKILL_DRAIN=500ms",
		"SECKILL_PAY_TIMEOUT=24h",
		"SECKILL_SANDBOX=delay=100ms,repeat=1",
		"SECKILL_LOG_LEVEL=warn",
	)

	return nil
}

func (s *system) addServer(ctx context.Context, n int) error {
	front, err := servers.StartProxy(ctx)
	if err != nil {
		return err
	}

	i := &instance{
		front: front,
		clock: filepath.Join(s.dataDir, "clock-"+strconv.Itoa(n)),
	}

	env := append(slices.Clone(s.env), rig.EnvClockAhead+"="+i.clock)
	i.Process, err = servers.RunProgram(ctx, s.program, env, func(addr string) []string {
		return []string{"serve", "--addr", addr}
	})
	if err != nil {
		front.Close()
		return err
	}

	front.Lead(i.Addr)
	s.servers = append(s.servers, i)
	return nil
}

func (s *system) stop() error {
	var errs []error
	for _, i := range s.servers {
		errs = append(errs, i.Stop())
		i.front.Close()
	}

	// The server of both ends next.
	if s.store != nil {
		_ = s.store.Close()
	}
	if s.db != nil {
		_ = s.db.Close()
	}

	errs = append(errs, s.database.stop())
	if s.redis.stop != nil {
		errs = append(errs, s.redis.stop())
	}
	for _, p := range s.redisLinks {
		p.Close()
	}

	return errors.Join(append(errs, os.RemoveAll(s.dataDir))...)
}

func (s *system) addrs() []string {
	var addrs []string
	for _, i := range s.servers {
		addrs = append(addrs, i.front.Addr)
	}

	return addrs
}

func (s *system) links() []link {
	var links []link
	for n, i := range s.servers {
		links = append(links, link{"server " + strconv.Itoa(n+1), i.front})
	}

	links = append(links, link{"database", s.database.link})
	for n, p := range s.redisLinks {
		links = append(links, link{"Redis " + strconv.Itoa(n+1), p})
	}

	return links
}

// command runs a command of the program with the configuration of the servers, past the database's proxy, and returns its
// output.
func (s *system) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.program, args...) //nolint:gosec // this program
	cmd.Env = append(slices.Clone(s.env), "SECKILL_MYSQL_DSN="+s.database.dsn)

	out, err := cmd.CombinedOutput()
	return string(out), err
}

// seed creates n users with access tokens. Servers with a wrong clock accept the tokens as well, which they would not if
// the tokens lived as long as those of `seckill seed`.
func (s *system) seed(ctx context.Context, n int) ([]app.Buyer, error) {
	now := time.Now()
	identities, err := s.store.SeedUsers(ctx, n, now, now.Add(auth.SeedTTL))
	if err != nil {
		return nil, fmt.Errorf("create the buyers: %w", err)
	}

	buyers := make([]app.Buyer, len(identities))
	for i, id := range identities {
		token, err := s.signer.Access(id, auth.SeedTTL/2)
		if err != nil {
			return nil, err
		}

		buyers[i] = app.Buyer{ID: id.UserID, Token: token}
	}

	return buyers, nil
}

// enrollAdmin logs the admin in, which creates the account, and returns its identity. The session need not be stored:
// servers check only whether it was revoked.
func (s *system) enrollAdmin(ctx context.Context, client *rush.Client) (auth.Identity, error) {
	if _, err := client.Login(ctx, app.DemoAdmin); err != nil {
		return auth.Identity{}, err
	}

	admin, err := s.store.UserByPhone(ctx, app.DemoAdmin)
	if err != nil {
		return auth.Identity{}, err
	}

	return auth.Identity{
		UserID:    admin.ID,
		SessionID: auth.NewSessionID(),
		Role:      domain.RoleAdmin,
	}, nil
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

func (s *system) heal(ctx context.Context) error {
	for _, l := range s.links() {
		l.proxy.Delay(0)
		l.proxy.Heal()
	}

	if err := errors.Join(s.database.heal(ctx), s.startMissing()); err != nil { //nolint:contextcheck // each start is bounded
		return err
	}

	for n, i := range s.servers {
		if err := i.awaitReady(ctx); err != nil {
			return fmt.Errorf("server %d is not ready: %w", n+1, err)
		}
	}

	return nil
}

func (s *system) startMissing() error {
	var errs []error
	for _, r := range s.redis.nodes {
		if !r.Answers() {
			errs = append(errs, r.Restart())
		}
	}

	for _, i := range s.servers {
		if _, err := os.Stat(i.clock); err == nil {
			i.Kill()
			errs = append(errs, os.Remove(i.clock))
		}

		if !i.Answers() {
			errs = append(errs, s.startAgain(i))
		}
	}

	return errors.Join(errs...)
}

func (i *instance) awaitReady(ctx context.Context) error {
	probe := rig.Request{Method: http.MethodGet, Path: "/readyz"}
	return servers.Until(ctx, func() error {
		a, err := rig.Send(ctx, "http://"+i.Addr, probe)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d", a.Status)
		}
		return err
	})
}
