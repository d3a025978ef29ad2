package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// UserLocks serialises the purchases of one user across processes. It saves work in the database; the database decides.
type UserLocks interface {
	// TryDo runs fn while it holds the user's lock, and returns the error of fn. It does not wait: if the lock is
	// taken, it returns ErrOrderInProgress without running fn. The context of fn ends when the lock is lost.
	TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error
}

// Lock is lane batch under the user's lock. It is safe for concurrent use.
type Lock struct {
	locks UserLocks
	batch *Batch
}

// NewLock returns the lane.
func NewLock(locks UserLocks, batch *Batch) *Lock {
	return &Lock{locks: locks, batch: batch}
}

// lockPoll is the interval at which a purchase with a key retries to take the lock.
const lockPoll = 50 * time.Millisecond

// Place implements service.Lane. The lock is released when Place returns: after the commit, so that its next holder
// sees the order, or at the deadline. If it is lost or released while the transaction runs, the order is not committed.
// Only if that happens during COMMIT may the next holder run beside it; the database then decides.
//
// If the lock is taken, Place returns ErrOrderInProgress at once. For a purchase with a key it retries until the
// deadline, because the holder may be the same request, and then both have the same answer.
func (l *Lock) Place(ctx context.Context, p domain.Purchase) domain.Placed {
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()

	for {
		placed := l.try(ctx, p)
		if p.Key == nil || !errors.Is(placed.Err, domain.ErrOrderInProgress) {
			return placed
		}

		if loop.Sleep(ctx, lockPoll) != nil {
			return placed
		}
	}
}

func (l *Lock) try(ctx context.Context, p domain.Purchase) domain.Placed {
	ran := false
	var placed domain.Placed
	err := l.locks.TryDo(ctx, p.UserID, func(held context.Context) error {
		ran = true
		p.Fence = held
		placed = l.batch.Place(ctx, p)
		return placed.Err
	})

	switch {
	case ran:
		// The result of the transaction is valid even if the lock was lost or could not be released.
		return placed
	case errors.Is(err, domain.ErrOrderInProgress):
		return domain.Placed{Err: err}
	}

	return domain.Placed{Err: fmt.Errorf("%w: user lock: %w", domain.ErrUnavailable, err)}
}
