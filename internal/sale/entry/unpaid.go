package entry

import (
	"context"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
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
	records *batch.Batcher[domain.SaleUser, batch.Found[domain.SaleRecord]]
	unpaid  *batch.Batcher[int64, batch.Found[int]]
}

// NewUnpaid returns Unpaid.
func NewUnpaid(store UnpaidStore) *Unpaid {
	return &Unpaid{
		records: batch.NewLookup(store.SaleRecords, domain.BatchError),
		unpaid:  batch.NewLookup(store.UnpaidOrders, domain.BatchError),
	}
}

// MayOrder implements service.UnpaidLimits: nil if the limits of unpaid orders and the pass of a waiting room allow the
// purchase. In mode pass it reads nothing until an unpaid order of the sale has returned its unit, and in an open sale
// without a limit it reads nothing. Errors: ErrUnpaidLimit, ErrUnpaidElsewhere (where a pass is needed, the pass was
// refused), ErrPassExpired, *RateLimitedError, *DuplicateOrderError, ErrOverloaded, ErrUnavailable.
func (u *Unpaid) MayOrder(p *domain.Purchase, v *domain.Voucher) error {
	limited := v.Sale.MaxUnpaid() > 0
	open := v.Sale.Entry.Mode == domain.EntryOpen
	room := v.Sale.Entry.Mode == domain.EntryRoom
	if room || v.Sale.EndedUnpaid || open && limited {
		if err := u.mayOrderOf(p, v); err != nil {
			return err
		}
	}

	if limited && open {
		return tooMany(u.unpaid.Do(0, p.UserID, p.Deadline))
	}
	return nil
}

// mayOrderOf applies the limits that depend on the user's orders of the sale.
//
// *DuplicateOrderError closes a gap: an order that is active when it is read could expire before the new one is
// committed, and would not be counted. ErrPassExpired keeps returned units for the line of a waiting room: a pass buys
// once, whatever becomes of its order. Concurrent purchases with one pass are refused by the transaction of the order.
func (u *Unpaid) mayOrderOf(p *domain.Purchase, v *domain.Voucher) error {
	r := u.records.Do(0, domain.SaleUser{UserID: p.UserID, VoucherID: p.VoucherID}, p.Deadline)
	switch {
	case r.Err != nil:
		return r.Err
	case r.Value.Active >= v.Sale.LimitPerUser:
		return &domain.DuplicateOrderError{OrderID: r.Value.Newest}
	}

	if err := r.Value.MayOrder(v.Sale, p.At); err != nil {
		return err
	}
	if r.Value.HasUsed(p.Round) {
		return domain.ErrPassExpired
	}

	return nil
}

func tooMany(n batch.Found[int]) error {
	if n.Err == nil && n.Value >= domain.MaxUnpaidOrders {
		return domain.ErrUnpaidElsewhere
	}
	return n.Err
}

// MayEnter implements Limits. A sale without a waiting room and a limit of unpaid orders admits all users.
func (u *Unpaid) MayEnter(ctx context.Context, userID int64, v *domain.Voucher, now time.Time) (domain.SaleRecord, error) {
	var record domain.SaleRecord
	room := v.Sale.Entry.Mode == domain.EntryRoom
	limited := v.Sale.MaxUnpaid() > 0

	if room || limited && v.Sale.EndedUnpaid {
		r := u.records.DoContext(ctx, 0, domain.SaleUser{UserID: userID, VoucherID: v.ID})
		if r.Err != nil {
			return record, r.Err
		}
		record = r.Value
	}

	// The pass of a buyer with an order would hold a unit for nothing.
	if room && record.Active >= v.Sale.LimitPerUser {
		return record, &domain.DuplicateOrderError{OrderID: record.Newest}
	}
	if err := record.MayOrder(v.Sale, now); err != nil || !limited {
		return record, err
	}

	return record, tooMany(u.unpaid.DoContext(ctx, 0, userID))
}
