package lock

import (
	"context"
	_ "embed"
)

//go:embed lua/fair_acquire.lua
var fairAcquire string

// A fair lock differs from a mutex only in the order in which it is granted.
var fairKind = &kind{
	name:    "fair",
	acquire: newScript(fairAcquire),
	renew:   mutexKind.renew,
	release: mutexKind.release,
}

// A Fair lock is granted strictly in the order of arrival at the server, across all processes. It is slower than a
// [Mutex] under contention: after each release the lock is idle until the next waiter has received its wake message,
// unless that waiter belongs to the same Client. A waiter whose process died delays those behind it by 4 to 5 s once.
type Fair struct{ named }

// Fair returns the fair lock with that name, which must not be empty. It sends no command.
func (c *Client) Fair(name string) *Fair { return &Fair{c.newNamed(fairKind, name)} }

// Lock implements [Locker].
func (f *Fair) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f.lock(ctx, opts, true)
}

// TryLock implements [Locker]. It fails while there are waiters, even if the lock is free, and never enters the queue.
func (f *Fair) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f.lock(ctx, opts, false)
}
