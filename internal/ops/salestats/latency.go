package salestats

import (
	"math"
	"time"

	"seckill/internal/domain"
)

// The latency histogram has eight buckets per doubling, so the middle of a bucket is within 5 % of each value in it. The first
// also has all lower values, and the last, which begins at 15 s, all higher ones.
const (
	latencyUnit    = 16 * time.Microsecond
	latencyOctave  = 8
	latencyBuckets = 20 * latencyOctave
)

func latencyBucket(took time.Duration) int {
	doublings := math.Log2(float64(max(took, latencyUnit)) / float64(latencyUnit))
	return min(int(doublings*latencyOctave), latencyBuckets-1)
}

func latencyOf(bucket int) time.Duration {
	return time.Duration(float64(latencyUnit) * math.Exp2((float64(bucket)+0.5)/latencyOctave))
}

// quantile returns the latency that a part of the responses did not exceed, by their numbers in the buckets.
func quantile(latency map[int]int64, part float64) domain.Milliseconds {
	limit := part * float64(sum(latency))
	var seen int64
	for i := range latencyBuckets {
		seen += latency[i]
		if seen > 0 && float64(seen) >= limit {
			return domain.Milliseconds(latencyOf(i))
		}
	}
	return 0
}
