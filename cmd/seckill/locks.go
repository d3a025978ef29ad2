package main

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
const orderLock = "order:"

// userLocks are the locks of package lock in the form that the service wants.
type userLocks struct {
	nodes   []redis.UniversalClient
	observe func(lock.Event)
}

// lockNodeTimeout bounds one command on one lock node. It leaves the database its share of a buyer's 5 s.
const lockNodeTimeout = 1500 * time.Millisecond

// lockLease is how long a user hears order_in_progress after the server that held the lock was killed. A purchase
// lasts at most 3 s, and the watchdog renews the lock of one that needs more.
const lockLease = 10 * time.Second

// TryDo implements service.UserLocks.
func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	mu, err := lock.NewRedLock(orderLock+strconv.FormatInt(userID, 10), l.nodes,
		lock.WithWatchdogLease(lockLease), lock.WithNodeTimeout(lockNodeTimeout), lock.WithRedLockObserver(l.observe))
	if err != nil {
		return err
	}
	err = lock.TryDo(ctx, mu, fn)
	if errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUncertain) && ctx.Err() == nil {
		return service.ErrOrderInProgress // somebody else holds it; anything else is the nodes' trouble
	}
	return err
}
