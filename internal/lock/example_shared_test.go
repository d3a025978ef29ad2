package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lock"
)

// A writer continues as a reader without another writer in between, so it reads what it wrote.
func ExampleRWMutex() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	price := locks.RW("price:7")

	writing, err := price.Write().Lock(ctx)
	if err != nil {
		panic(err)
	}
	_, err = price.Read().TryLock(ctx)
	fmt.Println("a reader is refused meanwhile:", errors.Is(err, lock.ErrNotAcquired))
	reading, err := price.Downgrade(ctx, writing)
	if err != nil {
		panic(err)
	}
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

// A supplier accepts ten calls at a time, from all processes together.
func ExampleSemaphore() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	calls := locks.Semaphore("supplier")
	first, err := calls.SetPermits(ctx, 10) // every process may call it; the first call counts
	if err != nil {
		panic(err)
	}
	fmt.Println("set:", first)

	if err := calls.Acquire(ctx, 8); err != nil { // waits until eight permits are free
		panic(err)
	}
	err = calls.TryAcquire(ctx, 3)
	fmt.Println("three more are refused:", errors.Is(err, lock.ErrNotAcquired))
	_ = calls.Release(ctx, 8)
	left, _ := calls.Available(ctx)
	fmt.Println("left:", left)
	// Output:
	// set: true
	// three more are refused: true
	// left: 10
}

// The permits of a process that dies are returned.
func ExampleLeasedSemaphore() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	workers := locks.LeasedSemaphore("reports")
	if _, err := workers.SetPermits(ctx, 2); err != nil {
		panic(err)
	}
	// For 10 minutes at most; without the option, for as long as the process lives.
	p, err := workers.Acquire(ctx, 1, lock.WithLease(10*time.Minute))
	if err != nil {
		panic(err)
	}
	left, _ := workers.Available(ctx)
	fmt.Println("left:", left, "lost:", p.Context().Err() != nil)
	fmt.Println(p.Release(ctx))
	// Output:
	// left: 1 lost: false
	// <nil>
}

// The caller waits until three stations are ready.
func ExampleLatch() {
	locks, done := newClient()
	defer done()
	ctx := context.Background()
	ready := locks.Latch("opening")
	if _, err := ready.TrySetCount(ctx, 3); err != nil {
		panic(err)
	}
	var guests sync.WaitGroup
	guests.Go(func() {
		fmt.Println("waited:", ready.Wait(ctx) == nil)
	})
	for range 3 {
		if err := ready.CountDown(ctx); err != nil {
			panic(err)
		}
	}
	guests.Wait()
	// Output:
	// waited: true
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
