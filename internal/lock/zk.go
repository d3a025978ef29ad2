package lock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
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
	return func(z *ZooKeeper) { z.requested = d.Truncate(time.Millisecond) }
}

// WithRequestTimeout bounds a TryLock, the time that a Lock waits for its place in the queue, and one attempt to renew
// or to release, each with the wait for a connection. The default is 2 s, which outlasts most elections of a leader.
func WithRequestTimeout(d time.Duration) ZooKeeperOption {
	return func(z *ZooKeeper) { z.timeout = d }
}

// WithRoot sets the path below which the locks are kept, so that several applications can share an ensemble without
// sharing locks. The default is /lock. Its nodes are created when they are needed.
func WithRoot(path string) ZooKeeperOption {
	return func(z *ZooKeeper) { z.root = path }
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
	servers   []string
	root      string
	requested time.Duration // session timeout
	timeout   time.Duration // of a request
	observe   func(Event)

	conn *zk.Conn
	// events is closed when the connection's goroutines have ended.
	events <-chan zk.Event
	// life ends at Close, with ErrClosed.
	life context.Context
	end  context.CancelCauseFunc
	// work counts the goroutines of this ZooKeeper; begin adds to it.
	work sync.WaitGroup

	// mu guards the fields below. It is never held during a request.
	mu     sync.Mutex
	closed bool

	// transport is the latest connection: when it was made, and the session timeout that the server returned on it.
	transport   net.Conn
	dialed      time.Time
	negotiated  time.Duration
	isConnected bool

	// session is the latest, nil before the first.
	session *zkSession

	// changed is closed and replaced when the connection or the session changes.
	changed chan struct{}

	// watches are closed when the node at their path is gone.
	watches map[string]chan struct{}
}

// NewZooKeeper connects to an ensemble in the background and returns without waiting for it. The servers are host:port
// or host, whose port is then 2181; names are resolved at each connection. It returns an error if there is no server, or
// an option is out of range. The caller closes the ZooKeeper.
func NewZooKeeper(servers []string, opts ...ZooKeeperOption) (*ZooKeeper, error) {
	z := &ZooKeeper{
		servers:   slices.Clone(servers),
		root:      DefaultRoot,
		requested: DefaultSessionTimeout,
		timeout:   DefaultRequestTimeout,
		changed:   make(chan struct{}),
		watches:   map[string]chan struct{}{},
	}

	for _, opt := range opts {
		opt(z)
	}
	switch {
	case len(servers) == 0 || slices.Contains(servers, ""):
		return nil, errors.New("lock: a ZooKeeper needs the addresses of its servers")
	case z.requested < MinSessionTimeout || z.requested > MaxSessionTimeout:
		return nil, fmt.Errorf("lock: session timeout of %v, want %v to %v", z.requested, MinSessionTimeout, MaxSessionTimeout)
	case z.timeout < MinNodeTimeout || z.timeout > MaxNodeTimeout:
		return nil, fmt.Errorf("lock: request timeout of %v, want %v to %v", z.timeout, MinNodeTimeout, MaxNodeTimeout)
	case !validRoot(z.root):
		return nil, fmt.Errorf("lock: root of %q, want a path such as %s", z.root, DefaultRoot)
	}

	z.life, z.end = context.WithCancelCause(context.Background())

	// The callback may be called before conn is set.
	z.mu.Lock()
	defer z.mu.Unlock()
	conn, events, err := zk.Connect(z.servers, z.requested,
		zk.WithDialer(z.dial),
		zk.WithHostProvider(&serverList{closed: z.life.Done()}),
		zk.WithEventCallback(z.sessionEvent),
		zk.WithLogger(noLog{}),
		zk.WithLogInfo(false),
	)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}

	z.conn = conn
	z.events = events
	z.work.Go(z.heartbeat)
	return z, nil
}

func validRoot(path string) bool {
	elements := strings.Split(path, "/")
	return len(elements) > 1 && elements[0] == "" && !slices.ContainsFunc(elements[1:], func(e string) bool {
		return escapeNode(e) != e || e == ""
	})
}

// noLog drops the library's messages: its errors are returned by the calls.
type noLog struct{}

func (noLog) Printf(string, ...any) {}

// Close ends the session, which frees its locks at once. Waits end, and later calls fail, with [ErrClosed]. Holds are
// lost: their Context ends with cause ErrLost. Close returns when all goroutines have ended, within some 5 s even if the
// ensemble is unreachable; the session then ends by its timeout. A second call does nothing. The error is always nil.
func (z *ZooKeeper) Close() error {
	z.mu.Lock()
	again := z.closed
	z.closed = true
	z.mu.Unlock()
	if again {
		return nil
	}
	z.end(ErrClosed)
	z.endSession(ErrClosed)

	// A reply that arrives while the library closes would be written to memory that its caller reads.
	idle := make(chan struct{})
	go func() {
		z.work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(time.Second):
	}

	// The library waits for the server for up to 1 s.
	z.conn.Close()
	z.dropTransport()
	for range z.events { //nolint:revive // drains it until it is closed
	}
	<-idle
	return nil
}

// Ping returns nil if the leader answers and the session is alive. It waits for that no longer than the request timeout.
func (z *ZooKeeper) Ping(ctx context.Context) error {
	ctx, cancel := z.withTimeout(ctx, z.timeout)
	defer cancel()
	_, err := z.sync(ctx)
	return err
}

// Mutex returns the mutex with that name, which must not be empty. It sends no request. A waiter has an ephemeral
// sequential node below the name's node and watches the node before its own, so a release wakes one waiter, in order of
// arrival. The name's node is a container: the server removes it some time after its last child.
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
	o, err := newOptions(m.z.requested, opts)
	if err != nil {
		return nil, err
	}
	if m.name == "" || len(m.name) > maxNodeName {
		return nil, fmt.Errorf("lock: a lock needs a name of at most %d bytes", maxNodeName)
	}

	began := time.Now()
	n, err := m.acquire(ctx, wait)
	if err != nil {
		err = fmt.Errorf("lock: %s %q: %w", zooKeeperKind, m.name, err)
	}
	if m.z.observe != nil {
		m.z.observe(acquireEvent(zooKeeperKind, m.name, began, err))
	}
	if err != nil {
		return nil, err
	}

	var given options
	for _, opt := range opts {
		opt(&given)
	}
	n.leased = given.lease != 0
	if !n.leased {
		o.lease = n.session.timeout / safeFraction
	}

	h := newHold(ctx, grant{
		keeper:     n,
		kind:       zooKeeperKind,
		name:       m.name,
		token:      n.token,
		lease:      o.lease,
		fixed:      o.fixed,
		validUntil: n.validUntil(n.session, time.Now(), o.lease),
		observe:    m.z.observe,
		life:       n.session.life,
	})

	// The session may outlive the hold: nothing else would delete the node of a hold that was lost.
	context.AfterFunc(h.ctx, n.startRemoval) //nolint:contextcheck // the hold's own context
	return h, nil
}

// acquire queues a node until it is the first. A waiter whose session ends queues again, and tolerates faults for a while.
func (m *zkMutex) acquire(ctx context.Context, wait bool) (*zkNode, error) {
	queued := time.Time{} // when the session of a waiter was found to have ended
	for try := 0; ; try++ {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
		}

		n := m.z.newNode(m.name)
		err := n.acquire(ctx, wait)
		if err == nil {
			return n, nil
		}

		err = n.withdraw(ctx, err)
		if errors.Is(err, errNodeGone) {
			queued = time.Now()
		}
		if !wait || ctx.Err() != nil || errors.Is(err, ErrClosed) || time.Since(queued) > faultWindow {
			return nil, err
		}

		_ = sleep(ctx, backoff(try))
	}
}

func (m *zkMutex) identity() identity {
	servers := slices.Clone(m.z.servers)
	return identity{key: zooKeeperKind + ":" + m.z.parent(m.name), server: joinSorted(servers)}
}

func (z *ZooKeeper) parent(name string) string { return z.root + "/" + escapeNode(name) }

// escapeNode makes one element of a path of any name. Distinct names stay distinct, because the percent sign is escaped
// too. The names "." and ".." are not allowed in paths.
func escapeNode(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
