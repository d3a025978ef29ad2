package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/batch"
)

// The outcomes that a caller must be able to tell apart. The HTTP layer has one table that maps them to codes
// and statuses; anything else is an internal error.
var (
	ErrNotFound        = errors.New("not found")
	ErrUnauthenticated = errors.New("not authenticated")
	ErrTokenExpired    = errors.New("token expired")
	ErrWrongCode       = errors.New("login code wrong, used up or expired")
	ErrForbidden       = errors.New("forbidden")
	ErrInvalidState    = errors.New("not possible in the present state")

	ErrSaleNotStarted  = errors.New("the sale has not started")
	ErrSaleEnded       = errors.New("the sale has ended")
	ErrSoldOut         = errors.New("sold out")
	ErrOrderInProgress = errors.New("an order of this user is in progress")

	// ErrOverloaded says that this process refused early because it has too much to do.
	ErrOverloaded = errors.New("overloaded")
	// ErrUnavailable says that a dependency (database, Redis) did not answer. Nothing was changed as far as is
	// known; where a commit's outcome could not be found out, asking again tells the truth.
	ErrUnavailable = errors.New("a dependency is unavailable")

	// ErrIdempotencyMismatch says that the key of a request was used for another request. Nothing was changed.
	ErrIdempotencyMismatch = errors.New("this Idempotency-Key was used for another request")

	// ErrIDTaken says that an order with this id exists already: the id counter was lost. It never reaches a
	// caller of this package; a fresh id is taken.
	ErrIDTaken = errors.New("order id taken")
)

// DuplicateOrderError says that the user holds as many active orders of the voucher as the sale allows.
type DuplicateOrderError struct {
	OrderID int64 // one of the orders that the user holds
}

func (e *DuplicateOrderError) Error() string {
	return fmt.Sprintf("the user already holds order %d", e.OrderID)
}

// RateLimitedError says that the caller asks too often.
type RateLimitedError struct {
	RetryAfter time.Duration // when it is worth trying again
}

func (e *RateLimitedError) Error() string {
	return fmt.Sprintf("too many requests, try again in %s", e.RetryAfter)
}

// FieldError names one field of the input and what is wrong with it.
type FieldError struct {
	Field  string
	Detail string
}

// InvalidError says which fields of the input are wrong. Nothing was changed.
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

// Invalid makes an InvalidError for one field.
func Invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Fields: []FieldError{{Field: field, Detail: fmt.Sprintf(format, args...)}}}
}

// add collects one more wrong field.
func (e *InvalidError) add(field, format string, args ...any) {
	e.Fields = append(e.Fields, FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// orNil returns e as an error, or nil if no field is wrong.
func (e *InvalidError) orNil() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// batchError translates the errors of package batch; others are returned as they are.
func batchError(err error) error {
	switch {
	case errors.Is(err, batch.ErrFull):
		return ErrOverloaded
	case errors.Is(err, batch.ErrTimeout):
		return ErrUnavailable
	}
	return err
}
