package service

import (
	"context"
	"time"
)

// ActorKind is what sort of somebody did something.
type ActorKind string

// The kinds of actors.
const (
	ActorBuyer    ActorKind = "buyer"
	ActorAdmin    ActorKind = "admin"
	ActorProvider ActorKind = "provider" // a payment provider, by a signed message
	ActorSystem   ActorKind = "system"   // the server by itself
)

// Actor is who did something. ID is a user's, and 0 where there is none.
type Actor struct {
	Kind ActorKind
	ID   int64
}

// AuditEntry says who did what to which voucher or order. It is written in the transaction that does it, so that it is
// there if and only if it was done. That an order was placed is told by the order.
type AuditEntry struct {
	ID        int64
	At        time.Time
	Actor     Actor
	Action    string // the name of a Move, or one of the actions below
	VoucherID int64
	OrderID   int64 // 0: it was done to the voucher
	Detail    string
}

// The actions that are no moves of orders.
const (
	ActionCreateVoucher = "create_voucher"
	ActionChangeVoucher = "change_voucher"
	ActionChangeStock   = "change_stock"
	ActionReturnMoney   = "return_money"   // money came for an order that did not want it, and goes back
	ActionMoneyReturned = "money_returned" // it has gone back
)

// AuditFilter selects entries. Zero fields select nothing away.
type AuditFilter struct {
	VoucherID int64
	OrderID   int64
	ActorID   int64
	Page      Page
}

// AuditStore keeps the audit log.
type AuditStore interface {
	// AuditLog shows entries from the newest to the oldest.
	AuditLog(ctx context.Context, f AuditFilter) ([]AuditEntry, error)
}
