package service

import "time"

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

// orderStatusWords are the statuses as the API writes them.
var orderStatusWords = map[OrderStatus]string{
	OrderPendingPayment: "pending_payment",
	OrderPaid:           "paid",
	OrderRedeemed:       "redeemed",
	OrderCancelled:      "cancelled",
	OrderRefunding:      "refunding",
	OrderRefunded:       "refunded",
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
func (s OrderStatus) Active() bool { return s != OrderCancelled && s != OrderRefunded }

// Order is one unit of a voucher, held or once held by a user. Amount is in cents and was copied from the
// voucher when the order was placed. Times are UTC with milliseconds; nil means "has not happened".
type Order struct {
	ID          int64
	UserID      int64
	VoucherID   int64
	Slot        int // 1..limit_per_user while active, 0 afterwards
	Status      OrderStatus
	Amount      int64
	CreatedAt   time.Time
	ExpiresAt   time.Time // when an unpaid order may be closed
	PaidAt      *time.Time
	RedeemedAt  *time.Time
	CancelledAt *time.Time
	RefundedAt  *time.Time
}

// Purchase is a buyer's request after the service found the sale open: what a lane turns into an order.
type Purchase struct {
	UserID    int64
	VoucherID int64
	Amount    int64
	Limit     int // active orders of this voucher that the user may hold
	At        time.Time
	ExpiresAt time.Time
}

// order makes the order of a purchase, without its slot: the database hands that out.
func (p Purchase) order(id int64) Order {
	return Order{
		ID: id, UserID: p.UserID, VoucherID: p.VoucherID, Status: OrderPendingPayment,
		Amount: p.Amount, CreatedAt: p.At, ExpiresAt: p.ExpiresAt,
	}
}
