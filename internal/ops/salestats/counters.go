// Package salestats provides live statistics of sales over all server processes, and notifies subscribers of changes.
package salestats

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/internal/domain"
)

const (
	// maxSales bounds the vouchers that are counted, at 1.5 KiB each.
	maxSales = 256
	// uncountedAfter is the time after the last count at which a voucher is no longer counted, so that another one can be.
	uncountedAfter = time.Minute
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

// provesExistence reports whether a request with an invented voucher ID cannot have this outcome.
func (o Outcome) provesExistence() bool {
	switch outcomeNames[o] {
	case "ok", "sold_out", "duplicate_order", "sale_not_started", "sale_ended", "unpaid_limit", "entry_required":
		return true
	}
	return false
}

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

// Counters count what happens to the sales on this process. A voucher is counted only after an answer that proves that it
// exists, so invented IDs do not use memory. Counters are safe for concurrent use.
type Counters struct {
	stored bool

	mu    sync.Mutex
	sales map[int64]*counted
}

// counted are the counts of a voucher since they were last taken.
type counted struct {
	counts

	// When there were counts.
	last time.Time
}

// NewCounters returns counters. stored reports that an answer "ok" stands for a stored order, which is the case in every
// lane but queue.
func NewCounters(stored bool) *Counters {
	return &Counters{stored: stored, sales: map[int64]*counted{}}
}

// CountAnswer counts one answer to a buyer and its latency.
func (c *Counters) CountAnswer(voucherID int64, outcome Outcome, took time.Duration) {
	c.count(voucherID, outcome.provesExistence(), func(n *counts) {
		n.answers[outcome]++
		n.latency[latencyBucket(took)]++
		if c.stored && outcome == 0 {
			n.settled[0]++
		}
	})
}

// CountSettled counts a settled admission. reason is empty for a stored order, else the reason why there is none.
// Unknown reasons are not counted.
func (c *Counters) CountSettled(voucherID int64, reason string) {
	if reason == "" {
		reason = "ok"
	}
	i := slices.Index(settledNames[:], reason)
	if i < 0 {
		return
	}
	c.count(voucherID, true, func(n *counts) { n.settled[i]++ })
}

// CountBatch counts a transaction that committed rows orders of a voucher. A transaction that committed none is not
// counted.
func (c *Counters) CountBatch(voucherID int64, rows int) {
	if rows == 0 {
		return
	}
	c.count(voucherID, true, func(n *counts) {
		n.batches++
		n.rows += uint64(rows) //nolint:gosec // hundreds
	})
}

func (c *Counters) count(voucherID int64, exists bool, add func(*counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()

	n := c.sales[voucherID]
	if n == nil {
		if !exists || len(c.sales) >= maxSales {
			return
		}
		n = &counted{}
		c.sales[voucherID] = n
	}

	add(&n.counts)
}

// take returns the counts since the last call, by voucher.
func (c *Counters) take(now time.Time) map[int64]*counts {
	c.mu.Lock()
	defer c.mu.Unlock()

	taken := map[int64]*counts{}
	for id, n := range c.sales {
		switch {
		case n.counts != (counts{}):
			all := n.counts
			taken[id] = &all
			*n = counted{last: now}
		case now.Sub(n.last) > uncountedAfter:
			delete(c.sales, id)
		}
	}

	return taken
}

// counts is what happened to a voucher in some time, on one process or on all.
type counts struct {
	answers       [len(outcomeNames)]uint64
	settled       [len(settledNames)]uint64
	batches, rows uint64
	latency       [latencyBuckets]uint64
}

// The names of counts in Redis. Those of answers, settled admissions and latencies have a suffix.
const (
	answersPrefix = "answer:"
	settledPrefix = "settled:"
	latencyPrefix = "latency:"
	batchesName   = "batches"
	rowsName      = "rows"
)

// each calls f for each positive count, with its name in Redis.
func (c *counts) each(f func(name string, n uint64)) {
	add := func(name string, n uint64) {
		if n > 0 {
			f(name, n)
		}
	}

	for i, n := range c.answers {
		add(answersPrefix+outcomeNames[i], n)
	}

	for i, n := range c.settled {
		add(settledPrefix+settledNames[i], n)
	}

	for i, n := range c.latency {
		add(latencyPrefix+strconv.Itoa(i), n)
	}

	add(batchesName, c.batches)
	add(rowsName, c.rows)
}

// add adds a count with a name in Redis. It ignores names that this version does not have.
func (c *counts) add(name, value string) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return
	}

	switch name {
	case batchesName:
		c.batches += n
		return
	case rowsName:
		c.rows += n
		return
	}

	if answer, found := strings.CutPrefix(name, answersPrefix); found {
		if i := slices.Index(outcomeNames[:], answer); i >= 0 {
			c.answers[i] += n
		}
	}

	if reason, found := strings.CutPrefix(name, settledPrefix); found {
		if i := slices.Index(settledNames[:], reason); i >= 0 {
			c.settled[i] += n
		}
	}

	if bucket, found := strings.CutPrefix(name, latencyPrefix); found {
		if i, err := strconv.Atoi(bucket); err == nil && i >= 0 && i < latencyBuckets {
			c.latency[i] += n
		}
	}
}

// Totals is what happened to a voucher since a time.
type Totals struct {
	Since time.Time `json:"since"`
	Counts
}

// Second is what happened to a voucher in one second.
type Second struct {
	At time.Time `json:"at"`
	Counts
	Level
}

// Period is what happened to a voucher in some seconds.
type Period struct {
	At time.Time `json:"at"` // its beginning
	// Committed orders.
	Orders int64 `json:"orders"`
	// Requests, and queued orders, that got none.
	Refused int64 `json:"refused"`
	// Units left in the database at its end; nil if that is not known.
	Stock *int64 `json:"stock"`
}

// refused returns the number of answers and admissions that are no orders.
func (c *counts) refused() uint64 {
	var n uint64
	for i, name := range outcomeNames {
		if name != "ok" && name != "replayed" {
			n += c.answers[i]
		}
	}
	for _, settled := range c.settled[1:] {
		n += settled
	}
	return n
}

// Counts are the counters of all processes for some time.
type Counts struct {
	// Responses to buyers by outcome: an error code of the API, "ok" or "replayed".
	Answers map[string]uint64 `json:"outcomes"`
	// "ok" is a stored order, in every lane; other reasons occur in lane queue only.
	Settled map[string]uint64 `json:"settled"`
	// Transactions of the lanes batch and queue that committed orders.
	Batches uint64 `json:"batches"`
	// Orders that these transactions committed.
	Rows uint64 `json:"batch_rows"`
	// Latency of the responses, within 10 %; 0 without responses.
	P50 domain.Milliseconds `json:"p50_ms"`
	P99 domain.Milliseconds `json:"p99_ms"`
}

// Level is what was left at the end of a second: units in the database, units in the gate, and QueueLag.Unsettled.
// Unknown values are nil.
type Level struct {
	Stock *int64 `json:"stock"`
	Gate  *int64 `json:"gate"`
	Lag   *int64 `json:"lag"`
}

func (c *counts) named() Counts {
	return Counts{
		Answers: byName(outcomeNames[:], c.answers[:]),
		Settled: byName(settledNames[:], c.settled[:]),
		Batches: c.batches,
		Rows:    c.rows,
		P50:     domain.Milliseconds(c.quantile(0.5)),
		P99:     domain.Milliseconds(c.quantile(0.99)),
	}
}

// byName returns the positive counts.
func byName(names []string, counts []uint64) map[string]uint64 {
	m := map[string]uint64{}
	for i, n := range counts {
		if n > 0 {
			m[names[i]] = n
		}
	}
	return m
}

// quantile returns the latency that the given part of the responses did not exceed, or 0 if there were none.
func (c *counts) quantile(part float64) time.Duration {
	var all, seen uint64
	for _, n := range c.latency {
		all += n
	}

	for i, n := range c.latency {
		seen += n
		if n > 0 && float64(seen) >= part*float64(all) {
			return latencyOf(i)
		}
	}

	return 0
}
