package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/handler"
	"seckill/internal/payment"
	"seckill/internal/queue"
	"seckill/internal/repo"
	"seckill/internal/salestats"
	"seckill/internal/service"
)

// maxInFlight bounds the purchases that one process works on; the next ones are answered ErrOverloaded. It is far above
// what the database can serve within a buyer's patience.
const maxInFlight = 32768

// Time-outs of the public port. An answer takes at most 5 s, so a writer that needs longer is not reading.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 15 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	shutdownTimeout   = 20 * time.Second
)

// migratePatience bounds the schema changes at the start, and the wait for another process that makes them.
const migratePatience = 10 * time.Minute

// gcPercent lets the heap grow to four times what is in use before it is collected. Little is in use, most garbage
// dies with its request, and collecting at twice takes a tenth of the processor in a rush. GOGC overrides it.
const gcPercent = 300

// env is what every command works with.
type Env struct {
	Ctx    context.Context
	Config Config
	Out    io.Writer // the command's result
	Log    *slog.Logger
	Tuning Tuning
}

// tuning replaces parts of the wiring, for tests that break them on purpose. The zero value replaces nothing.
type Tuning struct {
	Locks service.UserLocks
	Now   func() time.Time
	Keys  func(service.KeyStore) service.KeyStore // wraps the store of idempotency keys

	StartTimeout time.Duration // how long the start waits for the database and Redis

	Commit     func(queue.CommitFunc) queue.CommitFunc // wraps the commit of the queue's workers
	MinIdle    time.Duration                           // of the workers
	ClaimEvery time.Duration                           // of the workers

	MinAge         time.Duration // of the orders that the reconciler misses
	Every          time.Duration // between its rounds in the background
	Pause          time.Duration // between the two snapshots of one report
	GateDiffersFor time.Duration // how long a gate must differ before verify reports it
}

// Serve runs the server until the context ends.
func Serve(e *Env) error {
	cfg := e.Config
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	secret, err := SigningSecret(cfg)
	if err != nil {
		return err
	}
	store, err := OpenStore(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil { // every order that was answered is committed: nothing is lost
			e.Log.Warn("closing the database connections", "err", err)
		}
	}()
	rdb, closeRedis, err := serverRedis(cfg)
	if err != nil {
		return err
	}
	defer closeRedis()
	nodes := LockNodes(cfg, rdb)
	if err := Await(e, "the database", store.Ping); err != nil {
		return err
	}
	if err := Await(e, "Redis", func(ctx context.Context) error { return PingRedis(ctx, rdb) }); err != nil {
		return err
	}
	if err := Await(e, "a majority of the lock nodes", func(ctx context.Context) error { return quorum(ctx, nodes) }); err != nil {
		return err
	}
	if err := PrepareDatabase(e, store); err != nil {
		return err
	}
	s, err := newServer(e, parts{store: store, rdb: rdb, lockNodes: nodes, secret: secret})
	if err != nil {
		return err
	}
	return s.run(e.Ctx, e.Out)
}

// serverRedis connects to the configured Redis or starts the embedded one.
func serverRedis(cfg Config) (redis.UniversalClient, func(), error) {
	if !cfg.EmbeddedRedis() {
		rdb := OpenRedis(cfg.RedisPassword, cfg.RedisAddrs...)
		return rdb, func() { _ = rdb.Close() }, nil
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, nil, err
	}
	embedded, info, err := startEmbeddedRedis(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	rdb := OpenRedis(info.Password, info.Addr)
	return rdb, func() { _ = rdb.Close(); embedded.close() }, nil
}

// prepareDatabase brings the schema up to date and, in the demo, fills an empty database.
func PrepareDatabase(e *Env, store *repo.Store) error {
	ctx, cancel := context.WithTimeout(e.Ctx, migratePatience)
	defer cancel()
	applied, err := store.MigrateUp(ctx)
	if err != nil {
		return err
	}
	if len(applied) > 0 {
		e.Log.Info("database schema brought up to date", "migrations", len(applied))
	}
	if !e.Config.IsDemo() {
		return nil
	}
	shops, vouchers := service.Demo(time.Now())
	seeded, err := store.SeedDemo(ctx, shops, vouchers)
	if seeded {
		e.Log.Info("demo data stored", "shops", len(shops), "vouchers", len(vouchers))
	}
	return err
}

// server is the program while it serves.
type server struct {
	cfg     Config
	log     *slog.Logger
	handler http.Handler
	ops     http.Handler
	sales   *service.Sales
	sandbox *payment.Sandbox
	// subscribers end before the server waits for its requests: theirs last.
	subscribers *salestats.Subscribers
	console     *console
	// background is what runs beside the requests, until the last of them is answered.
	background []func(context.Context)
}

// checks are the conditions of /readyz.
func checks(cfg Config, p parts) map[string]handler.Check {
	checks := map[string]handler.Check{
		"database": p.store.Ping,
		"redis":    func(ctx context.Context) error { return PingRedis(ctx, p.rdb) },
	}
	if len(cfg.LockNodes) > 0 {
		checks["lock nodes"] = func(ctx context.Context) error { return quorum(ctx, p.lockNodes) }
	}
	return checks
}

// quorum asks whether more than half of the nodes answer, which is what a Redlock needs.
func quorum(ctx context.Context, nodes []redis.UniversalClient) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.Ping(ctx).Err() })
	}
	wg.Wait()
	down := 0
	for _, err := range errs {
		if err != nil {
			down++
		}
	}
	if down*2 >= len(nodes) {
		return errors.Join(errs...)
	}
	return nil
}

// run listens until ctx ends, then finishes the requests that it has begun.
func (s *server) run(ctx context.Context, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen (SECKILL_ADDR): %w", err)
	}
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	for _, run := range s.background {
		wg.Go(func() { run(background) })
	}
	webhook := urlOf(listener.Addr()) + "/api/v1/payments/webhook/" + service.DefaultProvider
	wg.Go(func() { s.sandbox.Run(background, webhook) })
	defer func() {
		stopBackground()
		wg.Wait()
		s.sales.Close()
	}()

	public := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 2)
	serve := func(srv *http.Server, l net.Listener) {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}
	if s.cfg.OpsAddr != "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.OpsAddr)
		if err != nil {
			return errors.Join(fmt.Errorf("listen (SECKILL_OPS_ADDR): %w", err), listener.Close())
		}
		ops := &http.Server{Handler: s.ops, ReadHeaderTimeout: readHeaderTimeout}
		defer func() { _ = ops.Close() }() // after the public port: the last requests are still counted
		wg.Go(func() { serve(ops, l) })
		s.log.Info("metrics and profiles", "addr", l.Addr().String())
	}
	wg.Go(func() { serve(public, listener) })
	s.console.listen(urlOf(listener.Addr()))
	s.greet(out, listener.Addr())

	select {
	case err = <-failed:
	case <-ctx.Done():
		s.log.Info("shutting down: finishing the requests that have begun")
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	s.subscribers.Close()
	s.console.close(deadline)
	return errors.Join(err, public.Shutdown(deadline))
}

// greet tells a person where the server is and how to get in.
func (s *server) greet(out io.Writer, addr net.Addr) {
	url := urlOf(addr)
	database, rds := "MySQL", "Redis "+strings.Join(s.cfg.RedisAddrs, ",")
	if s.cfg.Embedded() {
		database = "SQLite in " + s.cfg.DataDir
	}
	if s.cfg.EmbeddedRedis() {
		rds = "embedded Redis"
	}
	fmt.Fprintf(out, "seckill listens on %s (%s, %s, lane %s)\n", url, database, rds, s.cfg.OrderLane)
	fmt.Fprintf(out, "  shop %[1]s/   console %[1]s/console   API %[1]s/docs\n", url)
	if !s.cfg.IsDemo() {
		return
	}
	fmt.Fprintf(out, `Demo: any mobile number logs in, %s is an admin. The pages fill in the login code; other clients read it in the header X-Demo-Code:
  curl -si %s/api/v1/auth/code  -d '{"phone":"13800000001"}'
  curl -s  %s/api/v1/auth/login -d '{"phone":"13800000001","code":"<the code>"}'
  curl -s  %s/api/v1/vouchers
  curl -s  %s/api/v1/vouchers/2/orders -X POST -H 'Authorization: Bearer <access_token>'
`, strings.Join(s.cfg.AdminPhones, ", "), url, url, url, url)
}

// urlOf is where this machine reaches a listener.
func urlOf(addr net.Addr) string {
	return "http://" + strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(addr.String())
}

// logSender writes login codes to the log, for want of a contract with somebody who sends text messages.
type logSender struct{ log *slog.Logger }

// SendCode implements service.CodeSender.
func (s logSender) SendCode(_ context.Context, phone, code string) error {
	s.log.Info("login code", "phone", phone, "code", code)
	return nil
}
