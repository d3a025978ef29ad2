package sim_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/idgen"
	"seckill/internal/lock"
	"seckill/internal/repo"
	"seckill/internal/service"
)

// world is what is real, and what may go wrong with it.
type world struct {
	ctx    context.Context
	lane   string
	plants planted
	real   *repo.Store
	db     *sql.DB // the same database, for the model and for time that passes
	store  lifeStore
	rdb    *redis.Client
	gate   *admission.Gate
	ids    *idgen.Generator
	bank   *bank
	shops  [2]*shop
	stream string

	// What goes wrong in the step that is being done.
	fate     fate
	calls    atomic.Int64 // transactions of this step
	hit      atomic.Bool  // fate has struck
	dead     atomic.Bool  // the server is dead: it does nothing more
	gateFate string       // of every call that changes the gate
	noNews   bool         // the other server does not hear of changes
}

// shop is a server: what it has in memory, and what it offers. All of it is gone when the server dies.
type shop struct {
	name     string
	sales    *service.Sales
	lane     *service.QueueLane // nil in the other lanes
	orders   *service.Orders
	payments *service.Payments
	closer   *service.Closer
	vouchers *service.Vouchers
	// doubt says until when what it knows of a voucher may be old: it was not told of a change.
	doubt sync.Map // voucher id -> time.Time
}

// GoString is how rapid shows it.
func (s *shop) GoString() string { return s.name }

// fate is what happens to a transaction.
type fate struct {
	at  int64 // which one of the step, from 1; 0: none
	how string
}

const (
	notDone    = "nothing is done, and the caller hears that the database is away"
	noReply    = "it is committed, and the caller hears that the database is away"
	diesBefore = "the server dies before it"
	diesAfter  = "the server dies right after it"
)

// What happens to the calls of the gate in a step.
const (
	deaf = "it does not hear"
	mute = "it does as it is told, and is not heard"
)

// errHarm is all that the product sees of it.
var errHarm = errors.Join(service.ErrUnavailable, errors.New("made by the test"))

// done says whether the transaction that fate struck was committed.
func (f fate) done() bool { return f.how == noReply || f.how == diesAfter }

// dies says whether the server dies of it.
func (f fate) dies() bool { return f.how == diesBefore || f.how == diesAfter }

// transact stands between the product and a transaction.
func (w *world) transact(do func() error) error {
	if w.dead.Load() {
		return errHarm
	}
	if w.calls.Add(1) != w.fate.at {
		return do()
	}
	w.hit.Store(true)
	w.dead.Store(w.fate.dies())
	if w.fate.done() {
		_ = do()
	}
	return errHarm
}

// tell stands between the product and a script that changes the gate.
func (w *world) tell(do func() error) error {
	if w.dead.Load() || w.gateFate == deaf {
		return errHarm
	}
	if err := do(); err != nil || w.gateFate == "" {
		return err
	}
	return errHarm
}

// calm is after a step: nothing goes wrong any more.
func (w *world) calm() {
	w.fate, w.gateFate, w.noNews = fate{}, "", false
	w.bank.createFate, w.bank.refundFate, w.bank.refunds = "", nil, nil
	w.calls.Store(0)
	w.hit.Store(false)
	w.dead.Store(false)
}

const (
	adminID    = 99
	payTimeout = 15 * time.Minute
)

func newWorld(t *rapid.T, s stack, lane string, p planted) *world {
	w := &world{
		ctx: context.Background(), lane: lane, plants: p, real: s.open(t), rdb: another(s.rdb), stream: admission.Streams()[firstVoucher],
	}
	w.db = w.real.Pools()["write"]
	require.NoError(t, w.rdb.FlushDB(w.ctx).Err())
	var err error
	w.ids, err = idgen.New(w.rdb, "order")
	require.NoError(t, err)
	w.gate = admission.New(admission.Config{Redis: w.rdb, Instance: "life", Log: silent})
	w.bank = &bank{w: w}
	var store lifeStore = w.real
	if p.store != nil {
		store = p.store(w, store)
	}
	w.store = shopStore{store, w}
	for i := range w.shops {
		w.shops[i] = &shop{name: "server " + strconv.Itoa(i+1)}
		w.start(i)
	}
	return w
}

var silent = slog.New(slog.DiscardHandler)

// another makes a client of the same database that belongs to the bubble and its clock. How long a real reply takes must
// not decide a test: the deadlines of the product, which would count in real time on the network, stay in the bubble.
func another(rdb *redis.Client) *redis.Client {
	o := rdb.Options()
	return redis.NewClient(&redis.Options{
		Addr: o.Addr, DB: o.DB, MaxRetries: o.MaxRetries,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// start starts a server, in the place of one that died if there was one.
func (w *world) start(i int) {
	s := w.shops[i]
	if s.sales != nil {
		s.sales.Close()
	}
	s.sales = service.NewSales(service.SalesConfig{Loader: w.store, Changed: func(id int64) { w.news(w.shops[1-i], id) }})
	cfg := service.OrdersConfig{
		Store: w.store, Sales: s.sales, Now: time.Now, PayTimeout: payTimeout, MaxInFlight: 100, Codes: redeemCodes,
	}
	switch w.lane {
	case "lock":
		cfg.Lane = service.NewLockLane(userLocks{w.rdb}, service.NewBatchLane(w.ids, w.store, nil))
	case "batch":
		cfg.Lane = service.NewBatchLane(w.ids, w.store, nil)
	case "queue":
		s.lane = service.NewQueueLane(shopGate{laneGate{w.gate}, w}, w.ids, w.store, nil)
		var q service.Queue = w.gate
		if w.plants.queue != nil {
			q = w.plants.queue(w, q)
		}
		cfg.Lane, cfg.Queue = s.lane, shopQueue{q, w}
	}
	returns := service.Returns{Sales: s.sales, Queue: cfg.Queue}
	s.orders = service.NewOrders(cfg)
	s.closer = &service.Closer{Store: w.store, Returns: returns, Log: silent}
	s.vouchers = service.NewVouchers(service.VouchersConfig{Store: w.store, Sales: s.sales, Queue: cfg.Queue, Now: time.Now})
	s.payments = service.NewPayments(service.PaymentsConfig{
		Store: w.store, Returns: returns, Now: time.Now, Log: silent,
		Providers: map[string]service.PaymentProvider{"sandbox": branch{w.bank, "sandbox"}, "other": branch{w.bank, "other"}},
	})
}

var redeemCodes = service.NewRedeemCodes([]byte("a secret of this test"))

// news brings a message to the other server, or loses it. A dead server sends none.
func (w *world) news(to *shop, voucherID int64) {
	if w.noNews || w.dead.Load() {
		to.doubts(voucherID)
		return
	}
	to.sales.Forget(voucherID)
}

// knowsAgain is how long a server may believe what is not so any more.
const knowsAgain = time.Second

func (s *shop) doubts(voucherID int64) { s.doubt.Store(voucherID, time.Now().Add(knowsAgain)) }

// sure says whether what the server knows of a voucher must be the truth.
func (s *shop) sure(voucherID int64) bool {
	until, doubted := s.doubt.Load(voucherID)
	return !doubted || !time.Now().Before(until.(time.Time))
}

func (w *world) close() {
	for _, s := range w.shops {
		s.sales.Close()
	}
	_ = w.real.Close()
	_ = w.rdb.Close()
}

// userLocks are the locks of package lock in the form that the service wants.
type userLocks struct{ rdb *redis.Client }

func userLock(userID int64) string { return "order:" + strconv.FormatInt(userID, 10) }

func (l userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	mu, err := lock.NewRedLock(userLock(userID), []redis.UniversalClient{l.rdb}, lock.WithNodeTimeout(lock.MaxNodeTimeout))
	if err != nil {
		return err
	}
	if err = lock.TryDo(ctx, mu, fn); errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUncertain) {
		return service.ErrOrderInProgress
	}
	return err
}

// laneGate is the gate in the form that the lane wants.
type laneGate struct{ *admission.Gate }

func (g laneGate) Expect(orderID int64) service.Expectation { return g.Gate.Expect(orderID) }

func (g laneGate) Level(ctx context.Context, voucherID int64) (service.GateLevel, error) {
	l, err := g.Gate.Level(ctx, voucherID)
	return l, err
}

// shopGate is the gate as a lane of a server reaches it.
type shopGate struct {
	service.Gate
	w *world
}

func (g shopGate) Reserve(ctx context.Context, voucherID int64, win service.Window, as []service.Admission) (errs []error, err error) {
	err = g.w.tell(func() error {
		errs, err = g.Gate.Reserve(ctx, voucherID, win, as)
		return err
	})
	if err != nil {
		errs = nil
	}
	return errs, err
}

// shopQueue is the gate as the services of a server reach it.
type shopQueue struct {
	service.Queue
	w *world
}

func (q shopQueue) Release(ctx context.Context, voucherID int64, held ...service.Holder) error {
	return q.w.tell(func() error { return q.Queue.Release(ctx, voucherID, held...) })
}

func (q shopQueue) AddStock(ctx context.Context, voucherID, delta int64) error {
	return q.w.tell(func() error { return q.Queue.AddStock(ctx, voucherID, delta) })
}
