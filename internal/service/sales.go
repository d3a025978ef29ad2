package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
	// less than a second. Changed must not block. It may be nil.
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
	reads   *batch.Batcher[int64, saleRead]
	catalog catalogSnapshot
	// Lookups of users missing from an outdated buyerList.
	staleLookups *rate.Limiter
}

type saleRead struct {
	voucher domain.Voucher
	err     error
}

// sale is the cache entry of one voucher.
type sale struct {
	current atomic.Pointer[snapshot]
	buyers  buyerList

	mu sync.Mutex
	// Closed when the running read ends; nil if none runs.
	reading chan struct{}
	// Counts changes; a read that began with a lower number is outdated.
	changes int
	// The last read failed, or the running one takes too long: Get does not wait for a read.
	failing bool
	// The error of the last read; nil if it found that the voucher does not exist.
	err error
}

// snapshot is a voucher as it was read. Callers share it, so it is never modified.
type snapshot struct {
	voucher domain.Voucher
	// When its read began.
	began time.Time
	// When it was read.
	at time.Time
	// The voucher was changed during or after the read.
	stale bool
	// The voucher does not exist any more.
	gone bool
}

// age returns the age of the snapshot, at least saleStale if it is stale.
func (s *snapshot) age() time.Duration {
	age := time.Since(s.at)
	if s.stale {
		age = max(age, saleStale)
	}
	return age
}

// NewSales returns an empty cache. Close it after use.
func NewSales(cfg SalesConfig) *Sales {
	if cfg.Changed == nil {
		cfg.Changed = func(int64) {}
	}
	s := &Sales{cfg: cfg, staleLookups: rate.NewLimiter(staleLookupsPerSecond, staleLookupsPerSecond)}
	fail := func(err error) saleRead { return saleRead{err: domain.BatchError(err)} }
	s.reads = batch.New(batch.Config[int64, saleRead]{Run: s.readBatch, Fail: fail})
	s.cache = cache.New[int64](cache.Options[*sale]{MaxEntries: maxSales, IdleTTL: saleKept})
	return s
}

// load returns the cache entry of a voucher, which it reads if there is none.
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

		first := &sale{}
		first.current.Store(&snapshot{
			voucher: v,
			began:   began,
			at:      time.Now(),
		})

		return first, nil
	})
}

// read reads one voucher from the database, together with concurrent reads. The result is shared, so the end of ctx
// does not stop it.
func (s *Sales) read(ctx context.Context, id int64) (domain.Voucher, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saleLoadTimeout)
	defer cancel()
	r := s.reads.DoContext(ctx, 0, id)
	return r.voucher, r.err
}

// readBatch reads vouchers with one query. Ids may be repeated.
func (s *Sales) readBatch(ctx context.Context, ids []int64) []saleRead {
	unique := slices.Clone(ids)
	slices.Sort(unique)
	vouchers, err := s.cfg.Loader.Vouchers(ctx, slices.Compact(unique))
	found := make(map[int64]*domain.Voucher, len(vouchers))

	for i := range vouchers {
		found[vouchers[i].ID] = &vouchers[i]
	}

	reads := make([]saleRead, len(ids))
	for i, id := range ids {
		v := found[id]
		switch {
		case err != nil:
			reads[i].err = err
		case v == nil:
			reads[i].err = domain.ErrNotFound
		default:
			reads[i].voucher = *v
		}
	}

	return reads
}

// Get returns the voucher as it was less than a second ago. While the database cannot be read, it returns the last
// snapshot, at most 10 minutes old. The result is shared and must not be modified. Errors: ErrNotFound, ErrUnavailable.
func (s *Sales) Get(ctx context.Context, id int64) (domain.Voucher, error) {
	e, err := s.load(ctx, id)
	if err != nil {
		return domain.Voucher{}, err
	}

	snap := e.current.Load()
	age := snap.age()
	if age >= saleFresh {
		read, failing := s.refresh(ctx, e, id)
		if age >= saleStale && !failing {
			snap = e.await(ctx, read)
		}
	}

	switch {
	case snap.gone:
		return domain.Voucher{}, domain.ErrNotFound
	case time.Since(snap.at) > saleKept:
		return domain.Voucher{}, domain.ErrUnavailable
	}

	return snap.voucher, nil
}

// Fresh returns the voucher as it was less than a second ago, with every change that this process made before the call.
// Where Get falls back to an older snapshot, Fresh waits for the database or fails. The voucher is shared and must not
// be modified; equal pointers mean equal vouchers. Errors: ErrNotFound, ErrUnavailable, ErrOverloaded.
func (s *Sales) Fresh(ctx context.Context, id int64) (*domain.Voucher, error) {
	e, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}

	snap := e.current.Load()

	// A running read may have begun before a change. The next one has not.
	for round := 0; round < 2 && snap.age() >= saleFresh; round++ {
		read, _ := s.refresh(ctx, e, id)
		if snap.age() < saleStale {
			break
		}

		select {
		case <-read:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", domain.ErrUnavailable, ctx.Err())
		}

		if err := e.lastErr(); err != nil {
			return nil, err
		}

		snap = e.current.Load()
	}

	if snap.gone {
		return nil, domain.ErrNotFound
	}

	return &snap.voucher, nil
}

func (e *sale) lastErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// refresh starts a read of the voucher unless one is running. The channel is closed when it ends. The second result
// reports that a caller need not wait for it.
func (s *Sales) refresh(ctx context.Context, e *sale, id int64) (<-chan struct{}, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading == nil {
		e.reading = make(chan struct{})
		go s.reread(context.WithoutCancel(ctx), e, id, e.changes)
	}
	return e.reading, e.failing
}

// reread reads the voucher and replaces the snapshot. If the voucher was changed during the read, the new snapshot is
// stale from the beginning.
func (s *Sales) reread(ctx context.Context, e *sale, id int64, changes int) {
	began := time.Now()
	v, err := s.read(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()

	next := &snapshot{
		voucher: v,
		began:   began,
		at:      time.Now(),
		stale:   e.changes != changes,
	}

	e.failing = err != nil && !errors.Is(err, domain.ErrNotFound)
	e.err = nil
	switch {
	case e.failing:
		e.err = err
	case err != nil:
		next.gone = true
		e.current.Store(next)
		s.cache.Delete(id)
	default:
		e.current.Store(next)
		if v.Sale == nil || v.Sale.Stock > 0 {
			e.buyers.unitReturned()
		}
	}

	close(e.reading)
	e.reading = nil
}

// await waits up to saleWait for a read and returns the snapshot that is current then.
func (e *sale) await(ctx context.Context, read <-chan struct{}) *snapshot {
	timer := time.NewTimer(saleWait)
	defer timer.Stop()

	select {
	case <-read:
	case <-ctx.Done():
	case <-timer.C:
		e.mu.Lock()
		e.failing = e.reading != nil
		e.mu.Unlock()
	}

	return e.current.Load()
}

// MarkSoldOut sets the stock of the snapshot to zero, so that further purchases are refused without the lane. The age
// of the snapshot does not change, so a returned unit is seen as early as without MarkSoldOut.
func (s *Sales) MarkSoldOut(id int64) {
	e, ok := s.cache.Get(id)
	if !ok {
		return
	}

	e.mu.Lock()
	defer e.mu.Unlock()

	old := e.current.Load()
	if old.voucher.Sale == nil || old.voucher.Sale.Stock == 0 {
		return
	}

	sold := *old
	sold.voucher = *old.voucher.SoldOut()
	e.current.Store(&sold)

	// A running read may have seen the last unit.
	e.changes++
	s.catalog.markSoldOut(id)
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
		return
	}

	e.mu.Lock()
	defer e.mu.Unlock()

	e.changes++
	e.buyers.unitReturned()
	old := *e.current.Load()
	old.stale = true
	e.current.Store(&old)
}

// Close stops the background goroutines of the cache.
func (s *Sales) Close() { s.cache.Close() }
