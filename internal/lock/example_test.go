package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// newRedis returns a client of a server of its own, and a function that closes both.
func newRedis() (rdb *redis.Client, done func()) {
	server, err := miniredis.Run()
	check(err)
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

// newClient returns a Client on a server of its own, and a function that closes both.
func newClient() (c *lock.Client, done func()) {
	rdb, stop := newRedis()
	c, err := lock.New(rdb)
	check(err)
	return c, func() {
		_ = c.Close()
		stop()
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleDo() {
	rdb, done := newRedis()
	defer done()
	l, err := lock.NewRedLock("order:42", []redis.UniversalClient{rdb})
	check(err)

	err = lock.Do(context.Background(), l, func(ctx context.Context) error {
		fmt.Println("committing the order")
		again := lock.TryDo(ctx, l, func(context.Context) error { return nil })
		fmt.Println("another caller is refused at once:", errors.Is(again, lock.ErrNotAcquired))
		return nil
	})

	// The success of fn is never hidden by what happened to the lock.
	var unlock *lock.UnlockError
	fmt.Println("committed:", err == nil || errors.As(err, &unlock))
	// Output:
	// committing the order
	// another caller is refused at once: true
	// committed: true
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
	check(err)
	_ = first.Release(ctx) // or its lease ended while its process was paused
	second, err := m.Lock(ctx)
	check(err)
	defer func() { _ = second.Release(ctx) }()
	fmt.Println("the holder writes:", write(second.Token()))
	fmt.Println("the previous holder is refused:", !write(first.Token()))
	// Output:
	// the holder writes: true
	// the previous holder is refused: true
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

// A writer continues as a reader without another writer in between, so it reads what it wrote.
func ExampleRWMutex() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	price := locks.RW("price:7")

	writing, err := price.Write().Lock(ctx)
	check(err)
	_, err = price.Read().TryLock(ctx)
	fmt.Println("a reader is refused meanwhile:", errors.Is(err, lock.ErrNotAcquired))
	reading, err := price.Downgrade(ctx, writing)
	check(err)
	other, err := price.Read().TryLock(ctx)
	fmt.Println("other readers are admitted:", err == nil)
	_, err = price.Write().TryLock(ctx)
	fmt.Println("a writer is refused:", errors.Is(err, lock.ErrNotAcquired))
	_ = other.Release(ctx)
	_ = reading.Release(ctx)
	// Output:
	// a reader is refused meanwhile: true
	// other readers are admitted: true
	// a writer is refused: true
}

// A transfer needs both accounts. Transfers do not deadlock, whatever the order of the accounts.
func ExampleMulti() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	both := lock.Multi(locks.Mutex("account:1"), locks.Mutex("account:2"))
	err := lock.Do(ctx, both, func(ctx context.Context) error {
		_, err := locks.Mutex("account:2").TryLock(ctx)
		fmt.Println("both are held:", errors.Is(err, lock.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// both are held: true
	// <nil>
}
