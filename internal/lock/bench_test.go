package lock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// workers is the number of goroutines of a benchmark.
const workers = 64

func nothing(context.Context) error { return nil }

// BenchmarkCycle compares an uncontended lock and unlock, on 64 goroutines with a name each, with the two commands that
// they consist of.
func BenchmarkCycle(b *testing.B) {
	// Cancellable, like the context of a request.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rdb := newClient(b, startRedis(b))
	c, err := New(rdb)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	free := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	do := func(make func(name string) Locker) func(name string) error {
		return func(name string) error { return Do(ctx, make(name), nothing) }
	}

	for _, bench := range []struct {
		name  string
		cycle func(name string) error
	}{
		{"raw", func(name string) error {
			if err := rdb.SetArgs(ctx, name, "me", redis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
				return err
			}
			return free.Run(ctx, rdb, []string{name}, "me").Err()
		}},
		{"Mutex", do(func(name string) Locker { return c.Mutex(name) })},
		{"Reentrant", do(func(name string) Locker { return c.Reentrant(name) })},
		{"Fair", do(func(name string) Locker { return c.Fair(name) })},
		{"RedLock", func(name string) error {
			l, err := NewRedLock(name, []redis.UniversalClient{rdb})
			if err != nil {
				return err
			}
			return TryDo(ctx, l, nothing)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var names atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(workers / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				name := fmt.Sprint("order:", names.Add(1))
				for pb.Next() {
					if err := bench.cycle(name); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkSystems compares the price of a lock that an answer of one Redis, of two of three, and of a ZooKeeper ensemble
// of three decides. fresh has a new name for each cycle, as the lock of a user has; shared has one name for all.
func BenchmarkSystems(b *testing.B) {
	var names atomic.Int64
	for _, name := range []string{"redis/mutex", "redlock", "zookeeper"} {
		locks := systems[name](b).connect(b, DefaultLease, ignore)
		for kind, lock := range map[string]func() Locker{
			"fresh":  func() Locker { return locks(fmt.Sprint("order:", names.Add(1))) },
			"shared": func() Locker { return locks("shared") },
		} {
			b.Run(name+"/"+kind, func(b *testing.B) { cycles(b, lock) })
		}
	}
}

// cycles has 64 goroutines that acquire and release.
func cycles(b *testing.B, lock func() Locker) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(b.N))
	took := make([][]time.Duration, workers)

	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				if err := Do(ctx, lock(), nothing); err != nil {
					b.Error(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}
