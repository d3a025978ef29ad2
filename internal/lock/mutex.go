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

// A Mutex is the plain lock: one holder, the cheapest of the family. Those who
// wait are woken in the order in which they came, but whoever comes at the
// right moment gets in before them; see [Fair].
type Mutex struct{ named }

// Mutex returns the mutex of that name, which may be any text but the empty
// one. It does not talk to the server.
func (c *Client) Mutex(name string) *Mutex { return &Mutex{c.newNamed(mutexKind, name)} }

// Lock implements [Locker].
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, true)
}

// TryLock implements [Locker]. It never waits, and never stands in the queue.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, false)
}
