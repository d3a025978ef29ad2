package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	workers = 64
	hold    = time.Millisecond
)

// A result describes one run of one contender.
type result struct {
	// Per second.
	Cycles float64 `json:"cycles"`
	// Per cycle, of this process and Redis, in microseconds.
	CPU float64 `json:"cpu"`
	// The p50 of the wait, ns.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	// Ratio of the most to the fewest cycles of a worker, counting at least one.
	Unfair float64 `json:"unfair"`
}

func run(c contender, info *redis.Client, round int, contended bool, length time.Duration) (result, error) {
	name := func(worker int) string {
		if contended {
			return fmt.Sprintf("%s:%d", c.name, round)
		}
		return fmt.Sprintf("%s:%d:%d", c.name, round, worker)
	}

	release, err := c.acquire(context.Background(), "warm")
	if err != nil {
		return result{}, err
	}
	if err := release(); err != nil {
		return result{}, err
	}

	cpu, err := spent(info)
	if err != nil {
		return result{}, err
	}

	waits := make([][]time.Duration, workers)
	cycles := make([]int, workers)
	var failed atomic.Pointer[error]
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()

	began := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				requested := time.Now()
				release, err := c.acquire(ctx, name(w))

				// Even a wait that failed: starvation counts.
				waits[w] = append(waits[w], time.Since(requested))

				if err == nil {
					cycles[w]++
					if contended {
						time.Sleep(hold)
					}
					err = release()
				}

				// Connections time out at the deadline too, perhaps slightly before ctx.
				if err != nil && time.Since(began) < length*9/10 {
					failed.Store(&err)
					return
				}
			}
		})
	}

	wg.Wait()
	took := time.Since(began)

	if err := failed.Load(); err != nil {
		return result{}, fmt.Errorf("%s: %w", c.name, *err)
	}

	cpuAfter, err := spent(info)
	if err != nil {
		return result{}, err
	}

	total := 0
	for _, n := range cycles {
		total += n
	}

	all := slices.Sorted(slices.Values(slices.Concat(waits...)))

	return result{
		Cycles: float64(total) / took.Seconds(),
		CPU:    float64((cpuAfter - cpu).Microseconds()) / float64(max(total, 1)),
		P50:    all[len(all)/2],
		P99:    all[len(all)*99/100],
		Unfair: float64(slices.Max(cycles)) / float64(max(slices.Min(cycles), 1)),
	}, nil
}

// spent returns the CPU time used by the server and this process.
func spent(rdb *redis.Client) (time.Duration, error) {
	info, err := rdb.InfoMap(context.Background(), "cpu").Result()
	if err != nil {
		return 0, err
	}

	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return 0, err
	}

	cpu := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		used, err := time.ParseDuration(info["CPU"][name] + "s")
		if err != nil {
			return 0, err
		}
		cpu += used
	}

	return cpu, nil
}

func median(rounds []result) result {
	return result{
		Cycles: mid(rounds, func(r result) float64 { return r.Cycles }),
		CPU:    mid(rounds, func(r result) float64 { return r.CPU }),
		P50:    mid(rounds, func(r result) time.Duration { return r.P50 }),
		P99:    mid(rounds, func(r result) time.Duration { return r.P99 }),
		Unfair: mid(rounds, func(r result) float64 { return r.Unfair }),
	}
}

func mid[T int64 | float64 | time.Duration](rounds []result, of func(result) T) T {
	values := make([]T, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}

	slices.Sort(values)
	return values[len(values)/2]
}
