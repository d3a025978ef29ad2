package service

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// UserLocks serialises the purchases of one user across processes. It saves work in the database; the database decides.
type UserLocks interface {
	// TryDo runs fn while it holds the user's lock, and returns the error of fn. It does not wait: if the lock is
	// taken, it returns ErrOrderInProgress without running fn. The context of fn ends when the lock is lost.
	TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error
}

// LockLane is lane batch under the user's lock. It is safe for concurrent use.
type LockLane struct {
	locks UserLocks
	batch *BatchLane
}

// NewLockLane returns the lane.
func NewLockLane(locks UserLocks, batch *BatchLane) *LockLane {
	return &LockLane{locks: locks, batch: batch}
}

// lockPoll is the interval at which a purchase with a key retries to take the lock.
const lockPoll = 50 * time.Millisecond

// Place implements Lane. The lock is released after the commit, so its next holder sees the order. If the lock is lost
// before, the order is not committed. If the lock is taken, Place returns ErrOrderInProgress at once. For a purchase
// with a key it retries until the deadline, because the holder may be the same request, and then both have the same
// answer.
func (l *LockLane) Place(ctx context.Context, p Purchase) (o Order, replayed bool, err error) {
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	for {
		o, replayed, err = l.try(ctx, p)
		if p.Key == nil || !errors.Is(err, ErrOrderInProgress) {
			return o, replayed, err
		}
		select {
		case <-ctx.Done():
			return o, replayed, err
		case <-time.After(lockPoll):
		}
	}
}

// try places the purchase if the lock is free.
func (l *LockLane) try(ctx context.Context, p Purchase) (o Order, replayed bool, err error) {
	var placed error
	ran := false
	err = l.locks.TryDo(ctx, p.UserID, func(held context.Context) error {
		ran, p.Fence = true, held
		o, replayed, placed = l.batch.Place(ctx, p)
		return placed
	})
	switch {
	case ran:
		// The result of the transaction is valid even if the lock was lost or could not be released.
		return o, replayed, placed
	case errors.Is(err, ErrOrderInProgress):
		return Order{}, false, err
	}
	return Order{}, false, fmt.Errorf("%w: user lock: %w", ErrUnavailable, err)
}
