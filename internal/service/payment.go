package service

import (
	"context"
	"time"
)

// PaymentStatus is where a payment is.
type PaymentStatus int8

// The payment statuses, with the numbers they have in the database.
const (
	PaymentPending   PaymentStatus = 1 // the provider was asked for the money, and has not said yet
	PaymentSucceeded PaymentStatus = 2 // the money has come, and the order was paid with it
	PaymentFailed    PaymentStatus = 3
	PaymentRefunding PaymentStatus = 4 // the money has come and goes back, because the order is refunded or did not want it
	PaymentRefunded  PaymentStatus = 5
)

func (s PaymentStatus) String() string {
	switch s {
	case PaymentPending:
		return "pending"
	case PaymentSucceeded:
		return "succeeded"
	case PaymentFailed:
		return "failed"
	case PaymentRefunding:
		return "refunding"
	case PaymentRefunded:
		return "refunded"
	}
	return "unknown"
}

// MoneyCame says whether the provider has reported a success. That is final.
func (s PaymentStatus) MoneyCame() bool {
	return s == PaymentSucceeded || s == PaymentRefunding || s == PaymentRefunded
}

// Payment is an attempt to pay for an order. Amount is in the smallest unit of the currency (cents).
type Payment struct {
	ID          int64
	OrderID     int64
	Provider    string
	Ref         string // under which the provider knows it; unique
	Amount      int64
	Currency    string // ISO 4217
	Status      PaymentStatus
	RefundTries int // how often the provider was asked to return the money
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// PaymentProvider moves money. Its methods are safe for concurrent use.
type PaymentProvider interface {
	// Create begins a payment under p.Ref, of whose end the provider tells by a notice. The same ref is the same
	// payment, so that it can be asked again when the answer was lost.
	Create(ctx context.Context, p Payment) error
	// Refund returns all the money of a payment. The same ref is the same refund.
	Refund(ctx context.Context, p Payment) error
	// Notice checks the signature of a notice and reads it. Errors: ErrUnauthenticated, *InvalidError.
	Notice(signature string, body []byte) (PaymentNotice, error)
}

// PaymentNotice is what a provider says about a payment.
type PaymentNotice struct {
	Ref       string
	OrderID   int64
	Amount    int64
	Currency  string // empty: the provider does not say
	Succeeded bool   // else it failed
}

// Settled is what a notice led to.
type Settled struct {
	Order   Order
	Payment Payment
	Changed bool // else it was known before
}

// PaymentStore keeps payments. Its methods are transactions; errors are those of this package.
type PaymentStore interface {
	// BeginPayment returns the pending payment of a provider for the user's unpaid order, and stores p as that if there
	// is none. Amount, currency and order are set from the order. What an earlier run of the request began is returned
	// as it is now. Errors: ErrNotFound, ErrInvalidState.
	BeginPayment(ctx context.Context, userID int64, p Payment) (Order, Payment, error)
	// SettlePayment stores what a provider reports. A payment that it began without us is stored. A success pays the order
	// (MovePay) if it waits for exactly this money; otherwise the money is to go back, even if there is no such order,
	// whose Settled.Order then has nothing but its id. Repeating a notice changes nothing. Errors: ErrNotFound (a failure
	// for an order that does not exist), *InvalidError (the ref is another payment's, or had another amount before).
	SettlePayment(ctx context.Context, provider string, n PaymentNotice, at time.Time) (Settled, error)
	// BeginRefund makes MoveRefund, whatever m.Move is, after which the money of the order's payment is to go back; if none has come,
	// MoveRefunded as well. What an earlier run of the request did is returned as it is now.
	// Errors: ErrNotFound, ErrInvalidState.
	BeginRefund(ctx context.Context, m OrderMove) (Order, error)
	// DueRefunds returns at most limit payments whose money is to go back now, and puts off their next try by what
	// wait says of the number of tries. Several callers share the work.
	DueRefunds(ctx context.Context, limit int, wait func(tries int) time.Duration) ([]Payment, error)
	// FinishRefund notes that the money of a payment has gone back, and makes MoveRefunded if that was the last of its
	// order's. The order is returned only then; its unit is back.
	FinishRefund(ctx context.Context, paymentID int64, at time.Time) (*Order, error)
	// Payments shows the payments of the user's order, or of anybody's if userID is 0, the oldest first. Error: ErrNotFound
	// (no such order of his).
	Payments(ctx context.Context, userID, orderID int64) ([]Payment, error)
}
