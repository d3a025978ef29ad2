package service

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// saleTTL is how long a process trusts what it read about a sale. It keeps, with room, the promise that a
	// change (a unit that came back, another window) is seen by every process within a second.
	saleTTL = 400 * time.Millisecond
	// maxSales bounds the snapshot: requests for made-up ids must not fill the memory.
	maxSales = 10_000
	// saleLoadTimeout bounds the shared read of a sale, for which many buyers wait together.
	saleLoadTimeout = 2 * time.Second
)

// SaleLoader reads one voucher from the database.
type SaleLoader interface {
	Voucher(ctx context.Context, id int64) (Voucher, error)
}

// Sales is this process's snapshot of the vouchers that buyers ask for: window, price, limit, and a hint that
// nothing is left. It sheds load; whether a unit is really there is decided in the database.
// It is safe for concurrent use, and concurrent misses of one voucher share one read.
type Sales struct {
	cache *otter.Cache[int64, Voucher]
	load  otter.Loader[int64, Voucher]
}

// NewSales makes an empty snapshot that reads from loader.
func NewSales(loader SaleLoader) *Sales {
	return &Sales{
		cache: otter.Must(&otter.Options[int64, Voucher]{
			MaximumSize: maxSales,
			// From the read on: that MarkSoldOut writes to an entry must not make it live longer.
			ExpiryCalculator: otter.ExpiryCreating[int64, Voucher](saleTTL),
		}),
		load: otter.LoaderFunc[int64, Voucher](func(ctx context.Context, id int64) (Voucher, error) {
			// One reader works for everybody who waits: that its own caller left must not fail the others.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saleLoadTimeout)
			defer cancel()
			v, err := loader.Voucher(ctx, id)
			if errors.Is(err, ErrNotFound) {
				err = errors.Join(otter.ErrNotFound, err) // the form in which the cache expects it
			}
			return v, err
		}),
	}
}

// Get returns the voucher as it was less than a second ago. The result is shared: read only.
// Errors: ErrNotFound, ErrUnavailable.
func (s *Sales) Get(ctx context.Context, id int64) (Voucher, error) {
	v, err := s.cache.Get(ctx, id, s.load)
	if errors.Is(err, otter.ErrNotFound) {
		return Voucher{}, ErrNotFound
	}
	return v, err
}

// MarkSoldOut notes that the database had no unit left, so that the next buyers need not ask it.
func (s *Sales) MarkSoldOut(id int64) {
	s.cache.ComputeIfPresent(id, func(v Voucher) (Voucher, otter.ComputeOp) {
		if v.Sale == nil || v.Sale.Stock == 0 {
			return v, otter.CancelOp
		}
		sale := *v.Sale
		sale.Stock = 0
		v.Sale = &sale
		return v, otter.WriteOp
	})
}

// Forget drops what is known of a voucher: it was changed, or a unit came back.
func (s *Sales) Forget(id int64) { s.cache.Invalidate(id) }

// Close stops the cache's housekeeping.
func (s *Sales) Close() { s.cache.StopAllGoroutines() }
