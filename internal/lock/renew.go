package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

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
	const shortest, longest = 20 * time.Millisecond, 200 * time.Millisecond
	limit := min(longest, shortest<<min(try+1, 4))
	return shortest + rand.N(limit-shortest)
}

// setValid sets the end of the hold. The caller holds mu.
func (h *Hold) setValid(until time.Time, lease time.Duration) {
	h.validUntil, h.contextEnd = until, until.Add(-margin(lease))
	h.expiry.Reset(time.Until(h.contextEnd))
}

// expire is the function of the expiry timer.
func (h *Hold) expire() {
	h.mu.Lock()
	if left := time.Until(h.contextEnd); left > 0 && h.state == held {
		// A renewal moved the end while the timer fired.
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

// renew is the function of the renewal timer.
func (h *Hold) renew() {
	h.op.Lock()
	defer h.op.Unlock()
	h.mu.Lock()
	lease, stillHeld := h.lease, h.state == held
	h.mu.Unlock()
	if !stillHeld {
		return
	}
	validUntil, err := h.g.keeper.renew(h.ctx, lease)
	_ = h.applyRenewal(lease, validUntil, err) // applyRenewal has notified the observer and ended the context
}

// extend is Extend for a ctx that has no end.
func (h *Hold) extend(ctx context.Context, d time.Duration) error {
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

// applyRenewal applies the outcome of a renewal or an extension to the given lease.
func (h *Hold) applyRenewal(lease time.Duration, validUntil time.Time, err error) error {
	if errors.Is(err, ErrNotHeld) {
		h.lose(err)
		return h.notHeldError()
	}
	h.mu.Lock()
	if h.state != held { // it ended meanwhile and is not revived
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
