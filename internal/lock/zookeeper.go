package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lock/zk"
)

// Defaults and bounds of a ZooKeeper's options.
const (
	DefaultSessionTimeout = 10 * time.Second
	MinSessionTimeout     = time.Second
	MaxSessionTimeout     = time.Minute
	DefaultRequestTimeout = 2 * time.Second
	DefaultRoot           = "/lock"
)

// A ZooKeeperOption configures [NewZooKeeper].
type ZooKeeperOption func(*ZooKeeper)

// WithSessionTimeout sets the session timeout to request, from MinSessionTimeout to MaxSessionTimeout; the server may
// return another one, from 2 to 20 ticks by default. The default is 10 s. A lock stays taken for up to this long after
// its holder's process died, and its context ends after half of it without a connection to the leader.
func WithSessionTimeout(d time.Duration) ZooKeeperOption {
	return func(z *ZooKeeper) { z.cfg.SessionTimeout = d.Truncate(time.Millisecond) }
}

// WithRequestTimeout bounds a TryLock, the time that a Lock waits for its place in the queue, and one attempt to renew
// or to release, each with the wait for a connection. The default is 2 s, which outlasts most elections of a leader.
func WithRequestTimeout(d time.Duration) ZooKeeperOption {
	return func(z *ZooKeeper) { z.cfg.RequestTimeout = d }
}

// WithRoot sets the path below which the locks are kept, so that several applications can share an ensemble without
// sharing locks. The default is /lock. Its nodes are created when they are needed.
func WithRoot(path string) ZooKeeperOption {
	return func(z *ZooKeeper) { z.cfg.Root = path }
}

// WithZooKeeperObserver calls fn for each [Event]. fn is called concurrently. It must return quickly, and must not call
// methods of a Hold or of the ZooKeeper. By default there is no observer.
func WithZooKeeperObserver(fn func(Event)) ZooKeeperOption {
	return func(z *ZooKeeper) { z.observe = fn }
}

// A ZooKeeper creates locks on one ensemble of ZooKeeper servers, version 3.5 or newer. It has one connection and one
// session, which all its locks share: when a session ends, so do all holds, and a new session replaces it. It is safe
// for concurrent use.
type ZooKeeper struct {
	cfg     zk.Config
	observe func(Event)
	client  *zk.Client
}

// NewZooKeeper connects to an ensemble in the background and returns without waiting for it. The servers are host:port
// or host, whose port is then 2181; names are resolved at each connection. It returns an error if there is no server, or
// an option is out of range. The caller closes the ZooKeeper.
func NewZooKeeper(servers []string, opts ...ZooKeeperOption) (*ZooKeeper, error) {
	z := &ZooKeeper{cfg: zk.Config{
		Servers:        slices.Clone(servers),
		Root:           DefaultRoot,
		SessionTimeout: DefaultSessionTimeout,
		RequestTimeout: DefaultRequestTimeout,
	}}
	for _, opt := range opts {
		opt(z)
	}

	session, request := z.cfg.SessionTimeout, z.cfg.RequestTimeout
	switch {
	case session < MinSessionTimeout || session > MaxSessionTimeout:
		return nil, fmt.Errorf("lock: session timeout of %v, want %v to %v", session, MinSessionTimeout, MaxSessionTimeout)
	case request < MinNodeTimeout || request > MaxNodeTimeout:
		return nil, fmt.Errorf("lock: request timeout of %v, want %v to %v", request, MinNodeTimeout, MaxNodeTimeout)
	}

	var err error
	z.client, err = zk.Connect(z.cfg)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return z, nil
}

// Close ends the session, which frees its locks at once. Waits end, and later calls fail, with [ErrClosed]. Holds are
// lost: their Context ends with cause ErrLost. Close returns when all goroutines have ended, within some 5 s even if the
// ensemble is unreachable; the session then ends by its timeout. A second call does nothing. The error is always nil.
func (z *ZooKeeper) Close() error {
	z.client.Close()
	return nil
}

// Ping returns nil if the leader answers and the session is alive. It waits for that no longer than the request timeout.
func (z *ZooKeeper) Ping(ctx context.Context) error {
	err := fromZooKeeper(z.client.Ping(ctx))
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, waitEnded(ctx))
	}
	return err
}

// Mutex returns the mutex with that name, which must not be empty. It sends no request. A waiter has an ephemeral
// sequential node below the name's node and watches the node before its own, so a release wakes one waiter, in order of
// arrival. The name's node is a container: the server removes it a minute after its last child, at most 10,000 a minute
// unless its znode.container.maxPerMinute says otherwise.
//
// [Hold.Token] is the transaction id that created the holder's node. It increases with every holder of a name, even if
// the name's node was removed in between.
//
// A hold has no lease of its own on the server. Its session keeps the lock, and [Hold.Context] ends half a session
// timeout after the leader's last answer, before the server can end the session. [WithLease] adds a lease that this
// process ends: the hold then ends with it, and the node is deleted. A TryLock is refused if another holder has the lock
// or is queued for it, even if that is a TryLock that will be refused as well.
func (z *ZooKeeper) Mutex(name string) Locker { return &zkMutex{z: z, name: name} }

// zkMutex implements Locker.
type zkMutex struct {
	z    *ZooKeeper
	name string
}

// maxNodeName keeps requests far below the size that a server accepts, 1 MiB, even with every byte escaped.
const maxNodeName = 64 << 10

// zooKeeperKind is the kind of lock in events.
const zooKeeperKind = "zookeeper"

// Lock implements [Locker].
func (m *zkMutex) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, true)
}

// TryLock implements [Locker].
func (m *zkMutex) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return m.lock(ctx, opts, false)
}

func (m *zkMutex) lock(ctx context.Context, opts []Option, wait bool) (*Hold, error) {
	o, err := newOptions(m.z.cfg.SessionTimeout, opts)
	if err != nil {
		return nil, err
	}
	if m.name == "" || len(m.name) > maxNodeName {
		return nil, fmt.Errorf("lock: a lock needs a name of at most %d bytes", maxNodeName)
	}

	began := time.Now()
	n, err := m.acquire(ctx, wait)
	if m.z.observe != nil {
		m.z.observe(acquireEvent(zooKeeperKind, m.name, began, err))
	}
	if err != nil {
		return nil, err
	}

	if !o.leased {
		o.lease = n.SafeFor()
	}
	keeper := &nodeKeeper{node: n, leased: o.leased}

	h := newHold(ctx, grant{
		keeper:     keeper,
		kind:       zooKeeperKind,
		name:       m.name,
		token:      n.Token,
		lease:      o.lease,
		fixed:      o.fixed,
		validUntil: keeper.validUntil(time.Now(), o.lease),
		observe:    m.z.observe,
		life:       n.Life(),
	})

	// The session may outlive the hold: nothing else would delete the node of a hold that was lost.
	//nolint:contextcheck // the hold's own context
	context.AfterFunc(h.ctx, func() { _ = n.Remove(h.ctx) })
	return h, nil
}

func (m *zkMutex) acquire(ctx context.Context, wait bool) (*zk.Node, error) {
	n, err := m.z.client.Acquire(ctx, m.name, wait)
	if err == nil {
		return n, nil
	}

	err = fromZooKeeper(err)
	if ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("%w: %w", ErrNotAcquired, errors.Join(err, waitEnded(ctx)))
	}
	return nil, fmt.Errorf("lock: %s %q: %w", zooKeeperKind, m.name, err)
}

func (m *zkMutex) identity() identity {
	return identity{key: zooKeeperKind + ":" + m.z.client.Path(m.name), server: joinSorted(m.z.cfg.Servers)}
}

func fromZooKeeper(err error) error {
	for _, pair := range [][2]error{
		{zk.ErrTaken, ErrNotAcquired},
		{zk.ErrUncertain, ErrUncertain},
		{zk.ErrGone, ErrNotHeld},
		{zk.ErrClosed, ErrClosed},
	} {
		if errors.Is(err, pair[0]) {
			err = fmt.Errorf("%w: %w", pair[1], err)
		}
	}
	return err
}

// A nodeKeeper is the keeper of a hold.
type nodeKeeper struct {
	node *zk.Node
	// leased means that the hold has a lease of its own, WithLease.
	leased bool
}

// renew implements keeper. Heartbeats keep the session alive; renew finds out whether the node is still there.
func (k *nodeKeeper) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, d/3)
	defer cancel()

	began := time.Now()
	if err := k.node.Check(ctx); err != nil {
		return time.Time{}, fromZooKeeper(err)
	}
	return k.validUntil(began, d), nil
}

// validUntil returns the end of a hold: that of its lease or, if it has none of its own, that of the session if the
// leader answers no more.
func (k *nodeKeeper) validUntil(from time.Time, d time.Duration) time.Time {
	until := from.Add(d - drift(d))
	if safe := k.node.SafeUntil(); !k.leased && safe.Before(until) {
		return safe
	}
	return until
}

func (k *nodeKeeper) release(ctx context.Context) error { return fromZooKeeper(k.node.Remove(ctx)) }
