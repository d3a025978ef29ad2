package admission

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/service"
	"seckill/internal/testenv"
)

// BenchmarkReserve reserves for 200 buyers in one call. One op is one buyer; settling them is not measured.
func BenchmarkReserve(b *testing.B) {
	servers := map[string]func() string{
		"miniredis": func() string { return testenv.StartMiniredis(b).Addr() },
		"redis":     func() string { return testenv.StartRedis(b).Addr },
	}
	for name, start := range servers {
		b.Run(name, func(b *testing.B) {
			rdb := redis.NewClient(&redis.Options{Addr: start(), MaxRetries: -1})
			b.Cleanup(func() { _ = rdb.Close() })
			g, db := newGate(rdb), newDatabase()
			db.stock[voucher] = int64(b.N)
			require.NoError(b, g.Load(b.Context(), voucher, db.read))
			w := onSale()
			as := make([]service.Admission, 200)
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
				b.StopTimer()
				drain(b, g)
				b.StartTimer()
			}
		})
	}
}

// drain settles what is queued.
func drain(b *testing.B, g *Gate) {
	ctx := context.Background()
	entries, err := g.cfg.Redis.XRange(ctx, shardOf(voucher).stream(), "-", "+").Result()
	require.NoError(b, err)
	done := make([]service.Settled, len(entries))
	for i, e := range entries {
		a, err := g.Parse(e.Values)
		require.NoError(b, err)
		done[i] = service.Settled{Entry: e.ID, Admission: a}
	}
	require.NoError(b, g.Settle(ctx, done))
}
