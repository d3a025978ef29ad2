package lock

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Parts of the two commands of a cycle, as they are on the wire.
const (
	setCmd    = "\r\nnx\r\n"
	scriptCmd = "\r\nevalsha\r\n"
	anyCmd    = ""
)

// proxy stands between client and server and breaks connections on demand.
type proxy struct {
	addr     string
	upstream string
	cutAfter time.Duration // after a muted reply; 0: never. Set before use.

	mu    sync.Mutex
	conns map[net.Conn]bool
	match string // requests that contain it are broken
	times int    // remaining number of faults
	how   fault
	hits  int
}

type fault int

const (
	none      fault = iota
	dropReply       // forward the request, then cut the connection instead of answering
	muteReply       // forward the request, never answer
	refuse          // cut the connection instead of forwarding
)

func startProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), upstream: upstream, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		wg.Wait()
	})
	return p
}

// inject breaks the next `times` requests that contain match.
func (p *proxy) inject(how fault, match string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.how, p.match, p.times, p.hits = how, match, times, 0
}

// heal lets everything pass; connections that were muted are cut.
func (p *proxy) heal() {
	p.inject(refuse, anyCmd, 0)
	p.cut()
}

// broken returns how many requests were broken since inject.
func (p *proxy) broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) strike(request []byte) (fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 || !bytes.Contains(request, []byte(p.match)) {
		return none, false
	}
	p.times--
	p.hits++
	return p.how, true
}

func (p *proxy) track(c net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
		_ = c.Close()
	}
}

func (p *proxy) serve(client net.Conn) {
	p.track(client, true)
	defer p.track(client, false)
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
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
		if how, hit := p.strike(buf[:n]); hit {
			fate.Store(int32(how))
		}
		if fault(fate.Load()) == refuse {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answer copies replies until the connection's fate changes.
func (p *proxy) answer(client, server net.Conn, fate *atomic.Int32) {
	defer func() { _ = client.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || fault(fate.Load()) == dropReply {
			return
		}
		if fault(fate.Load()) == muteReply {
			if p.cutAfter > 0 {
				time.AfterFunc(p.cutAfter, func() { _ = client.Close() })
			}
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
