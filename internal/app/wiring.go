package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/auth"
	"seckill/internal/demo"
	"seckill/internal/domain"
	"seckill/internal/entry"
	"seckill/internal/handler"
	"seckill/internal/idgen"
	"seckill/internal/lane"
	"seckill/internal/loop"
	"seckill/internal/payment"

	"seckill/internal/picture"
	"seckill/internal/queue"
	"seckill/internal/ratelimit"
	"seckill/internal/reconcile"
	"seckill/internal/repo"
	"seckill/internal/salestats"
	"seckill/internal/service"
	"seckill/internal/tracing"
	"seckill/internal/webhook"
)

// sharedLimitTimeout is how long a login or an entry waits for Redis before the limit of this server decides alone.
const sharedLimitTimeout = 200 * time.Millisecond

// backends are the connections and the secrets that Serve has opened.
type backends struct {
	store *repo.Store
	rdb   redis.UniversalClient
	locks *userLocks
	// As SigningSecrets returns them.
	secrets domain.Keyring
	tracer  *tracing.Tracer
}

// newServer wires the server. It starts nothing: run does.
func newServer(e *Env, b backends) (*server, error) {
	cfg := e.Config
	log := e.Log
	now := time.Now
	if e.Tuning.Now != nil {
		now = e.Tuning.Now
	}

	zone, err := time.LoadLocation(cfg.Timezone)
	if err != nil {
		return nil, fmt.Errorf("--timezone: %w", err)
	}

	m := newMetrics(cfg.OrderLane, b.store, b.rdb)
	m.exemplars = b.tracer != nil
	ids, err := idgen.New(b.rdb, "order", idgen.WithClock(now), idgen.WithGuard())
	if err != nil {
		return nil, err
	}

	tokens, err := newTokens(cfg, b.secrets, now)
	if err != nil {
		return nil, err
	}

	revoked := auth.NewRevocations(b.store, now, log)
	if err := revoked.Load(e.Ctx); err != nil {
		return nil, fmt.Errorf("load the revoked sessions: %w", err)
	}

	// Nil in demo mode.
	var factors *auth.SecondFactors
	var roles map[string]domain.Role
	if cfg.IsDemo() {
		roles = demo.Roles()
	} else if factors, err = NewSecondFactors(b.secrets); err != nil {
		return nil, err
	}

	phones, err := auth.NewPhones(cfg.SMSCountries)
	if err != nil {
		return nil, fmt.Errorf("--sms-countries: %w", err)
	}

	// Nil: no other server uses the Redis.
	var shared *ratelimit.Shared
	if !cfg.EmbeddedRedis() {
		shared = &ratelimit.Shared{
			Redis:   b.rdb,
			Timeout: sharedLimitTimeout,
			Secret:  domain.DeriveSecret(b.secrets.Signer(), "rate limits"),
			Log:     log,
		}
	}

	var quota *ratelimit.Quota
	if cfg.RateLimit == "on" {
		quota = ratelimit.NewQuota("logins", now, shared)
	}

	sender := newCodeSender(codeSenderConfig{
		URL:     cfg.CodeURL,
		Secrets: domain.ParseKeyring(cfg.EventsSecret),
		Demo:    cfg.IsDemo(),
		Now:     now,
		Log:     log,
	})

	users := auth.New(auth.Config{
		Store:         b.store,
		Phones:        phones,
		Tokens:        tokens,
		Revoked:       revoked,
		Sender:        sender,
		AdminPhones:   cfg.AdminPhones,
		DemoRoles:     roles,
		Quota:         quota,
		Now:           now,
		SecondFactors: factors,
		Log:           log,
	})

	changedVouchers := newInvalidationBus(b.rdb, log, VouchersChannel)
	movedOrders := newInvalidationBus(b.rdb, log, OrdersChannel)
	orderSubscribers := salestats.NewSubscribers()
	saleSubscribers := salestats.NewSubscribers()
	sales := service.NewSales(service.SalesConfig{Loader: b.store, Changed: changedVouchers.publish})
	keys := newIdempotency(e, b.store, m)

	// Every lane has the gate, the workers and the dead letters: queued orders may be left from another lane.
	gate := NewGate(b.rdb, cfg.QueueBacklog, sales.Get, log)
	stats := &saleStats{salestats.NewCounters(cfg.OrderLane != "queue")}
	committer := &lane.Committer{Orders: b.tracer.Orders(b.store), IDs: ids, Now: now, PayTimeout: cfg.PayTimeout}
	workers := newWorkers(e, b.rdb, gate, b.store, committer.Commit, m, stats, movedOrders.publish)
	m.registry.MustRegister(queue.NewLagCollector(workers))
	history := &salestats.RedisHistory{Redis: b.rdb, Instance: gate.Instance()}
	monitor := newSaleMonitor(cfg.OrderLane, stats, history, saleSubscribers, b.store, gate, workers, log)

	mode := newLane(e, b, ids, gate, workers, m, stats)

	if cfg.OrderLane != "queue" {
		warnOfQueuedOrders(e.Ctx, workers, cfg.OrderLane, log)
	}

	unpaid := entry.NewUnpaid(b.store)
	roomSubscribers := salestats.NewSubscribers()
	rooms := entry.NewRooms(entry.RoomsConfig{
		Store: b.store, Sales: sales, Peers: roomPeers{b.rdb, gate.Instance()}, Stock: mode.stock, Sells: sells(cfg, b),
		Changed: roomSubscribers.Notify, Admitted: m.roomAdmitted, Log: log,
	})

	m.registry.MustRegister(roomBuyers{rooms})

	entries := &entry.Service{
		Sales:     sales,
		Rooms:     rooms,
		Limits:    unpaid,
		Solutions: usedSolutions{b.rdb},
		Now:       now,
		Human:     entry.NewWork(b.secrets.Derive("entry challenges"), now),
		Passes:    entry.NewPasses(b.secrets.Derive("entry passes")),
		Tickets:   entry.NewTickets(b.secrets.Derive("entry tickets")),
	}

	if mode.queue != nil {
		entries.Queued = mode.queue
	}

	codes := domain.NewRedeemCodes(b.secrets)
	orders := service.NewOrders(service.OrdersConfig{
		Store:       b.store,
		Sales:       sales,
		Lane:        b.tracer.Lane(mode.orders),
		Passes:      entries,
		Unpaid:      unpaid,
		Queue:       mode.queue,
		Now:         now,
		PayTimeout:  cfg.PayTimeout,
		MaxInFlight: maxInFlight,
		Codes:       codes,
		Moved:       movedOrders.publish,
		Observe:     m.order,
		ObserveKey:  m.keyed,
	})

	vouchers := service.NewVouchers(service.VouchersConfig{
		Store: b.store,
		Sales: sales,
		Queue: mode.queue,
		Now:   now,
	})

	drafts := &service.Publishing{
		Store:      b.store,
		Changed:    vouchers.Changed,
		Now:        now,
		PayTimeout: cfg.PayTimeout,
	}

	reconciler := NewReconciler(e, gate, b.store, reconcile.Config{
		Queue:   cfg.OrderLane == "queue",
		InUse:   mode.inUse,
		Now:     now,
		Observe: m.reconciled,
	})

	returns := service.UnitReleaser{
		Sales: sales,
		Queue: mode.queue,
		Moved: movedOrders.publish,
	}

	closer := &service.Closer{
		Store:   b.store,
		Returns: returns,
		Log:     log,
		Closed:  m.closed,
	}

	provider := newProvider(cfg, paymentSecrets(cfg, b.secrets), now, log)
	payments := service.NewPayments(service.PaymentsConfig{
		Store:     b.store,
		Providers: map[string]domain.PaymentProvider{provider.name: provider},
		Default:   provider.name,
		Returns:   returns,
		Now:       now,
		Log:       log,
		Observe:   m.payment,
	})

	draining := new(drain)

	// Offered by the login dialog.
	var accounts []demo.Account
	if cfg.IsDemo() {
		accounts = demo.Accounts(cfg.AdminPhones[0], cfg.SMSCountries)
	}

	site, missing, err := newPages(pagesConfig{
		Vouchers:     vouchers,
		Shops:        b.store,
		Zone:         zone,
		DemoAccounts: accounts,
		Sandbox:      cfg.PaymentURL == "",
	})
	if err != nil {
		return nil, err
	}

	api := handler.Config{
		Auth:   users,
		Orders: orders,
		Search: &service.Search{
			Store:   b.store,
			Live:    orders,
			Phones:  phones,
			Codes:   codes,
			FirstID: idgen.First,
		},
		Entry:           entries,
		Payments:        payments,
		Vouchers:        vouchers,
		Subscribers:     orderSubscribers,
		RoomSubscribers: roomSubscribers,
		DeadLetters:     &service.DeadLetters{Store: gate, Notes: b.store, Log: b.store, Sales: b.store, Now: now}, Failures: b.store, Notices: b.store, Reconciler: reconciler,
		Counters: stats.counters, Monitor: monitor, SaleSubscribers: saleSubscribers,
		AuditLog: b.store, Events: b.store, Personal: b.store, PaymentList: b.store, Keys: keys, Shops: b.store, Pictures: picture.New(b.store, now), Drafts: drafts, Zone: zone, Pages: site, MissingPage: missing,
		CursorKeys: b.secrets.Derive("cursors"),
		Ready:      readyChecks(cfg, b, draining), Metrics: m.registry, Log: log, Now: now, Tracer: b.tracer.Requests(),
		Demo: cfg.IsDemo(), LocalHosts: cfg.onlyLocal(), RateLimit: cfg.RateLimit == "on", TrustedProxies: cfg.Proxies,
		SharedLimits: shared, SecurityContact: cfg.Contact,
	}

	var rushes *rushRunner
	if cfg.IsDemo() {
		rushes = newRushRunner(b.store, tokens, vouchers)
		api.Rush = rushes
	}

	public, err := handler.New(api)
	if err != nil {
		return nil, err
	}

	purgeNotices := func(ctx context.Context) error {
		return b.store.PurgeNotices(ctx, now().Add(-domain.ClosedNoticeLife))
	}

	retention := auth.Retention{
		Users: users,
		Keep:  cfg.Retention,
		Log:   log,
	}

	background := slices.Concat(mode.background, []func(context.Context){
		revoked.Run, retention.Run, keys.Run, reconciler.Run, closer.Run, payments.Run, rooms.Run,
		changedVouchers.send, func(ctx context.Context) { changedVouchers.receive(ctx, sales.Forget) },
		movedOrders.send, func(ctx context.Context) { movedOrders.receive(ctx, orderSubscribers.Notify) },
		monitor.Run, loop.Task{Name: "purge payment notices", Every: time.Hour, Log: log, Run: purgeNotices}.Loop,
		func(ctx context.Context) { <-ctx.Done(); gate.Close() },
	})

	if provider.remote != nil {
		b.store.QueryBeforeClosing(provider.name)

		inquiry := payment.Inquiry{
			Store:  b.store,
			Query:  provider.remote.Query,
			Settle: payments.Settle,
			Log:    log,
		}

		background = append(background, inquiry.Run)
	}

	if cfg.IsDemo() {
		renewal := demo.Renewal{
			Store:   b.store,
			Changed: vouchers.Changed,
			Now:     now,
		}

		background = append(background, loop.Task{
			Name:  "renew the sales of the demo",
			Every: 5 * time.Second,
			Log:   log,
			Run:   renewal.Run,
		}.Loop)
	}

	if cfg.EventsURL != "" {
		background = append(background, newOutbox(cfg, b.store, now, log).Run)
	}

	// Elsewhere the rest of Redis fails with the counter.
	if _, cluster := b.rdb.(*redis.ClusterClient); cluster {
		if err := ids.Reserve(e.Ctx); err != nil {
			return nil, fmt.Errorf("reserve order ids: %w", err)
		}

		background = append(background, loop.Task{
			Name:  "reserve order ids",
			Every: time.Second,
			Log:   log,
			Run:   ids.Reserve,
		}.Loop)
	}

	return &server{
		cfg:         cfg,
		log:         log,
		public:      draining.handler(public),
		ops:         m.opsHandler(),
		sales:       sales,
		sandbox:     provider.sandbox,
		drain:       draining,
		metrics:     m.registry,
		subscribers: []*salestats.Subscribers{orderSubscribers, saleSubscribers, roomSubscribers},
		rushes:      rushes,
		background:  background,
	}, nil
}

// orderLane is the configured order mode with what it needs beside the requests.
type orderLane struct {
	orders service.Lane
	// Nil unless the lane is queue.
	queue service.ReservationStore
	// Run while the server does.
	background []func(context.Context)
	// Vouchers whose gates this server used recently; nil unless the lane is queue.
	inUse func() []int64
	// As in entry.RoomsConfig; nil unless the lane is queue.
	stock func(context.Context, int64) (int64, error)
}

func newLane(
	e *Env, b backends, ids lane.IDs, gate Gate, workers *queue.Workers, m *metrics, stats *saleStats,
) orderLane {
	if e.Config.OrderLane == "queue" {
		orders := lane.NewQueue(b.tracer.Gate(gate), ids, b.store, m.batch)

		stock := func(ctx context.Context, voucherID int64) (int64, error) {
			level, err := gate.Level(ctx, voucherID)
			return level.Stock, err
		}

		return orderLane{
			orders: orders,
			queue:  gate,
			inUse:  orders.InUse,
			stock:  stock,
			background: []func(context.Context){
				// Returns nil when ctx ends.
				func(ctx context.Context) { _ = gate.Run(ctx) },
				// Likewise.
				func(ctx context.Context) { _ = workers.Run(ctx) },
			},
		}
	}

	batch := lane.NewBatch(ids, b.tracer.Orders(b.store), func(purchases []domain.Purchase, placed []domain.Placed) {
		m.batch(len(purchases))
		stats.batch(purchases, placed)
	})

	if e.Config.OrderLane == "batch" {
		return orderLane{orders: batch}
	}

	locks := e.Tuning.Locks
	if locks == nil {
		b.locks.observe = m.lockEvent
		locks = b.locks
	}

	return orderLane{orders: lane.NewLock(b.tracer.Locks(locks), batch)}
}

func newOutbox(cfg Config, store domain.EventStore, now func() time.Time, log *slog.Logger) *webhook.Outbox {
	receiver := webhook.Client{
		URL:    cfg.EventsURL,
		Secret: domain.ParseKeyring(cfg.EventsSecret).Signer(),
		Now:    now,
		HTTP:   webhook.NewHTTPClient(webhook.DeliveryTimeout),
	}

	return webhook.NewOutbox(webhook.OutboxConfig{
		Store:  store,
		Encode: handler.EncodeEvent,
		Post:   receiver.Post,
		Now:    now,
		Log:    log,
	})
}

// provider is the configured payment provider: one of sandbox and remote is not nil.
type provider struct {
	domain.PaymentProvider
	name    string
	sandbox *payment.Sandbox
	remote  *payment.HTTP
}

// newProvider returns the provider at SECKILL_PAYMENT_URL, or the sandbox.
func newProvider(cfg Config, secrets domain.Keyring, now func() time.Time, log *slog.Logger) provider {
	if cfg.PaymentURL != "" {
		remote := payment.NewHTTP(payment.HTTPConfig{
			URL:     cfg.PaymentURL,
			Secrets: secrets,
			Now:     now,
		})
		return provider{remote, payment.HTTPName, nil, remote}
	}

	sandbox := payment.NewSandbox(payment.SandboxConfig{
		Secrets: secrets,
		Now:     now,
		Log:     log,
		Faults:  cfg.Sandbox,
	})

	return provider{sandbox, payment.SandboxName, sandbox, nil}
}

// paymentSecrets returns the keys of payment notices: the configured ones, or those derived from secrets.
func paymentSecrets(cfg Config, secrets domain.Keyring) domain.Keyring {
	if cfg.PaymentSecret != "" {
		return domain.ParseKeyring(cfg.PaymentSecret)
	}
	return secrets.Derive("payment notices")
}

// newIdempotency returns the service that stores the answers to requests with an Idempotency-Key.
func newIdempotency(e *Env, store service.KeyStore, m *metrics) *service.Idempotency {
	if e.Tuning.Keys != nil {
		store = e.Tuning.Keys(store)
	}
	return service.NewIdempotency(service.IdempotencyConfig{
		Store:   store,
		Observe: m.keyed,
		Log:     e.Log,
	})
}

// NewReconciler returns a reconciler with cfg completed from the arguments and e. The gate may be nil if there is no
// Redis.
func NewReconciler(e *Env, gate reconcile.Gate, store *repo.Store, cfg reconcile.Config) *reconcile.Reconciler {
	cfg.Gate = gate
	cfg.Store = store
	cfg.OrderTime = idgen.Time
	cfg.Log = e.Log
	cfg.MinAge = e.Tuning.MinAge
	cfg.Every = e.Tuning.Every
	return reconcile.New(cfg)
}

// NewSecondFactors returns the second factors of a server with these signing secrets.
func NewSecondFactors(secrets domain.Keyring) (*auth.SecondFactors, error) {
	return auth.NewSecondFactors(secrets.Derive("second factors"))
}
