package domain

import (
	"cmp"
	"context"
	"time"
)

// OrderStatus is the status of an order. docs/integration.md shows the transitions.
type OrderStatus int8

// The statuses of orders in the database, with the numbers stored there.
const (
	OrderPendingPayment OrderStatus = 1
	OrderPaid           OrderStatus = 2
	OrderRedeemed       OrderStatus = 3
	OrderCancelled      OrderStatus = 4
	OrderRefunding      OrderStatus = 5
	OrderRefunded       OrderStatus = 6
)

// The statuses of admissions that are not in the database: they wait in the queue or have failed.
const (
	OrderQueued OrderStatus = 100
	OrderFailed OrderStatus = 101
)

// The reasons why an admission failed, as error codes of the API.
const (
	ReasonSoldOut   = "sold_out"
	ReasonDuplicate = "duplicate_order"
	ReasonMismatch  = "idempotency_mismatch"
	ReasonPassUsed  = "entry_required"
	ReasonInternal  = "internal"
)

var orderStatusWords = words[OrderStatus]{
	OrderPendingPayment: "pending_payment",
	OrderPaid:           "paid",
	OrderRedeemed:       "redeemed",
	OrderCancelled:      "cancelled",
	OrderRefunding:      "refunding",
	OrderRefunded:       "refunded",
	OrderQueued:         "queued",
	OrderFailed:         "failed",
}

func (s OrderStatus) String() string { return orderStatusWords.of(s) }

// MarshalText implements encoding.TextMarshaler.
func (s OrderStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseOrderStatus is the inverse of String. It returns false for an unknown word.
func ParseOrderStatus(word string) (OrderStatus, bool) { return orderStatusWords.parse(word) }

// Active reports whether orders in this status hold a unit: stored orders that are neither cancelled nor refunded.
func (s OrderStatus) Active() bool {
	return s != OrderCancelled && s != OrderRefunded && s != OrderQueued && s != OrderFailed
}

// ActiveStatuses returns the statuses for which Active is true.
func ActiveStatuses() []OrderStatus {
	return []OrderStatus{OrderPendingPayment, OrderPaid, OrderRedeemed, OrderRefunding}
}

// Stored reports whether orders in this status are rows of the database.
func (s OrderStatus) Stored() bool { return s != OrderQueued && s != OrderFailed }

// Order is a user's purchase of one unit of a voucher. Amount and Currency are copied from the voucher when the order
// is placed. Times are UTC with milliseconds; nil means that the event has not happened.
type Order struct {
	ID        int64 `json:"id,string"`
	UserID    int64 `json:"user_id,string"`
	VoucherID int64 `json:"voucher_id,string"`
	// 1..limit_per_user while active, 0 afterwards.
	Slot      int         `json:"-"`
	Status    OrderStatus `json:"status"`
	Amount    int64       `json:"amount"`   // in cents
	Currency  string      `json:"currency"` // ISO 4217
	CreatedAt time.Time   `json:"created_at"`
	// From then on, an unpaid order may be closed.
	ExpiresAt   time.Time  `json:"expires_at"`
	PaidAt      *time.Time `json:"paid_at,omitempty"`
	RedeemedAt  *time.Time `json:"redeemed_at,omitempty"`
	CancelledAt *time.Time `json:"cancelled_at,omitempty"`
	RefundedAt  *time.Time `json:"refunded_at,omitempty"`
	// Whether the buyer's bank has taken back a payment.
	Disputed bool `json:"disputed,omitempty"`
	// The reason of a failed order: an error code of the API.
	Reason string `json:"reason,omitempty" gorm:"-"`
	// Only of a paid order, in answers to its owner.
	RedeemCode string `json:"redeem_code,omitempty" gorm:"-"`
	// Ahead is the approximate number of orders of the voucher in front of a queued one; nil if it is unknown.
	Ahead *int64 `json:"ahead,omitempty" gorm:"-"`
	// The offer of what was bought; zero if another program or an earlier release placed the order.
	OfferID OfferID `json:"-" gorm:"serializer:optional"`
	// Offer is what was bought or, if OfferID is unknown, what the voucher says now. It is nil if the voucher does not
	// exist, and in code that shows no order.
	Offer *Offer `json:"-" gorm:"-"`
}

// Purchase is a buyer's request for one unit of an open sale. A lane turns it into an order.
type Purchase struct {
	// What is known of the order. The lane sets its id.
	Admission
	// Nil if it is unknown.
	Offer     *Offer
	Window    Window
	ExpiresAt time.Time
	// The deadline of the answer to the buyer.
	Deadline time.Time
	// In lane queue, how long the buyer waits for the outcome.
	Wait time.Duration
	// The entry pass of the request; empty if there is none.
	Pass string
	// SoldOut means that the buyer gets no unit: lane queue only finds out whether an order of the buyer is the answer.
	SoldOut bool
	// Fence is the context of the user's lock in lane lock. The order must not be committed after it has ended.
	Fence context.Context
}

// Order returns the order that an admission becomes, to be paid until expires.
func (a *Admission) Order(expires time.Time) Order {
	return Order{
		ID:        a.OrderID,
		UserID:    a.UserID,
		VoucherID: a.VoucherID,
		Status:    OrderPendingPayment,
		Amount:    a.Amount,
		Currency:  a.Currency,
		CreatedAt: a.At,
		ExpiresAt: expires,
		OfferID:   a.OfferID,
	}
}

// NewOrder returns the order that an admission becomes, with its conditions. Its slot is assigned by the database.
func (a *Admission) NewOrder(expires time.Time) NewOrder {
	return NewOrder{
		Order: a.Order(expires),
		Limit: a.Limit,
		Round: a.Round,
		Key:   a.Key,
		Trace: a.Trace,
	}
}

// Order returns the order that a ticket represents. payTimeout is the default of the server. ExpiresAt is provisional
// while the order is queued: see Committer.Commit.
func (t *Ticket) Order(payTimeout time.Duration) Order {
	o := t.Admission.Order(t.At.Add(cmp.Or(t.PayTimeout, payTimeout)))
	o.Status = OrderQueued
	o.Reason = t.Failed
	o.Ahead = t.Ahead

	if t.Failed != "" {
		o.Status = OrderFailed
	}

	return o
}
