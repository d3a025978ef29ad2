// Package zk is the client side of ZooKeeper's recipe for locks, over go-zookeeper/zk: a session in which each attempt to
// acquire a lock is an ephemeral sequential node below the node of the lock's name. The first of these nodes has the lock,
// and a waiter watches the node before its own, so a release wakes one waiter, in order of arrival.
//
// Package lock makes Lockers of it. The decisions in docs/architecture.md have the reasons for what surrounds the library.
package zk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	// ErrTaken is returned if another node is before that of an attempt which does not wait.
	ErrTaken = errors.New("another node is first")

	// ErrGone is returned if a node, or its session, had ended before.
	ErrGone = errors.New("the node is gone")

	// ErrUncertain is returned if a node may exist, and may be the first, although its attempt has failed. It is removed
	// in the background.
	ErrUncertain = errors.New("the node may be left")

	// ErrClosed is returned by every call on a Client after its Close.
	ErrClosed = errors.New("the ZooKeeper client is closed")

	errNoSession  = errors.New("no session with ZooKeeper")
	errUnanswered = errors.New("ZooKeeper has not answered")
)

// A Config configures a Client.
type Config struct {
	// Servers are host:port or host, whose port is then 2181. Names are resolved at each connection.
	Servers []string

	// Root is the path below which the locks are kept. Its nodes are created when they are needed.
	Root string

	// SessionTimeout is requested; the server may return another one, from 2 to 20 ticks by default.
	SessionTimeout time.Duration

	// RequestTimeout bounds a request with the wait for a connection.
	RequestTimeout time.Duration
}

// A Client has one connection to an ensemble of servers and one session, which all its nodes share: when a session ends,
// so do its nodes, and a new session replaces it. It is safe for concurrent use.
type Client struct {
	cfg Config

	conn *zk.Conn
	// events is closed when the connection's goroutines have ended.
	events <-chan zk.Event
	// life ends at Close.
	life context.Context
	end  context.CancelFunc
	// work counts the goroutines of this client; begin adds to it.
	work sync.WaitGroup

	// mu guards the fields below. It is never held during a request.
	mu     sync.Mutex
	closed bool

	// transport is the latest connection: when it was made, and the session timeout that the server returned on it.
	transport   net.Conn
	dialed      time.Time
	negotiated  time.Duration
	isConnected bool

	// dialErr is why the latest attempt to connect failed, nil if it did not.
	dialErr error

	// session is the latest, nil before the first.
	session *session

	// changed is closed and replaced when the connection or the session changes.
	changed chan struct{}

	// watches are closed when the node at their path is gone.
	watches map[string]chan struct{}
}

// Connect connects in the background and returns without waiting for it. It returns an error if there is no server or the
// root is not a path. The caller closes the Client.
func Connect(cfg Config) (*Client, error) {
	if len(cfg.Servers) == 0 || slices.Contains(cfg.Servers, "") {
		return nil, errors.New("a ZooKeeper needs the addresses of its servers")
	}
	if !validRoot(cfg.Root) {
		return nil, fmt.Errorf("root of %q, want a path such as /lock", cfg.Root)
	}

	c := &Client{
		cfg:     cfg,
		changed: make(chan struct{}),
		watches: map[string]chan struct{}{},
	}
	c.life, c.end = context.WithCancel(context.Background())

	// The callback may be called before conn is set.
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, events, err := zk.Connect(cfg.Servers, cfg.SessionTimeout,
		zk.WithDialer(c.dial),
		zk.WithHostProvider(&serverList{life: c.life}),
		zk.WithEventCallback(c.sessionEvent),
		zk.WithLogger(noLog{}),
		zk.WithLogInfo(false),
	)
	if err != nil {
		c.end()
		return nil, err
	}

	c.conn = conn
	c.events = events
	c.work.Go(c.heartbeat)
	return c, nil
}

func validRoot(path string) bool {
	elements := strings.Split(path, "/")
	return len(elements) > 1 && elements[0] == "" && !slices.ContainsFunc(elements[1:], func(e string) bool {
		return escape(e) != e || e == ""
	})
}

// Path returns the path of the node of a lock's name. The node is a container: the server removes it some time after its
// last child.
func (c *Client) Path(name string) string { return c.cfg.Root + "/" + escape(name) }

// escape makes one element of a path of any name. Distinct names stay distinct, because the percent sign is escaped too.
// The names "." and ".." are not allowed in paths.
func escape(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// noLog drops the library's messages: its errors are returned by the calls.
type noLog struct{}

func (noLog) Printf(string, ...any) {}

// Close ends the session, and its nodes with it. It returns when all goroutines have ended, within some 5 s even if the
// ensemble is unreachable; the session then ends by its timeout. A second call does nothing.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.end()
	c.endSession(ErrClosed)
	c.mu.Unlock()

	// A reply that arrives while the library closes would be written to memory that its caller reads.
	idle := make(chan struct{})
	go func() {
		c.work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(time.Second):
	}

	// The library waits for the server for up to 1 s.
	c.conn.Close()
	c.dropTransport()
	for range c.events { //nolint:revive // drains it until it is closed
	}
	<-idle
}

// Ping returns nil if the leader answers and the session is alive. It waits for that no longer than the request timeout.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	return c.read(ctx, c.sync)
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("waited for %v: %w", d, context.DeadlineExceeded))
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// begin reports whether a goroutine may start. If so, the goroutine calls work.Done at its end.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Add(1)
	}
	return !c.closed
}

// exchange calls fn, which sends one request and waits for the reply. If ctx ends first, fn continues, and the caller must
// not read what it sets.
func (c *Client) exchange(ctx context.Context, fn func() error) error {
	if !c.begin() {
		return ErrClosed
	}

	replied := make(chan error, 1)
	go func() {
		defer c.work.Done()
		replied <- fn()
	}()

	select {
	case err := <-replied:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
	}
}

// read is exchange for a request that changes nothing. It is repeated on the next connection if a connection breaks.
func (c *Client) read(ctx context.Context, fn func() error) error {
	for {
		err := c.connected(ctx)
		if err == nil {
			err = c.exchange(ctx, fn)
		}
		if answered(err) || errors.Is(err, ErrClosed) || !sleep(ctx, retryPause) {
			return err
		}
	}
}

// retryPause is the wait before a request is repeated, and between attempts.
const retryPause = 50 * time.Millisecond

// sync makes the server catch up with the leader. The reply proves that the leader has answered.
func (c *Client) sync() error {
	sent := time.Now()
	_, err := c.conn.Sync("/")
	if err == nil {
		c.confirm(sent)
	}
	return err
}

// check returns nil if a node is there, and zk.ErrNoNode if it is not. It is a transaction without a change, which the leader
// decides in the order of all writes. A read could be behind, even after Sync: a leader that its clients read from applies a
// write after the followers, and answers Sync before.
func (c *Client) check(path string) error {
	sent := time.Now()
	_, err := c.conn.Multi(&zk.CheckVersionRequest{Path: path, Version: -1})
	if answered(err) {
		c.confirm(sent)
	}
	return err
}

// answered reports whether err is a server's answer to a request. After any other error, the request may or may not have
// been executed.
func answered(err error) bool {
	return err == nil || slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

var answers = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed,
	zk.ErrBadArguments, zk.ErrNoChildrenForEphemerals, zk.ErrAPIError,
}

// roundPause is the mean pause after a round in which no server has answered.
const roundPause = 100 * time.Millisecond

// A serverList implements zk.HostProvider. Unlike the library's, it leaves names to the dialer, because the addresses of
// a name may change, and pauses less after a round in which no server has answered.
type serverList struct {
	life    context.Context
	servers []string
	at      int
	failed  int
}

// Init implements zk.HostProvider.
func (l *serverList) Init(servers []string) error {
	l.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (l *serverList) Len() int { return len(l.servers) }

// Connected implements zk.HostProvider.
func (l *serverList) Connected() { l.failed = 0 }

// Next implements zk.HostProvider. The library stops if the second result is true and the connection was closed.
func (l *serverList) Next() (string, bool) {
	if l.failed == len(l.servers) {
		l.failed = 0
		sleep(l.life, roundPause/2+rand.N(roundPause))
	}

	l.failed++
	l.at = (l.at + 1) % len(l.servers)
	return l.servers[l.at], l.life.Err() != nil
}
