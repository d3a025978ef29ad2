package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// recheck is the longest time that a waiter sleeps. Rechecking also proves that the waiter is alive, so recheck is
	// less than a third of WAITER_TTL in common.lua.
	recheck = 1300 * time.Millisecond

	// faultWindow is how long a waiter retries while it receives only errors.
	faultWindow = 10 * time.Second
)

// acquire tries once or, if wait is set, until the lock is granted, ctx ends, or Redis fails. After an error nothing is
// left on the server, or an undo is running in the background.
func (cl *claim) acquire(ctx context.Context, wait bool) (verdict, error) {
	if cl.c.life.Err() != nil {
		return verdict{}, ErrClosed
	}
	if ctx.Err() != nil {
		return verdict{}, fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}
	a, err := cl.attempts(ctx, wait)
	defer func() { cl.leaveHub(err == nil) }() // last, because Close waits for it
	if err == nil {
		return a, nil
	}
	if ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}
	return verdict{}, cl.withdraw(ctx, err)
}

// attempts is acquire without the clean-up after an error.
func (cl *claim) attempts(ctx context.Context, wait bool) (verdict, error) {
	// Queueing costs the server more than a try, and needs the hub. But if the hub has waiters already, this caller
	// will probably have to wait too.
	if !wait || !cl.c.hub.subscribed() {
		a, err := cl.acquireOnce(ctx, modeTry)
		if err != nil || a.ok {
			return a, err
		}
		if !wait {
			return verdict{}, ErrNotAcquired
		}
	}
	return cl.await(ctx)
}

// await queues the claim and retries whenever it may succeed.
func (cl *claim) await(ctx context.Context) (verdict, error) {
	woken, confirmed, err := cl.c.hub.join(cl.id, cl.keys[0]) //nolint:contextcheck // the subscription serves other waiters too
	if err != nil {
		return verdict{}, err
	}
	cl.joined = true
	// Behind other waiters of this client, being queued is not urgent, except for an owner, which may pass them.
	cl.deferrable = cl.c.hub.waitersFor(cl.keys[0]) > 1 && !cl.owned()
	if !isClosed(confirmed) {
		if err := cl.sleep(ctx, confirmed, confirmTimeout); err != nil {
			return verdict{}, err
		}
	}
	lastReply := time.Time{} // time of the last reply
	for try := 0; ; {
		a, err := cl.acquireOnce(ctx, modeWait)
		switch {
		case err == nil && a.ok:
			return a, nil
		case err == nil:
			lastReply, try = time.Now(), 0
		case errors.Is(err, cl.kind.refusal), ctx.Err() != nil,
			time.Since(lastReply) > faultWindow: // includes the first attempt
			return verdict{}, err
		default:
			a.retry = backoff(try)
			try++
		}
		if err := cl.sleep(ctx, woken, a.retry); err != nil {
			return verdict{}, err
		}
		if i := cl.c.hub.takeHandoff(cl.id); i != nil {
			// If it arrived too late for a short lease, the lock is still this claim's: the next acquire confirms that.
			if a, err := cl.granted(i.since, i.token); err == nil {
				return a, nil
			}
		}
	}
}

// leaveHub undoes the join of await. got reports whether the claim has the lock.
func (cl *claim) leaveHub(got bool) {
	if cl.joined && cl.c.hub.leave(cl.id, got) {
		cl.sendRelease()
	}
}

// sleep waits until woken or for d. It returns an error if the wait is over.
func (cl *claim) sleep(ctx context.Context, woken <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-woken:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	case <-cl.c.life.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, ErrClosed)
	}
}

// retryIn returns when to try again after a refusal with this ms (negative: unknown) and place in the queue. The place
// spreads waiters with the same ms.
func retryIn(ms, place int64) time.Duration {
	if ms < 0 || ms >= recheck.Milliseconds() {
		return recheck
	}
	return time.Duration(ms+1+min(place, 50)) * time.Millisecond
}
