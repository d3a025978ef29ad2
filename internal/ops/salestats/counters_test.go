package salestats

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCountedVouchersAreBounded: invented IDs are not counted, and idle vouchers make room for others.
func TestCountedVouchersAreBounded(t *testing.T) {
	c := NewCounters(true)
	for _, code := range []string{"not_found", "rate_limited", "unavailable", "invalid_request", "unauthenticated", "overloaded", "unknown"} {
		c.CountAnswer(7, code, 0)
	}
	now := time.Now()
	require.Empty(t, c.take(now))

	for id := range int64(2 * maxSales) {
		c.CountAnswer(id, "sold_out", 0)
	}
	require.Len(t, c.take(now), maxSales)
	c.CountAnswer(9999, "ok", 0)
	require.Empty(t, c.take(now))
	c.take(now.Add(uncountedAfter + time.Second))
	c.CountAnswer(9999, "ok", 0)
	require.Contains(t, c.take(now), int64(9999))
}

// TestQuantilesAreWithinTenPercent for several distributions of latencies.
func TestQuantilesAreWithinTenPercent(t *testing.T) {
	for name, latency := range map[string]func() time.Duration{
		"even":   func() time.Duration { return time.Duration(rand.N(int64(2 * time.Second))) },
		"narrow": func() time.Duration { return 3*time.Millisecond + time.Duration(rand.N(int64(100*time.Microsecond))) },
		"far":    func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(40*time.Millisecond)) },
		"few":    func() time.Duration { return []time.Duration{time.Millisecond, time.Second}[rand.N(2)] },
	} {
		c := newCounts()
		all := make([]time.Duration, 20_001)
		for i := range all {
			all[i] = latency()
			c.latency[latencyBucket(all[i])]++
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.99} {
			want := all[int(q*float64(len(all)))]
			require.InEpsilon(t, want, time.Duration(c.quantile(q)), 0.1, "%s %v", name, q)
		}
	}
	for d := 33 * time.Microsecond; d < 16*time.Second; d += d / 50 {
		require.InEpsilon(t, d, latencyOf(latencyBucket(d)), 0.07, d.String())
	}
	require.Equal(t, latencyBuckets-1, latencyBucket(time.Hour))
	require.Zero(t, latencyBucket(-1))
	require.Zero(t, new(Counts).quantile(0.5))
}

// BenchmarkCountAnswer measures the cost of counting one answer, on all processors at once, for one voucher or several.
func BenchmarkCountAnswer(b *testing.B) {
	for _, vouchers := range []int64{1, 64} {
		b.Run(fmt.Sprint(vouchers), func(b *testing.B) {
			c := NewCounters(true)
			var n atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := n.Add(1); pb.Next(); i++ {
					c.CountAnswer(i%vouchers+1, "sold_out", time.Duration(i%4096)*time.Microsecond)
				}
			})
		})
	}
}
