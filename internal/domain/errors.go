package domain

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/kit/batch"
)

// The errors that callers distinguish. One table in the HTTP layer maps them to codes and statuses. Any other error is
// an internal error.
var (
	ErrNotFound        = errors.New("not found")
	ErrUnauthenticated = errors.New("not authenticated")
	ErrTokenExpired    = errors.New("token expired")
	// ErrTokenReused means that a refresh token was used again after its grace. It is a copy, so the session was ended.
	ErrTokenReused = fmt.Errorf("%w: a refresh token was used again", ErrUnauthenticated)
	ErrWrongCode   = errors.New("login code wrong, used up or expired")
	// ErrTOTPRequired means that the login needs the user's second factor and the request has none. The login code
	// remains valid.
	ErrTOTPRequired = errors.New("the login needs the six digits that the authenticator app shows, as totp")
	// ErrWrongTOTP means that the second factor is wrong or was used before. The login code remains valid; the attempt
	// counts as a wrong guess.
	ErrWrongTOTP = errors.New("the digits of the authenticator app are wrong or were used already: enter the next ones")
	// ErrSecondFactorLost means that no secret of the server decrypts the user's second factor. The login code remains
	// valid.
	ErrSecondFactorLost = errors.New("the server can no longer read the second factor of this account: an administrator must enroll it again")
	ErrForbidden        = errors.New("forbidden")
	ErrInvalidState     = errors.New("not possible in the present state")
	// ErrRoomDrawn means that the waiting room of a sale has started, and that the change would need another draw.
	ErrRoomDrawn = errors.New("the line of the waiting room was drawn at the start of this sale and serves no later one: create a new sale")
	// ErrForeignHost means that the Host of the request is not a name of this machine, on which the demo runs.
	ErrForeignHost = errors.New("this demo is for its own machine: use the address that it listens on, or localhost")

	ErrSaleNotStarted = errors.New("the sale has not started")
	ErrSaleEnded      = errors.New("the sale has ended")
	ErrSoldOut        = errors.New("sold out")
	// ErrEntryRequired means that the sale needs an entry pass and the request has none that is genuine.
	ErrEntryRequired = errors.New("this sale needs an entry pass of the buyer")
	// ErrPassExpired means that the pass of the request was valid once, but it has expired, was revoked or has bought.
	ErrPassExpired = errors.New("the entry pass has expired, was revoked or has bought already")
	// ErrUnpaidLimit means that the user let as many orders of the sale expire unpaid as it allows.
	ErrUnpaidLimit = errors.New("the user did not pay earlier orders of this sale in time")
	// ErrUnpaidElsewhere means that the user has too many unpaid orders over all sales.
	ErrUnpaidElsewhere = errors.New("the user has too many unpaid orders: pay or cancel some first")
	// ErrPlaceLost means that the ticket of the waiting room was valid once, but its user left or let the turn pass.
	ErrPlaceLost       = errors.New("the place in the waiting room is lost")
	ErrOrderInProgress = errors.New("an order of this user is in progress")

	// ErrOverloaded means that this process refused the request early because of its load. Nothing was changed.
	ErrOverloaded = errors.New("overloaded")
	// ErrUnavailable means that a dependency (database, Redis) failed or did not answer in time. Usually nothing was
	// changed. If the outcome of a commit is unknown, a later read shows it.
	ErrUnavailable = errors.New("a dependency is unavailable")

	// ErrIdempotencyMismatch means that the Idempotency-Key belongs to a different request. Nothing was changed.
	ErrIdempotencyMismatch = errors.New("this Idempotency-Key was used for another request")

	// ErrIDTaken means that an order with this id exists: Redis lost the id counter. Lanes retry with a new id, so
	// buyers never receive it.
	ErrIDTaken = errors.New("order id taken")
)

// DuplicateOrderError means that the user already has as many active orders of the voucher as the sale allows.
type DuplicateOrderError struct {
	// One of these orders.
	OrderID int64
}

func (e *DuplicateOrderError) Error() string {
	return fmt.Sprintf("the user already holds order %d", e.OrderID)
}

// ChallengeRequiredError means that the sale demands a solved challenge and the request has no valid solution.
type ChallengeRequiredError struct {
	// What is wrong with the solution.
	Reason string
	// To be solved, a JSON object.
	Challenge json.RawMessage
}

func (e *ChallengeRequiredError) Error() string {
	return "this sale needs a solved challenge: " + e.Reason
}

// RateLimitedError means that the caller sent too many requests.
type RateLimitedError struct {
	// How long to wait before the next request.
	RetryAfter time.Duration
	// Empty: too many requests.
	Reason string
}

func (e *RateLimitedError) Error() string {
	wait := (e.RetryAfter + time.Second - 1).Truncate(time.Second)
	return fmt.Sprintf("%s, try again in %s", cmp.Or(e.Reason, "too many requests"), wait)
}

// FieldError describes an invalid field of the input.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// InvalidError lists the invalid fields of the input. Nothing was changed.
type InvalidError struct {
	Fields []FieldError
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Field + ": " + f.Detail
	}
	return strings.Join(parts, "; ")
}

// Invalid returns an InvalidError for one field.
func Invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Fields: []FieldError{{Field: field, Detail: fmt.Sprintf(format, args...)}}}
}

// Add appends an invalid field.
func (e *InvalidError) Add(field, format string, args ...any) {
	e.Fields = append(e.Fields, FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// AddIf is Add for a field that is invalid only if invalid is true.
func (e *InvalidError) AddIf(invalid bool, field, format string, args ...any) {
	if invalid {
		e.Add(field, format, args...)
	}
}

// Err returns e, or nil if no field is invalid.
func (e *InvalidError) Err() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// NotRedeemableError means that an order is not paid, or not any more, or not valid. It is an ErrInvalidState.
type NotRedeemableError struct {
	Order Order
	// Why a paid order is not valid.
	Validity string
}

func (e *NotRedeemableError) Error() string {
	o := e.Order
	switch {
	case o.Status == OrderRedeemed && o.RedeemedAt != nil:
		return fmt.Sprintf("order %d was redeemed at %s", o.ID, o.RedeemedAt.Format(time.RFC3339))
	case o.Disputed:
		return fmt.Sprintf("order %d is %s: the buyer's bank has taken the money back", o.ID, o.Status)
	case e.Validity != "":
		return fmt.Sprintf("order %d is %s", o.ID, e.Validity)
	default:
		return fmt.Sprintf("order %d is %s", o.ID, o.Status)
	}
}

// Unwrap returns ErrInvalidState.
func (e *NotRedeemableError) Unwrap() error { return ErrInvalidState }

// OtherShopError means that a redeemer is bound to other shops than that of an order. It is an ErrForbidden.
type OtherShopError struct {
	// The name of the order's shop.
	Name string
}

func (e *OtherShopError) Error() string { return "this is a voucher of another shop: " + e.Name }

// Unwrap returns ErrForbidden.
func (e *OtherShopError) Unwrap() error { return ErrForbidden }

// ChecklistError lists what keeps a draft from being published. It is an ErrInvalidState; nothing was changed.
type ChecklistError struct{ Fields []FieldError }

func (e *ChecklistError) Error() string { return (&InvalidError{e.Fields}).Error() }

// Unwrap returns ErrInvalidState.
func (e *ChecklistError) Unwrap() error { return ErrInvalidState }

// BatchError translates errors of package batch and returns other errors unchanged.
func BatchError(err error) error {
	switch {
	case errors.Is(err, batch.ErrFull):
		return ErrOverloaded
	case errors.Is(err, batch.ErrTimeout):
		return fmt.Errorf("%w: %w; the database or Redis is slow, or a transaction waits for a lock", ErrUnavailable, err)
	}
	return err
}
