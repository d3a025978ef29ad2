package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of every lease. A lease shorter than MinLease is indistinguishable from a slow network. A lock with a lease
// longer than MaxLease would survive a crash for days; use a renewed lease instead.
const (
	MinLease = 100 * time.Millisecond
	MaxLease = 24 * time.Hour
)

// A Locker is a named lock. It has no state of its own and is safe for concurrent use; keep it or create one per use.
type Locker interface {
	// Lock waits for the lock until ctx is done, and then returns an error that matches both ErrNotAcquired and
	// ctx.Err(). It returns other errors (Redis unreachable, an invalid option) at once.
	Lock(ctx context.Context, opts ...Option) (*Hold, error)

	// TryLock tries once. If another holder has the lock, the error matches ErrNotAcquired. ctx bounds the command.
	TryLock(ctx context.Context, opts ...Option) (*Hold, error)
}

// An Option changes one Lock, TryLock, Do or TryDo.
type Option func(*options)

type options struct {
	lease  time.Duration
	leased bool // by WithLease
	fixed  bool // no watchdog
}

// WithLease fixes the lease to d, from MinLease to MaxLease, and switches the watchdog off: the hold ends with the
// lease, or at its release. [Hold.Extend] still works.
func WithLease(d time.Duration) Option {
	return func(o *options) {
		o.lease = d
		o.leased = true
		o.fixed = true
	}
}

func newOptions(d time.Duration, opts []Option) (options, error) {
	o := options{lease: d}
	for _, opt := range opts {
		opt(&o)
	}

	// Redis counts leases in milliseconds.
	o.lease = o.lease.Truncate(time.Millisecond)
	return o, checkLease(o.lease)
}

func checkLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("lock: lease of %v, want %v to %v", d, MinLease, MaxLease)
	}
	return nil
}

// Do waits for l, runs fn, and releases.
//
// fn's context is derived from ctx; it also ends when the lock is lost, with cause [ErrLost]. fn should then do nothing
// irrevocable and return.
//
// Do returns
//
//   - nil: fn ran and returned nil, and the lock was held all the time;
//   - an [*UnlockError]: fn ran and returned nil, but the lock had been lost by then or could not be released. A loss
//     is reported because only the caller can judge whether its data is protected otherwise;
//   - an error of Lock: fn did not run;
//   - otherwise fn's error, joined with the release's error if there is one.
//
// The release does not depend on ctx. It is bounded: failed attempts are retried for 1.5 s, and with the default node
// timeout the whole release, including a renewal in flight, ends within some 2 s. Do also releases when fn panics.
func Do(ctx context.Context, l Locker, fn func(context.Context) error, opts ...Option) error {
	h, err := l.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

// TryDo is Do without the wait: if another holder has the lock, fn does not run and the error matches [ErrNotAcquired].
func TryDo(ctx context.Context, l Locker, fn func(context.Context) error, opts ...Option) error {
	h, err := l.TryLock(ctx, opts...)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

func (h *Hold) do(ctx context.Context, fn func(context.Context) error) (err error) {
	fnCtx, cancel := context.WithCancelCause(ctx)
	//nolint:contextcheck // fn's context ends with ctx or the hold's, whichever is first
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })

	defer func() {
		stop()
		cancel(ErrReleased)

		unlockErr := h.release(context.WithoutCancel(ctx))
		switch {
		case unlockErr == nil:
		case err == nil:
			err = &UnlockError{unlockErr}
		default:
			err = errors.Join(err, unlockErr)
		}
	}()

	return fn(fnCtx)
}
