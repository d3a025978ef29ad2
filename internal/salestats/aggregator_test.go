package salestats

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func noLevel(int64) Level { return Level{} }

// TestSecondsAndProcessesAddUp counts on two processes that exchange messages. The totals of both contain all counts,
// and the seconds add up to them.
func TestSecondsAndProcessesAddUp(t *testing.T) {
	a, b := NewAggregator("a", true), NewAggregator("b", true)
	const workers, each = 8, 5000
	var wg sync.WaitGroup
	for w := range workers {
		p := []*Aggregator{a, b}[w%2]
		wg.Go(func() {
			for i := range each {
				p.CountAnswer(7, Outcome(i%2), time.Millisecond)
				p.CountSettled(7, domain.ReasonDuplicate)
				p.CountBatch(7, 3)
			}
		})
	}
	now, counted := time.Now(), false
	tick := func() {
		for _, p := range []*Aggregator{a, b} {
			other := a
			if p == a {
				other = b
			}
			if m := p.flush(now); m != nil {
				p.Merge(m, now) // Redis delivers it to both
				other.Merge(m, now)
				counted = true
			}
		}
		if !counted { // the clock advances with counts only, or the sale would become idle
			return
		}
		now, counted = now.Add(time.Second), false
		a.rotate(now, noLevel)
		b.rotate(now, noLevel)
	}
	stop := make(chan struct{})
	go func() { wg.Wait(); close(stop) }()
	for counting := true; counting; {
		select {
		case <-stop:
			counting = false
		default:
		}
		tick()
	}
	tick()
	for _, p := range []*Aggregator{a, b} {
		total, seconds := p.read(7, time.Time{}, now)
		require.Equal(t, map[string]uint64{"ok": workers * each / 2, "sold_out": workers * each / 2}, total.Answers)
		require.Equal(t, map[string]uint64{"ok": workers * each / 2, "duplicate_order": workers * each}, total.Settled)
		require.EqualValues(t, workers*each, total.Batches)
		require.EqualValues(t, 3*workers*each, total.Rows)
		if len(seconds) < historySeconds {
			var sum uint64
			for _, s := range seconds {
				sum += s.Answers["ok"]
			}
			require.EqualValues(t, workers*each/2, sum)
		}
		require.Equal(t, 2, p.instances())
	}
}

// TestHistoryHasEachSecondOnce, even seconds without counts or without a call of rotate, and the last two minutes only.
func TestHistoryHasEachSecondOnce(t *testing.T) {
	p := NewAggregator("a", false)
	p.CountAnswer(7, 0, time.Millisecond)
	total, _ := p.read(7, time.Time{}, time.Now())
	now := total.At.Add(2500 * time.Millisecond)
	p.flush(now)
	left := int64(5)
	p.rotate(now, func(int64) Level { return Level{Stock: &left} })
	_, seconds := p.read(7, time.Time{}, now)
	require.GreaterOrEqual(t, len(seconds), 2)
	last := seconds[len(seconds)-1]
	require.Equal(t, now.Unix()-1, last.At.Unix())
	require.Equal(t, map[string]uint64{"ok": 1}, last.Answers)
	require.Empty(t, last.Settled, "an admission is not a stored order")
	require.Equal(t, &left, last.Level.Stock)
	require.Empty(t, seconds[0].Answers)

	p.rotate(now, noLevel)
	p.rotate(now.Add(-time.Minute), noLevel) // the clock was set back
	_, again := p.read(7, time.Time{}, now)
	require.Equal(t, seconds, again)
	now = now.Add(time.Hour / 4)
	p.rotate(now, noLevel)
	_, seconds = p.read(7, time.Time{}, now)
	require.Len(t, seconds, historySeconds)
	for i, s := range seconds {
		require.Equal(t, now.Unix()-historySeconds+int64(i), s.At.Unix())
	}
	_, some := p.read(7, seconds[100].At, now)
	require.Equal(t, seconds[101:], some)
	_, some = p.read(7, now, now)
	require.Empty(t, some)
}

// TestTrackedVouchersAreBounded: invented IDs are not tracked, and idle vouchers are evicted.
func TestTrackedVouchersAreBounded(t *testing.T) {
	p := NewAggregator("a", true)
	for _, code := range []string{"not_found", "rate_limited", "unavailable", "invalid_request", "unauthenticated", "overloaded", "unknown"} {
		p.CountAnswer(7, OutcomeOf(code), 0)
	}
	require.Empty(t, p.sales)
	for id := range int64(2 * maxSales) {
		p.CountAnswer(id, OutcomeOf("sold_out"), 0)
	}
	require.Len(t, p.sales, maxSales)
	require.Len(t, *p.counters.Load(), maxSales)
	for _, h := range p.sales {
		h.used = h.used.Add(-2 * evictableAfter)
	}
	p.CountAnswer(9999, OutcomeOf("ok"), 0)
	require.NotContains(t, p.sales, int64(9999), "eviction was tried less than a second ago")
	p.fullUntil.Store(0) // as if a second had passed
	p.CountAnswer(9999, OutcomeOf("ok"), 0)
	require.Contains(t, p.sales, int64(9999))
	require.Len(t, p.sales, maxSales)
	p.rotate(time.Now().Add(2*idleTimeout), noLevel)
	require.Empty(t, p.sales)
	require.Empty(t, *p.counters.Load())
}

// TestInstancesAreCountedByMessages: a process without counts sends empty messages, and one without messages is
// dropped.
func TestInstancesAreCountedByMessages(t *testing.T) {
	now := time.Now()
	a, b := NewAggregator("a", true), NewAggregator("b", true)
	hello := a.flush(now)
	require.NotNil(t, hello)
	require.Nil(t, a.flush(now.Add(time.Second)), "a message without counts before helloInterval")
	require.NotNil(t, b.flush(now))
	b.Merge(hello, now)
	require.Equal(t, 2, b.instances())
	require.NotNil(t, b.flush(now), "a new process must receive a message at once")
	b.Merge([]byte("not a message"), now)
	b.Merge(hello, now.Add(instanceTimeout/2))
	b.rotate(now.Add(instanceTimeout+time.Second), noLevel)
	require.Equal(t, 2, b.instances())
	b.rotate(now.Add(2*instanceTimeout), noLevel)
	require.Equal(t, 1, b.instances())
}

// TestQuantilesAreWithinTenPercent for several distributions of latencies.
func TestQuantilesAreWithinTenPercent(t *testing.T) {
	for name, latency := range map[string]func() time.Duration{
		"even":   func() time.Duration { return time.Duration(rand.N(int64(2 * time.Second))) },
		"narrow": func() time.Duration { return 3*time.Millisecond + time.Duration(rand.N(int64(100*time.Microsecond))) },
		"far":    func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(40*time.Millisecond)) },
		"few":    func() time.Duration { return []time.Duration{time.Millisecond, time.Second}[rand.N(2)] },
	} {
		var c counts
		all := make([]time.Duration, 20_001)
		for i := range all {
			all[i] = latency()
			c.latency[latencyBucket(all[i])]++
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.99} {
			want := all[int(q*float64(len(all)))]
			require.InEpsilon(t, want, c.quantile(q), 0.1, "%s %v", name, q)
		}
	}
	for d := 33 * time.Microsecond; d < 16*time.Second; d += d / 50 {
		require.InEpsilon(t, d, latencyOf(latencyBucket(d)), 0.07, d.String())
	}
	require.Equal(t, latencyBuckets-1, latencyBucket(time.Hour))
	require.Zero(t, latencyBucket(-1))
	require.Zero(t, (&counts{}).quantile(0.5))
}

func TestEachOutcomeHasItsNumber(t *testing.T) {
	for i, name := range outcomeNames {
		require.Equal(t, Outcome(i), OutcomeOf(name)) //nolint:gosec // a handful
	}
	require.Equal(t, OutcomeInternal, OutcomeOf("unknown"))
	require.Equal(t, "entry_required", outcomeNames[lastProvingExistence])
}

// BenchmarkAnswered measures the cost of counting one response, on all processors at once, for one voucher or several.
func BenchmarkAnswered(b *testing.B) {
	for _, vouchers := range []int64{1, 64} {
		b.Run(fmt.Sprint(vouchers), func(b *testing.B) {
			p := NewAggregator("a", true)
			var n atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := n.Add(1); pb.Next(); i++ {
					p.CountAnswer(i%vouchers+1, Outcome(i&1), time.Duration(i%4096)*time.Microsecond) //nolint:gosec // 0 or 1
				}
			})
		})
	}
}
