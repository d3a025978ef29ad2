package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultPrefix begins the keys of a Client's locks.
const DefaultPrefix = "lock"

// commandTimeout bounds one command of a Client.
const commandTimeout = time.Second

// A Client creates locks on one Redis, which may be a server, a cluster or a ring. It has at most one pub/sub
// connection, and only while there are waiters. A process needs one Client per Redis. A Client is safe for concurrent
// use.
type Client struct {
	// id is a part of the ids of the client's holds and waiters.
	id      string
	prefix  string
	lease   time.Duration
	observe func(Event)
	exec    *executor
	hub     *hub
	seq     atomic.Uint64

	// life ends at Close, with ErrClosed.
	life context.Context
	end  context.CancelCauseFunc
}

// A ClientOption configures [New].
type ClientOption func(*Client)

// WithPrefix sets the prefix of all key and channel names, so that several applications can share a Redis without
// sharing locks. The default is "lock". The prefix must not be empty or contain braces.
func WithPrefix(prefix string) ClientOption {
	return func(c *Client) { c.prefix = prefix }
}

// WithWatchdog sets the lease of holds acquired without [WithLease], from MinLease to MaxLease; the watchdog renews it
// every third of it. The default is 30 s, renewed every 10 s. A lock stays taken for up to this long after its holder's
// process died.
func WithWatchdog(d time.Duration) ClientOption {
	return func(c *Client) { c.lease = d.Truncate(time.Millisecond) }
}

// WithObserver calls fn for each [Event]. fn is called concurrently. It must return quickly, and must not call methods
// of a Hold or of the Client. By default there is no observer.
func WithObserver(fn func(Event)) ClientOption {
	return func(c *Client) { c.observe = fn }
}

// New returns a Client. It sends no command. It returns an error if rdb is nil or an option is out of range. rdb stays
// the caller's and must outlive the Client; see the package documentation for its configuration.
func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) {
	c := &Client{
		id:     rand.Text(),
		prefix: DefaultPrefix,
		lease:  DefaultLease,
	}
	for _, opt := range opts {
		opt(c)
	}

	if isNil(rdb) {
		return nil, errors.New("lock: the Redis client is nil")
	}
	if err := errors.Join(checkPrefix(c.prefix), checkLease(c.lease)); err != nil {
		return nil, err
	}

	c.exec = newExecutor(rdb, commandTimeout)
	c.hub = newHub(rdb, wakePrefix(c.prefix)+c.id)
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Close ends the Client. It returns when its commands and waits have ended: within some 5 s even if the server hangs. What
// repeats in the background ends up to 0.2 s later. Waits end, and later calls fail, with [ErrClosed]. Holds are lost: their
// Context ends with cause ErrLost, and their keys expire with their leases, so release them first. A second call does
// nothing. The error is always nil.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.hub.close()
	c.exec.close()
	return nil
}

// newID returns an id for an attempt, which also identifies the waiter and the hold that it may become.
func (c *Client) newID() string {
	return c.id + ":" + strconv.FormatUint(c.seq.Add(1), 10)
}

// A named is a lock of one name and kind, the common part of Mutex, Fair and the others. It has no state.
type named struct {
	c    *Client
	kind *kind
	name string
	keys []string
}

// newNamed returns a lock whose keys are those of every kind, and more of its own.
func (c *Client) newNamed(k *kind, name string, more ...string) named {
	return named{
		c:    c,
		kind: k,
		name: name,
		keys: keysOf(c.prefix, k.name, name, more...),
	}
}

func (n *named) lock(ctx context.Context, opts []Option, wait bool, extra ...any) (*Hold, error) {
	o, err := newOptions(n.c.lease, opts)
	if err != nil {
		return nil, err
	}
	if err := n.check(); err != nil {
		return nil, err
	}

	cl := n.c.newClaim(n.kind, n.keys, o.lease, extra...)
	a, err := n.acquire(ctx, cl, wait)
	if err != nil {
		return nil, err
	}

	return newHold(ctx, grant{
		keeper:     cl,
		kind:       n.kind.name,
		name:       n.name,
		token:      a.token,
		lease:      o.lease,
		fixed:      o.fixed,
		validUntil: a.validUntil,
		observe:    n.c.observe,
		life:       n.c.life,
	}), nil
}

func (n *named) acquire(ctx context.Context, cl *claim, wait bool) (verdict, error) {
	began := time.Now()
	a, err := cl.acquire(ctx, wait)
	if err != nil {
		err = n.fail(err)
	}
	if n.c.observe != nil {
		n.c.observe(acquireEvent(n.kind.name, n.name, began, err))
	}
	return a, err
}
