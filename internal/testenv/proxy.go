package testenv

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is an address that leads to one of several servers, as a DNS name, a virtual address or a TCP proxy does. Its
// methods are safe for concurrent use.
type Proxy struct {
	Addr string

	mu      sync.Mutex
	servers []string
}

// StartProxy starts a proxy. Each new connection leads to the first of the servers that accepts it. The proxy does not
// end connections before one of their sides does.
func StartProxy(tb testing.TB, servers ...string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), servers: servers}
	var wg sync.WaitGroup
	tb.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.forward(client) })
		}
	})
	return p
}

// Lead replaces the servers. Existing connections stay where they are.
func (p *Proxy) Lead(servers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = servers
}

func (p *Proxy) dial() (server net.Conn, err error) {
	p.mu.Lock()
	servers := p.servers
	p.mu.Unlock()
	for _, addr := range servers {
		if server, err = net.Dial("tcp", addr); err == nil { //nolint:noctx // the servers are on this machine
			return server, nil
		}
	}
	return nil, err
}

func (p *Proxy) forward(client net.Conn) {
	server, err := p.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	wg.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	wg.Wait()
}
