package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A named is a lock of one name and kind, the common part of Mutex, Fair and the others. It has no state.
type named struct {
	c    *Client
	kind *kind
	name string
	keys []string
}

// newNamed returns the lock with that name, with a fencing token.
func (c *Client) newNamed(k *kind, name string) named {
	return named{c: c, kind: k, name: name, keys: keysOf(c.prefix, k.name, name, fenceKey)}
}

// lock acquires the lock and returns the hold. extra are the kind's own arguments.
func (n *named) lock(ctx context.Context, opts []Option, wait bool, extra ...any) (*Hold, error) {
	o, err := newOptions(n.c.lease, opts)
	if err != nil {
		return nil, err
	}
	if n.name == "" {
		return nil, errors.New("lock: a lock needs a name")
	}
	began := time.Now()
	cl := n.c.newClaim(n.kind, n.keys, o.lease, extra...)
	a, err := cl.acquire(ctx, wait)
	if err != nil {
		err = fmt.Errorf("lock: %s %q: %w", n.kind.name, n.name, err)
	}
	if n.c.observe != nil {
		n.c.observe(acquireEvent(n.kind.name, n.name, began, err))
	}
	if err != nil {
		return nil, err
	}
	return newHold(ctx, grant{
		keeper: cl, kind: n.kind.name, name: n.name, token: a.token, lease: o.lease, fixed: o.fixed,
		validUntil: a.validUntil, observe: n.c.observe, life: n.c.life,
	}), nil
}
