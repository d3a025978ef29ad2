package report

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"seckill/loadtest/bench/loadgen"
)

// Sample is one measured run of a subject.
type Sample struct {
	Subject string
	Conns   int
	*loadgen.Result
	// Answers that the rate counts: all, or only the stored orders.
	Counts int64
	CPU    Usage
	// Answers of all loads, if others ran at the same time; else 0.
	Shared int64
	// Go allocations of the servers per answer; NaN if unknown.
	Allocs float64
	// Mean number of orders per group commit; NaN if unknown.
	Batched float64

	// The answers came before the commits.
	Queued bool
	// Accepted orders that were not committed at the last answer.
	Backlog int64
	// Time from the last answer until all were committed.
	Drained time.Duration
}

// rate returns the counted answers per second.
func (m *Sample) rate() float64 { return float64(m.Counts) / m.Elapsed.Seconds() }

// Usage is user and system CPU time by process.
type Usage struct {
	Server, Database, Redis, Client time.Duration
}

// Minus returns the difference of two usages.
func (u Usage) Minus(v Usage) Usage {
	return Usage{u.Server - v.Server, u.Database - v.Database, u.Redis - v.Redis, u.Client - v.Client}
}

// system returns the CPU time without the client's.
func (u Usage) system() time.Duration { return u.Server + u.Database + u.Redis }

// all returns the CPU time of all processes.
func (u Usage) all() time.Duration { return u.system() + u.Client }

// perAnswer returns the CPU time per answer in microseconds.
func (m *Sample) perAnswer(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(cmp.Or(m.Shared, m.Counts))
}

// String returns the sample as a line of progress output.
func (m *Sample) String() string {
	text := fmt.Sprintf("%9s/s  CPU %5s µs", short(m.rate()), short(m.perAnswer(m.CPU.all())))
	if m.Total() > 0 {
		text += fmt.Sprintf("  p50 %-8v p95 %-8v p99 %-8v max %v",
			brief(m.Latency.Percentile(50)), brief(m.Latency.Percentile(95)), brief(m.Latency.Percentile(99)), brief(m.Latency.Percentile(100)))
	}
	if m.Queued {
		text += fmt.Sprintf("  backlog %s, drained after %v", Thousands(m.Backlog), brief(m.Drained))
	}
	return text
}

func brief(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// millis returns a percentile of the latency in milliseconds, or NaN if it was not measured.
func (m *Sample) millis(percentile float64) float64 {
	if m.Total() == 0 {
		return math.NaN()
	}
	return float64(m.Latency.Percentile(percentile).Microseconds()) / 1000
}
