// Package kit_test has the tests of the small packages, in one program: that of a package costs a second of linking. Those of
// what is not exported are beside their package.
package kit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	fake "github.com/alicebob/miniredis/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/cache"
	"seckill/internal/kit/connlimit"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/ratelimit"
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
		r := newRefreshed(&counter{takes: 100 * time.Millisecond})
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

// The limit of most tests. No token is refilled while a test runs.
const (
	interval = time.Hour
	burst    = 20
)

const address = "203.0.113.7"

// bucketOf returns the bucket of a key under the rule of most tests.
func bucketOf(key string) ratelimit.Bucket {
	return ratelimit.Bucket{Rule: ratelimit.NewRule("addresses", burst, interval), Key: key}
}

// take takes n tokens, which must be there.
func take(t *testing.T, q *ratelimit.Quota, n int, from ...ratelimit.Bucket) {
	t.Helper()
	for range n {
		require.Zero(t, q.Take(t.Context(), from...))
	}
}

// requireRefused requires that the next token is an interval away, less the duration of the test.
func requireRefused(t *testing.T, wait time.Duration) {
	t.Helper()
	require.Greater(t, wait, interval-10*time.Minute)
	require.LessOrEqual(t, wait, interval)
}

// A call is allowed after the wait of a refusal, on every server. The calls of clients that have gone count.
func TestCallIsAllowedAfterWait(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		first := quota(rdb)
		for range burst {
			require.Zero(t, first.Take(env.Cancelled(t.Context()), bucketOf(address)))
		}
		wait := quota(rdb).Take(t.Context(), bucketOf(address))
		requireRefused(t, wait)

		key := env.Only(t, env.Must(rdb.Keys(t.Context(), "*").Result())(t))
		elapse := func(d time.Duration) {
			require.NoError(t, rdb.PExpire(t.Context(), key, rdb.PTTL(t.Context(), key).Val()-d).Err())
		}
		elapse(wait - 30*time.Minute)
		require.Positive(t, quota(rdb).Take(t.Context(), bucketOf(address)))
		elapse(30 * time.Minute)
		require.Zero(t, quota(rdb).Take(t.Context(), bucketOf(address)))
		requireRefused(t, quota(rdb).Take(t.Context(), bucketOf(address)))

		// The clock of Redis is set back, as by a failover: the keys live longer, and no caller waits longer for it.
		elapse(-1000 * interval)
		requireRefused(t, quota(rdb).Take(t.Context(), bucketOf(address)))
		require.Zero(t, quota(rdb).Take(t.Context(), bucketOf("203.0.113.8")), "another key")
	})
}

// A call that counts as n takes n tokens or none, in this process and in Redis.
func TestCallOfManyTokens(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		for name, l := range map[string]*ratelimit.Quota{"shared": quota(rdb), "local": ratelimit.NewQuota("", time.Now, nil)} {
			require.Zero(t, l.TakeN(t.Context(), burst-1, bucketOf(address)), name)
			other := l
			if name == "shared" {
				other = quota(rdb) // its own bucket is full
			}
			wait := other.TakeN(t.Context(), 3, bucketOf(address))
			require.Greater(t, wait, 2*interval-10*time.Minute, name)
			require.LessOrEqual(t, wait, 2*interval, name)
			require.Zero(t, l.Take(t.Context(), bucketOf(address)), name)
			requireRefused(t, l.Take(t.Context(), bucketOf(address)))
		}
	})
}

type countingRedis struct {
	redis.Scripter
	scripts atomic.Int64
}

func (c *countingRedis) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	c.scripts.Add(1)
	return c.Scripter.EvalSha(ctx, sha, keys, args...)
}

// Keys hide phone and address, and expire. All keys of a call of a quota whose name is in braces are in one slot of a cluster.
func TestKeys(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		require.Zero(t, quota(rdb).Take(t.Context(), bucketOf(address)))
		require.Zero(t, quota(rdb).Take(t.Context(), buckets("13800000001")...))
		keys := rdb.Keys(t.Context(), "*").Val()
		require.Len(t, keys, 3)
		for _, key := range keys {
			require.Regexp(t, `^seckill:limit:\{codes\}:`, key)
			require.NotContains(t, key, address)
			require.NotContains(t, key, "13800000001")
			require.Positive(t, rdb.PTTL(t.Context(), key).Val())
		}
	})
}

// TestLocalLimitsWithoutRedis uses clients that wait for a reply without end, so that only the limit itself bounds the time
// of a call.
func TestLocalLimitsWithoutRedis(t *testing.T) {
	for name, broken := range map[string]func(*env.Redis) error{
		"down":    func(r *env.Redis) error { r.Kill(); return nil },
		"hanging": (*env.Redis).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := env.StartRedis(t)
			var log bytes.Buffer
			shared := &ratelimit.Shared{
				Redis:   redis.NewClient(&redis.Options{Addr: r.Addr, ReadTimeout: -1, ContextTimeoutEnabled: true, MaxRetries: -1}),
				Timeout: 50 * time.Millisecond,
				Secret:  []byte("a secret"), Log: slog.New(slog.NewTextHandler(&log, nil)),
			}
			l, q := ratelimit.NewQuota("requests", time.Now, shared), ratelimit.NewQuota("{codes}", time.Now, shared)
			require.Zero(t, l.Take(t.Context(), bucketOf("another key"))) // opens a connection
			require.NoError(t, broken(r))

			for range perPhone.Burst {
				require.Zero(t, l.Take(t.Context(), buckets("b")...))
				require.Zero(t, q.Take(t.Context(), buckets("a")...))
			}
			require.Positive(t, l.Take(t.Context(), buckets("b")...))
			require.Positive(t, q.Take(t.Context(), buckets("a")...))
			q.Return(t.Context(), buckets("a")...)
			require.Zero(t, q.Take(t.Context(), buckets("a")...))
			require.Equal(t, 2, strings.Count(log.String(), "holds per server only"), log.String())
		})
	}
}

type manualClock struct{ ms atomic.Int64 }

func (c *manualClock) now() time.Time          { return time.UnixMilli(1_800_000_000_000 + c.ms.Load()) }
func (c *manualClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

var (
	perPhone = ratelimit.Rule{Name: "phone", Burst: 3, Interval: time.Minute}
	inAll    = ratelimit.PerDay("all", 10, 34) // one an hour
)

func buckets(phone string) []ratelimit.Bucket {
	return []ratelimit.Bucket{{Rule: perPhone, Key: phone}, {Rule: inAll, Key: ""}}
}

// quota returns the quota as another server has it.
func quota(rdb redis.Scripter) *ratelimit.Quota {
	return ratelimit.NewQuota("{codes}", time.Now, &ratelimit.Shared{
		Redis: rdb, Timeout: time.Minute, Secret: []byte("a secret"), Log: slog.New(slog.DiscardHandler),
	})
}

func TestLocalQuota(t *testing.T) {
	var clock manualClock
	q := ratelimit.NewQuota("{codes}", clock.now, nil)
	take := func(phone string) time.Duration { return q.Take(t.Context(), buckets(phone)...) }
	for range perPhone.Burst {
		require.Zero(t, take("a"))
	}
	for range 100 {
		require.Equal(t, time.Minute, take("a"), "a refusal changes nothing")
	}
	for _, phone := range []string{"b", "b", "b", "c", "c", "c", "d"} { // seven tokens are left in all
		require.Zero(t, take(phone))
	}
	require.Equal(t, time.Hour, take("d"), "the longest wait of all buckets")
	clock.advance(time.Hour - time.Millisecond)
	require.Equal(t, time.Millisecond, take("d"))
	clock.advance(time.Millisecond)
	require.Zero(t, take("d"))
	require.Equal(t, time.Hour, take("e"))
	q.Return(t.Context(), buckets("d")...)
	require.Zero(t, take("e"), "what was returned can be taken again")
}

// Buckets that are full again, or that will be soon, take no room from those of a rule that counts for a day.
func TestUsedBucketsOutliveFullOnes(t *testing.T) {
	for _, often := range []time.Duration{time.Millisecond, time.Hour} {
		seldom := ratelimit.Bucket{Rule: ratelimit.PerDay("seldom", 1, 2), Key: "x"}
		var clock manualClock
		q := ratelimit.NewQuota("{codes}", clock.now, nil)
		require.Zero(t, q.Take(t.Context(), seldom))

		for key := range 320_000 {
			require.Zero(t, q.Take(t.Context(), ratelimit.Bucket{Rule: ratelimit.NewRule("often", 1, often), Key: strconv.Itoa(key)}))
			clock.advance(time.Millisecond)
		}

		require.Positive(t, q.Take(t.Context(), seldom), often)
	}
}

// The limit over a day counts from any moment.
func TestPerDayHoldsInAnyDay(t *testing.T) {
	rule := ratelimit.PerDay("rule", 12, 20)
	var clock manualClock
	q := ratelimit.NewQuota("{codes}", clock.now, nil)
	var allowed []int64
	for range 3 * 24 * 60 {
		for q.Take(t.Context(), ratelimit.Bucket{Rule: rule, Key: "x"}) == 0 {
			allowed = append(allowed, clock.ms.Load())
		}
		clock.advance(time.Minute)
	}
	require.GreaterOrEqual(t, len(allowed), 12+3*8-1)
	for i := range allowed[20:] {
		require.GreaterOrEqual(t, allowed[i+20]-allowed[i], (24 * time.Hour).Milliseconds())
	}
}

func TestQuotaOfThreeServers(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		var (
			wg      sync.WaitGroup
			allowed [4]atomic.Int64
		)
		for range 3 {
			q := quota(rdb)
			for i := range allowed {
				wg.Go(func() {
					for range 5 {
						if q.Take(t.Context(), buckets(string(rune('a'+i)))...) == 0 {
							allowed[i].Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		total := int64(0)
		for i := range allowed {
			require.LessOrEqual(t, allowed[i].Load(), int64(perPhone.Burst))
			total += allowed[i].Load()
		}
		require.EqualValues(t, inAll.Burst, total)
	})
}

// What Redis refuses costs no token in any bucket, and later refusals for the same reason cost no command.
func TestRefusalByRedisTakesNothing(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		counting := &countingRedis{Scripter: rdb}
		one, two := quota(rdb), quota(counting)
		take(t, one, perPhone.Burst, buckets("a")...)
		for range 50 {
			wait := two.Take(t.Context(), buckets("a")...)
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, perPhone.Interval)
		}
		require.EqualValues(t, 1, counting.scripts.Load())
		take(t, two, inAll.Burst-perPhone.Burst, ratelimit.Bucket{Rule: inAll, Key: ""})
		require.Positive(t, two.Take(t.Context(), ratelimit.Bucket{Rule: inAll, Key: ""}))
		one.Return(t.Context(), buckets("a")...)
		three := quota(rdb)
		require.Zero(t, three.Take(t.Context(), buckets("a")...))
		require.Positive(t, three.Take(t.Context(), buckets("a")...))
	})
}

func TestReturnNeverOverfills(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		q := quota(rdb)
		require.Zero(t, q.Take(t.Context(), buckets("a")...))
		q.Return(t.Context(), buckets("a")...)
		q.Return(t.Context(), buckets("a")...)
		require.Empty(t, rdb.Keys(t.Context(), "*").Val())
		take(t, q, perPhone.Burst, buckets("a")...)
		require.Positive(t, q.Take(t.Context(), buckets("a")...))
	})
}

func TestMain(m *testing.M) { env.Main(m) }

// server welcomes the connections of a limited listener with a byte. Addresses of 127.0.0.0/8 are different clients, but
// those of 127.0.1.0/24 are one, as the addresses of an IPv6 network are.
type server struct{ *connlimit.Listener }

func serve(t *testing.T, total, perClient int, exempt ...netip.Prefix) server {
	t.Helper()
	network := netip.MustParsePrefix("127.0.1.0/24")
	s := server{connlimit.New(env.Must(net.Listen("tcp", "127.0.0.1:0"))(t), connlimit.Config{
		Total: total, PerClient: perClient, Exempt: exempt,
		Client: func(a netip.Addr) string {
			if network.Contains(a) {
				return network.String()
			}
			return a.String()
		},
	})}
	served := env.Go(func() error {
		for {
			c, err := s.Accept()
			if err != nil {
				return err
			}
			go func() {
				_, _ = c.Write([]byte("x"))
				_, _ = io.Copy(io.Discard, c) // until the client closes it
				_ = c.Close()
			}()
		}
	})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, net.ErrClosed)
	})
	return s
}

// metrics returns the open connections, and the refused ones by limit.
func (s server) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collectors()...)
	families := env.Must(registry.Gather())(t)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetGauge() != nil {
				values["open"] = m.GetGauge().GetValue()
			}
			for _, l := range m.GetLabel() {
				values[l.GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// dial opens a connection from an address, which stays open.
func (s server) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := env.Must(d.DialContext(t.Context(), "tcp", s.Addr().String()))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s server) serves(t *testing.T, from string) bool {
	t.Helper()
	_, err := s.dial(t, from).Read(make([]byte, 1))
	return err == nil
}

// A client with as many connections as it may have is refused, even from another address of its network. Others are not,
// even during a flood, and neither is the client once it has closed one.
func TestLimitPerClient(t *testing.T) {
	s := serve(t, 100, 2)
	first := s.dial(t, "127.0.1.1")
	require.True(t, s.serves(t, "127.0.1.2"))
	require.False(t, s.serves(t, "127.0.1.3"))
	require.Equal(t, map[string]float64{"open": 2, "client": 1, "total": 0}, s.metrics(t))
	for range 100 {
		s.dial(t, "127.0.1.4")
	}
	require.True(t, s.serves(t, "127.0.0.2"))
	require.Equal(t, map[string]float64{"open": 3, "client": 101, "total": 0}, s.metrics(t), "the kernel keeps the order of connections")

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return s.metrics(t)["open"] == 2 }, time.Minute, time.Millisecond)
	require.True(t, s.serves(t, "127.0.1.3"))
}

// An exempt address has no limit of its own, but the limit of all connections applies to it.
func TestLimitOfAll(t *testing.T) {
	s := serve(t, 3, 1, netip.MustParsePrefix("127.0.0.2/32"))
	first := s.dial(t, "127.0.0.2")
	for _, served := range []bool{true, true, false} {
		require.Equal(t, served, s.serves(t, "127.0.0.2"))
	}
	require.False(t, s.serves(t, "127.0.0.3"))
	require.Equal(t, map[string]float64{"open": 3, "client": 0, "total": 2}, s.metrics(t))
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return s.metrics(t)["open"] == 2 }, time.Minute, time.Millisecond)
	require.True(t, s.serves(t, "127.0.0.3"))
}

func TestLimits(t *testing.T) {
	for files, want := range map[uint64][2]int{
		256: {192, 96}, 1024: {768, 384}, 4096: {3072, 1536}, 65_536: {64_512, 10_000}, 1 << 20: {1<<20 - 1024, 10_000},
	} {
		total, perClient := connlimit.Limits(files)
		require.Equal(t, want, [2]int{total, perClient})
	}
}
