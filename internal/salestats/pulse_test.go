package salestats

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/service"

	"github.com/stretchr/testify/require"
)

func nothingLeft(int64) PulseLevel { return PulseLevel{} }

// TestPulseAddsUp: what two processes count while they tell each other, all of it is in the totals of both, and the seconds
// add up to them.
func TestPulseAddsUp(t *testing.T) {
	a, b := NewPulse("a", true), NewPulse("b", true)
	const workers, each = 8, 5000
	var wg sync.WaitGroup
	for w := range workers {
		p := []*Pulse{a, b}[w%2]
		wg.Go(func() {
			for i := range each {
				p.Answered(7, PulseAnswer(i%2), time.Millisecond)
				p.Settled(7, service.ReasonDuplicate)
				p.Batch(7, 3)
			}
		})
	}
	now, counted := time.Now(), false
	beat := func() {
		for _, p := range []*Pulse{a, b} {
			other := a
			if p == a {
				other = b
			}
			if m := p.Take(now); m != nil {
				p.Hear(m, now) // Redis sends it to both
				other.Hear(m, now)
				counted = true
			}
		}
		if !counted { // time that passes without an answer makes the sale idle
			return
		}
		now, counted = now.Add(time.Second), false
		a.Close(now, nothingLeft)
		b.Close(now, nothingLeft)
	}
	stop := make(chan struct{})
	go func() { wg.Wait(); close(stop) }()
	for counting := true; counting; {
		select {
		case <-stop:
			counting = false
		default:
		}
		beat()
	}
	beat()
	for _, p := range []*Pulse{a, b} {
		total, seconds := p.Show(7, time.Time{}, now)
		require.Equal(t, map[string]uint64{"ok": workers * each / 2, "sold_out": workers * each / 2}, total.Answers)
		require.Equal(t, map[string]uint64{"ok": workers * each / 2, "duplicate_order": workers * each}, total.Settled)
		require.EqualValues(t, workers*each, total.Batches)
		require.EqualValues(t, 3*workers*each, total.Rows)
		if len(seconds) < pulseSeconds {
			var sum uint64
			for _, s := range seconds {
				sum += s.Answers["ok"]
			}
			require.EqualValues(t, workers*each/2, sum)
		}
		require.Equal(t, 2, p.Instances())
	}
}

// TestPulseSeconds: all whole seconds are there once, also those in which nothing happened or nobody looked, and no more than
// two minutes.
func TestPulseSeconds(t *testing.T) {
	p := NewPulse("a", false)
	p.Answered(7, 0, time.Millisecond)
	total, _ := p.Show(7, time.Time{}, time.Now())
	now := total.At.Add(2500 * time.Millisecond)
	p.Take(now)
	left := int64(5)
	p.Close(now, func(int64) PulseLevel { return PulseLevel{Stock: &left} })
	_, seconds := p.Show(7, time.Time{}, now)
	require.GreaterOrEqual(t, len(seconds), 2)
	last := seconds[len(seconds)-1]
	require.Equal(t, now.Unix()-1, last.At.Unix())
	require.Equal(t, map[string]uint64{"ok": 1}, last.Answers)
	require.Empty(t, last.Settled, "an admission is no order")
	require.Equal(t, &left, last.Level.Stock)
	require.Empty(t, seconds[0].Answers)

	p.Close(now, nothingLeft)
	p.Close(now.Add(-time.Minute), nothingLeft) // the clock went back
	_, again := p.Show(7, time.Time{}, now)
	require.Equal(t, seconds, again)
	now = now.Add(time.Hour / 4)
	p.Close(now, nothingLeft)
	_, seconds = p.Show(7, time.Time{}, now)
	require.Len(t, seconds, pulseSeconds)
	for i, s := range seconds {
		require.Equal(t, now.Unix()-pulseSeconds+int64(i), s.At.Unix())
	}
	_, some := p.Show(7, seconds[100].At, now)
	require.Equal(t, seconds[101:], some)
	_, some = p.Show(7, now, now)
	require.Empty(t, some)
}

// TestPulseIsBounded: whoever makes ids up makes us remember nothing, and of those that exist the idle ones yield.
func TestPulseIsBounded(t *testing.T) {
	p := NewPulse("a", true)
	for _, code := range []string{"not_found", "rate_limited", "unavailable", "invalid_request", "unauthenticated", "overloaded", "what?"} {
		p.Answered(7, PulseAnswerOf(code), 0)
	}
	require.Empty(t, p.sales)
	for id := range int64(2 * maxPulses) {
		p.Answered(id, PulseAnswerOf("sold_out"), 0)
	}
	require.Len(t, p.sales, maxPulses)
	require.Len(t, *p.tallies.Load(), maxPulses)
	for _, h := range p.sales {
		h.used = h.used.Add(-2 * pulseYield)
	}
	p.Answered(9999, PulseAnswerOf("ok"), 0)
	require.NotContains(t, p.sales, int64(9999), "within a second nobody asks again whether there is room")
	p.fullUntil.Store(0) // as a second later
	p.Answered(9999, PulseAnswerOf("ok"), 0)
	require.Contains(t, p.sales, int64(9999))
	require.Len(t, p.sales, maxPulses)
	p.Close(time.Now().Add(2*pulseIdle), nothingLeft)
	require.Empty(t, p.sales)
	require.Empty(t, *p.tallies.Load())
}

// TestPulseKnowsWhoIsThere: who has nothing to tell says so now and then, and who is silent is gone.
func TestPulseKnowsWhoIsThere(t *testing.T) {
	now := time.Now()
	a, b := NewPulse("a", true), NewPulse("b", true)
	hello := a.Take(now)
	require.NotNil(t, hello)
	require.Nil(t, a.Take(now.Add(time.Second)), "there is nothing to say")
	require.NotNil(t, b.Take(now))
	b.Hear(hello, now)
	require.Equal(t, 2, b.Instances())
	require.NotNil(t, b.Take(now), "whoever is new is greeted at once")
	b.Hear([]byte("no message"), now)
	b.Hear(hello, now.Add(pulseGone/2))
	b.Close(now.Add(pulseGone+time.Second), nothingLeft)
	require.Equal(t, 2, b.Instances())
	b.Close(now.Add(2*pulseGone), nothingLeft)
	require.Equal(t, 1, b.Instances())
}

// TestPulseQuantiles are within 10 % of the truth, whatever the latencies.
func TestPulseQuantiles(t *testing.T) {
	for name, latency := range map[string]func() time.Duration{
		"even":   func() time.Duration { return time.Duration(rand.N(int64(2 * time.Second))) },
		"narrow": func() time.Duration { return 3*time.Millisecond + time.Duration(rand.N(int64(100*time.Microsecond))) },
		"far":    func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(40*time.Millisecond)) },
		"few":    func() time.Duration { return []time.Duration{time.Millisecond, time.Second}[rand.N(2)] },
	} {
		var counts pulseCounts
		all := make([]time.Duration, 20_001)
		for i := range all {
			all[i] = latency()
			counts.latency[latencyBucket(all[i])]++
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.99} {
			want := all[int(q*float64(len(all)))]
			require.InEpsilon(t, want, counts.quantile(q), 0.1, "%s %v", name, q)
		}
	}
	for d := 33 * time.Microsecond; d < 16*time.Second; d += d / 50 {
		require.InEpsilon(t, d, latencyOf(latencyBucket(d)), 0.07, d.String())
	}
	require.Equal(t, latencyBuckets-1, latencyBucket(time.Hour))
	require.Zero(t, latencyBucket(-1))
	require.Zero(t, (&pulseCounts{}).quantile(0.5))
}

// TestPulseNames: a code of the API has a number of its own.
func TestPulseNames(t *testing.T) {
	for i, name := range answerNames {
		require.Equal(t, PulseAnswer(i), PulseAnswerOf(name)) //nolint:gosec // a handful
	}
	require.Equal(t, AnswerInternal, PulseAnswerOf("unheard of"))
	require.Equal(t, "sale_ended", answerNames[lastKnowing])
}

// BenchmarkPulseAnswered is what counting adds to an answer, on all processors at once, for one voucher or for some.
func BenchmarkPulseAnswered(b *testing.B) {
	for _, vouchers := range []int64{1, 64} {
		b.Run(fmt.Sprint(vouchers), func(b *testing.B) {
			p := NewPulse("a", true)
			var n atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := n.Add(1); pb.Next(); i++ {
					p.Answered(i%vouchers+1, PulseAnswer(i&1), time.Duration(i%4096)*time.Microsecond) //nolint:gosec // 0 or 1
				}
			})
		})
	}
}
