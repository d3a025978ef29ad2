package service

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// listPause lies between the beginnings of two reads of a list: when a sale opens every page asks at once, and the
	// database has purchases to decide.
	listPause = 50 * time.Millisecond
	// maxListings bounds the lists whose readers share. Others are read for each who asks: made-up filters must not fill the
	// memory.
	maxListings = 256
	// listTimeout bounds the shared read of a list.
	listTimeout = 2 * time.Second
)

// listings let those who ask for the same list of vouchers share a read. It begins after each of them has asked, so nobody
// is shown what was before. The zero value is ready. It is safe for concurrent use.
type listings struct {
	mu    sync.Mutex
	lists map[VoucherFilter]*listing
}

// listing is when a list was read, and will be.
type listing struct {
	last *listRead
	next *listRead // which has not begun; nil: nobody waits for one
}

// listRead is a read. The rest of it is set when done is closed, and does not change then: it is handed out.
type listRead struct {
	begins   time.Time
	done     chan struct{}
	vouchers []Voucher
	err      error
}

// get returns what a read finds that begins now or later.
func (l *listings) get(ctx context.Context, f VoucherFilter, read func(context.Context) ([]Voucher, error)) ([]Voucher, error) {
	r, after, mine := l.join(f)
	switch {
	case r == nil:
		return read(ctx)
	case mine:
		return l.run(ctx, f, r, after, read)
	}
	select {
	case <-r.done:
		return r.vouchers, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// join returns the next read of a list; or, mine, a new one that the caller makes, after the one before; or nil: there is
// no room.
func (l *listings) join(f VoucherFilter) (r, after *listRead, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.lists[f]
	if list == nil {
		if len(l.lists) >= maxListings && !l.makeRoom() {
			return nil, nil, false
		}
		if l.lists == nil {
			l.lists = map[VoucherFilter]*listing{}
		}
		list = &listing{}
		l.lists[f] = list
	}
	if list.next != nil {
		return list.next, nil, false
	}
	list.next = &listRead{begins: time.Now(), done: make(chan struct{})}
	if list.last != nil {
		if earliest := list.last.begins.Add(listPause); earliest.After(list.next.begins) {
			list.next.begins = earliest
		}
	}
	return list.next, list.last, true
}

// makeRoom forgets the lists that nobody has asked for just now.
func (l *listings) makeRoom() bool {
	for f, list := range l.lists {
		if list.next == nil && time.Since(list.last.begins) > listPause && list.last.over() {
			delete(l.lists, f)
		}
	}
	return len(l.lists) < maxListings
}

func (r *listRead) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// run makes a read for everybody who waits for it: that its reader's client left must not fail the others.
func (l *listings) run(
	ctx context.Context, f VoucherFilter, r, after *listRead, read func(context.Context) ([]Voucher, error),
) ([]Voucher, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	defer close(r.done)
	r.err = ErrUnavailable // if read panics, this is what the others hear
	if after != nil {
		<-after.done // in bounded time
	}
	time.Sleep(time.Until(r.begins))
	l.mu.Lock()
	list := l.lists[f]
	list.last, list.next = r, nil // who comes from now on waits for the one after
	r.begins = time.Now()
	l.mu.Unlock()
	r.vouchers, r.err = read(ctx)
	return r.vouchers, r.err
}
