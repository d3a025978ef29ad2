package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"seckill/internal/batch"
)

const (
	// saleFresh is how long what was read about a sale is trusted as it is. Then it is read again in the background.
	saleFresh = 300 * time.Millisecond
	// saleStale is how long it is still given out meanwhile. It keeps, with room, the promise that a change (a unit
	// that came back, another window) is seen by every process within a second, also if the message about it is lost.
	saleStale = 700 * time.Millisecond
	// saleWait is how long a buyer then waits for the database, before the old knowledge must do.
	saleWait = 250 * time.Millisecond
	// saleKept is how long the old knowledge must do while the database cannot be read. It sheds load; it does not decide.
	saleKept = 10 * time.Minute
	// maxSales bounds the snapshot: requests for made-up ids must not fill the memory.
	maxSales = 10_000
	// saleLoadTimeout bounds the shared read of a sale, for which many buyers wait together.
	saleLoadTimeout = 2 * time.Second
)

// SaleLoader reads vouchers from the database.
type SaleLoader interface {
	// Vouchers returns those of the vouchers that exist, in any order.
	Vouchers(ctx context.Context, ids []int64) ([]Voucher, error)
	// NewestVouchers returns at most so many vouchers, from the newest to the oldest.
	NewestVouchers(ctx context.Context, most int) ([]Voucher, error)
}

// SalesConfig is what Sales needs.
type SalesConfig struct {
	Loader SaleLoader
	// Changed tells the other processes that a voucher is not what they read, which then call Forget. It must not
	// block. A message that is lost costs less than a second. May be nil.
	Changed func(voucherID int64)
}

// Sales is this process's snapshot of the vouchers that buyers ask for: window, price, limit, and a hint that
// nothing is left. It sheds load; whether a unit is really there is decided in the database.
//
// It is safe for concurrent use. Concurrent readers of one voucher share one read, and the reads of different vouchers
// share queries: ids that do not exist are not remembered, and still cost no query each.
type Sales struct {
	cfg     SalesConfig
	cache   *otter.Cache[int64, *sale]
	load    otter.Loader[int64, *sale]
	reads   *batch.Batcher[int64, saleRead]
	catalog catalogSnapshot
	looks   *rate.Limiter // of holders whose list is not up to date
}

// saleRead is what the database says of one voucher.
type saleRead struct {
	voucher Voucher
	err     error
}

// sale is what this process knows of one voucher.
type sale struct {
	known   atomic.Pointer[knowledge]
	holders holders

	mu      sync.Mutex
	reading chan struct{} // closed when the read that is under way ends; nil: none is
	changes int           // since the process began; a read that saw fewer is out of date
	failing bool          // the last read failed or lasts too long: Get does not wait for the next one
	err     error         // of the last read; nil if it found that the voucher is gone
}

// knowledge does not change once it is made: it is handed out.
type knowledge struct {
	voucher Voucher
	at      time.Time
	gone    bool // the voucher does not exist any more
}

// NewSales makes an empty snapshot.
func NewSales(cfg SalesConfig) *Sales {
	if cfg.Changed == nil {
		cfg.Changed = func(int64) {}
	}
	s := &Sales{cfg: cfg, looks: rate.NewLimiter(looksPerSecond, looksPerSecond)}
	s.reads = batch.New(batch.Config[int64, saleRead]{Run: s.readTogether, Fail: func(err error) saleRead { return saleRead{err: batchError(err)} }})
	s.cache = otter.Must(&otter.Options[int64, *sale]{
		MaximumSize: maxSales, ExpiryCalculator: otter.ExpiryAccessing[int64, *sale](saleKept),
	})
	s.load = otter.LoaderFunc[int64, *sale](func(ctx context.Context, id int64) (*sale, error) {
		v, err := s.read(ctx, id)
		if errors.Is(err, ErrNotFound) {
			err = errors.Join(otter.ErrNotFound, err) // the form in which the cache expects it
		}
		if err != nil {
			return nil, err
		}
		first := &sale{}
		first.known.Store(&knowledge{voucher: v, at: time.Now()})
		return first, nil
	})
	return s
}

// read reads one voucher from the database. Its result is shared, so it does not end with the caller's context.
func (s *Sales) read(ctx context.Context, id int64) (Voucher, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saleLoadTimeout)
	defer cancel()
	r := s.reads.DoContext(ctx, 0, id)
	return r.voucher, r.err
}

// readTogether reads the vouchers that were asked for while the query before was under way.
func (s *Sales) readTogether(ctx context.Context, ids []int64) []saleRead {
	unique := slices.Clone(ids)
	slices.Sort(unique)
	vouchers, err := s.cfg.Loader.Vouchers(ctx, slices.Compact(unique))
	found := make(map[int64]*Voucher, len(vouchers))
	for i := range vouchers {
		found[vouchers[i].ID] = &vouchers[i]
	}
	reads := make([]saleRead, len(ids))
	for i, id := range ids {
		switch v := found[id]; {
		case err != nil:
			reads[i].err = err
		case v == nil:
			reads[i].err = ErrNotFound
		default:
			reads[i].voucher = *v
		}
	}
	return reads
}

// Get returns the voucher as it was less than a second ago, or, while the database cannot be read, as it last was.
// The result is shared: read only. Errors: ErrNotFound, ErrUnavailable.
func (s *Sales) Get(ctx context.Context, id int64) (Voucher, error) {
	e, err := s.cache.Get(ctx, id, s.load)
	if errors.Is(err, otter.ErrNotFound) {
		return Voucher{}, ErrNotFound
	}
	if err != nil {
		return Voucher{}, err
	}
	k := e.known.Load()
	age := time.Since(k.at)
	if age >= saleFresh {
		read, failing := s.refresh(ctx, e, id)
		if age >= saleStale && !failing {
			k = e.await(ctx, read)
		}
	}
	switch {
	case k.gone:
		return Voucher{}, ErrNotFound
	case time.Since(k.at) > saleKept:
		return Voucher{}, ErrUnavailable
	}
	return k.voucher, nil
}

// Fresh returns the voucher as it was less than a second ago, and with every change that this process made before the
// call. Where Get falls back on older knowledge, Fresh waits for the database or fails. The voucher is shared and
// does not change; equal pointers mean equal vouchers. Errors: ErrNotFound, ErrUnavailable, ErrOverloaded.
func (s *Sales) Fresh(ctx context.Context, id int64) (*Voucher, error) {
	e, err := s.cache.Get(ctx, id, s.load)
	if errors.Is(err, otter.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	k := e.known.Load()
	// A read that is under way may have begun before a change. The one after it has not.
	for round := 0; round < 2 && time.Since(k.at) >= saleFresh; round++ {
		read, _ := s.refresh(ctx, e, id)
		if time.Since(k.at) < saleStale {
			break
		}
		select {
		case <-read:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
		if err := e.lastErr(); err != nil {
			return nil, err
		}
		k = e.known.Load()
	}
	if k.gone {
		return nil, ErrNotFound
	}
	return &k.voucher, nil
}

func (e *sale) lastErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// refresh begins to read the sale again, unless somebody does already. read is closed when the reading ends.
func (s *Sales) refresh(ctx context.Context, e *sale, id int64) (read <-chan struct{}, failing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading == nil {
		e.reading = make(chan struct{})
		go s.reread(context.WithoutCancel(ctx), e, id, e.changes)
	}
	return e.reading, e.failing
}

// reread replaces what is known. What was changed while the database was read must be read once more.
func (s *Sales) reread(ctx context.Context, e *sale, id int64, changes int) {
	v, err := s.read(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	at := time.Now()
	if e.changes != changes {
		at = time.Now().Add(-saleStale)
	}
	e.failing, e.err = err != nil && !errors.Is(err, ErrNotFound), nil
	switch {
	case e.failing:
		e.err = err
	case err != nil:
		e.known.Store(&knowledge{gone: true, at: at})
		s.cache.Invalidate(id)
	default:
		e.known.Store(&knowledge{voucher: v, at: at})
		if v.Sale == nil || v.Sale.Stock > 0 {
			e.holders.unitBack()
		}
	}
	close(e.reading)
	e.reading = nil
}

// await waits a moment for a read to end and returns what is known then.
func (e *sale) await(ctx context.Context, read <-chan struct{}) *knowledge {
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
	return e.known.Load()
}

// MarkSoldOut notes that no unit is left, so that the next buyers need not ask. It does not make what is known any
// younger: a unit that comes back is seen as soon as without it.
func (s *Sales) MarkSoldOut(id int64) {
	e, ok := s.cache.GetIfPresent(id)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.known.Load()
	if old.voucher.Sale == nil || old.voucher.Sale.Stock == 0 {
		return
	}
	k := *old
	k.voucher = *old.voucher.soldOut()
	e.known.Store(&k)
	e.changes++ // a read that is under way may have seen the last unit
	s.catalog.markSoldOut(id)
}

// soldOut returns a copy of the voucher with nothing left.
func (v *Voucher) soldOut() *Voucher {
	sale := *v.Sale
	sale.Stock = 0
	sold := *v
	sold.Sale = &sale
	return &sold
}

// Change notes that the voucher was changed, or that a unit came back, here and in the other processes.
func (s *Sales) Change(id int64) {
	s.Forget(id)
	s.cfg.Changed(id)
}

// Forget distrusts what is known of a voucher: the next buyer has it read again. It is kept for the case that the
// database cannot be read.
func (s *Sales) Forget(id int64) {
	e, ok := s.cache.GetIfPresent(id)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes++
	e.holders.unitBack()
	old := *e.known.Load()
	old.at = old.at.Add(-saleStale)
	e.known.Store(&old)
}

// Close stops the cache's housekeeping.
func (s *Sales) Close() { s.cache.StopAllGoroutines() }
