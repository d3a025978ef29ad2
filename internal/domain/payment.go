package domain

import (
	"context"
	"time"
)

// PaymentStatus is the state of a payment.
type PaymentStatus int8

// The payment statuses, with their numbers in the database.
const (
	PaymentPending   PaymentStatus = 1 // begun; the provider has not reported a result
	PaymentSucceeded PaymentStatus = 2 // the money has arrived and paid the order
	PaymentFailed    PaymentStatus = 3
	PaymentRefunding PaymentStatus = 4 // the money is being returned: the order is refunded, or the payment unmatched
	PaymentRefunded  PaymentStatus = 5
	PaymentDisputed  PaymentStatus = 6 // the buyer's bank has taken the money back
)

var paymentStatusWords = words[PaymentStatus]{
	PaymentPending:   "pending",
	PaymentSucceeded: "succeeded",
	PaymentFailed:    "failed",
	PaymentRefunding: "refunding",
	PaymentRefunded:  "refunded",
	PaymentDisputed:  "disputed",
}

func (s PaymentStatus) String() string { return paymentStatusWords.of(s) }

// MarshalText implements encoding.TextMarshaler.
func (s PaymentStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Received reports whether the money has arrived, even if it went back later.
func (s PaymentStatus) Received() bool {
	return s == PaymentSucceeded || s == PaymentRefunding || s.Returned()
}

// Returned reports whether the money has gone back.
func (s PaymentStatus) Returned() bool { return s == PaymentRefunded || s == PaymentDisputed }

// Payment is an attempt to pay for an order. Amount is in the smallest unit of its currency (cents).
type Payment struct {
	ID       int64  `json:"-"`
	OrderID  int64  `json:"-"`
	Provider string `json:"provider"`
	// Identifies the payment at the provider; unique.
	Ref      string        `json:"provider_ref" gorm:"column:provider_ref"`
	Amount   int64         `json:"amount"`
	Currency string        `json:"currency"` // ISO 4217
	Status   PaymentStatus `json:"status"`
	// Refund requests sent to the provider; for admins only.
	RefundTries int `json:"-"`
	// Why the last of them has failed; empty if none has.
	RefundError string    `json:"-"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at" gorm:"autoUpdateTime:false"`
	// Where the buyer pays; not stored, empty if the provider has no page.
	CheckoutURL string `json:"checkout_url,omitempty" gorm:"-"`
	// By the database's clock; only of payments from DueInquiries.
	ClaimedAt time.Time `json:"-" gorm:"-"`
}

// SalePayment is a payment with the voucher of its order.
type SalePayment struct {
	Payment
	// 0 if the order does not exist.
	VoucherID int64
}

// OutsideReturn records that the money of a payment was returned by other means than its provider, such as a transfer.
type OutsideReturn struct {
	OrderID int64 `json:"-"`
	// The ref of the payment.
	Ref    string    `json:"provider_ref"`
	Reason string    `json:"reason"`
	By     Actor     `json:"-"`
	At     time.Time `json:"-"`
	// The claim of the request; nil if it has no key.
	Claim *Claim `json:"-"`
}

// Validate returns an *InvalidError if the record is not acceptable for any payment.
func (r *OutsideReturn) Validate() error {
	var bad InvalidError
	bad.AddIf(r.Ref == "", "provider_ref", "is required")
	SetText(&r.Reason, &r.Reason, "reason", 1, maxTitle, &bad)
	return bad.Err()
}

// PaymentProvider takes and returns money. Its methods are safe for concurrent use.
type PaymentProvider interface {
	// Create begins a payment under p.Ref, and sets p.CheckoutURL if the buyer pays on a page of the provider. The
	// provider reports the result by a notice. Create is idempotent by p.Ref, so it can be repeated after a lost answer.
	Create(ctx context.Context, p *Payment) error
	// Refund returns the full amount of a payment. It is idempotent by p.Ref.
	Refund(ctx context.Context, p Payment) error
	// Notice verifies the signature of a notice and parses it. Errors: ErrUnauthenticated, *InvalidError with what could be
	// read.
	Notice(signature string, body []byte) (PaymentNotice, error)
}

// PaymentNotice is a provider's report about a payment.
type PaymentNotice struct {
	Source  NoticeSource `json:"source"`
	Ref     string       `json:"provider_ref,omitempty" gorm:"column:provider_ref"`
	OrderID int64        `json:"order_id,string,omitempty" gorm:"serializer:optional"`
	Amount  int64        `json:"-" gorm:"-"`
	// Empty if the provider does not report it.
	Currency string `json:"-" gorm:"-"`
	// PaymentSucceeded, PaymentFailed, PaymentRefunded or PaymentDisputed.
	Result PaymentStatus `json:"-" gorm:"-"`
	Body   []byte        `json:"-"` // as received
}

// NoticeSource is how a notice arrived.
type NoticeSource string

// The sources of notices.
const (
	SourceNotice NoticeSource = "notice" // a call of the webhook
	SourceQuery  NoticeSource = "query"  // the answer to a query
)

// Settled is the result of processing a notice, or of the end of a refund.
type Settled struct {
	Order   Order
	Payment Payment
	// False: it was a repetition.
	Changed bool
	// Whether this ended the order, and its unit is back on sale.
	Freed bool
}

// PaymentStore stores payments. Each method is one transaction. Its errors are those of this package.
type PaymentStore interface {
	// BeginPayment returns the provider's pending payment of the user's unpaid order. If there is none, it stores p
	// with the amount and currency of the order. If an earlier run of the request began a payment, it returns that
	// payment in its present state. Errors: ErrNotFound, ErrInvalidState.
	BeginPayment(ctx context.Context, claim *Claim, userID int64, p Payment) (Order, Payment, error)
	// SettlePayment stores a provider's notice. A success pays the order (MovePay) if BeginPayment has stored its ref, the
	// order is unpaid, and amount and currency match. Otherwise the payment is unmatched and its refund begins, even if
	// the order does not exist; Settled.Order then has only an id. If the provider or the buyer's bank has returned the
	// money, the order of the payment is refunded unless it was redeemed. Notices may arrive in any order, and repeating one
	// changes nothing. Errors: ErrNotFound (the ref was not begun, and no money arrived), *InvalidError (the ref belongs to
	// another payment, or the money that arrived or went back is not that of the payment).
	SettlePayment(ctx context.Context, provider string, n PaymentNotice, at time.Time) (Settled, error)
	// BeginRefund applies MoveRefund, whatever m.Move is, and makes the refund of the order's payment due. If the order
	// has no successful payment, it applies MoveRefunded as well. If an earlier run of the request began the refund, it
	// returns the order in its present state. Errors: ErrNotFound, ErrInvalidState.
	BeginRefund(ctx context.Context, m OrderMove) (Order, error)
	// DueRefunds returns at most limit payments whose refund is due, and delays the next try of each by wait(tries),
	// where tries is the number of earlier tries. The delay is also a lease, so concurrent callers get different
	// payments.
	DueRefunds(ctx context.Context, limit int, wait func(tries int) time.Duration) ([]Payment, error)
	// FinishRefund marks a payment as refunded. If it was the last refund of its order, FinishRefund applies
	// MoveRefunded, which returns the unit. If another call has finished the refund, nothing changes. Error: ErrNotFound.
	FinishRefund(ctx context.Context, p Payment, at time.Time) (Settled, error)
	// KeepNotice stores a notice that could not be processed. Of a repeated one it counts the repetitions.
	KeepNotice(ctx context.Context, n UnreadNotice) error
	// FailRefund records why a refund request has failed.
	FailRefund(ctx context.Context, paymentID int64, why string) error
	// ReturnOutside ends a refund without the provider, as FinishRefund does, and logs the reason. If an earlier run of the
	// request did so, it returns the present payment. Errors: ErrNotFound (no such payment of the order), ErrInvalidState (its
	// money is not being returned).
	ReturnOutside(ctx context.Context, r OutsideReturn) (Settled, error)
	// Payments returns the payments of an order, oldest first. A userID other than 0 must own the order. Error:
	// ErrNotFound.
	Payments(ctx context.Context, userID, orderID int64) ([]Payment, error)
}
