package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/redisconn"
	"seckill/internal/lock"
)

// OrderLockPrefix is the name of a user's lock up to the user id.
const OrderLockPrefix = "order:"

type userLocks struct {
	of func(name string) lock.Locker
	// Returns nil if locks can be acquired.
	ping  func(context.Context) error
	close func()
	// They are, for messages.
	what string
}

// lockNodeTimeout bounds one command on one lock node, so that time for the database remains of the 5 s for a purchase.
const lockNodeTimeout = 1500 * time.Millisecond

// A lock expires if its server was killed, after lockLease in Redis or zooKeeperSession in ZooKeeper. Until then the
// user's purchases fail with order_in_progress. A purchase takes at most 3 s; its lock is renewed every third of the lease,
// with up to lockNodeTimeout for the reply. A session of ZooKeeper must outlast the election of a leader, or all locks are
// lost in it.
const (
	lockLease        = 5 * time.Second
	zooKeeperSession = 10 * time.Second
)

// zooKeeperRoot is the path of the user locks in ZooKeeper.
const zooKeeperRoot = "/seckill"

// openUserLocks connects to the configured servers of the user locks: rdb if there are none. It does not wait for them.
// The caller closes the result.
func openUserLocks(cfg Config, rdb redis.UniversalClient, observe func(lock.Event)) (*userLocks, error) {
	if servers := cfg.ZooKeeperServers(); len(servers) > 0 {
		z, err := lock.NewZooKeeper(servers, lock.WithRoot(zooKeeperRoot), lock.WithSessionTimeout(zooKeeperSession),
			lock.WithRequestTimeout(lockNodeTimeout), lock.WithZooKeeperObserver(observe))
		if err != nil {
			return nil, fmt.Errorf("--lock-nodes: %w", err)
		}

		return &userLocks{
			of:   z.Mutex,
			ping: z.Ping,
			// Its error is always nil.
			close: func() { _ = z.Close() },
			what:  "ZooKeeper, which has the user locks,",
		}, nil
	}

	nodes, err := lockNodes(cfg, rdb)
	if err != nil {
		return nil, err
	}

	closeNodes := func() {
		for _, node := range nodes {
			if node != rdb {
				_ = node.Close()
			}
		}
	}

	locks, err := lock.NewRedLocks(nodes, lock.WithWatchdogLease(lockLease), lock.WithNodeTimeout(lockNodeTimeout),
		lock.WithRedLockObserver(observe))
	if err != nil {
		closeNodes()
		return nil, err
	}

	return &userLocks{
		of:    locks.Lock,
		ping:  func(ctx context.Context) error { return quorum(ctx, nodes, redisconn.Ready) },
		close: closeNodes,
		what:  "a majority of the lock nodes",
	}, nil
}

// TryDo implements lane.UserLocks.
func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	err := lock.TryDo(ctx, l.of(OrderLockPrefix+strconv.FormatInt(userID, 10)), fn)
	if errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUncertain) && ctx.Err() == nil {
		// Any other error is a failure of the lock nodes.
		return domain.ErrOrderInProgress
	}
	return err
}
