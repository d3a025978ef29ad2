// Package sim simulates the order life cycle. Its tests perform random steps on the real packages, with crashes and
// lost replies, and compare every table with a model after each step.
package sim

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/idgen"
	"seckill/internal/lock"
	"seckill/internal/repo"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/entry"
	"seckill/internal/sale/lane"
	"seckill/internal/service"
	"seckill/test/env"
)

// lifeSteps is the average number of steps per run, without the steps of conclude.
const lifeSteps = 60

// life is one simulated history of orders, from the click to the refund: two servers with the real services, lanes,
// gate and workers on a real database, a payment provider, and buyers and admins that purchase, pay, cancel, redeem and
// change sales. Servers crash, replies and messages are lost, payment notices arrive late, twice or out of order.
//
// A model holds the expected content of every table. Each step updates the model, and after every step the model is
// compared with the whole database. Concurrent steps must have had the effect of some sequential order of them. The
// clock is that of a synctest bubble and advances only while all goroutines wait.
type life struct {
	*world
	model model

	// Model state of lane queue.
	reservations map[int64]*reservation
	gateStale    map[int64]bool // vouchers whose gate may have missed a change, until it is rebuilt
	workers      int            // so far
	suspended    []*worker
	settled      [][]domain.StreamEntry

	due    map[int64]bool // orders past their payment deadline, if they are still unpaid
	locks  map[int64]bool // users whose lock was left behind by a crashed server
	latest *snapshot      // the database after the last step, until check has compared it

	queries map[string]*sql.Stmt

	t       *rapid.T
	failure *string  // message and history of the first failed run
	history []string // of this run
}

// Errorf and FailNow make a life a require.TestingT. Errorf keeps the first failure with its history, because
// concurrent actions may end differently when rapid repeats the run.
func (l *life) Errorf(format string, args ...any) {
	l.t.Errorf(format, args...)
	if *l.failure == "" {
		*l.failure = fmt.Sprintf(format, args...) + "\nHistory:\n" + strings.Join(l.history, "\n")
	}
}

func (l *life) FailNow() { l.t.FailNow() }

func (l *life) record(format string, args ...any) {
	l.history = append(l.history, fmt.Sprintf(format, args...))
}

// TestLife simulates order histories in every lane, on SQLite with miniredis and on a database server with Redis. -rapid.seed
// repeats a run.
func TestLife(t *testing.T) {
	setRapid(t, "seed", rand.Uint64())
	setRapid(t, "checks", env.ByLevel(1, 5)) // per lane and stack
	setRapid(t, "steps", lifeSteps)
	setRapid(t, "nofailfile", true) // the seed is enough
	setRapid(t, "shrinktime", "1h") // bubble time: some hundred runs
	for _, lane := range []string{"lock", "batch", "queue"} {
		t.Run(lane, func(t *testing.T) {
			eachStack(t, func(t *testing.T, s stack) {
				t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
				failure := ""
				t.Cleanup(func() { t.Log(failure) })
				inBubble(t, func(t *testing.T) {
					rapid.Check(noDeadline{t}, func(rt *rapid.T) { runOnce(rt, s, lane, plantedFault{}, &failure) })
				})
			})
		})
	}
}

func runOnce(t *rapid.T, s stack, lane string, p plantedFault, failure *string) {
	l := &life{
		reservations: map[int64]*reservation{}, gateStale: map[int64]bool{},
		due: map[int64]bool{}, locks: map[int64]bool{}, queries: map[string]*sql.Stmt{}, t: t, failure: failure,
	}
	vouchers := drawVouchers(t) // first: if rapid ends the run here, nothing is left open
	l.world = newWorld(t, s, lane, p)
	defer l.close()
	l.open(t, vouchers)
	steps := l.steps()
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { l.check() },
		"step": func(t *rapid.T) {
			what := nextStep(t, steps)
			l.record("%s", what)
			steps[what].do(t)
		},
	})
	l.conclude(t)
}

func (l *life) close() {
	for _, w := range l.suspended {
		w.crashed = true
		w.stop()
		close(w.resume)
		<-w.ended
	}
	l.world.close()
}

type stack struct {
	rdb  *redis.Client
	open func(t *rapid.T) *repo.Store // returns an empty database with the schema
}

// eachStack runs a test on the embedded default and on real servers.
func eachStack(t *testing.T, fn func(t *testing.T, s stack)) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		open := emptySQLite
		if filepath.Base(t.Name()) == "redis" {
			open = emptyServer
		}
		fn(t, stack{rdb: rdb.(*redis.Client), open: open(t)})
	})
}

// emptySQLite returns a function that opens a fresh copy of an empty database.
func emptySQLite(t *testing.T) func(*rapid.T) *repo.Store {
	file := env.SQLiteFile(t)
	data := env.Must(os.ReadFile(file))(t)
	return func(t *rapid.T) *repo.Store {
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(file + end)
		}
		require.NoError(t, os.WriteFile(file, data, 0o600))
		return env.Must(repo.OpenSQLite(file))(t)
	}
}

// emptyServer returns a function that empties one database and opens it. Creating a database takes longer.
func emptyServer(t *testing.T) func(*rapid.T) *repo.Store {
	dsn := env.OneKind(t).MigratedDSN(t)
	return func(t *rapid.T) *repo.Store {
		store := env.Must(repo.OpenMySQL(dsn))(t)
		for _, table := range []string{"voucher_orders", "payments", "stock_changes", "audit_log", "seckill_vouchers", "vouchers"} {
			env.Must(store.Pools()["write"].Exec("DELETE FROM " + table))(t)
		}
		return store
	}
}

// inBubble runs a test in a synctest bubble whose clock is set to the current time. The databases do not accept the
// bubble's initial time.
func inBubble(t *testing.T, fn func(t *testing.T)) {
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		fn(t)
	})
}

// setRapid changes a default of rapid for one test. A value from the command line or the environment takes precedence.
func setRapid(t *testing.T, name string, value any) {
	t.Helper()
	_, given := os.LookupEnv("RAPID_" + strings.ToUpper(name))
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid."+name })
	if given {
		return
	}
	f := flag.Lookup("rapid." + name).Value
	before := f.String()
	require.NoError(t, f.Set(fmt.Sprint(value)))
	t.Cleanup(func() { _ = f.Set(before) })
}

// noDeadline hides the deadline of the test from rapid: testing.T.Deadline must not be called in a bubble.
type noDeadline struct{ testing.TB }

// oneIn draws true with probability 1/n.
func oneIn(t *rapid.T, label string, n int) bool {
	return evenly(t, label, append(make([]bool, n-1), true)...)
}

func TestMain(m *testing.M) { env.Main(m) }

// world holds the real components and the faults that are injected into them.
type world struct {
	ctx     context.Context
	lane    string
	planted plantedFault
	real    *repo.Store
	db      *sql.DB // the write pool of real, to read tables and change timestamps
	store   *serverStore
	rdb     *redis.Client
	gate    *admission.Gate
	ids     *idgen.Generator
	bank    *bank

	firstRead sync.Map // the vouchers as they were first read, for a planted fault

	servers [2]*server
	streams []string

	segments map[int64]int // of the vouchers; not changed after they are published
	idSkew   time.Duration // of the clock of the order ids

	// Faults of the current step.
	fault            fault
	calls            atomic.Int64 // transactions of this step
	injected         atomic.Bool  // the fault was injected
	crashed          atomic.Bool  // the server has crashed and makes no more calls
	gateFault        string       // of every script that changes the gate
	repeats          atomic.Int64 // replies of reservations that were lost with gateRepeats
	lostInvalidation bool         // the other server misses invalidation messages
}

// server is one instance: its caches and its services. A crash discards all of it.
type server struct {
	name     string
	sales    *service.Sales
	orders   *service.Orders
	other    *service.Orders // of a process with lane batch, in lane queue
	payments *service.Payments
	closer   *service.Closer
	vouchers *service.Vouchers
	// staleUntil holds, for vouchers with a lost invalidation message, the time until which the cached snapshot may be
	// stale.
	staleUntil sync.Map // voucher id -> time.Time
}

// GoString is the form in which rapid prints a server.
func (s *server) GoString() string { return s.name }

// fault is an injected failure of one transaction.
type fault struct {
	at   int64 // number of the transaction within the step, from 1; 0 means no fault
	kind string
}

const (
	lostRequest = "request lost: not executed, unavailable"
	lostReply   = "reply lost: committed, unavailable"
	crashBefore = "server crashes before the commit"
	crashAfter  = "server crashes after the commit"
)

// Faults of gate scripts.
const (
	gateLosesRequest = "gate request lost"
	gateLosesReply   = "gate reply lost"
	gateLosesLoan    = "loan between segments cut short" // only of purchases
	gateRepeats      = "replies of a reservation lost until the third"
)

// errInjected is the error that the services receive for an injected fault.
var errInjected = errors.Join(domain.ErrUnavailable, errors.New("injected fault"))

// done reports whether the failed transaction was committed.
func (f fault) done() bool { return f.kind == lostReply || f.kind == crashAfter }

// crashes reports whether the server crashes.
func (f fault) crashes() bool { return f.kind == crashBefore || f.kind == crashAfter }

// transact executes a transaction of a server and injects the fault of the step.
func (w *world) transact(do func() error) error {
	if w.crashed.Load() {
		return errInjected
	}
	if w.calls.Add(1) != w.fault.at {
		return do()
	}
	w.injected.Store(true)
	w.crashed.Store(w.fault.crashes())
	if w.fault.done() {
		_ = do()
	}
	return errInjected
}

// callGate executes a script that changes the gate and injects the gate fault of the step.
func (w *world) callGate(do func() error) error {
	if w.crashed.Load() || w.gateFault == gateLosesRequest {
		return errInjected
	}
	if err := do(); err != nil || w.gateFault == "" || w.gateFault == gateLosesLoan || w.gateFault == gateRepeats {
		return err
	}
	return errInjected
}

func (w *world) clearFaults() {
	w.fault, w.gateFault, w.lostInvalidation = fault{}, "", false
	w.bank.createFault, w.bank.refundFaults, w.bank.refunds = "", nil, nil
	w.calls.Store(0)
	w.repeats.Store(0)
	w.injected.Store(false)
	w.crashed.Store(false)
}

const (
	adminID    = 99
	payTimeout = 15 * time.Minute
)

func newWorld(t *rapid.T, s stack, lane string, p plantedFault) *world {
	w := &world{
		ctx: context.Background(), lane: lane, planted: p, real: s.open(t), rdb: bubbleClient(s.rdb),
		streams: admission.Streams()[firstVoucher : firstVoucher+maxSegments], segments: map[int64]int{},
	}
	w.db = w.real.Pools()["write"]
	if p.trigger != "" {
		w.sql(p.trigger)
	}
	require.NoError(t, w.rdb.FlushDB(w.ctx).Err())
	ids := []idgen.Option{idgen.WithClock(func() time.Time { return time.Now().Add(w.idSkew) })}
	if lane == "queue" { // without the guard, the other lanes must do with ids that are taken
		ids = append(ids, idgen.WithGuard())
	}
	w.ids = env.Must(idgen.New(w.rdb, "order", ids...))(t)
	w.rdb.AddHook(env.RedisHook{Command: w.onCommand})
	w.gate = admission.New(admission.Config{
		Redis: w.rdb, Log: silent,
		Segments: func(_ context.Context, voucherID int64) (int, error) { return w.segments[voucherID], nil },
	})
	w.bank = &bank{w: w}
	w.store = &serverStore{w.real, w}
	for i := range w.servers {
		w.servers[i] = &server{name: "server " + strconv.Itoa(i+1)}
		w.start(i)
	}
	return w
}

var silent = slog.New(slog.DiscardHandler)

// bubbleClient returns a client of the same Redis database that belongs to the bubble and its clock. The timeouts are
// long because they would count real network time: the latency of a real reply must not decide a test.
func bubbleClient(rdb *redis.Client) *redis.Client {
	o := rdb.Options()
	return redis.NewClient(&redis.Options{
		Addr: o.Addr, DB: o.DB, MaxRetries: o.MaxRetries,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// start starts a server, in place of the crashed one if there was one.
func (w *world) start(i int) {
	s := w.servers[i]
	if s.sales != nil {
		s.sales.Close()
	}
	s.sales = service.NewSales(service.SalesConfig{Loader: w.store, Changed: func(id int64) { w.invalidate(w.servers[1-i], id) }})
	cfg := service.OrdersConfig{
		Store: w.store, Sales: s.sales, Unpaid: entry.NewUnpaid(w.real), Now: time.Now, PayTimeout: payTimeout, MaxInFlight: 100,
		Codes: redeemCodes, Returns: service.UnitReleaser{Sales: s.sales, Moved: func(int64) {}},
		Observe: func(context.Context, error, time.Duration) {}, ObserveKey: func(string) {},
	}
	switch w.lane {
	case "lock":
		cfg.Lane = lane.NewLock(userLocks{w.rdb}, lane.NewBatch(w.ids, w.store, nil))
	case "batch":
		cfg.Lane = lane.NewBatch(w.ids, w.store, nil)
	case "queue":
		cfg.Lane = lane.NewBatch(w.ids, w.store, nil)
		s.other = service.NewOrders(cfg)
		gate := serverGate{w.gate, w}
		cfg.Lane, cfg.Queue, cfg.Returns.Queue = lane.NewQueue(gate, w.ids, w.store, nil), gate, gate
	}
	s.orders = service.NewOrders(cfg)
	s.closer = &service.Closer{Store: w.store, Returns: cfg.Returns, Closed: func(int) {}}
	s.vouchers = service.NewVouchers(service.VouchersConfig{Store: w.store, Sales: s.sales, Queue: cfg.Queue, Now: time.Now})
	s.payments = &service.Payments{
		Store: w.store, Returns: cfg.Returns, Now: time.Now, Log: silent, Observe: func(string, string) {},
		Providers: map[string]domain.PaymentProvider{"sandbox": branch{w.bank, "sandbox"}, "other": branch{w.bank, "other"}},
	}
}

var redeemCodes = domain.NewRedeemCodes(domain.NewKeyring([]byte("a secret of this test")))

// invalidate delivers an invalidation message to the other server or drops it. A crashed server sends none.
func (w *world) invalidate(to *server, voucherID int64) {
	if w.lostInvalidation || w.crashed.Load() {
		to.markStale(voucherID)
		return
	}
	to.sales.Forget(voucherID)
}

// maxStaleness is the time for which a server may use a stale snapshot.
const maxStaleness = time.Second

func (s *server) markStale(voucherID int64) {
	s.staleUntil.Store(voucherID, time.Now().Add(maxStaleness))
}

// fresh reports whether the cached snapshot of a voucher must be current.
func (s *server) fresh(voucherID int64) bool {
	until, stale := s.staleUntil.Load(voucherID)
	return !stale || !time.Now().Before(until.(time.Time))
}

func (w *world) close() {
	for _, s := range w.servers {
		s.sales.Close()
	}
	_ = w.real.Close()
	_ = w.rdb.Close()
}

type userLocks struct{ rdb *redis.Client }

func userLock(userID int64) string { return "order:" + strconv.FormatInt(userID, 10) }

func (l userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	mu, err := lock.NewRedLock(userLock(userID), []redis.UniversalClient{l.rdb}, lock.WithNodeTimeout(lock.MaxNodeTimeout))
	if err != nil {
		return err
	}
	if err = lock.TryDo(ctx, mu, fn); errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUncertain) {
		return domain.ErrOrderInProgress
	}
	return err
}

// serverGate is the gate as a server calls it, with injected faults.
type serverGate struct {
	*admission.Gate
	w *world
}

func (g serverGate) Reserve(ctx context.Context, voucherID int64, win domain.Window, as []domain.Admission) []error {
	var errs []error
	err := g.w.callGate(func() error {
		errs = g.Gate.Reserve(ctx, voucherID, win, as)
		return nil
	})
	if err != nil {
		errs = slices.Repeat([]error{err}, len(as))
	}
	return errs
}

func (g serverGate) Release(ctx context.Context, voucherID int64, held ...domain.Holder) error {
	return g.w.callGate(func() error { return g.Gate.Release(ctx, voucherID, held...) })
}

func (g serverGate) AddStock(ctx context.Context, voucherID, delta int64) error {
	return g.w.callGate(func() error { return g.Gate.AddStock(ctx, voucherID, delta) })
}
