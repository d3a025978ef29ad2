package admission

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// BenchmarkOrder reserves, reads and settles admissions of 200 buyers at a time, without a transaction. One op is one
// buyer. On Redis it also reports the server's CPU time, which does not depend on the load of the machine.
func BenchmarkOrder(b *testing.B) {
	servers := map[string]func() string{
		"miniredis": func() string { return testenv.StartMiniredis(b).Addr() },
		"redis":     func() string { return testenv.StartRedis(b, "--appendonly", "yes").Addr },
	}
	for name, start := range servers {
		b.Run(name, func(b *testing.B) {
			rdb := redis.NewClient(&redis.Options{Addr: start(), MaxRetries: -1})
			b.Cleanup(func() { _ = rdb.Close() })
			g, db := newGate(rdb), newDatabase()
			db.stock[voucher] = int64(b.N)
			require.NoError(b, g.Load(b.Context(), voucher, db))
			stream := shardOf(voucher).Stream()
			require.NoError(b, rdb.XGroupCreateMkStream(b.Context(), stream, Group, "0").Err())
			w := onSale()
			as := make([]domain.Admission, 200)
			before := 0.0
			if name == "redis" {
				before = processorTime(b, rdb)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for order := int64(1); order <= int64(b.N); {
				n := 0
				for ; n < len(as) && order <= int64(b.N); n++ {
					as[n] = admission(order, order)
					as[n].ReplyTo = ""
					order++
				}
				results, err := g.Reserve(b.Context(), voucher, w, as[:n])
				require.NoError(b, err)
				require.NoError(b, results[0])
				drain(b, g, stream)
			}
			if name == "redis" {
				b.ReportMetric((processorTime(b, rdb)-before)*1e9/float64(b.N), "redis-ns/op")
			}
		})
	}
}

// processorTime returns the CPU time that Redis has used, in seconds. Miniredis does not report it.
func processorTime(b *testing.B, rdb *redis.Client) (total float64) {
	b.Helper()
	info, err := rdb.InfoMap(b.Context(), "cpu").Result()
	require.NoError(b, err)
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, _ := strconv.ParseFloat(info["CPU"][name], 64)
		total += seconds
	}
	return total
}

// drain reads all queued admissions and settles them as committed.
func drain(b *testing.B, g *Gate, stream string) {
	b.Helper()
	read, err := g.cfg.Redis.XReadGroup(b.Context(), &redis.XReadGroupArgs{
		Group: Group, Consumer: "a", Streams: []string{stream, ">"}, Count: 1000, Block: -1,
	}).Result()
	require.NoError(b, err)
	var done []domain.StreamEntry
	for _, e := range read[0].Messages {
		p, err := g.Parse(stream, e.ID, e.Values)
		require.NoError(b, err)
		p.Ends = make([]domain.End, len(p.Admissions))
		done = append(done, p)
	}
	require.NoError(b, g.Settle(b.Context(), done))
}
