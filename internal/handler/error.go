package handler

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"seckill/internal/salestats"
	"seckill/internal/service"
)

// outcome is how an error is answered.
type outcome struct {
	err    error
	status int
	code   string
	title  string
}

// outcomes is the one table from errors to answers. The first row that errors.Is finds wins.
var outcomes = []outcome{
	{service.ErrUnauthenticated, http.StatusUnauthorized, "unauthenticated", "Log in first"},
	{service.ErrWrongCode, http.StatusUnauthorized, "unauthenticated", "The login code is wrong, used up or expired"},
	{service.ErrTokenExpired, http.StatusUnauthorized, "token_expired", "The access token has expired"},
	{service.ErrForbidden, http.StatusForbidden, "forbidden", "Not allowed for this user"},
	{service.ErrNoDemo, http.StatusForbidden, "forbidden", "Only in demo mode"},
	{service.ErrNotFound, http.StatusNotFound, "not_found", "Not found"},
	{service.ErrInvalidState, http.StatusConflict, "invalid_state", "Not possible in the present state"},
	{service.ErrSaleNotStarted, http.StatusConflict, "sale_not_started", "The sale has not started"},
	{service.ErrSaleEnded, http.StatusConflict, "sale_ended", "The sale has ended"},
	{service.ErrSoldOut, http.StatusConflict, "sold_out", "Sold out"},
	{service.ErrOrderInProgress, http.StatusConflict, "order_in_progress", "Your order is in progress"},
	{service.ErrIdempotencyMismatch, http.StatusUnprocessableEntity, "idempotency_mismatch", "The key was used for another request"},
	{service.ErrOverloaded, http.StatusServiceUnavailable, "overloaded", "Too many requests at this moment"},
	{service.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", "A dependency does not answer"},
}

// bare finds the outcome of an error that is not wrapped, without searching through it: that of nearly everybody when a
// sale is over.
func bare(err error) *outcome {
	for i := range outcomes {
		if err == outcomes[i].err { //nolint:errorlint // a wrapped error is found by problemOf
			return &outcomes[i]
		}
	}
	return nil
}

// internalError answers everything that the table does not know, and tells nothing of it.
var internalError = outcome{status: http.StatusInternalServerError, code: "internal", title: "Internal error"}

// problem is the body of an error answer (RFC 9457). Its type, the page of its code, is written before the rest.
type problem struct {
	Code      string         `json:"code"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail,omitempty"`
	RequestID string         `json:"request_id"`
	OrderID   *ID            `json:"order_id,omitempty"` // duplicate_order
	Errors    []problemField `json:"errors,omitempty"`   // invalid_request
}

type problemField struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Outcome names an error as the API does: "sold_out", "internal", or "ok" for none. For metrics.
func Outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if o := bare(err); o != nil {
		return o.code
	}
	p, _ := problemOf(err)
	return p.Code
}

// problemOf translates an error; retryAfter is zero where waiting does not help.
func problemOf(err error) (p problem, retryAfter time.Duration) {
	if o := bare(err); o != nil {
		return o.problem(err)
	}
	var (
		invalid   *service.InvalidError
		duplicate *service.DuplicateOrderError
		limited   *service.RateLimitedError
	)
	switch {
	case errors.As(err, &invalid):
		p = problem{
			Status: http.StatusBadRequest, Code: "invalid_request", Title: "The request is not valid", Detail: invalid.Error(),
		}
		for _, f := range invalid.Fields {
			p.Errors = append(p.Errors, problemField(f))
		}
		return p, 0
	case errors.As(err, &duplicate):
		id := ID(duplicate.OrderID)
		return problem{
			Status: http.StatusConflict, Code: "duplicate_order", Title: "You already hold an order of this voucher",
			Detail: duplicate.Error(), OrderID: &id,
		}, 0
	case errors.As(err, &limited):
		return problem{
			Status: http.StatusTooManyRequests, Code: "rate_limited", Title: "Too many requests", Detail: limited.Error(),
		}, limited.RetryAfter
	}
	o := internalError
	for _, row := range outcomes {
		if errors.Is(err, row.err) {
			o = row
			break
		}
	}
	p, retryAfter = o.problem(o.err)
	var notReady *notReadyError
	if errors.As(err, &notReady) {
		p.Detail = notReady.detail()
	}
	return p, retryAfter
}

// problem says what the outcome is. Its detail is the bare sentence: what is wrapped around it may name hosts.
func (o *outcome) problem(err error) (p problem, retryAfter time.Duration) {
	if o.status == http.StatusServiceUnavailable || o.err == service.ErrOrderInProgress { //nolint:errorlint // the table's own
		retryAfter = time.Second
	}
	p = problem{Status: o.status, Code: o.code, Title: o.title, Detail: "the log has it under the request id"}
	if err != nil {
		p.Detail = err.Error()
	}
	return p, retryAfter
}

// errorWriter turns handlers that return errors into gin handlers, and logs what nobody expected.
type errorWriter struct {
	log *slog.Logger
	// unavailable keeps an outage, with its thousands of equal errors a second, to one line a second.
	unavailable *rate.Sometimes
}

// wrap adapts a handler or a middleware: on an error the answer is written and the chain ends.
func (e *errorWriter) wrap(h func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := h(c); err != nil {
			e.write(c, err)
		}
	}
}

// write answers with the error.
func (e *errorWriter) write(c *gin.Context, err error) {
	if p, retryAfter, heard := e.judge(c, err); heard {
		respond(c, p, retryAfter)
	}
}

// judge translates an error, and logs it if it is the server's own trouble. If the caller hung up, so that nobody
// hears, it ends the chain.
func (e *errorWriter) judge(c *gin.Context, err error) (p problem, retryAfter time.Duration, heard bool) {
	if errors.Is(c.Request.Context().Err(), context.Canceled) {
		c.AbortWithStatus(statusClientGone) // nobody reads it; the metrics must not count it as our failure
		return p, 0, false
	}
	p, retryAfter = problemOf(err)
	c.Set(outcomeKey, salestats.PulseAnswerOf(p.Code))
	switch p.Status {
	case http.StatusInternalServerError:
		e.log.Error("internal error", "err", err, "request_id", requestIDOf(c), "method", c.Request.Method, "route", c.FullPath())
	case http.StatusServiceUnavailable:
		e.unavailable.Do(func() {
			e.log.Warn("answered 503", "err", err, "request_id", requestIDOf(c), "route", c.FullPath())
		})
	}
	return p, retryAfter, true
}

// statusClientGone is what proxies log for a client that hung up before it was answered (nginx's 499).
const statusClientGone = 499

// respond ends the chain with a problem.
func respond(c *gin.Context, p problem, retryAfter time.Duration) {
	p.RequestID = requestIDOf(c)
	if p.Status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", `Bearer realm="seckill"`)
	}
	if retryAfter > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
	}
	c.Abort()
	writeBody(c, p.Status, problemType, appendProblem(make([]byte, 0, 256), &p))
}

// recovery answers a panic as an internal error and logs where it came from.
func (e *errorWriter) recovery() gin.HandlerFunc {
	return func(c *gin.Context) {
		defer func() {
			v := recover()
			switch {
			case v == nil:
			case v == any(http.ErrAbortHandler): // net/http's own way to drop a connection
				panic(v)
			case c.Writer.Written():
				e.log.Error("panic after the answer began", "panic", v, "request_id", requestIDOf(c), "stack", string(debug.Stack()))
				c.Abort()
			default:
				e.log.Error("panic", "panic", v, "request_id", requestIDOf(c), "stack", string(debug.Stack()))
				p, _ := problemOf(errPanic)
				respond(c, p, 0)
			}
		}()
		c.Next()
	}
}

var errPanic = errors.New("a handler panicked")
