package lock

import (
	"context"
	"crypto/rand"
	_ "embed"
)

//go:embed lua/reentrant.lua
var reentrantSource string

//go:embed lua/reentrant_acquire.lua
var reentrantAcquire string

//go:embed lua/reentrant_renew.lua
var reentrantRenew string

//go:embed lua/reentrant_release.lua
var reentrantRelease string

var reentrantKind = &kind{
	name:    "reentrant",
	acquire: newScript(reentrantSource + reentrantAcquire),
	renew:   newScript(reentrantSource + reentrantRenew),
	release: newScript(reentrantSource + reentrantRelease),
}

// An Owner is who holds a reentrant lock: not a goroutine, which Go has no name
// for, but whatever the program means by it, such as one request. It travels in
// the context.
type Owner string

// NewOwner returns an owner that nobody else is.
func NewOwner() Owner { return Owner(rand.Text()) }

type ownerKey struct{}

// WithOwner returns a copy of ctx in which reentrant locks are taken for o, in
// any process: whoever has the lock as the same owner is no obstacle. An empty
// owner is none.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// A Reentrant lock is had by one owner at a time, any number of times. The owner
// is the one in the ctx of Lock and TryLock; without one, the call is a stranger
// to everybody, itself included, and the lock is a [Mutex].
//
// Each Lock is a hold of its own with a lease of its own, to be released once.
// The lock is free when the last of them is released or has expired. All of them
// have the same token.
type Reentrant struct{ named }

// Reentrant returns the reentrant lock of that name, which may be any text but
// the empty one. It does not talk to the server.
func (c *Client) Reentrant(name string) *Reentrant {
	return &Reentrant{c.newNamed(reentrantKind, name)}
}

// Lock implements [Locker].
func (r *Reentrant) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return r.lock(ctx, opts, true, ownerOf(ctx))
}

// TryLock implements [Locker]. It never waits, and never stands in the queue.
func (r *Reentrant) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return r.lock(ctx, opts, false, ownerOf(ctx))
}

// ownerOf is the owner in ctx, or nothing: then the scripts make somebody new of
// the caller.
func ownerOf(ctx context.Context) string {
	o, _ := ctx.Value(ownerKey{}).(Owner)
	return string(o)
}
