package service

import (
	"context"
	"errors"
	"fmt"
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

// Place implements Lane. The lock covers the commit: the next holder sees this order. The order is not committed once
// the lock is lost.
func (l *LockLane) Place(ctx context.Context, p Purchase) (Order, error) {
	var (
		o      Order
		placed error
		ran    bool
	)
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	err := l.locks.TryDo(ctx, p.UserID, func(held context.Context) error {
		ran, p.Fence = true, held
		o, placed = l.batch.Place(ctx, p)
		return placed
	})
	switch {
	case ran:
		// The transaction's answer holds even if the lock was lost meanwhile or its release failed.
		return o, placed
	case errors.Is(err, ErrOrderInProgress):
		return Order{}, err
	}
	return Order{}, fmt.Errorf("%w: user lock: %w", ErrUnavailable, err)
}
