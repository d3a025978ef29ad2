package main

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error { return goleak.Find() })
}

// ranOnce returns a sample of n answers that took 1 ms each.
func ranOnce(subject string, n int, elapsed time.Duration) *sample {
	r := &result{answers: map[string]int64{created: int64(n)}, elapsed: elapsed}
	for range n {
		r.latency.add(time.Millisecond)
	}
	cpu := usage{server: time.Duration(n) * 5 * time.Microsecond, client: time.Duration(n) * 2 * time.Microsecond}
	return &sample{subject: subject, conns: 8, result: r, counts: int64(n), allocs: math.NaN(), batched: 12.5, cpu: cpu}
}

func TestRatiosCompareRunsOfOneRound(t *testing.T) {
	t.Parallel()
	s := &section{samples: []*sample{
		ranOnce("a", 100, time.Second), ranOnce("b", 200, time.Second),
		ranOnce("b", 100, 2*time.Second), ranOnce("a", 100, time.Second),
		ranOnce("a", 300, time.Second), ranOnce("b", 200, time.Second),
	}}
	assert.Equal(t, []float64{0.5, 2, 1.5}, s.ratios("a", "b"))
	assert.Equal(t, []float64{1, 1, 1}, s.costs("a", "b"))
	assert.Equal(t, []float64{1, 1, 1}, s.perCPU("a", "b"))
	assert.Empty(t, s.ratios("a", "unknown"))
}

func TestCostIsPerCountedAnswer(t *testing.T) {
	t.Parallel()
	m := ranOnce("a", 100, time.Second)
	m.counts = 50
	assert.InDelta(t, 50, m.rate(), 0)
	assert.InDelta(t, 14, m.perAnswer(m.cpu.all()), 0)
	m.shared = 200 // including the answers of another load
	assert.InDelta(t, 50, m.rate(), 0)
	assert.InDelta(t, 3.5, m.perAnswer(m.cpu.all()), 0)
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
		{bar{values: []float64{1}}, "", ""},
	} {
		assert.Equal(t, c.wanted, c.bar.wanted())
		assert.Equal(t, c.met, c.bar.verdict(), "%v", c.bar)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	queued := ranOnce("queue lane", 1000, 500*time.Millisecond)
	queued.queued, queued.backlog, queued.drained = true, 1234, 250*time.Millisecond
	r := report{
		options:  options{rounds: 3, seconds: 5 * time.Second, orders: 100_000},
		machine:  []fact{{"CPU", "slow"}},
		bars:     []bar{{what: "queue / other", values: []float64{1.5, 1.25, 2}, byCPU: []float64{1.4}, least: 1.3}, {what: "a / b", values: []float64{2}}},
		sections: []*section{{name: "queue", title: "The queue", samples: []*sample{queued}}, {title: "Broken", failed: errors.New("it failed")}},
	}
	text := r.markdown()
	for _, line := range []string{
		"| CPU | slow |",
		"| queue / other | 1.50 (1.25 – 2) | 1.40 | ≥ 1.30 | met |",
		"## Other ratios\n\n| what | ratio: median (min – max) | by CPU time | target | |\n|---|---|---|---|---|\n| a / b | 2 |  |  |  |",
		"| queue lane | 2,000 | 1 | 1 | 1 | 1 | 5 | 0 | 0 | 2 | 7 | – | 12.5 |",
		"queue lane: 1,234 orders were not committed at the last answer; all were committed 0.25 s later.",
		"| queue | queue lane | 8 | 1,000 | 0.50 | 2,000 | 1 | 1 | 7 | 1,234 | 0.25 |",
		"it failed",
	} {
		assert.Contains(t, text, line+"\n")
	}
	r.options.quick = true
	assert.NotContains(t, r.markdown(), "| met |", "a quick run has no verdicts")
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

func TestLockBars(t *testing.T) {
	t.Parallel()
	run := lockRun{
		"uncontended": {
			"two raw commands": {{Cycles: 100}, {Cycles: 200}}, "Mutex": {{Cycles: 150}, {Cycles: 100}},
			"redsync 4": {{Cycles: 50}, {Cycles: 200}}, "redislock 0": {{Cycles: 75}, {Cycles: 10}}, "rueidislock 1": {{Cycles: 900}, {Cycles: 900}},
		},
		"contended": {
			"Mutex": {{Cycles: 10, Requests: 2, P99: 5}, {Cycles: 20, Requests: 3, P99: 9}}, "Fair": {{Unfair: 1.1}, {Unfair: 1}},
			"redsync 4": {{Cycles: 5, P99: 10}, {Cycles: 10, P99: 3}}, "rueidislock 1": {{Cycles: 4, P99: 20}, {Cycles: 40, P99: 30}},
		},
	}
	var values [][]float64
	for _, b := range run.bars() {
		values = append(values, b.values)
	}
	assert.Equal(t, [][]float64{{1.5, 0.5}, {2, 0.5}, {2, 0.5}, {2, 3}, {0.5, 3}, {1.1, 1}}, values)
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	stat := "7 (a (b) c) S 1 7 7 0 -1 4194560 900 0 5 0 250 50 0 0 20 0 9 0 12345"
	assert.Equal(t, 3*time.Second, parseStat([]byte(stat)))
	assert.Zero(t, parseStat([]byte("7 (cut")))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, t.Output())
	require.NoError(t, err)
	assert.Equal(t, "loadtest/RESULTS.md", o.out)
	o, err = parseOptions([]string{"-quick", "-rounds", "2", "-seconds", "0.25", "-only", "lock,batch"}, t.Output())
	require.NoError(t, err)
	assert.Empty(t, o.out)
	assert.Equal(t, 2, o.rounds)
	assert.Equal(t, 250*time.Millisecond, o.seconds)
	assert.Equal(t, []string{"lock", "batch"}, o.only)
	for _, args := range [][]string{{"-only", "nothing"}, {"-lanes", ""}, {"-lanes", "fast"}, {"-rounds", "0"}, {"more"}} {
		_, err := parseOptions(args, t.Output())
		require.Error(t, err, args)
	}
}
