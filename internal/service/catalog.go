package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxCatalog bounds the vouchers of the catalog: about 1 KB of memory each, and 5 ms for 1,000 of them when they
	// are read. Pages of older ones are read from the database.
	maxCatalog = 2000
	// catalogFresh is the age from which a catalog is read again in the background, and catalogStale the age from which
	// readers wait for that. With the time of a read, what they get is less than a second old.
	catalogFresh = 400 * time.Millisecond
	catalogStale = 800 * time.Millisecond
	// catalogTimeout bounds the shared read of the catalog.
	catalogTimeout = 2 * time.Second
)

// Catalog is the newest vouchers as they were at one moment. It does not change.
type Catalog struct {
	vouchers []*Voucher // from the newest to the oldest
	complete bool       // there are no older ones
	at       time.Time  // when it was read
}

// matches says whether the list of the filter shows v at now.
func (f *VoucherFilter) matches(v *Voucher, now time.Time) bool {
	switch {
	case f.Page.Before > 0 && v.ID >= f.Page.Before, f.ShopID > 0 && v.ShopID != f.ShopID:
		return false
	case f.Status != 0 && v.Status != f.Status, f.Status == 0 && f.State != StateEnded && v.Status != VoucherOn:
		return false
	case f.State != "" && v.State(now) != f.State:
		return false
	}
	return !f.Lasts || v.Sale == nil || v.Sale.EndAt.After(now)
}

// List returns the page of a list as it is at now. Without ok it may show older vouchers than the catalog has.
func (c *Catalog) List(f VoucherFilter, now time.Time) (page []*Voucher, ok bool) {
	for _, v := range c.vouchers {
		if len(page) == f.Page.Limit {
			break
		}
		if f.matches(v, now) {
			page = append(page, v)
		}
	}
	return page, c.complete || len(page) == f.Page.Limit
}

// Until returns the end of the time, from now on, in which the clock alone does not change the state of any voucher.
func (c *Catalog) Until(now time.Time) time.Time {
	until := maxTime
	for _, v := range c.vouchers {
		if t := v.Until(now); t.Before(until) {
			until = t
		}
	}
	return until
}

// catalogSnapshot is the catalog that this process has read. The zero value is ready. It is safe for concurrent use.
type catalogSnapshot struct {
	current atomic.Pointer[Catalog]

	mu      sync.Mutex
	reading chan struct{} // closed when the read that is under way ends; nil: none is
	changes int           // a read that saw fewer is out of date
	err     error         // of the last read
}

// Catalog returns the newest vouchers as they were less than a second ago, and with every change that this process made
// to a voucher before the call. Units that buyers took or gave back may show later, within that second.
// Error: ErrUnavailable.
func (s *Sales) Catalog(ctx context.Context) (*Catalog, error) {
	c := &s.catalog
	// A read that is under way may have begun before a change. The one after it has not.
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
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
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

// refreshCatalog begins to read the catalog, unless that is under way. The channel is closed when it ends.
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
	if c.err = err; err == nil {
		c.current.Store(next)
	}
	close(c.reading)
	c.reading = nil
}

// newest reads the vouchers of the catalog, and one more if there is one. A panic in this goroutine, which would end the process, is
// an error.
func (s *Sales) newest(ctx context.Context) (vouchers []Voucher, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while the catalog is read: %v\n%s", p, debug.Stack())
		}
	}()
	return s.cfg.Loader.NewestVouchers(ctx, maxCatalog+1)
}

// forget makes the next reader wait for a read that begins from now on.
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

// markSoldOut notes that a sale has nothing left.
func (c *catalogSnapshot) markSoldOut(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	old := c.current.Load()
	if old == nil {
		return
	}
	i := slices.IndexFunc(old.vouchers, func(v *Voucher) bool { return v.ID == id })
	if i < 0 || old.vouchers[i].Sale == nil || old.vouchers[i].Sale.Stock == 0 {
		return
	}
	sold := *old
	sold.vouchers = slices.Clone(old.vouchers)
	sold.vouchers[i] = old.vouchers[i].soldOut()
	c.current.Store(&sold)
}
