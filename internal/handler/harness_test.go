package handler_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/auth"
	"seckill/internal/salestats"
	"seckill/internal/testenv"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
	"seckill/internal/repo"
	"seckill/internal/service"
)

const (
	adminPhone = "13900000000"
	payTimeout = 15 * time.Minute
)

// secret signs the tokens of all environments; tests forge with it and against it.
var secret = []byte("a signing secret for tests, 40 bytes long")

// env is the whole stack behind a real listener: handlers, services and a database of its own. Only what the
// network would bring (locks, ids, text messages) is kept in memory.
type env struct {
	t      testing.TB
	store  *repo.Store
	db     *faultyStore // the store as the services see it
	clock  *clock
	locks  *userLocks
	outbox *outbox
	bank   *bank

	payments     *service.Payments
	watchers     *salestats.Watchers
	saleWatchers *salestats.Watchers
	returns      service.Returns
	logs         *logBook

	revoked *auth.Revocations
	engine  *gin.Engine
	url     string
	http    *http.Client
}

// setup is what a test may change of the wiring. The zero value has limits, demo mode and faults off.
type setup struct {
	store     *repo.Store                                      // nil: a new database
	limits    bool                                             // cooldown and daily number of codes
	rateLimit bool                                             // requests per caller
	demo      bool                                             // X-Demo-Code
	room      int                                              // purchases in flight; 0: plenty
	lane      func(service.Lane) service.Lane                  // wraps the lock lane
	queue     func(*faultyStore) (service.Lane, service.Queue) // the lane queue instead of it
	ids       *ids                                             // nil: new ones
	ready     map[string]handler.Check                         // of /readyz
	change    func(*handler.Config)                            // the last word
	sender    func(auth.CodeSender) auth.CodeSender
}

// shanghai is the zone of times without one. It has had no summer time since 1991.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

// onMariaDB says which database the tests run on.
var onMariaDB bool

// TestMain runs all tests twice: on SQLite, then on MariaDB.
func TestMain(m *testing.M) {
	flag.Parse()
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	if testing.Short() || flag.Lookup("test.fuzz").Value.String() != "" {
		return
	}
	onMariaDB = true
	testenv.Main(m)
}

// openStore opens an empty database that lives as long as the test. It is the one place that knows which one.
func openStore(t testing.TB) *repo.Store {
	t.Helper()
	if onMariaDB {
		store, err := repo.OpenMySQL(testenv.MySQLDSN(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		_, err = store.MigrateUp(t.Context())
		require.NoError(t, err)
		return store
	}
	file := filepath.Join(t.TempDir(), "seckill.db")
	empty, err := emptySQLite()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, empty, 0o600))
	store, err := repo.OpenSQLite(file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// emptySQLite is a migrated database file, made once: the migrations take longer than most tests.
var emptySQLite = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "seckill-handler")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "empty.db")
	store, err := repo.OpenSQLite(file)
	if err != nil {
		return nil, err
	}
	if _, err := store.MigrateUp(context.Background()); err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil { // the last connection folds the write-ahead log into the file
		return nil, err
	}
	return os.ReadFile(file)
})

// newEnv wires the program as cmd/seckill does.
func newEnv(t testing.TB, options ...func(*setup)) *env {
	t.Helper()
	s := setup{room: 64}
	for _, o := range options {
		o(&s)
	}
	if s.store == nil {
		s.store = openStore(t)
	}
	e := &env{
		t: t, store: s.store, db: &faultyStore{Store: s.store}, clock: newClock(), locks: newUserLocks(),
		outbox: &outbox{codes: map[string]string{}}, logs: &logBook{},
	}
	log := slog.New(slog.NewJSONHandler(e.logs, nil))
	tokens, err := auth.NewTokens(secret, e.clock.now)
	require.NoError(t, err)
	e.revoked = auth.NewRevocations(s.store, e.clock.now, log)
	require.NoError(t, e.revoked.Load(t.Context()))
	var sender auth.CodeSender = e.outbox
	if s.sender != nil {
		sender = s.sender(sender)
	}
	sales := service.NewSales(service.SalesConfig{Loader: e.db})
	t.Cleanup(sales.Close)
	if s.ids == nil {
		s.ids = newIDs()
	}
	var lane service.Lane = service.NewLockLane(e.locks, service.NewBatchLane(s.ids, e.db, nil))
	if s.lane != nil {
		lane = s.lane(lane)
	}
	var queue service.Queue
	if s.queue != nil {
		lane, queue = s.queue(e.db)
	}
	e.bank, e.watchers = newBank(e.clock.now), salestats.NewWatchers()
	e.returns = service.Returns{Sales: sales, Queue: queue, Moved: e.watchers.Wake}
	e.payments = service.NewPayments(service.PaymentsConfig{
		Store: e.db, Providers: map[string]service.PaymentProvider{"sandbox": e.bank},
		Returns: e.returns, Now: e.clock.now, Log: log,
	})
	pulse, monitor := e.newMonitor(s.store, queue)
	cfg := handler.Config{
		Pulse: pulse, Monitor: monitor, SaleWatchers: e.saleWatchers,
		Auth: auth.New(auth.Config{
			Store: e.db, Tokens: tokens, Revoked: e.revoked, Sender: sender,
			AdminPhones: []string{adminPhone}, Limits: s.limits, Now: e.clock.now,
		}),
		Vouchers: service.NewVouchers(service.VouchersConfig{Store: e.db, Sales: sales, Queue: queue, Now: e.clock.now}),
		Orders: service.NewOrders(service.OrdersConfig{
			Store: e.db, Sales: sales, Lane: lane, Queue: queue, Now: e.clock.now, PayTimeout: payTimeout, MaxInFlight: s.room,
			Codes: service.NewRedeemCodes(secret), Moved: e.watchers.Wake,
		}),
		Payments: e.payments, Watchers: e.watchers, AuditLog: e.db, Shops: e.db, Zone: shanghai,
		Keys:  service.NewIdempotency(service.IdempotencyConfig{Store: e.db}),
		Ready: s.ready, Metrics: prometheus.NewRegistry(), Log: log, Now: e.clock.now,
		Demo: s.demo, RateLimit: s.rateLimit,
	}
	if s.change != nil {
		s.change(&cfg)
	}
	h, err := handler.New(cfg)
	require.NoError(t, err)
	e.engine = h.(*gin.Engine)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(e.saleWatchers.Close)
	t.Cleanup(e.watchers.Close) // before: the server waits for its streams
	e.url, e.http = srv.URL, srv.Client()
	e.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e
}

// newMonitor makes what shows sales as they are, and lets it beat.
func (e *env) newMonitor(store *repo.Store, queue service.Queue) (*salestats.Pulse, *salestats.Monitor) {
	queued := queue != nil
	e.saleWatchers = salestats.NewWatchers()
	pulse, lane := salestats.NewPulse("test", !queued), "lock"
	if queued {
		lane = "queue"
	}
	cfg := salestats.MonitorConfig{
		Store: store, Pulse: pulse, Watchers: e.saleWatchers, Lane: lane, Publish: func([]byte) {}, Log: slog.New(slog.DiscardHandler),
	}
	if gate, ok := queue.(testGate); ok {
		cfg.Level = gate.Level
	}
	monitor := salestats.NewMonitor(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { monitor.Run(ctx) })
	e.t.Cleanup(func() { cancel(); beating.Wait() })
	return pulse, monitor
}

// login logs a phone in with a code.
func (e *env) login(phone string) client {
	e.t.Helper()
	e.guest().post("/api/v1/auth/code", map[string]string{"phone": phone}).want(http.StatusNoContent)
	l := decode[loginView](e.guest().post("/api/v1/auth/login",
		map[string]string{"phone": phone, "code": e.outbox.code(phone)}).want(http.StatusOK))
	return client{t: e.t, env: e, token: l.AccessToken, login: l}
}

func (e *env) admin() client { e.t.Helper(); return e.login(adminPhone) }

// buyer logs in the n-th buyer.
func (e *env) buyer(n int) client { e.t.Helper(); return e.login(fmt.Sprintf("138%08d", n)) }

// saleBody is a sale of the stock that has run for an hour and runs for another.
func (e *env) saleBody(stock int) map[string]any {
	now := e.clock.now()
	return map[string]any{
		"shop_id": "1", "title": "100 for 80", "pay_value": 8000, "actual_value": 10000, "stock": stock,
		"begin_at": now.Add(-time.Hour).Format(time.RFC3339), "end_at": now.Add(time.Hour).Format(time.RFC3339),
	}
}

// sale publishes a running sale; change may alter the body that creates it.
func (e *env) sale(stock int, change ...func(map[string]any)) voucherView {
	e.t.Helper()
	body := e.saleBody(stock)
	for _, f := range change {
		f(body)
	}
	return decode[voucherView](e.admin().post("/api/v1/admin/vouchers", body).want(http.StatusCreated))
}

// stock reads the units left in the database.
func (e *env) stock(voucherID string) int64 {
	e.t.Helper()
	id, err := strconv.ParseInt(voucherID, 10, 64)
	require.NoError(e.t, err)
	v, err := e.store.Voucher(context.Background(), id)
	require.NoError(e.t, err)
	return v.Sale.Stock
}

// checkBooks asks the database whether the promises of the design hold.
func (e *env) checkBooks() {
	e.t.Helper()
	books, err := e.store.Books(context.Background())
	require.NoError(e.t, err)
	for _, b := range books {
		require.Empty(e.t, b.Check(), "voucher %d", b.VoucherID)
	}
}

var tables = []string{
	"users", "sessions", "revocations", "login_codes", "shops", "vouchers", "seckill_vouchers", "voucher_orders",
	"stock_changes", "payments", "audit_log", "idempotency_keys",
}

// dump writes every row of every table down, to compare before and after.
func (e *env) dump() string { e.t.Helper(); return e.dumpOf(tables...) }

func (e *env) dumpOf(tables ...string) string {
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
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(t, rows.Scan(into...))
		for i, v := range values {
			if text, ok := v.([]byte); ok { // MariaDB's texts
				values[i] = string(text)
			}
		}
		fmt.Fprintf(b, "%s %v\n", table, values)
	}
	require.NoError(t, rows.Err())
}
