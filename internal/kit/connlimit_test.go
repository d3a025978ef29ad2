package kit_test

import (
	"bufio"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/connlimit"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// server is an HTTP server behind a limited listener. Addresses of 127.0.0.0/8 are different clients, but those of
// 127.0.1.0/24 are one, as the addresses of an IPv6 network are.
type server struct {
	*connlimit.Listener
	addr string
}

func serve(t *testing.T, total, perClient int, exempt ...netip.Prefix) *server {
	t.Helper()
	l := env.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	s := &server{addr: l.Addr().String()}
	network := netip.MustParsePrefix("127.0.1.0/24")
	s.Listener = connlimit.New(l, connlimit.Config{
		Total: total, PerClient: perClient, Exempt: exempt,
		Client: func(a netip.Addr) string {
			if network.Contains(a) {
				return network.String()
			}
			return a.String()
		},
	})
	srv := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.Listener) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return s
}

// metrics returns the open connections, and the refused ones by limit.
func (s *server) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collectors()...)
	families := env.Must(registry.Gather())(t)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetGauge() != nil {
				values["open"] = m.GetGauge().GetValue()
			}
			for _, l := range m.GetLabel() {
				values[l.GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// get opens a connection from an address, sends a request, and reports whether it is answered. The connection stays open
// then.
func (s *server) get(t *testing.T, from string) (net.Conn, bool) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := env.Must(d.DialContext(t.Context(), "tcp", s.addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr, nil)
	require.NoError(t, err)
	if err := req.Write(c); err != nil {
		return c, false
	}
	res, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return c, false
	}
	require.NoError(t, res.Body.Close())
	return c, true
}

func (s *server) serves(t *testing.T, from string) bool {
	t.Helper()
	_, served := s.get(t, from)
	return served
}

// A client with as many connections as it may have is refused, even from another address of its network. Others are not,
// and neither is the client once it has closed one.
func TestLimitPerClient(t *testing.T) {
	s := serve(t, 100, 2)
	first, served := s.get(t, "127.0.1.1")
	require.True(t, served)
	require.True(t, s.serves(t, "127.0.1.2"))
	require.False(t, s.serves(t, "127.0.1.3"))
	require.Equal(t, map[string]float64{"open": 2, "client": 1, "total": 0}, s.metrics(t))
	require.True(t, s.serves(t, "127.0.0.2"))

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return s.metrics(t)["open"] == 2 }, time.Minute, time.Millisecond)
	require.True(t, s.serves(t, "127.0.1.3"))
}

// An exempt address has no limit of its own, but the limit of all connections applies to it.
func TestLimitOfAll(t *testing.T) {
	s := serve(t, 3, 1, netip.MustParsePrefix("127.0.0.2/32"))
	var last net.Conn
	for range 3 {
		c, served := s.get(t, "127.0.0.2")
		require.True(t, served)
		last = c
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		require.False(t, s.serves(t, from))
	}
	require.Equal(t, map[string]float64{"open": 3, "client": 0, "total": 2}, s.metrics(t))
	require.NoError(t, last.Close())
	require.Eventually(t, func() bool { return s.metrics(t)["open"] == 2 }, time.Minute, time.Millisecond)
	require.True(t, s.serves(t, "127.0.0.3"))
}

// Connections that send nothing do not delay others.
func TestFloodDelaysNoOtherClient(t *testing.T) {
	s := serve(t, 100, 1)
	require.True(t, s.serves(t, "127.0.0.2"))
	for range 100 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
		c := env.Must(d.DialContext(t.Context(), "tcp", s.addr))(t)
		t.Cleanup(func() { _ = c.Close() })
	}
	require.True(t, s.serves(t, "127.0.0.3"))
	require.Equal(t, map[string]float64{"open": 2, "client": 100, "total": 0}, s.metrics(t), "the kernel keeps the order of connections")
}

func TestLimits(t *testing.T) {
	for files, want := range map[uint64][2]int{
		256: {192, 96}, 1024: {768, 384}, 4096: {3072, 1536}, 65_536: {64_512, 10_000}, 1 << 20: {1<<20 - 1024, 10_000},
	} {
		total, perClient := connlimit.Limits(files)
		require.Equal(t, want, [2]int{total, perClient})
	}
}
