package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/admission"
	"seckill/internal/service"
	"seckill/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error { return goleak.Find() })
}

const voucher = 7 // of the stream that most tests read

// patience is how long a test waits for what must come. Nothing depends on how long it takes.
const patience = 30 * time.Second

// rig is a gate with units, a database in memory, and what the workers did.
type rig struct {
	t    *testing.T
	rdb  *redis.Client
	gate *admission.Gate

	mu      sync.Mutex
	orders  map[int64]service.Admission // committed
	commits map[int64]int               // order id -> how often Commit was asked for it
	batches []Batch
}

func newRig(t *testing.T, rdb *redis.Client, units int64) *rig {
	r := &rig{
		t: t, rdb: rdb, orders: map[int64]service.Admission{}, commits: map[int64]int{},
		gate: admission.New(admission.Config{Redis: rdb, Instance: t.Name(), Log: slog.New(slog.DiscardHandler)}),
	}
	r.load(units)
	return r
}

// load makes the gate warm. The database of these tests never runs out.
func (r *rig) load(units int64) {
	require.NoError(r.t, r.gate.Load(r.t.Context(), voucher,
		func(context.Context, int64, []int64) (service.GateState, error) {
			return service.GateState{Stock: units}, nil
		}))
}

// reserve queues orders first..first+n-1, of users with the same numbers.
func (r *rig) reserve(first int64, n int) {
	as := make([]service.Admission, n)
	for i := range as {
		id := first + int64(i)
		as[i] = service.Admission{
			OrderID: id, UserID: id, VoucherID: voucher, Amount: 100, Limit: 1, At: time.Now(), ReplyTo: r.gate.Instance(),
		}
	}
	w := service.Window{Begin: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour)}
	results, err := r.gate.Reserve(r.t.Context(), voucher, w, as)
	require.NoError(r.t, err)
	require.Equal(r.t, make([]error, n), results)
}

// reserveApart queues orders first..first+n-1, each in an entry of its own.
func (r *rig) reserveApart(first int64, n int) {
	for i := range int64(n) {
		r.reserve(first+i, 1)
	}
}

// commit is the database: it stores whatever it gets.
func (r *rig) commit(_ context.Context, as []service.Admission) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range as {
		r.commits[a.OrderID]++
		r.orders[a.OrderID] = a
	}
	return make([]error, len(as))
}

// refuse counts the tries of admissions and has the same answer for all.
func (r *rig) refuse(as []service.Admission, err error) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range as {
		r.commits[a.OrderID]++
	}
	return slices.Repeat([]error{err}, len(as))
}

// config makes workers that are quick to take over.
func (r *rig) config(consumer string, commit CommitFunc) Config {
	return Config{
		Redis: r.rdb, Streams: admission.Streams()[voucher : voucher+1],
		Tickets: admission.QueuedTickets()[voucher : voucher+1], DeadStreams: admission.DeadStreams(),
		Group: admission.Group, Consumer: consumer, Gate: r.gate, Commit: commit,
		Block: 20 * time.Millisecond, MinIdle: 100 * time.Millisecond, ClaimEvery: 20 * time.Millisecond,
		Observe: func(b Batch) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.batches = append(r.batches, b)
		},
		Log: slog.New(slog.DiscardHandler),
	}
}

// start runs workers until the test ends or stop is called. stop returns when Run has.
func (r *rig) start(cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(cfg).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(r.t, err)
		case <-time.After(patience):
			require.Fail(r.t, "the workers do not end")
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// until waits for a condition.
func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	require.Eventually(r.t, condition, patience, 5*time.Millisecond, what)
}

func (r *rig) settled() {
	r.t.Helper()
	r.until("everything is settled", func() bool { return r.level().Backlog == 0 })
}

func (r *rig) level() admission.Level {
	l, err := r.gate.Level(r.t.Context(), voucher)
	if !errors.Is(err, service.ErrGateCold) {
		require.NoError(r.t, err)
	}
	return l
}

// requireLevel compares what is counted, not the version, the sum and the users.
func (r *rig) requireLevel(want admission.Level) {
	r.t.Helper()
	got := r.level()
	got.Version, got.Sum, got.Users, got.Built = 0, 0, 0, 0
	require.Equal(r.t, want, got)
}

// asked says how often Commit was asked for an order.
func (r *rig) asked(order int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits[order]
}

// requireOrders compares the database with first..first+n-1.
func (r *rig) requireOrders(first int64, n int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.t, r.orders, n)
	for id := first; id < first+int64(n); id++ {
		require.Contains(r.t, r.orders, id)
	}
}

// stream is the one that the tests read.
func (r *rig) stream() string { return admission.Streams()[voucher] }

// deliver hands the entries of the stream to a consumer who never comes back.
func (r *rig) deliver(consumer string) []redis.XMessage {
	ctx := r.t.Context()
	err := r.rdb.XGroupCreateMkStream(ctx, r.stream(), admission.Group, "0").Err()
	if err != nil {
		require.ErrorContains(r.t, err, "BUSYGROUP")
	}
	streams, err := r.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: admission.Group, Consumer: consumer, Streams: []string{r.stream(), ">"}, Block: -1,
	}).Result()
	require.NoError(r.t, err)
	return streams[0].Messages
}

func (r *rig) pending() []redis.XPendingExt {
	p, err := r.rdb.XPendingExt(r.t.Context(), &redis.XPendingExtArgs{
		Stream: r.stream(), Group: admission.Group, Start: "-", End: "+", Count: 1000,
	}).Result()
	require.NoError(r.t, err)
	return p
}

func (r *rig) letters() []admission.DeadLetter {
	letters, err := r.gate.DeadLetters(r.t.Context(), "", 500)
	require.NoError(r.t, err)
	return letters
}

// slowGate lets a test stand between the workers and the gate.
type slowGate struct {
	*admission.Gate
	settle func(ctx context.Context, done []service.Parcel) error
}

func (g slowGate) Settle(ctx context.Context, done []service.Parcel) error {
	return g.settle(ctx, done)
}
