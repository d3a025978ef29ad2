package lane

import (
	"cmp"
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// maxQueued is the longest wait in the queue after which the time to pay still begins with the admission, unless half of that
// time is shorter. After a longer wait it begins with the commit.
const maxQueued = time.Minute

// Committer commits admissions as orders, for the workers of the queue. It is safe for concurrent use.
type Committer struct {
	Orders OrderPlacer
	IDs    IDs
	Now    func() time.Time
	// The time to pay of sales without one of their own.
	PayTimeout time.Duration
}

// Commit commits the admissions and returns one result per admission, in the same order. The result is nil if the order
// is in the database, even from an earlier call. ErrSoldOut, *DuplicateOrderError, ErrPassExpired,
// ErrIdempotencyMismatch and ErrIDTaken are final. ErrUnavailable is temporary. Any other error is caused by the
// admission itself.
func (c *Committer) Commit(ctx context.Context, as []domain.Admission) []error {
	errs := make([]error, len(as))
	orders := make([]domain.NewOrder, len(as))
	for i := range as {
		a := &as[i]
		orders[i] = a.NewOrder(c.expires(a))
		orders[i].Generation = &a.Generation
	}

	for i, placed := range c.Orders.PlaceOrders(ctx, orders) {
		errs[i] = placed.Err
		if placed.Replayed {
			// The same request placed an earlier order, which the gate had lost when it admitted this one.
			errs[i] = &domain.DuplicateOrderError{OrderID: placed.Order.ID}
		}

		if errors.Is(placed.Err, domain.ErrIDTaken) {
			// The buyer already has this id, so the order fails. Skip keeps later orders from failing as well. Its
			// error is ignored: the next order whose id exists calls it again.
			_ = c.IDs.Skip(ctx, orders[i].ID)
		}
	}

	return errs
}

// expires returns the time until which an order must be paid. It is counted from the admission, as the buyer was
// informed. After an outage of the database that time could be over before the commit, so it is counted from now.
func (c *Committer) expires(a *domain.Admission) time.Time {
	from := a.At
	timeout := cmp.Or(a.PayTimeout, c.PayTimeout)
	if now := domain.Moment(c.Now()); now.Sub(from) > min(maxQueued, timeout/2) {
		from = now
	}
	return from.Add(timeout)
}
