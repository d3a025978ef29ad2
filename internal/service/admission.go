package service

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrGateCold says that the gate knows nothing of the voucher: it was never loaded, or Redis lost it. Nothing was
// decided; load it and ask again. It never reaches a buyer.
var ErrGateCold = errors.New("the gate is not loaded")

// ErrGateBroken says that a key of the gate is of another kind or holds no number: somebody else wrote it. Until the
// gate is rebuilt nobody is admitted.
var ErrGateBroken = errors.New("the gate cannot be read")

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
	ReplyTo   string      // the instance that waits for the outcome; empty if nobody does
	Place     int64       // in the line of its voucher, from 1: the gate gives it
	Key       *RequestKey // of the request, without its name; nil if it has none
}

// RepeatedError says that the gate let an earlier request with the same key in.
type RepeatedError struct {
	OrderID int64
}

func (e *RepeatedError) Error() string {
	return fmt.Sprintf("order %d was placed by the same request", e.OrderID)
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
	// Ahead is how many admissions of the voucher are before it in the queue; nil if it is not in it, or that is not known.
	// It is an estimate: what was put back into the queue is at its end and keeps its place.
	Ahead *int64
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

// GateLevel are the gate's accounts of one voucher, all of one moment.
type GateLevel struct {
	Stock   int64 // units that may be admitted; below zero if the database lost units meanwhile
	Held    int64 // order ids that buyers hold: active orders and queued admissions
	Users   int64 // buyers who hold them; of a sale with a limit of one it is Held
	Sum     int64 // of these ids modulo LevelDigits
	Queued  int64 // admissions of this voucher that are not settled
	Version int64 // grows with every change, and with every load
	Built   int64 // the version of the last load
	Backlog int64 // entries of the shard's stream, of all vouchers; each has at least one admission
}

// LevelDigits is what ids are taken modulo before they are summed up, in Redis as their last nine digits. As many
// other orders have another sum: who holds one is not seen by counting.
const LevelDigits = 1_000_000_000

// GateView is all that Redis holds of a voucher, read page by page while buyers buy.
type GateView struct {
	Level GateLevel // of the moment when the reading began; zero if the gate is cold or broken

	Cold      bool // not loaded
	Loading   bool // it is cold, and a loader has been at work on it for less than a minute
	Leftovers bool // it is cold, but some of its keys are there
	Broken    bool // a key is of another kind, or holds no number

	TooMany    bool     // there are more buyers than were asked for, and they were not read
	Buyers     []Holder // what buyers hold, in no order and possibly repeated
	Unreadable int      // what buyers hold and is no order id
	Tickets    []Holder // what buyers see as queued
	Queue      []Queued // admissions in the stream
	Letters    []Holder // dead letters, the newest first; of a thousand of the shard
}

// Queued is an admission in the stream.
type Queued struct {
	Holder
	Since time.Time // by the clock of Redis
}

// GateReader reads, in one snapshot of the database, what the gate of a voucher must hold. inFlight are order ids
// that wait in the queue. Errors: ErrNotFound (no such sale), ErrUnavailable.
type GateReader func(ctx context.Context, voucherID int64, inFlight []int64) (GateState, error)

// Outcome is how an admission ended.
type Outcome struct {
	OrderID int64
	Failed  string // empty: the order is committed
}
