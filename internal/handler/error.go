package handler

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"seckill/internal/domain"
)

type outcome struct {
	err    error
	status int
	code   string
	title  string
}

// problem returns the answer. Its detail is the text of the outcome's error only: that of a wrapping error may contain host
// names.
func (o outcome) problem() problem {
	return problem{
		Status: o.status,
		Code:   o.code,
		Title:  o.title,
		Detail: o.err.Error(),
	}
}

// errMethodNotAllowed means that a path exists, with other methods.
var errMethodNotAllowed = errors.New("the header Allow lists the methods of this address")

// outcomes is the one table from errors to answers. The first row that matches by errors.Is wins.
var outcomes = []outcome{
	{domain.ErrUnauthenticated, http.StatusUnauthorized, "unauthenticated", "Log in first"},
	{domain.ErrWrongCode, http.StatusUnauthorized, "unauthenticated", "The login code is wrong, used up or expired"},
	{domain.ErrTOTPRequired, http.StatusUnauthorized, "totp_required", "The second factor is required"},
	{domain.ErrWrongTOTP, http.StatusUnauthorized, "totp_required", "The second factor is wrong or used up"},
	{domain.ErrTokenExpired, http.StatusUnauthorized, "token_expired", "The access token has expired"},
	{domain.ErrForbidden, http.StatusForbidden, "forbidden", "Not allowed for this user"},
	{domain.ErrSecondFactorLost, http.StatusForbidden, "forbidden", "The second factor must be enrolled again"},
	{errCrossOrigin, http.StatusForbidden, "forbidden", "Not allowed from another site"},
	{domain.ErrNoDemo, http.StatusForbidden, "forbidden", "Only in demo mode"},
	{domain.ErrForeignHost, http.StatusForbidden, "forbidden", "Not under this host name"},
	{domain.ErrEntryRequired, http.StatusForbidden, "entry_required", "An entry pass is required"},
	{domain.ErrPassExpired, http.StatusForbidden, "entry_required", "The entry pass has expired"},
	{domain.ErrPlaceLost, http.StatusForbidden, "entry_required", "The place in the waiting room is lost"},
	{domain.ErrNotFound, http.StatusNotFound, "not_found", "Not found"},
	{errMethodNotAllowed, http.StatusMethodNotAllowed, "method_not_allowed", "Not a method of this address"},
	{domain.ErrRoomDrawn, http.StatusConflict, "invalid_state", "The waiting room has been drawn"},
	{domain.ErrInvalidState, http.StatusConflict, "invalid_state", "Not possible in the present state"},
	{domain.ErrSaleNotStarted, http.StatusConflict, "sale_not_started", "The sale has not started"},
	{domain.ErrSaleEnded, http.StatusConflict, "sale_ended", "The sale has ended"},
	{domain.ErrSoldOut, http.StatusConflict, "sold_out", "Sold out"},
	{domain.ErrUnpaidLimit, http.StatusConflict, "unpaid_limit", "Too many unpaid orders"},
	{domain.ErrUnpaidElsewhere, http.StatusConflict, "unpaid_limit", "Too many unpaid orders"},
	{domain.ErrOrderInProgress, http.StatusConflict, "order_in_progress", "Your order is in progress"},
	{domain.ErrIdempotencyMismatch, http.StatusUnprocessableEntity, "idempotency_mismatch", "The key was used for another request"},
	{domain.ErrOverloaded, http.StatusServiceUnavailable, "overloaded", "Too many requests at this moment"},
	{domain.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", "A dependency does not answer"},
}

// internalError is the answer to errors without a row in the table. It reveals nothing about the cause.
var internalError = outcome{
	err:    errors.New("see the server log for this request id"),
	status: http.StatusInternalServerError,
	code:   "internal",
	title:  "Internal error",
}

// problem is the body of an error answer (RFC 9457). appendProblem adds its type, the path of the page about the code.
type problem struct {
	Code      string `json:"code"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	RequestID string `json:"request_id"`
	// duplicate_order, and invalid_state of an order that cannot be redeemed.
	OrderID *domain.ID `json:"order_id,omitempty"`
	*rareFacts
}

// rareFacts are those of errors that are no part of a rush. At least one is set.
type rareFacts struct {
	// invalid_state of a redeemed order.
	RedeemedAt *time.Time `json:"redeemed_at,omitempty"`
	// forbidden to redeem for another shop: the shop of the code.
	ShopName  string          `json:"shop_name,omitempty"`
	Challenge json.RawMessage `json:"challenge,omitempty"` // challenge_required
	// invalid_request, and invalid_state of a draft.
	Errors []domain.FieldError `json:"errors,omitempty"`
}

// Outcome returns the API's code for an error, such as "sold_out", "internal" for an unknown error, and "ok" for nil.
// It labels metrics.
func Outcome(err error) string {
	if err == nil {
		return "ok"
	}

	p, _ := problemOf(err)
	return p.Code
}

// problemOf translates an error into an answer, and returns after which time to try again: zero if waiting does not help.
func problemOf(err error) (problem, time.Duration) {
	if invalid, ok := errors.AsType[*domain.InvalidError](err); ok {
		p := outcome{invalid, http.StatusBadRequest, "invalid_request", "The request is not valid"}.problem()
		p.rareFacts = &rareFacts{Errors: invalid.Fields}
		return p, 0
	}

	if duplicate, ok := errors.AsType[*domain.DuplicateOrderError](err); ok {
		p := outcome{duplicate, http.StatusConflict, "duplicate_order", "You already hold an order of this voucher"}.problem()
		p.OrderID = (*domain.ID)(&duplicate.OrderID)
		return p, 0
	}

	if demanded, ok := errors.AsType[*domain.ChallengeRequiredError](err); ok {
		p := outcome{demanded, http.StatusForbidden, "challenge_required", "A solved challenge is required"}.problem()
		p.rareFacts = &rareFacts{Challenge: demanded.Challenge}
		return p, 0
	}

	if limited, ok := errors.AsType[*domain.RateLimitedError](err); ok {
		return outcome{limited, http.StatusTooManyRequests, "rate_limited", "Too many requests"}.problem(), limited.RetryAfter
	}

	o := internalError
	for _, row := range outcomes {
		if errors.Is(err, row.err) {
			o = row
			break
		}
	}

	p := o.problem()
	var retryAfter time.Duration
	if o.status == http.StatusServiceUnavailable || o.err == domain.ErrOrderInProgress { //nolint:errorlint // the error is a row of the table
		retryAfter = time.Second
	}

	if notReady, ok := errors.AsType[*notReadyError](err); ok {
		p.Detail = notReady.detail()
	}

	if unredeemable, ok := errors.AsType[*domain.NotRedeemableError](err); ok {
		p.Detail = unredeemable.Error()
		p.OrderID = (*domain.ID)(&unredeemable.Order.ID)
		if at := unredeemable.Order.RedeemedAt; at != nil {
			p.rareFacts = &rareFacts{RedeemedAt: at}
		}
	}

	if otherShop, ok := errors.AsType[*domain.OtherShopError](err); ok {
		p.Detail = otherShop.Error()
		if otherShop.Name != "" {
			p.rareFacts = &rareFacts{ShopName: otherShop.Name}
		}
	}

	if unfinished, ok := errors.AsType[*domain.ChecklistError](err); ok {
		p.Detail = unfinished.Error()
		p.rareFacts = &rareFacts{Errors: unfinished.Fields}
	}

	return p, retryAfter
}

// errorWriter adapts handlers that return errors to gin, and logs internal errors and outages.
type errorWriter struct {
	log      *slog.Logger
	security *securityLog
	// unavailable limits the log of an outage to one line per second.
	unavailable *rate.Sometimes
}

// wrap adapts a handler or a middleware: it writes the answer to an error and ends the chain.
func (e *errorWriter) wrap(h func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := h(c); err != nil {
			e.write(c, err)
		}
	}
}

func (e *errorWriter) write(c *gin.Context, err error) {
	if p, retryAfter, ok := e.classify(c, err); ok {
		respond(c, p, retryAfter)
	}
}

// classify translates an error, records it if it is a security event, and logs it if its status is 500 or 503. If the
// client has disconnected, a security event counts all the same; then classify ends the chain with statusClientGone,
// which keeps the request out of the failures in the metrics, and returns false.
func (e *errorWriter) classify(c *gin.Context, err error) (problem, time.Duration, bool) {
	p, retryAfter := problemOf(err)
	if p.Status != http.StatusConflict {
		// Sold out, among others: no security event, and the most frequent answers in a sale.
		e.security.observe(c, err)
	}

	if errors.Is(c.Request.Context().Err(), context.Canceled) {
		c.AbortWithStatus(statusClientGone)
		return p, 0, false
	}

	c.Set(outcomeKey, p.Code)
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

// statusClientGone is the status for a client that disconnected before the answer, as in nginx's log.
const statusClientGone = 499

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

// recovery returns a middleware that logs a panic with its stack and answers with an internal error. If the answer has
// already begun, it only logs.
func (e *errorWriter) recovery() gin.HandlerFunc {
	return func(c *gin.Context) {
		defer func() {
			v := recover()
			switch {
			case v == nil:
			case v == any(http.ErrAbortHandler):
				// The server drops the connection.
				panic(v)
			case c.Writer.Written():
				e.log.Error("panic after the answer had begun", "panic", v, "request_id", requestIDOf(c), "stack", string(debug.Stack()))
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
