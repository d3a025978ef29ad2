package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Multi returns a lock that is had by whoever has all of ls, which may be of any
// kind, on any server, and Multis themselves. All or nothing: a Lock or TryLock
// that fails gives back what it had taken.
//
// The locks are taken one after the other, in an order that depends on their
// keys and then on their servers' addresses, not on that of ls; so Multis that
// share some of their locks do not wait for each other in a circle, in whatever
// processes, as long as all reach a server by the same address. Lockers that
// this package did not make come last, in the order given. A lock that is named
// twice is taken once.
//
// While it waits for one lock, Lock keeps those that it has already; they are
// renewed, and ctx bounds the wait for all of them together.
//
// The hold is lost as soon as one of its parts is. ValidUntil is the earliest of
// theirs; without [WithLease] they are renewed together, with the shortest of
// the leases that their Clients have. Token is 0, as tokens of different locks
// have nothing to do with each other: a store that compares tokens needs the
// Hold of the one lock that guards it, taken by itself, after the Multi of the
// others and always in that order. Extend and Release do the same to all
// parts at the same time, whatever becomes of any of them, and join the errors.
// Observers see the parts, each as a lock of its own.
//
// Without locks, or with one that is nil, Multi returns a Locker that returns an
// error.
func Multi(ls ...Locker) Locker {
	flat, err := flatten(ls)
	if err == nil && len(flat) == 0 {
		err = errors.New("lock: a Multi needs at least one lock")
	}
	if err != nil {
		return &multi{err: err}
	}
	locks := inOrder(flat)
	return &multi{locks: locks, name: namesOf(locks)}
}

// multi implements Locker.
type multi struct {
	locks []Locker // in order, each once
	name  string   // of all of them, for errors
	err   error    // why it cannot be used
}

// multiKind is what a Multi's holds are called.
const multiKind = "multi"

// Lock implements Locker.
func (m *multi) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, true)
}

// TryLock implements Locker.
func (m *multi) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, false)
}

func (m *multi) lock(ctx context.Context, opts []Option, wait bool) (*Hold, error) {
	if m.err != nil {
		return nil, m.err
	}
	p, err := m.take(ctx, opts, wait)
	lease := p.lease()
	if err == nil {
		err = p.refresh(ctx, lease)
	}
	if err != nil {
		return nil, errors.Join(err, p.giveBack(ctx))
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	h := newHold(ctx, grant{
		keeper: p, kind: multiKind, name: m.name, lease: lease, fixed: o.fixed, validUntil: p.validUntil(),
	})
	for _, part := range p.holds {
		//nolint:contextcheck // a part is lost whoever asked for the lock
		context.AfterFunc(part.ctx, func() { h.lose(context.Cause(part.ctx)) }) // does nothing after the release
	}
	return h, nil
}

var errPartLost = fmt.Errorf("lock: %w while waiting for the others of a Multi", ErrLost)

// take takes the locks until one cannot be had. The holds have watchdogs,
// whatever opts say: nobody knows how long the wait for the rest will be.
func (m *multi) take(ctx context.Context, opts []Option, wait bool) (*parts, error) {
	opts = append(opts[:len(opts):len(opts)], func(o *options) { o.fixed = false })
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &parts{}
	for _, l := range m.locks {
		lock := l.TryLock
		if wait {
			lock = l.Lock
		}
		h, err := lock(ctx, opts...)
		if context.Cause(ctx) == errPartLost { //nolint:errorlint // the very one
			err = errPartLost
		}
		if h != nil {
			p.holds = append(p.holds, h)
			// There is no point in waiting for the others then.
			defer context.AfterFunc(h.ctx, func() { stop(errPartLost) })() //nolint:contextcheck // the hold's own context
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// parts are the holds that make one of a Multi, and its keeper.
type parts struct {
	holds []*Hold
	lost  error // of parts that were lost before their release
}

// each calls fn for all parts at the same time and returns their errors.
func (p *parts) each(fn func(*Hold) error) []error {
	errs := make([]error, len(p.holds))
	var wg sync.WaitGroup
	for i, h := range p.holds {
		wg.Go(func() { errs[i] = fn(h) })
	}
	wg.Wait()
	return errs
}

// lease is the shortest of the parts'; 0 if there are none.
func (p *parts) lease() (shortest time.Duration) {
	for i, h := range p.holds {
		h.mu.Lock()
		if i == 0 || h.lease < shortest {
			shortest = h.lease
		}
		h.mu.Unlock()
	}
	return shortest
}

// validUntil is the earliest of the parts'.
func (p *parts) validUntil() (earliest time.Time) {
	for i, h := range p.holds {
		if until := h.ValidUntil(); i == 0 || until.Before(earliest) {
			earliest = until
		}
	}
	return earliest
}

// refresh ends the parts' watchdogs, since the whole has one, and gives those a
// full lease that have less than nine tenths of it left. It also finds out
// which are lost.
func (p *parts) refresh(ctx context.Context, lease time.Duration) error {
	err := errors.Join(p.each(func(h *Hold) error {
		h.unwatch()
		if time.Until(h.ValidUntil()) < lease*9/10 {
			return h.Extend(ctx, lease)
		}
		if h.ctx.Err() != nil {
			return h.notHeld()
		}
		return nil
	})...)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrNotAcquired, err)
	}
	return err
}

// unwatch ends the watchdog. A renewal that is under way is harmless.
func (h *Hold) unwatch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renewal != nil {
		h.renewal.Stop()
		h.renewal = nil
	}
}

// giveBack releases what was taken in vain. If ctx has ended, that goes on in
// the background. The error is what the caller of Lock should hear of it.
func (p *parts) giveBack(ctx context.Context) error {
	return errors.Join(p.each(func(h *Hold) error {
		err := h.Release(ctx)
		if errors.Is(err, ErrNotHeld) {
			return nil // it is gone, as it should be
		}
		return err
	})...)
}

// renew implements keeper.
func (p *parts) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	err := errors.Join(p.each(func(h *Hold) error { return h.extend(ctx, d) })...)
	if err != nil {
		return time.Time{}, err
	}
	return p.validUntil(), nil
}

// release implements keeper. A loss is an answer only when no part is
// uncertain, for it ends the matter.
func (p *parts) release(ctx context.Context) error {
	var uncertain error
	for _, err := range p.each(func(h *Hold) error { return h.release(ctx) }) {
		if errors.Is(err, ErrNotHeld) {
			p.lost = errors.Join(p.lost, err)
		} else {
			uncertain = errors.Join(uncertain, err)
		}
	}
	if uncertain != nil {
		return uncertain
	}
	return p.lost
}
