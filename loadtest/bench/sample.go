package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// sample is one measured run of a subject.
type sample struct {
	subject string
	*result
	// Answers that the rate counts: all, or only the stored orders.
	counts int64
	cpu    usage
	// Answers of all loads, if others ran at the same time; else 0.
	shared int64
	// Go allocations of the servers per answer; NaN if unknown.
	allocs float64
	// Mean number of orders per group commit; NaN if unknown.
	batched float64

	// Accepted orders that were not committed at the last answer.
	backlog int64
	// Time from the last answer until all were committed; 0 if the answers came after the commits.
	drained time.Duration
}

// usage is user and system CPU time by process.
type usage struct {
	server   time.Duration
	database time.Duration
	redis    time.Duration
	client   time.Duration
}

func (u usage) minus(v usage) usage {
	return usage{
		server:   u.server - v.server,
		database: u.database - v.database,
		redis:    u.redis - v.redis,
		client:   u.client - v.client,
	}
}

func (u usage) system() time.Duration { return u.server + u.database + u.redis }

func (m *sample) rate() float64 { return float64(m.counts) / m.elapsed.Seconds() }

// allCPU returns the CPU time of all processes per answer in microseconds.
func (m *sample) allCPU() float64 { return m.perAnswer(m.cpu.system() + m.cpu.client) }

func (m *sample) systemCPU() float64 { return m.perAnswer(m.cpu.system()) }

func (m *sample) perAnswer(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(cmp.Or(m.shared, m.counts))
}

// millis returns a percentile of the latency in milliseconds, or NaN if it was not measured.
func (m *sample) millis(p float64) float64 {
	if m.total() == 0 {
		return math.NaN()
	}
	return float64(m.percentile(p).Microseconds()) / 1000
}

func (m *sample) p99() float64 { return m.millis(99) }

// String returns the sample as a line of progress output.
func (m *sample) String() string {
	text := fmt.Sprintf("%9s/s  CPU %5s µs", short(m.rate()), short(m.allCPU()))
	if m.total() > 0 {
		text += fmt.Sprintf("  p50 %s ms  p99 %s ms  max %s ms", short(m.millis(50)), short(m.millis(99)), short(m.millis(100)))
	}
	if m.drained > 0 {
		text += fmt.Sprintf("  backlog %s, drained after %s s", thousands(m.backlog), short(m.drained.Seconds()))
	}

	return text
}

// median returns the median, which is the mean of the two middle values if their number is even, or NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}

	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func spread(values []float64) string {
	middle := short(median(values))
	if len(values) < 2 {
		return middle
	}

	return fmt.Sprintf("%s (%s – %s)", middle, short(slices.Min(values)), short(slices.Max(values)))
}

// short formats a number with about three digits, and whole or large numbers in full with thousands separators.
func short(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000 || v == math.Trunc(v):
		return thousands(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}

	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func quotients(a, b []float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for i := range q {
		q[i] = a[i] / b[i]
	}

	return q
}
