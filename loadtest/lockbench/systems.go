package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/test/env/servers"
)

// A system is a kind of lock with its servers.
type system struct {
	name  string
	locks func(name string) lock.Locker
	close func() error
}

// compareSystems prints the price of a lock that an answer of one Redis, of two of three, and of a ZooKeeper ensemble of
// three decides. Fresh names are those of one cycle each, as the lock of a user is; the shared name is one for all.
func compareSystems(out io.Writer, length time.Duration) error {
	fmt.Fprintln(out, "| system | names | cycles/s | p50 | p99 |")
	fmt.Fprintln(out, "|---|---|---:|---:|---:|")

	for _, start := range []func(context.Context) (system, error){oneRedis, threeRedis, zooKeeper} {
		s, err := start(context.Background())
		if err != nil {
			return err
		}

		if err := errors.Join(measureSystem(out, s, length), s.close()); err != nil {
			return err
		}
	}

	return nil
}

func measureSystem(out io.Writer, s system, length time.Duration) error {
	var fresh atomic.Int64
	for _, names := range []struct {
		kind string
		next func() string
	}{
		{"fresh", func() string { return fmt.Sprint("order:", fresh.Add(1)) }},
		{"shared", func() string { return "shared" }},
	} {
		began := time.Now()
		took, err := cycles(func() lock.Locker { return s.locks(names.next()) }, length)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}

		rate := float64(len(took)) / time.Since(began).Seconds()
		fmt.Fprintf(out, "| %s | %s | %.0f | %s | %s |\n", s.name, names.kind, rate,
			millis(took[len(took)/2]), millis(took[len(took)*99/100]))
	}

	return nil
}

func cycles(next func() lock.Locker, length time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	took := make([][]time.Duration, workers)
	errs := make([]error, workers)
	end := time.Now().Add(length)

	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for errs[w] == nil && time.Now().Before(end) {
				began := time.Now()
				errs[w] = lock.Do(ctx, next(), func(context.Context) error { return nil })
				took[w] = append(took[w], time.Since(began))
			}
		})
	}
	wg.Wait()

	return slices.Sorted(slices.Values(slices.Concat(took...))), errors.Join(errs...)
}

func oneRedis(ctx context.Context) (system, error) {
	nodes, stop, err := startNodes(ctx, 1)
	if err != nil {
		return system{}, err
	}

	c, err := lock.New(nodes[0])
	if err != nil {
		return system{}, errors.Join(err, stop())
	}

	return system{
		name:  "one Redis (Mutex)",
		locks: func(name string) lock.Locker { return c.Mutex(name) },
		close: func() error { return errors.Join(c.Close(), stop()) },
	}, nil
}

func threeRedis(ctx context.Context) (system, error) {
	nodes, stop, err := startNodes(ctx, 3)
	if err != nil {
		return system{}, err
	}

	locks, err := lock.NewRedLocks(nodes)
	if err != nil {
		return system{}, errors.Join(err, stop())
	}

	return system{
		name:  "RedLock of 3",
		locks: locks.Lock,
		close: stop,
	}, nil
}

func zooKeeper(ctx context.Context) (system, error) {
	ensemble, err := servers.RunZooKeeper(ctx)
	if err != nil {
		return system{}, err
	}

	z, err := lock.NewZooKeeper(ensemble.Servers(), lock.WithRequestTimeout(lock.MaxNodeTimeout))
	if err != nil {
		return system{}, errors.Join(err, ensemble.Stop())
	}

	return system{
		name:  "ZooKeeper of 3",
		locks: z.Mutex,
		close: func() error { return errors.Join(z.Close(), ensemble.Stop()) },
	}, nil
}

func startNodes(ctx context.Context, n int) ([]redis.UniversalClient, func() error, error) {
	var nodes []redis.UniversalClient
	var running []*servers.Redis
	stop := func() error {
		var errs []error
		for i, server := range running {
			errs = append(errs, nodes[i].Close(), server.Stop())
		}
		return errors.Join(errs...)
	}

	for range n {
		server, err := servers.RunRedis(ctx)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}

		running = append(running, server)
		nodes = append(nodes, redis.NewClient(&redis.Options{
			Addr:                  server.Addr,
			ContextTimeoutEnabled: true,
			MaxRetries:            -1,
			PoolSize:              2 * workers,
		}))
	}

	return nodes, stop, nil
}
