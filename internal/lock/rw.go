package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The two sides of the lock differ only in how they are acquired. Renewal and release find the hold of an id on either
// side.
var (
	rwReadKind = &kind{
		name:    "rw",
		acquire: newScript(lua("rw", "rw_read")),
		renew:   newScript(lua("rw", "rw_renew")),
		release: newScript(lua("rw", "rw_release")),
	}
	rwWriteKind = &kind{
		name:    rwReadKind.name,
		acquire: newScript(lua("rw", "rw_write")),
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
	return &RWMutex{read: rwSide{c.newNamed(rwReadKind, name)}, write: rwSide{c.newNamed(rwWriteKind, name)}}
}

// Read returns the shared side of the lock.
func (m *RWMutex) Read() Locker { return &m.read }

// Write returns the exclusive side of the lock.
func (m *RWMutex) Write() Locker { return &m.write }

// An rwSide is one of the two sides. Its own keys depend on the owner: see take.
type rwSide struct{ named }

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
	n := s.named
	n.keys = rwKeys(n.c.prefix, n.name, Owner(owner))
	return n.lock(ctx, opts, wait, owner)
}

func rwKeys(prefix, name string, owner Owner) []string {
	more := []string{fenceKey, "readers", "writer"}
	if owner != "" {
		more = append(more, "reads:"+string(owner))
	}
	return keysOf(prefix, rwReadKind.name, name, more...)
}

// A downgrade is a renewal that turns a write hold into a read hold.
var rwDowngradeKind = &kind{
	name:    rwWriteKind.name,
	renew:   newScript(lua("rw", "rw_downgrade")),
	release: rwWriteKind.release,
}

// Downgrade turns a write hold into a read hold. No other writer is admitted in between, and the waiting readers are
// admitted unless the owner has further write holds. h ends as by a release: its Context ends with cause [ErrReleased],
// and its Release does nothing. The new hold has the same token, the same kind of lease (a fixed one starts anew) and
// the values of ctx. It must be released.
//
// The error matches ErrNotHeld if h had ended or the server has just reported it lost. It matches ErrUncertain if the
// server may have executed the downgrade but did not answer for 1.5 s: h is then lost, and what it may have left is
// released in the background. After any other error h is unchanged.
//
// If ctx ends first, the error matches ctx.Err() and ErrUncertain; the downgrade continues in the background, and its
// hold is released at once.
func (m *RWMutex) Downgrade(ctx context.Context, h *Hold) (*Hold, error) {
	cl := m.writeClaim(h)
	if cl == nil {
		return nil, fmt.Errorf("lock: downgrading %q: not a write hold of this lock", m.write.name)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lock: downgrading %q: %w", m.write.name, waitEnded(ctx))
	}

	type result struct {
		hold *Hold
		err  error
	}

	r, ok := await(ctx, func() result {
		hold, err := h.downgrade(context.WithoutCancel(ctx), cl)
		return result{hold, err}
	}, func(r result) {
		if r.err == nil {
			_ = r.hold.Release(context.WithoutCancel(ctx))
		}
	})
	if !ok {
		return nil, fmt.Errorf("lock: downgrading %q: %w: %w", m.write.name, ErrUncertain, waitEnded(ctx))
	}

	return r.hold, r.err
}

func (m *RWMutex) writeClaim(h *Hold) *claim {
	if h == nil {
		return nil
	}
	cl, ok := h.g.keeper.(*claim)
	if !ok || cl.kind != rwWriteKind || cl.c != m.write.c || h.g.name != m.write.name {
		return nil
	}
	return cl
}

// downgrade is Downgrade for a ctx that has no end.
func (h *Hold) downgrade(ctx context.Context, cl *claim) (*Hold, error) {
	// Wait for a renewal in flight.
	h.op.Lock()
	defer h.op.Unlock()

	began := time.Now()
	g, executed, err := h.sendDowngrade(ctx, cl)
	if err == nil && h.endReplaced() {
		h.emit(EventReleased, nil)
		if g.observe != nil {
			g.observe(acquireEvent(g.kind, g.name, began, nil))
		}
		return newHold(ctx, g), nil
	}

	switch {
	case err == nil: // but h has ended meanwhile
		err = h.notHeldError()
	case executed && !errors.Is(err, ErrNotHeld):
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
		h.lose(err)
	}

	if executed {
		// The server has the write hold or the read hold; release either. A later Release of h may find nothing.
		cl.presence = perhapsReleased
		cl.undoLater(cl.sendRelease())
	}

	return nil, fmt.Errorf("lock: downgrading %q: %w", h.g.name, err)
}

// sendDowngrade sends the downgrade, with retries, until it is answered, h ends, or releaseWindow is over. It returns
// the grant of the new hold, and whether the server may have executed the downgrade.
func (h *Hold) sendDowngrade(ctx context.Context, cl *claim) (grant, bool, error) {
	downgrader := *cl
	downgrader.kind = rwDowngradeKind
	deadline := time.Now().Add(releaseWindow)
	executed := false
	for try := 0; ; try++ {
		h.mu.Lock()
		stillHeld := h.state == held
		lease := h.lease
		h.mu.Unlock()
		if !stillHeld {
			return grant{}, executed, h.notHeldError()
		}

		validUntil, err := downgrader.renew(ctx, lease)
		switch {
		case err == nil:
			reader := *cl
			reader.kind = rwReadKind
			g := h.g // name, token, observer and so on
			g.keeper = &reader
			g.lease = lease
			g.validUntil = validUntil
			return g, true, nil
		case errors.Is(err, ErrNotHeld):
			h.lose(err)
			return grant{}, false, h.notHeldError()
		}

		executed = executed || !notExecuted(err)
		pause := backoff(try)
		if time.Now().Add(pause).After(deadline) {
			return grant{}, executed, err
		}

		time.Sleep(pause)
	}
}

func (h *Hold) endReplaced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return false
	}
	h.state = ended
	h.stop(ErrReleased)
	return true
}
