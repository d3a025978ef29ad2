package report

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"seckill/loadtest/bench/loadgen"
)

// ranOnce returns a sample of n answers that took 1 ms each.
func ranOnce(subject string, n int, elapsed time.Duration) *Sample {
	r := &loadgen.Result{Answers: map[string]int64{"201": int64(n)}, Elapsed: elapsed}
	for range n {
		r.Latency.Add(time.Millisecond)
	}
	cpu := Usage{Server: time.Duration(n) * 5 * time.Microsecond, Client: time.Duration(n) * 2 * time.Microsecond}
	return &Sample{Subject: subject, Conns: 8, Result: r, Counts: int64(n), Allocs: math.NaN(), Batched: 12.5, CPU: cpu}
}

func TestRatiosCompareRunsOfOneRound(t *testing.T) {
	t.Parallel()
	s := &Section{Samples: []*Sample{
		ranOnce("a", 100, time.Second), ranOnce("b", 200, time.Second),
		ranOnce("b", 100, 2*time.Second), ranOnce("a", 100, time.Second),
		ranOnce("a", 300, time.Second), ranOnce("b", 200, time.Second),
	}}
	assert.Equal(t, []float64{0.5, 2, 1.5}, s.Ratios("a", "b", (*Sample).Rate))
	assert.Equal(t, []float64{1, 1, 1}, s.Ratios("a", "b", (*Sample).systemCPU))
	assert.Equal(t, []float64{1, 1, 1}, s.Ratios("a", "b", (*Sample).AllCPU))
	assert.Empty(t, s.Ratios("a", "unknown", (*Sample).Rate))
}

func TestCostIsPerCountedAnswer(t *testing.T) {
	t.Parallel()
	m := ranOnce("a", 100, time.Second)
	m.Counts = 50
	assert.InDelta(t, 50, m.Rate(), 0)
	assert.InDelta(t, 14, m.AllCPU(), 0)
	m.Shared = 200 // including the answers of another load
	assert.InDelta(t, 50, m.Rate(), 0)
	assert.InDelta(t, 3.5, m.AllCPU(), 0)
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bar    Bar
		wanted string
		met    string
	}{
		{Bar{Values: []float64{0.4, 0.45, 9}, Least: 0.45}, "≥ 0.45", "met"},
		{Bar{Values: []float64{0.44}, Least: 0.45}, "≥ 0.45", "**missed**"},
		{Bar{Values: []float64{1.2}, Most: 1.2}, "≤ 1.20", "met"},
		{Bar{Values: []float64{1.1, 1.3, 1.3}, Most: 1.2}, "≤ 1.20", "**missed**"},
		{Bar{Least: 6}, "≥ 6", "not measured"},
	} {
		assert.Equal(t, c.wanted, c.bar.wanted())
		assert.Equal(t, c.met, c.bar.verdict(), "%v", c.bar)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	assert.InDelta(t, 2.0, median([]float64{3, 1, 2}), 0)
	assert.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	assert.True(t, math.IsNaN(median(nil)))
	assert.Equal(t, "–", spread(nil))
	assert.Equal(t, "1.50", spread([]float64{1.5}))
	assert.Equal(t, "1,234,567", short(1234567.2))
	assert.Equal(t, "-1,004", short(-1004))
	assert.Equal(t, "123", short(123.4))
	assert.Equal(t, "12.3", short(12.34))
}
