package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// releaseWindow is how long a release that fails is repeated.
const releaseWindow = 1500 * time.Millisecond

// A keeper is what a kind of lock does to the server on behalf of one hold. The
// hold calls one method at a time. A keeper bounds each command itself: ctx may
// have no end.
type keeper interface {
	// renew makes the lease end d from now, and returns until when the holder
	// may rely on it. An error that matches ErrNotHeld proves that the lock is
	// not ours; after any other error the lease may or may not have changed.
	renew(ctx context.Context, d time.Duration) (validUntil time.Time, err error)

	// release frees the lock if it is ours. An error that matches ErrNotHeld
	// proves that it was not; after any other error it is called again, and
	// must not mistake the effect of its own first call for a loss.
	release(ctx context.Context) error
}

// A grant is what an acquire hands to newHold.
type grant struct {
	keeper     keeper
	kind       string // of lock
	name       string
	token      uint64
	lease      time.Duration
	fixed      bool // no watchdog
	validUntil time.Time
	observe    func(Event)
	life       context.Context // the hold is lost when it ends; nil if that never happens
}

// holdState goes from held to releasing or lost, and from both to ended.
type holdState int

const (
	held      holdState = iota
	releasing           // Release was called; the server has not confirmed it
	lost
	ended
)

// A Hold is one possession of a lock, from a successful Lock or TryLock until
// Release or loss. Its methods are safe for concurrent use.
//
// A hold costs two timers and no goroutine.
type Hold struct {
	g      grant
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc

	// op is held during a command, so that renewals, extensions and the release
	// never overtake each other on the way to the server. It is taken before mu.
	op sync.Mutex

	mu         sync.Mutex // guards what follows; never held during a command
	state      holdState
	lease      time.Duration
	validUntil time.Time
	contextEnd time.Time   // before validUntil
	expiry     *time.Timer // fires at contextEnd
	renewal    *time.Timer // nil without watchdog
	outlive    func() bool // stops listening to the end of g.life
}

// newHold starts a hold. Of ctx it takes the values only.
func newHold(ctx context.Context, g grant) *Hold {
	h := &Hold{g: g, began: time.Now(), lease: g.lease}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.mu.Lock() // a timer may fire before its field is set
	defer h.mu.Unlock()
	h.validUntil, h.contextEnd = g.validUntil, g.validUntil.Add(-margin(g.lease))
	h.expiry = time.AfterFunc(time.Until(h.contextEnd), h.expire)
	if !g.fixed {
		// A grant that was heard late leaves less time than a third of the lease.
		h.renewal = time.AfterFunc(min(renewEvery(g.lease), time.Until(h.contextEnd)/2), h.renew)
	}
	if g.life != nil {
		//nolint:contextcheck // it ends when the client does, whoever asked for the lock
		h.outlive = context.AfterFunc(g.life, func() { h.lose(context.Cause(g.life)) })
	}
	return h
}

// Context carries the values of the ctx that was passed to Lock, not its end.
// It ends at the release (cause [ErrReleased]), at a loss (cause [ErrLost]),
// and in any case before ValidUntil, by a twentieth of the lease, at most 1 s.
// Work under the lock should use it, or a context that ends with it.
func (h *Hold) Context() context.Context { return h.ctx }

// Token is the fencing token: it grows with every new holder of the name, so
// that a store can refuse writes of an earlier holder. It is 0 for locks that
// have none, those of [NewRedLock] and [Multi], which say what to use instead.
func (h *Hold) Token() uint64 { return h.g.token }

// ValidUntil is the time until which the server keeps the lock for this hold,
// if it is neither renewed nor extended. It says nothing about a hold whose
// Context has ended.
func (h *Hold) ValidUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.validUntil
}

// Extend makes the lease end d from now, sooner or later than it would have; d
// is from MinLease to MaxLease. A watchdog renews with d from then on, each
// d/3.
//
// The error matches ErrNotHeld if the hold has ended, or if the server said
// just now that it is lost. Any other error leaves the hold as it was, but for
// this: if d would have made the lease end sooner, the hold now ends as early
// as that, unless its watchdog renews it. If ctx ends first, the error matches
// ctx.Err() and ErrUncertain, and the extension may still take effect.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	d = d.Truncate(time.Millisecond)
	if err := checkLease(d); err != nil {
		return err
	}
	err, ok := await(ctx, func() error { return h.extend(context.WithoutCancel(ctx), d) }, nil)
	if !ok {
		return fmt.Errorf("lock: extending %q: %w: %w", h.g.name, ErrUncertain, waitEnded(ctx))
	}
	return err
}

// Release ends the hold: it ends Context, waits for a renewal in flight, and
// frees the lock on the server if it is still ours, never somebody else's.
//
// A failed attempt is repeated for up to 1.5 s. Release returns
//
//   - nil, when the lock was freed, and for every call after a release or a
//     reported loss; such a call does nothing;
//   - an error that matches ErrNotHeld and ErrLost, when the hold had been lost;
//   - an error that matches ErrUncertain, and the errors of the nodes, when no
//     attempt was confirmed; a further call tries again.
//
// If ctx ends, or has ended before, the release goes on in the background; if
// it is not done within some 20 ms, Release returns an error that matches
// ErrUncertain and ctx.Err().
func (h *Hold) Release(ctx context.Context) error {
	err, ok := await(ctx, func() error { return h.release(context.WithoutCancel(ctx)) }, nil)
	if !ok {
		return fmt.Errorf("lock: releasing %q: %w: %w", h.g.name, ErrUncertain, waitEnded(ctx))
	}
	return err
}

// release is Release without the wait for a context. ctx has no end.
func (h *Hold) release(ctx context.Context) error {
	h.mu.Lock()
	if h.state == held {
		h.state = releasing
		h.stop(ErrReleased)
	}
	h.mu.Unlock()

	h.op.Lock() // joins a renewal in flight
	defer h.op.Unlock()
	h.mu.Lock()
	state := h.state
	h.mu.Unlock()

	switch state {
	case ended:
		return nil
	case lost:
		// The key may still be there, if renewals could not reach the server.
		// One attempt to free it early; the lease does it otherwise.
		_ = h.g.keeper.release(ctx)
		h.setState(ended)
		return h.notHeld()
	}
	err := h.free(ctx)
	switch {
	case err == nil:
		h.setState(ended)
		h.emit(EventReleased, nil)
		return nil
	case errors.Is(err, ErrNotHeld):
		h.setState(ended)
		h.emit(EventLost, err)
		return fmt.Errorf("lock: releasing %q: %w: %w", h.g.name, ErrNotHeld, ErrLost)
	default:
		err = fmt.Errorf("lock: releasing %q: %w: %w", h.g.name, ErrUncertain, err)
		h.emit(EventUncertain, err)
		return err
	}
}

// free releases, again and again until there is an answer or releaseWindow is
// over.
func (h *Hold) free(ctx context.Context) error {
	giveUp := time.Now().Add(releaseWindow)
	err := h.g.keeper.release(ctx) // nearly always enough, so without a timer
	if err == nil || errors.Is(err, ErrNotHeld) {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, giveUp)
	defer cancel()
	for try := 0; sleep(ctx, backoff(try)); try++ {
		// An attempt that the window cut off says less than the one before.
		again := h.g.keeper.release(ctx)
		if again == nil || errors.Is(again, ErrNotHeld) {
			return again
		}
		if ctx.Err() == nil {
			err = again
		}
	}
	return err
}

// stop ends the context and the timers. The caller holds mu.
func (h *Hold) stop(cause error) {
	h.expiry.Stop()
	if h.renewal != nil {
		h.renewal.Stop()
	}
	if h.outlive != nil {
		h.outlive()
	}
	h.cancel(cause)
}

// lose ends a hold that is still held, and says why to the observer.
func (h *Hold) lose(why error) {
	h.mu.Lock()
	wasHeld := h.loseLocked()
	h.mu.Unlock()
	if wasHeld {
		h.emit(EventLost, why)
	}
}

// loseLocked is lose without the lock and the observer. It returns false, and
// does nothing, if the hold had ended. The caller holds mu.
func (h *Hold) loseLocked() bool {
	if h.state != held {
		return false
	}
	h.state = lost
	h.stop(ErrLost)
	return true
}

func (h *Hold) setState(s holdState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = s
}

// notHeld is the error of a call on a hold that has ended.
func (h *Hold) notHeld() error {
	return fmt.Errorf("lock: %q: %w: %w", h.g.name, ErrNotHeld, context.Cause(h.ctx))
}

func (h *Hold) emit(kind EventKind, err error) {
	if h.g.observe != nil {
		h.g.observe(Event{Kind: kind, Lock: h.g.kind, Name: h.g.name, Held: time.Since(h.began), Err: err})
	}
}
