// Package kit_test has the tests of the small packages, in one program: that of a package costs a second of linking. Those of
// what is not exported are beside their package.
package kit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	fake "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/cache"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/redisconn"
	"seckill/test/env"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, loop.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stop)
		require.ErrorIs(t, loop.Sleep(ctx, time.Minute), stop)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestBackoff(t *testing.T) {
	for earlier, want := range map[int]time.Duration{0: 2, 1: 4, 2: 8, 3: 15, 100: 15} {
		require.Equal(t, want*time.Second, loop.Backoff(2*time.Second, 15*time.Second, earlier), earlier)
	}
	require.Equal(t, time.Second, loop.Backoff(2*time.Second, time.Second, 0))
}

// Batches run until one finds nothing, each within its own time.
func TestInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, began := 3, time.Now()
		require.NoError(t, loop.InBatches(t.Context(), func(ctx context.Context) (int, error) {
			left--
			return left, ctx.Err()
		}))
		require.Zero(t, left)
		require.Equal(t, 40*time.Millisecond, time.Since(began))
		require.ErrorIs(t, loop.InBatches(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}), context.DeadlineExceeded)
	})
}

// A task runs after each interval, and logs only the first of several failures. A run that fails because the context ended is
// not a failure.
func TestTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began, runs := time.Now(), []time.Duration{}
		task := loop.Every(time.Second, "count", func(ctx context.Context) error {
			runs = append(runs, time.Since(began))
			switch len(runs) {
			case 2, 3:
				return errors.New("broken")
			case 5:
				<-ctx.Done()
			}
			return ctx.Err()
		})
		stop := env.InBackground(t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), task) })
		time.Sleep(5500 * time.Millisecond)
		stop()
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second}, runs)
		require.Equal(t, 1, strings.Count(log.String(), "cannot count; will retry"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "recovered: count"))
	})
}

func TestCacheExpiry(t *testing.T) {
	for name, test := range map[string]struct {
		options cache.Options[string]
		kept    bool // by reads
	}{
		"TTL":  {cache.Options[string]{MaxEntries: 10, TTL: time.Minute}, false},
		"idle": {cache.Options[string]{MaxEntries: 10, IdleTTL: time.Minute}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cache.New[string](test.options)
				defer c.Close()

				c.Set("key", "value")
				time.Sleep(55 * time.Second)
				_, cached := c.Get("key")
				require.True(t, cached)
				time.Sleep(10 * time.Second)
				_, cached = c.Get("key")
				require.Equal(t, test.kept, cached)
			})
		})
	}
}

func TestCacheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[int64](cache.Options[*string]{MaxEntries: 10, TTL: time.Hour})
		defer c.Close()
		var loads atomic.Int32
		load := func(err error) func(context.Context) (*string, error) {
			return func(context.Context) (*string, error) {
				loads.Add(1)
				time.Sleep(time.Second)
				return new("value"), err
			}
		}
		unavailable := errors.New("unavailable")
		p, err := c.Load(t.Context(), 1, load(unavailable))
		require.Equal(t, unavailable, err)
		require.Nil(t, p)
		_, cached := c.Get(1)
		require.False(t, cached)

		loads.Store(0)
		results := make(chan *string, 10)
		for range cap(results) {
			go func() {
				p, err := c.Load(t.Context(), 1, load(nil))
				if err != nil {
					t.Error(err)
				}
				results <- p
			}()
		}
		first := <-results
		require.Equal(t, "value", *first)
		for range cap(results) - 1 {
			require.Same(t, first, <-results)
		}
		require.EqualValues(t, 1, loads.Load())
	})
}

// counter is read by the tests: its value is the number of the read.
type counter struct {
	reads int
	takes time.Duration
	err   error
}

func (c *counter) read(context.Context) (int, error) {
	c.reads++
	n := c.reads
	time.Sleep(c.takes)
	if c.err != nil && c.err.Error() == "panic" {
		panic(c.err)
	}
	return n, c.err
}

func newRefreshed(c *counter) *cache.Refreshed[int] {
	return &cache.Refreshed[int]{Read: c.read, Fresh: 300 * time.Millisecond, Stale: 700 * time.Millisecond, Timeout: 2 * time.Second}
}

func TestRefreshedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 100 * time.Millisecond}
		r := newRefreshed(c)
		require.Nil(t, r.Last())
		get := func(want int, waits time.Duration) {
			began := time.Now()
			require.Equal(t, want, env.Must(r.Get(t.Context()))(t))
			require.Equal(t, waits, time.Since(began))
		}
		get(1, c.takes)
		time.Sleep(299 * time.Millisecond)
		get(1, 0)
		require.Equal(t, 1, c.reads)
		time.Sleep(time.Millisecond)
		get(1, 0) // and reads in the background
		synctest.Wait()
		require.Equal(t, 2, c.reads)
		time.Sleep(c.takes)
		synctest.Wait()
		get(2, 0)
		time.Sleep(time.Second)
		get(3, c.takes)

		r.Pause = 10
		time.Sleep(10*c.takes - time.Millisecond)
		get(3, 0)
		synctest.Wait()
		require.Equal(t, 3, c.reads, "the pause is ten times the duration of the read")
		time.Sleep(time.Millisecond)
		get(4, c.takes)
	})
}

// A reported change is in every value that Get and Kept return afterwards, even if a read that runs has not seen it.
func TestRefreshedAfterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 100 * time.Millisecond}
		r := newRefreshed(c)
		r.Set(0, time.Now())
		time.Sleep(400 * time.Millisecond)
		n := env.Must(r.Get(t.Context()))(t) // starts the first read
		require.Zero(t, n)
		synctest.Wait()
		r.Outdate()
		n = env.Must(r.Get(t.Context()))(t)
		require.Equal(t, 2, n)

		r.Change(func(n int) int { return -n })
		n = env.Must(r.Get(t.Context()))(t)
		require.Equal(t, -2, n)

		time.Sleep(400 * time.Millisecond)
		require.Equal(t, -2, r.Kept(t.Context(), time.Second).Value) // starts the third read
		synctest.Wait()
		r.Outdate()
		require.Equal(t, 4, r.Kept(t.Context(), time.Second).Value)
	})
}

// A value is kept while reads fail or take long. Its callers do not wait for such reads.
func TestRefreshedKeepsItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 100 * time.Millisecond, err: errors.New("unavailable")}
		r := newRefreshed(c)
		r.Set(7, time.Now())
		kept := func(waits time.Duration) {
			began := time.Now()
			require.Equal(t, 7, r.Kept(t.Context(), 250*time.Millisecond).Value)
			require.Equal(t, waits, time.Since(began))
		}
		time.Sleep(time.Second)
		kept(c.takes) // the first read that fails
		kept(0)
		synctest.Wait()
		time.Sleep(time.Second)
		env.Fails(r.Get(t.Context()))(t, c.err)

		c.err = errors.New("panic")
		env.Fails(r.Get(t.Context()))(t, "panic in a read")

		c.err = nil
		c.takes = time.Second
		n := env.Must(r.Get(t.Context()))(t)
		r.Change(func(int) int { return 7 })
		time.Sleep(time.Second)
		kept(250 * time.Millisecond)
		kept(0)
		time.Sleep(time.Second)
		require.Equal(t, n+1, r.Last().Value)

		r.Outdate()
		env.Fails(r.Get(env.Cancelled(t.Context())))(t, context.Canceled)
		time.Sleep(time.Second)
	})
}

// clusterOf returns a client of a cluster and its only node, which has all slots.
func clusterOf(t *testing.T) (rdb redis.UniversalClient, node *fake.Server) {
	t.Helper()
	node = env.Must(fake.NewServer("127.0.0.1:0"))(t)
	t.Cleanup(node.Close)

	require.NoError(t, node.Register("CLUSTER", func(c *fake.Peer, _ string, _ []string) {
		c.WriteLen(1)
		c.WriteLen(3)
		c.WriteInt(0)
		c.WriteInt(16383)
		c.WriteLen(2)
		c.WriteBulk("127.0.0.1")
		c.WriteInt(node.Addr().Port)
	}))

	addr := node.Addr().String()
	opts := redisconn.Options()
	opts.Addrs = []string{addr, addr}
	opts.MinIdleConns = 0
	rdb = redisconn.Open(opts)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb, node
}

// A node may have executed what it does not answer. It closes the connection at the first of the commands.
func TestWhatIsNotAnsweredIsNotRepeated(t *testing.T) {
	for name, kind := range map[string]struct {
		first string
		send  func(rdb redis.UniversalClient) error
	}{
		"command": {"INCR", func(rdb redis.UniversalClient) error { return rdb.Incr(t.Context(), "key").Err() }},
		"script": {"EVALSHA", func(rdb redis.UniversalClient) error {
			return redis.NewScript("return 1").EvalSha(t.Context(), rdb, []string{"key"}).Err()
		}},
		"pipeline": {"INCR", func(rdb redis.UniversalClient) error {
			_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Incr(t.Context(), "key").Err() })
			return err
		}},
		"transaction": {"MULTI", func(rdb redis.UniversalClient) error {
			_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Incr(t.Context(), "key").Err() })
			return err
		}},
	} {
		rdb, node := clusterOf(t)
		var received atomic.Int64
		require.NoError(t, node.Register(kind.first, func(c *fake.Peer, _ string, _ []string) {
			received.Add(1)
			c.Close()
		}))

		require.Error(t, kind.send(rdb), name)
		require.EqualValues(t, 1, received.Load(), name)
	}
}
