package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
	"seckill/test/env"
	"seckill/test/env/servers"
)

func TestMain(m *testing.M) { env.Main(m) }

const voucher = 7 // its stream is the one that most tests read

// waitLimit bounds the wait for an expected event. No test depends on how long the event takes.
const waitLimit = 30 * time.Second

// rig is a gate with units, a database in memory, and a record of what the workers did.
type rig struct {
	t    *testing.T
	rdb  env.RedisClient
	gate *admission.Gate

	mu         sync.Mutex
	generation int64                      // of the sale
	units      int64                      // of the sale; they are not counted
	orders     map[int64]domain.Admission // committed
	commits    map[int64]int              // order id -> number of commits that contained it
}

func newRig(t *testing.T, rdb env.RedisClient, units int64) *rig {
	r := &rig{
		t: t, rdb: rdb, units: units, orders: map[int64]domain.Admission{}, commits: map[int64]int{},
		gate: admission.New(admission.Config{Redis: rdb, Log: slog.New(slog.DiscardHandler)}),
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
			OrderID: id, UserID: id, VoucherID: voucher, Amount: 100, Limit: 1, At: time.Now(),
		}
	}
	w := domain.Window{Begin: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour)}
	require.Equal(r.t, make([]error, n), r.gate.Reserve(r.t.Context(), voucher, w, as))
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
	ended := env.Go(func() error { return New(cfg).Run(ctx) })
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

// Admissions that the database refuses for good are tried once and end as failed tickets.
func TestRefusalsAreSettled(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 10)
		r.reserve(1, 6)
		results := map[int64]error{
			1: nil, 2: domain.ErrSoldOut, 3: &domain.DuplicateOrderError{OrderID: 9}, 4: domain.ErrIDTaken, 5: domain.ErrIdempotencyMismatch,
			6: domain.ErrPassExpired,
		}
		r.start(r.config("a", func(_ context.Context, as []domain.Admission) []error {
			errs := r.refuse(as, nil)
			for i, a := range as {
				errs[i] = results[a.OrderID]
			}
			return errs
		}))
		r.settled()
		for order, failed := range map[int64]string{
			2: "sold_out", 3: "duplicate_order", 4: "internal", 5: "idempotency_mismatch", 6: "entry_required",
		} {
			require.Equal(t, failed, env.Must(r.gate.Ticket(t.Context(), order, order, voucher))(t).Failed)
			require.Equal(t, 1, r.commitCalls(order))
		}
		r.requireLevel(admission.Level{Stock: 9, Held: 1})
		require.Empty(t, r.deadLetters())
	})
}

func TestSettleIsRetriedUntilItSucceeds(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 5)
		var tries atomic.Int64
		cfg := r.config("a", r.commit)
		cfg.MinIdle = time.Hour // no entry is delivered again: the same call is retried
		cfg.Gate = gateWithSettle{r.gate, func(ctx context.Context, done []domain.StreamEntry) error {
			if tries.Add(1) < 3 {
				return domain.ErrUnavailable
			}
			return r.gate.Settle(ctx, done)
		}}
		r.start(cfg)
		r.settled()
		require.EqualValues(t, 3, tries.Load())
		require.Equal(t, 1, r.commitCalls(1))
	})
}

// While the database is unavailable, attempts do not count as tries. Neither do those that took too long, or that the end
// of the process cut short.
func TestTimeoutCostsNoTry(t *testing.T) {
	for _, err := range []error{domain.ErrUnavailable, context.DeadlineExceeded, context.Canceled} {
		r := &reader{log: slog.New(slog.DiscardHandler), w: New(Config{Commit: func(_ context.Context, as []domain.Admission) []error {
			return slices.Repeat([]error{fmt.Errorf("commit: %w", err)}, len(as))
		}})}
		entries := []entry{{StreamEntry: domain.StreamEntry{Admissions: make([]domain.Admission, 2)}}}
		again, _, unavailable := r.commitEntries(t.Context(), entries)
		require.ErrorIs(t, unavailable, err)
		require.Equal(t, entries, again)
	}
}

// renewClaims resets the idle time of the reader's entries, and drops entries that left the stream.
func TestRenewKeepsClaims(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserveApart(1, 3)
		r.deliver("a")
		a := readerOf(r, "a")
		entries := entriesOf(r)
		for _, e := range entries {
			require.NoError(t, rdb.Do(t.Context(), "XCLAIM", r.stream(), admission.Group, "a", 0, e.Entry,
				"IDLE", time.Hour.Milliseconds()).Err())
		}
		renew := func(r *reader) []entry {
			rest, _, err := r.renewClaims(t.Context(), entries)
			require.NoError(t, err)
			return rest
		}
		renew(a)
		for _, p := range r.pending() {
			require.Less(t, p.Idle, time.Hour)
		}
		// Another consumer cannot renew them, and does not take them over.
		renew(readerOf(r, "b"))
		for _, p := range r.pending() {
			require.Equal(t, "a", p.Consumer)
		}
		// Entries that were settled or lost are dropped.
		require.NoError(t, rdb.XDel(t.Context(), r.stream(), entries[1].Entry).Err())
		entries = renew(a)
		require.Len(t, entries, 2)
		// Without the group they are in the stream all the same.
		require.NoError(t, rdb.XGroupDestroy(t.Context(), r.stream(), admission.Group).Err())
		require.Len(t, renew(a), 2)
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		require.Empty(t, renew(a))
	})
}

// A worker that cannot see whether Redis still has its entries does not commit them. It goes on when Redis answers.
func TestNothingIsCommittedUnseen(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 20)
		var entries []entry
		for _, m := range r.deliver("a") {
			entries = append(entries, entry{StreamEntry: domain.StreamEntry{Entry: m.ID}, fields: m.Values})
		}
		away := servers.AnotherRedisClient(t, rdb)
		left := 3 // scripts that fail as if Redis were away
		away.AddHook(env.RedisHook{Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if left == 0 || cmd.Name() != "evalsha" {
				return next(ctx, cmd)
			}
			left--
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}})

		a := readerOf(r, "a")
		a.w.cfg.Redis, a.w.cfg.MinIdle = away, time.Nanosecond
		a.w.cfg.Commit = func(ctx context.Context, as []domain.Admission) []error {
			require.Zero(t, left, "a commit while Redis is away")
			if r.commitCalls(1) == 0 {
				left = 3
				return r.refuse(as, domain.ErrUnavailable)
			}
			return r.commit(ctx, as)
		}
		a.handle(t.Context(), entries, false, time.Now())
		require.Zero(t, left)
		r.requireOrders(1, 20)
	})
}

// A worker that was stopped between the reply of Redis and the commit, or waited for the gate meanwhile, looks for its
// entries again before it commits them.
func TestFirstCommitIsNotLate(t *testing.T) {
	late := map[string]func(r *rig, a *reader, lose func()){
		"after a read": func(r *rig, a *reader, lose func()) {
			a.claimAt = time.Now().Add(time.Hour)
			a.w.cfg.Redis.(env.RedisClient).AddHook(afterReply("xreadgroup", lose))
			require.NoError(r.t, a.cycle(r.t.Context(), r.t.Context()))
		},
		"after a claim": func(r *rig, a *reader, lose func()) {
			r.deliver("dead")
			for _, e := range entriesOf(r) {
				require.NoError(r.t, r.rdb.Do(r.t.Context(), "XCLAIM", r.stream(), admission.Group, "dead", 0, e.Entry,
					"IDLE", time.Hour.Milliseconds()).Err())
			}
			require.NoError(r.t, claimScript.Load(r.t.Context(), r.rdb).Err())
			a.w.cfg.Redis.(env.RedisClient).AddHook(afterReply("evalsha", lose))
			require.True(r.t, noGroup(a.cycle(r.t.Context(), r.t.Context())), "the read after the claim")
		},
		"after a dead letter": func(r *rig, a *reader, lose func()) {
			a.claimAt = time.Now().Add(time.Hour)
			r.rdb.AddHook(afterReply("evalsha", lose)) // the gate moves the entry
			require.NoError(r.t, r.rdb.XAdd(r.t.Context(), &redis.XAddArgs{
				Stream: r.stream(), Values: []string{"note", "written by hand"},
			}).Err())
			require.NoError(r.t, a.cycle(r.t.Context(), r.t.Context()))
		},
	}
	for name, late := range late {
		t.Run(name, func(t *testing.T) {
			env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
				r := newRig(t, rdb, 100)
				r.reserve(1, 20)
				client := servers.AnotherRedisClient(t, rdb)
				a := readerOf(r, "a")
				a.w.cfg.Redis, a.w.cfg.MinIdle = client, 200*time.Millisecond
				require.NoError(t, a.createGroup(t.Context()))

				lost := false
				late(r, a, func() {
					require.NoError(t, rdb.FlushDB(t.Context()).Err())
					time.Sleep(a.w.cfg.MinIdle / 2)
					lost = true
				})
				require.True(t, lost)
				r.requireOrders(1, 0)
			})
		})
	}
}

// afterReply calls a function once, after the first reply to a command with this name.
func afterReply(name string, do func()) env.RedisHook {
	return env.RedisHook{Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if cmd.Name() == name && do != nil {
			do()
			do = nil
		}
		return err
	}}
}

type gateWithSettle struct {
	*admission.Gate
	settle func(ctx context.Context, done []domain.StreamEntry) error
}

func (g gateWithSettle) Settle(ctx context.Context, done []domain.StreamEntry) error {
	return g.settle(ctx, done)
}

// A server that refuses writes still shows that the entries are in the stream.
func TestRenewNeedsNoWrite(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	r := newRig(t, rdb, 100)
	r.reserveApart(1, 2)
	r.deliver("a")
	entries := entriesOf(r)
	require.NoError(t, rdb.XDel(t.Context(), r.stream(), entries[1].Entry).Err())

	require.NoError(t, rdb.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	require.ErrorContains(t, rdb.Set(t.Context(), "any", 1, 0).Err(), "NOREPLICAS")
	gone, err := renewScript.Run(t.Context(), rdb, []string{r.stream()},
		admission.Group, "a", entries[0].Entry, entries[1].Entry).StringSlice()
	require.NoError(t, err)
	require.Equal(t, []string{entries[1].Entry}, gone)
}

// If the database was unavailable for one admission of an entry, the whole entry is tried again. Other entries are
// settled.
func TestEntryIsRetriedAsWhole(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 5)
		r.reserve(6, 5)
		var back atomic.Bool
		cfg := r.config("a", func(_ context.Context, as []domain.Admission) []error {
			errs := r.refuse(as, nil)
			for i, a := range as {
				switch {
				case a.OrderID == 2:
					errs[i] = domain.ErrSoldOut
				case a.OrderID == 3 && !back.Load():
					errs[i] = domain.ErrUnavailable
				}
			}
			return errs
		})
		cfg.MinIdle = time.Hour
		r.start(cfg)
		r.until("the entry is tried again", func() bool { return r.commitCalls(3) > 2 })
		require.Equal(t, r.commitCalls(3), r.commitCalls(1))
		require.Equal(t, 1, r.commitCalls(6))
		r.requireLevel(admission.Level{Stock: 90, Held: 10, Queued: 5, Backlog: 1})
		back.Store(true)
		r.settled()
		r.requireLevel(admission.Level{Stock: 91, Held: 9})
		require.Empty(t, r.pending())
	})
}

// Entries that are read together are committed in batches of at most BatchSize admissions. Only a single entry may
// exceed it.
func TestBatchSizeIsBounded(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 1000)
		for i, n := range []int{3, 4, 3, 9, 64, 1, 1, 8, 2} {
			r.reserve(int64(100*i+1), n)
		}
		var sizes []int // one reader commits one batch at a time
		cfg := r.config("a", func(ctx context.Context, as []domain.Admission) []error {
			sizes = append(sizes, len(as))
			return r.commit(ctx, as)
		})
		cfg.BatchSize = 10
		stop := r.start(cfg)
		r.settled()
		stop()
		require.Equal(t, []int{10, 9, 64, 10, 2}, sizes)
	})
}

func TestShutdownFinishesBatch(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 20)
		entered, goOn := make(chan struct{}), make(chan struct{})
		cfg := r.config("a", func(ctx context.Context, as []domain.Admission) []error {
			close(entered)
			<-goOn
			if err := ctx.Err(); err != nil {
				return r.refuse(as, err)
			}
			return r.commit(ctx, as)
		})
		cfg.MinIdle, cfg.ShutdownTimeout = time.Hour, waitLimit
		ctx, cancel := context.WithCancel(t.Context())
		ended := env.Go(func() error { return New(cfg).Run(ctx) })
		<-entered
		cancel()
		select {
		case err := <-ended:
			require.Fail(t, "Run returned before the batch was finished", "%v", err)
		case <-time.After(50 * time.Millisecond):
		}
		close(goOn)
		require.NoError(t, <-ended)
		r.requireOrders(1, 20)
		require.Zero(t, r.level().Backlog)
	})
}

// readerOf returns a reader that is not running.
func readerOf(r *rig, consumer string) *reader {
	cfg := r.config(consumer, r.commit)
	cfg.MinIdle = time.Millisecond
	w := New(cfg)
	return &reader{w: w, stream: r.stream(), log: cfg.Log}
}

func entriesOf(r *rig) []entry {
	var entries []entry
	for _, p := range r.pending() {
		entries = append(entries, entry{StreamEntry: domain.StreamEntry{Entry: p.ID}})
	}
	return entries
}

// Of the entries that a dead worker has left, one is not in the stream any more.
func TestLostEntryIsAcknowledged(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 10)
		r.reserve(1, 1)
		r.reserve(2, 1)
		require.NoError(t, rdb.XDel(t.Context(), r.stream(), r.deliver("dead")[1].ID).Err())
		r.start(r.config("a", r.commit))
		r.settled()
		require.Equal(t, 1, r.commitCalls(1))
		require.Zero(t, r.commitCalls(2))
		r.requireLevel(admission.Level{Stock: 8, Held: 2, Queued: 1})
		r.until("what is lost is acknowledged", func() bool { return len(r.pending()) == 0 })
	})
}

// Miniredis does not report how long a consumer has been idle. One claim takes all entries that are due.
func TestClaimDeletesIdleConsumers(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	r := newRig(t, rdb, 10)
	ctx := t.Context()
	r.reserve(1, 1)
	require.NoError(t, rdb.XAck(ctx, r.stream(), admission.Group, r.deliver("gone")[0].ID).Err())
	r.reserve(2, 1)
	r.reserve(3, 1)
	r.deliver("stuck") // idle too, but with pending entries
	names := func() []string {
		consumers := env.Must(rdb.XInfoConsumers(ctx, r.stream(), admission.Group).Result())(t)
		var all []string
		for _, c := range consumers {
			all = append(all, c.Name)
		}
		return all
	}
	a := readerOf(r, "a")
	a.w.cfg.MinIdle = time.Hour
	require.Empty(t, env.Must(a.claim(ctx))(t))
	require.ElementsMatch(t, []string{"gone", "stuck"}, names(), "not idle for an hour")

	a.w.cfg.ConsumerIdle = time.Millisecond
	r.until("only the consumer with pending entries is left", func() bool {
		env.Must(a.claim(ctx))(t)
		return len(names()) == 1
	})
	require.Equal(t, []string{"stuck"}, names())
	require.Len(t, r.pending(), 2)

	a.w.cfg.MinIdle = 0
	require.Len(t, env.Must(a.claim(ctx))(t), 2)
	for _, p := range r.pending() {
		require.Equal(t, []any{"a", int64(2)}, []any{p.Consumer, p.RetryCount}, "each claim is a delivery")
	}
}

// An entry that cannot be read is a dead letter at once. One with a voucher of another shard, as a changed number of
// segments may leave it, becomes an order and leaves its stream.
func TestForeignEntries(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 1)
		add := func(fields ...string) string {
			return rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), Values: fields}).Val()
		}
		junk := add("order", "seven")
		add("rows", "2 2 8 1 100 1000 CNY ", "generation", "1")
		r.reserve(3, 1)
		cfg := r.config("a", r.commit)
		cfg.MinIdle = time.Hour // no claim acknowledges what has left the stream
		var settled []domain.StreamEntry
		cfg.Settled = func(p domain.StreamEntry) { settled = append(settled, p) }
		stop := r.start(cfg)
		r.settled()
		stop()
		require.Len(t, settled, 4)
		require.Equal(t, junk, settled[0].Entry)
		require.NotEmpty(t, env.Only(t, settled[0].Ends).Dead)
		require.Empty(t, settled[0].Admissions)
		r.requireOrders(1, 3)
		require.Empty(t, r.pending())
		letters := r.deadLetters()
		require.Len(t, letters, 1)
		require.Equal(t, junk, letters[0].Entry)
		require.EqualValues(t, 1, letters[0].Tries)
	})
}

// An empty reason would mean a committed order.
func TestReasonOfDeadLetterIsNeverEmpty(t *testing.T) {
	require.NotEmpty(t, truncated(errors.New("")))
}

// If one admission of an entry is poison, all of them are retried after a pause, each alone. The poison fails no other then.
func TestPoisonIsRetriedAlone(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 20)
		var healed atomic.Bool
		cfg := r.config("a", func(ctx context.Context, as []domain.Admission) []error {
			if slices.ContainsFunc(as, func(a domain.Admission) bool { return a.OrderID == 3 }) && !healed.Load() {
				r.refuse(as, nil)
				panic("a column is too short")
			}
			return r.commit(ctx, as)
		})
		cfg.MinIdle = time.Hour // these workers claim nothing
		stop := r.start(cfg)
		r.until("all are entries of their own", func() bool { return r.level().Backlog == 20 && len(r.pending()) == 20 })
		require.Empty(t, env.Must(r.gate.Ticket(t.Context(), 3, 3, voucher))(t).Failed)
		require.Equal(t, 1, r.commitCalls(3), "it is not tried before it is claimed")

		stop()
		cfg.MinIdle, cfg.MaxTries = time.Millisecond, math.MaxInt64
		r.start(cfg)
		r.until("the others are settled", func() bool { return r.level().Queued == 1 })
		r.requireLevel(admission.Level{Stock: 80, Held: 20, Queued: 1, Backlog: 1})
		for order := range int64(20) {
			if order++; order != 3 {
				require.Equal(t, 2, r.commitCalls(order), "order %d was retried alone", order)
			}
		}

		healed.Store(true)
		r.settled()
		r.requireOrders(1, 20)
		require.Empty(t, r.deadLetters())
		require.EqualValues(t, 20, r.level().Held)
	})
}

// The servers were moved to another Redis, whose gate has raised the generation, and back. Nothing else replaces the old gate.
func TestGateOfAnEarlierGenerationIsLoadedAgain(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		r := newRig(t, rdb, 10)
		env.Must(r.FenceGate(t.Context(), voucher, r.generation))(t)
		r.reserve(1, 2)
		cfg := r.config("a", r.commit)
		cfg.OutdatedAfter = 50 * time.Millisecond
		r.start(cfg)
		r.settled()
		r.requireOrders(1, 2)
		r.requireLevel(admission.Level{Stock: 8, Held: 2})
	})
}
