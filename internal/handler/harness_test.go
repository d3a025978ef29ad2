package handler_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/idgen"
	"seckill/internal/kit/picture"
	"seckill/internal/kit/ratelimit"
	"seckill/internal/ops/salestats"
	"seckill/internal/out/payment"
	"seckill/internal/out/webhook"
	"seckill/internal/repo"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/entry"
	"seckill/internal/sale/lane"
	"seckill/internal/service"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

const (
	adminPhone = "13900000000"
	payTimeout = 15 * time.Minute
)

// keys sign the tokens of environments without other keys.
var (
	secret = []byte("a signing secret for tests, 40 bytes long")
	keys   = domain.NewKeyring(secret)
)

// environment is the whole stack behind a real listener: handlers, services and a separate database. Locks, ids and text
// messages are in-memory fakes.
type environment struct {
	t      testing.TB
	store  *faultyDB
	clock  *clock
	locks  *userLocks
	outbox *outbox
	bank   *bank

	provider string        // the name of the payment provider
	remote   *payment.HTTP // nil unless the bank is a provider over HTTP

	payments        *service.Payments
	subscribers     *salestats.Subscribers
	saleSubscribers *salestats.Subscribers
	returns         service.UnitReleaser
	logs            *logBuffer

	auth    *auth.Service
	revoked *auth.Revocations
	admins  *auth.Admins
	rooms   *entry.Rooms // do not run
	config  handler.Config
	engine  *gin.Engine
	handler http.Handler
	url     string
	http    *http.Client
}

// setup is the part of the wiring that a test can change. By default limits, demo mode and faults are off.
type setup struct {
	store       *faultyDB                                                // nil: a new one on SQLite
	limits      bool                                                     // quotas of login codes
	shared      *ratelimit.Shared                                        // of these quotas; nil: this server only
	rateLimit   bool                                                     // requests per caller
	countries   []string                                                 // of phone numbers besides CN
	demo        bool                                                     // X-Demo-Code
	factors     bool                                                     // roles need second factors
	maxInFlight int                                                      // concurrent purchases
	lane        func(service.Lane) service.Lane                          // wraps the lock lane
	queue       func(*faultyDB) (service.Lane, service.ReservationStore) // lane queue instead of it
	ids         *ids
	ready       map[string]handler.Check // of /readyz
	change      func(*handler.Config)    // called last
	sender      func(auth.CodeSender) auth.CodeSender
	adminPhones []string
	keys        domain.Keyring
	provider    string // of payments
}

// shanghai is the zone of times without a zone. It has had no daylight saving time since 1991.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

type option = func(*setup)

func configured(change func(*handler.Config)) option { return func(s *setup) { s.change = change } }

// eachDatabase runs a test on SQLite, and at level full on each database server. It is for tests whose statements differ
// between the databases, or race in them; the others use SQLite.
func eachDatabase(t *testing.T, test func(t *testing.T, db option)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, func(*setup) {})
	})
	for _, kind := range env.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			env.Full(t)
			test(t, func(s *setup) { s.store = opened(t)(repo.OpenMySQL(kind.MigratedDSN(t))) })
		})
	}
}

// eachEnv runs a parallel test in an environment on each database, as eachDatabase does.
func eachEnv(t *testing.T, test func(t *testing.T, e *environment), options ...option) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) { test(t, newEnv(t, append(options, db)...)) })
}

func opened(t testing.TB) func(*repo.Store, error) *faultyDB {
	return func(store *repo.Store, err error) *faultyDB {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return &faultyDB{store, env.Inject(store.DB)}
	}
}

// start is newEnv for a test that is parallel to others.
func start(t *testing.T, options ...option) *environment {
	t.Helper()
	t.Parallel()
	return newEnv(t, options...)
}

// newEnv wires the program as package app does, on a new SQLite database unless an option says otherwise.
func newEnv(t testing.TB, options ...option) *environment {
	t.Helper()
	s := setup{
		maxInFlight: 64, ids: newIDs(), keys: keys, adminPhones: []string{adminPhone}, provider: payment.SandboxName,
		sender: func(inner auth.CodeSender) auth.CodeSender { return inner },
		lane:   func(inner service.Lane) service.Lane { return inner },
		change: func(*handler.Config) {},
	}
	for _, o := range options {
		o(&s)
	}
	if s.store == nil {
		s.store = opened(t)(repo.OpenSQLite(env.SQLiteFile(t)))
	}
	e := &environment{
		t: t, store: s.store, clock: newClock(), locks: &userLocks{},
		outbox: &outbox{}, logs: &logBuffer{},
	}
	log := slog.New(slog.NewJSONHandler(e.logs, nil))
	tokens := env.Must(auth.NewTokens(s.keys, e.clock.now))(t)
	numbers := env.Must(auth.NewPhones(append(s.countries, "CN")))(t)
	e.revoked = auth.NewRevocations(s.store, e.clock.now)
	require.NoError(t, e.revoked.Load(t.Context()))
	factors := auth.NewSecondFactors(s.keys)
	e.admins = &auth.Admins{Store: s.store, SecondFactors: factors, Numbers: numbers, Phones: []string{adminPhone}, Now: e.clock.now}
	if !s.factors {
		factors = nil
	}
	var quota *ratelimit.Quota
	if s.limits {
		quota = ratelimit.NewQuota("logins", e.clock.now, s.shared)
	}
	sales := service.NewSales(service.SalesConfig{Loader: e.store})
	t.Cleanup(sales.Close)
	mode := s.lane(lane.NewLock(e.locks, lane.NewBatch(s.ids, e.store, nil)))
	var queue service.ReservationStore
	if s.queue != nil {
		mode, queue = s.queue(e.store)
	}
	unpaid := entry.NewUnpaid(e.store)
	entries := &entry.Service{
		Sales: sales, Limits: unpaid, Now: e.clock.now, Human: entry.NewWork(s.keys, e.clock.now), Solutions: &usedSolutions{},
		Passes:  entry.NewPasses(s.keys),
		Tickets: entry.NewTickets(s.keys),
		Rooms: entry.NewRooms(entry.RoomsConfig{
			Store: e.store, Sales: sales, Peers: noPeers{}, Changed: func(int64) {},
		}),
	}
	e.rooms = entries.Rooms
	e.bank = &bank{Sandbox: payment.NewSandbox(payment.SandboxConfig{API: webhook.Client{Secrets: domain.NewKeyring(paymentSecret), Now: e.clock.now}})}
	e.subscribers = salestats.NewSubscribers()
	e.returns = service.UnitReleaser{Sales: sales, Queue: queue, Moved: e.subscribers.Notify}
	e.provider = s.provider
	var provider domain.PaymentProvider = e.bank
	if s.provider == payment.HTTPName {
		e.remote = e.bank.overHTTP(t, e.clock.now)
		provider = e.remote
	}
	e.payments = service.NewPayments(service.PaymentsConfig{
		Store: e.store, Providers: map[string]domain.PaymentProvider{e.provider: provider}, Default: e.provider,
		Returns: e.returns, Now: e.clock.now, Log: log,
	})
	counters, monitor := e.newMonitor(s.store, queue)
	cfg := handler.Config{
		Counters: counters, Monitor: monitor, SaleSubscribers: e.saleSubscribers,
		Auth: auth.New(auth.Config{
			Store: e.store, Phones: numbers, Tokens: tokens, Revoked: e.revoked, Sender: s.sender(e.outbox.SendCode),
			AdminPhones: s.adminPhones, Quota: quota, Now: e.clock.now, SecondFactors: factors, Log: log,
		}),
		Vouchers: service.NewVouchers(service.VouchersConfig{Store: e.store, Sales: sales, Queue: queue, Now: e.clock.now, PayTimeout: payTimeout}),
		Orders: service.NewOrders(service.OrdersConfig{
			Store: e.store, Sales: sales, Lane: patientLane{mode}, Passes: entries, Unpaid: unpaid, Queue: queue, Now: e.clock.now, PayTimeout: payTimeout, MaxInFlight: s.maxInFlight,
			Codes: domain.NewRedeemCodes(s.keys), Moved: e.subscribers.Notify,
		}),
		Entry: entries, RoomSubscribers: salestats.NewSubscribers(),
		Payments: e.payments, Subscribers: e.subscribers, Store: e.store, Pictures: picture.New(e.store, e.clock.now), Zone: shanghai,
		Keys:  service.NewIdempotency(service.IdempotencyConfig{Store: e.store}),
		Ready: s.ready, Metrics: prometheus.NewRegistry(), Log: log, Now: e.clock.now,
		Demo: s.demo, RateLimit: s.rateLimit, CursorKeys: s.keys, Version: "1.2.3",
	}
	cfg.Search = &service.Search{Store: e.store, Live: cfg.Orders, Phones: numbers, Codes: domain.NewRedeemCodes(s.keys), FirstID: idgen.First}
	s.change(&cfg)
	e.auth = cfg.Auth
	e.config = cfg
	h := env.Must(handler.New(cfg))(t)
	e.engine, e.handler = handler.Router(h), h
	t.Cleanup(func() { require.Empty(t, e.leaks(), "log or metrics have secrets") })
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(e.saleSubscribers.Close)
	t.Cleanup(e.subscribers.Close) // runs before srv.Close, which waits for the streams
	e.url, e.http = srv.URL, srv.Client()
	e.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e
}

// patientLane gives purchases a minute, so that a busy machine cannot make them unavailable. Their real deadline is tested
// in packages service and lane.
type patientLane struct{ service.Lane }

func (l patientLane) Place(ctx context.Context, p domain.Purchase) (domain.Order, bool, error) {
	p.Deadline = time.Now().Add(time.Minute)
	return l.Lane.Place(context.WithoutCancel(ctx), p)
}

// leaks returns the secrets in the log and in the labels of the metrics. The search runs at the end of every environment.
func (e *environment) leaks() (found []string) {
	known := []string{string(secret)}
	for phone, code := range e.outbox.codes.Range {
		known = append(known, phone.(string), code.(string))
	}
	found = env.Leaks(e.logs.String(), known...)
	families := env.Must(e.config.Metrics.(prometheus.Gatherer).Gather())(e.t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				found = append(found, env.Leaks(l.GetName()+`="`+l.GetValue()+`"`, known...)...)
			}
		}
	}
	return found
}

func (e *environment) newMonitor(store *faultyDB, queue service.ReservationStore) (*salestats.Counters, *salestats.Monitor) {
	queued := queue != nil
	e.saleSubscribers = salestats.NewSubscribers()
	counters, lane := salestats.NewCounters(!queued), "lock"
	if queued {
		lane = "queue"
	}
	rdb := redis.NewClient(&redis.Options{Addr: env.StartMiniredis(e.t).Addr()})
	e.t.Cleanup(func() { _ = rdb.Close() })
	cfg := salestats.MonitorConfig{
		Store: store, Counters: counters, History: &salestats.RedisHistory{Redis: rdb, Instance: "test"},
		Subscribers: e.saleSubscribers, Lane: lane, Log: slog.New(slog.DiscardHandler),
	}
	if gate, ok := queue.(*admission.Gate); ok {
		cfg.Gate = func(ctx context.Context, id int64) (int64, error) {
			level, err := gate.Level(ctx, id)
			return level.Stock, err
		}
	}
	monitor := salestats.NewMonitor(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { monitor.Run(ctx) })
	e.t.Cleanup(func() { cancel(); running.Wait() })
	return counters, monitor
}

func (e *environment) login(phone string) client {
	e.t.Helper()
	l := decode[loginView](e.guest().post("/api/v1/auth/login", e.credentials(phone)).want(http.StatusOK))
	return client{t: e.t, env: e, token: l.AccessToken, login: l}
}

func (e *environment) admin() client { e.t.Helper(); return e.login(adminPhone) }

func (e *environment) buyer(n int) client { e.t.Helper(); return e.login(fmt.Sprintf("138%08d", n)) }

// staff gives a phone a role, in some shops or in all, and logs it in.
func (e *environment) staff(phone string, role domain.Role, shops ...int64) client {
	e.t.Helper()
	_, _, err := e.admins.Enroll(context.Background(), phone, role, shops)
	require.NoError(e.t, err)
	return e.login(phone)
}

// saleBody is the body that publishes a sale which began an hour ago and ends in an hour.
func (e *environment) saleBody(stock int) map[string]any {
	now := e.clock.now()
	return map[string]any{
		"shop_id": "1", "title": "100 for 80", "pay_value": 8000, "actual_value": 10000, "force": true, "stock": stock,
		"begin_at": now.Add(-time.Hour).Format(time.RFC3339), "end_at": now.Add(time.Hour).Format(time.RFC3339),
	}
}

// sale publishes a running sale; change modifies the body before it is sent.
func (e *environment) sale(stock int, change ...func(map[string]any)) voucherView {
	e.t.Helper()
	body := e.saleBody(stock)
	for _, f := range change {
		f(body)
	}
	return decode[voucherView](e.admin().post("/api/v1/admin/vouchers", body).want(http.StatusCreated))
}

func (e *environment) normal() voucherView {
	e.t.Helper()
	return decode[voucherView](e.admin().post("/api/v1/admin/vouchers", map[string]any{
		"shop_id": "1", "title": "n", "pay_value": 1, "actual_value": 1, "force": true,
	}).want(http.StatusCreated))
}

func (e *environment) stock(voucherID string) int64 {
	e.t.Helper()
	id := mustID(e.t, voucherID)
	v := env.Must(e.store.Voucher(context.Background(), id))(e.t)
	return v.Sale.Stock
}

// seen waits until purchases see the last change of a voucher. On a slow machine they do not wait for it: they are
// answered from the snapshot before it, which may be sold out.
func (e *environment) seen(v voucherView) {
	e.t.Helper()
	e.guest().get(v.path()).want(http.StatusOK)
}

// exec runs a statement on the database, as an operator does by hand.
func (e *environment) exec(statement string, args ...any) {
	e.t.Helper()
	env.Must(e.store.Pools()["write"].ExecContext(context.Background(), statement, args...))(e.t)
}

func (e *environment) checkInvariants() {
	e.t.Helper()
	totals := env.Must(e.store.SaleTotals(context.Background()))(e.t)
	for _, b := range totals {
		require.Empty(e.t, b.Check(), "voucher %d", b.VoucherID)
	}
}

var tables = []string{
	"users", "sessions", "revocations", "login_codes", "shops", "vouchers", "seckill_vouchers", "voucher_orders",
	"stock_changes", "payments", "audit_log", "idempotency_keys",
}

func (e *environment) dump() string { e.t.Helper(); return e.dumpOf(tables...) }

func (e *environment) dumpOf(tables ...string) string {
	e.t.Helper()
	var b strings.Builder
	for _, table := range tables {
		rows, err := e.store.Pools()["write"].QueryContext(context.Background(), "SELECT * FROM "+table+" ORDER BY 1")
		require.NoError(e.t, err)
		writeRows(e.t, &b, table, rows)
	}
	return b.String()
}

func writeRows(t testing.TB, b *strings.Builder, table string, rows *sql.Rows) {
	t.Helper()
	defer func() { require.NoError(t, rows.Close()) }()
	columns := env.Must(rows.Columns())(t)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(t, rows.Scan(into...))
		for i, v := range values {
			if text, ok := v.([]byte); ok { // MariaDB returns text as bytes
				values[i] = string(text)
			}
		}
		fmt.Fprintf(b, "%s %v\n", table, values)
	}
	require.NoError(t, rows.Err())
}

type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.at.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Milliseconds()) }

// userLocks are in-memory locks of users. A test can take one or make all of them fail.
type userLocks struct {
	held sync.Map
	err  atomic.Pointer[error] // of every lock, if not nil
}

func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	if _, held := l.held.LoadOrStore(userID, true); held {
		return domain.ErrOrderInProgress
	}
	defer l.held.Delete(userID)
	return fn(ctx)
}

func (l *userLocks) free() bool {
	for range l.held.Range {
		return false
	}
	return true
}

func (l *userLocks) fail(err error) { l.err.Store(&err) }

// ids counts up from an id that a JavaScript number cannot represent.
type ids struct{ last atomic.Int64 }

func newIDs() *ids {
	i := &ids{}
	i.last.Store(3368803458027454464)
	return i
}

func (i *ids) NextN(_ context.Context, n int) ([]int64, error) {
	block := make([]int64, n)
	for k := range block {
		block[k] = i.last.Add(1)
	}
	return block, nil
}

func (i *ids) Skip(_ context.Context, taken int64) error { i.last.Store(taken + 1000); return nil }

// outbox has the last code that was sent to each phone.
type outbox struct{ codes sync.Map }

func (o *outbox) SendCode(_ context.Context, phone, code string, _ time.Time) error {
	o.codes.Store(phone, code)
	return nil
}

func (o *outbox) code(phone string) string {
	code, _ := o.codes.Load(phone)
	text, _ := code.(string)
	return text
}

type usedSolutions struct{ ids sync.Map }

func (u *usedSolutions) UseUp(_ context.Context, id string, _ time.Duration) (bool, error) {
	_, used := u.ids.LoadOrStore(id, true)
	return !used, nil
}

type logBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// of returns the lines at a level ("ERROR", "WARN").
func (l *logBuffer) of(level string) []map[string]any {
	var lines []map[string]any
	for text := range strings.Lines(l.String()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["level"] == level {
			lines = append(lines, line)
		}
	}
	return lines
}

// faultyDB is the store, whose statements fail while a fault is set.
type faultyDB struct {
	*repo.Store
	faults *env.Faults
}

// fail makes every later statement call f first and return its error. A nil f ends the fault.
func (db *faultyDB) fail(f func() error) {
	if f == nil {
		db.faults.Before(nil)
		return
	}
	db.faults.Before(func(string) error { return f() })
}

func (db *faultyDB) failFrom(n int64) {
	var statements atomic.Int64
	db.fail(func() error {
		if statements.Add(1) >= n {
			return domain.ErrUnavailable
		}
		return nil
	})
}

// noPeers implements entry.Peers for a server that is alone.
type noPeers struct{}

func (noPeers) Exchange(_ context.Context, _ int64, report []byte, _ time.Duration) ([][]byte, error) {
	return [][]byte{report}, nil
}
