package kit_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/connlimit"
	"seckill/internal/kit/ratelimit"
	"seckill/test/env"
)

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
