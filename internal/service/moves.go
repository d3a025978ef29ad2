package service

import "time"

// Move is a step in the life of an order: from one status to another, made by a compare-and-set on the status in one
// transaction with everything that follows from it. Of two moves that race for an order one wins, and the other is
// refused with ErrInvalidState and changes nothing.
type Move struct {
	Name     string // as the audit log has it
	From, To OrderStatus
}

// The moves. There are no others.
var (
	MovePay      = Move{"pay", OrderPendingPayment, OrderPaid}         // the provider says that the money has come
	MoveCancel   = Move{"cancel", OrderPendingPayment, OrderCancelled} // by the buyer, or an admin
	MoveExpire   = Move{"expire", OrderPendingPayment, OrderCancelled} // by the closer, when the time to pay is over
	MoveRedeem   = Move{"redeem", OrderPaid, OrderRedeemed}            // by the merchant
	MoveRefund   = Move{"refund", OrderPaid, OrderRefunding}           // by the buyer, or an admin: the provider is asked to return the money
	MoveRefunded = Move{"refunded", OrderRefunding, OrderRefunded}     // the provider says that it has
)

// Moves is the table of all moves: the state machine. docs/orders.md draws it, and a test holds the two together.
func Moves() []Move {
	return []Move{MovePay, MoveCancel, MoveExpire, MoveRedeem, MoveRefund, MoveRefunded}
}

// ReturnsUnit says whether the order's unit goes back on sale. It does so once in the life of an order, since no
// move leads out of a status that is not active.
func (m Move) ReturnsUnit() bool { return m.From.Active() && !m.To.Active() }

// Final says whether no move leads out of the status.
func (s OrderStatus) Final() bool {
	for _, m := range Moves() {
		if m.From == s {
			return false
		}
	}
	return s != OrderQueued
}

// Progress grows with every move: of two states of one order the later one has the greater.
func (s OrderStatus) Progress() int {
	switch s {
	case OrderQueued:
		return 1
	case OrderPendingPayment:
		return 2
	case OrderPaid:
		return 3
	case OrderRefunding:
		return 4
	case OrderRedeemed, OrderCancelled, OrderRefunded, OrderFailed:
	}
	return 5
}

// Apply sets on an order what the move sets on its row.
func (m Move) Apply(o *Order, at time.Time) {
	o.Status = m.To
	switch m.To {
	case OrderPaid:
		o.PaidAt = &at
	case OrderRedeemed:
		o.RedeemedAt = &at
	case OrderCancelled:
		o.CancelledAt = &at
	case OrderRefunded:
		o.RefundedAt = &at
	case OrderPendingPayment, OrderRefunding, OrderQueued, OrderFailed: // no time of its own
	}
	if m.ReturnsUnit() {
		o.Slot = 0
	}
}

// OrderMove asks the store to make a move.
type OrderMove struct {
	Move    Move
	OrderID int64
	UserID  int64 // whose order it must be; 0: anybody's
	By      Actor
	At      time.Time
	Detail  string // for the audit log
}
