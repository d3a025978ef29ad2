package loadgen

import (
	"math"
	"math/bits"
	"time"
)

// The width of a bucket is at most 1/32 of its value, which is the error of a percentile. The last bucket includes all
// longer values, of more than an hour.
const (
	subBits = 5
	buckets = 29 << subBits
)

// Histogram counts latencies in logarithmic buckets of microseconds. It is not safe for concurrent use. The histogram
// of package salestats, kept per voucher and processor, has a sixth of the buckets; its 7 % are too coarse for ratios.
type Histogram struct {
	counts  [buckets]uint64
	n       uint64
	longest time.Duration
}

// Add counts a latency.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.n++
	h.longest = max(h.longest, d)
}

func (h *Histogram) merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}

	h.n += o.n
	h.longest = max(h.longest, o.longest)
}

// Percentile returns the latency that p percent of the values did not exceed, or 0 without values. It is exact up to
// 64 µs, at most 1/32 too long above, and never longer than the longest value.
func (h *Histogram) Percentile(p float64) time.Duration {
	rank := uint64(math.Ceil(float64(h.n) * p / 100))

	var seen uint64
	for i, n := range h.counts {
		seen += n
		if n > 0 && seen >= rank {
			return min(upperBound(i), h.longest)
		}
	}

	return h.longest
}

// bucketOf returns the bucket of d, from the subBits bits after the leading one. The first 2^(subBits+1) buckets have a
// width of 1 µs.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0).Microseconds()) //nolint:gosec // not negative
	shift := max(bits.Len64(v)-subBits-1, 0)
	return min(shift<<subBits+int(v>>shift), buckets-1) //nolint:gosec // less than 2^(subBits+1)
}

// upperBound returns the longest latency of a bucket.
func upperBound(i int) time.Duration {
	shift := max(i>>subBits-1, 0)
	v := (i-shift<<subBits+1)<<shift - 1
	return time.Duration(v)*time.Microsecond + time.Microsecond - 1
}
