package reconcile

import (
	"seckill/internal/service"
	"time"
)

// Kind names what a finding is about. The words are part of the API and labels of the metrics; docs/reconcile.md tells
// what each means and what to do.
type Kind string

// Of the gate. All of these are repaired by rebuilding it.
const (
	KindGateCold      Kind = "gate_cold"
	KindGateBroken    Kind = "gate_broken"
	KindStockHigh     Kind = "stock_high"
	KindStockLow      Kind = "stock_low"
	KindHeldOff       Kind = "held_off"
	KindSumOff        Kind = "sum_off"
	KindQueuedOff     Kind = "queued_off"
	KindBuyerMissing  Kind = "buyer_missing"
	KindPhantom       Kind = "phantom"
	KindNotReleased   Kind = "not_released"
	KindTicketStray   Kind = "ticket_without_entry"
	KindTicketMissing Kind = "entry_without_ticket"
)

// Of the queue and of the database. They are reported: what is right cannot be told from here.
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

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		KindGateCold, KindGateBroken, KindStockHigh, KindStockLow, KindHeldOff, KindSumOff, KindQueuedOff, KindBuyerMissing,
		KindPhantom, KindNotReleased, KindTicketStray, KindTicketMissing, KindStuck, KindDeadLetters, KindI1, KindI2, KindI3,
		KindI5, KindUnpaid, KindRefunding,
	}
}

// Finding is a difference between what there is and what should be.
type Finding struct {
	Kind       Kind
	Detail     string           // for a person
	Count      int64            // orders; of a counter, by how much it is off
	Orders     []service.Holder // at most MaxNamed of them
	Oldest     time.Time        // when the oldest of these was made, by its id; zero if there is none
	Repairable bool
	Repaired   bool
}

// Report is what was found about a voucher.
type Report struct {
	VoucherID int64
	CheckedAt time.Time
	// Busy says that the gate changed while it was read: checksum and queue counter could not be compared, and the
	// others less exactly.
	Busy     bool
	Findings []Finding
}

// Left counts the findings that are there still.
func (r *Report) Left() int {
	n := 0
	for _, f := range r.Findings {
		if !f.Repaired {
			n++
		}
	}
	return n
}
