package service

import (
	"context"
	"errors"
	"fmt"
)

// maxIDTries bounds how often a purchase takes a fresh id. A collision means that the counter was lost; after
// Skip the next id is free, unless the counter is lost again in between.
const maxIDTries = 10

// UserLocks serialises the purchases of one user across processes. It saves work; the database decides.
type UserLocks interface {
	// TryDo runs fn while holding the user's lock and returns fn's error. It does not wait: a lock that somebody
	// holds is ErrOrderInProgress, and fn did not run. fn's context ends when the lock is lost.
	TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error
}

// IDs hands out order ids.
type IDs interface {
	Next(ctx context.Context) (int64, error)
	// Skip moves the sequence past everything that may have been handed out before the counter was lost.
	// taken is an id that turned out to exist.
	Skip(ctx context.Context, taken int64) error
}

// LockLane is the reference lane: the user's lock around one transaction for one order.
type LockLane struct {
	locks  UserLocks
	ids    IDs
	orders OrderStore
}

// NewLockLane makes the lane.
func NewLockLane(locks UserLocks, ids IDs, orders OrderStore) *LockLane {
	return &LockLane{locks: locks, ids: ids, orders: orders}
}

// Place implements Lane. The lock covers the commit: whoever gets the lock next sees this order.
func (l *LockLane) Place(ctx context.Context, p Purchase) (Order, error) {
	var (
		placed Order
		ran    bool
		result error
	)
	err := l.locks.TryDo(ctx, p.UserID, func(ctx context.Context) error {
		ran = true
		placed, result = l.insert(ctx, p)
		return result
	})
	switch {
	case ran:
		// What the transaction said is the truth, also when the lock was lost meanwhile or its release failed.
		return placed, result
	case errors.Is(err, ErrOrderInProgress):
		return Order{}, err
	}
	return Order{}, fmt.Errorf("%w: user lock: %w", ErrUnavailable, err)
}

// insert stores the order, under a fresh id if the first one is taken.
func (l *LockLane) insert(ctx context.Context, p Purchase) (Order, error) {
	for range maxIDTries {
		id, err := l.ids.Next(ctx)
		if err != nil {
			return Order{}, fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
		}
		o, err := l.orders.PlaceOrder(ctx, p.order(id), p.Limit)
		if !errors.Is(err, ErrIDTaken) {
			return o, err
		}
		if err := l.ids.Skip(ctx, id); err != nil {
			return Order{}, fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
		}
	}
	return Order{}, fmt.Errorf("%w: no free order id after %d tries", ErrUnavailable, maxIDTries)
}
