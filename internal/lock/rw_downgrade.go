package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
)

//go:embed lua/rw_downgrade.lua
var rwDowngrade string

// A downgrade is a renewal that leaves a read hold.
var rwDowngradeKind = &kind{
	name:    rwWriteKind.name,
	renew:   newRWScript(rwDowngrade),
	release: rwWriteKind.release,
}

// Downgrade makes a read hold of a write hold, without letting another writer
// in between, and lets the waiting readers in unless the owner has further write
// holds. h ends as by a release: its Context with cause [ErrReleased]; its
// Release does nothing. The new hold has the same token, the same kind of lease
// (a fixed one begins anew), and the values of ctx. It is to be released.
//
// The error matches ErrNotHeld if h had ended, or if the server said just now
// that it is lost. It matches ErrUncertain if the server may have done it but
// gave no answer for 1.5 s: then h is lost, too, and what it may have left is
// released in the background. After any other error h is what it was.
//
// If ctx ends first, the error matches ctx.Err() and ErrUncertain; the downgrade
// goes on in the background, and its hold is released at once.
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

// writeClaim is the claim of a write hold of m, or nil if h is something else.
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

// downgrade is Downgrade without the wait for a context. ctx has no end.
func (h *Hold) downgrade(ctx context.Context, cl *claim) (*Hold, error) {
	h.op.Lock() // joins a renewal in flight
	defer h.op.Unlock()
	began := time.Now()
	g, executed, err := h.askToDowngrade(ctx, cl)
	if err == nil && h.replaced() {
		h.emit(EventReleased, nil)
		if g.observe != nil {
			g.observe(acquireEvent(g.kind, g.name, began, nil))
		}
		return newHold(ctx, g), nil
	}
	switch {
	case err == nil: // it ended meanwhile
		err = h.notHeld()
	case executed && !errors.Is(err, ErrNotHeld):
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
		h.lose(err)
	}
	if executed {
		// Whichever of the two it is on the server; a Release that comes later
		// may find nothing.
		cl.freed = true
		cl.undoLater(cl.sendRelease())
	}
	return nil, fmt.Errorf("lock: downgrading %q: %w", h.g.name, err)
}

// askToDowngrade asks again and again until there is an answer, h ends, or
// releaseWindow is over. It returns what the new hold is to be, and whether the
// server may have it, or h still.
func (h *Hold) askToDowngrade(ctx context.Context, cl *claim) (g grant, executed bool, err error) {
	as := func(k *kind) *claim {
		return &claim{c: cl.c, kind: k, keys: cl.keys, id: cl.id, lease: cl.lease, extra: cl.extra}
	}
	asker := as(rwDowngradeKind)
	giveUp := time.Now().Add(releaseWindow)
	for try := 0; ; try++ {
		h.mu.Lock()
		stillHeld, lease := h.state == held, h.lease
		h.mu.Unlock()
		if !stillHeld {
			return grant{}, executed, h.notHeld()
		}
		validUntil, err := asker.renew(ctx, lease)
		switch {
		case err == nil:
			g = h.g // name, token, observer and so on
			g.keeper, g.lease, g.validUntil = as(rwReadKind), lease, validUntil
			return g, true, nil
		case errors.Is(err, ErrNotHeld):
			h.lose(err)
			return grant{}, false, h.notHeld()
		}
		executed = executed || !notExecuted(err)
		pause := backoff(try)
		if time.Now().Add(pause).After(giveUp) {
			return grant{}, executed, err
		}
		time.Sleep(pause)
	}
}

// replaced ends a hold that is still held, because another has taken its place.
func (h *Hold) replaced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return false
	}
	h.state = ended
	h.stop(ErrReleased)
	return true
}
