package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// driftFactor is the part of a lease that clocks of different speed may cost.
const driftFactor = 0.01

var errLeaseOver = errors.New("the lease was about to end without a renewal")

// renewEvery is how long after a renewal the next one begins.
func renewEvery(lease time.Duration) time.Duration { return lease / 3 }

// renewAgain is how long after a failed renewal the next attempt begins: often
// enough for some twenty attempts before the lease ends, seldom enough not to
// press a server that is in trouble.
func renewAgain(lease time.Duration) time.Duration {
	return min(max(lease/30, 10*time.Millisecond), time.Second)
}

// margin is how long before ValidUntil a hold's context ends, to give the
// holder time to hear of it and to stop.
func margin(lease time.Duration) time.Duration { return min(lease/20, time.Second) }

// backoff is the wait before the next try to acquire or to free: 20 to 40 ms at
// first, 20 to 200 ms later, at random so that waiters do not march in step.
func backoff(try int) time.Duration {
	const shortest, longest = 20 * time.Millisecond, 200 * time.Millisecond
	limit := min(longest, shortest<<min(try+1, 4))
	return shortest + rand.N(limit-shortest)
}

// setValid moves the end of the hold. The caller holds mu.
func (h *Hold) setValid(until time.Time, lease time.Duration) {
	h.validUntil, h.contextEnd = until, until.Add(-margin(lease))
	h.expiry.Reset(time.Until(h.contextEnd))
}

// expire is the expiry timer's function.
func (h *Hold) expire() {
	h.mu.Lock()
	if left := time.Until(h.contextEnd); left > 0 && h.state == held {
		// A renewal moved the end while this call was on its way.
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

// renew is the renewal timer's function.
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
	_ = h.renewed(lease, validUntil, err) // the observer and the context have been told
}

// extend is Extend without the wait for a context. ctx has no end.
func (h *Hold) extend(ctx context.Context, d time.Duration) error {
	h.op.Lock()
	defer h.op.Unlock()
	h.mu.Lock()
	if h.state != held {
		h.mu.Unlock()
		return h.notHeld()
	}
	// From the moment the command is sent the server may have shortened the
	// lease, whatever we hear of it.
	if soonest := time.Now().Add(d - drift(d)); soonest.Before(h.validUntil) {
		h.setValid(soonest, d)
	}
	h.mu.Unlock()
	validUntil, err := h.g.keeper.renew(ctx, d)
	return h.renewed(d, validUntil, err)
}

// renewed takes note of a renewal or an extension to the given lease.
func (h *Hold) renewed(lease time.Duration, validUntil time.Time, err error) error {
	if errors.Is(err, ErrNotHeld) {
		h.lose(err)
		return h.notHeld()
	}
	h.mu.Lock()
	if h.state != held { // it ended meanwhile, and nothing brings it back
		h.mu.Unlock()
		return h.notHeld()
	}
	next := renewAgain(h.lease)
	if err == nil {
		h.lease = lease
		h.setValid(validUntil, lease)
		next = renewEvery(lease)
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
