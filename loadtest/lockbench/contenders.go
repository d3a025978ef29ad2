package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"seckill/internal/lock"
)

const (
	lease = 30 * time.Second

	// poll is the interval of the libraries that poll; it trades load for delay. Their own defaults are 50 to 250 ms
	// (redsync) and 100 ms (redislock's examples), too slow for locks that are held for 1 ms.
	poll = 10 * time.Millisecond
)

// A contender is a lock under test. acquire waits for it until ctx ends, if it can wait, and returns its release.
type contender struct {
	name    string
	acquire func(ctx context.Context, name string) (func() error, error)
	canWait bool
}

// A field is all contenders, with a client for each library.
type field struct {
	contenders []contender
	closers    []func()
}

func (f *field) close() {
	for _, c := range f.closers {
		c()
	}
}

// newField connects all contenders to a Redis. Each library has a client of its own, configured as its documentation
// advises. The caller must close the field even after an error.
func newField(addr string) (*field, error) {
	f := &field{}
	goRedis := func() *redis.Client {
		rdb := redis.NewClient(&redis.Options{
			Addr:                  addr,
			ContextTimeoutEnabled: true,
			MaxRetries:            -1,
			PoolSize:              2 * workers,
		})

		f.closers = append(f.closers, func() { _ = rdb.Close() })
		return rdb
	}

	locks, err := lock.New(goRedis())
	if err != nil {
		return f, err
	}

	f.closers = append([]func(){func() { _ = locks.Close() }}, f.closers...)

	internalLock := func(of func(name string) lock.Locker) func(context.Context, string) (func() error, error) {
		return func(ctx context.Context, name string) (func() error, error) {
			h, err := of(name).Lock(ctx)
			if err != nil {
				return nil, err
			}

			return func() error { return h.Release(context.WithoutCancel(ctx)) }, nil
		}
	}

	redLocks, err := lock.NewRedLocks([]redis.UniversalClient{goRedis()})
	if err != nil {
		return f, err
	}

	waiter, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    lease,
	})
	if err != nil {
		return f, err
	}

	f.closers = append(f.closers, waiter.Close)

	f.contenders = []contender{
		{"two raw commands", raw(goRedis()), false},
		{"Mutex", internalLock(func(name string) lock.Locker { return locks.Mutex(name) }), true},
		{"Reentrant", internalLock(func(name string) lock.Locker { return locks.Reentrant(name) }), true},
		{"Fair", internalLock(func(name string) lock.Locker { return locks.Fair(name) }), true},
		{"RedLock", internalLock(redLocks.Lock), false},
		{"redsync 4.18.1", viaRedsync(goRedis()), true},
		{"redislock 0.9.4", viaRedislock(goRedis()), true},
		{"rueidislock 1.0.79", func(ctx context.Context, name string) (func() error, error) {
			_, cancel, err := waiter.WithContext(ctx, name)
			return func() error { cancel(); return nil }, err
		}, true},
	}

	return f, nil
}

// raw sends only the two commands that every lock needs, without waiting.
func raw(rdb *redis.Client) func(context.Context, string) (func() error, error) {
	free := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return func(ctx context.Context, name string) (func() error, error) {
		err := rdb.SetArgs(ctx, name, "owner", redis.SetArgs{Mode: "NX", TTL: lease}).Err()
		return func() error { return free.Run(context.WithoutCancel(ctx), rdb, []string{name}, "owner").Err() }, err
	}
}

func viaRedsync(rdb *redis.Client) func(context.Context, string) (func() error, error) {
	rs := redsync.New(goredis.NewPool(rdb))
	return func(ctx context.Context, name string) (func() error, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1<<30), redsync.WithRetryDelay(poll))
		err := m.LockContext(ctx)
		return func() error { _, err := m.UnlockContext(context.WithoutCancel(ctx)); return err }, err
	}
}

func viaRedislock(rdb *redis.Client) func(context.Context, string) (func() error, error) {
	client := redislock.New(rdb)
	return func(ctx context.Context, name string) (func() error, error) {
		l, err := client.Obtain(ctx, name, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll)})
		return func() error { return l.Release(context.WithoutCancel(ctx)) }, err
	}
}
