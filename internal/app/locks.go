package app

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/lock"
)

// OrderLockPrefix is the name of a user's lock up to the user id.
const OrderLockPrefix = "order:"

// userLocks adapts package lock to lane.UserLocks.
type userLocks struct{ locks *lock.RedLocks }

// lockNodeTimeout bounds one command on one lock node, so that time for the database remains of the 5 s for a purchase.
const lockNodeTimeout = 1500 * time.Millisecond

// lockLease is the time after which a lock expires if its server was killed. Until then the user's purchases fail with
// order_in_progress. A purchase takes at most 3 s; the watchdog renews the lock of a longer one.
const lockLease = 10 * time.Second

func newUserLocks(nodes []redis.UniversalClient, observe func(lock.Event)) (*userLocks, error) {
	locks, err := lock.NewRedLocks(nodes, lock.WithWatchdogLease(lockLease), lock.WithNodeTimeout(lockNodeTimeout),
		lock.WithRedLockObserver(observe))
	return &userLocks{locks: locks}, err
}

// TryDo implements lane.UserLocks.
func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	err := lock.TryDo(ctx, l.locks.Lock(OrderLockPrefix+strconv.FormatInt(userID, 10)), fn)
	if errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUncertain) && ctx.Err() == nil {
		return domain.ErrOrderInProgress // any other error is a failure of the lock nodes
	}
	return err
}
