package domain

import (
	"context"
	"time"
)

// ActorKind is the kind of an Actor.
type ActorKind string

// The kinds of actors.
const (
	ActorBuyer    ActorKind = "buyer"
	ActorAdmin    ActorKind = "admin"
	ActorProvider ActorKind = "provider" // a payment provider, by a signed notice
	ActorSystem   ActorKind = "system"   // a background task of the server
)

// Actor is the origin of an audited action. ID is a user id for buyers and admins, otherwise 0.
type Actor struct {
	Kind ActorKind
	ID   int64
}

// AuditEntry records one action on a voucher or an order. It is written in the transaction of the action, so it exists
// if and only if the action happened. Placing an order has no entry, because the order itself records it.
type AuditEntry struct {
	ID        int64
	At        time.Time
	Actor     Actor
	Action    string // the name of a Move, or one of the actions below
	VoucherID int64
	OrderID   int64 // 0 for an action on the voucher
	Detail    string
}

// The actions that are not moves of an order.
const (
	ActionCreateVoucher = "create_voucher"
	ActionChangeVoucher = "change_voucher"
	ActionChangeStock   = "change_stock"
	ActionRevokePasses  = "revoke_passes"
	ActionChangeRoom    = "change_room"
	ActionReturnMoney   = "return_money"   // an unmatched payment arrived, and its refund began
	ActionMoneyReturned = "money_returned" // the refund of an unmatched payment is done
)

// AuditFilter selects entries. A zero field matches every entry.
type AuditFilter struct {
	VoucherID int64
	OrderID   int64
	ActorID   int64
	Page      Page
}

// AuditStore reads the audit log. Error: ErrUnavailable.
type AuditStore interface {
	// AuditLog returns the matching entries, newest first.
	AuditLog(ctx context.Context, f AuditFilter) ([]AuditEntry, error)
}
