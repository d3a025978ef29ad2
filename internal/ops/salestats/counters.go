// Package salestats provides live statistics of sales over all server processes, and notifies subscribers of changes.
package salestats

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/internal/domain"
)

const (
	// maxSales bounds the vouchers that are counted, at a few KiB each.
	maxSales = 256
	// uncountedAfter is the time after the last count at which a voucher is no longer counted, so that another one can be.
	uncountedAfter = time.Minute
)

// The outcomes of a purchase that are no error codes of the API.
const (
	OutcomeOK       = "ok"
	OutcomeReplayed = "replayed"
)

// provesExistence reports whether a request with an invented voucher ID cannot have this outcome.
func provesExistence(outcome string) bool {
	switch outcome {
	case OutcomeOK, "sold_out", "duplicate_order", "sale_not_started", "sale_ended", "unpaid_limit", "entry_required":
		return true
	}
	return false
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
	Counts

	// When there were counts.
	last time.Time
}

// NewCounters returns counters. stored reports that an answer "ok" stands for a stored order, which is the case in every
// lane but queue.
func NewCounters(stored bool) *Counters {
	return &Counters{stored: stored, sales: map[int64]*counted{}}
}

// CountAnswer counts one answer to a buyer and its latency. The outcome is an error code of the API, OutcomeOK or
// OutcomeReplayed.
func (c *Counters) CountAnswer(voucherID int64, outcome string, took time.Duration) {
	c.count(voucherID, provesExistence(outcome), func(n *Counts) {
		n.Answers[outcome]++
		n.latency[latencyBucket(took)]++
		if c.stored && outcome == OutcomeOK {
			n.Settled[OutcomeOK]++
		}
	})
}

// CountSettled counts a settled admission. reason is empty for a stored order, else the reason why there is none.
func (c *Counters) CountSettled(voucherID int64, reason string) {
	if reason == "" {
		reason = OutcomeOK
	}
	c.count(voucherID, true, func(n *Counts) { n.Settled[reason]++ })
}

// CountBatch counts a transaction that committed rows orders of a voucher. A transaction that committed none is not
// counted.
func (c *Counters) CountBatch(voucherID int64, rows int) {
	if rows == 0 {
		return
	}
	c.count(voucherID, true, func(n *Counts) {
		n.Batches++
		n.Rows += int64(rows)
	})
}

func (c *Counters) count(voucherID int64, exists bool, add func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()

	n := c.sales[voucherID]
	if n == nil {
		if !exists || len(c.sales) >= maxSales {
			return
		}
		n = &counted{Counts: newCounts()}
		c.sales[voucherID] = n
	}

	add(&n.Counts)
}

func (c *Counters) take(now time.Time) map[int64]Counts {
	c.mu.Lock()
	defer c.mu.Unlock()

	taken := map[int64]Counts{}
	for id, n := range c.sales {
		switch {
		case !n.empty():
			taken[id] = n.Counts
			*n = counted{Counts: newCounts(), last: now}
		case now.Sub(n.last) > uncountedAfter:
			delete(c.sales, id)
		}
	}

	return taken
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

// Level is what was left at the end of a second: units in the database, units in the gate, and QueueLag.Unsettled.
// Unknown values are nil.
type Level struct {
	Stock *int64 `json:"stock"`
	Gate  *int64 `json:"gate"`
	Lag   *int64 `json:"lag"`
}

// Counts are what happened to a voucher in some time, on one process or on all.
type Counts struct {
	// Responses to buyers by outcome: an error code of the API, "ok" or "replayed".
	Answers map[string]int64 `json:"outcomes"`
	// "ok" is a stored order, in every lane; other reasons occur in lane queue only.
	Settled map[string]int64 `json:"settled"`
	// Transactions of the lanes batch and queue that committed orders.
	Batches int64 `json:"batches"`
	// Orders that these transactions committed.
	Rows int64 `json:"batch_rows"`
	// Latency of the responses, within 10 %; 0 without responses. Set in what Redis had.
	P50 domain.Milliseconds `json:"p50_ms"`
	P99 domain.Milliseconds `json:"p99_ms"`

	// Responses by latencyBucket.
	latency map[int]int64
}

func newCounts() Counts {
	return Counts{
		Answers: map[string]int64{},
		Settled: map[string]int64{},
		latency: map[int]int64{},
	}
}

func (c *Counts) empty() bool { return len(c.Answers) == 0 && len(c.Settled) == 0 && c.Batches == 0 }

func (c *Counts) refused() int64 {
	return sum(c.Answers) - c.Answers[OutcomeOK] - c.Answers[OutcomeReplayed] + sum(c.Settled) - c.Settled[OutcomeOK]
}

func sum[K comparable](counts map[K]int64) int64 {
	var all int64
	for _, n := range counts {
		all += n
	}
	return all
}

func (c *Counts) quantile(part float64) domain.Milliseconds {
	limit := part * float64(sum(c.latency))
	var seen int64
	for i := range latencyBuckets {
		seen += c.latency[i]
		if seen > 0 && float64(seen) >= limit {
			return domain.Milliseconds(latencyOf(i))
		}
	}
	return 0
}

// The names of counts in Redis. Those of answers, settled admissions and latencies have a suffix after a colon.
const (
	answersName = "answer"
	settledName = "settled"
	latencyName = "latency"
	batchesName = "batches"
	rowsName    = "rows"
)

func (c *Counts) named() map[string]int64 {
	all := map[string]int64{}
	for outcome, n := range c.Answers {
		all[answersName+":"+outcome] = n
	}

	for reason, n := range c.Settled {
		all[settledName+":"+reason] = n
	}

	for bucket, n := range c.latency {
		all[latencyName+":"+strconv.Itoa(bucket)] = n
	}

	if c.Batches > 0 {
		all[batchesName] = c.Batches
		all[rowsName] = c.Rows
	}

	return all
}

func parseCounts(hash map[string]string) Counts {
	c := newCounts()
	for name, text := range hash {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}

		kind, of, _ := strings.Cut(name, ":")
		switch kind {
		case answersName:
			c.Answers[of] = n
		case settledName:
			c.Settled[of] = n
		case latencyName:
			if bucket, err := strconv.Atoi(of); err == nil {
				c.latency[bucket] = n
			}
		case batchesName:
			c.Batches = n
		case rowsName:
			c.Rows = n
		}
	}

	c.P50 = c.quantile(0.5)
	c.P99 = c.quantile(0.99)
	return c
}
