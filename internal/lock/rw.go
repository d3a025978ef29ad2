package lock

import (
	"context"
	_ "embed"
	"errors"
)

//go:embed lua/rw.lua
var rwSource string

//go:embed lua/rw_read.lua
var rwRead string

//go:embed lua/rw_write.lua
var rwWrite string

//go:embed lua/rw_renew.lua
var rwRenew string

//go:embed lua/rw_release.lua
var rwRelease string

func newRWScript(source string) *script { return newScript(rwSource + source) }

// The two sides of the lock differ only in how they are acquired. Renewal and release find the hold of an id on either
// side.
var (
	rwReadKind = &kind{
		name:    "rw",
		acquire: newRWScript(rwRead),
		renew:   newRWScript(rwRenew),
		release: newRWScript(rwRelease),
	}
	rwWriteKind = &kind{
		name:    rwReadKind.name,
		acquire: newRWScript(rwWrite),
		renew:   rwReadKind.renew,
		release: rwReadKind.release,
		refusal: ErrUpgrade,
	}
)

// ErrUpgrade is returned at once when an [Owner] requests the write lock while it has only the read lock: it would wait
// for itself. Release the read lock first and read the data again, or acquire the write lock from the beginning and use
// [RWMutex.Downgrade].
var ErrUpgrade = errors.New("a read lock cannot become a write lock")

// An RWMutex is held by one writer or by any number of readers. It is granted in order of arrival across all processes;
// adjacent readers share it. Neither a stream of readers nor one of writers excludes the others. TryLock fails wherever
// Lock would have to queue: a reader behind a waiting writer, a writer behind any waiter. A waiter whose process died
// delays those behind it by 4 to 5 s once.
//
// An [Owner] in the ctx of Lock and TryLock makes the lock reentrant. A writer may acquire either side again, and a
// reader may read again, regardless of waiters. A reader that requests the write lock gets [ErrUpgrade]. A call without
// an owner counts as a new owner each time: if it holds one side and waits for the other, it waits for itself.
//
// Each Lock is a hold of its own, with a lease of its own. The lock is free for writers when all holds have been
// released or have expired, and for readers when all write holds have.
//
// Each new writer has a fencing token of its own; the token stays the same when that writer acquires either side again.
// A read hold has the token of the last writer, the same for all readers: what they read was written under that token
// or an earlier one, and the next writer's token is greater. After an hour without a writer, readers get a new token
// between the two writers'.
type RWMutex struct{ read, write rwSide }

// RW returns the read-write lock with that name, which must not be empty. It sends no command.
func (c *Client) RW(name string) *RWMutex {
	return &RWMutex{rwSide{c, rwReadKind, name}, rwSide{c, rwWriteKind, name}}
}

// Read returns the shared side of the lock.
func (m *RWMutex) Read() Locker { return &m.read }

// Write returns the exclusive side of the lock.
func (m *RWMutex) Write() Locker { return &m.write }

// An rwSide is one of the two sides.
type rwSide struct {
	c    *Client
	kind *kind
	name string
}

// Lock implements [Locker].
func (s *rwSide) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return s.take(ctx, opts, true)
}

// TryLock implements [Locker]. It never waits, and never enters the queue.
func (s *rwSide) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return s.take(ctx, opts, false)
}

func (s *rwSide) take(ctx context.Context, opts []Option, wait bool) (*Hold, error) {
	owner := ownerOf(ctx)
	n := named{c: s.c, kind: s.kind, name: s.name, keys: rwKeys(s.c.prefix, s.name, Owner(owner))}
	return n.lock(ctx, opts, wait, owner)
}

// rwKeys returns the keys of a read-write lock, including those of the owner if there is one.
func rwKeys(prefix, name string, owner Owner) []string {
	more := []string{fenceKey, "readers", "writer"}
	if owner != "" {
		more = append(more, "reads:"+string(owner))
	}
	return keysOf(prefix, rwReadKind.name, name, more...)
}
