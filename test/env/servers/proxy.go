package servers

import (
	"bytes"
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a TCP proxy between clients and a server that breaks connections on demand. Its methods are safe for
// concurrent use.
type Proxy struct {
	Addr string // host:port
	// CutAfter is the time after which a connection with a muted reply is cut; 0: never. Set before use.
	CutAfter time.Duration

	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	upstream []string
	conns    map[net.Conn]bool
	match    string // requests that contain it are broken
	times    int    // remaining number of faults
	how      Fault
	hits     int
	delay    time.Duration // of each reply
}

// Fault is what a Proxy does to a request.
type Fault int

// The faults. After each of them the connection carries no further request.
const (
	None      Fault = iota // forward the request and its reply
	DropReply              // forward the request, then cut the connection instead of answering
	MuteReply              // forward the request, never answer
	Refuse                 // cut the connection instead of forwarding
)

// Always is a number of faults that no test reaches.
const Always = math.MaxInt

// StartProxy starts a proxy on a free port of 127.0.0.1. Each new connection leads to the first of the addresses that
// accepts it, and is cut if there is none. ctx bounds only the start; the proxy runs until Close.
func StartProxy(ctx context.Context, upstream ...string) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	p := &Proxy{Addr: l.Addr().String(), listener: l, upstream: upstream, conns: map[net.Conn]bool{}}
	p.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(c) })
		}
	})

	return p, nil
}

// Close stops the proxy and cuts its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
	p.serving.Wait()
}

// Lead replaces the addresses for new connections. Existing ones stay where they are.
func (p *Proxy) Lead(upstream ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Inject breaks the next times requests that contain match.
func (p *Proxy) Inject(how Fault, match string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.how = how
	p.match = match
	p.times = times
	p.hits = 0
}

// Delay makes every reply wait.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Heal lets everything pass; connections that were muted are cut.
func (p *Proxy) Heal() {
	p.Inject(None, "", 0)
	p.Cut()
}

// Broken returns how many requests were broken since Inject.
func (p *Proxy) Broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Cut closes all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) strike(request []byte) (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 || !bytes.Contains(request, []byte(p.match)) {
		return None, false
	}

	p.times--
	p.hits++
	return p.how, true
}

func (p *Proxy) track(c net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
		_ = c.Close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.track(client, true)
	defer p.track(client, false)
	server := p.dial()
	if server == nil {
		return
	}

	p.track(server, true)
	defer p.track(server, false)

	// A broken request is the last of its connection, and clients do not pipeline, so a fault set before the request is
	// sent hits its reply.
	var fate atomic.Int32
	var replies sync.WaitGroup
	replies.Go(func() { p.answer(client, server, &fate) })
	defer func() { _ = server.Close(); replies.Wait() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if Fault(fate.Load()) == None {
			if how, hit := p.strike(buf[:n]); hit {
				fate.Store(int32(how)) //nolint:gosec // one of a few constants
			}
		}
		if Fault(fate.Load()) == Refuse {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) dial() net.Conn {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	for _, addr := range upstream {
		if server, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // a local server
			return server
		}
	}

	return nil
}

func (p *Proxy) answer(client, server net.Conn, fate *atomic.Int32) {
	defer func() { _ = client.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || Fault(fate.Load()) == DropReply {
			return
		}
		if Fault(fate.Load()) == MuteReply {
			if p.CutAfter > 0 {
				time.AfterFunc(p.CutAfter, func() { _ = client.Close() })
			}
			continue
		}

		p.mu.Lock()
		delay := p.delay
		p.mu.Unlock()

		time.Sleep(delay)
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
