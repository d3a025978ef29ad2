package lock

import (
	"context"
	"crypto/rand"
)

var reentrantKind = &kind{
	name:    "reentrant",
	acquire: newScript(lua("reentrant", "reentrant_acquire")),
	renew:   newScript(lua("reentrant", "reentrant_renew")),
	release: newScript(lua("reentrant", "reentrant_release")),
}

// An Owner identifies the holder of a reentrant lock. It stands for a unit of work such as one request, not for a
// goroutine, which has no identity in Go. It travels in the context.
type Owner string

// NewOwner returns a unique owner.
func NewOwner() Owner { return Owner(rand.Text()) }

type ownerKey struct{}

// WithOwner returns a copy of ctx in which reentrant locks are acquired for o, in any process: a lock that o holds
// already can be acquired again. An empty owner is the same as none.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// A Reentrant lock is held by one owner at a time, any number of times. The owner is the one in the ctx of Lock and
// TryLock. A call without an owner counts as a new owner each time, so the lock then behaves like a [Mutex].
//
// Each Lock is a hold of its own, with a lease of its own, to be released once. The lock is free when the last of them
// has been released or has expired. All of them have the same token.
type Reentrant struct{ named }

// Reentrant returns the reentrant lock with that name, which must not be empty. It sends no command.
func (c *Client) Reentrant(name string) *Reentrant {
	return &Reentrant{c.newNamed(reentrantKind, name, fenceKey)}
}

// Lock implements [Locker].
func (r *Reentrant) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return r.lock(ctx, opts, true, ownerOf(ctx))
}

// TryLock implements [Locker]. It never waits, and never enters the queue.
func (r *Reentrant) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return r.lock(ctx, opts, false, ownerOf(ctx))
}

// ownerOf returns the owner in ctx, or "": the scripts then use the attempt's id as the owner.
func ownerOf(ctx context.Context) string {
	o, _ := ctx.Value(ownerKey{}).(Owner)
	return string(o)
}
