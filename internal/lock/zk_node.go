package lock

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

// errNodeGone is returned if the node of a waiter, or its session, has ended.
var errNodeGone = errors.New("the ZooKeeper session of the attempt has ended")

// createTries bounds the attempts to create a node whose parent is removed each time.
const createTries = 5

// A zkNode is one attempt to acquire a lock: a node in the queue below the lock's name. It is also the keeper of the
// hold that the attempt may become. Except for the removal, it is used by one goroutine at a time.
type zkNode struct {
	z      *ZooKeeper
	parent string
	// prefix of the node's name is unique, so that the node is found if the reply to its creation is lost.
	prefix string

	// sent means that the creation was started. created is closed when it has ended; path and doubt are set before.
	sent    bool
	created chan struct{}
	// path is empty if the node was not created, or that is unknown. The latter is doubt: the creation was not answered.
	path  string
	doubt bool

	token   uint64 // zxid of the creation
	owner   int64  // id of the session
	session *zkSession

	// queued means that the node was behind another one when last seen.
	queued bool
	// leased means that the hold has a lease of its own, WithLease.
	leased bool

	// removed is closed when the node is certainly gone, or the ZooKeeper was closed; removeErr is set before.
	once      sync.Once
	removed   chan struct{}
	removeErr error
}

func (z *ZooKeeper) newNode(name string) *zkNode {
	return &zkNode{
		z:       z,
		parent:  z.parent(name),
		prefix:  "_c_" + rand.Text() + nodeSuffix,
		created: make(chan struct{}),
		removed: make(chan struct{}),
	}
}

// nodeSuffix precedes the sequence number in a node's name. The form of the names is that of Curator's recipes.
const nodeSuffix = "-lock-"

// acquire queues the node until it is the first one or, unless wait is set, looks once. After an error the caller calls
// withdraw.
func (n *zkNode) acquire(ctx context.Context, wait bool) error {
	soon, cancel := n.z.withTimeout(ctx, n.z.timeout)
	defer cancel()
	if err := n.create(soon); err != nil {
		return err
	}

	before, err := n.look(soon)
	for err == nil && before != "" {
		if !wait {
			return ErrNotAcquired
		}
		before, err = n.await(ctx, before)
	}
	if err != nil {
		return err
	}

	n.session, _ = n.z.sessionOf(n.owner)
	if n.session == nil {
		return errNodeGone
	}
	return nil
}

func (z *ZooKeeper) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("waited for %v: %w", d, context.DeadlineExceeded))
}

func (n *zkNode) create(ctx context.Context) error {
	if err := n.z.connected(ctx); err != nil {
		return err
	}

	n.sent = true
	_, err := exchange(ctx, n.z, func() (struct{}, error) {
		defer close(n.created)
		var err error
		n.path, err = n.createNow()
		n.doubt = !answered(err)
		return struct{}{}, err
	})
	return err
}

func (n *zkNode) createNow() (string, error) {
	for try := 1; ; try++ {
		sent := time.Now()
		made, err := n.z.conn.Create(n.parent+"/"+n.prefix, nil, zk.FlagEphemeral|zk.FlagSequence, anyone())
		if err == nil {
			n.z.confirm(sent)
			return made, nil
		}

		if !errors.Is(err, zk.ErrNoNode) || try == createTries {
			return "", err
		}
		if err := n.z.createParent(n.parent); err != nil {
			return "", fmt.Errorf("create %s: %w", n.parent, err)
		}
	}
}

func (z *ZooKeeper) createParent(parent string) error {
	_, err := z.conn.CreateContainer(parent, nil, zk.FlagContainer, anyone())
	if !errors.Is(err, zk.ErrNoNode) {
		return unlessExists(err)
	}

	for i, c := range z.root + "/" {
		if i == 0 || c != '/' {
			continue
		}
		if _, err := z.conn.Create(z.root[:i], nil, 0, anyone()); unlessExists(err) != nil {
			return err
		}
	}

	_, err = z.conn.CreateContainer(parent, nil, zk.FlagContainer, anyone())
	return unlessExists(err)
}

func anyone() []zk.ACL { return zk.WorldACL(zk.PermAll) }

func unlessExists(err error) error {
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func (n *zkNode) look(ctx context.Context) (string, error) {
	var wg sync.WaitGroup
	var statErr error
	if n.token == 0 {
		wg.Go(func() { statErr = n.stat(ctx) })
	}

	names, err := read(ctx, n.z, func() ([]string, error) {
		names, _, err := n.z.conn.Children(n.parent)
		return names, err
	})
	wg.Wait()

	if errors.Is(err, zk.ErrNoNode) || err == nil && !slices.Contains(names, path.Base(n.path)) {
		return "", errNodeGone
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
func (n *zkNode) stat(ctx context.Context) error {
	stat, err := read(ctx, n.z, func() (*zk.Stat, error) {
		_, stat, err := n.z.conn.Get(n.path)
		return stat, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return errNodeGone
	}
	if err == nil {
		n.token = uint64(stat.Czxid) //nolint:gosec // a zxid is not negative
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

func (n *zkNode) await(ctx context.Context, name string) (string, error) {
	patience, cancel := n.z.withTimeout(ctx, faultWindow)
	gone, err := n.z.watch(patience, n.parent+"/"+name)
	cancel()
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}

	if err == nil {
		select {
		case <-gone: // or the session has ended, which look will find
		case <-ctx.Done():
			return "", waitEnded(ctx)
		case <-n.z.life.Done():
			return "", ErrClosed
		}
	}

	// The node may be the first one now.
	n.queued = false
	patience, cancel = n.z.withTimeout(ctx, faultWindow)
	defer cancel()
	return n.look(patience)
}

// watch returns a channel that is closed when the node at path is gone or the session has ended. Waiters for the same node
// share a watch: the library cannot remove one, so those of waits that are cut short would add up.
func (z *ZooKeeper) watch(ctx context.Context, path string) (<-chan struct{}, error) {
	z.mu.Lock()
	gone, watched := z.watches[path]
	z.mu.Unlock()
	if watched {
		return gone, nil
	}

	event, err := read(ctx, z, func() (<-chan zk.Event, error) {
		_, _, event, err := z.conn.GetW(path)
		return event, err
	})
	if err != nil {
		return nil, err
	}

	own := make(chan struct{})
	z.mu.Lock()
	z.watches[path] = own
	z.mu.Unlock()

	// The library sends one event in any case.
	go func() {
		<-event
		z.mu.Lock()
		if z.watches[path] == own {
			delete(z.watches, path)
		}
		z.mu.Unlock()
		close(own)
	}()
	return own, nil
}

// withdraw removes the node after acquire failed with err, and returns the error for the caller. What the server does
// not confirm at once continues in the background; if the node may be the first one, the error then matches
// ErrUncertain.
func (n *zkNode) withdraw(ctx context.Context, err error) error {
	if n.sent {
		n.startRemoval()
		bounded, cancel := n.z.withTimeout(ctx, n.z.timeout)
		defer cancel()
		if !waitWithGrace(bounded, n.removed) && !n.queued {
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
	}

	if ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		return fmt.Errorf("%w: %w", ErrNotAcquired, errors.Join(err, waitEnded(ctx)))
	}
	return err
}

// startRemoval removes the node in the background, once.
func (n *zkNode) startRemoval() {
	n.once.Do(func() {
		// At a Close the session ends, and the node with it.
		if !n.z.begin() {
			n.removeErr = ErrClosed
			close(n.removed)
			return
		}

		go func() {
			defer n.z.work.Done()
			defer close(n.removed)
			n.removeErr = n.remove()
		}()
	})
}

// remove deletes the node, and repeats that until a server has answered. If the node was gone before, the error is
// ErrNotHeld. There is no other bound than Close: as long as the session lives, the node would block the lock.
func (n *zkNode) remove() error {
	<-n.created
	for try := 0; ; try++ {
		err := n.deleteOnce()
		switch {
		case errors.Is(err, zk.ErrNoNode) && try == 0:
			return ErrNotHeld
		case err == nil, errors.Is(err, zk.ErrNoNode): // an earlier try may have deleted it
			return nil
		}
		if !sleep(n.z.life, backoff(try)) {
			return ErrClosed
		}
	}
}

// deleteOnce deletes the node. While there is no connection, it blocks.
func (n *zkNode) deleteOnce() error {
	if n.path == "" && !n.doubt {
		return nil
	}
	if n.path != "" {
		sent := time.Now()
		err := n.z.conn.Delete(n.path, -1)
		if answered(err) {
			n.z.confirm(sent)
		}
		return err
	}

	// The server may be behind the one that executed the creation.
	if err := n.z.syncOnce(); err != nil {
		return err
	}

	names, _, err := n.z.conn.Children(n.parent)
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

// renew implements keeper. Heartbeats keep the session alive; renew finds out whether the node is still there.
func (n *zkNode) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	ctx, cancel := n.z.withTimeout(ctx, min(n.z.timeout, d/3))
	defer cancel()

	began := time.Now()
	exists, err := read(ctx, n.z, func() (bool, error) {
		exists, _, err := n.z.conn.Exists(n.path)
		return exists, err
	})
	if err != nil {
		return time.Time{}, err
	}

	s, _ := n.z.sessionOf(n.owner)
	if !exists || s != n.session {
		return time.Time{}, ErrNotHeld
	}
	return n.validUntil(s, began, d), nil
}

// validUntil returns the end of a hold: that of its lease or, if it has none of its own, that of the session if the
// leader answers no more.
func (n *zkNode) validUntil(s *zkSession, from time.Time, d time.Duration) time.Time {
	until := from.Add(d - drift(d))
	if _, reliable := n.z.sessionOf(s.id); !n.leased && reliable.Before(until) {
		return reliable
	}
	return until
}

func (n *zkNode) release(ctx context.Context) error {
	n.startRemoval()

	ctx, cancel := n.z.withTimeout(ctx, n.z.timeout)
	defer cancel()
	select {
	case <-n.removed:
		return n.removeErr
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnanswered, waitEnded(ctx))
	}
}
