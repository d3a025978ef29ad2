package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// newClient returns a Client on a server of its own, and a function that closes both.
func newClient() (c *lock.Client, done func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	c, err = lock.New(rdb)
	if err != nil {
		panic(err)
	}
	return c, func() {
		_ = c.Close()
		_ = rdb.Close()
		server.Close()
	}
}

// A store that remembers the greatest token refuses the writes of a holder that has lost the lock without noticing.
func ExampleMutex() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	m := locks.Mutex("stock:7")

	var greatest uint64
	write := func(token uint64) bool {
		if token < greatest {
			return false
		}
		greatest = token
		return true
	}

	first, err := m.Lock(ctx)
	if err != nil {
		panic(err)
	}
	_ = first.Release(ctx) // or its lease ended while its process was paused
	second, err := m.Lock(ctx)
	if err != nil {
		panic(err)
	}
	defer func() { _ = second.Release(ctx) }()
	fmt.Println("the holder writes:", write(second.Token()))
	fmt.Println("the previous holder is refused:", !write(first.Token()))
	// Output:
	// the holder writes: true
	// the previous holder is refused: true
}

func ExampleFair() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	f := locks.Fair("ticket counter")
	err := lock.Do(ctx, f, func(context.Context) error {
		fmt.Println("served")
		return nil
	})
	fmt.Println(err)
	// Output:
	// served
	// <nil>
}

// Code that holds the lock calls code that acquires it.
func ExampleReentrant() {
	locks, done := newClient()
	defer done()
	r := locks.Reentrant("order:42")

	pay := func(ctx context.Context) error {
		return lock.Do(ctx, r, func(context.Context) error {
			fmt.Println("paid")
			return nil
		})
	}
	ctx := lock.WithOwner(context.Background(), lock.NewOwner()) // once per request
	err := lock.Do(ctx, r, func(ctx context.Context) error {
		stranger := lock.WithOwner(ctx, lock.NewOwner())
		_, err := r.TryLock(stranger)
		fmt.Println("another request is refused:", errors.Is(err, lock.ErrNotAcquired))
		return pay(ctx)
	})
	fmt.Println(err)
	// Output:
	// another request is refused: true
	// paid
	// <nil>
}
