// Package ratelimit limits how often each key may call, in one process or over all processes that share a Redis.
package ratelimit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"seckill/internal/kit/cache"
)

const (
	maxBuckets = 100_000
	bucketIdle = 10 * time.Minute

	logInterval = time.Minute
)

// The script replaces redis_rate (10.0.1 of 2023, the latest), which stores points in time: if the clock of Redis is
// set back, as by a failover, it refuses the known keys until the clock has caught up.
//
//go:embed lua/take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource)

// Shared is the Redis through which limits of several processes become one.
type Shared struct {
	Redis redis.Scripter
	// Timeout bounds the delay of a call while Redis is slow or unreachable. The client needs ContextTimeoutEnabled.
	Timeout time.Duration
	// Secret hashes the keys, because Redis should not store addresses. All processes need the same.
	Secret []byte
	Log    *slog.Logger
}

// Limit allows each key one call per interval, with bursts of burst calls. It is safe for concurrent use.
//
// Every key has a bucket in this process and, if the limit is shared, one in Redis. A call needs a token of both, the
// local one first, so that a flood on one server costs no more commands than the limit allows calls. A call that only
// Redis refuses costs a local token. This happens only while the shared bucket is empty, and both buckets refill at the
// same rate, so the local bucket is never more than one token behind the shared one.
//
// If Redis fails or does not answer within Shared.Timeout, the local bucket alone decides.
type Limit struct {
	interval time.Duration
	burst    int
	buckets  *cache.Cache[string, *rate.Limiter]
	now      func() time.Time

	name string
	// Nil: this process only.
	shared *Shared
	failed rate.Sometimes
}

// New returns a limit whose local buckets follow the clock now. With shared, it holds over all processes that use the same name, and interval should be a whole
// number of milliseconds; without, the name has no effect.
//
// At most maxBuckets local buckets are kept; an evicted key starts again with a full bucket.
func New(name string, interval time.Duration, burst int, now func() time.Time, shared *Shared) *Limit {
	return &Limit{
		interval: interval,
		burst:    burst,
		now:      now,
		name:     name,
		shared:   shared,
		failed:   rate.Sometimes{Interval: logInterval},
		buckets:  cache.New[string](cache.Options[*rate.Limiter]{MaxEntries: maxBuckets, IdleTTL: bucketIdle}),
	}
}

// TakeN counts a call of key as n calls, of which there may be no more than the burst. It returns zero if the call is
// allowed, otherwise the time after which to call again.
func (l *Limit) TakeN(ctx context.Context, key string, n int) time.Duration {
	wait := l.takeLocal(key, n)
	if wait > 0 || l.shared == nil {
		return wait
	}

	one := l.interval.Milliseconds()
	reply, err := l.shared.run(ctx, l.name, &l.failed, takeScript, []string{l.redisKey(key)}, one*int64(n), one*int64(l.burst))
	if err != nil {
		return 0
	}
	return time.Duration(reply[0]) * time.Millisecond
}

func (l *Limit) takeLocal(key string, n int) time.Duration {
	bucket := l.buckets.Add(key, func() *rate.Limiter { return rate.NewLimiter(rate.Every(l.interval), l.burst) })
	now := l.now()
	if bucket.AllowN(now, n) {
		return 0
	}
	return max(time.Millisecond, time.Duration((float64(n)-bucket.TokensAt(now))*float64(l.interval)))
}

func (l *Limit) redisKey(key string) string {
	return "seckill:limit:" + l.name + ":" + l.shared.hash(key)
}

// run runs a script of a limit within the timeout, even if the client disconnects: that does not get around the limit.
func (s *Shared) run(
	ctx context.Context, limit string, failed *rate.Sometimes, script *redis.Script, keys []string, args ...any,
) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
	defer cancel()

	reply, err := script.Run(ctx, s.Redis, keys, args...).Int64Slice()
	if err != nil {
		failed.Do(func() {
			s.Log.Warn("a rate limit holds per server only, because Redis fails", "limit", limit, "err", err)
		})
	}
	return reply, err
}

func (s *Shared) hash(key string) string {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
