package reconcile

import (
	"slices"
	"time"

	"seckill/internal/domain"
)

// Kind is the kind of a finding. The words are part of the API and labels of the metrics. docs/operations.md describes
// the meaning of each and what to do.
type Kind string

// Findings about the gate. A rebuild repairs all of them.
const (
	KindGateCold     Kind = "gate_cold"
	KindGateBroken   Kind = "gate_broken"
	KindGateDiffers  Kind = "gate_differs"
	KindQueueDiffers Kind = "queue_differs"
)

// Findings about the queue and the database. They are reported only, because their correction needs a decision.
const (
	KindStuck       Kind = "stuck"
	KindDeadLetters Kind = "dead_letters"
	KindI1          Kind = "I1"
	KindI2          Kind = "I2"
	KindI3          Kind = "I3"
	KindI5          Kind = "I5"
	KindUnpaid      Kind = "unpaid_not_closed"
	KindRefunding   Kind = "refund_unfinished"
)

func (k Kind) invariant() bool { return slices.Contains([]Kind{KindI1, KindI2, KindI3, KindI5}, k) }

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		KindGateCold, KindGateBroken, KindGateDiffers, KindQueueDiffers, KindStuck, KindDeadLetters, KindI1, KindI2, KindI3,
		KindI5, KindUnpaid, KindRefunding,
	}
}

// Finding is a difference between the actual and the expected state of a sale.
type Finding struct {
	Kind Kind `json:"kind"`
	// An explanation for operators.
	Detail string `json:"detail"`
	// The number of orders; without orders, how far a counter is off.
	Count int64 `json:"count"`
	// At most domain.MaxNamed of them.
	Orders []domain.Holder `json:"orders"`
	// When the oldest of Orders was placed, by its id; nil if Orders is empty.
	Oldest *time.Time `json:"oldest_at"`
	// By a rebuild of the gate.
	Repairable bool `json:"repairable"`
	Repaired   bool `json:"repaired"`
}

// Report lists the findings about a voucher.
type Report struct {
	VoucherID int64     `json:"voucher_id,string"`
	CheckedAt time.Time `json:"checked_at"`
	// Busy reports that the gate changed during the snapshot. Its counters were not compared with its buyers and its queue.
	Busy     bool      `json:"busy"`
	Findings []Finding `json:"findings"`
}

// Left returns the number of findings that are not repaired.
func (r *Report) Left() int {
	n := 0
	for _, f := range r.Findings {
		if !f.Repaired {
			n++
		}
	}
	return n
}
