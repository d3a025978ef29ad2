package salestats

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"seckill/internal/service"
)

// What a purchase was answered, and how admissions were settled, in the order of their counters.
var (
	answerNames = [...]string{
		"ok", "sold_out", "duplicate_order", "sale_not_started", "sale_ended", "order_in_progress", "rate_limited", "overloaded",
		"unavailable", "replayed", "invalid_request", "invalid_state", "idempotency_mismatch", "unauthenticated", "token_expired",
		"not_found", "internal",
	}
	settledNames = [...]string{"ok", service.ReasonSoldOut, service.ReasonDuplicate, service.ReasonInternal, "dead_letter"}
)

// PulseAnswer is the number of an answer, for the hot path.
type PulseAnswer uint8

// AnswerInternal is that of everything unknown.
const AnswerInternal = PulseAnswer(len(answerNames) - 1)

// lastKnowing is the last of the answers of which each says that the voucher exists: nobody gets one by making ids up.
const lastKnowing = PulseAnswer(4)

var answersByName = func() map[string]PulseAnswer {
	m := make(map[string]PulseAnswer, len(answerNames))
	for i, name := range answerNames {
		m[name] = PulseAnswer(i) //nolint:gosec // a handful
	}
	return m
}()

// PulseAnswerOf finds the number of an answer by its code.
func PulseAnswerOf(code string) PulseAnswer {
	if a, ok := answersByName[code]; ok {
		return a
	}
	return AnswerInternal
}

// The histogram of latencies: eight buckets for each doubling, so that the middle of a bucket is within 7 % of all that is
// in it. A unit is 4 µs; the last bucket begins at 16 s.
const (
	latencyUnit    = 12 // bits of a nanosecond count
	latencyOctave  = 8
	latencyBuckets = 20 * latencyOctave
)

func latencyBucket(took time.Duration) int {
	v := uint64(max(took, 0)) >> latencyUnit
	if v < latencyOctave {
		return int(v) //nolint:gosec // below eight
	}
	octave := bits.Len64(v) - 4                                       // of the seven after the first bit three count
	return min(octave*latencyOctave+int(v>>octave), latencyBuckets-1) //nolint:gosec // v>>octave is below sixteen
}

// latencyOf is the middle of a bucket.
func latencyOf(bucket int) time.Duration {
	if bucket < 2*latencyOctave {
		return time.Duration(2*bucket+1) << (latencyUnit - 1)
	}
	octave := bucket/latencyOctave - 1
	from := uint64(bucket%latencyOctave+latencyOctave) << octave
	return time.Duration((2*from + 1<<octave) << (latencyUnit - 1)) //nolint:gosec // at most 32 s
}

// pulseCounts is what happened to a voucher in some time, on one process or on all.
type pulseCounts struct {
	answers       [len(answerNames)]uint64
	settled       [len(settledNames)]uint64
	batches, rows uint64
	latency       [latencyBuckets]uint64
}

func (c *pulseCounts) add(d *pulseCounts) {
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

// quantile returns the latency that a part of the answers did not exceed; 0 if there were none.
func (c *pulseCounts) quantile(part float64) time.Duration {
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

// tallyShards is how many processors may count at once without waiting for each other's cache.
const tallyShards = 8

// tally counts what happens to a voucher on this process, between two beats. Counting takes no lock and no memory.
type tally struct{ shards [tallyShards]tallyShard }

type tallyShard struct {
	any           atomic.Bool // something is to be taken
	answers       [len(answerNames)]atomic.Uint32
	settled       [len(settledNames)]atomic.Uint32
	batches, rows atomic.Uint32
	latency       [latencyBuckets]atomic.Uint32
	_             [64]byte // two shards share no cache line
}

func (t *tally) shard() *tallyShard {
	s := &t.shards[rand.Uint32()%tallyShards] //nolint:gosec // any will do
	return s
}

// note says that there is something to take. It is called after counting, so that what is counted is taken by the next
// take at the latest.
func (s *tallyShard) note() {
	if !s.any.Load() {
		s.any.Store(true)
	}
}

func (t *tally) answered(a PulseAnswer, took time.Duration) {
	s := t.shard()
	s.answers[a].Add(1)
	s.latency[latencyBucket(took)].Add(1)
	s.note()
}

// take moves what was counted since the last take to c, and says whether that is anything.
func (t *tally) take(c *pulseCounts) (found bool) {
	for i := range t.shards {
		s := &t.shards[i]
		if !s.any.Load() {
			continue
		}
		s.any.Store(false) // before the counters are read: what comes now is noted again
		found = true
		takeAll(c.answers[:], s.answers[:])
		takeAll(c.settled[:], s.settled[:])
		takeAll(c.latency[:], s.latency[:])
		c.batches += uint64(s.batches.Swap(0))
		c.rows += uint64(s.rows.Swap(0))
	}
	return found
}

func takeAll(into []uint64, from []atomic.Uint32) {
	for i := range from {
		if from[i].Load() > 0 {
			into[i] += uint64(from[i].Swap(0))
		}
	}
}
