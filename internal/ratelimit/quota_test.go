package ratelimit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/ratelimit"
	"seckill/test/testenv"
)

// manualClock is the clock of a local quota.
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
	return ratelimit.NewQuota("codes", time.Now, &ratelimit.Shared{
		Redis: rdb, Timeout: time.Minute, Secret: []byte("a secret"), Log: slog.New(slog.DiscardHandler),
	})
}

func TestLocalQuota(t *testing.T) {
	var clock manualClock
	q := ratelimit.NewQuota("codes", clock.now, nil)
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

// The limit over a day counts from any moment.
func TestPerDayHoldsInAnyDay(t *testing.T) {
	rule := ratelimit.PerDay("rule", 12, 20)
	var clock manualClock
	q := ratelimit.NewQuota("codes", clock.now, nil)
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
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		counting := &countingRedis{Scripter: rdb}
		one, two := quota(rdb), quota(counting)
		for range perPhone.Burst {
			require.Zero(t, one.Take(t.Context(), buckets("a")...))
		}
		for range 50 {
			wait := two.Take(t.Context(), buckets("a")...)
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, perPhone.Interval)
		}
		require.EqualValues(t, 1, counting.scripts.Load())
		for range inAll.Burst - perPhone.Burst {
			require.Zero(t, two.Take(t.Context(), ratelimit.Bucket{Rule: inAll, Key: ""}))
		}
		require.Positive(t, two.Take(t.Context(), ratelimit.Bucket{Rule: inAll, Key: ""}))
		one.Return(t.Context(), buckets("a")...)
		three := quota(rdb)
		require.Zero(t, three.Take(t.Context(), buckets("a")...))
		require.Positive(t, three.Take(t.Context(), buckets("a")...))
	})
}

// Returning calls to full buckets leaves them full.
func TestReturnNeverOverfills(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		q := quota(rdb)
		require.Zero(t, q.Take(t.Context(), buckets("a")...))
		q.Return(t.Context(), buckets("a")...)
		q.Return(t.Context(), buckets("a")...)
		require.Empty(t, rdb.Keys(t.Context(), "*").Val())
		for range perPhone.Burst {
			require.Zero(t, q.Take(t.Context(), buckets("a")...))
		}
		require.Positive(t, q.Take(t.Context(), buckets("a")...))
	})
}

// All keys of a call are in one slot of a cluster, and hide phone and address.
func TestQuotaKeys(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		require.Zero(t, quota(rdb).Take(t.Context(), buckets("13800000001")...))
		keys := rdb.Keys(t.Context(), "*").Val()
		require.Len(t, keys, 2)
		for _, key := range keys {
			require.True(t, strings.HasPrefix(key, "seckill:limit:{codes}:"), key)
			require.NotContains(t, key, "138")
			require.Positive(t, rdb.PTTL(t.Context(), key).Val())
		}
	})
}

func TestLocalQuotaWithoutRedis(t *testing.T) {
	r := testenv.StartRedis(t)
	var log bytes.Buffer
	q := ratelimit.NewQuota("codes", time.Now, &ratelimit.Shared{
		Redis: r.Client(t), Timeout: 50 * time.Millisecond, Secret: []byte("a secret"), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.Zero(t, q.Take(t.Context(), buckets("b")...))
	r.Kill()
	for range perPhone.Burst {
		require.Zero(t, q.Take(t.Context(), buckets("a")...))
	}
	require.Positive(t, q.Take(t.Context(), buckets("a")...))
	q.Return(t.Context(), buckets("a")...)
	require.Zero(t, q.Take(t.Context(), buckets("a")...))
	require.Equal(t, 1, strings.Count(log.String(), "holds per server only"), log.String())
}
