package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/connlimit"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/picture"
	"seckill/internal/kit/redisconn"
	"seckill/internal/ops/reconcile"
	"seckill/internal/ops/salestats"
	"seckill/internal/ops/tracing"
	"seckill/internal/out/payment"
	"seckill/internal/repo"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/lane"
	"seckill/internal/sale/queue"
	"seckill/internal/service"
)

// maxInFlight bounds the purchases in progress per process; further ones fail with domain.ErrOverloaded. It is far
// more than the database can process within the timeout of a purchase.
const maxInFlight = 32768

// Timeouts of the public port. The server computes an answer within 5 s; writeTimeout ends connections of clients that
// do not read it.
const (
	// From the opening of a connection, or the first byte of a further request, to the last byte of a request. Without another
	// time for its header, net/http sets one timer per request.
	readTimeout     = 10 * time.Second
	writeTimeout    = 15 * time.Second
	idleTimeout     = 30 * time.Second
	maxHeaderBytes  = 16 << 10
	shutdownTimeout = 20 * time.Second
)

func publicServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:        h,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// migrateTimeout bounds the schema changes at the start, including the wait for another process that makes them.
const migrateTimeout = 10 * time.Minute

// gcPercent lets the heap grow to four times the live data before a collection. The live data is small and most garbage
// dies with its request; the default of 100 spends a tenth of the CPU on collections under load. GOGC overrides it.
const gcPercent = 300

// Env is the environment of a command.
type Env struct {
	Ctx    context.Context
	Config Config
	// Receives the result.
	Out   io.Writer
	Log   *slog.Logger
	Parts Parts
}

// Parts replaces parts of the wiring, for the programs of tests. The zero value replaces nothing.
type Parts struct {
	Now   func() time.Time
	Locks lane.UserLocks
	// Wraps the store of idempotency keys.
	Keys func(service.KeyStore) service.KeyStore
	// Changes the configuration of the queue's workers.
	Workers func(*queue.Config)
	// Changes the configuration of the reconciler, in the background of a server and in commands.
	Reconciler func(*reconcile.Config)
}

// Serve runs the server until the context ends.
func Serve(e *Env) error {
	cfg := e.Config

	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if unknown := unknownSettings(os.Environ()); len(unknown) > 0 {
		e.Log.Warn("unknown variables: docs/operations.md lists the settings", "variables", strings.Join(unknown, " "))
	}

	if err := refuseUnsafe(e); err != nil {
		return err
	}
	if err := checkPorts(e.Ctx, cfg); err != nil {
		return err
	}

	secrets, err := SigningSecrets(cfg)
	if err != nil {
		return err
	}

	store, err := OpenStore(cfg)
	if err != nil {
		return err
	}
	defer store.Close()

	rdb, closeRedis, err := serverRedis(cfg)
	if err != nil {
		return err
	}
	defer closeRedis()

	metrics := newMetrics(cfg.OrderLane, store, rdb)
	locks, err := openUserLocks(cfg, rdb, metrics.lockEvent)
	if err != nil {
		return err
	}
	defer locks.close()

	if err := WaitFor(e, "Redis", func(ctx context.Context) error { return redisconn.Ready(ctx, rdb) }); err != nil {
		return err
	}
	if err := WaitFor(e, locks.what, locks.ping); err != nil {
		return err
	}
	if err := prepareDatabase(e, store); err != nil {
		return err
	}

	tracer, err := tracing.New(e.Ctx, e.Log)
	if err != nil {
		return err
	}
	defer func() {
		if err := tracer.Close(context.WithoutCancel(e.Ctx)); err != nil {
			e.Log.Warn("cannot export the last traces", "err", err)
		}
	}()

	s, err := newServer(e, backends{
		store:   store,
		rdb:     rdb,
		locks:   locks,
		secrets: secrets,
		tracer:  tracer,
		metrics: metrics,
	})
	if err != nil {
		return err
	}

	return s.run(e.Ctx, e.Out)
}

// serverRedis returns a client for the configured Redis, or starts the embedded one. The returned function closes both.
func serverRedis(cfg Config) (redis.UniversalClient, func(), error) {
	if !cfg.EmbeddedRedis() {
		rdb, err := SharedRedis(cfg)
		return rdb, func() { _ = rdb.Close() }, err
	}

	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, nil, err
	}

	embedded, info, err := startEmbeddedRedis(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}

	rdb := openEmbedded(info)
	return rdb, func() { _ = rdb.Close(); embedded.close() }, nil
}

// prepareDatabase waits for the database, brings the schema up to date and, in demo mode, fills an empty database with
// sample data. If the database becomes unavailable meanwhile, it begins again.
func prepareDatabase(e *Env, store *repo.Store) error {
	var failed error
	err := WaitFor(e, "the database", func(ctx context.Context) error {
		// It has timeouts, which changes of the schema have not.
		if err := store.Ping(ctx); err != nil {
			return err
		}

		failed = migrateAndSeed(e, store) //nolint:contextcheck // the schema changes have their own timeout
		if errors.Is(failed, domain.ErrUnavailable) {
			return failed
		}
		return nil
	})
	return cmp.Or(err, failed)
}

func migrateAndSeed(e *Env, store *repo.Store) error {
	ctx, cancel := context.WithTimeout(e.Ctx, migrateTimeout)
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

	seeded, err := store.SeedDemo(ctx, func() ([]domain.Shop, []picture.Picture, []domain.Voucher, error) { return demoContent(time.Now()) })
	if err != nil {
		return err
	}

	if seeded {
		e.Log.Info("demo data stored")
	}

	return renewDemo(ctx, store, time.Now(), func(context.Context, int64) {})
}

type server struct {
	*wiring
	*parts

	public http.Handler
	drain  *drain
	// They run until the last request is answered.
	tasks []loop.Task
}

func readyChecks(cfg Config, b backends, d *drain) map[string]handler.Check {
	checks := besidesDatabase(cfg, b)
	checks["shutdown"] = d.check
	checks["database"] = b.store.Ping
	return checks
}

func besidesDatabase(cfg Config, b backends) map[string]handler.Check {
	checks := map[string]handler.Check{
		"redis": func(ctx context.Context) error { return redisReady(ctx, b.rdb) },
	}
	if len(cfg.LockNodes) > 0 {
		checks["lock nodes"] = b.locks.ping
	}
	return checks
}

func sells(cfg Config, b backends) func(context.Context) error {
	checks := besidesDatabase(cfg, b)
	return func(ctx context.Context) error {
		for name, check := range checks {
			if err := check(ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
}

// redisReady returns nil if the server accepts writes, or more than half of a cluster's masters that have sales do. A
// dead master stops the purchases that need its keys, and no others, so the servers remain in the load balancer.
func redisReady(ctx context.Context, rdb redis.UniversalClient) error {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return redisconn.Ready(ctx, rdb)
	}

	// ForEachMaster would read the slot map first, which a master that hangs delays.
	var masters []redis.UniversalClient
	var missing error
	for shard := range admission.Shards {
		master, err := cluster.MasterForKey(ctx, shard.Stream())
		if err != nil {
			missing = err
		} else if !slices.Contains(masters, redis.UniversalClient(master)) {
			masters = append(masters, master)
		}
	}
	if len(masters) == 0 {
		return missing
	}

	return quorum(ctx, masters, redisconn.NodeReady)
}

// quorum returns nil as soon as ready did for more than half of the nodes, as Redlock requires. It does not wait for the
// others, which may hang.
func quorum(ctx context.Context, nodes []redis.UniversalClient, ready func(context.Context, redis.UniversalClient) error) error {
	results := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { results <- ready(ctx, n) }()
	}

	var errs []error
	up := 0
	for range nodes {
		if err := <-results; err != nil {
			errs = append(errs, err)
			continue
		}

		up++
		if up*2 > len(nodes) {
			return nil
		}
	}

	return errors.Join(errs...)
}

// run serves until ctx ends, and then for Config.Drain while /readyz is red. It then ends the streams and completes the
// requests in progress, for up to shutdownTimeout.
func (s *server) run(ctx context.Context, out io.Writer) error {
	listener, err := listen(ctx, "--addr", s.cfg.Addr)
	if err != nil {
		return err
	}

	url := LocalURL(listener.Addr().String())

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { loop.Run(background, s.log, s.tasks...) })

	if sandbox := s.provider.sandbox; sandbox != nil {
		webhook := url + "/api/v1/payments/webhook/" + payment.SandboxName
		wg.Go(func() { sandbox.Run(background, webhook) })
	}

	defer func() {
		stopBackground()
		wg.Wait()
		s.sales.Close()
	}()

	public := publicServer(s.public, s.log)
	failed := make(chan error, 2)
	serve := func(srv *http.Server, l net.Listener) {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}

	if s.cfg.OpsAddr != "" {
		l, err := listen(ctx, "--ops-addr", s.cfg.OpsAddr)
		if err != nil {
			return errors.Join(err, listener.Close())
		}

		ops := &http.Server{Handler: s.metrics.opsHandler(s.tracer != nil), ReadHeaderTimeout: readTimeout}

		// After the public port, so that the last requests are counted.
		defer func() { _ = ops.Close() }()

		wg.Go(func() { serve(ops, l) })
		s.log.Info("metrics and profiles", "addr", l.Addr().String())
	}

	wg.Go(func() { serve(public, s.limitConnections(listener)) })

	s.rushes.setURL(url)
	s.greet(out, url)

	select {
	case err = <-failed:
	case <-ctx.Done():
		s.log.Info("shutting down: not ready from now on", "drain", *s.cfg.Drain)
		err = s.drain.run(*s.cfg.Drain, failed)
		s.log.Info("shutting down: completing the requests in progress")
	}

	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()

	// http.Server.Shutdown does not know the event streams.
	var streams sync.WaitGroup
	for _, subscribers := range []*salestats.Subscribers{s.orderSubscribers, s.saleSubscribers, s.roomSubscribers} {
		streams.Go(subscribers.Close)
	}

	s.rushes.close(deadline)
	err = errors.Join(err, public.Shutdown(deadline))
	streams.Wait()
	return err
}

// loopback are the addresses of this machine, whose programs have no connection limit of their own.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func (s *server) limitConnections(l net.Listener) net.Listener {
	files, err := connlimit.OpenFiles()
	if err != nil {
		return l
	}

	total, perClient := connlimit.Limits(files)
	limited := connlimit.New(l, connlimit.Config{
		Total:     total,
		PerClient: perClient,
		Client:    auth.Customer,
		Exempt:    append(handler.ParseProxies(s.cfg.Proxies), loopback...),
	})

	s.metrics.registry.MustRegister(limited.Collectors()...)
	return limited
}

// greet prints the URLs of the server and, in demo mode, the first steps. Scripts parse the first line.
func (s *server) greet(out io.Writer, url string) {
	database := "MySQL"
	if s.cfg.Embedded() {
		database = "SQLite in " + s.cfg.DataDir
	}

	redisName := "embedded Redis"
	if opts, err := s.cfg.SharedRedisOptions(); err == nil {
		redisName = "Redis " + strings.Join(opts.Addrs, ",")
	}

	fmt.Fprintf(out, "seckill listens on %s (%s, %s, lane %s)\n", url, database, redisName, s.cfg.OrderLane)
	fmt.Fprintf(out, "  shop %[1]s/   console %[1]s/console   API %[1]s/docs\n", url)

	if !s.cfg.IsDemo() {
		return
	}

	fmt.Fprintf(out, `Demo mode: any mobile number of %s can log in; %s is an admin. The pages fill in the login code; other clients find it in the X-Demo-Code header:
  curl -si %s/api/v1/auth/code  -d '{"phone":"13800000001"}'
  curl -s  %s/api/v1/auth/login -d '{"phone":"13800000001","code":"<the code>"}'
  curl -s  %s/api/v1/vouchers
  curl -s  %s/api/v1/vouchers/<id>/orders -X POST -H 'Authorization: Bearer <access_token>'
`, strings.Join(s.cfg.SMSCountries, ", "), strings.Join(s.cfg.AdminPhones, ", "), url, url, url, url)
}

// LocalURL returns the URL, for clients on the same machine, of a server that listens at addr: host:port.
func LocalURL(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	ip, _ := netip.ParseAddr(host)
	if host == "" || ip.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + addr
}
