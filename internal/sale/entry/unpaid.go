package entry

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
)

// maxUnpaid is the number of unpaid orders, over all sales, at which a user gets no further order of a sale without a
// limit of its own (domain.Sale.MaxUnpaid). A higher limit_per_user takes its place.
const maxUnpaid = 50

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
	records   *batch.Batcher[domain.SaleUser, batch.Found[domain.SaleRecord]]
	unpaid    *batch.Batcher[int64, batch.Found[int]]
	purchases *purchaseCounters
}

// purchaseCounters counts the purchases of users per day, the longest time for which an order may be unpaid. A counter is
// the day since 1970 (16 bits) and its purchases (16 bits). Users share counters, so a number may be too high, never too
// low. The system provides the memory of those that are used. A ratelimit.Quota would allocate for every buyer of a sale.
type purchaseCounters [1 << 20]atomic.Uint32

// add counts a purchase and returns the purchases of its day so far, at most 65,535.
func (c *purchaseCounters) add(userID int64, at time.Time) int {
	// Choose the counter by Fibonacci hashing: TAOCP volume 3, 6.4.
	const golden = 0x9E3779B97F4A7C15
	counter := &c[uint64(userID)*golden>>(64-20)] //nolint:gosec // any bits will do
	day := uint32(at.Unix()/86400) << 16          //nolint:gosec // 16 bits suffice until 2149
	for {
		old := counter.Load()
		next := max(old, day) + 1
		n := int(next & math.MaxUint16)
		if n == 0 {
			return math.MaxUint16
		}

		if counter.CompareAndSwap(old, next) {
			return n
		}
	}
}

// NewUnpaid returns Unpaid.
func NewUnpaid(store UnpaidStore) *Unpaid {
	return &Unpaid{
		records:   batch.NewLookup(store.SaleRecords, domain.BatchError),
		unpaid:    batch.NewLookup(store.UnpaidOrders, domain.BatchError),
		purchases: new(purchaseCounters),
	}
}

// MayOrder implements service.UnpaidLimits: nil if the limits of unpaid orders and the pass of a waiting room allow the
// purchase. In mode pass it reads nothing until an unpaid order of the sale has returned its unit. In an open sale
// without a limit it reads nothing until the user has made maxUnpaid purchases in a day on this server. Errors:
// ErrUnpaidLimit, ErrUnpaidElsewhere (where a pass is needed, the pass was refused), ErrPassExpired, *RateLimitedError,
// *DuplicateOrderError, ErrOverloaded, ErrUnavailable.
func (u *Unpaid) MayOrder(p *domain.Purchase, v *domain.Voucher) error {
	limited := v.Sale.MaxUnpaid() > 0
	open := v.Sale.Entry.Mode == domain.EntryOpen
	room := v.Sale.Entry.Mode == domain.EntryRoom
	if room || v.Sale.EndedUnpaid || open && limited {
		if err := u.mayOrderOf(p, v); err != nil {
			return err
		}
	}

	switch {
	case limited && open:
		return tooMany(u.unpaid.Do(0, p.UserID, p.Deadline), domain.MaxUnpaidOrders)
	case !limited && u.purchases.add(p.UserID, p.At) > maxUnpaid:
		return tooMany(u.unpaid.Do(0, p.UserID, p.Deadline), max(maxUnpaid, v.Sale.LimitPerUser))
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

func tooMany(n batch.Found[int], limit int) error {
	if n.Err == nil && n.Value >= limit {
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

	return record, tooMany(u.unpaid.DoContext(ctx, 0, userID), domain.MaxUnpaidOrders)
}
