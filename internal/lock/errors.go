package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotAcquired is returned when another holder has the lock, or when the wait was cut short; in the latter case
	// the error also matches ctx.Err() and the context's cause. An unreachable Redis is not ErrNotAcquired: its own
	// error is returned.
	ErrNotAcquired = errors.New("lock not acquired")

	// ErrNotHeld is returned by Extend and Release when the hold had ended before. It comes together with ErrLost or
	// ErrReleased, the reason.
	ErrNotHeld = errors.New("lock not held")

	// ErrLost is the cause of a hold's context when the lease ended, or was about to, without a renewal, or when the
	// server replied that another holder has the lock.
	ErrLost = errors.New("lock lost")

	// ErrReleased is the cause of a hold's context after Release.
	ErrReleased = errors.New("lock released")

	// ErrUncertain is returned when a command may have been executed although its reply was lost, and it could not be
	// undone or confirmed in time. The lock may stay taken, without a holder, for one lease.
	ErrUncertain = errors.New("lock state uncertain")

	// ErrClosed is returned by every call on a Client after its Close.
	ErrClosed = errors.New("lock client closed")

	// errNotSent marks the errors of commands that never left the process.
	errNotSent = errors.New("command not sent")
)

// An UnlockError is returned by [Do] and [TryDo] when fn returned nil and only the end of the hold failed: the work is
// done and must not be reported as failed. Err matches
//
//   - ErrNotHeld and ErrLost if the lock was lost before fn returned: another holder may have worked at the same time;
//   - ErrUncertain if the release could not be confirmed: the lock may stay taken until the lease ends.
type UnlockError struct{ Err error }

// Error implements error.
func (e *UnlockError) Error() string {
	return "work done, but unlocking failed: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *UnlockError) Unwrap() error { return e.Err }

// waitEnded returns the reason why ctx ended. It matches both ctx.Err() and the cause, which may be an error of the
// caller's own.
func waitEnded(ctx context.Context) error {
	err := ctx.Err()
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// An EventKind names what happened to a lock. The values are short and few, so that they can label a metric.
type EventKind string

// Every Lock and TryLock with valid options ends in exactly one of acquired, not_acquired, failed and uncertain. Every
// hold that is released or lost ends in released or lost, or, for each release that could not be confirmed, uncertain.
const (
	EventAcquired    EventKind = "acquired"     // a hold began
	EventNotAcquired EventKind = "not_acquired" // another holder has the lock, or the wait was cut short
	EventFailed      EventKind = "failed"       // Redis, or too many nodes, failed; nothing was left behind
	EventUncertain   EventKind = "uncertain"    // see ErrUncertain; Held is 0 if an acquire was uncertain
	EventRenewFailed EventKind = "renew_failed" // one renewal failed; it will be retried
	EventReleased    EventKind = "released"     // a hold was released
	EventLost        EventKind = "lost"         // a hold ended before its release
)

// An Event is one report to an observer.
type Event struct {
	Kind EventKind

	// Lock is the kind of lock: mutex, fair, redlock and so on.
	Lock string

	// Name is the lock's name. Names are unbounded, so unfit as a metric's label.
	Name string

	// Wait is the time since Lock or TryLock was called, on events of acquiring.
	Wait time.Duration

	// Held is the time since the hold began, on events of a hold.
	Held time.Duration

	// Err is the reason, on every kind except acquired and released.
	Err error
}

func acquireEvent(lock, name string, began time.Time, err error) Event {
	e := Event{
		Kind: EventFailed,
		Lock: lock,
		Name: name,
		Wait: time.Since(began),
		Err:  err,
	}

	switch {
	case err == nil:
		e.Kind = EventAcquired
	case errors.Is(err, ErrUncertain):
		e.Kind = EventUncertain
	case errors.Is(err, ErrNotAcquired):
		e.Kind = EventNotAcquired
	}
	return e
}
