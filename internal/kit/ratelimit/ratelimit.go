// Package ratelimit limits how often each key may call, in one process or over all processes that share a Redis.
package ratelimit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"
)

const (
	maxBuckets    = 200_000
	sweepInterval = time.Minute
	logInterval   = time.Minute
)

// The scripts replace redis_rate (10.0.1 of 2023, the latest), which stores points in time: if the clock of Redis is
// set back, as by a failover, it refuses the known keys until the clock has caught up.
var (
	//go:embed lua/take.lua
	takeSource string
	takeScript = redis.NewScript(takeSource)

	//go:embed lua/give.lua
	giveSource string
	giveScript = redis.NewScript(giveSource)
)

// Shared is the Redis through which limits of several processes become one.
type Shared struct {
	Redis redis.Scripter
	// Timeout bounds the delay of a call while Redis is slow or unreachable. The client needs ContextTimeoutEnabled.
	Timeout time.Duration
	// Secret hashes the keys, because Redis should not store addresses. All processes need the same.
	Secret []byte
	Log    *slog.Logger
}

// Rule allows each key a burst of calls at once, and one more per interval.
type Rule struct {
	Name  string
	Burst int
	// A whole number of milliseconds.
	Interval time.Duration
}

// NewRule returns a rule.
func NewRule(name string, burst int, interval time.Duration) Rule { return Rule{name, burst, interval} }

// PerDay returns a rule that allows each key burst calls at once and most calls in any 24 hours.
func PerDay(name string, burst, most int) Rule {
	return Rule{name, burst, (24 * time.Hour / time.Duration(most-burst)).Round(time.Millisecond)}
}

func (r Rule) cost(n int) time.Duration { return r.Interval * time.Duration(n) }

func (r Rule) refill() time.Duration { return r.Interval * time.Duration(r.Burst) }

// Bucket has the tokens of a key under a rule: one per call.
type Bucket struct {
	Rule Rule
	Key  string
}

// Quota counts each call against one or several buckets: it is allowed if all of them have the tokens, and takes them
// from each or from none. A Quota is safe for concurrent use.
//
// Every bucket exists in this process and, if the quota is shared, in Redis. The local ones are asked first, and they
// alone decide while Redis fails or does not answer within Shared.Timeout. After a call that only Redis refuses, the
// local bucket with the longest wait is as empty as that in Redis, so that a flood costs few commands. It does not notice
// if another process then returns a call.
type Quota struct {
	name string
	now  func() time.Time
	// Nil: this process only.
	shared *Shared
	failed rate.Sometimes

	mu sync.Mutex
	// When a bucket is full again; a missing bucket is full.
	local map[Bucket]time.Time
	// When the full buckets were last dropped.
	swept time.Time
}

// NewQuota returns a Quota whose local buckets follow the clock now. With shared, it holds over all processes that use
// the same name. If calls have several buckets, the name must be in braces, which keep its buckets in one cluster slot.
//
// If more than maxBuckets local buckets are in use, half of them are forgotten, and so full again: those that would be first. A
// client with many addresses cannot make the server forget the limits of a day by using up those of seconds.
func NewQuota(name string, now func() time.Time, shared *Shared) *Quota {
	return &Quota{
		name:   name,
		now:    now,
		shared: shared,
		failed: rate.Sometimes{Interval: logInterval},
		local:  map[Bucket]time.Time{},
	}
}

// Take counts a call. It returns zero if the call is allowed. Otherwise it takes nothing and returns the time after which
// every bucket has the tokens.
func (q *Quota) Take(ctx context.Context, buckets ...Bucket) time.Duration {
	return q.TakeN(ctx, 1, buckets...)
}

// TakeN is Take for a call that counts as n, which may be no more than the burst.
func (q *Quota) TakeN(ctx context.Context, n int, buckets ...Bucket) time.Duration {
	wait := q.takeLocal(n, buckets)
	if wait > 0 || q.shared == nil {
		return wait
	}

	args := make([]any, 0, 2*len(buckets))
	for _, b := range buckets {
		args = append(args, b.Rule.cost(n).Milliseconds(), b.Rule.refill().Milliseconds())
	}

	reply, err := q.run(ctx, takeScript, buckets, args)
	if err != nil || reply[0] == 0 {
		return 0
	}

	wait = time.Duration(reply[0]) * time.Millisecond
	q.giveLocal(n, buckets)
	q.emptyLocal(n, buckets[reply[1]-1], wait)
	return wait
}

// Return undoes a Take that allowed one call, because the call had no effect.
func (q *Quota) Return(ctx context.Context, buckets ...Bucket) {
	q.giveLocal(1, buckets)
	if q.shared == nil {
		return
	}

	args := make([]any, len(buckets))
	for i, b := range buckets {
		args[i] = b.Rule.Interval.Milliseconds()
	}

	// Without Redis the call stays counted.
	_, _ = q.run(ctx, giveScript, buckets, args)
}

func (q *Quota) takeLocal(n int, buckets []Bucket) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := q.now()
	var wait time.Duration
	for _, b := range buckets {
		wait = max(wait, q.taken(b, now)+b.Rule.cost(n)-b.Rule.refill())
	}

	if wait > 0 {
		return wait
	}

	if now.Sub(q.swept) >= sweepInterval || len(q.local) >= maxBuckets {
		q.sweep(now)
	}

	for _, b := range buckets {
		q.local[b] = now.Add(q.taken(b, now) + b.Rule.cost(n))
	}

	return 0
}

// taken is the time in which the bucket would be full again. It requires q.mu.
func (q *Quota) taken(b Bucket, now time.Time) time.Duration {
	return max(0, q.local[b].Sub(now))
}

// sweep drops the buckets that are full again, and at maxBuckets at least half of all. It copies the rest, because a map keeps
// the memory of its largest size. It requires q.mu.
func (q *Quota) sweep(now time.Time) {
	after := now
	if len(q.local) >= maxBuckets {
		sorted := slices.SortedFunc(maps.Values(q.local), time.Time.Compare)
		if half := sorted[len(sorted)/2]; half.After(now) {
			after = half
		}
	}

	used := map[Bucket]time.Time{}
	for b, full := range q.local {
		if full.After(after) {
			used[b] = full
		}
	}

	q.local = used
	q.swept = now
}

func (q *Quota) giveLocal(n int, buckets []Bucket) {
	q.mu.Lock()
	defer q.mu.Unlock()

	for _, b := range buckets {
		if full, ok := q.local[b]; ok {
			q.local[b] = full.Add(-b.Rule.cost(n))
		}
	}
}

func (q *Quota) emptyLocal(n int, b Bucket, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.local[b] = q.now().Add(wait + b.Rule.refill() - b.Rule.cost(n))
}

// run runs a script within the timeout, even if the client disconnects: that does not get around the limit.
func (q *Quota) run(ctx context.Context, script *redis.Script, buckets []Bucket, args []any) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.shared.Timeout)
	defer cancel()

	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = "seckill:limit:" + q.name + ":" + b.Rule.Name + ":" + q.shared.hash(b.Key)
	}

	reply, err := script.Run(ctx, q.shared.Redis, keys, args...).Int64Slice()
	if err != nil {
		q.failed.Do(func() {
			q.shared.Log.Warn("a rate limit holds per server only, because Redis fails", "limit", q.name, "err", err)
		})
	}
	return reply, err
}

func (s *Shared) hash(key string) string {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
