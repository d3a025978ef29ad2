package handler

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/ratelimit"
)

// Rate limits per caller, as the interval of one request and the number of requests at once. A login code costs money,
// so its limit is the lowest, but it lets a thousand people behind one address log in within a quarter of an hour. The
// limit for orders permits rapid clicks, which are cheap to refuse, and stops scripts. Entries, and polls of a place in a
// waiting room, have the same limit, counted separately.
const (
	codeInterval, codeBurst   = time.Second, 60
	loginInterval, loginBurst = time.Second / 5, 120
	// Per session, so that a thousand people behind one address can all reload before a sale opens.
	refreshInterval, refreshBurst = time.Second / 5, 120
	orderInterval, orderBurst     = time.Second / 20, 200
	exportInterval, exportBurst   = time.Minute, 2 // a download that failed can be repeated at once
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

// limits are the rate limits. Those that protect people or money hold over all servers. Orders and polls have one per
// server, because they should need no round trip: N servers allow N times as many.
type limits struct {
	codes, logins, orders, entries, polls, exports func(*gin.Context) error
	// refreshes is called by the handler, after it has read the session from the token.
	refreshes func(c *gin.Context, key string) error
}

func newLimits(on bool, shared *ratelimit.Shared) *limits {
	if !on {
		unlimited := func(*gin.Context) error { return nil }
		return &limits{
			codes: unlimited, logins: unlimited, orders: unlimited, entries: unlimited, polls: unlimited, exports: unlimited,
			refreshes: func(*gin.Context, string) error { return nil },
		}
	}
	byUser := func(c *gin.Context) string { return strconv.FormatInt(caller(c).UserID, 10) }
	return &limits{
		codes:     perKey(byAddress, ratelimit.New("codes", codeInterval, codeBurst, shared)),
		logins:    perKey(byAddress, ratelimit.New("logins", loginInterval, loginBurst, shared)),
		orders:    perKey(byUser, ratelimit.New("orders", orderInterval, orderBurst, nil)),
		polls:     perKey(byUser, ratelimit.New("polls", orderInterval, orderBurst, nil)),
		entries:   perKey(byUser, ratelimit.New("entries", orderInterval, orderBurst, shared)),
		exports:   perKey(byUser, ratelimit.New("exports", exportInterval, exportBurst, shared)),
		refreshes: enforce(ratelimit.New("refreshes", refreshInterval, refreshBurst, shared)),
	}
}

// perKey returns a middleware that applies a limit to the key of each request.
func perKey(key func(*gin.Context) string, limit *ratelimit.Limit) func(*gin.Context) error {
	check := enforce(limit)
	return func(c *gin.Context) error { return check(c, key(c)) }
}

// enforce returns a function that counts a request of key, and fails with *domain.RateLimitedError beyond the limit.
func enforce(limit *ratelimit.Limit) func(c *gin.Context, key string) error {
	return func(c *gin.Context, key string) error {
		if wait := limit.Take(c.Request.Context(), key); wait > 0 {
			return &domain.RateLimitedError{RetryAfter: wait}
		}
		return nil
	}
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
