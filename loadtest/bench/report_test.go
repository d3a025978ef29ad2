package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// ranOnce returns a sample of n answers that took 1 ms each.
func ranOnce(subject string, n int, elapsed time.Duration) *sample {
	r := &result{answers: map[string]int64{"201": int64(n)}, elapsed: elapsed}
	r.latencies = slices.Repeat([]time.Duration{time.Millisecond}, n)
	cpu := usage{server: time.Duration(n) * 5 * time.Microsecond, client: time.Duration(n) * 2 * time.Microsecond}
	return &sample{subject: subject, result: r, counts: int64(n), allocs: math.NaN(), batched: 12.5, cpu: cpu}
}

func TestRatiosCompareRunsOfOneRound(t *testing.T) {
	t.Parallel()
	s := &section{samples: []*sample{
		ranOnce("a", 100, time.Second), ranOnce("b", 200, time.Second),
		ranOnce("b", 100, 2*time.Second), ranOnce("a", 100, time.Second),
		ranOnce("a", 300, time.Second), ranOnce("b", 200, time.Second),
	}}
	assert.Equal(t, []float64{0.5, 2, 1.5}, s.ratios("a", "b", (*sample).rate))
	assert.Equal(t, []float64{1, 1, 1}, s.ratios("a", "b", (*sample).systemCPU))
	assert.Equal(t, []float64{1, 1, 1}, s.ratios("a", "b", (*sample).allCPU))
	assert.Empty(t, s.ratios("a", "unknown", (*sample).rate))
}

func TestCostIsPerCountedAnswer(t *testing.T) {
	t.Parallel()
	m := ranOnce("a", 100, time.Second)
	m.counts = 50
	assert.InDelta(t, 50, m.rate(), 0)
	assert.InDelta(t, 14, m.allCPU(), 0)
	m.shared = 200 // including the answers of another load
	assert.InDelta(t, 50, m.rate(), 0)
	assert.InDelta(t, 3.5, m.allCPU(), 0)
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bar    bar
		wanted string
		met    string
	}{
		{bar{values: []float64{0.4, 0.45, 9}, least: 0.45}, "≥ 0.45", "met"},
		{bar{values: []float64{0.44}, least: 0.45}, "≥ 0.45", "**missed**"},
		{bar{values: []float64{1.2}, most: 1.2}, "≤ 1.20", "met"},
		{bar{values: []float64{1.1, 1.3, 1.3}, most: 1.2}, "≤ 1.20", "**missed**"},
		{bar{least: 6}, "≥ 6", "not measured"},
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
	assert.Equal(t, "123", short(123.4))
	assert.Equal(t, "12.3", short(12.34))
}
