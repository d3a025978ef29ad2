package lock

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrNotAcquired says that the caller does not have the lock because
	// somebody else has it, or because the wait was cut short; then the error
	// also matches ctx.Err() and the context's cause. A Redis that is down is
	// not ErrNotAcquired: its own error is returned.
	ErrNotAcquired = errors.New("lock not acquired")

	// ErrNotHeld is returned by Extend and Release when the hold had ended
	// before. It comes together with ErrLost or ErrReleased, the reason.
	ErrNotHeld = errors.New("lock not held")

	// ErrLost is the cause of a hold's context when the lease ended, or was
	// about to, without a renewal, or when the server said that the lock is not
	// ours any more.
	ErrLost = errors.New("lock lost")

	// ErrReleased is the cause of a hold's context after Release.
	ErrReleased = errors.New("lock released")

	// ErrUncertain says that a command may have been executed although its
	// reply never came, and that it could not be undone or confirmed in time.
	// The lock may stay taken until one lease has passed; nobody holds it.
	ErrUncertain = errors.New("lock state uncertain")

	// ErrClosed is returned by everything that a Client does after its Close.
	ErrClosed = errors.New("lock client closed")

	// errNotSent is in the errors of commands that never left the process.
	errNotSent = errors.New("command not sent")
)

// An UnlockError is what [Do] and [TryDo] return when fn returned nil and only
// the end of the hold went wrong: the work is done and must not be reported as
// failed. Err matches
//
//   - ErrNotHeld and ErrLost, when the lock was lost before fn had returned:
//     somebody else may have been at work at the same time;
//   - ErrUncertain, when the release could not be confirmed: the lock may stay
//     taken until the lease ends.
type UnlockError struct{ Err error }

// Error implements error.
func (e *UnlockError) Error() string {
	return "work done, but unlocking failed: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *UnlockError) Unwrap() error { return e.Err }

// waitEnded is the reason that ctx gives for having ended. It matches both
// ctx.Err() and the cause, which may be an error of the caller's own.
func waitEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
