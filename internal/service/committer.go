package service

import (
	"context"
	"errors"
	"time"
)

// maxQueued is how long an order may wait in the queue before its time to pay begins only with its commit.
const maxQueued = time.Minute

// Committer makes orders of admissions, for the workers of the queue.
type Committer struct {
	Orders     OrderStore
	IDs        IDs
	Now        func() time.Time
	PayTimeout time.Duration
}

// Commit answers each admission: nil if its order is in the database, now or from before; ErrSoldOut,
// *DuplicateOrderError or ErrIDTaken if there never will be one; ErrUnavailable if it is worth trying again; anything
// else is the fault of the admission.
func (c *Committer) Commit(ctx context.Context, as []Admission) []error {
	errs := make([]error, len(as))
	orders := make([]NewOrder, len(as))
	for i, a := range as {
		orders[i] = NewOrder{Limit: a.Limit, Key: a.Key, Order: Order{
			ID: a.OrderID, UserID: a.UserID, VoucherID: a.VoucherID, Status: OrderPendingPayment, Amount: a.Amount,
			Currency: a.Currency, CreatedAt: a.At, ExpiresAt: c.expires(a.At),
		}}
	}
	for i, placed := range c.Orders.PlaceOrders(ctx, orders) {
		errs[i] = placed.Err
		if placed.Replayed || errors.Is(placed.Err, ErrIdempotencyMismatch) {
			// Its key is that of an order that the gate did not know any more when it let this one in.
			errs[i] = &DuplicateOrderError{OrderID: placed.Order.ID}
		}
		if errors.Is(placed.Err, ErrIDTaken) {
			// The id was promised to the buyer, so his order fails; those of the next ones must not. If this does not
			// succeed, the next collision tries again.
			_ = c.IDs.Skip(ctx, orders[i].ID)
		}
	}
	return errs
}

// expires says until when an order must be paid. The time runs from the admission, as the buyer was told; after an
// outage of the database it would be over before he hears of his order, and runs from now.
func (c *Committer) expires(admitted time.Time) time.Time {
	from := admitted
	if now := Moment(c.Now()); now.Sub(admitted) > maxQueued {
		from = now
	}
	return from.Add(c.PayTimeout)
}
