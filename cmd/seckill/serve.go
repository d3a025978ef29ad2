package main

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
	"seckill/internal/idgen"
	"seckill/internal/payment"
	"seckill/internal/queue"
	"seckill/internal/repo"
	"seckill/internal/service"
	"seckill/internal/web"
)

// maxInFlight bounds the purchases that one process works on; the next ones are told that it is overloaded.
// It is far above what the database connections can serve within a buyer's patience: one at a time in the lane lock,
// many at a time in the others.
const (
	maxInFlight        = 4096
	maxInFlightBatched = 32768
)

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

type serveCmd struct{}

// tuning replaces parts of the wiring, for tests that break them on purpose. The zero value replaces nothing.
type tuning struct {
	locks    service.UserLocks
	now      func() time.Time
	patience time.Duration // instead of startPatience

	commit     func(queue.CommitFunc) queue.CommitFunc // wraps what the workers do
	minIdle    time.Duration                           // of the workers
	claimEvery time.Duration                           // likewise
	keys       func(service.KeyStore) service.KeyStore // wraps what keeps the idempotency keys
	lasting    time.Duration                           // instead of gateLasting
	minAge     time.Duration                           // of orders that a reconciler misses
	every      time.Duration                           // of its rounds in the background
	pause      time.Duration                           // between the two looks of the command
}

// Run serves until the context ends.
func (serveCmd) Run(e *env) error {
	cfg := e.cfg
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	secret, err := signingSecret(cfg)
	if err != nil {
		return err
	}
	store, err := openStore(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil { // every order that was answered is committed: nothing is lost
			e.log.Warn("closing the database connections", "err", err)
		}
	}()
	rdb, closeRedis, err := serverRedis(cfg)
	if err != nil {
		return err
	}
	defer closeRedis()
	nodes := lockNodes(cfg, rdb)
	if err := await(e, "the database", store.Ping); err != nil {
		return err
	}
	if err := await(e, "Redis", func(ctx context.Context) error { return rdb.Ping(ctx).Err() }); err != nil {
		return err
	}
	if err := await(e, "a majority of the lock nodes", func(ctx context.Context) error { return quorum(ctx, nodes) }); err != nil {
		return err
	}
	if err := prepareDatabase(e, store); err != nil {
		return err
	}
	s, err := newServer(e, parts{store: store, rdb: rdb, lockNodes: nodes, secret: secret})
	if err != nil {
		return err
	}
	return s.run(e.ctx, e.out)
}

// serverRedis connects to the configured Redis or starts the embedded one.
func serverRedis(cfg Config) (redis.UniversalClient, func(), error) {
	if !cfg.EmbeddedRedis() {
		rdb := openRedis(cfg.RedisPassword, cfg.RedisAddrs...)
		return rdb, func() { _ = rdb.Close() }, nil
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, nil, err
	}
	embedded, info, err := startEmbeddedRedis(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	rdb := openRedis(info.Password, info.Addr)
	return rdb, func() { _ = rdb.Close(); embedded.close() }, nil
}

// prepareDatabase brings the schema up to date and, in the demo, fills an empty database.
func prepareDatabase(e *env, store *repo.Store) error {
	ctx, cancel := context.WithTimeout(e.ctx, migratePatience)
	defer cancel()
	applied, err := store.MigrateUp(ctx)
	if err != nil {
		return err
	}
	if len(applied) > 0 {
		e.log.Info("database schema brought up to date", "migrations", len(applied))
	}
	if !e.cfg.IsDemo() {
		return nil
	}
	shops, vouchers := service.Demo(time.Now())
	seeded, err := store.SeedDemo(ctx, shops, vouchers)
	if seeded {
		e.log.Info("demo data stored", "shops", len(shops), "vouchers", len(vouchers))
	}
	return err
}

// parts are the dependencies that serve has opened.
type parts struct {
	store     *repo.Store
	rdb       redis.UniversalClient
	lockNodes []redis.UniversalClient
	secret    []byte
}

// server is the program while it serves.
type server struct {
	cfg     Config
	log     *slog.Logger
	handler http.Handler
	ops     http.Handler
	sales   *service.Sales
	sandbox *payment.Sandbox
	// watchers end before the server waits for its requests: theirs last.
	watchers *service.Watchers
	console  *console
	// background is what runs beside the requests, until the last of them is answered.
	background []func(context.Context)
}

// newServer wires the program, from the inside out.
func newServer(e *env, p parts) (*server, error) {
	cfg, now := e.cfg, time.Now
	if e.tuning.now != nil {
		now = e.tuning.now
	}
	m := newMetrics(cfg.OrderLane, p.store, p.rdb)
	ids, err := idgen.New(p.rdb, "order", idgen.WithClock(now))
	if err != nil {
		return nil, err
	}
	tokens, err := service.NewTokens(p.secret, now)
	if err != nil {
		return nil, err
	}
	revoked := service.NewRevocations(p.store, now, e.log)
	if err := revoked.Load(e.ctx); err != nil {
		return nil, fmt.Errorf("read the ended sessions: %w", err)
	}
	paymentSecret := []byte(cfg.PaymentSecret)
	if len(paymentSecret) == 0 {
		paymentSecret = service.DeriveSecret(p.secret, "payment notices")
	}
	zone, err := time.LoadLocation(cfg.Timezone)
	if err != nil {
		return nil, fmt.Errorf("SECKILL_TIMEZONE: %w", err)
	}
	auth := service.NewAuth(service.AuthConfig{
		Store: p.store, Tokens: tokens, Revoked: revoked, Sender: logSender{e.log},
		AdminPhones: cfg.AdminPhones, Limits: cfg.RateLimit == "on", Now: now,
	})
	changes, moves := newNews(p.rdb, e.log, vouchersChannel), newNews(p.rdb, e.log, ordersChannel)
	watchers := service.NewWatchers()
	sales := service.NewSales(service.SalesConfig{Loader: p.store, Changed: changes.changed})
	// The gate, its letters and its workers are there in every lane: orders may be left from when it was another.
	gate := newGate(p.rdb, cfg.QueueBacklog, e.log)
	committer := &service.Committer{Orders: p.store, IDs: ids, Now: now, PayTimeout: cfg.PayTimeout}
	console := newConsole(e, p.rdb, gate.Instance())
	workers := newWorkers(e, gate, p.rdb, committer.Commit, m, console)
	console.watch(cfg.OrderLane, p.store, gate, workers)
	m.registry.MustRegister(queueLag{workers})
	s := &server{
		cfg: cfg, log: e.log, ops: m.opsHandler(), sales: sales, watchers: watchers, console: console,
		sandbox: payment.NewSandbox(payment.SandboxConfig{Secret: paymentSecret, Now: now, Log: e.log, Faults: cfg.Sandbox}),
	}
	if !cfg.IsDemo() {
		e.log.Warn("payments go to the sandbox, which moves no money")
	}
	s.background = []func(context.Context){
		revoked.Run, changes.publish, func(ctx context.Context) { changes.receive(ctx, sales.Forget) },
		moves.publish, func(ctx context.Context) { moves.receive(ctx, watchers.Wake) },
	}
	var keyStore service.KeyStore = p.store
	if e.tuning.keys != nil {
		keyStore = e.tuning.keys(keyStore)
	}
	keys := service.NewIdempotency(service.IdempotencyConfig{
		Store: keyStore, IDs: ids, Now: now, Observe: m.keyed,
		Failed: func(err error) { e.log.Warn("cannot clear away old idempotency keys", "err", err) },
	})
	s.background = append(append(s.background, keys.Run), console.background()...)
	ordersConfig := service.OrdersConfig{
		Store: p.store, Sales: sales, Now: now, PayTimeout: cfg.PayTimeout, MaxInFlight: maxInFlight, Observe: m.order,
		Codes: service.NewRedeemCodes(p.secret), Moved: moves.changed,
	}
	var inUse func() []int64
	switch cfg.OrderLane {
	case "lock":
		var locks service.UserLocks = &userLocks{nodes: p.lockNodes, observe: m.lockEvent}
		if e.tuning.locks != nil {
			locks = e.tuning.locks
		}
		ordersConfig.Lane = service.NewLockLane(locks, ids, p.store)
	case "batch":
		ordersConfig.Lane, ordersConfig.MaxInFlight = service.NewBatchLane(ids, p.store, func(batch []service.Purchase) {
			m.batch(len(batch))
			console.batch(batch)
		}), maxInFlightBatched
	case "queue":
		lane := service.NewQueueLane(gate, ids, p.store, m.batch)
		ordersConfig.Lane, ordersConfig.Queue, ordersConfig.MaxInFlight = lane, gate, maxInFlightBatched
		inUse = lane.InUse
		s.background = append(s.background,
			func(ctx context.Context) { _ = gate.Run(ctx) },    // returns nil when ctx ends
			func(ctx context.Context) { _ = workers.Run(ctx) }, // likewise
		)
	}
	if cfg.OrderLane != "queue" {
		warnOfBacklog(e.ctx, workers, cfg.OrderLane, e.log)
	}
	reconciler := newReconciler(e, gate, p.store, service.ReconcilerConfig{
		Queue: cfg.OrderLane == "queue", InUse: inUse, Now: now, Observe: m.reconciled,
	})
	s.background = append(s.background, reconciler.Run)
	returns := service.Returns{Sales: sales, Queue: ordersConfig.Queue, Moved: moves.changed}
	closer := &service.Closer{Store: p.store, Returns: returns, Log: e.log, Closed: m.closed}
	payments := service.NewPayments(service.PaymentsConfig{
		Store: p.store, Providers: map[string]service.PaymentProvider{service.DefaultProvider: s.sandbox},
		Returns: returns, Now: now, Log: e.log, Observe: m.payment,
	})
	s.background = append(s.background, closer.Run, payments.Run)
	pages, err := pagesOf()
	if err != nil {
		return nil, err
	}
	served := handler.Config{
		Auth: auth, Orders: service.NewOrders(ordersConfig), Payments: payments, Watchers: watchers,
		Vouchers:    service.NewVouchers(service.VouchersConfig{Store: p.store, Sales: sales, Queue: ordersConfig.Queue, Now: now}),
		DeadLetters: &service.DeadLetters{Store: gate, Reader: p.store.GateState}, AuditLog: p.store, Keys: keys,
		Reconciler: reconciler,
		Shops:      p.store, Zone: zone, Ready: checks(cfg, p), Metrics: m.registry, Log: e.log, Now: now,
		Demo: cfg.IsDemo(), RateLimit: cfg.RateLimit == "on", TrustedProxies: cfg.Proxies, Pages: pages,
	}
	console.serve(&served)
	s.handler, err = handler.New(served)
	return s, err
}

// pagesOf makes the pages, those of the API's problems included: web knows nothing of the API.
func pagesOf() (map[string]http.Handler, error) {
	problems, err := handler.Problems()
	if err != nil {
		return nil, err
	}
	explained := make([]web.Problem, len(problems))
	for i, p := range problems {
		explained[i] = web.Problem(p)
	}
	return web.Routes(explained)
}

// checks are the conditions of /readyz.
func checks(cfg Config, p parts) map[string]handler.Check {
	checks := map[string]handler.Check{
		"database": p.store.Ping,
		"redis":    func(ctx context.Context) error { return p.rdb.Ping(ctx).Err() },
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
	s.greet(out, listener.Addr())

	select {
	case err = <-failed:
	case <-ctx.Done():
		s.log.Info("shutting down: finishing the requests that have begun")
	}
	s.watchers.Close()
	s.console.watchers.Close()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
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
	if !s.cfg.IsDemo() {
		return
	}
	fmt.Fprintf(out, `Demo: open the address in a browser. Any mobile number logs in, %s is an admin. For other clients the code comes in the header X-Demo-Code:
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
