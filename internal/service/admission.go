package service

import (
	"context"
	"errors"
	"time"
)

// ErrGateCold says that the gate knows nothing of the voucher: it was never loaded, or Redis lost it. Nothing was
// decided; load it and ask again. It never reaches a buyer.
var ErrGateCold = errors.New("the gate is not loaded")

// Admission is a purchase that the gate let in: its unit is set aside in Redis, and it waits in the queue for the
// transaction that makes it an order, or fails it with a reason. Times are UTC with milliseconds.
type Admission struct {
	OrderID   int64
	UserID    int64
	VoucherID int64
	Amount    int64
	Currency  string
	Limit     int
	At        time.Time
	ReplyTo   string // the instance that waits for the outcome; empty if nobody does
}

// Window is when a sale is open: from Begin (inclusive) to End (exclusive).
type Window struct {
	Begin, End time.Time
}

// Ticket is what Redis knows of an admission that is not an order in the database: it is queued, or it failed.
type Ticket struct {
	Admission
	Failed   string    // why it failed, as an error code of the API; empty while it is queued
	FailedAt time.Time // zero while it is queued
}

// GateState is what the database says about a voucher at one moment, for the gate to be rebuilt from.
type GateState struct {
	Stock int64
	// Holders are the active orders.
	Holders []Holder
	// Settled are those of the order ids asked for that exist, active or not: their unit is accounted for in Stock.
	Settled []int64
}

// Holder is an active order and its user.
type Holder struct {
	OrderID int64
	UserID  int64
}

// GateReader reads, in one snapshot of the database, what the gate of a voucher must hold. inFlight are order ids
// that wait in the queue. Errors: ErrNotFound (no such sale), ErrUnavailable.
type GateReader func(ctx context.Context, voucherID int64, inFlight []int64) (GateState, error)

// Outcome is how an admission ended.
type Outcome struct {
	OrderID int64
	Failed  string // empty: the order is committed
}
