package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleDo() {
	server, err := miniredis.Run()
	check(err)
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
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
