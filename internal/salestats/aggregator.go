// Package salestats collects live statistics of sales over all server processes and notifies subscribers of changes.
package salestats

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/service"
)

const (
	// historySeconds is the number of seconds kept per voucher.
	historySeconds = 120
	// maxSales bounds the vouchers with counters.
	maxSales = 256
	// A voucher is dropped idleTimeout after its last use, and may be evicted in favour of another after evictableAfter.
	idleTimeout    = 30 * time.Minute
	evictableAfter = time.Minute
	// helloInterval is how often a process without counts publishes an empty message. A process from which no message
	// arrived for instanceTimeout counts as stopped.
	helloInterval   = 3 * time.Second
	instanceTimeout = 10 * time.Second
)

// Pulse counts per second what happens to the sales on this process, and adds the counts of the other processes, so every
// process has the totals of all. It is safe for concurrent use.
//
// Answered, Settled and Batch increment atomic counters of a voucher. At each full second the Monitor moves them to the
// history and publishes them to the other processes, where Hear adds them. Half a second later it closes the second.
// Later counts belong to the next second, so the seconds add up to the totals.
type Pulse struct {
	instance string
	stored   bool
	counters atomic.Pointer[map[int64]*counter] // copied on write
	// fullUntil is a time in Unix nanoseconds. Until then no other voucher is tracked, and mu is not taken to try.
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
	seconds []PulseSecond
}

// PulseSecond is what happened to a voucher in one second, or in total since At.
type PulseSecond struct {
	At       time.Time
	Answers  map[string]uint64 // responses to buyers by outcome: an error code of the API, "ok" or "replayed"
	Settled  map[string]uint64 // "ok" is a stored order, in every lane; other reasons occur in lane queue only
	Batches  uint64            // transactions of the lanes batch and queue that committed orders
	Rows     uint64            // orders that these transactions committed
	P50, P99 time.Duration     // latency of the responses, within 10 %; 0 without responses
	Level    PulseLevel
}

// PulseLevel is what was left at the end of a second: units in the database, units in the gate, and unsettled admissions
// of all sales. Unknown values are nil.
type PulseLevel struct{ Stock, Gate, Lag *int64 }

// NewPulse returns a Pulse. instance is the unique name of this process. stored reports that a response "ok" stands for a
// stored order, which is the case in every lane but queue.
func NewPulse(instance string, stored bool) *Pulse {
	p := &Pulse{instance: instance, stored: stored, sales: map[int64]*saleHistory{}, others: map[string]time.Time{}}
	p.counters.Store(&map[int64]*counter{})
	return p
}

// Answered counts one response to a buyer and its latency. A voucher is tracked only after a response that proves it
// exists, so invented IDs do not use memory.
func (p *Pulse) Answered(voucherID int64, a PulseAnswer, took time.Duration) {
	c := (*p.counters.Load())[voucherID]
	if c == nil {
		if !a.provesExistence() {
			return
		}
		if c = p.track(voucherID); c == nil {
			return
		}
	}
	c.answered(a, took)
}

// Settled counts a settled admission. reason is empty for a stored order, else the reason why there is none. Unknown
// reasons are not counted.
func (p *Pulse) Settled(voucherID int64, reason string) {
	if reason == "" {
		reason = "ok"
	}
	i := slices.Index(settledNames[:], reason)
	if c := p.counter(voucherID); c != nil && i >= 0 {
		s := c.shard()
		s.settled[i].Add(1)
		s.markDirty()
	}
}

// Batch counts a transaction that committed rows orders of a voucher. A transaction that committed none is not counted.
func (p *Pulse) Batch(voucherID int64, rows int) {
	if c := p.counter(voucherID); c != nil && rows > 0 {
		s := c.shard()
		s.batches.Add(1)
		s.rows.Add(uint32(rows)) //nolint:gosec // hundreds
		s.markDirty()
	}
}

func (p *Pulse) counter(voucherID int64) *counter {
	if c := (*p.counters.Load())[voucherID]; c != nil {
		return c
	}
	return p.track(voucherID)
}

// track returns the counter of a new voucher, or nil if there are too many.
func (p *Pulse) track(voucherID int64) *counter {
	now := time.Now()
	if now.UnixNano() < p.fullUntil.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.history(voucherID, now) == nil {
		p.fullUntil.Store(now.Add(time.Second).UnixNano())
		return nil
	}
	return (*p.counters.Load())[voucherID]
}

// history returns the history of a voucher and marks it as used. It begins one for a new voucher, and returns nil if there
// are too many. The caller holds the lock.
func (p *Pulse) history(voucherID int64, now time.Time) *saleHistory {
	h := p.sales[voucherID]
	if h == nil {
		if len(p.sales) >= maxSales && !p.evict(now) {
			return nil
		}
		h = &saleHistory{since: now}
		p.sales[voucherID] = h
		counters := maps.Clone(*p.counters.Load())
		counters[voucherID] = &counter{}
		p.counters.Store(&counters)
	}
	h.used = now
	return h
}

// evict drops the least recently used voucher. It returns false if that was used less than evictableAfter ago.
func (p *Pulse) evict(now time.Time) bool {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(p.sales)), func(a, b int64) int {
		return p.sales[a].used.Compare(p.sales[b].used)
	})
	if now.Sub(p.sales[oldest].used) < evictableAfter {
		return false
	}
	p.drop(oldest)
	return true
}

func (p *Pulse) drop(voucherID int64) {
	delete(p.sales, voucherID)
	counters := maps.Clone(*p.counters.Load())
	delete(counters, voucherID)
	p.counters.Store(&counters)
}

// flush moves the counters of this process to the history and returns them as a message for the other processes. It
// returns nil if there are no counts and the last message is younger than helloInterval.
func (p *Pulse) flush(now time.Time) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := message{Instance: p.instance}
	for id, counter := range *p.counters.Load() {
		var c counts
		if !counter.flush(&c) {
			continue
		}
		if p.stored {
			c.settled[0] += c.answers[0]
		}
		h := p.sales[id]
		h.used = now
		h.total.add(&c)
		h.open.add(&c)
		m.Sales = append(m.Sales, newSaleCounts(id, &c))
	}
	if len(m.Sales) == 0 && now.Sub(p.published) < helloInterval {
		return nil
	}
	p.published = now
	return m.encode()
}

// Hear adds the counts in a message of another process. It ignores messages of this process and those that it cannot
// parse.
func (p *Pulse) Hear(text []byte, now time.Time) {
	m, ok := parseMessage(text)
	if !ok || m.Instance == p.instance {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.others[m.Instance]; !known {
		p.published = time.Time{} // so that a new process receives a message of this one at once
	}
	p.others[m.Instance] = now
	for i := range m.Sales {
		h := p.history(m.Sales[i].VoucherID, now)
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
func (p *Pulse) rotate(now time.Time, level func(voucherID int64) PulseLevel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for instance, last := range p.others {
		if now.Sub(last) > instanceTimeout {
			delete(p.others, instance)
		}
	}
	last := now.Unix() - 1
	for id, h := range p.sales {
		if now.Sub(h.used) > idleTimeout {
			p.drop(id)
			continue
		}
		h.rotate(last, level(id))
	}
}

// rotate appends the seconds up to last, which receives the open counts. It does nothing if last is already there.
func (h *saleHistory) rotate(last int64, level PulseLevel) {
	next := h.since.Unix()
	if n := len(h.seconds); n > 0 {
		next = h.seconds[n-1].At.Unix() + 1
	}
	for next = max(next, last-historySeconds+1); next <= last; next++ {
		var s PulseSecond
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

// read returns the totals of a voucher since total.At, and the closed seconds later than after. A new voucher is tracked
// from now on.
func (p *Pulse) read(voucherID int64, after, now time.Time) (total PulseSecond, seconds []PulseSecond) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.history(voucherID, now)
	if h == nil {
		h = &saleHistory{since: now}
	}
	total = h.total.second()
	total.At = service.Moment(h.since)
	i, _ := slices.BinarySearchFunc(h.seconds, after, func(s PulseSecond, after time.Time) int {
		if s.At.After(after) {
			return 1
		}
		return -1
	})
	return total, slices.Clone(h.seconds[i:])
}

// instances returns the number of running processes, including this one.
func (p *Pulse) instances() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 1 + len(p.others)
}
