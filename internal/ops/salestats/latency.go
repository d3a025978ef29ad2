package salestats

import (
	"math/bits"
	"time"
)

// The latency histogram has eight buckets per doubling, so the middle of a bucket is within 7 % of each value in it.
// Its unit is 4 µs, and the last bucket begins at 16 s.
const (
	latencyUnit    = 12 // the unit is 2^12 ns
	latencyOctave  = 8
	latencyBuckets = 20 * latencyOctave
)

func latencyBucket(took time.Duration) int {
	v := uint64(max(took, 0)) >> latencyUnit
	if v < latencyOctave {
		return int(v) //nolint:gosec // below eight
	}
	// Keeps the top four bits: 8 to 15.
	octave := bits.Len64(v) - 4
	return min(octave*latencyOctave+int(v>>octave), latencyBuckets-1) //nolint:gosec // v>>octave is below sixteen
}

func latencyOf(bucket int) time.Duration {
	if bucket < 2*latencyOctave {
		return time.Duration(2*bucket+1) << (latencyUnit - 1)
	}
	octave := bucket/latencyOctave - 1
	from := uint64(bucket%latencyOctave+latencyOctave) << octave
	return time.Duration((2*from + 1<<octave) << (latencyUnit - 1)) //nolint:gosec // at most 32 s
}
