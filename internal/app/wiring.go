package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/auth"
	"seckill/internal/handler"
	"seckill/internal/idgen"
	"seckill/internal/payment"
	"seckill/internal/queue"
	"seckill/internal/reconcile"
	"seckill/internal/repo"
	"seckill/internal/salestats"
	"seckill/internal/service"
	"seckill/internal/web"
)

// parts are the dependencies that serve has opened.
type parts struct {
	store     *repo.Store
	rdb       redis.UniversalClient
	lockNodes []redis.UniversalClient
	secret    []byte
}

// newServer wires the program, from the inside out.
func newServer(e *Env, p parts) (*server, error) {
	cfg, now := e.Config, time.Now
	if e.Tuning.Now != nil {
		now = e.Tuning.Now
	}
	m := newMetrics(cfg.OrderLane, p.store, p.rdb)
	ids, err := idgen.New(p.rdb, "order", idgen.WithClock(now), idgen.WithGuard())
	if err != nil {
		return nil, err
	}
	tokens, err := auth.NewTokens(p.secret, now)
	if err != nil {
		return nil, err
	}
	revoked := auth.NewRevocations(p.store, now, e.Log)
	if err := revoked.Load(e.Ctx); err != nil {
		return nil, fmt.Errorf("read the ended sessions: %w", err)
	}
	zone, err := time.LoadLocation(cfg.Timezone)
	if err != nil {
		return nil, fmt.Errorf("SECKILL_TIMEZONE: %w", err)
	}
	auth := auth.New(auth.Config{
		Store: p.store, Tokens: tokens, Revoked: revoked, Sender: logSender{e.Log},
		AdminPhones: cfg.AdminPhones, Limits: cfg.RateLimit == "on", Now: now,
	})
	changes, moves := newNews(p.rdb, e.Log, VouchersChannel), newNews(p.rdb, e.Log, OrdersChannel)
	subscribers := salestats.NewSubscribers()
	sales := service.NewSales(service.SalesConfig{Loader: p.store, Changed: changes.changed})
	// The gate, its letters and its workers are there in every lane: orders may be left from when it was another.
	gate := NewGate(p.rdb, cfg.QueueBacklog, e.Log)
	committer := &service.Committer{Orders: p.store, IDs: ids, Now: now, PayTimeout: cfg.PayTimeout}
	console := newConsole(e, p.rdb, gate.Instance())
	workers := newWorkers(e, gate, p.rdb, committer.Commit, m, console, moves.changed)
	console.watch(cfg.OrderLane, p.store, gate, workers)
	m.registry.MustRegister(queueLag{workers})
	s := &server{
		cfg: cfg, log: e.Log, ops: m.opsHandler(), sales: sales, subscribers: subscribers, console: console,
		sandbox: payment.NewSandbox(payment.SandboxConfig{Secret: paymentSecret(cfg, p.secret), Now: now, Log: e.Log, Faults: cfg.Sandbox}),
	}
	if !cfg.IsDemo() {
		e.Log.Warn("payments go to the sandbox, which moves no money")
	}
	s.background = []func(context.Context){
		revoked.Run, changes.publish, func(ctx context.Context) { changes.receive(ctx, sales.Forget) },
		moves.publish, func(ctx context.Context) { moves.receive(ctx, subscribers.Notify) },
	}
	keys := newKeys(e, p.store, m)
	s.background = append(append(s.background, keys.Run), console.background()...)
	ordersConfig := service.OrdersConfig{
		Store: p.store, Sales: sales, Now: now, PayTimeout: cfg.PayTimeout, MaxInFlight: maxInFlight, Observe: m.order, ObserveKey: m.keyed,
		Codes: service.NewRedeemCodes(p.secret), Moved: moves.changed,
	}
	lane := lane{store: p.store, nodes: p.lockNodes, ids: ids, gate: gate, workers: workers, metrics: m, console: console}
	inUse, err := lane.use(e, s, &ordersConfig)
	if err != nil {
		return nil, err
	}
	reconciler := NewReconciler(e, gate, p.store, reconcile.Config{
		Queue: cfg.OrderLane == "queue", InUse: inUse, Now: now, Observe: m.reconciled,
	})
	s.background = append(s.background, reconciler.Run, func(ctx context.Context) { <-ctx.Done(); gate.Close() })
	returns := service.Returns{Sales: sales, Queue: ordersConfig.Queue, Moved: moves.changed}
	closer := &service.Closer{Store: p.store, Returns: returns, Log: e.Log, Closed: m.closed}
	payments := service.NewPayments(service.PaymentsConfig{
		Store: p.store, Providers: map[string]service.PaymentProvider{service.DefaultProvider: s.sandbox},
		Returns: returns, Now: now, Log: e.Log, Observe: m.payment,
	})
	s.background = append(s.background, closer.Run, payments.Run)
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	served := handler.Config{
		Auth: auth, Orders: service.NewOrders(ordersConfig), Payments: payments, Subscribers: subscribers,
		Vouchers:    service.NewVouchers(service.VouchersConfig{Store: p.store, Sales: sales, Queue: ordersConfig.Queue, Now: now}),
		DeadLetters: &service.DeadLetters{Store: gate, Reader: p.store.GateState}, AuditLog: p.store, Keys: keys,
		Reconciler: reconciler,
		Shops:      p.store, Zone: zone, Ready: checks(cfg, p), Metrics: m.registry, Log: e.Log, Now: now,
		Demo: cfg.IsDemo(), RateLimit: cfg.RateLimit == "on", TrustedProxies: cfg.Proxies, Pages: pages,
	}
	console.serve(&served, p.store, tokens)
	s.handler, err = handler.New(served)
	return s, err
}

// newPages makes the pages, those of the API's problems included: web knows nothing of the API.
func newPages() (map[string]http.Handler, error) {
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

// paymentSecret is what signs the notices of payment providers.
func paymentSecret(cfg Config, secret []byte) []byte {
	if cfg.PaymentSecret != "" {
		return []byte(cfg.PaymentSecret)
	}
	return service.DeriveSecret(secret, "payment notices")
}

// newKeys makes what keeps the answers to requests with an Idempotency-Key.
func newKeys(e *Env, store service.KeyStore, m *metrics) *service.Idempotency {
	if e.Tuning.Keys != nil {
		store = e.Tuning.Keys(store)
	}
	return service.NewIdempotency(service.IdempotencyConfig{
		Store: store, Observe: m.keyed,
		Failed: func(err error) { e.Log.Warn("cannot clear away old idempotency keys", "err", err) },
	})
}

// lane is what the order lanes are made of.
type lane struct {
	store   *repo.Store
	nodes   []redis.UniversalClient
	ids     service.IDs
	gate    Gate
	workers *queue.Workers
	metrics *metrics
	console *console
}

// use has orders placed in the configured lane, and adds what must run for it. inUse, of the lane queue, says which gates
// this process has asked lately.
func (l lane) use(e *Env, s *server, orders *service.OrdersConfig) (inUse func() []int64, err error) {
	batch := service.NewBatchLane(l.ids, l.store, l.console.batches(l.metrics.batch))
	switch e.Config.OrderLane {
	case "lock":
		locks := e.Tuning.Locks
		if locks == nil {
			if locks, err = newUserLocks(l.nodes, l.metrics.lockEvent); err != nil {
				return nil, err
			}
		}
		orders.Lane = service.NewLockLane(locks, batch)
	case "batch":
		orders.Lane = batch
	case "queue":
		q := service.NewQueueLane(l.gate, l.ids, l.store, l.metrics.batch)
		orders.Lane, orders.Queue = q, l.gate
		s.background = append(s.background,
			func(ctx context.Context) { _ = l.gate.Run(ctx) },    // returns nil when ctx ends
			func(ctx context.Context) { _ = l.workers.Run(ctx) }, // likewise
		)
		return q.InUse, nil
	}
	warnOfBacklog(e.Ctx, l.workers, e.Config.OrderLane, e.Log)
	return nil, nil
}

// newReconciler completes a configuration. g may be nil.
func NewReconciler(e *Env, g reconcile.Gate, store *repo.Store, cfg reconcile.Config) *reconcile.Reconciler {
	cfg.Gate, cfg.Store, cfg.OrderTime, cfg.Log = g, store, idgen.Time, e.Log
	cfg.MinAge, cfg.Every = e.Tuning.MinAge, e.Tuning.Every
	return reconcile.New(cfg)
}
