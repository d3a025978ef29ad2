package service

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// UserLocks serialises the purchases of one user across processes. It saves work; the database decides.
type UserLocks interface {
	// TryDo runs fn while holding the user's lock and returns fn's error. It does not wait: if the lock is taken, it
	// returns ErrOrderInProgress and fn does not run. fn's context ends when the lock is lost.
	TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error
}

// LockLane is lane batch under the user's lock.
type LockLane struct {
	locks UserLocks
	batch *BatchLane
}

// NewLockLane makes the lane.
func NewLockLane(locks UserLocks, batch *BatchLane) *LockLane {
	return &LockLane{locks: locks, batch: batch}
}

// lockPoll is how often the lock is tried again for a purchase with a key.
const lockPoll = 50 * time.Millisecond

// Place implements Lane. The lock covers the commit: the next holder sees this order. The order is not committed once
// the lock is lost. A lock that is taken is ErrOrderInProgress at once, except for a purchase with a key: the holder may
// be the same request, whose answer is the answer to this one too, so it waits until its deadline.
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
		// The transaction's answer holds even if the lock was lost meanwhile or its release failed.
		return o, replayed, placed
	case errors.Is(err, ErrOrderInProgress):
		return Order{}, false, err
	}
	return Order{}, false, fmt.Errorf("%w: user lock: %w", ErrUnavailable, err)
}
