package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/idgen"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/picture"
	"seckill/internal/kit/ratelimit"
	"seckill/internal/ops/alerts"
	"seckill/internal/ops/reconcile"
	"seckill/internal/ops/salestats"
	"seckill/internal/ops/tracing"
	"seckill/internal/out/payment"
	"seckill/internal/out/webhook"
	"seckill/internal/repo"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/entry"
	"seckill/internal/sale/lane"
	"seckill/internal/sale/queue"
	"seckill/internal/service"
)

// sharedLimitTimeout is how long a login or an entry waits for Redis before the limit of this server decides alone.
const sharedLimitTimeout = 200 * time.Millisecond

// backends are the connections, the secrets and the metrics that Serve has made.
type backends struct {
	store *repo.Store
	rdb   redis.UniversalClient
	locks *userLocks
	// As SigningSecrets returns them.
	secrets domain.Keyring
	tracer  *tracing.Tracer
	metrics *metrics
}

// wiring is what the parts of a server are built from. Its methods build them; they start nothing.
type wiring struct {
	backends

	env  *Env
	cfg  Config
	log  *slog.Logger
	now  func() time.Time
	zone *time.Location
	ids  *idgen.Generator
	// Unique among all processes.
	instance string
}

func newServer(e *Env, b backends) (*server, error) {
	w, err := newWiring(e, b)
	if err != nil {
		return nil, err
	}

	p, err := w.newParts()
	if err != nil {
		return nil, err
	}

	draining := new(drain)
	public, err := w.newPublic(p, draining)
	if err != nil {
		return nil, err
	}

	tasks, err := w.tasks(p)
	if err != nil {
		return nil, err
	}

	return &server{
		wiring: w,
		parts:  p,
		public: draining.handler(public),
		drain:  draining,
		tasks:  tasks,
	}, nil
}

// parts are the parts of a server, each built from those before it.
type parts struct {
	*people
	*topics
	*lanes
	*shop
	*money

	keys *service.Idempotency
	// Only a demo offers them.
	rushes *rushRunner
}

func (w *wiring) newParts() (*parts, error) {
	people, err := w.newPeople()
	if err != nil {
		return nil, err
	}

	topics := newTopics(w.rdb, w.log)
	lanes := w.newLanes(topics)

	shop := w.newShop(topics, lanes)

	return &parts{
		people: people,
		topics: topics,
		lanes:  lanes,
		shop:   shop,
		money:  w.newMoney(lanes),
		keys:   w.newIdempotency(),
		rushes: newRushRunner(w.store, people.tokens, shop.vouchers),
	}, nil
}

func newWiring(e *Env, b backends) (*wiring, error) {
	w := &wiring{
		backends: b,
		env:      e,
		cfg:      e.Config,
		log:      e.Log,
		now:      time.Now,
		instance: newInstance(),
	}
	if e.Parts.Now != nil {
		w.now = e.Parts.Now
	}

	// Valid: checked by Finish.
	w.zone, _ = time.LoadLocation(w.cfg.Timezone)

	var err error
	w.ids, err = idgen.New(b.rdb, "order", idgen.WithClock(w.now), idgen.WithGuard())
	return w, err
}

// people are the users and their sessions.
type people struct {
	users   *auth.Service
	tokens  *auth.Tokens
	revoked *auth.Revocations
	phones  *auth.Phones
	// Nil if no other server uses the Redis.
	limits *ratelimit.Shared
}

func (w *wiring) newPeople() (*people, error) {
	p := &people{
		revoked: auth.NewRevocations(w.store, w.now),
		limits:  w.sharedLimits(),
	}

	// Valid: checked by Finish.
	p.phones, _ = auth.NewPhones(w.cfg.SMSCountries)

	var err error
	if p.tokens, err = newTokens(w.cfg, w.secrets, w.now); err != nil {
		return nil, err
	}
	if err := p.revoked.Load(w.env.Ctx); err != nil {
		return nil, fmt.Errorf("load the revoked sessions: %w", err)
	}

	var roles map[string]domain.Role
	var factors *auth.SecondFactors
	if w.cfg.IsDemo() {
		roles = demoRoles
	} else {
		factors = auth.NewSecondFactors(w.secrets)
	}

	p.users = auth.New(auth.Config{
		Store:         w.store,
		Phones:        p.phones,
		Tokens:        p.tokens,
		Revoked:       p.revoked,
		Sender:        newCodeSender(w.cfg, w.now, w.log),
		AdminPhones:   w.cfg.AdminPhones,
		DemoRoles:     roles,
		Quota:         w.newQuota(p.limits),
		Now:           w.now,
		SecondFactors: factors,
		Log:           w.log,
	})

	return p, nil
}

func (w *wiring) sharedLimits() *ratelimit.Shared {
	if w.cfg.EmbeddedRedis() {
		return nil
	}
	return &ratelimit.Shared{
		Redis:   w.rdb,
		Timeout: sharedLimitTimeout,
		Secret:  domain.DeriveSecret(w.secrets.Signer(), "rate limits"),
		Log:     w.log,
	}
}

// newQuota returns the quota of logins and codes, or nil without limits. A demo has none: it sends no text messages, and its
// users share a few accounts.
func (w *wiring) newQuota(shared *ratelimit.Shared) *ratelimit.Quota {
	if w.cfg.RateLimit != "on" || w.cfg.IsDemo() {
		return nil
	}
	return ratelimit.NewQuota("{logins}", w.now, shared)
}

// topics are the changes that all servers publish to each other, and the streams of clients that wait for changes.
type topics struct {
	changedVouchers, movedOrders                       *invalidationBus
	orderSubscribers, saleSubscribers, roomSubscribers *salestats.Subscribers
}

func newTopics(rdb redis.UniversalClient, log *slog.Logger) *topics {
	return &topics{
		changedVouchers:  newInvalidationBus(rdb, log, VouchersChannel),
		movedOrders:      newInvalidationBus(rdb, log, OrdersChannel),
		orderSubscribers: salestats.NewSubscribers(),
		saleSubscribers:  salestats.NewSubscribers(),
		roomSubscribers:  salestats.NewSubscribers(),
	}
}

// lanes are the way of a purchase to a committed order, and its statistics.
type lanes struct {
	sales    *service.Sales
	gate     *admission.Gate
	counters *salestats.Counters
	monitor  *salestats.Monitor
	mode     orderLane
	returns  service.UnitReleaser
}

func (w *wiring) newLanes(t *topics) *lanes {
	l := &lanes{sales: service.NewSales(service.SalesConfig{Loader: w.store, Changed: t.changedVouchers.publish})}

	voucher := func(ctx context.Context, id int64) (domain.Voucher, error) {
		v, err := l.sales.Get(ctx, id)
		if err != nil {
			return domain.Voucher{}, err
		}
		return *v, nil
	}

	// Every lane has the gate, the workers and the dead letters: queued orders may be left from another lane.
	l.gate = NewGate(w.rdb, w.cfg.QueueBacklog, voucher, w.log)
	l.counters = salestats.NewCounters(w.cfg.OrderLane != "queue")
	orders := w.tracer.Orders(countedOrders{w.store, l.counters.CountBatch})

	committer := &lane.Committer{
		Orders:     orders,
		IDs:        w.ids,
		Now:        w.now,
		PayTimeout: w.cfg.PayTimeout,
	}

	workers := w.newWorkers(l.gate, committer.Commit, l.counters, t.movedOrders.publish)
	w.metrics.registry.MustRegister(lagCollector(l.gate))
	l.mode = w.newLane(l.gate, workers, orders)
	l.monitor = w.newSaleMonitor(l, t.saleSubscribers)
	l.returns = service.UnitReleaser{
		Sales: l.sales,
		Queue: l.mode.queue,
		Moved: t.movedOrders.publish,
	}

	return l
}

// shop is what buyers and merchants do with vouchers and orders.
type shop struct {
	rooms    *entry.Rooms
	entries  *entry.Service
	orders   *service.Orders
	codes    domain.RedeemCodes
	vouchers *service.Vouchers
}

func (w *wiring) newShop(t *topics, l *lanes) *shop {
	s := &shop{codes: domain.NewRedeemCodes(w.secrets)}
	unpaid := entry.NewUnpaid(w.store)

	s.rooms = w.newRooms(t, l)
	s.entries = w.newEntries(l, s.rooms, unpaid)

	s.orders = service.NewOrders(service.OrdersConfig{
		Store:       w.store,
		Sales:       l.sales,
		Lane:        w.tracer.Lane(l.mode.orders),
		Passes:      s.entries,
		Unpaid:      unpaid,
		Queue:       l.mode.queue,
		Now:         w.now,
		PayTimeout:  w.cfg.PayTimeout,
		MaxInFlight: maxInFlight,
		Codes:       s.codes,
		Returns:     l.returns,
		Observe:     w.metrics.order,
		ObserveKey:  w.metrics.keyed,
	})

	s.vouchers = service.NewVouchers(service.VouchersConfig{
		Store:      w.store,
		Sales:      l.sales,
		Queue:      l.mode.queue,
		Now:        w.now,
		PayTimeout: w.cfg.PayTimeout,
	})

	return s
}

func (w *wiring) newRooms(t *topics, l *lanes) *entry.Rooms {
	rooms := entry.NewRooms(entry.RoomsConfig{
		Store:    w.store,
		Sales:    l.sales,
		Peers:    roomPeers{w.rdb, w.instance},
		Stock:    l.mode.stock,
		Sells:    sells(w.cfg, w.backends),
		Changed:  t.roomSubscribers.Notify,
		Admitted: w.metrics.roomAdmitted,
	})
	w.metrics.registry.MustRegister(roomCollector(rooms))
	return rooms
}

func (w *wiring) newEntries(l *lanes, rooms *entry.Rooms, unpaid *entry.Unpaid) *entry.Service {
	s := &entry.Service{
		Sales:     l.sales,
		Rooms:     rooms,
		Limits:    unpaid,
		Solutions: usedSolutions{w.rdb},
		Now:       w.now,
		Human:     entry.NewWork(w.secrets.Derive("entry challenges"), w.now),
		Passes:    entry.NewPasses(w.secrets),
		Tickets:   entry.NewTickets(w.secrets),
	}
	if l.mode.queue != nil {
		s.Queued = l.mode.queue
	}
	return s
}

// money is what becomes of orders after the purchase: their payment, or their end, and the checks of both.
type money struct {
	provider   provider
	payments   *service.Payments
	closer     *service.Closer
	reconciler *reconcile.Reconciler
	alerts     alerts.Collector
}

func (w *wiring) newMoney(l *lanes) *money {
	m := &money{provider: w.newProvider()}
	m.payments = &service.Payments{
		Store:     w.store,
		Providers: map[string]domain.PaymentProvider{m.provider.name: m.provider},
		Default:   m.provider.name,
		Returns:   l.returns,
		Now:       w.now,
		Log:       w.log,
		Observe:   w.metrics.payment,
	}

	m.closer = &service.Closer{
		Store:   w.store,
		Returns: l.returns,
		Closed:  w.metrics.closed,
	}

	m.reconciler = NewReconciler(w.env, l.gate, w.store, reconcile.Config{
		Queue:   w.cfg.OrderLane == "queue",
		InUse:   l.mode.inUse,
		Now:     w.now,
		Observe: w.metrics.reconciled,
	})

	m.alerts = alerts.Collector{
		Reconciler: m.reconciler,
		Lag:        l.gate.Lag,
		Failures:   w.store,
	}

	return m
}

func (w *wiring) newPublic(p *parts, draining *drain) (http.Handler, error) {
	cfg := w.handlerConfig(p)
	cfg.Ready = readyChecks(w.cfg, w.backends, draining)
	if w.cfg.IsDemo() {
		cfg.Rush = p.rushes
	}

	var err error
	if cfg.Pages, cfg.MissingPage, err = w.newPages(p.vouchers); err != nil {
		return nil, err
	}

	return handler.New(cfg), nil
}

func (w *wiring) handlerConfig(p *parts) handler.Config {
	return handler.Config{
		Auth:   p.users,
		Orders: p.orders,
		Search: &service.Search{
			Store:   w.store,
			Orders:  p.orders,
			Phones:  p.phones,
			Codes:   p.codes,
			FirstID: idgen.First,
		},
		Entry:           p.entries,
		Payments:        p.payments,
		Vouchers:        p.vouchers,
		Subscribers:     p.orderSubscribers,
		RoomSubscribers: p.roomSubscribers,
		SaleSubscribers: p.saleSubscribers,
		DeadLetters: &service.DeadLetters{
			Store: p.gate,
			Log:   w.store,
			Now:   w.now,
		},
		Alerts:          p.alerts.Read,
		Store:           w.store,
		Reconciler:      p.reconciler,
		Counters:        p.counters,
		Monitor:         p.monitor,
		Keys:            p.keys,
		Pictures:        picture.New(w.store, w.now),
		Zone:            w.zone,
		CursorKeys:      w.secrets.Derive("cursors"),
		Metrics:         w.metrics.registry,
		Log:             w.log,
		Now:             w.now,
		Tracer:          w.tracer.Requests(),
		Demo:            w.cfg.IsDemo(),
		LocalHosts:      w.cfg.OnlyLocal(),
		RateLimit:       w.cfg.RateLimit == "on",
		TrustedProxies:  w.cfg.Proxies,
		SharedLimits:    p.limits,
		SecurityContact: w.cfg.Contact,
		Version:         Version(),
	}
}

func (w *wiring) tasks(p *parts) ([]loop.Task, error) {
	configured, err := w.configuredTasks(p)

	return slices.Concat(
		p.mode.tasks,
		configured,
		p.revoked.Tasks(),
		p.users.RetentionTasks(w.cfg.Retention),
		p.rooms.Tasks(),
		p.changedVouchers.tasks("changed vouchers", p.sales.Forget),
		p.movedOrders.tasks("moved orders", p.orderMoved),
		[]loop.Task{
			p.reconciler.Task(),
			// In every lane: gates may be left from lane queue.
			p.reconciler.UnloadTask(),
			p.closer.Task(),
			p.payments.Task(),
			p.keys.Task(),
			// Also of a server without a receiver, which may have had one.
			loop.Every(time.Minute, "delete old events of orders", w.purgeEvents),
			loop.Every(time.Hour, "purge payment notices", func(ctx context.Context) error {
				return w.store.PurgeNotices(ctx, w.now().Add(-domain.ClosedNoticeLife))
			}),
			loop.Always("show live sales", p.monitor.Run),
			loop.Always("load gates", func(ctx context.Context) { <-ctx.Done(); p.gate.Close() }),
		},
	), err
}

func (w *wiring) purgeEvents(ctx context.Context) error {
	before := w.now().Add(-domain.EventLife)
	return loop.InBatches(ctx, func(ctx context.Context) (int, error) { return w.store.PurgeEvents(ctx, before) })
}

func (p *parts) orderMoved(id int64) {
	p.orderSubscribers.Notify(id)
	if p.mode.moved != nil {
		p.mode.moved(id)
	}
}

func (w *wiring) configuredTasks(p *parts) ([]loop.Task, error) {
	var all []loop.Task
	if remote := p.provider.remote; remote != nil {
		w.store.QueryBeforeClosing(p.provider.name)
		inquiry := payment.Inquiry{
			Store:  w.store,
			Query:  remote.Query,
			Settle: p.payments.Settle,
		}
		all = append(all, inquiry.Task())
	}

	if w.cfg.EventsURL != "" {
		all = append(all, w.newOutbox().Task())
	}
	if w.cfg.AlertURL != "" {
		all = append(all, w.newReporter(p).Task())
	}

	if w.cfg.IsDemo() {
		all = append(all, loop.Every(5*time.Second, "renew the sales of the demo", func(ctx context.Context) error {
			return renewDemo(ctx, w.store, w.now(), p.vouchers.Changed)
		}))
	}

	// Elsewhere the rest of Redis fails with the counter.
	if _, cluster := w.rdb.(*redis.ClusterClient); cluster {
		if err := w.ids.Reserve(w.env.Ctx); err != nil {
			return nil, fmt.Errorf("reserve order ids: %w", err)
		}
		all = append(all, loop.Every(time.Second, "reserve order ids", w.ids.Reserve))
	}

	return all, nil
}

func (w *wiring) newOutbox() *webhook.Outbox {
	return &webhook.Outbox{
		Store:  w.store,
		Encode: handler.EncodeEvent,
		Post:   w.newReceiver(w.cfg.EventsURL).Post,
		Now:    w.now,
		Log:    w.log,
	}
}

func (w *wiring) newReceiver(url string) webhook.Client {
	return newReceiver(url, domain.ParseKeyring(w.cfg.EventsSecret), webhook.DeliveryTimeout, w.now)
}

func (w *wiring) newReporter(p *parts) *alerts.Reporter {
	return &alerts.Reporter{
		Read:     p.alerts.Read,
		Post:     w.newReceiver(w.cfg.AlertURL).Send,
		Watch:    p.reconciler.Watch,
		Redis:    w.rdb,
		Instance: w.instance,
		Now:      w.now,
	}
}

// orderLane is the configured order mode with what it needs beside the requests.
type orderLane struct {
	orders service.Lane
	// Nil unless the lane is queue.
	queue service.ReservationStore
	tasks []loop.Task
	// Vouchers whose gates this server used recently; nil unless the lane is queue.
	inUse func() []int64
	// Called with each order that has moved; nil unless the lane is queue.
	moved func(orderID int64)
	// Units left in the gate; nil unless the lane is queue.
	stock func(context.Context, int64) (int64, error)
}

func (w *wiring) newLane(gate *admission.Gate, workers *queue.Workers, placer lane.OrderPlacer) orderLane {
	if w.cfg.OrderLane == "queue" {
		orders := lane.NewQueue(w.tracer.Gate(gate), w.ids, w.store, w.metrics.batch)

		stock := func(ctx context.Context, voucherID int64) (int64, error) {
			level, err := gate.Level(ctx, voucherID)
			return level.Stock, err
		}

		return orderLane{
			orders: orders,
			queue:  gate,
			inUse:  orders.InUse,
			moved:  orders.Moved,
			stock:  stock,
			tasks: []loop.Task{
				{Name: "show that lane queue is served", Run: w.subscribeToQueue},
				{Name: "commit queued orders", Run: workers.Run},
			},
		}
	}

	batch := lane.NewBatch(w.ids, placer, w.metrics.batch)
	if w.cfg.OrderLane == "batch" {
		return orderLane{orders: batch}
	}

	locks := w.env.Parts.Locks
	if locks == nil {
		locks = w.locks
	}

	return orderLane{orders: lane.NewLock(w.tracer.Locks(locks), batch)}
}

// provider is the configured payment provider: one of sandbox and remote is not nil.
type provider struct {
	domain.PaymentProvider
	name    string
	sandbox *payment.Sandbox
	remote  *payment.HTTP
}

func (w *wiring) newProvider() provider {
	secrets := w.secrets.Derive("payment notices")
	if w.cfg.PaymentSecret != "" {
		secrets = domain.ParseKeyring(w.cfg.PaymentSecret)
	}

	if w.cfg.PaymentURL != "" {
		remote := &payment.HTTP{API: newReceiver(w.cfg.PaymentURL, secrets, payment.CallTimeout, w.now)}
		return provider{remote, payment.HTTPName, nil, remote}
	}

	sandbox := payment.NewSandbox(payment.SandboxConfig{
		API:    newReceiver("", secrets, webhook.DeliveryTimeout, w.now),
		Log:    w.log,
		Faults: w.cfg.Sandbox,
	})

	return provider{sandbox, payment.SandboxName, sandbox, nil}
}

func (w *wiring) newIdempotency() *service.Idempotency {
	var store service.KeyStore = w.store
	if w.env.Parts.Keys != nil {
		store = w.env.Parts.Keys(store)
	}
	return &service.Idempotency{
		Store:   store,
		Observe: w.metrics.keyed,
	}
}

// NewReconciler returns a reconciler with cfg completed from the arguments and e. The gate may be nil if there is no
// Redis.
func NewReconciler(e *Env, gate reconcile.Gate, store *repo.Store, cfg reconcile.Config) *reconcile.Reconciler {
	cfg.Gate = gate
	cfg.Store = store
	cfg.OrderTime = idgen.Time
	cfg.Log = e.Log
	if e.Parts.Reconciler != nil {
		e.Parts.Reconciler(&cfg)
	}
	return reconcile.New(cfg)
}
