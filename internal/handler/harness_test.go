package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
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
	"seckill/test/env/servers"
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
// messages are in-memory fakes. At its end the invariants hold, and log and metrics have no secrets.
type environment struct {
	t      testing.TB
	store  *faultyDB
	clock  *clock
	locks  *userLocks
	outbox *outbox
	bank   *bank

	provider string        // the name of the payment provider
	remote   *payment.HTTP // nil unless the bank is a provider over HTTP

	handler.Config
	returns service.UnitReleaser
	logs    *logBuffer

	damaged bool // by the test, so that the invariants do not hold at its end

	revoked *auth.Revocations
	admins  *auth.Admins
	rooms   *entry.Rooms // do not run
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

// eachDatabase runs a parallel test on SQLite, and at level full on each database server. It is for tests whose statements differ
// between the databases, or race in them; the others use SQLite.
func eachDatabase(t *testing.T, test func(t *testing.T, db option)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, func(*setup) {})
	})
	for _, kind := range env.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			env.FullParallel(t)
			test(t, func(s *setup) { s.store = opened(t)(repo.OpenMySQL(kind.MigratedDSN(t))) })
		})
	}
}

// eachEnv runs a parallel test in an environment on each database, as eachDatabase does.
func eachEnv(t *testing.T, test func(t *testing.T, e *environment), options ...option) {
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
	sales := service.NewSales(service.SalesConfig{Loader: e.store, Changed: func(int64) {}})
	t.Cleanup(sales.Close)
	mode := s.lane(patientLane{lane.NewLock(e.locks, lane.NewBatch(s.ids, e.store, nil))})
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
			Store: e.store, Sales: sales, Peers: noPeers{}, Changed: func(int64) {}, Admitted: func(int) {},
			Sells: func(context.Context) error { return nil },
		}),
	}
	e.rooms = entries.Rooms
	e.bank = &bank{Sandbox: payment.NewSandbox(payment.SandboxConfig{API: webhook.Client{Secrets: domain.NewKeyring(paymentSecret), Now: e.clock.now}})}
	e.Subscribers = salestats.NewSubscribers()
	e.returns = service.UnitReleaser{Sales: sales, Queue: queue, Moved: e.Subscribers.Notify}
	e.provider = s.provider
	var provider domain.PaymentProvider = e.bank
	if s.provider == payment.HTTPName {
		e.remote = e.bank.overHTTP(t, e.clock.now)
		provider = e.remote
	}
	counters, monitor := e.newMonitor(s.store, queue)
	e.Config = handler.Config{
		Counters: counters, Monitor: monitor, SaleSubscribers: e.SaleSubscribers,
		Auth: auth.New(auth.Config{
			Store: e.store, Phones: numbers, Tokens: tokens, Revoked: e.revoked, Sender: s.sender(e.outbox.SendCode),
			AdminPhones: s.adminPhones, Quota: quota, Now: e.clock.now, SecondFactors: factors, Log: log,
		}),
		Vouchers: service.NewVouchers(service.VouchersConfig{Store: e.store, Sales: sales, Queue: queue, Now: e.clock.now, PayTimeout: payTimeout}),
		Orders: service.NewOrders(service.OrdersConfig{
			Store: e.store, Sales: sales, Lane: mode, Passes: entries, Unpaid: unpaid, Queue: queue, Now: e.clock.now, PayTimeout: payTimeout, MaxInFlight: s.maxInFlight,
			Codes: domain.NewRedeemCodes(s.keys), Returns: e.returns,
			Observe: func(context.Context, error, time.Duration) {}, ObserveKey: func(string) {},
		}),
		Entry: entries, RoomSubscribers: salestats.NewSubscribers(),
		Payments: &service.Payments{
			Store: e.store, Providers: map[string]domain.PaymentProvider{e.provider: provider}, Default: e.provider,
			Returns: e.returns, Now: e.clock.now, Log: log, Observe: func(string, string) {},
		},
		Subscribers: e.Subscribers, Store: e.store, Pictures: picture.New(e.store, e.clock.now), Zone: shanghai,
		Keys:  &service.Idempotency{Store: e.store, Observe: func(string) {}},
		Ready: s.ready, Metrics: prometheus.NewRegistry(), Log: log, Now: e.clock.now,
		Demo: s.demo, RateLimit: s.rateLimit, CursorKeys: s.keys, Version: "1.2.3",
	}
	e.Search = &service.Search{Store: e.store, Orders: e.Orders, Phones: numbers, Codes: domain.NewRedeemCodes(s.keys), FirstID: idgen.First}
	s.change(&e.Config)
	e.handler = handler.New(e.Config)
	t.Cleanup(func() {
		require.Empty(t, e.leaks(), "log or metrics have secrets")
		if !e.damaged {
			e.store.fail(nil)
			e.checkInvariants()
		}
	})
	srv := httptest.NewServer(e.handler)
	t.Cleanup(srv.Close)
	t.Cleanup(e.SaleSubscribers.Close)
	t.Cleanup(e.Subscribers.Close) // runs before srv.Close, which waits for the streams
	e.url, e.http = srv.URL, srv.Client()
	e.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e
}

// patientLane gives purchases a minute, so that a busy machine cannot make them unavailable. Their real deadline is tested
// in packages service and lane.
type patientLane struct{ service.Lane }

func (l patientLane) Place(ctx context.Context, p domain.Purchase) domain.Placed {
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
	families := env.Must(e.Metrics.(prometheus.Gatherer).Gather())(e.t)
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
	e.SaleSubscribers = salestats.NewSubscribers()
	counters, lane := salestats.NewCounters(queue == nil), "lock"
	if queue != nil {
		lane = "queue"
	}
	rdb := servers.NewRedisClient(e.t, env.StartMiniredis(e.t).Addr(), 0)
	cfg := salestats.MonitorConfig{
		Store: store, Counters: counters, History: &salestats.RedisHistory{Redis: rdb, Instance: "test"},
		Subscribers: e.SaleSubscribers, Lane: lane, Log: slog.New(slog.DiscardHandler),
	}
	if gate, ok := queue.(*admission.Gate); ok {
		cfg.Gate = func(ctx context.Context, id int64) (int64, error) {
			level, err := gate.Level(ctx, id)
			return level.Stock, err
		}
	}
	monitor := salestats.NewMonitor(cfg)
	env.InBackground(e.t, monitor.Run)
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
	return env.Must(e.store.Voucher(context.Background(), mustID(e.t, voucherID)))(e.t).Sale.Stock
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
		_, rows := env.Query(e.t, e.store.Pools()["write"], "SELECT * FROM "+table+" ORDER BY 1")
		for _, row := range rows {
			fmt.Fprintf(&b, "%s %v\n", table, row)
		}
	}
	return b.String()
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

type logBuffer struct{ env.Buffer }

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

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

type contract struct {
	doc    *openapi3.T
	router routers.Router
}

var theContract = sync.OnceValues(func() (*contract, error) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	router, err := legacy.NewRouter(doc) // validates the document
	return &contract{doc: doc, router: router}, err
})

// client sends requests and validates every request and answer against the OpenAPI document.
type client struct {
	t       testing.TB
	env     *environment
	token   string
	login   loginView // zero for a guest
	header  http.Header
	invalid bool // requests violate the document
}

func (e *environment) guest() client { return client{t: e.t, env: e} }

func (e *environment) as(token string) client { return client{t: e.t, env: e, token: token} }

// bad returns the client for requests that deliberately violate the document. Answers are still validated.
func (c client) bad() client { c.invalid = true; return c }

func (c client) with(name, value string) client {
	c.header = c.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return c
}

func (c client) get(path string) answer            { c.t.Helper(); return c.do("GET", path, nil) }
func (c client) post(path string, body any) answer { c.t.Helper(); return c.do("POST", path, body) }
func (c client) patch(path string, body any) answer {
	c.t.Helper()
	return c.do("PATCH", path, body)
}

// request builds a request. body is nil, a string that is sent as it is, or a value that is encoded as JSON. Each use
// needs a new request, because a body can be read only once.
func (c client) request(url, method, path string, body any) *http.Request {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		payload = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		assert.NoError(c.t, err)
		payload = bytes.NewReader(text)
	}
	req := env.Must(http.NewRequestWithContext(context.Background(), method, url+path, payload))(c.t)
	for name, values := range c.header {
		req.Header[name] = values
	}
	if payload != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req
}

// do sends a request and validates the exchange. It is safe for concurrent use.
func (c client) do(method, path string, body any) answer {
	c.t.Helper()
	a := c.send(c.request(c.env.url, method, path, body))
	if a.status != 0 {
		c.check(c.request("", method, path, body), a)
	}
	return a
}

// direct is do without a network, for tests with many requests per second.
func (c client) direct(method, path string, body any) answer {
	c.t.Helper()
	a := c.serve(c.env.handler, c.request("", method, path, body))
	c.check(c.request("", method, path, body), a)
	return a
}

// send sends a request. The answer has no status if there is none.
func (c client) send(req *http.Request) answer {
	c.t.Helper()
	a := answer{t: c.t, what: req.Method + " " + req.URL.RequestURI()}
	res, err := c.env.http.Do(req)
	if !assert.NoError(c.t, err, a.what) {
		return a
	}
	defer func() { _ = res.Body.Close() }()
	a.status, a.header = res.StatusCode, res.Header
	a.body, err = io.ReadAll(res.Body)
	assert.NoError(c.t, err, a.what)
	return a
}

const testPeer = "192.0.2.1:1234"

// serve has a server answer a request without a network.
func (c client) serve(server http.Handler, req *http.Request) answer {
	rec := httptest.NewRecorder()
	if req.RemoteAddr == "" {
		req.RemoteAddr = testPeer
	}
	server.ServeHTTP(rec, req)
	return answer{t: c.t, what: req.Method + " " + req.URL.RequestURI(), status: rec.Code, header: rec.Header(), body: rec.Body.Bytes()}
}

// raw is direct without the validation. The body is not decompressed.
func (c client) raw(method, path string, body any) answer {
	return c.serve(c.env.handler, c.request("", method, path, body))
}

// taker is the connection of a client that takes an answer in its own way.
type taker struct {
	*httptest.ResponseRecorder
	take func(part []byte)
}

func (w taker) Write(part []byte) (int, error) {
	w.take(part)
	return len(part), nil
}

// take is raw for a GET whose answer goes to a function, as it is written.
func (c client) take(path string, part func([]byte)) {
	req := c.request("", http.MethodGet, path, nil)
	req.RemoteAddr = testPeer
	c.env.handler.ServeHTTP(taker{httptest.NewRecorder(), part}, req)
}

// check validates one exchange against the document. TestDocumentListsReturnedCodes has the requests that lack a token.
func (c client) check(req *http.Request, a answer) {
	t := a.t
	t.Helper()
	checkEveryAnswer(t, a)
	k := env.Must(theContract())(t)
	if a.status == http.StatusMethodNotAllowed { // of a method that the document does not have
		assert.NotContains(t, a.header.Get("Allow"), req.Method, a.what)
		checkProblem(t, k, "MethodProblem", a)
		return
	}
	route, params, err := k.router.FindRoute(req)
	// The document's router ignores a trailing slash; the server does not.
	if err != nil || strings.HasSuffix(req.URL.Path, "/") { // not in the document, so the answer must be 404
		assert.Equal(t, http.StatusNotFound, a.status, "%s is not in the document", a.what)
		checkProblem(t, k, "NotFoundProblem", a)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true, RejectWhenRequestBodyNotSpecified: true, SkipSettingDefaults: true,
			AuthenticationFunc: func(_ context.Context, in *openapi3filter.AuthenticationInput) error {
				if a.status < http.StatusBadRequest && in.SecuritySchemeName == "bearerAuth" && req.Header.Get("Authorization") == "" {
					return errors.New("the document requires a token, and the server does not")
				}
				return nil
			},
		},
	}
	if !c.invalid {
		assert.NoError(t, openapi3filter.ValidateRequest(req.Context(), in), "%s: the request", a.what)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header,
		Body: io.NopCloser(bytes.NewReader(a.body)), Options: in.Options,
	}
	assert.NoError(t, openapi3filter.ValidateResponse(req.Context(), out), "%s: the answer %d %s", a.what, a.status, a.body)
	if response := route.Operation.Responses.Status(a.status); response != nil {
		checkHeaders(t, response.Value, a)
	}
}

// checkHeaders reports headers of an answer that the document does not declare. openapi3filter does not check them.
func checkHeaders(t testing.TB, response *openapi3.Response, a answer) {
	t.Helper()
	for _, name := range []string{"Location", "Retry-After", "WWW-Authenticate", "X-Demo-Code", "Set-Cookie", "ETag", "X-Server-Time", "Vary"} {
		if a.header.Get(name) != "" {
			assert.Contains(t, response.Headers, name, "%s: a header that is not documented", a.what)
		}
	}
	if a.header.Get("Idempotency-Replayed") != "" && a.status < http.StatusBadRequest {
		assert.Contains(t, response.Headers, "Idempotency-Replayed", a.what)
	}
	if len(response.Content) == 0 {
		assert.Empty(t, a.body, "%s: a body that is not documented", a.what)
	}
}

// checkEveryAnswer checks the headers and the problem body that all answers must have.
func checkEveryAnswer(t testing.TB, a answer) {
	t.Helper()
	cached := "no-store"
	switch {
	case a.header.Get("ETag") != "":
		cached = "no-cache"
	case a.header.Get("Content-Type") == "image/jpeg":
		cached = "public, max-age=31536000, immutable"
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cache-Control": cached,
	} {
		assert.Equal(t, want, a.header.Get(name), "%s %d: %s", a.what, a.status, name)
	}
	assert.Regexp(t, requestID, a.header.Get("X-Request-Id"), "%s %d", a.what, a.status)
	if a.status < 400 {
		return
	}
	assert.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.what)
	var p problemView
	if assert.NoError(t, json.Unmarshal(a.body, &p), "%s %d: %s", a.what, a.status, a.body) {
		assert.Equal(t, a.status, p.Status, a.what)
		if a.header.Get("Idempotency-Replayed") == "" { // a replay has the id of the first request
			assert.Equal(t, a.header.Get("X-Request-Id"), p.RequestID, a.what)
		}
	}
}

func checkProblem(t testing.TB, k *contract, schema string, a answer) {
	t.Helper()
	var value any
	if assert.NoError(t, json.Unmarshal(a.body, &value), a.what) {
		assert.NoError(t, k.doc.Components.Schemas[schema].Value.VisitJSON(value), a.what)
	}
}

type answer struct {
	t      testing.TB
	what   string // the request, for messages
	status int
	header http.Header
	body   []byte
}

func (a answer) want(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s: %s", a.what, a.body)
	return a
}

// problem returns the error body and stops the test if status or code differ.
func (a answer) problem(status int, code string) problemView {
	a.t.Helper()
	p := decode[problemView](a.want(status))
	require.Equal(a.t, code, p.Code, "%s: %s", a.what, a.body)
	return p
}

func decode[T any](a answer) T {
	a.t.Helper()
	var v T
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s: %s", a.what, a.body)
	return v
}

func mustID(t testing.TB, id string) int64 {
	t.Helper()
	return env.Must(strconv.ParseInt(id, 10, 64))(t)
}

// The fields of bodies that tests use. The complete bodies are validated against the document.

type problemView struct {
	Type, Code, Title, Detail string
	Status                    int
	RequestID                 string `json:"request_id"`
	OrderID                   string `json:"order_id"`
	Errors                    []struct{ Field, Detail string }
}

func (p problemView) fields() []string {
	names := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		names[i] = e.Field
	}
	return names
}

type userView struct{ ID, Phone, Role string }

type loginView struct {
	AccessToken  string `json:"access_token"`
	ExpiresIn    int    `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
	User         userView
}

type voucherView struct {
	ID, Title, Type, Status, State string
	InitialStock                   *int64 `json:"initial_stock"`
	AddedStock                     int64  `json:"added_stock"`
	Stock                          *int64
	BeginAt                        string `json:"begin_at"`
	EndAt                          string `json:"end_at"`
	LimitPerUser                   int    `json:"limit_per_user"`
	UpdatedAt                      string `json:"updated_at"`
	ServerTime                     string `json:"server_time"`
}

func (v voucherView) path() string      { return "/api/v1/vouchers/" + v.ID }
func (v voucherView) adminPath() string { return "/api/v1/admin/vouchers/" + v.ID }
func (v voucherView) orders() string    { return v.path() + "/orders" }
func (v voucherView) number() int64     { n, _ := strconv.ParseInt(v.ID, 10, 64); return n }

type orderView struct {
	ID, Status  string
	VoucherID   string `json:"voucher_id"`
	UserID      string `json:"user_id"`
	Amount      int64
	CreatedAt   string `json:"created_at"`
	ExpiresAt   string `json:"expires_at"`
	PaidAt      string `json:"paid_at"`
	RedeemedAt  string `json:"redeemed_at"`
	CancelledAt string `json:"cancelled_at"`
	RefundedAt  string `json:"refunded_at"`
	RedeemCode  string `json:"redeem_code"`
	Ahead       *int64
}

func (o orderView) path() string { return "/api/v1/orders/" + o.ID }

type auditEntry struct {
	Actor, Action, Detail string
	ActorID               string `json:"actor_id"`
	VoucherID             string `json:"voucher_id"`
}

// audit returns the changes in the audit log that a query selects, newest first.
func (c client) audit(query string) []auditEntry {
	c.t.Helper()
	return decode[listView[auditEntry]](c.get("/api/v1/admin/audit?" + query).want(http.StatusOK)).Items
}

type listView[T any] struct {
	Items      []T
	NextCursor *string `json:"next_cursor"`
}

// walk reads a list page by page and returns the sizes of the pages and all items.
func walk[T any](c client, path string, limit int) (sizes []int, all []T) {
	c.t.Helper()
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	next := fmt.Sprintf("%s%slimit=%d", path, sep, limit)
	for at := next; ; {
		l := decode[listView[T]](c.get(at).want(http.StatusOK))
		sizes, all = append(sizes, len(l.Items)), append(all, l.Items...)
		if l.NextCursor == nil {
			return sizes, all
		}
		require.Less(c.t, len(sizes), 50, "the list does not end")
		at = next + "&cursor=" + *l.NextCursor
	}
}
