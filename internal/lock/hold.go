package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// releaseWindow bounds the retries of a failed release.
const releaseWindow = 1500 * time.Millisecond

// A keeper performs the server side of one hold. The hold calls one method at a time. A keeper bounds each command
// itself, because ctx may have no end.
type keeper interface {
	// renew makes the lease end d from now, and returns the time until which the holder may rely on it. An error that
	// matches ErrNotHeld proves that the lock is not held any more; after any other error the lease may or may not have
	// changed.
	renew(ctx context.Context, d time.Duration) (validUntil time.Time, err error)

	// release frees the lock if it is still held. An error that matches ErrNotHeld proves that it was not. After any
	// other error it is called again, and must not mistake the effect of an earlier call for a loss.
	release(ctx context.Context) error
}

// A grant describes a successful acquire to newHold.
type grant struct {
	keeper     keeper
	kind       string
	name       string
	token      uint64
	lease      time.Duration
	fixed      bool // no watchdog
	validUntil time.Time
	observe    func(Event)

	// life, if it is not nil, is a context with which the hold is lost. Its cause may be an error of package zk.
	life context.Context
}

// holdState changes from held to releasing or lost, and from both to ended.
type holdState int

const (
	held      holdState = iota
	releasing           // Release was called; the server has not confirmed it
	lost
	ended
)

// A Hold is one possession of a lock, from a successful Lock or TryLock until Release or loss. Its methods are safe for
// concurrent use.
//
// A hold costs two timers and no goroutine.
type Hold struct {
	g      grant
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc

	// op is held during a command, so that renewals, extensions and the release never overtake each other on the way to
	// the server. It is acquired before mu.
	op sync.Mutex

	// mu guards the fields below. It is never held during a command.
	mu         sync.Mutex
	state      holdState
	lease      time.Duration
	validUntil time.Time
	contextEnd time.Time // before validUntil

	// expiry fires at contextEnd. renewal is nil without a watchdog, stopLifeWatch is nil without a life in the grant.
	expiry        *time.Timer
	renewal       *time.Timer
	stopLifeWatch func() bool
}

// newHold starts a hold. It uses only the values of ctx.
func newHold(ctx context.Context, g grant) *Hold {
	h := &Hold{
		g:     g,
		began: time.Now(),
		lease: g.lease,
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))

	// A timer may fire before its field is set.
	h.mu.Lock()
	defer h.mu.Unlock()
	h.validUntil = g.validUntil
	h.contextEnd = g.validUntil.Add(-margin(g.lease))
	h.expiry = time.AfterFunc(time.Until(h.contextEnd), h.expire)
	if !g.fixed {
		h.renewal = time.AfterFunc(renewIn(g.lease, time.Until(h.contextEnd)), h.renew)
	}

	if g.life != nil {
		//nolint:contextcheck // the hold ends with the client, regardless of the caller's context
		h.stopLifeWatch = context.AfterFunc(g.life, h.loseWithLife)
	}
	return h
}

// Context returns a context with the values of the ctx passed to Lock, but not its end. It ends at the release (cause
// [ErrReleased]), at a loss (cause [ErrLost]), and always before ValidUntil, by a twentieth of the lease but at most
// 1 s. Work under the lock should use it, or a context that ends with it.
func (h *Hold) Context() context.Context { return h.ctx }

// Token returns the fencing token. It increases with every new holder of the name, so that a store can refuse the
// writes of an earlier holder. It is 0 for the locks without tokens, those of [NewRedLock], [NewRedLocks] and [Multi];
// their documentation names alternatives.
func (h *Hold) Token() uint64 { return h.g.token }

// ValidUntil returns the time until which the server keeps the lock for this hold unless it is renewed or extended. It
// is meaningless once Context has ended.
func (h *Hold) ValidUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.validUntil
}

// Extend makes the lease end d from now, which may be earlier or later than before; d is from MinLease to MaxLease. A
// watchdog renews with d from then on, every d/3.
//
// The error matches ErrNotHeld if the hold has ended or the server has just reported it lost. After any other error the
// hold is unchanged, with one exception: if d would have made the lease end earlier, the hold now ends that early
// unless its watchdog renews it. If ctx ends first, the error matches ctx.Err() and ErrUncertain, and the extension may
// still take effect.
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

// Release ends the hold: it ends Context, waits for a renewal in flight, and frees the lock on the server if it is
// still this hold's. It never frees another holder's lock.
//
// A failed attempt is retried for up to 1.5 s. Release returns
//
//   - nil if the lock was freed, and for every call after a release or a reported loss, which does nothing;
//   - an error that matches ErrNotHeld and ErrLost if the hold had been lost;
//   - an error that matches ErrUncertain and the errors of the nodes if no attempt was confirmed; a further call tries
//     again.
//
// If ctx ends, or has ended before, the release continues in the background. If that takes longer than some 20 ms,
// Release returns an error that matches ErrUncertain and ctx.Err().
func (h *Hold) Release(ctx context.Context) error {
	err, ok := await(ctx, func() error { return h.release(context.WithoutCancel(ctx)) }, nil)
	if !ok {
		return fmt.Errorf("lock: releasing %q: %w: %w", h.g.name, ErrUncertain, waitEnded(ctx))
	}
	return err
}

// release is Release for a ctx that has no end.
func (h *Hold) release(ctx context.Context) error {
	h.loseWithLife()
	h.mu.Lock()
	if h.state == held {
		h.state = releasing
		h.stop(ErrReleased)
	}
	h.mu.Unlock()

	// Wait for a renewal in flight.
	h.op.Lock()
	defer h.op.Unlock()
	h.mu.Lock()
	state := h.state
	h.mu.Unlock()

	switch state {
	case ended:
		return nil
	case lost:
		// The key may still exist if renewals could not reach the server. Try once to free it early; otherwise the
		// lease ends it.
		_ = h.g.keeper.release(ctx)
		h.setState(ended)
		return h.notHeldError()
	}

	err := h.releaseUntilConfirmed(ctx)
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

func (h *Hold) releaseUntilConfirmed(ctx context.Context) error {
	deadline := time.Now().Add(releaseWindow)

	// The first attempt nearly always suffices, so it needs no timer.
	err := h.g.keeper.release(ctx)
	if err == nil || errors.Is(err, ErrNotHeld) {
		return err
	}

	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for try := 0; sleep(ctx, backoff(try)); try++ {
		// The error of an attempt that the window cut off is less useful than the one before.
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
	if h.stopLifeWatch != nil {
		h.stopLifeWatch()
	}
	h.cancel(cause)
}

func (h *Hold) lose(why error) {
	h.mu.Lock()
	wasHeld := h.loseLocked()
	h.mu.Unlock()
	if wasHeld {
		h.emit(EventLost, why)
	}
}

// loseWithLife loses the hold if its life has ended. The watch of life calls it a little later than that.
func (h *Hold) loseWithLife() {
	if h.g.life != nil && h.g.life.Err() != nil {
		h.lose(fromZooKeeper(context.Cause(h.g.life)))
	}
}

// loseLocked is lose without the mutex and the observer. It returns false, and does nothing, if the hold had ended. The
// caller holds mu.
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

func (h *Hold) notHeldError() error {
	return fmt.Errorf("lock: %q: %w: %w", h.g.name, ErrNotHeld, context.Cause(h.ctx))
}

func (h *Hold) emit(kind EventKind, err error) {
	if h.g.observe != nil {
		h.g.observe(Event{
			Kind: kind,
			Lock: h.g.kind,
			Name: h.g.name,
			Held: time.Since(h.began),
			Err:  err,
		})
	}
}

// driftFactor is the fraction of a lease that is reserved for clocks of different speed.
const driftFactor = 0.01

var errLeaseOver = errors.New("the lease was about to end without a renewal")

// renewIn returns when to renew a lease of which left remains until the hold's context ends. That may be less than the
// lease: the reply was slow, or something else ends the hold earlier.
func renewIn(lease, left time.Duration) time.Duration { return min(lease/3, left/2) }

// renewRetryInterval returns the time between a failed renewal and the next attempt. It allows some twenty attempts
// before the lease ends without overloading a failing server.
func renewRetryInterval(lease time.Duration) time.Duration {
	return min(max(lease/30, 10*time.Millisecond), time.Second)
}

// margin returns how long before ValidUntil a hold's context ends, which gives the holder time to notice and stop.
func margin(lease time.Duration) time.Duration { return min(lease/20, time.Second) }

// backoff returns the wait before the next attempt to acquire or to release: 20 to 40 ms at first, 20 to 200 ms later,
// at random so that waiters do not synchronize.
func backoff(try int) time.Duration {
	const (
		shortest = 20 * time.Millisecond
		longest  = 200 * time.Millisecond
	)
	limit := min(longest, shortest<<min(try+1, 4))
	return shortest + rand.N(limit-shortest)
}

// setValid sets the end of the hold. The caller holds mu.
func (h *Hold) setValid(until time.Time, lease time.Duration) {
	h.validUntil = until
	h.contextEnd = until.Add(-margin(lease))
	h.expiry.Reset(time.Until(h.contextEnd))
}

func (h *Hold) expire() {
	h.mu.Lock()

	// A renewal may have moved the end while the timer fired.
	if left := time.Until(h.contextEnd); left > 0 && h.state == held {
		h.expiry.Reset(left)
		h.mu.Unlock()
		return
	}

	wasHeld := h.loseLocked()
	h.mu.Unlock()
	if wasHeld {
		h.emit(EventLost, errLeaseOver)
	}
}

func (h *Hold) renew() {
	h.op.Lock()
	defer h.op.Unlock()

	h.mu.Lock()
	lease := h.lease
	stillHeld := h.state == held
	h.mu.Unlock()
	if !stillHeld {
		return
	}

	// An error has reached the observer and, if it is a loss, the context.
	validUntil, err := h.g.keeper.renew(h.ctx, lease)
	_ = h.applyRenewal(lease, validUntil, err)
}

// extend is Extend for a ctx that has no end.
func (h *Hold) extend(ctx context.Context, d time.Duration) error {
	h.loseWithLife()
	h.op.Lock()
	defer h.op.Unlock()

	h.mu.Lock()
	if h.state != held {
		h.mu.Unlock()
		return h.notHeldError()
	}

	// Once the command is sent, the server may have shortened the lease even if the reply is lost.
	if soonest := time.Now().Add(d - drift(d)); soonest.Before(h.validUntil) {
		h.setValid(soonest, d)
	}
	h.mu.Unlock()

	validUntil, err := h.g.keeper.renew(ctx, d)
	return h.applyRenewal(d, validUntil, err)
}

func (h *Hold) applyRenewal(lease time.Duration, validUntil time.Time, err error) error {
	if errors.Is(err, ErrNotHeld) {
		h.lose(err)
		return h.notHeldError()
	}

	// A hold that has ended meanwhile is not revived.
	h.mu.Lock()
	if h.state != held {
		h.mu.Unlock()
		return h.notHeldError()
	}

	next := renewRetryInterval(h.lease)
	if err == nil {
		h.lease = lease
		h.setValid(validUntil, lease)
		next = renewIn(lease, time.Until(h.contextEnd))
	}

	if h.renewal != nil {
		h.renewal.Reset(next)
	}
	h.mu.Unlock()

	if err == nil {
		return nil
	}
	h.emit(EventRenewFailed, err)
	return fmt.Errorf("lock: renewing %q: %w", h.g.name, err)
}

func drift(lease time.Duration) time.Duration {
	return time.Duration(float64(lease) * driftFactor)
}
