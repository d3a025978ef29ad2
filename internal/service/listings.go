package service

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// listFresh is how long a list of vouchers is given out as it was read: when a sale opens every page asks at once, and
	// the database has purchases to decide.
	listFresh = 250 * time.Millisecond
	// maxListings bounds the lists that are kept. Further ones are read for each who asks: made-up filters must not fill the
	// memory.
	maxListings = 256
	// listTimeout bounds the shared read of a list.
	listTimeout = 2 * time.Second
)

// listings are the lists of vouchers that were read just now. Who asks for the same one shares a read. The zero value is
// empty. It is safe for concurrent use.
type listings struct {
	mu   sync.Mutex
	kept map[VoucherFilter]*listing
}

// listing is one list. The rest of it is set when done is closed, and does not change then: it is handed out.
type listing struct {
	began    time.Time
	done     chan struct{}
	vouchers []Voucher
	err      error
}

// get returns a list that was read no longer than listFresh ago, or reads it.
func (l *listings) get(ctx context.Context, f VoucherFilter, read func(context.Context) ([]Voucher, error)) ([]Voucher, error) {
	one, mine := l.find(f)
	switch {
	case one == nil:
		return read(ctx)
	case mine:
		return one.read(ctx, read)
	}
	select {
	case <-one.done:
		return one.vouchers, one.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// find returns a list that is fresh or being read; or, mine, a new one that the caller reads; or nil: there is no room.
func (l *listings) find(f VoucherFilter) (one *listing, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.kept[f]; one != nil && one.good() {
		return one, false
	}
	if delete(l.kept, f); len(l.kept) >= maxListings {
		for f, one := range l.kept {
			if !one.good() {
				delete(l.kept, f)
			}
		}
		if len(l.kept) >= maxListings {
			return nil, false
		}
	}
	if l.kept == nil {
		l.kept = map[VoucherFilter]*listing{}
	}
	one = &listing{began: time.Now(), done: make(chan struct{})}
	l.kept[f] = one
	return one, true
}

// read reads the list for everybody who waits: that its reader's client left must not fail the others.
func (l *listing) read(ctx context.Context, read func(context.Context) ([]Voucher, error)) ([]Voucher, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	defer close(l.done)
	l.err = ErrUnavailable // if read panics, this is what the others hear
	l.vouchers, l.err = read(ctx)
	return l.vouchers, l.err
}

// good says whether the list is being read or is fresh. An error is for those who waited for it.
func (l *listing) good() bool {
	select {
	case <-l.done:
		return l.err == nil && time.Since(l.began) < listFresh
	default:
		return true
	}
}

// forget drops all lists, also those that are being read: what begins now sees what is committed now.
func (l *listings) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.kept)
}
