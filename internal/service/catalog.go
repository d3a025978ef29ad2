package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
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

// Browse returns a page of the vouchers that match f, and how many match its search in each tab.
func (c *Catalog) Browse(f domain.StaffFilter, now time.Time) ([]*domain.Voucher, map[domain.SaleTab]int) {
	titled := domain.Finder(f.Search)
	id := domain.Typed(f.Search)
	counts := map[domain.SaleTab]int{}
	for _, tab := range domain.SaleTabs {
		counts[tab] = 0
	}

	var matching []*domain.Voucher
	for _, v := range c.vouchers {
		if f.Search != "" && !titled(v.Title) && strconv.FormatInt(v.ID, 10) != id {
			continue
		}

		tab := v.Tab(now)
		counts[domain.TabAll]++
		if tab != domain.TabAll {
			counts[tab]++
		}

		if f.Tab == domain.TabAll || f.Tab == tab {
			matching = append(matching, v)
		}
	}

	return c.page(matching, f), counts
}

// page returns the page of f: of upcoming sales the one that begins next is first, of all others the newest.
func (c *Catalog) page(vouchers []*domain.Voucher, f domain.StaffFilter) []*domain.Voucher {
	before := func(a, b *domain.Voucher) int { return cmp.Compare(b.ID, a.ID) }
	if f.Tab == domain.TabUpcoming {
		before = func(a, b *domain.Voucher) int {
			return cmp.Or(a.Sale.BeginAt.Compare(b.Sale.BeginAt), cmp.Compare(b.ID, a.ID))
		}
		slices.SortFunc(vouchers, before)
	}

	if f.Page.Before > 0 {
		// The last one of the page before. It may have left the tab since, but is still in the catalog.
		last := &domain.Voucher{ID: f.Page.Before, Sale: &domain.Sale{}}
		if i := slices.IndexFunc(c.vouchers, func(v *domain.Voucher) bool { return v.ID == f.Page.Before && v.Sale != nil }); i >= 0 {
			last = c.vouchers[i]
		}
		vouchers = slices.DeleteFunc(vouchers, func(v *domain.Voucher) bool { return before(v, last) <= 0 })
	}

	return vouchers[:min(len(vouchers), f.Page.Limit)]
}

// Complete reports whether there are no older vouchers.
func (c *Catalog) Complete() bool { return c.complete }

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

// Catalog returns the newest vouchers as they were less than a second ago, with every change that this process made to
// a voucher before the call. Purchases and returned units may appear later, but within that second.
// Error: ErrUnavailable.
func (s *Sales) Catalog(ctx context.Context) (*Catalog, error) { return current(ctx, &s.catalog) }

func current[T any](ctx context.Context, r *cache.Refreshed[T]) (T, error) {
	v, err := r.Get(ctx)
	if err != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
	}
	return v, err
}

func (s *Sales) readCatalog(ctx context.Context) (*Catalog, error) {
	vouchers, err := s.cfg.Loader.NewestVouchers(ctx, maxCatalog+1)
	if err != nil {
		return nil, err
	}

	c := &Catalog{complete: len(vouchers) <= maxCatalog}
	for i := range vouchers[:min(len(vouchers), maxCatalog)] {
		c.vouchers = append(c.vouchers, &vouchers[i])
	}

	return c, nil
}
