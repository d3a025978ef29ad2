// Package salestats provides live statistics of sales over all server processes, and notifies subscribers of changes.
package salestats

import (
	"cmp"
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
	counts counts
	// When there were counts.
	last time.Time
}

// counts are what happened to a voucher in some time on one process.
type counts map[countName]int64

// countName is the name of a count. Its text in Redis is made once a report, not for each answer.
type countName struct {
	kind string
	// The outcome, reason or latencyBucket, for the kinds that have one.
	of string
}

func (n countName) String() string {
	if n.of == "" {
		return n.kind
	}
	return n.kind + ":" + n.of
}

// The kinds of counts. Answers, settled admissions and latencies are counted by what they are of.
const (
	answersName = "answer"
	settledName = "settled"
	latencyName = "took" // with a latencyBucket
	batchesName = "batches"
	rowsName    = "rows"
)

// NewCounters returns counters. stored reports that an answer "ok" stands for a stored order, which is the case in every
// lane but queue.
func NewCounters(stored bool) *Counters {
	return &Counters{stored: stored, sales: map[int64]*counted{}}
}

// CountAnswer counts one answer to a buyer and its latency. The outcome is an error code of the API, OutcomeOK or
// OutcomeReplayed.
func (c *Counters) CountAnswer(voucherID int64, outcome string, took time.Duration) {
	bucket := strconv.Itoa(latencyBucket(took))

	c.count(voucherID, provesExistence(outcome), func(n counts) {
		n[countName{answersName, outcome}]++
		n[countName{latencyName, bucket}]++
		if c.stored && outcome == OutcomeOK {
			n[countName{settledName, OutcomeOK}]++
		}
	})
}

// CountSettled counts a settled admission. reason is empty for a stored order, else the reason why there is none.
func (c *Counters) CountSettled(voucherID int64, reason string) {
	c.count(voucherID, true, func(n counts) { n[countName{settledName, cmp.Or(reason, OutcomeOK)}]++ })
}

// CountBatch counts a transaction that committed rows orders of a voucher, at least one.
func (c *Counters) CountBatch(voucherID int64, rows int) {
	c.count(voucherID, true, func(n counts) {
		n[countName{kind: batchesName}]++
		n[countName{kind: rowsName}] += int64(rows)
	})
}

func (c *Counters) count(voucherID int64, exists bool, add func(counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()

	n := c.sales[voucherID]
	if n == nil {
		if !exists || len(c.sales) >= maxSales {
			return
		}
		n = &counted{counts: counts{}}
		c.sales[voucherID] = n
	}

	add(n.counts)
}

func (c *Counters) take(now time.Time) map[int64]counts {
	c.mu.Lock()
	defer c.mu.Unlock()

	taken := map[int64]counts{}
	for id, n := range c.sales {
		switch {
		case len(n.counts) > 0:
			taken[id] = n.counts
			*n = counted{counts: counts{}, last: now}
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

// Level is what was left at the end of a second: units in the database, units in the gate, and domain.QueueLag.Unsettled.
// Unknown values are nil.
type Level struct {
	Stock *int64 `json:"stock"`
	Gate  *int64 `json:"gate"`
	Lag   *int64 `json:"lag"`
}

// Counts are what happened to a voucher in some time, on all processes.
type Counts struct {
	// Responses to buyers by outcome: an error code of the API, "ok" or "replayed".
	Answers map[string]int64 `json:"outcomes"`
	// "ok" is a stored order, in every lane; other reasons occur in lane queue only.
	Settled map[string]int64 `json:"settled"`
	// Transactions of the lanes batch and queue that committed orders.
	Batches int64 `json:"batches"`
	// Orders that these transactions committed.
	Rows int64 `json:"batch_rows"`
	// Latency of the responses, within 10 %; 0 without responses.
	P50 domain.Milliseconds `json:"p50_ms"`
	P99 domain.Milliseconds `json:"p99_ms"`
}

func parseCounts(hash map[string]string) Counts {
	c := Counts{Answers: map[string]int64{}, Settled: map[string]int64{}}
	latency := map[int]int64{}

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
				latency[bucket] = n
			}
		case batchesName:
			c.Batches = n
		case rowsName:
			c.Rows = n
		}
	}

	c.P50 = quantile(latency, 0.5)
	c.P99 = quantile(latency, 0.99)
	return c
}

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
