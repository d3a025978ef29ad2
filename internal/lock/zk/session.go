package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// A session is alive for its timeout after the leader has last heard of it. The leader hears of it late: servers report
// their clients every half tick, a timeout is at least two ticks, and this client sends a heartbeat every sixth of it.
// Half of the timeout is therefore safe: 1 - 1/6 - 1/4 > 1/2.
const (
	heartbeats    = 6  // per session timeout
	safeFraction  = 2  // the session is relied on for this fraction of its timeout
	handshakeHead = 12 // bytes of the server's greeting: length, protocol version, session timeout
)

var (
	errSuspended = errors.New("no answer of the ZooKeeper leader for half the session timeout")
	errExpired   = errors.New("the ZooKeeper session has expired")
)

// A session exists while it can be relied on. A session that was suspended and continues is another one with the same id.
type session struct {
	id      int64
	timeout time.Duration

	// life ends when the session is suspended, expires or is closed.
	life context.Context
	end  context.CancelCauseFunc

	// Guarded by Client.mu: when the latest request was sent that the leader answered, and the timer that fires when the
	// session may have to be suspended.
	confirmed time.Time
	expiry    *time.Timer
}

// safeUntil returns the time until which the server certainly keeps the session. The caller holds mu.
func (s *session) safeUntil() time.Time { return s.confirmed.Add(s.timeout / safeFraction) }

// untilSuspended returns how long the session lives without another answer. Nodes get a margin to stop using the lock in.
// The caller holds mu.
func (s *session) untilSuspended() time.Duration {
	return time.Until(s.safeUntil()) - min(s.timeout/20, time.Second)
}

// newSession makes a session the current one. The caller holds mu.
func (c *Client) newSession(id int64, confirmed time.Time) {
	s := &session{
		id:        id,
		timeout:   c.negotiated,
		confirmed: confirmed,
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.expiry = time.AfterFunc(s.untilSuspended(), func() { c.suspend(s) })
	c.session = s
	c.announce()
}

// suspend ends a session that the leader has not confirmed in time. It is the function of the expiry timer.
func (c *Client) suspend(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := s.untilSuspended(); left > 0 && s.life.Err() == nil {
		s.expiry.Reset(left)
		return
	}
	s.end(errSuspended)
	c.announce()
}

// endSession ends the current session, if there is one. The caller holds mu.
func (c *Client) endSession(why error) {
	if c.session != nil {
		c.session.expiry.Stop()
		c.session.end(why)
	}
	c.announce()
}

// announce wakes the callers of connected. The caller holds mu.
func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) sessionEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}

	switch e.State {
	case zk.StateHasSession:
		c.isConnected = true
		// The greeting confirms the session: the server has asked the leader for it.
		c.confirmLocked(c.conn.SessionID(), c.dialed)
		c.announce()

	case zk.StateDisconnected:
		c.isConnected = false
		c.announce()

	case zk.StateExpired:
		c.isConnected = false
		c.endSession(errExpired)
	}
}

func (c *Client) confirm(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// An answer from before the present connection may be one to an earlier session.
	if c.isConnected && !c.closed && sent.After(c.dialed) {
		c.confirmLocked(c.session.id, sent)
	}
}

func (c *Client) confirmLocked(id int64, sent time.Time) {
	if s := c.session; s != nil && s.id == id && s.life.Err() == nil {
		if sent.After(s.confirmed) {
			s.confirmed = sent
		}
		return
	}

	// A session that was suspended has ended before.
	if c.session != nil {
		c.endSession(errExpired)
	}
	c.newSession(id, sent)
}

func (c *Client) connected(ctx context.Context) error {
	for {
		c.mu.Lock()
		ready := c.isConnected && c.session.life.Err() == nil
		changed := c.changed
		c.mu.Unlock()

		if c.life.Err() != nil {
			return ErrClosed
		}
		if ready {
			return nil
		}

		select {
		case <-changed:
		case <-c.life.Done():
		case <-ctx.Done():
			return c.noSession(context.Cause(ctx))
		}
	}
}

func (c *Client) noSession(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialErr != nil {
		return fmt.Errorf("%w: %w: %v", errNoSession, cause, c.dialErr) //nolint:errorlint // text only: it may be of any time
	}
	return fmt.Errorf("%w: %w", errNoSession, cause)
}

// sessionOf returns the session with that id, or nil if it has ended or is suspended.
func (c *Client) sessionOf(id int64) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.id != id || c.session.life.Err() != nil {
		return nil
	}
	return c.session
}

// heartbeat sends a request through the leader several times per session timeout. A server that the leader has lost
// still answers the library's pings, and could not report that the session has ended.
func (c *Client) heartbeat() {
	for {
		c.mu.Lock()
		every := c.cfg.SessionTimeout / heartbeats
		connected := c.isConnected
		if c.session != nil {
			every = c.session.timeout / heartbeats
		}
		c.mu.Unlock()

		if connected {
			ctx, cancel := context.WithTimeout(c.life, every)
			err := c.exchange(ctx, c.sync)
			cancel()

			// Another server may answer.
			if errors.Is(err, errUnanswered) && c.life.Err() == nil {
				c.dropTransport()
			}
		}

		if !sleep(c.life, every) {
			return
		}
	}
}

// dropTransport closes the network connection. The library then connects to the next server.
func (c *Client) dropTransport() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil {
		_ = c.transport.Close()
	}
}

// dial connects to a server, with bounds that suit the session timeout. The library waits for the greeting of a server
// that hangs for almost seven session timeouts.
func (c *Client) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	limit := c.cfg.SessionTimeout / heartbeats * 2
	conn, err := (&net.Dialer{Timeout: limit}).DialContext(c.life, network, addr)
	c.mu.Lock()
	c.dialErr = err
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}

	t := &transport{
		Conn:    conn,
		limit:   limit,
		greeted: c.greeted,
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.transport = t
	c.dialed = time.Now()
	return t, nil
}

func (c *Client) greeted(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.negotiated = timeout
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
