package ratelimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/ratelimit"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error {
		// otter ends the goroutine of a cache after the cache is collected.
		return goleak.Find(goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]"))
	})
}

// The limit of most tests. No token is refilled while a test runs.
const (
	interval = time.Hour
	burst    = 20
)

const address = "203.0.113.7"

// server returns the limit as another server has it.
func server(rdb redis.Scripter) *ratelimit.Limit {
	return ratelimit.New("codes", interval, burst, time.Now, &ratelimit.Shared{
		Redis: rdb, Timeout: time.Minute, Secret: []byte("a secret"), Log: slog.New(slog.DiscardHandler),
	})
}

// useUp takes all tokens through one server.
func useUp(t *testing.T, l *ratelimit.Limit) {
	t.Helper()
	for range burst {
		require.Zero(t, l.Take(t.Context(), address))
	}
}

// requireRefused requires that the next token is an interval away, less the duration of the test.
func requireRefused(t *testing.T, wait time.Duration) {
	t.Helper()
	require.Greater(t, wait, interval-10*time.Minute)
	require.LessOrEqual(t, wait, interval)
}

// bucket returns the only key in Redis.
func bucket(t *testing.T, rdb *redis.Client) (key string, ttl time.Duration) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	return keys[0], rdb.PTTL(t.Context(), keys[0]).Val()
}

func TestConcurrentCallsOfThreeServers(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		var (
			wg      sync.WaitGroup
			allowed atomic.Int64
			waits   = make(chan time.Duration, 3*4*burst)
		)
		for range 3 {
			l := server(rdb)
			for range 4 {
				wg.Go(func() {
					for range burst {
						if wait := l.Take(t.Context(), address); wait > 0 {
							waits <- wait
						} else {
							allowed.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		close(waits)
		require.EqualValues(t, burst, allowed.Load())
		for wait := range waits {
			requireRefused(t, wait)
		}
		require.Zero(t, server(rdb).Take(t.Context(), "203.0.113.8"), "another key")
	})
}

func TestCallIsAllowedAfterWait(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		useUp(t, server(rdb))
		wait := server(rdb).Take(t.Context(), address)
		requireRefused(t, wait)
		elapse := func(d time.Duration) {
			key, ttl := bucket(t, rdb)
			require.NoError(t, rdb.PExpire(t.Context(), key, ttl-d).Err())
		}
		elapse(wait - 30*time.Minute)
		require.Positive(t, server(rdb).Take(t.Context(), address))
		elapse(30 * time.Minute)
		require.Zero(t, server(rdb).Take(t.Context(), address))
		requireRefused(t, server(rdb).Take(t.Context(), address))
	})
}

// A call that counts as n takes n tokens or none, in this process and in Redis.
func TestCallOfManyTokens(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for name, l := range map[string]*ratelimit.Limit{"shared": server(rdb), "local": ratelimit.New("", interval, burst, time.Now, nil)} {
			require.Zero(t, l.TakeN(t.Context(), address, burst-1), name)
			other := l
			if name == "shared" {
				other = server(rdb) // its own bucket is full
			}
			wait := other.TakeN(t.Context(), address, 3)
			require.Greater(t, wait, 2*interval-10*time.Minute, name)
			require.LessOrEqual(t, wait, 2*interval, name)
			require.Zero(t, l.Take(t.Context(), address), name)
			requireRefused(t, l.Take(t.Context(), address))
		}
	})
}

// If the clock of Redis is set back, as by a failover, the keys live longer. A caller waits no longer than with an
// empty bucket.
func TestClockOfRedisSetBack(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		require.Zero(t, server(rdb).Take(t.Context(), address))
		key, _ := bucket(t, rdb)
		require.NoError(t, rdb.PExpire(t.Context(), key, 1000*interval).Err())
		requireRefused(t, server(rdb).Take(t.Context(), address))
	})
}

func TestKeyExpiresAndHidesAddress(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		useUp(t, server(rdb))
		key, ttl := bucket(t, rdb)
		require.True(t, strings.HasPrefix(key, "seckill:limit:codes:"), key)
		require.NotContains(t, key, address)
		require.Positive(t, ttl)
		require.LessOrEqual(t, ttl, burst*interval)
	})
}

// countingRedis counts the scripts that are run.
type countingRedis struct {
	redis.Scripter
	scripts atomic.Int64
}

func (c *countingRedis) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	c.scripts.Add(1)
	return c.Scripter.EvalSha(ctx, sha, keys, args...)
}

func TestFloodCostsFewCommands(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		useUp(t, server(rdb))
		counting := &countingRedis{Scripter: rdb}
		l := server(counting)
		for range 100 * burst {
			requireRefused(t, l.Take(t.Context(), address))
		}
		require.EqualValues(t, burst, counting.scripts.Load())
	})
}

func TestCallOfDisconnectedClientCounts(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		l := server(rdb)
		for range burst {
			require.Zero(t, l.Take(gone, address))
		}
		requireRefused(t, server(rdb).Take(t.Context(), address))
	})
}

// TestLocalLimitWithoutRedis uses a client that waits for a reply without end, so that only the limit itself bounds the
// time of a call.
func TestLocalLimitWithoutRedis(t *testing.T) {
	for name, broken := range map[string]func(*testenv.Redis) error{
		"down":    func(r *testenv.Redis) error { r.Kill(); return nil },
		"hanging": (*testenv.Redis).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testenv.StartRedis(t)
			var log bytes.Buffer
			l := ratelimit.New("logins", interval, 3, time.Now, &ratelimit.Shared{
				Redis:   r.Client(t, func(o *redis.Options) { o.ReadTimeout = -1 }),
				Timeout: 50 * time.Millisecond,
				Secret:  []byte("a secret"), Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.Zero(t, l.Take(t.Context(), "another key")) // opens a connection
			require.NoError(t, broken(r))
			done := make(chan []time.Duration)
			go func() {
				var waits []time.Duration
				for range 4 {
					waits = append(waits, l.Take(t.Context(), address))
				}
				done <- waits
			}()
			select {
			case waits := <-done:
				require.Equal(t, make([]time.Duration, 3), waits[:3])
				requireRefused(t, waits[3])
			case <-time.After(time.Minute):
				t.Fatal("a call waits for Redis")
			}
			require.Equal(t, 1, strings.Count(log.String(), "holds per server only"), log.String())
		})
	}
}
