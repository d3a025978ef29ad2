package app

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/service"
)

// orderLock is the name of a user's lock, up to the user's id.
const OrderLock = "order:"

// userLocks adapts package lock to service.UserLocks.
type userLocks struct{ locks *lock.RedLocks }

// lockNodeTimeout bounds one command on one lock node. It leaves the database its share of a buyer's 5 s.
const lockNodeTimeout = 1500 * time.Millisecond

// lockLease is how long a user's presses get order_in_progress after the server that held the lock was killed. A purchase
// lasts at most 3 s, and the watchdog renews the lock of one that needs more.
const lockLease = 10 * time.Second

func newUserLocks(nodes []redis.UniversalClient, observe func(lock.Event)) (*userLocks, error) {
	locks, err := lock.NewRedLocks(nodes, lock.WithWatchdogLease(lockLease), lock.WithNodeTimeout(lockNodeTimeout),
		lock.WithRedLockObserver(observe))
	return &userLocks{locks: locks}, err
}

// TryDo implements service.UserLocks.
func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	err := lock.TryDo(ctx, l.locks.Lock(OrderLock+strconv.FormatInt(userID, 10)), fn)
	if errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUncertain) && ctx.Err() == nil {
		return service.ErrOrderInProgress // any other error is the trouble of the nodes
	}
	return err
}
