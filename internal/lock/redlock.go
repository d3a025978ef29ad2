package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults and bounds of a RedLock's options.
const (
	DefaultLease       = 30 * time.Second
	DefaultNodeTimeout = 500 * time.Millisecond
	MinNodeTimeout     = 5 * time.Millisecond
	MaxNodeTimeout     = 10 * time.Second
)

// A RedLockOption configures [NewRedLock].
type RedLockOption func(*redLock)

// WithWatchdogLease sets the lease of holds that are taken without [WithLease],
// from MinLease to MaxLease; the watchdog renews it each third. Default 30 s,
// renewed every 10 s. It is also how long a lock stays taken after its holder's
// process died.
func WithWatchdogLease(d time.Duration) RedLockOption {
	return func(l *redLock) { l.lease = d.Truncate(time.Millisecond) }
}

// WithNodeTimeout bounds one command on one node, from MinNodeTimeout to
// MaxNodeTimeout, default 500 ms; it is never more than a third of the lease.
// All nodes are asked at the same time and all are waited for, so a node that
// hangs, rather than refuses, makes each acquire and each release take this
// long. The bound reaches the network only through a client with
// ContextTimeoutEnabled or of the type *redis.Client.
func WithNodeTimeout(d time.Duration) RedLockOption {
	return func(l *redLock) { l.nodeTimeout = d }
}

// WithRedLockObserver calls fn for each [Event]; the default is not to. fn is
// called from many goroutines, must return quickly, and must not call the
// methods of a Hold.
func WithRedLockObserver(fn func(Event)) RedLockOption {
	return func(l *redLock) { l.observe = fn }
}

// redLock implements Locker over redsync.
type redLock struct {
	name        string
	nodes       []*node
	lease       time.Duration
	nodeTimeout time.Duration
	observe     func(Event)
}

// redLockKind is the kind of lock in events.
const redLockKind = "redlock"

// RedLockKey is the key that the RedLock of a name has on each of its nodes.
func RedLockKey(name string) string { return "redlock:{" + name + "}" }

// NewRedLock returns the lock of that name over one or more independent Redis
// servers, under the key [RedLockKey] on each. It is held by whoever has a
// majority of them (1 of 1, 2 of 3, 3 of 5), and so survives the loss of the
// others. Everybody who uses the name must use the same nodes. name may be any
// text but the empty one.
//
// On one node, an uncontended cycle is two commands, SET NX PX and EVALSHA, and
// a TryLock of a taken lock is one. Lock polls, 20 to 200 ms apart, at random;
// it is not fair. [Hold.Token] is 0: independent nodes have no common counter.
// Where a store compares tokens, use a [Mutex], which is on one Redis and has
// them; otherwise let a constraint of the database decide.
//
// TryLock and Lock return ErrNotAcquired when nodes answered and somebody else
// has the lock, also when two contenders split the nodes between them. When too
// few nodes answered, they return the nodes' errors, which match with errors.Is
// and errors.As, after undoing what may have been done; if that could not be
// confirmed on so many nodes that the lock may stay taken, the error also
// matches ErrUncertain, and the undo goes on in the background for up to 5 s.
//
// The clients stay the caller's; see the package documentation for how to
// configure them. NewRedLock does not talk to them and is cheap enough to be
// called for every use.
func NewRedLock(name string, nodes []redis.UniversalClient, opts ...RedLockOption) (Locker, error) {
	l, err := newRedLock(name, nodes, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func newRedLock(name string, nodes []redis.UniversalClient, opts []RedLockOption) (*redLock, error) {
	l := &redLock{name: name, lease: DefaultLease, nodeTimeout: DefaultNodeTimeout}
	for _, opt := range opts {
		opt(l)
	}
	switch {
	case name == "":
		return nil, errNoName
	case len(nodes) == 0:
		return nil, errors.New("lock: a RedLock needs at least one node")
	case l.nodeTimeout < MinNodeTimeout || l.nodeTimeout > MaxNodeTimeout:
		return nil, fmt.Errorf("lock: node timeout of %v, want %v to %v", l.nodeTimeout, MinNodeTimeout, MaxNodeTimeout)
	}
	if err := checkLease(l.lease); err != nil {
		return nil, err
	}
	for i, rdb := range nodes {
		if isNil(rdb) {
			return nil, fmt.Errorf("lock: node %d is nil", i)
		}
		l.nodes = append(l.nodes, &node{rdb: bounded(rdb, l.nodeTimeout)})
	}
	return l, nil
}

var errNoName = errors.New("lock: a RedLock needs a name")

// RedLocks are the RedLocks of all names on the same nodes. They differ from
// those of [NewRedLock] in their cost only: the commands of locks that are used
// at the same time share round trips to each node that is a single server, and
// releases share one script call. A command that finds no other under way is
// sent at once. It has no goroutines while no command is under way, and needs
// no Close. It is safe for concurrent use.
type RedLocks struct{ of redLock }

// NewRedLocks returns the locks on these nodes. Its arguments and errors are
// those of NewRedLock. It does not talk to the nodes.
func NewRedLocks(nodes []redis.UniversalClient, opts ...RedLockOption) (*RedLocks, error) {
	l, err := newRedLock("all", nodes, opts)
	if err != nil {
		return nil, err
	}
	for _, n := range l.nodes {
		n.exec = newExecutor(n.rdb)
		n.exec.rdb, n.exec.timeout = n.rdb, l.nodeTimeout
	}
	return &RedLocks{of: *l}, nil
}

// Lock returns the lock of a name, which may be any text but the empty one: its
// methods then return an error. It is cheap enough to be called for every use.
func (l *RedLocks) Lock(name string) Locker {
	lock := l.of
	lock.name = name
	return &lock
}

// isNil also catches a nil pointer in the interface, the shape that a forgotten
// client field usually has.
func isNil(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	case *redis.Ring:
		return c == nil
	default:
		return false
	}
}

// bounded makes sure that d bounds a command on the network: a client without
// ContextTimeoutEnabled ignores deadlines once a command is sent. The copy
// shares the connections of the original and needs no Close.
func bounded(rdb redis.UniversalClient, d time.Duration) redis.UniversalClient {
	c, ok := rdb.(*redis.Client)
	if !ok || c.Options().ContextTimeoutEnabled {
		return rdb
	}
	return c.WithTimeout(d)
}

// TryLock implements Locker.
func (l *redLock) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return l.acquire(ctx, opts, false)
}

// Lock implements Locker.
func (l *redLock) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return l.acquire(ctx, opts, true)
}

func (l *redLock) acquire(ctx context.Context, opts []Option, wait bool) (*Hold, error) {
	o, err := newOptions(l.lease, opts)
	if err != nil {
		return nil, err
	}
	if l.name == "" {
		return nil, errNoName
	}
	began := time.Now()
	h, err := l.attempts(ctx, o, wait)
	if err != nil {
		err = fmt.Errorf("lock: %q: %w", l.name, err)
	}
	if l.observe != nil {
		l.observe(acquireEvent(redLockKind, l.name, began, err))
	}
	return h, err
}

// attempts tries once, or until ctx ends or it hears of trouble with the nodes.
func (l *redLock) attempts(ctx context.Context, o options, wait bool) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}
	for try := 0; ; try++ {
		h, err := l.attempt(ctx, o)
		if !wait || !errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrUncertain) {
			return h, err
		}
		if !sleep(ctx, backoff(try)) {
			return nil, fmt.Errorf("%w: %w", err, waitEnded(ctx))
		}
	}
}

// attempt asks the nodes once. If ctx ends first, the attempt goes on without
// the caller and is undone.
func (l *redLock) attempt(ctx context.Context, o options) (*Hold, error) {
	type outcome struct {
		validUntil time.Time
		err        error
	}
	s := newSession(l, o.lease)
	ask := func() outcome {
		until, err := s.acquire(context.WithoutCancel(ctx))
		return outcome{until, err}
	}
	giveBack := func(o outcome) {
		if o.err == nil {
			s.undo(ctx, 1)
			s.undoGhosts(ctx)
		}
	}
	out, ok := await(ctx, ask, giveBack)
	if !ok {
		return nil, fmt.Errorf("%w: %w: %w", ErrNotAcquired, ErrUncertain, waitEnded(ctx))
	}
	if out.err != nil {
		return nil, out.err
	}
	return newHold(ctx, grant{
		keeper: s, kind: redLockKind, name: l.name, lease: o.lease, fixed: o.fixed, validUntil: out.validUntil, observe: l.observe,
	}), nil
}
