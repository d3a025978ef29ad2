package handler

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"seckill/internal/domain"
)

// Rate limits per caller and process. A login code costs money, so its limit is the lowest, but it lets a thousand
// people behind one address log in within a quarter of an hour. The limit for orders permits rapid clicks, which are
// cheap to refuse, and stops scripts. Passes have the same limit, counted separately.
const (
	codesPerSecond, codeBurst   = 1, 60
	loginsPerSecond, loginBurst = 5, 120
	// Per session, so that a thousand people behind one address can all reload before a sale opens.
	refreshesPerSecond, refreshBurst = 5, 120
	ordersPerSecond, orderBurst      = 20, 200

	maxCallers = 100_000
	callerIdle = 10 * time.Minute
)

// maxReads bounds the concurrent requests of one API that read the database. The pool for reads has fewer connections,
// so most of these requests wait for one; further requests are refused instead of queued.
const maxReads = 64

// limitConcurrency returns a middleware that admits at most most requests at a time and refuses the others with
// domain.ErrOverloaded.
func limitConcurrency(most int, refuse func(*gin.Context, error)) gin.HandlerFunc {
	semaphore := make(chan struct{}, most)
	return func(c *gin.Context) {
		select {
		case semaphore <- struct{}{}:
			defer func() { <-semaphore }()
			c.Next()
		default:
			refuse(c, domain.ErrOverloaded)
		}
	}
}

// limits are the rate limits, as token buckets in this process: they need no round trip on the hot path, and N
// processes allow N times as much.
type limits struct {
	codes, logins, orders, entries func(*gin.Context) error
	refreshes                      func(key string) error // called by the handler, after it has read the session from the token
}

func newLimits(on bool) *limits {
	if !on {
		unlimited := func(*gin.Context) error { return nil }
		return &limits{codes: unlimited, logins: unlimited, orders: unlimited, entries: unlimited, refreshes: func(string) error { return nil }}
	}
	byUser := func(c *gin.Context) string { return strconv.FormatInt(caller(c).UserID, 10) }
	return &limits{
		codes:     perKey(byAddress, limit(codesPerSecond, codeBurst)),
		logins:    perKey(byAddress, limit(loginsPerSecond, loginBurst)),
		orders:    perKey(byUser, limit(ordersPerSecond, orderBurst)),
		entries:   perKey(byUser, limit(ordersPerSecond, orderBurst)),
		refreshes: limit(refreshesPerSecond, refreshBurst),
	}
}

// perKey returns a middleware that applies a limit to the key of each request.
func perKey(key func(*gin.Context) string, limit func(string) error) func(*gin.Context) error {
	return func(c *gin.Context) error { return limit(key(c)) }
}

// byAddress returns the client's IPv4 address or IPv6 /64: providers assign a whole /64 to one customer.
func byAddress(c *gin.Context) string {
	addr, err := netip.ParseAddr(c.ClientIP())
	if err != nil {
		return c.ClientIP()
	}
	if addr = addr.Unmap(); addr.Is6() {
		if prefix, err := addr.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}

// limit returns a function that allows each key perSecond calls per second with bursts of burst calls, and returns
// *domain.RateLimitedError beyond that. At most maxCallers buckets are kept; an evicted key starts again with a full
// bucket. The function is safe for concurrent use.
func limit(perSecond float64, burst int) func(key string) error {
	buckets := otter.Must(&otter.Options[string, *rate.Limiter]{
		MaximumSize:      maxCallers,
		ExpiryCalculator: otter.ExpiryAccessing[string, *rate.Limiter](callerIdle),
	})
	return func(key string) error {
		bucket, _ := buckets.ComputeIfAbsent(key, func() (*rate.Limiter, bool) {
			return rate.NewLimiter(rate.Limit(perSecond), burst), false
		})
		r := bucket.Reserve()
		if wait := r.Delay(); wait > 0 {
			r.Cancel()
			return &domain.RateLimitedError{RetryAfter: wait}
		}
		return nil
	}
}
