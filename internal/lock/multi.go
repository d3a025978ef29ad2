package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Multi returns a lock that is held while all of ls are held. They may be of any kind and on any server, including
// Multis. It is all or nothing: a Lock or TryLock that fails releases what it had acquired.
//
// The locks are acquired one after the other. The order depends on their keys and then on their servers' addresses, not
// on the order of ls, so Multis that share locks do not deadlock, in whatever processes, as long as all processes reach
// a server by the same address. Lockers of other packages come last, in the order given. A lock that is given twice is
// acquired once. A client that finds its server through Sentinels, or a cluster through a function, has no address and counts
// as a server of its own: give all locks of that server the same client, and do not lock one name on two such servers.
//
// While Lock waits for one lock, the locks that it has acquired are renewed. ctx bounds the wait for all of them
// together.
//
// The hold is lost as soon as one of its parts is. ValidUntil is the earliest of the parts'. Without [WithLease] the
// parts are renewed together, with the shortest lease of their Clients. Token is 0, because tokens of different locks
// are unrelated: if a store compares tokens, acquire the one lock that guards the store by itself, after the Multi of
// the others and always in that order. Extend and Release act on all parts concurrently, regardless of the others'
// errors, and join the errors. Observers receive the events of each part.
//
// If ls is empty or contains nil, the returned Locker returns an error.
func Multi(ls ...Locker) Locker {
	flat, err := flatten(ls)
	if err == nil && len(flat) == 0 {
		err = errors.New("lock: a Multi needs at least one lock")
	}
	if err != nil {
		return &multi{err: err}
	}

	locks := inOrder(flat)
	return &multi{locks: locks, name: namesOf(locks)}
}

// multi implements Locker.
type multi struct {
	locks []Locker // in order, each once
	name  string   // of all of them, for errors
	err   error    // why it cannot be used
}

// multiKind is the kind of a Multi's holds.
const multiKind = "multi"

// Lock implements Locker.
func (m *multi) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, true)
}

// TryLock implements Locker.
func (m *multi) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, false)
}

func (m *multi) lock(ctx context.Context, opts []Option, wait bool) (*Hold, error) {
	if m.err != nil {
		return nil, m.err
	}

	p, err := m.take(ctx, opts, wait)
	lease := p.lease()
	if err == nil {
		err = p.refresh(ctx, lease)
	}
	if err != nil {
		return nil, errors.Join(err, p.releaseAll(ctx))
	}

	var o options
	for _, opt := range opts {
		opt(&o)
	}
	h := newHold(ctx, grant{
		keeper:     p,
		kind:       multiKind,
		name:       m.name,
		lease:      lease,
		fixed:      o.fixed,
		validUntil: p.validUntil(),
	})

	// The loss of a part after the release does nothing.
	for _, part := range p.holds {
		//nolint:contextcheck // a part can be lost after the caller's context has ended
		context.AfterFunc(part.ctx, func() { h.lose(context.Cause(part.ctx)) })
	}
	return h, nil
}

var errPartLost = fmt.Errorf("lock: %w while waiting for the others of a Multi", ErrLost)

// take acquires the locks in order until one fails. The holds have watchdogs regardless of opts, because the wait for
// the rest is unbounded.
func (m *multi) take(ctx context.Context, opts []Option, wait bool) (*parts, error) {
	opts = append(opts[:len(opts):len(opts)], func(o *options) { o.fixed = false })
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	p := &parts{}
	for _, l := range m.locks {
		lock := l.TryLock
		if wait {
			lock = l.Lock
		}

		h, err := lock(ctx, opts...)
		if context.Cause(ctx) == errPartLost { //nolint:errorlint // identity is meant
			err = errPartLost
		}

		if h != nil {
			p.holds = append(p.holds, h)
			// If this part is lost, waiting for the others is pointless.
			defer context.AfterFunc(h.ctx, func() { stop(errPartLost) })() //nolint:contextcheck // the hold's own context
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// parts are the holds of a Multi, and the keeper of its own hold.
type parts struct {
	holds []*Hold
	lost  error // of parts that were lost before their release
}

func (p *parts) each(fn func(*Hold) error) []error {
	errs := make([]error, len(p.holds))
	var wg sync.WaitGroup
	for i, h := range p.holds {
		wg.Go(func() { errs[i] = fn(h) })
	}
	wg.Wait()
	return errs
}

func (p *parts) lease() time.Duration {
	shortest := MaxLease
	for _, h := range p.holds {
		h.mu.Lock()
		shortest = min(shortest, h.lease)
		h.mu.Unlock()
	}
	return shortest
}

func (p *parts) validUntil() time.Time {
	earliest := time.Time{}
	for i, h := range p.holds {
		until := h.ValidUntil()
		if i == 0 || until.Before(earliest) {
			earliest = until
		}
	}
	return earliest
}

// refresh ends the parts' watchdogs, because the Multi has one, and extends the parts that have less than nine tenths
// of the lease left. It also finds parts that are lost.
func (p *parts) refresh(ctx context.Context, lease time.Duration) error {
	err := errors.Join(p.each(func(h *Hold) error {
		h.stopWatchdog()
		if time.Until(h.ValidUntil()) < lease*9/10 {
			return h.Extend(ctx, lease)
		}
		if h.ctx.Err() != nil {
			return h.notHeldError()
		}
		return nil
	})...)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrNotAcquired, err)
	}
	return err
}

// stopWatchdog ends the watchdog. A renewal in flight is harmless.
func (h *Hold) stopWatchdog() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renewal != nil {
		h.renewal.Stop()
		h.renewal = nil
	}
}

// releaseAll releases the parts after a failed Lock. If ctx has ended, it continues in the background. It returns the
// errors that concern the caller of Lock.
func (p *parts) releaseAll(ctx context.Context) error {
	return errors.Join(p.each(func(h *Hold) error {
		err := h.Release(ctx)
		if errors.Is(err, ErrNotHeld) {
			return nil // it is free, which is the aim
		}
		return err
	})...)
}

func (p *parts) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	err := errors.Join(p.each(func(h *Hold) error { return h.extend(ctx, d) })...)
	if err != nil {
		return time.Time{}, err
	}
	return p.validUntil(), nil
}

// release implements keeper. A loss is reported only when no part is uncertain, because it ends the retries.
func (p *parts) release(ctx context.Context) error {
	var uncertain error
	for _, err := range p.each(func(h *Hold) error { return h.release(ctx) }) {
		if errors.Is(err, ErrNotHeld) {
			p.lost = errors.Join(p.lost, err)
		} else {
			uncertain = errors.Join(uncertain, err)
		}
	}

	if uncertain != nil {
		return uncertain
	}
	return p.lost
}

// An identity is the key and the server of a lock, by which Multis order locks. Locks of the same key and server are
// the same; the shared side of a read-write lock is included in the exclusive one.
type identity struct {
	key    string // of the lock, which begins with the prefix and the kind
	server string // addresses of the servers that hold it
	side   int    // of a read-write lock: 0 exclusive, 1 shared
}

// identified is implemented by the locks of this package that have an identity.
type identified interface{ identity() identity }

func (n *named) identity() identity {
	id := identity{key: n.keys[0], server: serverOf(n.c.hub.rdb)}
	if n.kind == rwReadKind {
		id.side = 1
	}
	return id
}

func (l *redLock) identity() identity {
	servers := make([]string, len(l.nodes))
	for i, n := range l.nodes {
		servers[i] = serverOf(n.given)
	}
	slices.Sort(servers)
	return identity{key: RedLockKey(l.name), server: strings.Join(servers, " ")}
}

func (p identity) same(other identity) bool { return p.key == other.key && p.server == other.server }

func (p identity) compare(other identity) int {
	return cmp.Or(cmp.Compare(p.key, other.key), cmp.Compare(p.server, other.server), cmp.Compare(p.side, other.side))
}

// serverOf returns the address of the Redis behind a client. Clients that discover the address themselves, through a
// sentinel or a function, are identified by their pointer.
func serverOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" {
			return fmt.Sprintf("%s/%d", o.Addr, o.DB)
		}

	case *redis.ClusterClient:
		if addrs := c.Options().Addrs; len(addrs) > 0 {
			return joinSorted(addrs)
		}

	case *redis.Ring:
		var addrs []string
		for _, addr := range c.Options().Addrs {
			addrs = append(addrs, addr)
		}
		return fmt.Sprintf("%s/%d", joinSorted(addrs), c.Options().DB)
	}

	return fmt.Sprintf("%p", rdb)
}

func joinSorted(addrs []string) string {
	return strings.Join(slices.Sorted(slices.Values(addrs)), ",")
}

func flatten(ls []Locker) ([]Locker, error) {
	var flat []Locker
	for i, l := range ls {
		if isNil(l) {
			return nil, fmt.Errorf("lock: lock %d of a Multi is nil", i)
		}

		inner, ok := l.(*multi)
		switch {
		case !ok:
			flat = append(flat, l)
		case inner.err != nil:
			return nil, errors.Join(fmt.Errorf("lock: lock %d of a Multi cannot be used", i), inner.err)
		default:
			flat = append(flat, inner.locks...)
		}
	}
	return flat, nil
}

// inOrder returns the locks in the order of their identities, each identity once, followed by those that have none.
func inOrder(ls []Locker) []Locker {
	var known []Locker
	var foreign []Locker
	for _, l := range ls {
		if _, ok := l.(identified); ok {
			known = append(known, l)
		} else {
			foreign = append(foreign, l)
		}
	}

	at := func(l Locker) identity { return l.(identified).identity() }
	slices.SortStableFunc(known, func(a, b Locker) int { return at(a).compare(at(b)) })
	known = slices.CompactFunc(known, func(a, b Locker) bool { return at(a).same(at(b)) })
	return append(known, foreign...)
}

func namesOf(ls []Locker) string {
	names := make([]string, len(ls))
	for i, l := range ls {
		names[i] = fmt.Sprintf("%T", l)
		if o, ok := l.(identified); ok {
			names[i] = o.identity().key
		}
	}
	return strings.Join(names, ", ")
}
