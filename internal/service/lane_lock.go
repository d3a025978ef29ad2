package service

import (
	"context"
	"errors"
	"fmt"
)

// UserLocks serialises the purchases of one user across processes. It saves work; the database decides.
type UserLocks interface {
	// TryDo runs fn while holding the user's lock and returns fn's error. It does not wait: a lock that somebody
	// holds is ErrOrderInProgress, and fn did not run. fn's context ends when the lock is lost.
	TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error
}

// LockLane is the reference lane: the user's lock around one transaction for one order.
type LockLane struct {
	locks  UserLocks
	placer placer
}

// NewLockLane makes the lane.
func NewLockLane(locks UserLocks, ids IDs, orders OrderStore) *LockLane {
	return &LockLane{locks: locks, placer: placer{ids: ids, orders: orders}}
}

// Place implements Lane. The lock covers the commit: whoever gets the lock next sees this order.
func (l *LockLane) Place(ctx context.Context, p Purchase) (Order, error) {
	var (
		placed Placed
		ran    bool
	)
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	err := l.locks.TryDo(ctx, p.UserID, func(ctx context.Context) error {
		ran = true
		placed = l.placer.place(ctx, []Purchase{p})[0]
		return placed.Err
	})
	switch {
	case ran:
		// What the transaction said is the truth, also when the lock was lost meanwhile or its release failed.
		return placed.Order, placed.Err
	case errors.Is(err, ErrOrderInProgress):
		return Order{}, err
	}
	return Order{}, fmt.Errorf("%w: user lock: %w", ErrUnavailable, err)
}
