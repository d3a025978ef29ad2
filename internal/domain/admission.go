package domain

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrGateCold means that the gate has no data of the voucher: it was never loaded, or Redis lost it. Nothing was
// decided. Load the gate and retry. Buyers never receive this error.
var ErrGateCold = errors.New("the gate is not loaded")

// ErrGateLacking means that the gate cannot say that a buyer has no order, because Redis may have lost admissions since
// the gate was loaded. A worker may hold one of the buyer. Load the gate and retry.
var ErrGateLacking = fmt.Errorf("%w: Redis may have lost admissions", ErrUnavailable)

// ErrGateReplaced means that an admission is not of the present generation of the sale's gate, which may not have it. It
// is committed only after the gate has confirmed it.
var ErrGateReplaced = fmt.Errorf("%w: the gate was loaded after a loss of data", ErrUnavailable)

// ErrGateBroken means that a key of the gate has a wrong type or is not a number: another program wrote it. The gate
// admits no purchase until it is rebuilt.
var ErrGateBroken = errors.New("the gate cannot be read")

// Admission is a purchase on its way to an order. In lane queue the gate has admitted it: its unit is reserved in Redis, and it
// waits in the queue for the transaction that commits it as an order or fails it with a reason. Times are UTC with
// milliseconds.
type Admission struct {
	// 0 until the lane has one.
	OrderID   int64
	UserID    int64
	VoucherID int64
	Amount    int64
	Currency  string
	// The most active orders of this voucher per user.
	Limit int
	At    time.Time
	// PayTimeout is that of the sale at the time of the admission; 0 selects the default of the server.
	PayTimeout time.Duration
	// The offer of what is bought; zero if it is unknown, or an earlier release admitted it.
	OfferID OfferID
	// The round of the pass of a waiting room; 0 without one.
	Round uint32
	// The position in the queue of the voucher, from 1, assigned by the gate.
	Place int64
	// Nil for a request without an Idempotency-Key. In the queue it has no name.
	Key *RequestKey
	// Nil unless the request is sampled.
	Trace *Trace
	// The generation of the gate, assigned by it.
	Generation int64
}

// RepeatedError means that the gate admitted an earlier request with the same key.
type RepeatedError struct {
	OrderID int64
}

func (e *RepeatedError) Error() string {
	return fmt.Sprintf("order %d was placed by the same request", e.OrderID)
}

// Window is the time in which a sale is open: [Begin, End).
type Window struct {
	Begin, End time.Time
}

// Ticket is the record in Redis of an admission that is not an order in the database: it is queued, or it failed.
type Ticket struct {
	Admission
	// The reason of the failure, as an error code of the API; empty while it is queued.
	Failed string
	// Ahead estimates how many admissions of the voucher are in front of it in the queue; nil if it is not queued, or
	// the number is unknown. The estimate is off for retried admissions: they move to the end of the queue and keep
	// their Place.
	Ahead *int64
}

// GateState is a snapshot of a voucher in the database, from which its gate is rebuilt.
type GateState struct {
	Stock int64
	// The active orders.
	Holders []Holder
	// Settled are the requested order ids that exist, active or not. Stock accounts for their units.
	Settled []int64
}

// Holder identifies an order and its user, usually of an active order.
type Holder struct {
	OrderID int64 `json:"order_id,string"`
	UserID  int64 `json:"user_id,string"`
}

// GateLevel is a snapshot of the counters of a voucher's gate.
type GateLevel struct {
	// Units left to admit; negative if units were removed from the database meanwhile.
	Stock int64
	// Order ids that occupy a unit: active orders and queued admissions.
	Held int64 `redis:"held"`
	// Users with at least one of them; equal to Held if the limit per user is 1.
	Users int64
	// The sum of these ids, each modulo LevelDigits.
	Sum int64 `redis:"sum"`
	// Admissions of this voucher that are not settled.
	Queued int64 `redis:"queued"`
	// Grows with every change and every load.
	Version int64 `redis:"version"`
	// The version of the last load.
	Built int64 `redis:"built"`
	// Entries in the stream of the shard, of all vouchers; each has at least one admission.
	Backlog int64
}

// LevelDigits is the modulus of the order ids in GateLevel.Sum: Redis adds up their last nine digits. The sum reveals
// that gate and database have different orders even if their number is the same.
const LevelDigits = 1_000_000_000

// GateView is all data of a voucher in Redis. It is read page by page during the sale, so it is not a snapshot.
type GateView struct {
	// At the beginning of the read; zero if the gate is cold or broken.
	Level GateLevel

	Cold bool // not loaded
	// Cold, and a load is running.
	Loading bool
	// A key has a wrong type or is not a number.
	Broken bool

	// Whether there are more buyers than requested; they were not read.
	TooMany bool
	// The held order ids, in no order and possibly repeated.
	Buyers []Holder
	// Values in place of order ids that cannot be parsed.
	Unreadable int
	// The tickets of queued admissions.
	Tickets []Holder
	// The admissions in the stream.
	Queue []Queued
	// Dead letters, newest first, among the last 1,000 of the shard.
	Letters []Holder
}

// Queued is an admission in the stream.
type Queued struct {
	Holder
	// By the clock of Redis.
	Since time.Time
}

// QueueLag is how far the workers of the queue are behind, over all sales.
type QueueLag struct {
	// Unsettled is the number of users with unsettled admissions, or the number of stream entries if that is greater. It
	// equals the number of admissions unless a user has several.
	Unsettled int64 `json:"lag"`
	// Age of the oldest stream entry in seconds, by the clock of Redis; 0 if there is none.
	Oldest      float64 `json:"oldest_seconds"`
	DeadLetters int64   `json:"dead_letters"`
}

// GateStore is the database of a gate. Errors: ErrNotFound (no such sale), ErrUnavailable.
type GateStore interface {
	// GateGeneration returns the generation of a voucher's gate.
	GateGeneration(ctx context.Context, voucherID int64) (int64, error)
	// FenceGate increments the generation if it is still from, and reports whether it was. From then on, no admission of
	// an earlier generation is committed.
	FenceGate(ctx context.Context, voucherID, from int64) (bool, error)
	// GateState reads the state of a voucher's gate from one snapshot. inFlight are the order ids in the queue.
	GateState(ctx context.Context, voucherID int64, inFlight []int64) (GateState, error)
}

// StreamEntry is an entry of the queue: admissions of one voucher that were reserved together.
type StreamEntry struct {
	// The key of its stream.
	Stream string
	// Its id in the stream.
	Entry string
	// Tries counts the failed attempts to commit the admissions, refusals by the rules of the sale excluded. Once Ends
	// is set, it includes the current attempt.
	Tries int64
	// At least one.
	Admissions []Admission
	// One per admission, set after the transaction.
	Ends []End
}

// End is the result of an attempt to commit an admission. At most one field is set. If none is, the order is committed.
type End struct {
	// No order was placed: the reason, as an error code of the API.
	Failed string
	// The admission is dead-lettered: the reason, for an operator.
	Dead string
	// Whether the admission is retried, in a stream entry of its own.
	Again bool
}

// DeadLetter is an admission that could be neither committed nor refused by the rules of the sale, and waits for the
// decision of an operator. Its unit was returned, and for its buyer the order has failed.
type DeadLetter struct {
	ID string `json:"id"` // "<shard>-<ms>-<seq>"
	// Nil if the entry cannot be parsed; then it cannot be replayed.
	Admission *Admission `json:"-"`
	// Those of the admission, or the unchanged fields of an unparsable entry.
	Fields map[string]string `json:"fields"`
	// The id of the stream entry.
	Entry  string `json:"-"`
	Reason string `json:"reason"`
	Tries  int64  `json:"tries"`
	// When it was dead-lettered.
	BuriedAt time.Time `json:"buried_at"`
}
