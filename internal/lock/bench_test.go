package lock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testenv"
)

// BenchmarkCycle compares an uncontended lock and unlock, on 32 goroutines per
// processor with a name each, with the two commands that it consists of.
func BenchmarkCycle(b *testing.B) {
	ctx := context.Background()
	rdb := newClient(b, testenv.StartRedis(b).Addr)
	free := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	run := func(b *testing.B, cycle func(name string) error) {
		var names atomic.Int64
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			name := fmt.Sprint("order:", names.Add(1))
			for pb.Next() {
				if err := cycle(name); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.Run("raw", func(b *testing.B) {
		run(b, func(name string) error {
			if err := rdb.SetArgs(ctx, name, "me", redis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
				return err
			}
			return free.Run(ctx, rdb, []string{name}, "me").Err()
		})
	})
	b.Run("TryDo", func(b *testing.B) {
		request, cancel := context.WithCancel(ctx) // as in a handler: it can end
		defer cancel()
		b.ReportAllocs()
		run(b, func(name string) error {
			l, err := NewRedLock(name, []redis.UniversalClient{rdb})
			if err != nil {
				return err
			}
			return TryDo(request, l, func(context.Context) error { return nil })
		})
	})
}
