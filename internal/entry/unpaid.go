package entry

import (
	"context"
	"time"

	"seckill/internal/batch"
	"seckill/internal/domain"
)

// UnpaidStore reads the orders of users for the limits of unpaid orders. It is safe for concurrent use.
type UnpaidStore interface {
	// SaleRecords returns the records of those users who have orders of the sale. Error: ErrUnavailable.
	SaleRecords(ctx context.Context, of []domain.SaleUser) (map[domain.SaleUser]domain.SaleRecord, error)
	// UnpaidOrders returns how many unpaid orders the users have over all sales; users without are missing. Error:
	// ErrUnavailable.
	UnpaidOrders(ctx context.Context, users []int64) (map[int64]int, error)
}

// Unpaid applies the limits of unpaid orders: to every purchase and before a pass is issued. Concurrent calls share
// queries. It is safe for concurrent use.
type Unpaid struct {
	records *batch.Batcher[domain.SaleUser, lookup[domain.SaleRecord]]
	unpaid  *batch.Batcher[int64, lookup[int]]
}

// lookup is the result of one key of a shared query.
type lookup[V any] struct {
	value V
	err   error
}

// NewUnpaid returns Unpaid.
func NewUnpaid(store UnpaidStore) *Unpaid {
	return &Unpaid{records: sharedLookup(store.SaleRecords), unpaid: sharedLookup(store.UnpaidOrders)}
}

// sharedLookup returns a batcher whose calls share queries. A key that read does not return has the zero value.
func sharedLookup[K comparable, V any](read func(context.Context, []K) (map[K]V, error)) *batch.Batcher[K, lookup[V]] {
	return batch.New(batch.Config[K, lookup[V]]{
		Run: func(ctx context.Context, keys []K) []lookup[V] {
			values, err := read(ctx, keys)
			results := make([]lookup[V], len(keys))
			for i, k := range keys {
				results[i] = lookup[V]{values[k], err}
			}
			return results
		},
		Fail: func(err error) lookup[V] { return lookup[V]{err: domain.BatchError(err)} },
	})
}

// MayOrder implements service.UnpaidLimits: nil if the limits of unpaid orders allow the purchase. Where a pass is
// needed, it reads nothing until an unpaid order of the sale has returned its unit. Errors: ErrUnpaidLimit,
// ErrUnpaidElsewhere (only in an open sale; elsewhere the pass was refused), ErrPassExpired, *RateLimitedError,
// *DuplicateOrderError, ErrOverloaded, ErrUnavailable.
//
// *DuplicateOrderError closes a gap: an order that is active when it is read could expire before the new one is
// committed, and would not be counted. ErrPassExpired keeps returned units for the line of a waiting room: the pass of
// the order that returned its unit is spent.
func (u *Unpaid) MayOrder(p *domain.Purchase, v *domain.Voucher) error {
	open := v.Sale.Entry.Mode == domain.EntryOpen && v.Sale.MaxUnpaid() > 0
	if !v.Sale.EndedUnpaid && !open {
		return nil
	}
	r := u.records.Do(0, domain.SaleUser{UserID: p.UserID, VoucherID: p.VoucherID}, p.Deadline)
	switch {
	case r.err != nil:
		return r.err
	case r.value.Active >= v.Sale.LimitPerUser:
		return &domain.DuplicateOrderError{OrderID: r.value.Newest}
	}
	if err := r.value.MayOrder(v.Sale, p.At); err != nil {
		return err
	}
	if v.Sale.Entry.Mode == domain.EntryRoom && spent(r.value.LastReturn, p.PassExpiry, v.Sale) {
		return domain.ErrPassExpired
	}
	if !open {
		return nil
	}
	return tooMany(u.unpaid.Do(0, p.UserID, p.Deadline))
}

// spent reports whether a unit was returned after the pass with this expiry was issued.
func spent(lastReturn, expiry time.Time, s *domain.Sale) bool {
	return !lastReturn.IsZero() && !lastReturn.Before(expiry.Add(-s.Entry.PassTTL))
}

// tooMany returns the error for a user with so many unpaid orders.
func tooMany(n lookup[int]) error {
	if n.err == nil && n.value >= domain.MaxUnpaidOrders {
		return domain.ErrUnpaidElsewhere
	}
	return n.err
}

// MayEnter implements Limits. A sale without a limit of unpaid orders admits all users. Errors: ErrUnpaidLimit,
// ErrUnpaidElsewhere, *RateLimitedError, ErrOverloaded, ErrUnavailable.
func (u *Unpaid) MayEnter(ctx context.Context, userID int64, v *domain.Voucher, now time.Time) (lastReturn time.Time, err error) {
	if v.Sale.MaxUnpaid() == 0 {
		return lastReturn, nil
	}
	if v.Sale.EndedUnpaid {
		r := u.records.DoContext(ctx, 0, domain.SaleUser{UserID: userID, VoucherID: v.ID})
		if r.err != nil {
			return lastReturn, r.err
		}
		if err := r.value.MayOrder(v.Sale, now); err != nil {
			return lastReturn, err
		}
		lastReturn = r.value.LastReturn
	}
	return lastReturn, tooMany(u.unpaid.DoContext(ctx, 0, userID))
}
