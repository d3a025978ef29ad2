package handler

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/semaphore"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/ratelimit"
)

// maxReads bounds the concurrent requests of one API that read the database. The pool for reads has fewer connections,
// so most of these requests wait for one; further requests are refused instead of queued.
const maxReads = 64

// limitConcurrency returns a middleware that admits at most most requests at a time and refuses the others with
// domain.ErrOverloaded. It counts a request until its answer begins, because a client that reads slowly can delay the end
// of an answer. The handlers have the whole answer in memory by then.
func limitConcurrency(most int64, refuse func(*gin.Context, error)) gin.HandlerFunc {
	slots := semaphore.NewWeighted(most)

	return func(c *gin.Context) {
		if !slots.TryAcquire(1) {
			refuse(c, domain.ErrOverloaded)
			return
		}

		w := &limitedWriter{ResponseWriter: c.Writer, free: sync.OnceFunc(func() { slots.Release(1) })}
		defer w.free()

		c.Writer = w
		c.Next()
	}
}

// limitedWriter frees the slot of its request before the first byte of the body.
type limitedWriter struct {
	gin.ResponseWriter

	free func()
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	w.free()
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// slotWait is how long a read waits for a slot.
const slotWait = 2 * time.Second

// readInSlot calls read in one of the slots, which bound concurrent reads of the database. An answer of many pages takes one
// for each page, and none while a page is written. Error: domain.ErrOverloaded (no slot became free), or that of read.
func readInSlot[T any](ctx context.Context, slots *semaphore.Weighted, read func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()

	if slots.Acquire(ctx, 1) != nil {
		var none T
		return none, domain.ErrOverloaded
	}
	defer slots.Release(1)

	return read()
}

// limits are the rate limits; zero ones limit nothing. Those that protect people, money or the size of tables hold over all
// servers. Orders, polls and reads have one per server, because they should need no round trip: N servers allow N times as
// many.
//
// Routes of visitors have no limit in general: they are answered from memory, or have a limit of their own. The exceptions
// take a token of the address (visit) when they turn to the database: pages of vouchers beyond the catalog, and shops
// and pictures that are not cached. A payment notice takes nothing, because nothing happens without the signature of the
// provider. Most requests of staff take nothing either: merchants create sales by scripts.
type limits struct {
	orders, entries, polls, exports, refreshes, users, addresses, rows limit
	// One slot per refusal that waits.
	delayed *semaphore.Weighted
}

// limit is a rule and where its calls are counted; nil: nowhere.
type limit struct {
	rule  ratelimit.Rule
	quota *ratelimit.Quota
}

func newLimits(on bool, now func() time.Time, shared *ratelimit.Shared) *limits {
	if !on {
		return &limits{}
	}

	here := ratelimit.NewQuota("requests", now, nil)
	everywhere := ratelimit.NewQuota("requests", now, shared)

	// For rapid clicks, which are cheap to refuse, and against scripts. Package auth limits logins and their codes.
	const rapid = time.Second / 20

	return &limits{
		orders:  limit{ratelimit.NewRule("orders", 200, rapid), here},
		polls:   limit{ratelimit.NewRule("polls", 200, rapid), here},
		entries: limit{ratelimit.NewRule("entries", 200, rapid), everywhere},

		// A download that failed can be repeated at once.
		exports: limit{ratelimit.NewRule("exports", 2, time.Minute), everywhere},

		// Per session, so that a thousand people behind one address can all reload before a sale opens.
		refreshes: limit{ratelimit.NewRule("refreshes", 120, time.Second/5), everywhere},

		// Of a user, and of an address without a user. An address may have thousands of people, whose requests are nearly
		// all answered from memory.
		users:     limit{ratelimit.NewRule("users", 400, time.Second/20), here},
		addresses: limit{ratelimit.NewRule("addresses", 1000, time.Second/50), here},

		// Per user and route that stores rows. It bounds what an account can add to the tables in a day.
		rows: limit{ratelimit.NewRule("rows", 50, time.Minute), everywhere},

		delayed: semaphore.NewWeighted(maxDelayed),
	}
}

// A refusal waits for refusalDelay, so that a client that ignores Retry-After sends two requests a second over each
// connection. Refused at once, a hundred connections in a loop send 10,000, which slowed purchases twentyfold on two
// cores. At most maxDelayed refusals wait at a time.
const (
	refusalDelay = 500 * time.Millisecond
	maxDelayed   = 1000
)

// refusedKey is the context key of requests that takeSlowly refused.
const refusedKey = "refused"

// takeSlowly is take with a refusal that delay holds back.
func (l *limits) takeSlowly(c *gin.Context, limit limit, key string, n int) error {
	err := take(c, limit, key, n)
	if err != nil {
		c.Set(refusedKey, true)
	}
	return err
}

// delay is the outermost middleware that can hold a resource, so a refusal waits without a slot of limitConcurrency.
// net/http sends a short answer, and reads the next request of the connection, when the handlers have returned.
func (l *limits) delay(c *gin.Context) {
	// Without the deadline of withTimeout, which has ended.
	ctx := c.Request.Context()
	c.Next()

	if c.GetBool(refusedKey) && l.delayed.TryAcquire(1) {
		// An error: the client has disconnected.
		_ = loop.Sleep(ctx, refusalDelay)
		l.delayed.Release(1)
	}
}

// tokens returns a middleware that authenticates the user and takes n tokens, before anything is read or recorded for the
// request. Errors: *domain.RateLimitedError, and those of authenticate.
func (l *limits) tokens(n int, authenticate func(*gin.Context) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		if err := authenticate(c); err != nil {
			return err
		}
		return l.takeSlowly(c, l.users, byUser(c), n)
	}
}

func (l *limits) row(c *gin.Context) error { return take(c, l.rows, byUser(c)+" "+c.FullPath(), 1) }

func (l *limits) visit(c *gin.Context) error { return l.takeSlowly(c, l.addresses, byAddress(c), 1) }

// export takes an export of the user's data. The answer to HEAD has none.
func (l *limits) export(c *gin.Context) error {
	if isHead(c) {
		return nil
	}
	return take(c, l.exports, byUser(c), 1)
}

func perUser(limit limit) func(*gin.Context) error {
	return func(c *gin.Context) error { return take(c, limit, byUser(c), 1) }
}

func take(c *gin.Context, limit limit, key string, n int) error {
	if limit.quota == nil {
		return nil
	}
	if wait := limit.quota.TakeN(c.Request.Context(), n, ratelimit.Bucket{Rule: limit.rule, Key: key}); wait > 0 {
		return &domain.RateLimitedError{RetryAfter: wait}
	}
	return nil
}

func byUser(c *gin.Context) string { return strconv.FormatInt(caller(c).UserID, 10) }

func byAddress(c *gin.Context) string { return auth.Customer(address(c.Request)) }
