package domain

import "time"

// Move is a transition of an order from one status to another. A compare-and-set on the status applies it, in one
// transaction with all its effects. Of two concurrent moves of an order one succeeds; the other fails with
// ErrInvalidState and changes nothing.
type Move struct {
	// In the audit log.
	Name     string
	From, To OrderStatus
}

// The moves of an order. There are no others.
var (
	// By the provider, when the money has arrived.
	MovePay = Move{"pay", OrderPendingPayment, OrderPaid}
	// By the buyer or an admin.
	MoveCancel = Move{"cancel", OrderPendingPayment, OrderCancelled}
	// By the closer, after the time to pay.
	MoveExpire = Move{"expire", OrderPendingPayment, OrderCancelled}
	// By the merchant.
	MoveRedeem = Move{"redeem", OrderPaid, OrderRedeemed}
	// By the buyer or an admin; begins the refund.
	MoveRefund = Move{"refund", OrderPaid, OrderRefunding}
	// By the provider, when the money was returned.
	MoveRefunded = Move{"refunded", OrderRefunding, OrderRefunded}

	// MoveUndoRedeem takes back a redemption by mistake, within UndoTime. It is the only move back.
	MoveUndoRedeem = Move{"undo_redeem", OrderRedeemed, OrderPaid}
)

// UndoTime is how long after a redemption it can be undone.
const UndoTime = time.Hour

// Moves returns all moves, which define the state machine. A test compares them with the diagram in docs/integration.md.
func Moves() []Move {
	return []Move{MovePay, MoveCancel, MoveExpire, MoveRedeem, MoveRefund, MoveRefunded, MoveUndoRedeem}
}

// ReturnsUnit reports whether the move puts the unit of the order back on sale. This happens at most once per order,
// because no move starts from an inactive status.
func (m Move) ReturnsUnit() bool { return m.From.Active() && !m.To.Active() }

// Final reports whether the status is terminal: no move but MoveUndoRedeem starts from it, and it is not OrderQueued.
func (s OrderStatus) Final() bool {
	for _, m := range Moves() {
		if m.From == s && m != MoveUndoRedeem {
			return false
		}
	}
	return s != OrderQueued
}

// Progress returns a number that grows with every move but MoveUndoRedeem, so it orders the states of one order in time.
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

// Apply changes an order as the move changes its row.
func (m Move) Apply(o *Order, at time.Time) {
	o.Status = m.To

	if m == MoveUndoRedeem {
		o.RedeemedAt = nil
		return
	}

	switch m.To {
	case OrderPaid:
		o.PaidAt = &at
	case OrderRedeemed:
		o.RedeemedAt = &at
	case OrderCancelled:
		o.CancelledAt = &at
	case OrderRefunded:
		o.RefundedAt = &at
	case OrderPendingPayment, OrderRefunding, OrderQueued, OrderFailed:
		// Without a timestamp.
	}

	if m.ReturnsUnit() {
		o.Slot = 0
	}
}

// CheckUndo returns ErrInvalidState if the redemption of an order cannot be undone any more.
func (o *Order) CheckUndo(at time.Time) error {
	if o.Status != OrderRedeemed || o.RedeemedAt == nil || at.Sub(*o.RedeemedAt) > UndoTime {
		return ErrInvalidState
	}
	return nil
}

// OrderMove is a request to apply a move to an order.
type OrderMove struct {
	Move    Move
	OrderID int64
	// A buyer may only move an own order.
	By Actor
	At time.Time
	// For the audit log.
	Detail string
	// Check refuses a move of the order as it is before. Nil allows it.
	Check func(before *Order) error
	// The claim of the request; nil if it has no key.
	Claim *Claim
}

// AdminMoves returns the names of the moves that an admin may make with an order in this status.
func AdminMoves(s OrderStatus) []string {
	names := []string{}
	for _, m := range Moves() {
		byAdmin := m == MoveCancel || m == MoveRefund || m == MoveRedeem
		if byAdmin && m.From == s {
			names = append(names, m.Name)
		}
	}
	return names
}
