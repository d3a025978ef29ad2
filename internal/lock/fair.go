package lock

import (
	"context"
	_ "embed"
)

//go:embed lua/fair_acquire.lua
var fairAcquire string

// A fair lock differs from a mutex in who gets it, and in nothing else.
var fairKind = &kind{
	name:    "fair",
	acquire: newScript(fairAcquire),
	renew:   mutexKind.renew,
	release: mutexKind.release,
}

// A Fair lock is had in the order of arrival, over all processes: by the
// server's count of those who wait, strictly. It is slower than a [Mutex] under
// contention, because after each release the lock is idle until the next waiter
// has heard of it, unless that is of the same Client. A waiter whose process died delays those behind it by 4 to
// 5 s once.
type Fair struct{ named }

// Fair returns the fair lock of that name, which may be any text but the empty
// one. It does not talk to the server.
func (c *Client) Fair(name string) *Fair { return &Fair{c.newNamed(fairKind, name)} }

// Lock implements [Locker].
func (f *Fair) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f.lock(ctx, opts, true)
}

// TryLock implements [Locker]. It fails while somebody waits, even if the lock
// is free, and never stands in the queue.
func (f *Fair) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f.lock(ctx, opts, false)
}
