// Package salestats collects live statistics of sales over all server processes and notifies subscribers of changes.
package salestats

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
)

const (
	// historySeconds is the number of seconds kept per voucher.
	historySeconds = 120
	// maxSales bounds the vouchers with counters.
	maxSales = 256
	// A voucher is dropped idleTimeout after its last use, and may be evicted in favour of another after
	// evictableAfter.
	idleTimeout    = 30 * time.Minute
	evictableAfter = time.Minute
	// helloInterval is how often a process without counts publishes an empty message. A process from which no message
	// arrived for instanceTimeout counts as stopped.
	helloInterval   = 3 * time.Second
	instanceTimeout = 10 * time.Second
)

// Aggregator counts per second what happens to the sales on this process, and adds the counts of the other processes,
// so every process has the totals of all. It is safe for concurrent use.
//
// CountAnswer, CountSettled and CountBatch increment atomic counters of a voucher. At each full second the Monitor
// moves them to the history and publishes them to the other processes, where Merge adds them. Half a second later it
// closes the second. Later counts belong to the next second, so the seconds add up to the totals.
type Aggregator struct {
	instance string
	stored   bool
	counters atomic.Pointer[map[int64]*counter] // copied on write
	// fullUntil is a time in Unix nanoseconds. Until then track returns nil without taking mu.
	fullUntil atomic.Int64

	mu        sync.Mutex
	sales     map[int64]*saleHistory
	others    map[string]time.Time // the other processes, with the time of their last message
	published time.Time            // when flush last returned a message
}

// saleHistory is what happened to a voucher on all processes.
type saleHistory struct {
	since   time.Time
	used    time.Time
	total   counts
	open    counts // since the last second in seconds
	seconds []Second
}

// Second is what happened to a voucher in one second, or in total since At.
type Second struct {
	At       time.Time
	Answers  map[string]uint64 // responses to buyers by outcome: an error code of the API, "ok" or "replayed"
	Settled  map[string]uint64 // "ok" is a stored order, in every lane; other reasons occur in lane queue only
	Batches  uint64            // transactions of the lanes batch and queue that committed orders
	Rows     uint64            // orders that these transactions committed
	P50, P99 time.Duration     // latency of the responses, within 10 %; 0 without responses
	Level    Level
}

// Level is what was left at the end of a second: units in the database, units in the gate, and QueueLag.Unsettled.
// Unknown values are nil.
type Level struct{ Stock, Gate, Lag *int64 }

// NewAggregator returns an Aggregator. instance is the unique name of this process. stored reports that a response "ok"
// stands for a stored order, which is the case in every lane but queue.
func NewAggregator(instance string, stored bool) *Aggregator {
	a := &Aggregator{instance: instance, stored: stored, sales: map[int64]*saleHistory{}, others: map[string]time.Time{}}
	a.counters.Store(&map[int64]*counter{})
	return a
}

// CountAnswer counts one response to a buyer and its latency. A voucher is tracked only after a response that proves it
// exists, so invented IDs do not use memory.
func (a *Aggregator) CountAnswer(voucherID int64, outcome Outcome, took time.Duration) {
	c := (*a.counters.Load())[voucherID]
	if c == nil {
		if !outcome.provesExistence() {
			return
		}
		if c = a.track(voucherID); c == nil {
			return
		}
	}
	c.countAnswer(outcome, took)
}

// CountSettled counts a settled admission. reason is empty for a stored order, else the reason why there is none.
// Unknown reasons are not counted.
func (a *Aggregator) CountSettled(voucherID int64, reason string) {
	if reason == "" {
		reason = "ok"
	}
	i := slices.Index(settledNames[:], reason)
	if c := a.counter(voucherID); c != nil && i >= 0 {
		s := c.shard()
		s.settled[i].Add(1)
		s.markDirty()
	}
}

// CountBatch counts a transaction that committed rows orders of a voucher. A transaction that committed none is not
// counted.
func (a *Aggregator) CountBatch(voucherID int64, rows int) {
	if c := a.counter(voucherID); c != nil && rows > 0 {
		s := c.shard()
		s.batches.Add(1)
		s.rows.Add(uint32(rows)) //nolint:gosec // hundreds
		s.markDirty()
	}
}

func (a *Aggregator) counter(voucherID int64) *counter {
	if c := (*a.counters.Load())[voucherID]; c != nil {
		return c
	}
	return a.track(voucherID)
}

// track returns the counter of a new voucher, or nil if there are too many.
func (a *Aggregator) track(voucherID int64) *counter {
	now := time.Now()
	if now.UnixNano() < a.fullUntil.Load() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.history(voucherID, now) == nil {
		a.fullUntil.Store(now.Add(time.Second).UnixNano())
		return nil
	}
	return (*a.counters.Load())[voucherID]
}

// history returns the history of a voucher and marks it as used. It begins one for a new voucher, and returns nil if
// there are too many. The caller holds the lock.
func (a *Aggregator) history(voucherID int64, now time.Time) *saleHistory {
	h := a.sales[voucherID]
	if h == nil {
		if len(a.sales) >= maxSales && !a.evict(now) {
			return nil
		}
		h = &saleHistory{since: now}
		a.sales[voucherID] = h
		counters := maps.Clone(*a.counters.Load())
		counters[voucherID] = &counter{}
		a.counters.Store(&counters)
	}
	h.used = now
	return h
}

// evict drops the least recently used voucher. It returns false if that was used less than evictableAfter ago.
func (a *Aggregator) evict(now time.Time) bool {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(a.sales)), func(x, y int64) int {
		return a.sales[x].used.Compare(a.sales[y].used)
	})
	if now.Sub(a.sales[oldest].used) < evictableAfter {
		return false
	}
	a.drop(oldest)
	return true
}

func (a *Aggregator) drop(voucherID int64) {
	delete(a.sales, voucherID)
	counters := maps.Clone(*a.counters.Load())
	delete(counters, voucherID)
	a.counters.Store(&counters)
}

// flush moves the counters of this process to the history and returns them as a message for the other processes. It
// returns nil if there are no counts and the last message is younger than helloInterval.
func (a *Aggregator) flush(now time.Time) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := message{Instance: a.instance}
	for id, counter := range *a.counters.Load() {
		var c counts
		if !counter.flush(&c) {
			continue
		}
		if a.stored {
			c.settled[0] += c.answers[0]
		}
		h := a.sales[id]
		h.used = now
		h.total.add(&c)
		h.open.add(&c)
		m.Sales = append(m.Sales, newSaleCounts(id, &c))
	}
	if len(m.Sales) == 0 && now.Sub(a.published) < helloInterval {
		return nil
	}
	a.published = now
	return m.encode()
}

// Merge adds the counts in a message of another process. It ignores messages of this process and those that it cannot
// parse.
func (a *Aggregator) Merge(text []byte, now time.Time) {
	m, ok := parseMessage(text)
	if !ok || m.Instance == a.instance {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.others[m.Instance]; !known {
		a.published = time.Time{} // so that a new process receives a message of this one at once
	}
	a.others[m.Instance] = now
	for i := range m.Sales {
		h := a.history(m.Sales[i].VoucherID, now)
		if h == nil {
			continue
		}
		c := m.Sales[i].counts()
		h.total.add(&c)
		h.open.add(&c)
	}
}

// rotate closes the second before now, with all counts added since the last call. level returns what is left of a
// voucher. Seconds between the last call and that one are empty.
func (a *Aggregator) rotate(now time.Time, level func(voucherID int64) Level) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for instance, last := range a.others {
		if now.Sub(last) > instanceTimeout {
			delete(a.others, instance)
		}
	}
	last := now.Unix() - 1
	for id, h := range a.sales {
		if now.Sub(h.used) > idleTimeout {
			a.drop(id)
			continue
		}
		h.rotate(last, level(id))
	}
}

// rotate appends the seconds up to last, which receives the open counts. It does nothing if last is already there.
func (h *saleHistory) rotate(last int64, level Level) {
	next := h.since.Unix()
	if n := len(h.seconds); n > 0 {
		next = h.seconds[n-1].At.Unix() + 1
	}
	for next = max(next, last-historySeconds+1); next <= last; next++ {
		var s Second
		if next == last {
			s = h.open.second()
			s.Level, h.open = level, counts{}
		}
		s.At = time.Unix(next, 0).UTC()
		h.seconds = append(h.seconds, s)
	}
	if n := len(h.seconds) - historySeconds; n > 0 {
		h.seconds = slices.Delete(h.seconds, 0, n)
	}
}

// read returns the totals of a voucher since total.At, and the closed seconds later than after. A new voucher is
// tracked from now on.
func (a *Aggregator) read(voucherID int64, after, now time.Time) (total Second, seconds []Second) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.history(voucherID, now)
	if h == nil {
		h = &saleHistory{since: now}
	}
	total = h.total.second()
	total.At = domain.Moment(h.since)
	i, _ := slices.BinarySearchFunc(h.seconds, after, func(s Second, after time.Time) int {
		if s.At.After(after) {
			return 1
		}
		return -1
	})
	return total, slices.Clone(h.seconds[i:])
}

// instances returns the number of running processes, including this one.
func (a *Aggregator) instances() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return 1 + len(a.others)
}
