package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// recheck is the longest that a waiter sleeps. It also shows the others that
	// the waiter is alive, so it is less than a third of PATIENCE in common.lua.
	recheck = 1300 * time.Millisecond

	// faultWindow is how long a waiter puts up with nothing but errors.
	faultWindow = 10 * time.Second
)

// acquire asks once or, if wait is set, until the lock is granted, ctx ends, or
// there is trouble. After an error nothing is left on the server, or an undo is
// under way.
func (cl *claim) acquire(ctx context.Context, wait bool) (verdict, error) {
	if cl.c.life.Err() != nil {
		return verdict{}, ErrClosed
	}
	if ctx.Err() != nil {
		return verdict{}, fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}
	a, err := cl.attempts(ctx, wait)
	defer func() { cl.leaveHub(err == nil) }() // last, since Close waits for it
	if err == nil {
		return a, nil
	}
	if ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}
	return verdict{}, cl.withdraw(ctx, err)
}

// attempts is acquire without what follows an error.
func (cl *claim) attempts(ctx context.Context, wait bool) (verdict, error) {
	// Registering costs the server more than asking does, and needs the hub;
	// but where others wait already, this is probably going to wait, too.
	if !wait || !cl.c.hub.live() {
		a, err := cl.ask(ctx, modeTry)
		if err != nil || a.ok {
			return a, err
		}
		if !wait {
			return verdict{}, ErrNotAcquired
		}
	}
	return cl.await(ctx)
}

// await asks whenever there is hope.
func (cl *claim) await(ctx context.Context) (verdict, error) {
	woken, confirmed, err := cl.c.hub.join(cl.id, cl.keys[0]) //nolint:contextcheck // the subscription serves others, too
	if err != nil {
		return verdict{}, err
	}
	cl.joined = true
	// Behind others of this client there is no hurry to be queued, unless as an
	// owner, who may pass them.
	cl.patient = cl.c.hub.inLine(cl.keys[0]) > 1 && !cl.owned()
	if !isClosed(confirmed) {
		if err := cl.sleep(ctx, confirmed, confirmTimeout); err != nil {
			return verdict{}, err
		}
	}
	heard := time.Time{} // when the last answer came
	for try := 0; ; {
		a, err := cl.ask(ctx, modeWait)
		switch {
		case err == nil && a.ok:
			return a, nil
		case err == nil:
			heard, try = time.Now(), 0
		case errors.Is(err, cl.kind.refusal), ctx.Err() != nil,
			time.Since(heard) > faultWindow: // which includes the first
			return verdict{}, err
		default:
			a.retry = backoff(try)
			try++
		}
		if err := cl.sleep(ctx, woken, a.retry); err != nil {
			return verdict{}, err
		}
		if i := cl.c.hub.inherited(cl.id); i != nil {
			// Heard too late for a short lease, it is still ours: asking makes it so.
			if a, err := cl.granted(i.since, i.token); err == nil {
				return a, nil
			}
		}
	}
}

// leaveHub ends what await began. got says that the claim has the lock.
func (cl *claim) leaveHub(got bool) {
	if cl.joined && cl.c.hub.leave(cl.id, got) {
		cl.sendRelease()
	}
}

// sleep ends when woken, or after d. It returns an error if the wait is over.
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

// retryIn is when to ask again after having been told to wait for ms (negative:
// nobody knows), at a place in the queue. Waiters that are told the same do not
// rush in together.
func retryIn(ms, place int64) time.Duration {
	if ms < 0 || ms >= recheck.Milliseconds() {
		return recheck
	}
	return time.Duration(ms+1+min(place, 50)) * time.Millisecond
}
