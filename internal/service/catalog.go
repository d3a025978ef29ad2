package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
)

const (
	// maxCatalog bounds the vouchers of the catalog. Each uses about 1 KB of memory, and 1,000 of them are read in 5
	// ms. Pages of older vouchers are read from the database.
	maxCatalog = 2000
	// catalogFresh is the age from which a catalog is read again in the background. catalogStale is the age from which
	// callers wait for that read. Including the time of a read, results are less than a second old.
	catalogFresh = 400 * time.Millisecond
	catalogStale = 800 * time.Millisecond
	// catalogTimeout bounds one read of the catalog, which its callers share.
	catalogTimeout = 2 * time.Second
)

// Catalog is a snapshot of the newest vouchers. It is never modified.
type Catalog struct {
	vouchers []*domain.Voucher // newest first
	// Whether there are no older vouchers.
	complete bool
	// When it was read.
	at time.Time
}

// List returns a page of the filtered list at now. The second result is false if the page may continue with vouchers
// that are older than the catalog.
func (c *Catalog) List(f domain.VoucherFilter, now time.Time) ([]*domain.Voucher, bool) {
	var page []*domain.Voucher
	for _, v := range c.vouchers {
		if len(page) == f.Page.Limit {
			break
		}
		if f.Matches(v, now) {
			page = append(page, v)
		}
	}

	return page, c.complete || len(page) == f.Page.Limit
}

// Until returns the first time after now at which the state of any voucher changes by the clock.
func (c *Catalog) Until(now time.Time) time.Time {
	until := domain.MaxTime
	for _, v := range c.vouchers {
		if t := v.Until(now); t.Before(until) {
			until = t
		}
	}
	return until
}

// catalogSnapshot caches the catalog in this process. The zero value is ready. It is safe for concurrent use.
type catalogSnapshot struct {
	current atomic.Pointer[Catalog]

	mu sync.Mutex
	// Closed when the running read ends; nil if none runs.
	reading chan struct{}
	// Counts changes; a read that began with a lower number is outdated.
	changes int
	// The error of the last read.
	err error
}

// Catalog returns the newest vouchers as they were less than a second ago, with every change that this process made to
// a voucher before the call. Purchases and returned units may appear later, but within that second.
// Error: ErrUnavailable.
func (s *Sales) Catalog(ctx context.Context) (*Catalog, error) {
	c := &s.catalog

	// A running read may have begun before a change. The next one has not.
	for range 2 {
		now := c.current.Load()
		if now != nil && time.Since(now.at) < catalogFresh {
			return now, nil
		}

		read := s.refreshCatalog(ctx)
		if now != nil && time.Since(now.at) < catalogStale {
			return now, nil
		}

		select {
		case <-read:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", domain.ErrUnavailable, ctx.Err())
		}

		if err := c.lastErr(); err != nil {
			return nil, err
		}
	}

	return c.current.Load(), nil
}

func (c *catalogSnapshot) lastErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// refreshCatalog starts a read of the catalog unless one is running. The channel is closed when it ends.
func (s *Sales) refreshCatalog(ctx context.Context) <-chan struct{} {
	c := &s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading == nil {
		c.reading = make(chan struct{})
		go s.readCatalog(context.WithoutCancel(ctx), c.changes)
	}
	return c.reading
}

// readCatalog reads and replaces the catalog. If a voucher was changed during the read, the new catalog is stale from
// the beginning.
func (s *Sales) readCatalog(ctx context.Context, changes int) {
	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()

	began := time.Now()
	vouchers, err := s.newest(ctx)
	next := &Catalog{complete: len(vouchers) <= maxCatalog, at: began}
	for i := range vouchers[:min(len(vouchers), maxCatalog)] {
		next.vouchers = append(next.vouchers, &vouchers[i])
	}

	c := &s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.changes != changes {
		next.at = next.at.Add(-catalogStale)
	}

	c.err = err
	if err == nil {
		c.current.Store(next)
	}

	close(c.reading)
	c.reading = nil
}

// newest reads the vouchers of the catalog, and one more that shows whether there are older ones. It runs in a
// background goroutine, so it turns a panic, which would end the process, into an error.
func (s *Sales) newest(ctx context.Context) (vouchers []domain.Voucher, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the read of the catalog: %v\n%s", p, debug.Stack())
		}
	}()
	return s.cfg.Loader.NewestVouchers(ctx, maxCatalog+1)
}

// forget makes the next caller wait for a read that begins after the call of forget.
func (c *catalogSnapshot) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if old := c.current.Load(); old != nil {
		aged := *old
		aged.at = aged.at.Add(-catalogStale)
		c.current.Store(&aged)
	}
}

func (c *catalogSnapshot) markSoldOut(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.changes++
	old := c.current.Load()
	if old == nil {
		return
	}

	i := slices.IndexFunc(old.vouchers, func(v *domain.Voucher) bool { return v.ID == id })
	if i < 0 || old.vouchers[i].Sale == nil || old.vouchers[i].Sale.Stock == 0 {
		return
	}

	sold := *old
	sold.vouchers = slices.Clone(old.vouchers)
	sold.vouchers[i] = old.vouchers[i].SoldOut()
	c.current.Store(&sold)
}
