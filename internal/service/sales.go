package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
	"seckill/internal/kit/cache"
)

const (
	// saleFresh is the age from which a snapshot is read again in the background.
	saleFresh = 300 * time.Millisecond
	// saleStale is the age from which callers wait for that read. With saleWait it keeps the guarantee that every
	// process sees a change (a returned unit, another window) within a second, even if the message about it is lost.
	saleStale = 700 * time.Millisecond
	// saleWait bounds the wait of a buyer for the database. After it, the old snapshot is used.
	saleWait = 250 * time.Millisecond
	// saleKept is how long an old snapshot is used while the database cannot be read. Snapshots only shed load; the
	// database decides.
	saleKept = 10 * time.Minute
	// maxSales bounds the number of snapshots.
	maxSales = 10_000
	// saleLoadTimeout bounds one read of a voucher, which its callers share.
	saleLoadTimeout = 2 * time.Second
)

// SaleLoader reads vouchers from the database.
type SaleLoader interface {
	// Vouchers returns the vouchers that exist, in any order. Error: ErrUnavailable.
	Vouchers(ctx context.Context, ids []int64) ([]domain.Voucher, error)
	// NewestVouchers returns at most the given number of vouchers, newest first. Error: ErrUnavailable.
	NewestVouchers(ctx context.Context, most int) ([]domain.Voucher, error)
}

// SalesConfig configures Sales.
type SalesConfig struct {
	Loader SaleLoader
	// Changed publishes that a voucher has changed. The other processes then call Forget. A lost message delays them by
	// less than a second. Changed must not block.
	Changed func(voucherID int64)
}

// Sales caches snapshots of vouchers in this process: window, price, limit, and whether the stock is zero. It sheds
// load; the database decides whether a unit is left.
//
// Sales is safe for concurrent use. Concurrent readers of a voucher share one read, and reads of different vouchers
// share queries. Ids that do not exist are not cached; requests for them share queries as well.
type Sales struct {
	cfg     SalesConfig
	cache   *cache.Cache[int64, *sale]
	reads   *batch.Batcher[int64, batch.Found[*domain.Voucher]]
	catalog cache.Refreshed[*Catalog]
	// Lookups of users missing from an outdated buyerList.
	staleLookups *rate.Limiter
}

// sale is the cache entry of one voucher.
type sale struct {
	// The voucher as it was read, or nil if it does not exist any more. Callers share it, so it is never modified.
	voucher cache.Refreshed[*domain.Voucher]
	buyers  buyerList
}

// NewSales returns an empty cache. Close it after use.
func NewSales(cfg SalesConfig) *Sales {
	s := &Sales{cfg: cfg, staleLookups: rate.NewLimiter(staleLookupsPerSecond, staleLookupsPerSecond)}
	s.reads = batch.NewLookup(s.readBatch, domain.BatchError)
	s.cache = cache.New[int64](cache.Options[*sale]{MaxEntries: maxSales, IdleTTL: saleKept})
	s.catalog.Read = s.readCatalog
	s.catalog.Fresh = catalogFresh
	s.catalog.Stale = catalogStale
	s.catalog.Timeout = catalogTimeout
	return s
}

func (s *Sales) load(ctx context.Context, id int64) (*sale, error) {
	// Without allocating the function below.
	if e, cached := s.cache.Get(id); cached {
		return e, nil
	}
	return s.cache.Load(ctx, id, func(ctx context.Context) (*sale, error) {
		began := time.Now()
		v, err := s.read(ctx, id)
		if err != nil {
			return nil, err
		}

		e := &sale{}
		e.voucher.Read = func(ctx context.Context) (*domain.Voucher, error) { return s.reread(ctx, e, id) }
		e.voucher.Fresh = saleFresh
		e.voucher.Stale = saleStale
		e.voucher.Timeout = saleLoadTimeout
		e.voucher.Set(v, began)
		return e, nil
	})
}

// read reads one voucher from the database, together with concurrent reads. The result is shared, so the end of ctx
// does not stop it.
func (s *Sales) read(ctx context.Context, id int64) (*domain.Voucher, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saleLoadTimeout)
	defer cancel()
	r := s.reads.DoContext(ctx, 0, id)
	if r.Err == nil && r.Value == nil {
		return nil, domain.ErrNotFound
	}
	return r.Value, r.Err
}

func (s *Sales) readBatch(ctx context.Context, ids []int64) (map[int64]*domain.Voucher, error) {
	unique := slices.Clone(ids)
	slices.Sort(unique)
	vouchers, err := s.cfg.Loader.Vouchers(ctx, slices.Compact(unique))

	found := make(map[int64]*domain.Voucher, len(vouchers))
	for i := range vouchers {
		// A copy, because the voucher would keep the others of the batch in memory.
		found[vouchers[i].ID] = new(vouchers[i])
	}

	return found, err
}

// Get returns the voucher as it was less than a second ago. While the database cannot be read, it returns the last
// snapshot, at most 10 minutes old. The result is shared and must not be modified. Errors: ErrNotFound, ErrUnavailable.
func (s *Sales) Get(ctx context.Context, id int64) (*domain.Voucher, error) {
	e, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}

	last := e.voucher.Kept(ctx, saleWait)
	switch {
	case last.Value == nil:
		return nil, domain.ErrNotFound
	case time.Since(last.Ended) > saleKept:
		return nil, domain.ErrUnavailable
	}

	return last.Value, nil
}

// Fresh returns the voucher as it was less than a second ago, with every change that this process made before the call.
// Where Get falls back to an older snapshot, Fresh waits for the database or fails. The voucher is shared and must not
// be modified; equal pointers mean equal vouchers. Errors: ErrNotFound, ErrUnavailable, ErrOverloaded.
func (s *Sales) Fresh(ctx context.Context, id int64) (*domain.Voucher, error) {
	e, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}

	v, err := current(ctx, &e.voucher)
	if err == nil && v == nil {
		err = domain.ErrNotFound
	}

	return v, err
}

// Stock returns the units left of a sale as Fresh does. Errors: those of Fresh, ErrInvalidState (no sale).
func (s *Sales) Stock(ctx context.Context, id int64) (int64, error) {
	v, err := s.Fresh(ctx, id)
	switch {
	case err != nil:
		return 0, err
	case v.Sale == nil:
		return 0, domain.ErrInvalidState
	}
	return v.Sale.Stock, nil
}

func (s *Sales) reread(ctx context.Context, e *sale, id int64) (*domain.Voucher, error) {
	v, err := s.read(ctx, id)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		s.cache.Delete(id)
		return nil, nil
	case err != nil:
		return nil, err
	case v.Sale == nil || v.Sale.Stock > 0:
		e.buyers.unitReturned()
	}

	return v, nil
}

// MarkSoldOut sets the stock of the snapshot to zero, so that further purchases are refused without the lane. The age
// of the snapshot does not change, so a returned unit is seen as early as without MarkSoldOut. Lists show it within a
// second.
func (s *Sales) MarkSoldOut(id int64) {
	e, ok := s.cache.Get(id)
	if !ok {
		return
	}

	soldOut := func(v *domain.Voucher) *domain.Voucher {
		if v == nil || v.Sale == nil || v.Sale.Stock == 0 {
			return v
		}
		return v.SoldOut()
	}

	if v := e.voucher.Last().Value; soldOut(v) != v {
		e.voucher.Change(soldOut)
	}
}

// Change is called after the voucher was changed or a unit returned. It invalidates the snapshots of all processes.
func (s *Sales) Change(id int64) {
	s.Forget(id)
	s.cfg.Changed(id)
}

// Forget invalidates the snapshot of a voucher in this process: the next caller waits for a new read. The snapshot is
// kept for the case that the database cannot be read.
func (s *Sales) Forget(id int64) {
	e, ok := s.cache.Get(id)
	if !ok {
		// A load that runs may have begun before the change.
		s.cache.Delete(id)
		return
	}

	e.buyers.unitReturned()
	e.voucher.Outdate()
}

// Close stops the background goroutines of the cache.
func (s *Sales) Close() { s.cache.Close() }
