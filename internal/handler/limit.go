package handler

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"seckill/internal/service"
)

// How much one caller may ask of one process. A code costs money to send, so its limit is the tightest; a
// thousand people behind one address must still get in within a quarter of an hour. A buyer may press wildly
// (the lock answers that cheaply), a script may not go on for ever.
const (
	codesPerSecond, codeBurst   = 1, 60
	loginsPerSecond, loginBurst = 5, 120
	// Of one session; a thousand people behind one address who reload before a sale opens do not share it.
	refreshesPerSecond, refreshBurst = 5, 120
	ordersPerSecond, orderBurst      = 20, 200

	maxCallers = 100_000
	callerIdle = 10 * time.Minute
)

// maxReads bounds the requests of a kind that read the database for users at once. The database has fewer connections for
// reads, so most of them wait; more are refused, and load on these routes does not grow a queue.
const maxReads = 64

// shed makes a middleware that lets at most so many requests pass at once, and refuses the others with ErrOverloaded.
func shed(most int, refuse func(*gin.Context, error)) gin.HandlerFunc {
	room := make(chan struct{}, most)
	return func(c *gin.Context) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			c.Next()
		default:
			refuse(c, service.ErrOverloaded)
		}
	}
}

// limits are token buckets per caller, kept in this process: they cost no round trip on the hot path, and N
// processes allow N times as much.
type limits struct {
	codes, logins, orders func(*gin.Context) error
	refreshes             func(key string) error // asked by the handler, who has read the token
}

func newLimits(on bool) *limits {
	if !on {
		free := func(*gin.Context) error { return nil }
		return &limits{codes: free, logins: free, orders: free, refreshes: func(string) error { return nil }}
	}
	byUser := func(c *gin.Context) string { return strconv.FormatInt(caller(c).UserID, 10) }
	return &limits{
		codes:     each(byAddress, limit(codesPerSecond, codeBurst)),
		logins:    each(byAddress, limit(loginsPerSecond, loginBurst)),
		orders:    each(byUser, limit(ordersPerSecond, orderBurst)),
		refreshes: limit(refreshesPerSecond, refreshBurst),
	}
}

// each makes a middleware of a limit and of what names the caller.
func each(key func(*gin.Context) string, limit func(string) error) func(*gin.Context) error {
	return func(c *gin.Context) error { return limit(key(c)) }
}

// byAddress names the caller's IPv4 address or IPv6 /64: one customer is given a whole /64.
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

// limit makes a function that lets each key pass perSecond times a second, and burst times at once. The
// number of buckets is bounded; one that falls out begins full again.
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
			return &service.RateLimitedError{RetryAfter: wait}
		}
		return nil
	}
}
