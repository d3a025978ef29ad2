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
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/test/env"
)

// monitorStore is a MonitorStore of one sale. Its reads return the result of fail, if set, which may block until ctx
// ends.
type monitorStore struct {
	mu     sync.Mutex
	fail   func(ctx context.Context) error
	counts int
}

func (s *monitorStore) set(fail func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *monitorStore) failure(ctx context.Context) error {
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx)
}

func (s *monitorStore) Voucher(ctx context.Context, id int64) (domain.Voucher, error) {
	return domain.Voucher{ID: id, Sale: &domain.Sale{InitialStock: 5, Stock: 5}}, s.failure(ctx)
}

func (s *monitorStore) CountSale(ctx context.Context, _ int64) (SaleCount, error) {
	s.mu.Lock()
	s.counts++
	s.mu.Unlock()
	return SaleCount{Totals: domain.SaleTotals{InitialStock: 5, Stock: 5}, ByStatus: map[domain.OrderStatus]int64{}}, s.failure(ctx)
}

// noHistory is a history without Redis.
type noHistory struct{}

func (noHistory) add(context.Context, map[int64]*report, time.Time) error {
	return domain.ErrUnavailable
}

func (noHistory) read(context.Context, int64, time.Time, time.Time) (reading, error) {
	return reading{}, domain.ErrUnavailable
}

func (noHistory) hour(context.Context, int64, time.Time) ([]Period, error) {
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
			Store: store, Counters: NewCounters(true), History: noHistory{}, Subscribers: NewSubscribers(), Lane: "lock",
			Log: slog.New(slog.DiscardHandler),
		}
		if change != nil {
			change(&cfg)
		}
		m := NewMonitor(cfg)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { m.Run(ctx) })
		test(t, m, store)
		stop()
		wg.Wait()
	})
}

// watchUntil calls Stats every second, as a stream does, until ok returns true. It returns the time that took.
func watchUntil(t *testing.T, m *Monitor, most time.Duration, ok func(SaleStats, error) bool) time.Duration {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Second) {
		if ok(m.Stats(t.Context(), 7, begin)) {
			return time.Since(begin)
		}
		require.Less(t, time.Since(begin), most, "the condition did not become true")
	}
}

// A stock that cannot be read is shown for a short time only. Both readings are tried again at once, not after ten times the
// duration of a failed count.
func TestFailedReadIsRepeatedSoon(t *testing.T) {
	onMonitor(t, nil, func(t *testing.T, m *Monitor, store *monitorStore) {
		counted := func(s SaleStats, err error) bool { return err == nil && s.CheckedAt != nil }
		watchUntil(t, m, 10*time.Second, counted)
		store.set(hang)
		watchUntil(t, m, time.Minute, func(_ SaleStats, err error) bool { return err != nil })
		time.Sleep(countTimeout)
		store.set(nil)
		back := time.Now()
		watchUntil(t, m, 10*time.Second, func(s SaleStats, err error) bool {
			return counted(s, err) && s.CheckedAt.After(back)
		})
	})
}

func TestStockIsShownWhileRedisHangs(t *testing.T) {
	hanging := func(c *MonitorConfig) {
		c.Level = func(ctx context.Context, _ int64) (domain.GateLevel, error) { return domain.GateLevel{}, hang(ctx) }
		c.Lag = func(ctx context.Context) (QueueLag, error) { return QueueLag{}, hang(ctx) }
	}
	onMonitor(t, hanging, func(t *testing.T, m *Monitor, _ *monitorStore) {
		_, err := m.Stats(t.Context(), 7, time.Time{})
		require.NoError(t, err)
		for range 20 {
			s := env.Must(m.Stats(t.Context(), 7, time.Now()))(t)
			require.Nil(t, s.Stock.Gate)
			require.NotNil(t, m.levels()[7].Stock, "the current second has no stock")
			time.Sleep(time.Second)
		}
	})
}

// I5 is broken while the gate has fewer units than the database. Reservations in the queue are not missing units, and for a
// cold gate the invariant is unknown.
func TestGateBelongsToI5(t *testing.T) {
	var level atomic.Pointer[domain.GateLevel]
	withGate := func(c *MonitorConfig) {
		c.Level = func(context.Context, int64) (domain.GateLevel, error) {
			if l := level.Load(); l != nil {
				return *l, nil
			}
			return domain.GateLevel{}, domain.ErrGateCold
		}
	}
	onMonitor(t, withGate, func(t *testing.T, m *Monitor, _ *monitorStore) {
		for _, tc := range []struct {
			level *domain.GateLevel
			want  string
		}{
			{nil, "unknown"},
			{&domain.GateLevel{Stock: 5}, "true"},
			{&domain.GateLevel{Stock: 0}, "false"},
			{&domain.GateLevel{Stock: 0, Held: 5, Queued: 5, Backlog: 5}, "true"},
			{nil, "unknown"},
		} {
			level.Store(tc.level)
			time.Sleep(20 * time.Second)
			watchUntil(t, m, time.Minute, func(s SaleStats, err error) bool {
				got := "unknown"
				for _, i := range s.Invariants {
					if i.ID == "I5" && i.OK != nil {
						got = strconv.FormatBool(*i.OK)
					}
				}
				return err == nil && got == tc.want
			})
		}
	})
}

// reported is a history that keeps what was reported last about sale 9.
type reported struct {
	noHistory
	last atomic.Pointer[report]
}

func (h *reported) add(_ context.Context, reports map[int64]*report, _ time.Time) error {
	if r := reports[9]; r != nil {
		h.last.Store(r)
	}
	return nil
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
		require.EqualValues(t, 1, h.last.Load().counts.Settled["ok"])
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 90, *h.last.Load().level.Stock, "once more after the last purchase")
		require.Zero(t, h.last.Load().counts.Settled["ok"])
		require.Zero(t, store.counts, "nobody looks at the sale")
	})
}

func TestShownSalesAreBounded(t *testing.T) {
	onMonitor(t, nil, func(t *testing.T, m *Monitor, _ *monitorStore) {
		for range 2 {
			for id := range int64(maxMonitored) {
				env.Must(m.Stats(t.Context(), id+1, time.Now()))(t)
			}
			env.Fails(m.Stats(t.Context(), 1000, time.Now()))(t, domain.ErrOverloaded, "maxMonitored sales are shown")
		}
		time.Sleep(keptIdle + 2*time.Second)
		env.Must(m.Stats(t.Context(), 1000, time.Now()))(t)
	})
}

func TestMain(m *testing.M) {
	env.Main(m, func() error { return goleak.Find() })
}

func TestFigures(t *testing.T) {
	t.Parallel()
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
