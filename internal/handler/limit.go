package handler

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/ratelimit"
)

// Rate limits per caller, as the interval of one request and the number of requests at once. The limit for orders
// permits rapid clicks, which are cheap to refuse, and stops scripts. Entries, and polls of a place in a waiting room,
// have the same limit, counted separately. Package auth limits logins and their codes.
const (
	// Per session, so that a thousand people behind one address can all reload before a sale opens.
	refreshInterval, refreshBurst = time.Second / 5, 120
	orderInterval, orderBurst     = time.Second / 20, 200
	exportInterval, exportBurst   = time.Minute, 2 // a download that failed can be repeated at once

	// Tokens of a user, and of an address without a user. An address may have thousands of people, whose requests are
	// nearly all answered from memory.
	userInterval, userBurst       = time.Second / 20, 400
	addressInterval, addressBurst = time.Second / 50, 1000
	// rowInterval bounds what an account can add to the tables in a day.
	rowInterval, rowBurst = time.Minute, 50
)

// cost is what a request takes from the buckets of its user.
type cost struct {
	// On this server, of one bucket for all routes.
	tokens int
	// Over all servers, one of a bucket for this route: the request stores rows.
	row bool
}

// defaultCost is that of a request that reads or changes a few rows.
var defaultCost = cost{tokens: 1}

// costs has the routes of logged-in users whose cost differs from defaultCost, by method and pattern. Other routes of
// admins cost nothing: merchants create sales by scripts.
//
// Routes of visitors have no cost in general: they are answered from memory, or have a limit of their own. The
// exceptions take a token of the address (limits.visit) when they turn to the database: pages of vouchers beyond the
// catalog, and shops of hm-dianping that are not cached. A payment notice costs nothing, because nothing happens
// without the signature of the provider.
var costs = map[[2]string]cost{
	// These have a limit of their own, so that purchases and polls need no further bucket.
	{http.MethodPost, "/api/v1/vouchers/:id/orders"}:      {},
	{http.MethodPost, "/voucher-order/seckill/:id"}:       {},
	{http.MethodPost, "/api/voucher-order/seckill/:id"}:   {},
	{http.MethodPost, "/api/v1/vouchers/:id/entry"}:       {},
	{http.MethodGet, "/api/v1/vouchers/:id/entry"}:        {},
	{http.MethodGet, "/api/v1/vouchers/:id/entry/events"}: {},
	{http.MethodDelete, "/api/v1/vouchers/:id/entry"}:     {row: true},
	// From memory.
	{http.MethodGet, "/api/v1/vouchers"}:     {},
	{http.MethodGet, "/api/v1/vouchers/:id"}: {},

	{http.MethodPost, "/api/v1/orders/:id/cancel"}: {tokens: 1, row: true},
	{http.MethodPost, "/api/v1/orders/:id/pay"}:    {tokens: 1, row: true},
	{http.MethodPost, "/api/v1/orders/:id/refund"}: {tokens: 1, row: true},

	// Lists of up to a hundred rows.
	{http.MethodGet, "/api/v1/orders"}:               {tokens: 5},
	{http.MethodGet, "/api/v1/admin/orders"}:         {tokens: 5},
	{http.MethodPost, "/api/v1/admin/orders/search"}: {tokens: 5},
	{http.MethodGet, "/api/v1/admin/audit"}:          {tokens: 5},
	{http.MethodGet, "/api/v1/admin/dead-letters"}:   {tokens: 5},
	// An order, its voucher and its part of the audit log.
	{http.MethodPost, "/api/v1/admin/redeem/preview"}: {tokens: 5},
	// Whole sales.
	{http.MethodGet, "/api/v1/admin/vouchers/:id/refunds"}: {tokens: 20},
	// Whole tables.
	{http.MethodGet, "/api/v1/admin/orders.csv"}:   {tokens: 20},
	{http.MethodGet, "/api/v1/admin/payments.csv"}: {tokens: 20},
	{http.MethodGet, "/api/v1/admin/audit.csv"}:    {tokens: 20},
	// A comparison of whole sales.
	{http.MethodGet, "/api/v1/admin/reconcile"}:  {tokens: 20},
	{http.MethodPost, "/api/v1/admin/reconcile"}: {tokens: 20},
}

// maxReads bounds the concurrent requests of one API that read the database. The pool for reads has fewer connections,
// so most of these requests wait for one; further requests are refused instead of queued.
const maxReads = 64

// limitConcurrency returns a middleware that admits at most most requests at a time and refuses the others with
// domain.ErrOverloaded. It counts a request until its answer begins, because a client that reads slowly can delay the end
// of an answer. The handlers have the whole answer in memory by then.
func limitConcurrency(most int, refuse func(*gin.Context, error)) gin.HandlerFunc {
	semaphore := make(slots, most)

	return func(c *gin.Context) {
		select {
		case semaphore <- struct{}{}:
		default:
			refuse(c, domain.ErrOverloaded)
			return
		}

		w := &limitedWriter{ResponseWriter: c.Writer, free: sync.OnceFunc(func() { <-semaphore })}
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

func (w *limitedWriter) WriteString(s string) (int, error) {
	w.free()
	return w.ResponseWriter.WriteString(s)
}

// Unwrap is for http.ResponseController.
func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// slots bound concurrent reads of the database: each read takes one. An answer of many pages takes one for each page, and
// none while a page is written.
type slots chan struct{}

// slotWait is how long a read waits for a slot.
const slotWait = 2 * time.Second

// do calls read in a slot. Error: domain.ErrOverloaded (no slot became free), or that of read.
func (s slots) do(ctx context.Context, read func() error) error {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()

	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return read()
	case <-ctx.Done():
		return domain.ErrOverloaded
	}
}

// limits are the rate limits. Those that protect people, money or the size of tables hold over all servers. Orders,
// polls and reads have one per server, because they should need no round trip: N servers allow N times as many.
type limits struct {
	orders, entries, polls, exports func(*gin.Context) error
	// refreshes is called by the handler, after it has read the session from the token.
	refreshes func(c *gin.Context, key string) error

	// Nil: no limit.
	users, addresses, rows *ratelimit.Limit
	// A semaphore: one element per refusal that waits.
	delayed chan struct{}
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
func (l *limits) takeSlowly(c *gin.Context, limit *ratelimit.Limit, key string, n int) error {
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

	if !c.GetBool(refusedKey) {
		return
	}

	select {
	case l.delayed <- struct{}{}:
		// An error: the client has disconnected.
		_ = loop.Sleep(ctx, refusalDelay)
		<-l.delayed
	default:
	}
}

// charge takes the cost of a request from the buckets of its user. Error: *domain.RateLimitedError; nothing is changed.
func (l *limits) charge(c *gin.Context) error {
	if l.users == nil {
		return nil
	}

	due, ok := costs[[2]string{c.Request.Method, c.FullPath()}]
	if !ok && !strings.HasPrefix(c.FullPath(), "/api/v1/admin/") {
		due = defaultCost
	}

	if due == (cost{}) {
		return nil
	}

	user := strconv.FormatInt(caller(c).UserID, 10)
	if due.tokens > 0 {
		if err := l.takeSlowly(c, l.users, user, due.tokens); err != nil {
			return err
		}
	}

	if due.row {
		return take(c, l.rows, user+" "+c.FullPath(), 1)
	}

	return nil
}

// visit takes a token of the client's address, for a read of the database or a made-up cursor. Error: *domain.RateLimitedError.
func (l *limits) visit(c *gin.Context) error {
	if l.addresses == nil {
		return nil
	}
	return l.takeSlowly(c, l.addresses, byAddress(c), 1)
}

func newLimits(on bool, now func() time.Time, shared *ratelimit.Shared) *limits {
	if !on {
		unlimited := func(*gin.Context) error { return nil }

		return &limits{
			orders:    unlimited,
			entries:   unlimited,
			polls:     unlimited,
			exports:   unlimited,
			refreshes: func(*gin.Context, string) error { return nil },
		}
	}

	byUser := func(c *gin.Context) string { return strconv.FormatInt(caller(c).UserID, 10) }

	return &limits{
		orders:    perKey(byUser, ratelimit.New("orders", orderInterval, orderBurst, now, nil)),
		polls:     perKey(byUser, ratelimit.New("polls", orderInterval, orderBurst, now, nil)),
		entries:   perKey(byUser, ratelimit.New("entries", orderInterval, orderBurst, now, shared)),
		exports:   perKey(byUser, ratelimit.New("exports", exportInterval, exportBurst, now, shared)),
		refreshes: enforce(ratelimit.New("refreshes", refreshInterval, refreshBurst, now, shared)),
		users:     ratelimit.New("users", userInterval, userBurst, now, nil),
		addresses: ratelimit.New("addresses", addressInterval, addressBurst, now, nil),
		rows:      ratelimit.New("rows", rowInterval, rowBurst, now, shared),
		delayed:   make(chan struct{}, maxDelayed),
	}
}

// perKey returns a middleware that applies a limit to the key of each request.
func perKey(key func(*gin.Context) string, limit *ratelimit.Limit) func(*gin.Context) error {
	check := enforce(limit)
	return func(c *gin.Context) error { return check(c, key(c)) }
}

// enforce returns a function that counts a request of key, and fails with *domain.RateLimitedError beyond the limit.
func enforce(limit *ratelimit.Limit) func(c *gin.Context, key string) error {
	return func(c *gin.Context, key string) error { return take(c, limit, key, 1) }
}

// take takes n tokens of key's bucket, or none and fails with *domain.RateLimitedError.
func take(c *gin.Context, limit *ratelimit.Limit, key string, n int) error {
	if wait := limit.TakeN(c.Request.Context(), key, n); wait > 0 {
		return &domain.RateLimitedError{RetryAfter: wait}
	}
	return nil
}

func byAddress(c *gin.Context) string { return auth.Customer(address(c)) }

// address returns the client's address. The zero Addr stands for all clients without one.
func address(c *gin.Context) netip.Addr {
	addr, _ := netip.ParseAddr(c.ClientIP())
	return addr
}
