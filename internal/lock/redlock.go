package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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

// A RedLockOption configures [NewRedLock] and [NewRedLocks].
type RedLockOption func(*redLock)

// WithWatchdogLease sets the lease of holds acquired without [WithLease], from MinLease to MaxLease; the watchdog
// renews it every third of it. The default is 30 s, renewed every 10 s. A lock stays taken for up to this long after
// its holder's process died.
func WithWatchdogLease(d time.Duration) RedLockOption {
	return func(l *redLock) { l.lease = d.Truncate(time.Millisecond) }
}

// WithNodeTimeout bounds one command on one node, from MinNodeTimeout to MaxNodeTimeout; the default is 500 ms. It is
// never more than a third of the lease. Commands go to all nodes concurrently and all replies are awaited, so a node
// that hangs, rather than refuses connections, delays the commands under way by this time. A node that took a tenth of it,
// hangs or is dead is then left out until it answers a PING in less, as long as the others are a majority. The bound reaches
// the network only through a client with ContextTimeoutEnabled or of the type *redis.Client.
func WithNodeTimeout(d time.Duration) RedLockOption {
	return func(l *redLock) { l.nodeTimeout = d }
}

// WithRedLockObserver calls fn for each [Event]. fn is called concurrently. It must return quickly, and must not call
// methods of a Hold. By default there is no observer.
func WithRedLockObserver(fn func(Event)) RedLockOption {
	return func(l *redLock) { l.observe = fn }
}

// redLock implements Locker over redsync.
type redLock struct {
	name        string
	nodes       []*executor
	lease       time.Duration
	nodeTimeout time.Duration
	observe     func(Event)
}

// redLockKind is the kind of lock in events.
const redLockKind = "redlock"

// RedLockKey returns the key of a RedLock on each of its nodes.
func RedLockKey(name string) string { return "redlock:{" + name + "}" }

// NewRedLock returns the lock with that name over one or more independent Redis servers, under the key [RedLockKey] on
// each. It is held by the caller that holds a majority of them (1 of 1, 2 of 3, 3 of 5), and so survives the loss of
// the others. All users of a name must use the same nodes. The name must not be empty.
//
// On one node an uncontended cycle takes two commands, SET NX PX and EVALSHA, and a TryLock of a taken lock takes one.
// Lock polls at random intervals of 20 to 200 ms and is not fair. [Hold.Token] is 0, because independent nodes have no
// common counter. If a store compares tokens, use a [Mutex], which is on one Redis and has tokens; otherwise let a
// constraint of the database decide.
//
// TryLock and Lock return ErrNotAcquired when nodes answered and another holder has the lock, even when two contenders
// split the nodes between them. When too few nodes answered, they undo what may have been executed and return the
// nodes' errors, which match with errors.Is and errors.As. If the undo could not be confirmed on so many nodes that the
// lock may stay taken, the error also matches ErrUncertain, and the undo continues in the background for up to 5 s.
//
// The clients stay the caller's; see the package documentation for their configuration. NewRedLock sends no command and
// is cheap enough to be called for every use. It returns an error if the name is empty, a node is nil or missing, or an
// option is out of range.
func NewRedLock(name string, nodes []redis.UniversalClient, opts ...RedLockOption) (Locker, error) {
	l, err := newRedLock(name, nodes, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func newRedLock(name string, nodes []redis.UniversalClient, opts []RedLockOption) (*redLock, error) {
	l := &redLock{
		name:        name,
		lease:       DefaultLease,
		nodeTimeout: DefaultNodeTimeout,
	}
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
		l.nodes = append(l.nodes, newExecutor(rdb, l.nodeTimeout))
	}

	return l, nil
}

var errNoName = errors.New("lock: a RedLock needs a name")

// RedLocks are the RedLocks of all names on the same nodes. They differ from those of [NewRedLock] only in their cost:
// the commands of locks that are used concurrently share round trips to each node that is a single server, and their
// releases share one script call. A command is sent at once if no other is in flight. RedLocks has no goroutines while
// no command is in flight, and needs no Close. It is safe for concurrent use.
type RedLocks struct{ of redLock }

// NewRedLocks returns the locks on these nodes. Its arguments and errors are those of [NewRedLock]. It sends no
// command.
func NewRedLocks(nodes []redis.UniversalClient, opts ...RedLockOption) (*RedLocks, error) {
	l, err := newRedLock("all", nodes, opts)
	if err != nil {
		return nil, err
	}
	return &RedLocks{of: *l}, nil
}

// Lock returns the lock with a name. If the name is empty, the lock's methods return an error. Lock is cheap enough to
// be called for every use.
func (l *RedLocks) Lock(name string) Locker {
	lock := l.of
	lock.name = name
	return &lock
}

// isNil also detects a nil pointer in the interface, the usual form of a client field that was never set.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// bounded returns a client that bounds a command on the network by d: a client without ContextTimeoutEnabled ignores
// deadlines once a command is sent. The copy shares the connections of the original and needs no Close.
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

// attempt sends one acquire to the nodes. If ctx ends first, it is undone in the background.
func (l *redLock) attempt(ctx context.Context, o options) (*Hold, error) {
	s := newSession(l, o.lease)
	validUntil, err := s.acquire(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrNotAcquired, err, waitEnded(ctx))
	}
	if err != nil {
		return nil, err
	}

	return newHold(ctx, grant{
		keeper:     s,
		kind:       redLockKind,
		name:       l.name,
		lease:      o.lease,
		fixed:      o.fixed,
		validUntil: validUntil,
		observe:    l.observe,
	}), nil
}
