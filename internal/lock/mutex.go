package lock

import (
	"context"
)

var mutexKind = &kind{
	name:    "mutex",
	acquire: newScript(lua("mutex_acquire")),
	renew:   newScript(lua("mutex_renew")),
	release: newScript(lua("mutex_release")),
}

// A Mutex is the plain lock: one holder, at the lowest cost of the family. Waiters are woken in order of arrival, but a
// caller that arrives while the lock is free acquires it before them; see [Fair].
type Mutex struct{ named }

// Mutex returns the mutex with that name, which must not be empty. It sends no command.
func (c *Client) Mutex(name string) *Mutex { return &Mutex{c.newNamed(mutexKind, name, fenceKey)} }

// Lock implements [Locker].
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, true)
}

// TryLock implements [Locker]. It never waits, and never enters the queue.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, false)
}

// A fair lock differs from a mutex only in the order in which it is granted.
var fairKind = &kind{
	name:    "fair",
	acquire: newScript(lua("fair_acquire")),
	renew:   mutexKind.renew,
	release: mutexKind.release,
}

// A Fair lock is granted strictly in the order of arrival at the server, across all processes. It is slower than a
// [Mutex] under contention: after each release the lock is idle until the next waiter has received its wake message,
// unless that waiter belongs to the same Client. A waiter whose process died delays those behind it by 4 to 5 s once.
type Fair struct{ named }

// Fair returns the fair lock with that name, which must not be empty. It sends no command.
func (c *Client) Fair(name string) *Fair { return &Fair{c.newNamed(fairKind, name, fenceKey)} }

// Lock implements [Locker].
func (f *Fair) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f.lock(ctx, opts, true)
}

// TryLock implements [Locker]. It fails while there are waiters, even if the lock is free, and never enters the queue.
func (f *Fair) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f.lock(ctx, opts, false)
}
