package lock

import (
	"context"
	_ "embed"
)

//go:embed lua/mutex_acquire.lua
var mutexAcquire string

//go:embed lua/mutex_renew.lua
var mutexRenew string

//go:embed lua/mutex_release.lua
var mutexRelease string

var mutexKind = &kind{
	name:    "mutex",
	acquire: newScript(mutexAcquire),
	renew:   newScript(mutexRenew),
	release: newScript(mutexRelease),
}

// A Mutex is the plain lock: one holder, at the lowest cost of the family. Waiters are woken in order of arrival, but a
// caller that arrives while the lock is free acquires it before them; see [Fair].
type Mutex struct{ named }

// Mutex returns the mutex with that name, which must not be empty. It sends no command.
func (c *Client) Mutex(name string) *Mutex { return &Mutex{c.newNamed(mutexKind, name)} }

// Lock implements [Locker].
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, true)
}

// TryLock implements [Locker]. It never waits, and never enters the queue.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, false)
}
