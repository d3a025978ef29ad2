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

// A Client makes locks on one Redis, be it a server, a cluster or a ring. It
// has at most one pub/sub connection, and only while somebody waits. A process
// needs one Client per Redis; it is safe for concurrent use.
type Client struct {
	id      string // in the ids of its holds and waiters
	prefix  string
	lease   time.Duration
	observe func(Event)
	exec    *executor
	hub     *hub
	seq     atomic.Uint64
	life    context.Context // ends at Close, with ErrClosed
	end     context.CancelCauseFunc
}

// A ClientOption configures [New].
type ClientOption func(*Client)

// WithPrefix sets what the names of all keys and channels begin with, so that
// several applications share a Redis without sharing locks. Default "lock"; it
// may not contain braces.
func WithPrefix(prefix string) ClientOption {
	return func(c *Client) { c.prefix = prefix }
}

// WithWatchdog sets the lease of holds that are taken without [WithLease], from
// MinLease to MaxLease; the watchdog renews it each third. Default 30 s,
// renewed every 10 s. It is also how long a lock stays taken after its holder's
// process died.
func WithWatchdog(d time.Duration) ClientOption {
	return func(c *Client) { c.lease = d.Truncate(time.Millisecond) }
}

// WithObserver calls fn for each [Event]; the default is not to. fn is called
// from many goroutines, must return quickly, and must not call the methods of a
// Hold or of the Client.
func WithObserver(fn func(Event)) ClientOption {
	return func(c *Client) { c.observe = fn }
}

// New returns a Client. It does not talk to the server. rdb stays the caller's
// and must outlive the Client; see the package documentation for how to
// configure it.
func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) {
	c := &Client{id: rand.Text(), prefix: DefaultPrefix, lease: DefaultLease}
	for _, opt := range opts {
		opt(c)
	}
	if isNil(rdb) {
		return nil, errors.New("lock: the Redis client is nil")
	}
	if err := errors.Join(checkPrefix(c.prefix), checkLease(c.lease)); err != nil {
		return nil, err
	}
	c.exec = newExecutor(rdb)
	c.hub = newHub(rdb, wakePrefix(c.prefix)+c.id)
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Close ends the Client, and returns when nothing of it is left: within some
// 5 s even if the server hangs. Waits end, and later calls fail, with
// [ErrClosed]. What is still held is lost: its Context ends with cause ErrLost,
// and its keys are left to their leases, so release first. The second call does
// nothing. The error is always nil.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.hub.close()
	c.exec.close()
	return nil
}

// newID names an attempt to get a lock, the waiter that it may become, and the
// hold.
func (c *Client) newID() string {
	return c.id + ":" + strconv.FormatUint(c.seq.Add(1), 10)
}
