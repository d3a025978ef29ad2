package zk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// faultWindow is how long a waiter retries while it receives only errors.
	faultWindow = 10 * time.Second

	// cancelGrace is how long a caller whose context has ended still waits for the removal of its node. A healthy server
	// answers within it.
	cancelGrace = 20 * time.Millisecond

	// nodeSuffix precedes the sequence number in a node's name. The form of the names is that of Curator's recipes.
	nodeSuffix = "-lock-"
)

// errEnded is returned if the node of a waiter, or its session, has ended.
var errEnded = errors.New("the ZooKeeper session of the attempt has ended")

// A Node is one attempt to acquire a lock: a node in the queue below the lock's name. The caller of Acquire has the lock
// until Life ends or Remove is called. Check is for one goroutine at a time.
type Node struct {
	// Token is the transaction id of the creation. It increases with every node of a name, even if the name's node was
	// removed in between.
	Token uint64

	c      *Client
	parent string
	// prefix of the node's name is unique, so that the node is found if the reply to its creation is lost.
	prefix string

	// sent means that the creation was started. created is closed when it has ended; path and doubt are set before.
	sent    bool
	created chan struct{}
	// path is empty if the node was not created, or that is unknown. The latter is doubt: the creation was not answered.
	path  string
	doubt bool

	owner   int64 // id of the session
	session *session

	// queued means that the node was behind another one when last seen.
	queued bool

	// removed is closed when the node is certainly gone, or the Client was closed; removeErr is set before.
	once      sync.Once
	removed   chan struct{}
	removeErr error
}

// Acquire creates a node and, if wait is set, waits until it is the first one of the name. Without wait the error is
// ErrTaken if it is not the first, even if the other one will be refused as well. The request timeout bounds the time
// until the node has its place in the queue, ctx the whole wait.
//
// A waiter whose session ends queues again, and tolerates faults for 10 s. After an error nothing is left, or it is
// removed in the background, and the error matches ErrUncertain if that may have the lock.
func (c *Client) Acquire(ctx context.Context, name string, wait bool) (*Node, error) {
	queued := time.Time{} // when the session of a waiter was found to have ended
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}

		n := c.newNode(name)
		err := n.acquire(ctx, wait)
		if err == nil {
			return n, nil
		}

		err = n.withdraw(ctx, err)
		if errors.Is(err, errEnded) {
			queued = time.Now()
		}
		if !wait || ctx.Err() != nil || errors.Is(err, ErrClosed) || time.Since(queued) > faultWindow {
			return nil, err
		}

		_ = sleep(ctx, retryPause)
	}
}

func (c *Client) newNode(name string) *Node {
	return &Node{
		c:       c,
		parent:  c.Path(name),
		prefix:  "_c_" + rand.Text() + nodeSuffix,
		created: make(chan struct{}),
		removed: make(chan struct{}),
	}
}

// acquire queues the node until it is the first one or, unless wait is set, looks once. After an error the caller calls
// withdraw.
func (n *Node) acquire(ctx context.Context, wait bool) error {
	soon, cancel := withTimeout(ctx, n.c.cfg.RequestTimeout)
	defer cancel()
	if err := n.create(soon); err != nil {
		return err
	}

	before, err := n.look(soon)
	for err == nil && before != "" {
		if !wait {
			return ErrTaken
		}
		before, err = n.await(ctx, before)
	}
	if err != nil {
		return err
	}

	n.session = n.c.sessionOf(n.owner)
	if n.session == nil {
		return errEnded
	}
	return nil
}

func (n *Node) create(ctx context.Context) error {
	if err := n.c.connected(ctx); err != nil {
		return err
	}

	n.sent = true
	return n.c.exchange(ctx, func() (err error) {
		defer close(n.created)
		n.path, err = n.createNow(ctx)
		n.doubt = !answered(err)
		return err
	})
}

// createNow creates the node, and the name's node before it. The server may remove that one in between.
func (n *Node) createNow(ctx context.Context) (string, error) {
	for {
		sent := time.Now()
		made, err := n.c.conn.Create(n.parent+"/"+n.prefix, nil, zk.FlagEphemeral|zk.FlagSequence, anyone())
		if err == nil {
			n.c.confirm(sent)
			return made, nil
		}

		if !errors.Is(err, zk.ErrNoNode) || ctx.Err() != nil {
			return "", err
		}
		if err := n.createParent(); err != nil {
			return "", fmt.Errorf("create %s: %w", n.parent, err)
		}
	}
}

func (n *Node) createParent() error {
	_, err := n.c.conn.CreateContainer(n.parent, nil, zk.FlagContainer, anyone())
	if !errors.Is(err, zk.ErrNoNode) {
		return unlessExists(err)
	}

	root := n.c.cfg.Root + "/"
	for i, char := range root {
		if i == 0 || char != '/' {
			continue
		}
		if _, err := n.c.conn.Create(root[:i], nil, 0, anyone()); unlessExists(err) != nil {
			return err
		}
	}

	_, err = n.c.conn.CreateContainer(n.parent, nil, zk.FlagContainer, anyone())
	return unlessExists(err)
}

func anyone() []zk.ACL { return zk.WorldACL(zk.PermAll) }

func unlessExists(err error) error {
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// look returns the name of the node before this one, or "" if this is the first one.
func (n *Node) look(ctx context.Context) (string, error) {
	var wg sync.WaitGroup
	var statErr error
	if n.Token == 0 {
		wg.Go(func() { statErr = n.stat(ctx) })
	}

	var names []string
	err := n.c.read(ctx, func() (err error) {
		names, _, err = n.c.conn.Children(n.parent)
		return err
	})
	wg.Wait()

	if errors.Is(err, zk.ErrNoNode) || err == nil && !slices.Contains(names, path.Base(n.path)) {
		return "", errEnded
	}
	err = errors.Join(err, statErr)
	if err != nil {
		return "", err
	}

	before := predecessor(names, path.Base(n.path))
	n.queued = before != ""
	return before, nil
}

// stat reads the node's zxid and owner, which the reply to the creation does not have.
func (n *Node) stat(ctx context.Context) error {
	var stat *zk.Stat
	err := n.c.read(ctx, func() (err error) {
		_, stat, err = n.c.conn.Get(n.path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return errEnded
	}
	if err == nil {
		n.Token = uint64(stat.Czxid) //nolint:gosec // a zxid is not negative
		n.owner = stat.EphemeralOwner
	}
	return err
}

func predecessor(names []string, own string) string {
	seq, _ := sequence(own)
	before := ""
	nearest := int32(0)
	for _, name := range names {
		s, ok := sequence(name)
		// The numbers overflow after 2^31 attempts, so only their differences count.
		d := s - seq
		if ok && d < 0 && (before == "" || d > nearest) {
			before = name
			nearest = d
		}
	}
	return before
}

func sequence(name string) (int32, bool) {
	_, digits, _ := strings.Cut(name, nodeSuffix)
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), err == nil
}

func (n *Node) await(ctx context.Context, name string) (string, error) {
	patience, cancel := withTimeout(ctx, faultWindow)
	gone, err := n.c.watch(patience, n.parent+"/"+name)
	cancel()
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}

	if err == nil {
		// The watch may have been set in another session, in which this waiter has no node.
		if n.c.sessionOf(n.owner) == nil {
			return "", errEnded
		}

		select {
		case <-gone: // or the session has ended, which look will find
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-n.c.life.Done():
			return "", ErrClosed
		}
	}

	// The node may be the first one now.
	n.queued = false
	patience, cancel = withTimeout(ctx, faultWindow)
	defer cancel()
	return n.look(patience)
}

// watch returns a channel that is closed when the node at path is gone or the session has ended. Waiters for the same node
// share a watch: the library cannot remove one, so those of waits that are cut short would add up.
func (c *Client) watch(ctx context.Context, path string) (<-chan struct{}, error) {
	c.mu.Lock()
	gone, watched := c.watches[path]
	c.mu.Unlock()
	if watched {
		return gone, nil
	}

	var event <-chan zk.Event
	err := c.read(ctx, func() (err error) {
		_, _, event, err = c.conn.GetW(path)
		return err
	})
	if err != nil {
		return nil, err
	}

	own := make(chan struct{})
	c.mu.Lock()
	c.watches[path] = own
	c.mu.Unlock()

	// The library sends one event in any case.
	go func() {
		<-event
		c.mu.Lock()
		if c.watches[path] == own {
			delete(c.watches, path)
		}
		c.mu.Unlock()
		close(own)
	}()
	return own, nil
}

// withdraw removes the node after acquire failed with err, and returns the error for the caller. What the server does
// not confirm at once continues in the background; if the node may be the first one, the error then matches
// ErrUncertain.
func (n *Node) withdraw(ctx context.Context, err error) error {
	if !n.sent {
		return err
	}

	n.startRemoval()
	patience := n.c.cfg.RequestTimeout
	ended := ctx.Done()
	if ctx.Err() != nil {
		patience = cancelGrace
		ended = nil
	}

	select {
	case <-n.removed:
		return err
	case <-time.After(patience):
	case <-ended:
	}
	if n.queued {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

func (n *Node) startRemoval() {
	n.once.Do(func() {
		// At a Close the session ends, and the node with it.
		if !n.c.begin() {
			n.removeErr = ErrClosed
			close(n.removed)
			return
		}

		go func() {
			defer n.c.work.Done()
			defer close(n.removed)
			n.removeErr = n.remove()
		}()
	})
}

// remove deletes the node, and repeats that until a server has answered. There is no other bound than Close: as long as
// the session lives, the node would block the lock.
func (n *Node) remove() error {
	<-n.created
	for try := 0; ; try++ {
		err := n.deleteOnce()
		switch {
		case errors.Is(err, zk.ErrNoNode) && try == 0:
			return ErrGone
		case err == nil, errors.Is(err, zk.ErrNoNode): // an earlier try may have deleted it
			return nil
		}
		if !sleep(n.c.life, retryPause) {
			return ErrClosed
		}
	}
}

// deleteOnce deletes the node. While there is no connection, it blocks.
func (n *Node) deleteOnce() error {
	if n.path == "" && !n.doubt {
		return nil
	}
	if n.path != "" {
		sent := time.Now()
		err := n.c.conn.Delete(n.path, -1)
		if answered(err) {
			n.c.confirm(sent)
		}
		return err
	}

	// The server may be behind the one that executed the creation. It answers a transaction after all earlier ones.
	var names []string
	err := n.c.check(n.parent)
	if err == nil {
		names, _, err = n.c.conn.Children(n.parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}

	for _, name := range names {
		if strings.HasPrefix(name, n.prefix) {
			n.path = n.parent + "/" + name
			return n.deleteOnce()
		}
	}
	return nil
}

// Life returns a context that ends when the node cannot be relied on any more, because of its session: half a session
// timeout after the leader's last answer, before the server can end the session, or at Close.
func (n *Node) Life() context.Context { return n.session.life }

// SafeFor returns how long the session is relied on after an answer of the leader.
func (n *Node) SafeFor() time.Duration { return n.session.timeout / safeFraction }

// SafeUntil returns when Life ends if the leader does not answer any more.
func (n *Node) SafeUntil() time.Time {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.session.safeUntil()
}

// Check returns nil if the node is there, ErrGone if it is not, and another error if that is unknown.
func (n *Node) Check(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, n.c.cfg.RequestTimeout)
	defer cancel()

	err := n.c.read(ctx, func() error { return n.c.check(n.path) })

	if errors.Is(err, zk.ErrNoNode) || err == nil && n.session.life.Err() != nil {
		return ErrGone
	}
	return err
}

// Remove removes the node, and repeats that until a server has answered. If ctx or the request timeout ends first, the
// removal continues in the background; a further call waits for it. The error is ErrGone if the node was gone before.
func (n *Node) Remove(ctx context.Context) error {
	n.startRemoval()

	ctx, cancel := withTimeout(ctx, n.c.cfg.RequestTimeout)
	defer cancel()
	select {
	case <-n.removed:
		return n.removeErr
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
	}
}
