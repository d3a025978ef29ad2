package service

import (
	"context"
	"time"
)

// OrderStatus is where an order is in its life.
type OrderStatus int8

// The order statuses, with the numbers they have in the database.
const (
	OrderPendingPayment OrderStatus = 1
	OrderPaid           OrderStatus = 2
	OrderRedeemed       OrderStatus = 3
	OrderCancelled      OrderStatus = 4
	OrderRefunding      OrderStatus = 5
	OrderRefunded       OrderStatus = 6
)

// The statuses of admissions that are not orders in the database: they wait in the queue, or have failed.
const (
	OrderQueued OrderStatus = 100
	OrderFailed OrderStatus = 101
)

// Why an admission failed, as error codes of the API.
const (
	ReasonSoldOut   = "sold_out"
	ReasonDuplicate = "duplicate_order"
	ReasonInternal  = "internal"
)

// orderStatusWords are the statuses as the API writes them.
var orderStatusWords = map[OrderStatus]string{
	OrderPendingPayment: "pending_payment",
	OrderPaid:           "paid",
	OrderRedeemed:       "redeemed",
	OrderCancelled:      "cancelled",
	OrderRefunding:      "refunding",
	OrderRefunded:       "refunded",
	OrderQueued:         "queued",
	OrderFailed:         "failed",
}

func (s OrderStatus) String() string {
	if w, ok := orderStatusWords[s]; ok {
		return w
	}
	return "unknown"
}

// ParseOrderStatus reads the word that String writes.
func ParseOrderStatus(word string) (OrderStatus, bool) {
	for s, w := range orderStatusWords {
		if w == word {
			return s, true
		}
	}
	return 0, false
}

// Active says whether an order in this status holds a unit: it is neither cancelled nor refunded.
func (s OrderStatus) Active() bool {
	return s != OrderCancelled && s != OrderRefunded && s != OrderQueued && s != OrderFailed
}

// Stored says whether orders in this status are rows of the database.
func (s OrderStatus) Stored() bool { return s != OrderQueued && s != OrderFailed }

// Order is one unit of a voucher, held or once held by a user. Amount, in cents, and Currency were copied from the
// voucher when the order was placed. Times are UTC with milliseconds; nil means "has not happened".
type Order struct {
	ID          int64
	UserID      int64
	VoucherID   int64
	Slot        int // 1..limit_per_user while active, 0 afterwards
	Status      OrderStatus
	Amount      int64
	Currency    string // ISO 4217
	CreatedAt   time.Time
	ExpiresAt   time.Time // when an unpaid order may be closed
	PaidAt      *time.Time
	RedeemedAt  *time.Time
	CancelledAt *time.Time
	RefundedAt  *time.Time
	Reason      string // why a failed order failed, as an error code of the API
	RedeemCode  string // of a paid order, where it is shown to its owner
	// Ahead is about how many orders of the voucher are before a queued one in the line, if that is known.
	Ahead *int64
}

// Purchase is a buyer's request after the service found the sale open: what a lane turns into an order.
type Purchase struct {
	UserID    int64
	VoucherID int64
	Amount    int64
	Currency  string
	Limit     int // active orders of this voucher that the user may hold
	Window    Window
	At        time.Time
	ExpiresAt time.Time
	Deadline  time.Time     // when the buyer must have an answer
	Wait      time.Duration // how long the buyer is willing to wait for the outcome, in the lane queue
	Key       *RequestKey   // of a request with an Idempotency-Key
	// Fence is the context of the user's lock, in the lane lock: the order must not be committed after its end.
	Fence context.Context
}

// order makes the order of a purchase, without its slot: the database hands that out.
func (p Purchase) order(id int64) Order {
	return Order{
		ID: id, UserID: p.UserID, VoucherID: p.VoucherID, Status: OrderPendingPayment,
		Amount: p.Amount, Currency: p.Currency, CreatedAt: p.At, ExpiresAt: p.ExpiresAt,
	}
}

// order shows a ticket as an order. One that is queued has its full time to pay once it is committed.
func (t *Ticket) order(payTimeout time.Duration) Order {
	o := Order{
		ID: t.OrderID, UserID: t.UserID, VoucherID: t.VoucherID, Status: OrderQueued, Amount: t.Amount,
		Currency: t.Currency, CreatedAt: t.At, ExpiresAt: t.At.Add(payTimeout), Reason: t.Failed, Ahead: t.Ahead,
	}
	if t.Failed != "" {
		o.Status = OrderFailed
	}
	return o
}
