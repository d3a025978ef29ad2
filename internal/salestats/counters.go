package salestats

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
)

var (
	// outcomeNames are the names of the outcomes of a purchase, in the order of their numbers.
	outcomeNames = [...]string{
		"ok", "sold_out", "duplicate_order", "sale_not_started", "sale_ended", "unpaid_limit", "entry_required", "order_in_progress", "rate_limited", "overloaded",
		"unavailable", "replayed", "invalid_request", "invalid_state", "idempotency_mismatch", "unauthenticated", "token_expired",
		"not_found", "internal",
	}
	// settledNames are the names of the ends of an admission, in the order of their counters.
	settledNames = [...]string{
		"ok", domain.ReasonSoldOut, domain.ReasonDuplicate, domain.ReasonMismatch, domain.ReasonPassUsed, domain.ReasonInternal, "dead_letter",
	}
)

// Outcome is the number of the outcome of a purchase. 0 is "ok".
type Outcome uint8

// OutcomeInternal is the outcome "internal", which stands for unknown ones too.
const OutcomeInternal = Outcome(len(outcomeNames) - 1)

// lastProvingExistence is "entry_required".
const lastProvingExistence = Outcome(6)

// provesExistence reports whether a request with an invented voucher ID cannot have this outcome.
func (o Outcome) provesExistence() bool { return o <= lastProvingExistence }

var outcomesByName = func() map[string]Outcome {
	m := make(map[string]Outcome, len(outcomeNames))
	for i, name := range outcomeNames {
		m[name] = Outcome(i) //nolint:gosec // a handful
	}
	return m
}()

// OutcomeOf returns the number of an error code of the API, or OutcomeInternal for an unknown code.
func OutcomeOf(code string) Outcome {
	if o, ok := outcomesByName[code]; ok {
		return o
	}
	return OutcomeInternal
}

// counts is what happened to a voucher in some time, on one process or on all.
type counts struct {
	answers       [len(outcomeNames)]uint64
	settled       [len(settledNames)]uint64
	batches, rows uint64
	latency       [latencyBuckets]uint64
}

func (c *counts) add(d *counts) {
	for i, n := range d.answers {
		c.answers[i] += n
	}
	for i, n := range d.settled {
		c.settled[i] += n
	}
	for i, n := range d.latency {
		c.latency[i] += n
	}
	c.batches += d.batches
	c.rows += d.rows
}

func (c *counts) second() Second {
	return Second{
		Answers: byName(outcomeNames[:], c.answers[:]), Settled: byName(settledNames[:], c.settled[:]),
		Batches: c.batches, Rows: c.rows, P50: c.quantile(0.5), P99: c.quantile(0.99),
	}
}

// quantile returns the latency that the given part of the responses did not exceed, or 0 if there were none.
func (c *counts) quantile(part float64) time.Duration {
	var all, seen uint64
	for _, n := range c.latency {
		all += n
	}
	for i, n := range c.latency {
		if seen += n; n > 0 && float64(seen) >= part*float64(all) {
			return latencyOf(i)
		}
	}
	return 0
}

// counterShards is the number of processors that can count at once without contention for a cache line.
const counterShards = 8

// counter counts what happens to a voucher on this process between two flushes. Counting takes no lock and does not
// allocate.
type counter struct{ shards [counterShards]counterShard }

type counterShard struct {
	dirty         atomic.Bool // there is something to flush
	answers       [len(outcomeNames)]atomic.Uint32
	settled       [len(settledNames)]atomic.Uint32
	batches, rows atomic.Uint32
	latency       [latencyBuckets]atomic.Uint32
	_             [64]byte // keeps two shards off one cache line
}

func (c *counter) shard() *counterShard {
	s := &c.shards[rand.Uint32()%counterShards] //nolint:gosec // any will do
	return s
}

// markDirty must be called after the increments, so that the next flush contains them.
func (s *counterShard) markDirty() {
	if !s.dirty.Load() {
		s.dirty.Store(true)
	}
}

func (c *counter) countAnswer(outcome Outcome, took time.Duration) {
	s := c.shard()
	s.answers[outcome].Add(1)
	s.latency[latencyBucket(took)].Add(1)
	s.markDirty()
}

// flush moves the counts since the last flush into total, and reports whether there were any.
func (c *counter) flush(total *counts) (found bool) {
	for i := range c.shards {
		s := &c.shards[i]
		if !s.dirty.Load() {
			continue
		}
		s.dirty.Store(false) // before the reads, so that a concurrent increment marks the shard again
		found = true
		flushAll(total.answers[:], s.answers[:])
		flushAll(total.settled[:], s.settled[:])
		flushAll(total.latency[:], s.latency[:])
		total.batches += uint64(s.batches.Swap(0))
		total.rows += uint64(s.rows.Swap(0))
	}
	return found
}

func flushAll(into []uint64, from []atomic.Uint32) {
	for i := range from {
		if from[i].Load() > 0 {
			into[i] += uint64(from[i].Swap(0))
		}
	}
}
