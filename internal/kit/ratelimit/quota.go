package ratelimit

import (
	"context"
	_ "embed"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"seckill/internal/kit/cache"
)

//go:embed lua/give.lua
var giveSource string

var giveScript = redis.NewScript(giveSource)

// Rule allows each key Burst calls at once, and one more per Interval.
type Rule struct {
	Name  string
	Burst int
	// A whole number of milliseconds.
	Interval time.Duration
}

// PerDay returns a rule that allows each key burst calls at once and most calls in any 24 hours.
func PerDay(name string, burst, most int) Rule {
	return Rule{name, burst, (24 * time.Hour / time.Duration(most-burst)).Round(time.Millisecond)}
}

func (r Rule) full() time.Duration { return r.Interval * time.Duration(r.Burst) }

// Bucket is the bucket of a key under a rule.
type Bucket struct {
	Rule Rule
	Key  string
}

// Quota counts each call against several buckets at once: it is allowed if all of them have a token, and takes either
// one from each or none. A Quota is safe for concurrent use.
//
// As with Limit, every bucket exists in this process and in Redis, the local ones are asked first, and they alone decide
// while Redis fails. After a call that only Redis refuses, the local bucket with the longest wait is as empty as that in
// Redis, so that a flood costs few commands. It does not notice if another process then returns a call.
type Quota struct {
	name string
	now  func() time.Time
	// Nil: this process only.
	shared *Shared
	failed rate.Sometimes

	// Makes a call's changes of local one step.
	mu sync.Mutex
	// When a bucket is full again; a missing bucket is full.
	local *cache.Cache[string, time.Time]
}

// NewQuota returns a Quota. With shared, it holds over all processes that use the same name.
//
// At most maxBuckets local buckets are kept; an evicted one is full again.
func NewQuota(name string, now func() time.Time, shared *Shared) *Quota {
	return &Quota{
		name:   name,
		now:    now,
		shared: shared,
		failed: rate.Sometimes{Interval: logInterval},
		local: cache.New[string](cache.Options[time.Time]{
			MaxEntries: maxBuckets, TTLOf: func(full time.Time) time.Duration { return full.Sub(now()) },
		}),
	}
}

// Take counts a call. It returns zero if the call is allowed. Otherwise it takes nothing and returns the time after
// which every bucket has a token.
func (q *Quota) Take(ctx context.Context, buckets ...Bucket) time.Duration {
	wait := q.takeLocal(buckets)
	if wait > 0 || q.shared == nil {
		return wait
	}

	keys := make([]string, len(buckets))
	args := make([]any, 0, 2*len(buckets))
	for i, b := range buckets {
		keys[i] = q.redisKey(b)
		args = append(args, b.Rule.Interval.Milliseconds(), b.Rule.full().Milliseconds())
	}

	reply, err := q.shared.run(ctx, q.name, &q.failed, takeScript, keys, args...)
	if err != nil || reply[0] == 0 {
		return 0
	}

	wait = time.Duration(reply[0]) * time.Millisecond
	q.giveLocal(buckets)
	q.emptyLocal(buckets[reply[1]-1], wait)
	return wait
}

func (q *Quota) emptyLocal(b Bucket, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.local.Set(b.id(), q.now().Add(wait+b.Rule.full()-b.Rule.Interval))
}

// Return undoes a Take that allowed a call, because the call had no effect.
func (q *Quota) Return(ctx context.Context, buckets ...Bucket) {
	q.giveLocal(buckets)
	if q.shared == nil {
		return
	}

	keys := make([]string, len(buckets))
	args := make([]any, len(buckets))
	for i, b := range buckets {
		keys[i] = q.redisKey(b)
		args[i] = b.Rule.Interval.Milliseconds()
	}

	// Without Redis the call stays counted.
	_, _ = q.shared.run(ctx, q.name, &q.failed, giveScript, keys, args...)
}

func (q *Quota) takeLocal(buckets []Bucket) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := q.now()
	var wait time.Duration
	for _, b := range buckets {
		wait = max(wait, q.taken(b, now)+b.Rule.Interval-b.Rule.full())
	}

	if wait > 0 {
		return wait
	}

	for _, b := range buckets {
		q.local.Set(b.id(), now.Add(q.taken(b, now)+b.Rule.Interval))
	}

	return 0
}

func (q *Quota) giveLocal(buckets []Bucket) {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := q.now()
	for _, b := range buckets {
		if taken := q.taken(b, now) - b.Rule.Interval; taken > 0 {
			q.local.Set(b.id(), now.Add(taken))
		} else {
			q.local.Delete(b.id())
		}
	}
}

func (q *Quota) taken(b Bucket, now time.Time) time.Duration {
	full, _ := q.local.Get(b.id())
	return max(0, full.Sub(now))
}

func (b Bucket) id() string { return b.Rule.Name + " " + b.Key }

func (q *Quota) redisKey(b Bucket) string {
	return "seckill:limit:{" + q.name + "}:" + b.Rule.Name + ":" + q.shared.hash(b.Key)
}
