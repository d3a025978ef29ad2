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

// Rate returns the counted answers per second.
func (m *Sample) Rate() float64 { return float64(m.Counts) / m.Elapsed.Seconds() }

// P99 returns the 99th percentile of the latency in seconds.
func (m *Sample) P99() float64 { return m.Latency.Percentile(99).Seconds() }

// AllCPU returns the CPU time of all processes per answer in microseconds.
func (m *Sample) AllCPU() float64 { return m.perAnswer(m.CPU.all()) }

// systemCPU returns the CPU time per answer in microseconds, without the client's.
func (m *Sample) systemCPU() float64 { return m.perAnswer(m.CPU.all() - m.CPU.Client) }

// Usage is user and system CPU time by process.
type Usage struct {
	Server   time.Duration
	Database time.Duration
	Redis    time.Duration
	Client   time.Duration
}

// Minus returns the difference of two usages.
func (u Usage) Minus(v Usage) Usage {
	return Usage{
		Server:   u.Server - v.Server,
		Database: u.Database - v.Database,
		Redis:    u.Redis - v.Redis,
		Client:   u.Client - v.Client,
	}
}

func (u Usage) all() time.Duration { return u.Server + u.Database + u.Redis + u.Client }

func (m *Sample) perAnswer(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(cmp.Or(m.Shared, m.Counts))
}

// String returns the sample as a line of progress output.
func (m *Sample) String() string {
	text := fmt.Sprintf("%9s/s  CPU %5s µs", short(m.Rate()), short(m.AllCPU()))
	if m.Total() > 0 {
		text += fmt.Sprintf("  p50 %s ms  p99 %s ms  max %s ms", short(m.millis(50)), short(m.millis(99)), short(m.millis(100)))
	}
	if m.Queued {
		text += fmt.Sprintf("  backlog %s, drained after %s s", Thousands(m.Backlog), short(m.Drained.Seconds()))
	}

	return text
}

// millis returns a percentile of the latency in milliseconds, or NaN if it was not measured.
func (m *Sample) millis(percentile float64) float64 {
	if m.Total() == 0 {
		return math.NaN()
	}

	return float64(m.Latency.Percentile(percentile).Microseconds()) / 1000
}
