package loadgen

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBucketsCoverAllValues(t *testing.T) {
	t.Parallel()
	last := -1
	for _, v := range []int64{-1, 0, 1, 31, 32, 63, 64, 65, 66, 127, 128, 1000, 1e6, 60e6, 3600e6, 1 << 62} {
		d := time.Duration(min(v, 1<<50)) * time.Microsecond
		i := bucketOf(d)
		require.GreaterOrEqual(t, i, max(last, 0), "a longer value has no lower bucket")
		require.Less(t, i, buckets)
		last = i
		if v < 3600e6 {
			require.GreaterOrEqual(t, upperBound(i), d)
			require.LessOrEqual(t, upperBound(i)-max(d, 0), max(d, 0)/32+time.Microsecond)
		}
	}
	for i := range buckets - 1 {
		require.Equal(t, i, bucketOf(upperBound(i)))
		require.Equal(t, i+1, bucketOf(upperBound(i)+1), "no gap after bucket %d", i)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	assert.Zero(t, a.Percentile(50))
	rnd := rand.New(rand.NewPCG(1, 2))
	all := make([]time.Duration, 10_000)
	for i := range all {
		all[i] = time.Duration(rnd.ExpFloat64() * float64(10*time.Millisecond))
		[]*Histogram{&a, &b}[i%2].Add(all[i])
	}
	a.merge(&b)
	slices.Sort(all)
	for _, p := range []float64{0.01, 50, 95, 99, 99.99} {
		exact := all[int(p*float64(len(all))/100+0.5)-1]
		assert.InDelta(t, exact, a.Percentile(p), float64(exact)/32+1000, "p%v", p)
		assert.GreaterOrEqual(t, a.Percentile(p), exact.Truncate(time.Microsecond))
	}
	assert.Equal(t, all[len(all)-1], a.Percentile(100))
	assert.Equal(t, uint64(len(all)), a.n)
}
