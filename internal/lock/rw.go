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

// The two sides of the lock differ in how they are taken. What an id has, if
// anything, is found under either.
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

// ErrUpgrade is returned at once to an [Owner] that asks for the write lock
// while it has the read lock only: it would wait for itself. Release the read
// lock first, and look again at what was read; or take the write lock from the
// beginning, and use [RWMutex.Downgrade].
var ErrUpgrade = errors.New("a read lock cannot become a write lock")

// An RWMutex is had by one writer, or by any number of readers. Who comes first
// goes first, over all processes; readers with no writer between them go
// together. So neither a stream of readers nor one of writers keeps the others
// out, and TryLock fails, too, where Lock would stand behind somebody: a reader
// behind a writer who waits, a writer behind anybody who does. A waiter whose
// process died delays those behind it by 4 to 5 s once.
//
// An [Owner] in the ctx of Lock and TryLock makes the lock reentrant. A writer
// may take either side again, and a reader may read again, whoever waits. A
// reader that asks to write gets [ErrUpgrade]. Without an owner each call is a
// stranger to everybody, itself included: to take one side while having the
// other is to wait for oneself.
//
// Each Lock is a hold of its own with a lease of its own. The lock is free for
// writers when all read holds and all write holds have been released or have
// expired, and for readers when all write holds have.
//
// Each new writer has a fencing token of its own; when it takes the lock again,
// on either side, the token stays the same. A read hold has the token of the
// last writer, all readers the same: what they read was written under that
// token or an earlier one, and the next writer's is greater. If nobody wrote
// for an hour, it is one between the two writers'.
type RWMutex struct{ read, write rwSide }

// RW returns the read-write lock of that name, which may be any text but the
// empty one. It does not talk to the server.
func (c *Client) RW(name string) *RWMutex {
	return &RWMutex{rwSide{c, rwReadKind, name}, rwSide{c, rwWriteKind, name}}
}

// Read returns the side of the lock that is shared.
func (m *RWMutex) Read() Locker { return &m.read }

// Write returns the side of the lock that is exclusive.
func (m *RWMutex) Write() Locker { return &m.write }

// An rwSide is one of the two.
type rwSide struct {
	c    *Client
	kind *kind
	name string
}

// Lock implements [Locker].
func (s *rwSide) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return s.take(ctx, opts, true)
}

// TryLock implements [Locker]. It never waits, and never stands in the queue.
func (s *rwSide) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return s.take(ctx, opts, false)
}

func (s *rwSide) take(ctx context.Context, opts []Option, wait bool) (*Hold, error) {
	owner := ownerOf(ctx)
	n := named{c: s.c, kind: s.kind, name: s.name, keys: rwKeys(s.c.prefix, s.name, Owner(owner))}
	return n.lock(ctx, opts, wait, owner)
}

// rwKeys are the keys of a read-write lock, with those of an owner's if there is
// one.
func rwKeys(prefix, name string, owner Owner) []string {
	more := []string{fenceKey, "readers", "writer"}
	if owner != "" {
		more = append(more, "reads:"+string(owner))
	}
	return keysOf(prefix, rwReadKind.name, name, more...)
}
