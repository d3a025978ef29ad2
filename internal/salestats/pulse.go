// Package salestats collects live statistics of sales across all server processes, and publishes them to subscribers.
package salestats

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/service"
)

const (
	// pulseSeconds is how many seconds are kept of a voucher.
	pulseSeconds = 120
	// maxPulses bounds the vouchers that are counted. More than that are not in a rush at once.
	maxPulses = 256
	// pulseIdle is how long a voucher is kept to which nothing happens; pulseYield after how long it makes room for another.
	pulseIdle  = 30 * time.Minute
	pulseYield = time.Minute
	// pulseHello is how often a process says that it is there, if it has nothing else to say, and pulseGone how long it is
	// believed.
	pulseHello = 3 * time.Second
	pulseGone  = 10 * time.Second
)

// Pulse counts, second by second, what happens to the sales on this process, and adds up what the other processes tell, so
// that each of them knows what happens on all. It is safe for concurrent use.
//
// Whoever answers a buyer counts in atomic counters of his voucher (Answered). Once a second Take moves them to the history
// and makes the message for the others, of which Hear is told. Half a second later Close ends the second: what comes later
// is counted in the next one, so that the seconds add up to the totals.
type Pulse struct {
	instance string
	stored   bool
	tallies  atomic.Pointer[map[int64]*tally] // copied when a voucher comes or goes
	// fullUntil is the time, in Unix nanoseconds, before which it need not be asked whether there is room for one more.
	fullUntil atomic.Int64

	mu     sync.Mutex
	sales  map[int64]*saleHistory
	others map[string]time.Time // when they were heard last
	hello  time.Time            // when we last said something
}

// saleHistory is what has happened to a voucher on all processes.
type saleHistory struct {
	since   time.Time
	used    time.Time
	total   pulseCounts
	open    pulseCounts // of the seconds that are not over
	seconds []PulseSecond
}

// PulseSecond is what happened to a voucher in one second, or since Since in all.
type PulseSecond struct {
	At       time.Time
	Answers  map[string]uint64 // by code
	Settled  map[string]uint64 // by outcome: "ok" is a stored order, in every lane; the others are of the lane queue
	Batches  uint64            // transactions with many orders
	Rows     uint64            // orders in them
	P50, P99 time.Duration
	Level    PulseLevel
}

// PulseLevel is what was left at the end of a second. What nobody looked at is nil.
type PulseLevel struct{ Stock, Gate, Lag *int64 }

// NewPulse makes a Pulse. instance names this process, and stored says that whoever is answered "ok" has a stored order,
// which is so in every lane but the queue.
func NewPulse(instance string, stored bool) *Pulse {
	p := &Pulse{instance: instance, stored: stored, sales: map[int64]*saleHistory{}, others: map[string]time.Time{}}
	p.tallies.Store(&map[int64]*tally{})
	return p
}

// Answered counts an answer to a buyer. Vouchers that nothing is known of are counted only from an answer on that says
// that they exist.
func (p *Pulse) Answered(voucherID int64, a PulseAnswer, took time.Duration) {
	t := (*p.tallies.Load())[voucherID]
	if t == nil {
		if a > lastKnowing {
			return
		}
		if t = p.join(voucherID); t == nil {
			return
		}
	}
	t.answered(a, took)
}

// Settled counts the end of an admission: reason is empty for an order, else why there is none.
func (p *Pulse) Settled(voucherID int64, reason string) {
	if reason == "" {
		reason = "ok"
	}
	i := slices.Index(settledNames[:], reason)
	if t := p.tally(voucherID); t != nil && i >= 0 {
		s := t.shard()
		s.settled[i].Add(1)
		s.note()
	}
}

// Batch counts a transaction with so many orders.
func (p *Pulse) Batch(voucherID int64, rows int) {
	if t := p.tally(voucherID); t != nil && rows > 0 {
		s := t.shard()
		s.batches.Add(1)
		s.rows.Add(uint32(rows)) //nolint:gosec // hundreds
		s.note()
	}
}

func (p *Pulse) tally(voucherID int64) *tally {
	if t := (*p.tallies.Load())[voucherID]; t != nil {
		return t
	}
	return p.join(voucherID)
}

// join begins to count a voucher; nil: there are too many.
func (p *Pulse) join(voucherID int64) *tally {
	now := time.Now()
	if now.UnixNano() < p.fullUntil.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.history(voucherID, now) == nil {
		p.fullUntil.Store(now.Add(time.Second).UnixNano()) // no answer of the next second waits to hear that again
		return nil
	}
	return (*p.tallies.Load())[voucherID]
}

// history returns that of a voucher, which is used now; nil: there are too many. The caller holds the lock.
func (p *Pulse) history(voucherID int64, now time.Time) *saleHistory {
	h := p.sales[voucherID]
	if h == nil {
		if len(p.sales) >= maxPulses && !p.makeRoom(now) {
			return nil
		}
		h = &saleHistory{since: now}
		p.sales[voucherID] = h
		tallies := maps.Clone(*p.tallies.Load())
		tallies[voucherID] = &tally{}
		p.tallies.Store(&tallies)
	}
	h.used = now
	return h
}

// makeRoom forgets the voucher that was idle for the longest time.
func (p *Pulse) makeRoom(now time.Time) bool {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(p.sales)), func(a, b int64) int {
		return p.sales[a].used.Compare(p.sales[b].used)
	})
	if now.Sub(p.sales[oldest].used) < pulseYield {
		return false
	}
	p.forget(oldest)
	return true
}

func (p *Pulse) forget(voucherID int64) {
	delete(p.sales, voucherID)
	tallies := maps.Clone(*p.tallies.Load())
	delete(tallies, voucherID)
	p.tallies.Store(&tallies)
}

// pulseMessage is what a process tells the others: what happened since it spoke last.
type pulseMessage struct {
	Instance string      `json:"i"`
	Sales    []pulseNews `json:"v,omitempty"`
}

type pulseNews struct {
	VoucherID int64             `json:"id"`
	Answers   map[string]uint64 `json:"a,omitempty"`
	Settled   map[string]uint64 `json:"s,omitempty"`
	Batches   [2]uint64         `json:"b"`
	Latency   [][2]uint64       `json:"l,omitempty"` // buckets and their counts
}

// Take adds what was counted here to the history, and returns the message for the others; nil: there is nothing to say.
func (p *Pulse) Take(now time.Time) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := pulseMessage{Instance: p.instance}
	for id, t := range *p.tallies.Load() {
		var c pulseCounts
		if !t.take(&c) {
			continue
		}
		if p.stored {
			c.settled[0] += c.answers[0]
		}
		h := p.sales[id]
		h.used = now
		h.total.add(&c)
		h.open.add(&c)
		m.Sales = append(m.Sales, newsOf(id, &c))
	}
	if len(m.Sales) == 0 && now.Sub(p.hello) < pulseHello {
		return nil
	}
	p.hello = now
	text, err := json.Marshal(m)
	if err != nil { // it always has a form
		return nil
	}
	return text
}

func newsOf(id int64, c *pulseCounts) pulseNews {
	n := pulseNews{
		VoucherID: id, Answers: byName(answerNames[:], c.answers[:]), Settled: byName(settledNames[:], c.settled[:]),
		Batches: [2]uint64{c.batches, c.rows},
	}
	for i, count := range c.latency {
		if count > 0 {
			n.Latency = append(n.Latency, [2]uint64{uint64(i), count})
		}
	}
	return n
}

// byName leaves out what did not happen.
func byName(names []string, counts []uint64) map[string]uint64 {
	m := map[string]uint64{}
	for i, n := range counts {
		if n > 0 {
			m[names[i]] = n
		}
	}
	return m
}

// Hear takes over what another process has told. Our own messages and those that cannot be read are nothing.
func (p *Pulse) Hear(message []byte, now time.Time) {
	var m pulseMessage
	if err := json.Unmarshal(message, &m); err != nil || m.Instance == "" || m.Instance == p.instance {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.others[m.Instance]; !known {
		p.hello = time.Time{} // it does not know us either
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

// counts reads news. What this version does not know is left out.
func (n *pulseNews) counts() (c pulseCounts) {
	for i, name := range answerNames {
		c.answers[i] = n.Answers[name]
	}
	for i, name := range settledNames {
		c.settled[i] = n.Settled[name]
	}
	c.batches, c.rows = n.Batches[0], n.Batches[1]
	for _, l := range n.Latency {
		if l[0] < latencyBuckets {
			c.latency[l[0]] += l[1]
		}
	}
	return c
}

// Close ends the second before now, in which everything has happened that was heard since the last one ended. level says
// what is left of a voucher. Seconds that were missed are empty.
func (p *Pulse) Close(now time.Time, level func(voucherID int64) PulseLevel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for instance, heard := range p.others {
		if now.Sub(heard) > pulseGone {
			delete(p.others, instance)
		}
	}
	last := now.Unix() - 1
	for id, h := range p.sales {
		if now.Sub(h.used) > pulseIdle {
			p.forget(id)
			continue
		}
		h.close(last, level(id))
	}
}

// close appends the seconds up to last, of which that one has what is open.
func (h *saleHistory) close(last int64, level PulseLevel) {
	next := h.since.Unix()
	if n := len(h.seconds); n > 0 {
		next = h.seconds[n-1].At.Unix() + 1
	}
	for next = max(next, last-pulseSeconds+1); next <= last; next++ {
		var s PulseSecond
		if next == last {
			s = h.open.show()
			s.Level, h.open = level, pulseCounts{}
		}
		s.At = time.Unix(next, 0).UTC()
		h.seconds = append(h.seconds, s)
	}
	if n := len(h.seconds) - pulseSeconds; n > 0 {
		h.seconds = slices.Delete(h.seconds, 0, n)
	}
}

func (c *pulseCounts) show() PulseSecond {
	return PulseSecond{
		Answers: byName(answerNames[:], c.answers[:]), Settled: byName(settledNames[:], c.settled[:]),
		Batches: c.batches, Rows: c.rows, P50: c.quantile(0.5), P99: c.quantile(0.99),
	}
}

// Show returns what has happened to a voucher since At of total, and the seconds after one. From now on it is counted, if
// it was not.
func (p *Pulse) Show(voucherID int64, after, now time.Time) (total PulseSecond, seconds []PulseSecond) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.history(voucherID, now)
	if h == nil {
		h = &saleHistory{since: now}
	}
	total = h.total.show()
	total.At = service.Moment(h.since)
	i, _ := slices.BinarySearchFunc(h.seconds, after, func(s PulseSecond, after time.Time) int {
		if s.At.After(after) {
			return 1
		}
		return -1
	})
	return total, slices.Clone(h.seconds[i:])
}

// Instances says how many processes there are, this one included.
func (p *Pulse) Instances() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 1 + len(p.others)
}
