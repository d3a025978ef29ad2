package domain

import (
	"fmt"
	"time"
)

// Limits of unpaid orders. They apply to a sale with MaxUnpaid > 0.
const (
	// MaxUnpaidOrders is the number of unpaid orders, over all sales, at which a user gets no further entry pass.
	MaxUnpaidOrders = 5
	// firstCancelPause is the time between the first cancellation of an unpaid order and the next order of the sale. It
	// doubles with every further one, up to maxCancelPause.
	firstCancelPause = 10 * time.Second
	maxCancelPause   = 10 * time.Minute
)

// CloseGrace is how long an order stays open after its time to pay if the provider does not answer about its payment.
const CloseGrace = 30 * time.Second

// MaxUnpaid returns how many orders of the sale a user may let expire unpaid before further ones are refused, or 0 if
// unpaid orders are not limited. The default is 1 for a sale whose buyers need a pass.
func (s *Sale) MaxUnpaid() int {
	switch {
	case s.UnpaidLimit != nil:
		return *s.UnpaidLimit
	case s.Entry.Mode != EntryOpen:
		return 1
	}
	return 0
}

// SaleUser identifies a user in a sale.
type SaleUser struct{ UserID, VoucherID int64 }

// SaleRecord summarises the orders of a user in a sale.
type SaleRecord struct {
	Active int // active orders
	// The newest of them; 0 if there is none.
	Newest int64
	// Orders that were not paid by their deadline.
	Expired int
	// Orders that were cancelled before their deadline.
	Cancelled int
	// The last of these cancellations.
	LastCancel time.Time `gorm:"serializer:optional"`
	// The newest pass of a waiting room with which the user has bought; 0 if there is none.
	LastRound uint32
}

// HasUsed reports whether the user has bought with the pass of a round, whatever became of the order. 0 is no pass of a
// waiting room.
func (r SaleRecord) HasUsed(round uint32) bool { return round > 0 && round <= r.LastRound }

// MayOrder returns nil if the limits of unpaid orders allow the user another order of the sale at now. Errors:
// ErrUnpaidLimit, *RateLimitedError.
func (r SaleRecord) MayOrder(s *Sale, now time.Time) error {
	limit := s.MaxUnpaid()
	switch {
	case limit == 0:
		return nil
	case r.Expired >= limit:
		return ErrUnpaidLimit
	case r.Cancelled == 0:
		return nil
	}

	// 10 s << 6 is above the maximum.
	pause := min(firstCancelPause<<min(r.Cancelled-1, 6), maxCancelPause)
	if wait := r.LastCancel.Add(pause).Sub(now); wait > 0 {
		return &RateLimitedError{RetryAfter: wait, Reason: fmt.Sprintf("the user has cancelled %d unpaid orders of this sale", r.Cancelled)}
	}

	return nil
}
