// Package connlimit limits the open connections of a listener: per client, and in all. golang.org/x/net/netutil limits
// only all of them, and lets further clients wait: one client that opens connections and sends nothing then stops the
// others.
package connlimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxPerClient is the most connections of one client by Limits. It is more than the people behind one address open at
// once: a carrier shares an address among some hundred customers.
const maxPerClient = 10_000

// Limits returns how many connections a port may have if the process may open the given number of files, and how many of
// them one client. The other files are for databases and other ports.
func Limits(files uint64) (total, perClient int) {
	total = int(files - min(files/4, 1024)) //nolint:gosec // a number of files fits
	return total, min(total/2, maxPerClient)
}

// Config configures a Listener.
type Config struct {
	// Most open connections.
	Total int
	// Most open connections of one client.
	PerClient int
	// Names the client of an address; the addresses of one network may be one client.
	Client func(netip.Addr) string
	// Addresses without a limit of their own.
	Exempt []netip.Prefix
}

// Listener is a net.Listener with limits. It accepts all connections at once and closes those beyond the limits, so that none
// waits in the queue of the kernel.
type Listener struct {
	net.Listener
	cfg       Config
	connected prometheus.Gauge
	refused   *prometheus.CounterVec

	mu   sync.Mutex
	open int
	// Open connections; without those of exempt addresses.
	clients map[string]int
}

// New returns a Listener that accepts the connections of l.
func New(l net.Listener, cfg Config) *Listener {
	limited := &Listener{
		Listener: l,
		cfg:      cfg,
		clients:  map[string]int{},
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "seckill_connections", Help: "Open connections to the public port.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_connections_refused_total", Help: "Connections to the public port that were refused, by the limit that was reached: of all (total) or of the client (client).",
		}, []string{"limit"}),
	}

	// Otherwise rate() misses the first event.
	for _, limit := range []string{limitTotal, limitClient} {
		limited.refused.WithLabelValues(limit)
	}

	return limited
}

// Collectors returns the metrics.
func (l *Listener) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.connected, l.refused}
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		client := l.client(c.RemoteAddr())
		reached := l.take(client)
		if reached == "" {
			return &conn{Conn: c, closed: sync.OnceFunc(func() { l.release(client) })}, nil
		}

		l.refused.WithLabelValues(reached).Inc()
		_ = c.Close()
	}
}

func (l *Listener) client(remote net.Addr) string {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return ""
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if slices.ContainsFunc(l.cfg.Exempt, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return ""
	}
	return l.cfg.Client(addr)
}

// The limits, as labels.
const (
	limitTotal  = "total"
	limitClient = "client"
)

func (l *Listener) take(client string) string {
	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case client != "" && l.clients[client] >= l.cfg.PerClient:
		return limitClient
	case l.open >= l.cfg.Total:
		return limitTotal
	}

	l.open++
	l.connected.Inc()

	if client != "" {
		l.clients[client]++
	}

	return ""
}

func (l *Listener) release(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.open--
	l.connected.Dec()

	if client == "" {
		return
	}

	l.clients[client]--
	if l.clients[client] == 0 {
		delete(l.clients, client)
	}
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
