package salestats

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// monitorStore is a MonitorStore of one sale.
type monitorStore struct {
	down   atomic.Bool
	counts atomic.Int64
}

func (s *monitorStore) failure() error {
	if s.down.Load() {
		return domain.ErrUnavailable
	}
	return nil
}

func (s *monitorStore) Voucher(_ context.Context, id int64) (domain.Voucher, error) {
	return domain.Voucher{ID: id, Sale: &domain.Sale{InitialStock: 5, Stock: 5}}, s.failure()
}

func (s *monitorStore) CountSale(context.Context, int64) (SaleCount, error) {
	s.counts.Add(1)
	return SaleCount{Totals: domain.SaleTotals{InitialStock: 5, Stock: 5}, ByStatus: map[domain.OrderStatus]int64{}}, s.failure()
}

// reported is a history that fails. It keeps what was reported last about sale 9.
type reported struct{ last atomic.Pointer[report] }

func (h *reported) add(_ context.Context, reports map[int64]*report, _ time.Time) error {
	if r := reports[9]; r != nil {
		h.last.Store(r)
	}
	return domain.ErrUnavailable
}

func (*reported) read(context.Context, int64, time.Time, time.Time) (reading, error) {
	return reading{}, domain.ErrUnavailable
}

func (*reported) hour(context.Context, int64, time.Time) ([]Period, error) {
	return nil, domain.ErrUnavailable
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return domain.ErrUnavailable
}

// onMonitor runs a test of a running Monitor in a synctest bubble.
func onMonitor(t *testing.T, change func(*MonitorConfig), test func(t *testing.T, m *Monitor, store *monitorStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &monitorStore{}
		cfg := MonitorConfig{
			Store: store, Counters: NewCounters(true), History: &reported{}, Subscribers: NewSubscribers(), Lane: "lock",
			Log: slog.New(slog.DiscardHandler),
		}
		change(&cfg)
		m := NewMonitor(cfg)
		env.InBackground(t, m.Run)
		test(t, m, store)
	})
}

// A stock that cannot be read is shown for a short time only. Then both readings are tried by every request.
func TestStockIsShownWhileDatabaseIsDown(t *testing.T) {
	onMonitor(t, func(*MonitorConfig) {}, func(t *testing.T, m *Monitor, store *monitorStore) {
		for range 2 {
			back := time.Now()
			s := env.Must(m.Stats(t.Context(), 7, time.Time{}))(t)
			require.Equal(t, back.UTC(), s.CheckedAt.UTC())

			store.down.Store(true)
			time.Sleep(staleAfter - time.Second)
			s = env.Must(m.Stats(t.Context(), 7, time.Time{}))(t)
			require.EqualValues(t, 5, s.Stock.Database)
			time.Sleep(time.Second)
			env.Fails(m.Stats(t.Context(), 7, time.Time{}))(t, domain.ErrUnavailable)
			store.down.Store(false)
		}
	})
}

func TestStockIsShownWhileRedisHangs(t *testing.T) {
	hanging := func(c *MonitorConfig) {
		c.Gate = func(ctx context.Context, _ int64) (int64, error) { return 0, hang(ctx) }
		c.Lag = func(ctx context.Context) (domain.QueueLag, error) { return domain.QueueLag{}, hang(ctx) }
	}
	onMonitor(t, hanging, func(t *testing.T, m *Monitor, _ *monitorStore) {
		env.Must(m.Stats(t.Context(), 7, time.Time{}))(t)
		for range 20 {
			require.Nil(t, env.Must(m.Stats(t.Context(), 7, time.Now()))(t).Stock.Gate)
			require.NotNil(t, m.levels()[7].Stock, "the current second has no stock")
			time.Sleep(time.Second)
		}
	})
}

// TestStockOfUnwatchedSale: the history has the stock of a sale without viewers, as its buyers see it.
func TestStockOfUnwatchedSale(t *testing.T) {
	var h reported
	stock := int64(92)
	known := func(c *MonitorConfig) {
		c.History = &h
		c.Stock = func(_ context.Context, id int64) (int64, error) { stock--; return stock, nil }
	}
	onMonitor(t, known, func(t *testing.T, m *Monitor, store *monitorStore) {
		m.cfg.Counters.CountAnswer(9, "ok", time.Millisecond)
		time.Sleep(time.Second)
		require.EqualValues(t, 91, *h.last.Load().level.Stock)
		require.EqualValues(t, 1, h.last.Load().counts[countName{settledName, OutcomeOK}])
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 90, *h.last.Load().level.Stock, "once more after the last purchase")
		require.Empty(t, h.last.Load().counts)
		require.Zero(t, store.counts.Load(), "the sale is not shown")
	})
}

func TestMain(m *testing.M) { env.Main(m) }

func TestFigures(t *testing.T) {
	begin := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	var f Figures
	f.Add(domain.OrderRedeemed, begin.Add(time.Minute), 2, 200)
	f.Add(domain.OrderPaid, begin, 1, 100)
	f.Add(domain.OrderRefunding, begin, 1, 100)
	f.Add(domain.OrderRefunded, begin, 3, 300)
	f.Add(domain.OrderCancelled, begin, 4, 400)
	f.Add(domain.OrderPendingPayment, begin.Add(time.Minute), 5, 500)
	require.Equal(t, Figures{
		Orders: 16, Paid: 7, Unpaid: 9, Refunded: 4, Revenue: 300, RefundedAmount: 400, Conversion: 0.4375,
		Curve: []Sold{{begin, 9, 100}, {begin.Add(time.Minute), 7, 200}},
	}, f)

	f = Figures{}
	for n := range 601 {
		f.Add(domain.OrderPaid, begin.Add(time.Duration(n)*time.Second), 1, 10)
	}
	f.Shorten(time.Second)
	require.LessOrEqual(t, len(f.Curve), MaxPeriods)
	require.Equal(t, Sold{begin, 11, 110}, f.Curve[0])
	require.Equal(t, begin.Add(11*time.Second), f.Curve[1].At)
	total := int64(0)
	for _, s := range f.Curve {
		total += s.Orders
	}
	require.EqualValues(t, 601, total)
	new(Figures).Shorten(time.Second)
}

func TestHistory(t *testing.T) {
	for name, test := range map[string]func(*testing.T, env.RedisClient){
		"each second once": eachSecondOnce, "the last hour": lastHour,
	} {
		t.Run(name, func(t *testing.T) { env.EachRedis(t, test) })
	}
}

// TestNoCountIsLost counts while the counts are taken.
func TestNoCountIsLost(t *testing.T) {
	const workers, each = 8, 2000
	c := NewCounters(true)
	sum := counts{}
	var mu sync.Mutex
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		for name, n := range c.take(time.Now())[7] {
			sum[name] += n
		}
	}

	var counting sync.WaitGroup
	for range workers {
		counting.Go(func() {
			for i := range each {
				c.CountAnswer(7, []string{"ok", "sold_out"}[i%2], time.Millisecond)
				c.CountSettled(7, domain.ReasonDuplicate)
				c.CountBatch(7, 3)
				if i%100 == 0 {
					take()
				}
			}
		})
	}
	counting.Wait()
	take()
	const all = workers * each
	require.Equal(t, counts{
		{answersName, "ok"}: all / 2, {answersName, "sold_out"}: all / 2, {settledName, "ok"}: all / 2, {settledName, "duplicate_order"}: all,
		{kind: batchesName}: all, {kind: rowsName}: 3 * all, {latencyName, strconv.Itoa(latencyBucket(time.Millisecond))}: all,
	}, sum)
}

// eachSecondOnce: even seconds without reports, and the last two minutes only.
func eachSecondOnce(t *testing.T, rdb env.RedisClient) {
	h := &RedisHistory{Redis: rdb, Instance: "a"}
	ctx := t.Context()
	now := time.Now()
	left := int64(5)
	bucket := latencyBucket(time.Millisecond)
	one := &report{level: Level{Stock: &left}, counts: counts{
		{answersName, "ok"}: 1, {latencyName, strconv.Itoa(bucket)}: 1, {kind: batchesName}: 1, {kind: rowsName}: 3,
	}}

	r := env.Must(h.read(ctx, 7, time.Time{}, now))(t)
	require.Empty(t, r.seconds)
	require.Equal(t, domain.Moment(now).UTC(), r.total.Since)

	require.NoError(t, h.add(ctx, map[int64]*report{7: one}, now.Add(-time.Hour)))
	at := now.Add(-10 * time.Second)
	require.NoError(t, h.add(ctx, map[int64]*report{7: one}, at))
	for _, key := range []string{totalsKey(7), secondKey(7, at.Unix()), periodKey(7, at)} {
		require.Positive(t, rdb.PTTL(ctx, key).Val())
	}
	require.NoError(t, rdb.HSet(ctx, secondKey(7, at.Unix()), "of another version", 1, "took:100000", 1, "batches", "x").Err())

	r = env.Must(h.read(ctx, 7, time.Time{}, now))(t)
	took := domain.Milliseconds(latencyOf(bucket))
	require.Equal(t, Counts{Answers: map[string]int64{"ok": 2}, Settled: map[string]int64{}, Batches: 2, Rows: 6, P50: took, P99: took}, r.total.Counts)
	require.Len(t, r.seconds, historySeconds-1)
	for i, s := range r.seconds[1:] {
		require.Equal(t, r.seconds[i].At.Add(time.Second), s.At)
		if s.At.Unix() != at.Unix() {
			require.Empty(t, s.Answers)
			continue
		}
		require.Equal(t, map[string]int64{"ok": 1}, s.Answers)
		require.Empty(t, s.Settled, "an admission is not a stored order")
		require.Equal(t, &left, s.Stock)
	}

	some := env.Must(h.read(ctx, 7, r.seconds[100].At, now))(t)
	require.Equal(t, r.seconds[101:], some.seconds)
	some = env.Must(h.read(ctx, 7, now.Add(time.Hour), now))(t)
	require.Empty(t, some.seconds)
}

// lastHour: what all processes reported in the last hour is returned by the first read, and older periods are not. A process
// without counts reports as well, and one without reports is not counted.
func lastHour(t *testing.T, rdb env.RedisClient) {
	now := time.Now().Truncate(period).Add(period / 2)
	processes := [2]*RedisHistory{{Redis: rdb, Instance: "a"}, {Redis: rdb, Instance: "b"}}
	at := func(ago time.Duration, stock int64) {
		for i, h := range processes {
			r := &report{counts: counts{{answersName, "ok"}: 3, {answersName, "sold_out"}: 2, {answersName, "replayed"}: 7, {settledName, "ok"}: 3}}
			if i == 1 {
				r.level.Stock = &stock
			}
			require.NoError(t, h.add(t.Context(), map[int64]*report{9: r}, now.Add(-ago)))
		}
	}
	at(2*time.Hour, 9)
	at(time.Hour, 8)
	at(time.Hour-period, 7)
	at(time.Minute, 6)
	at(time.Minute+time.Second, 5)
	at(0, 4)

	hour := env.Must(processes[0].hour(t.Context(), 9, now))(t)
	period := func(ago time.Duration, times, stock int64) Period {
		return Period{At: now.Add(-ago).Truncate(period).UTC(), Orders: 6 * times, Refused: 4 * times, Stock: &stock}
	}
	require.Equal(t, []Period{period(time.Hour-10*time.Second, 1, 7), period(time.Minute, 2, 5), period(0, 1, 4)}, hour)
	require.Positive(t, rdb.PTTL(t.Context(), periodKey(9, now)).Val())

	require.Equal(t, 2, env.Must(processes[0].read(t.Context(), 9, time.Time{}, now))(t).instances)
	later := now.Add(instanceTimeout + time.Second)
	require.NoError(t, processes[1].add(t.Context(), nil, later))
	require.Equal(t, 1, env.Must(processes[0].read(t.Context(), 9, time.Time{}, later))(t).instances)
}

// TestCountedVouchersAreBounded: invented IDs are not counted, and idle vouchers make room for others.
func TestCountedVouchersAreBounded(t *testing.T) {
	c := NewCounters(true)
	for _, code := range []string{"not_found", "rate_limited", "unavailable", "invalid_request", "unauthenticated", "overloaded", "unknown"} {
		c.CountAnswer(7, code, 0)
	}
	now := time.Now()
	require.Empty(t, c.take(now))

	for id := range int64(2 * maxSales) {
		c.CountAnswer(id, "sold_out", 0)
	}
	require.Len(t, c.take(now), maxSales)
	c.CountAnswer(9999, "ok", 0)
	require.Empty(t, c.take(now))
	c.take(now.Add(uncountedAfter + time.Second))
	c.CountAnswer(9999, "ok", 0)
	require.Contains(t, c.take(now), int64(9999))
}

// A quantile is the middle of its bucket, which is within 5 % of each value in it.
func TestQuantiles(t *testing.T) {
	counts := map[int]int64{latencyBucket(time.Millisecond): 50, latencyBucket(20 * time.Millisecond): 49, latencyBucket(time.Second): 1}
	for part, want := range map[float64]time.Duration{0.5: time.Millisecond, 0.51: 20 * time.Millisecond, 0.99: 20 * time.Millisecond, 1: time.Second} {
		require.InEpsilon(t, want, time.Duration(quantile(counts, part)), 0.05, part)
	}
	for d := 33 * time.Microsecond; d < 16*time.Second; d += d / 50 {
		require.InEpsilon(t, d, latencyOf(latencyBucket(d)), 0.05, d.String())
	}
	require.Equal(t, latencyBuckets-1, latencyBucket(time.Hour))
	require.Zero(t, latencyBucket(-1))
	require.Zero(t, quantile(nil, 0.5))
}
