package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// A session is alive for its timeout after the leader has last heard of it. The leader hears of it late: servers report
// their clients every half tick, a timeout is at least two ticks, and this client sends a heartbeat every sixth of it.
// Half of the timeout is therefore safe: 1 - 1/6 - 1/4 > 1/2.
const (
	heartbeats    = 6 // per session timeout
	safeFraction  = 2 // the session is relied on for this fraction of its timeout
	roundPause    = 100 * time.Millisecond
	handshakeHead = 12 // bytes of the server's greeting: length, protocol version, session timeout
)

var (
	errSuspended = errors.New("no answer of the ZooKeeper leader for half the session timeout")
	errExpired   = errors.New("the ZooKeeper session has expired")
)

// A zkSession is a session while it can be relied on. A session that was suspended and continues is another zkSession
// with the same id.
type zkSession struct {
	id      int64
	timeout time.Duration

	// life ends when the session is suspended, expires or is closed.
	life context.Context
	end  context.CancelCauseFunc

	// Guarded by ZooKeeper.mu: when the latest request was sent that the leader answered, and the timer that fires when
	// the session may have to be suspended.
	confirmed time.Time
	expiry    *time.Timer
}

// validUntil returns the time until which the server certainly keeps the session. The caller holds mu.
func (s *zkSession) validUntil() time.Time { return s.confirmed.Add(s.timeout / safeFraction) }

// newSession makes a session the current one. The caller holds mu.
func (z *ZooKeeper) newSession(id int64, confirmed time.Time) {
	s := &zkSession{
		id:        id,
		timeout:   z.negotiated,
		confirmed: confirmed,
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.expiry = time.AfterFunc(time.Until(s.validUntil().Add(-margin(s.timeout))), func() { z.suspend(s) })
	z.session = s
	z.announce()
}

// suspend ends a session that the leader has not confirmed in time. It is the function of the expiry timer.
func (z *ZooKeeper) suspend(s *zkSession) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if left := time.Until(s.validUntil().Add(-margin(s.timeout))); left > 0 && s.life.Err() == nil {
		s.expiry.Reset(left)
		return
	}
	s.end(errSuspended)
	z.announce()
}

func (z *ZooKeeper) endSession(why error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.endSessionLocked(why)
}

func (z *ZooKeeper) endSessionLocked(why error) {
	if z.session != nil {
		z.session.expiry.Stop()
		z.session.end(why)
	}
	z.announce()
}

// announce wakes the callers of connected. The caller holds mu.
func (z *ZooKeeper) announce() {
	close(z.changed)
	z.changed = make(chan struct{})
}

func (z *ZooKeeper) sessionEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}

	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed {
		return
	}

	switch e.State {
	case zk.StateHasSession:
		z.isConnected = true
		// The greeting confirms the session: the server has asked the leader for it.
		z.confirmLocked(z.conn.SessionID(), z.dialed)
		z.announce()

	case zk.StateDisconnected:
		z.isConnected = false
		z.announce()

	case zk.StateExpired:
		z.isConnected = false
		z.endSessionLocked(errExpired)
	}
}

// confirm notes that the leader has answered a request that was sent at that time.
func (z *ZooKeeper) confirm(sent time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	// An answer from before the present connection may be one to an earlier session.
	if z.isConnected && !z.closed && sent.After(z.dialed) {
		z.confirmLocked(z.session.id, sent)
	}
}

func (z *ZooKeeper) confirmLocked(id int64, sent time.Time) {
	if s := z.session; s != nil && s.id == id && s.life.Err() == nil {
		if sent.After(s.confirmed) {
			s.confirmed = sent
		}
		return
	}

	// A session that was suspended has ended before.
	if z.session != nil {
		z.endSessionLocked(errExpired)
	}
	z.newSession(id, sent)
}

func (z *ZooKeeper) connected(ctx context.Context) error {
	for {
		z.mu.Lock()
		ready := z.isConnected && z.session.life.Err() == nil
		changed := z.changed
		z.mu.Unlock()

		if z.life.Err() != nil {
			return ErrClosed
		}
		if ready {
			return nil
		}

		select {
		case <-changed:
		case <-z.life.Done():
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoSession, waitEnded(ctx))
		}
	}
}

var (
	errNoSession  = errors.New("no session with ZooKeeper")
	errUnanswered = errors.New("ZooKeeper has not answered")
)

// sessionOf returns the session with that id, or nil if it has ended or is suspended, and the time until which it can be
// relied on.
func (z *ZooKeeper) sessionOf(id int64) (*zkSession, time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.session == nil || z.session.id != id || z.session.life.Err() != nil {
		return nil, time.Time{}
	}
	return z.session, z.session.validUntil()
}

// begin reports whether a goroutine may start. If so, the goroutine calls work.Done at its end.
func (z *ZooKeeper) begin() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.closed {
		z.work.Add(1)
	}
	return !z.closed
}

// exchange calls fn, which sends one request and waits for the reply. If ctx ends first, fn continues.
func exchange[T any](ctx context.Context, z *ZooKeeper, fn func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}

	out, ok := await(ctx, func() outcome {
		if !z.begin() {
			return outcome{err: ErrClosed}
		}
		defer z.work.Done()
		value, err := fn()
		return outcome{value, err}
	}, nil)
	if !ok {
		return out.value, fmt.Errorf("%w: %w", errUnanswered, waitEnded(ctx))
	}
	return out.value, out.err
}

// read is exchange for one that changes nothing. It is repeated on the next connection if a connection breaks.
func read[T any](ctx context.Context, z *ZooKeeper, fn func() (T, error)) (T, error) {
	for try := 0; ; try++ {
		var value T
		err := z.connected(ctx)
		if err == nil {
			value, err = exchange(ctx, z, fn)
		}
		if answered(err) || errors.Is(err, ErrClosed) || !sleep(ctx, backoff(try)) {
			return value, err
		}
	}
}

// sync makes the server catch up with the leader. The reply proves that the leader has answered.
func (z *ZooKeeper) sync(ctx context.Context) (struct{}, error) {
	return read(ctx, z, func() (struct{}, error) { return struct{}{}, z.syncOnce() })
}

func (z *ZooKeeper) syncOnce() error {
	sent := time.Now()
	_, err := z.conn.Sync("/")
	if err == nil {
		z.confirm(sent)
	}
	return err
}

// answered reports whether err is a server's answer to a request. After any other error, the request may or may not have
// been executed.
func answered(err error) bool {
	if err == nil {
		return true
	}

	for _, answer := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed,
		zk.ErrBadArguments, zk.ErrNoChildrenForEphemerals, zk.ErrAPIError,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}

	return false
}

// heartbeat sends a request through the leader several times per session timeout. A server that the leader has lost
// still answers the library's pings, and could not report that the session has ended.
func (z *ZooKeeper) heartbeat() {
	for {
		z.mu.Lock()
		every := z.requested / heartbeats
		connected := z.isConnected
		if z.session != nil {
			every = z.session.timeout / heartbeats
		}
		z.mu.Unlock()

		if connected {
			ctx, cancel := context.WithTimeout(z.life, every)
			_, err := exchange(ctx, z, func() (struct{}, error) { return struct{}{}, z.syncOnce() })
			cancel()

			// Another server may answer.
			if errors.Is(err, errUnanswered) && z.life.Err() == nil {
				z.dropTransport()
			}
		}

		if !sleep(z.life, every) {
			return
		}
	}
}

// dropTransport closes the network connection. The library then connects to the next server.
func (z *ZooKeeper) dropTransport() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.transport != nil {
		_ = z.transport.Close()
	}
}

// dial connects to a server, with bounds that suit the session timeout. The library waits for the greeting of a server
// that hangs for almost seven session timeouts.
func (z *ZooKeeper) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	limit := z.requested / heartbeats * 2
	conn, err := (&net.Dialer{Timeout: limit}).DialContext(z.life, network, addr)
	if err != nil {
		return nil, err
	}

	c := &transport{
		Conn:    conn,
		limit:   limit,
		greeted: z.greeted,
	}

	z.mu.Lock()
	defer z.mu.Unlock()
	z.transport = c
	z.dialed = time.Now()
	return c, nil
}

func (z *ZooKeeper) greeted(timeout time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.negotiated = timeout
}

// A transport is a network connection that bounds every read, and reads the negotiated session timeout from the
// greeting, because the library does not report it.
type transport struct {
	net.Conn
	limit   time.Duration
	greeted func(timeout time.Duration)
	head    []byte // the first bytes of the greeting
}

// SetReadDeadline implements net.Conn. Read sets the deadlines.
func (t *transport) SetReadDeadline(time.Time) error { return nil }

// Read implements net.Conn.
func (t *transport) Read(p []byte) (int, error) {
	if err := t.Conn.SetReadDeadline(time.Now().Add(t.limit)); err != nil {
		return 0, err
	}

	n, err := t.Conn.Read(p)
	if missing := handshakeHead - len(t.head); missing > 0 {
		t.head = append(t.head, p[:min(n, missing)]...)
		if len(t.head) == handshakeHead {
			t.readGreeting()
		}
	}
	return n, err
}

func (t *transport) readGreeting() {
	timeout := time.Duration(binary.BigEndian.Uint32(t.head[8:])) * time.Millisecond
	if timeout > 0 { // otherwise the session has expired
		t.limit = timeout / heartbeats * 2
		t.greeted(timeout)
	}
}

// A serverList implements zk.HostProvider. Unlike the library's, it leaves names to the dialer, because the addresses of
// a name may change, and pauses less after a round in which no server has answered.
type serverList struct {
	closed  <-chan struct{}
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
		select {
		case <-time.After(roundPause/2 + rand.N(roundPause)):
		case <-l.closed:
		}
	}

	l.failed++
	l.at = (l.at + 1) % len(l.servers)
	return l.servers[l.at], isClosed(l.closed)
}
