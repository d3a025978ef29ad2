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

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

const voucher = 7 // its stream is the one that most tests read

// waitLimit bounds the wait for an expected event. No test depends on how long the event takes.
const waitLimit = 30 * time.Second

// rig is a gate with units, a database in memory, and a record of what the workers did.
type rig struct {
	t    *testing.T
	rdb  *redis.Client
	gate *admission.Gate

	mu         sync.Mutex
	generation int64                      // of the sale
	units      int64                      // of the sale; they are not counted
	orders     map[int64]domain.Admission // committed
	commits    map[int64]int              // order id -> number of commits that contained it
}

func newRig(t *testing.T, rdb *redis.Client, units int64) *rig {
	r := &rig{
		t: t, rdb: rdb, units: units, orders: map[int64]domain.Admission{}, commits: map[int64]int{},
		gate: admission.New(admission.Config{Redis: rdb, Instance: t.Name(), Log: slog.New(slog.DiscardHandler)}),
	}
	require.NoError(t, r.gate.Load(t.Context(), voucher, r))
	return r
}

func (r *rig) GateGeneration(context.Context, int64) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation, nil
}

func (r *rig) FenceGate(_ context.Context, _, from int64) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation != from {
		return false, nil
	}
	r.generation++
	return true, nil
}

func (r *rig) GateState(context.Context, int64, []int64) (domain.GateState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return domain.GateState{Stock: r.units}, nil
}

// reserve queues orders first..first+n-1 in one call. The user ids equal the order ids.
func (r *rig) reserve(first int64, n int) {
	as := make([]domain.Admission, n)
	for i := range as {
		id := first + int64(i)
		as[i] = domain.Admission{
			OrderID: id, UserID: id, VoucherID: voucher, Amount: 100, Limit: 1, At: time.Now(), ReplyTo: r.gate.Instance(),
		}
	}
	w := domain.Window{Begin: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour)}
	results := env.Must(r.gate.Reserve(r.t.Context(), voucher, w, as))(r.t)
	require.Equal(r.t, make([]error, n), results)
}

// reserveApart queues orders first..first+n-1, each in an entry of its own.
func (r *rig) reserveApart(first int64, n int) {
	for i := range int64(n) {
		r.reserve(first+i, 1)
	}
}

// commit is the database. It stores all admissions of the sale's generation.
func (r *rig) commit(_ context.Context, as []domain.Admission) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := make([]error, len(as))
	for i, a := range as {
		r.commits[a.OrderID]++
		if a.Generation != r.generation {
			errs[i] = domain.ErrGateReplaced
			continue
		}
		r.orders[a.OrderID] = a
	}
	return errs
}

// refuse counts the admissions and returns err for all of them.
func (r *rig) refuse(as []domain.Admission, err error) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range as {
		r.commits[a.OrderID]++
	}
	return slices.Repeat([]error{err}, len(as))
}

// config returns a configuration of workers that claim stale entries quickly.
func (r *rig) config(consumer string, commit CommitFunc) Config {
	return Config{
		Redis: r.rdb, Streams: admission.Streams()[voucher : voucher+1],
		Group: admission.Group, Consumer: consumer, Gate: r.gate, Commit: commit,
		LoadGate: func(ctx context.Context, voucherID int64) error { return r.gate.Load(ctx, voucherID, r) },
		Block:    20 * time.Millisecond, MinIdle: 100 * time.Millisecond, ClaimEvery: 20 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	}
}

// start runs workers until the test ends or stop is called. stop returns after Run has returned.
func (r *rig) start(cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(cfg).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(r.t, err)
		case <-time.After(waitLimit):
			require.Fail(r.t, "the workers did not stop")
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	require.Eventually(r.t, condition, waitLimit, 5*time.Millisecond, what)
}

func (r *rig) settled() {
	r.t.Helper()
	r.until("everything is settled", func() bool { return r.level().Backlog == 0 })
}

func (r *rig) level() admission.Level {
	l, err := r.gate.Level(r.t.Context(), voucher)
	if !errors.Is(err, domain.ErrGateCold) {
		require.NoError(r.t, err)
	}
	return l
}

// requireLevel compares the level with want, except for Version, Sum, Users and Built.
func (r *rig) requireLevel(want admission.Level) {
	r.t.Helper()
	got := r.level()
	got.Version, got.Sum, got.Users, got.Built = 0, 0, 0, 0
	require.Equal(r.t, want, got)
}

func (r *rig) commitCalls(order int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits[order]
}

// requireOrders checks that the database has the orders first..first+n-1 and no others.
func (r *rig) requireOrders(first int64, n int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.t, r.orders, n)
	for id := first; id < first+int64(n); id++ {
		require.Contains(r.t, r.orders, id)
	}
}

func (r *rig) stream() string { return admission.Streams()[voucher] }

// deliver reads all new entries of the stream as a consumer that does not handle them.
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

func (r *rig) deadLetters() []domain.DeadLetter {
	return env.Must(r.gate.DeadLetters(r.t.Context(), "", 500))(r.t)
}

type gateWithSettle struct {
	*admission.Gate
	settle func(ctx context.Context, done []domain.StreamEntry) error
}

func (g gateWithSettle) Settle(ctx context.Context, done []domain.StreamEntry) error {
	return g.settle(ctx, done)
}
