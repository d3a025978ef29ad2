package domain

import (
	"context"
	"strings"
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
	Kind ActorKind `json:"actor" gorm:"column:actor"`
	ID   int64     `json:"actor_id,omitempty,string" gorm:"column:actor_id"`
}

// Owner returns the only user whose orders the actor may change; 0 stands for all users.
func (a Actor) Owner() int64 {
	if a.Kind == ActorBuyer {
		return a.ID
	}
	return 0
}

// AuditEntry records one action on a voucher or an order. It is written in the transaction of the action, so it exists
// if and only if the action happened. Placing an order has no entry, because the order itself records it.
type AuditEntry struct {
	ID int64     `json:"id,string"`
	At time.Time `json:"at"`
	Actor
	// The name of a Move, or one of the actions below.
	Action string `json:"action"`
	// 0 if a payment names an order that does not exist.
	VoucherID int64 `json:"voucher_id,omitempty,string"`
	// 0 for an action on the voucher.
	OrderID int64  `json:"order_id,omitempty,string" gorm:"serializer:optional"`
	Detail  string `json:"detail"`
}

// The actions that are not moves of an order.
const (
	ActionCreateVoucher = "create_voucher"
	ActionChangeVoucher = "change_voucher"
	ActionDeleteVoucher = "delete_voucher" // a draft; the detail has its title
	ActionChangeStock   = "change_stock"
	ActionRevokePasses  = "revoke_passes"
	ActionChangeRoom    = "change_room"
	ActionCreateShop    = "create_shop" // the detail names the shop
	ActionChangeShop    = "change_shop"
	ActionReturnMoney   = "return_money"   // an unmatched payment arrived, and its refund began
	ActionMoneyReturned = "money_returned" // the money of a payment has gone back, and the order did not move
	ActionOutsideReturn = "return_outside" // an admin recorded that money was returned without the provider
	ActionCloseNotice   = "close_notice"   // an admin closed an unread notice of a provider
	ActionDispute       = "dispute"        // the buyer's bank has taken back the money of a payment
)

// AuditFilter selects entries. A zero field matches every entry.
type AuditFilter struct {
	VoucherID int64
	OrderID   int64
	ActorID   int64
	Actor     ActorKind
	Action    string
	Page      Page
}

// AdminRequest records one request of a user with a role above buyer, or one command on the server.
type AdminRequest struct {
	ID int64     `json:"id,string"`
	At time.Time `json:"at"`
	// 0 for a command.
	UserID int64 `json:"actor_id,omitempty,string"`
	// Empty for a command.
	Role Role `json:"role,omitempty"`
	// The method of HTTP, or MethodCommand.
	Method string `json:"method"`
	// The pattern of the path, or the command.
	Route string `json:"route"`
	// The id in the path, or what the command was applied to; may be empty.
	Target string `json:"target,omitempty"`
	// The status of the answer; 0 if the end of the request is not known.
	Status int `json:"-"`
	// Empty for a command.
	RequestID string `json:"request_id,omitempty"`
	// The network of the client: an IPv4 /24 or an IPv6 /48; empty for a command.
	Network string `json:"network,omitempty"`
}

// maxAuditTarget bounds the target of an AdminRequest, in bytes.
const maxAuditTarget = 64

// AuditTarget returns the target of an AdminRequest, for an id of any form.
func AuditTarget(id string) string {
	return strings.ToValidUTF8(id[:min(len(id), maxAuditTarget)], "?")
}

// MethodCommand is the method of an AdminRequest that records a command on the server.
const MethodCommand = "CLI"

// RequestFilter selects requests. A zero field matches every request.
type RequestFilter struct {
	UserID int64
	Target string
	Page   Page
}

// AuditStore is the audit log. Error: ErrUnavailable.
type AuditStore interface {
	// AuditLog returns the matching entries, newest first.
	AuditLog(ctx context.Context, f AuditFilter) ([]AuditEntry, error)
	// AdminRequests returns the matching requests, newest first.
	AdminRequests(ctx context.Context, f RequestFilter) ([]AdminRequest, error)
	// RecordRequest stores a request and sets its ID.
	RecordRequest(ctx context.Context, r *AdminRequest) error
	// FinishRequest stores the status of a request that was recorded before its answer was known.
	FinishRequest(ctx context.Context, id int64, status int) error
}
