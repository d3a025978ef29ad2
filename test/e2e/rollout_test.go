package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// envRollouts is the number of restarts in TestRollingRestarts. The short default is for the suite.
const envRollouts = "SECKILL_TEST_ROLLOUTS"

// minRequests is the least number of requests per way of connecting for each restart: 6,000 in 20 restarts.
const minRequests = 300

// readinessProxy is a reverse proxy that sends requests to the servers whose /readyz answers 200, in turn. It repeats
// nothing: a request that a server breaks is a 502, and counted.
type readinessProxy struct {
	*httputil.ReverseProxy

	servers []*url.URL
	ready   []atomic.Bool
	next    atomic.Uint64
	broken  atomic.Int64
}

// newReadinessProxy starts a proxy for servers at the given URLs and returns its URL.
func newReadinessProxy(t *testing.T, servers []string) (*readinessProxy, string) {
	t.Helper()
	p := &readinessProxy{ready: make([]atomic.Bool, len(servers))}
	for _, s := range servers {
		u, err := url.Parse(s)
		require.NoError(t, err)
		p.servers = append(p.servers, u)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	p.ReverseProxy = &httputil.ReverseProxy{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			connections := 0
			res, err := transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { connections++ },
			})))
			if connections > 1 && err == nil { // net/http repeats requests with an Idempotency-Key on its own
				_ = res.Body.Close()
				err = errors.New("the first connection broke")
			}
			return res, err
		}),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(p.pick()) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				p.broken.Add(1)
				t.Logf("proxy: %v", err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	var probes sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for i, s := range servers {
		probes.Go(func() { p.probe(ctx, i, s+"/readyz") })
	}
	front := httptest.NewServer(p)
	t.Cleanup(func() { stop(); probes.Wait(); front.Close() })
	return p, front.URL
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// probe updates the readiness of server i until ctx ends.
func (p *readinessProxy) probe(ctx context.Context, i int, readyz string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, readyz, nil)
		if err != nil {
			return
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		p.ready[i].Store(err == nil && res.StatusCode == http.StatusOK)
		time.Sleep(100 * time.Millisecond)
	}
}

// pick returns the next ready server, or any if none is ready.
func (p *readinessProxy) pick() *url.URL {
	n := uint64(len(p.servers))
	for range n {
		if i := p.next.Add(1) % n; p.ready[i].Load() {
			return p.servers[i]
		}
	}
	return p.servers[p.next.Add(1)%n]
}

// orderers place orders through one client until they are stopped.
type orderers struct {
	client   *http.Client
	base     string // URL of a server or proxy
	sale     string
	tokens   []string
	requests atomic.Int64
	mu       sync.Mutex
	failures []string
}

// run places orders until ctx ends and returns when the last is answered. Order n is that of user n; later ones repeat
// the requests, with the same keys.
func (o *orderers) run(ctx context.Context, parallel int) {
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := o.place(int(o.requests.Add(1)) % len(o.tokens)); err != nil {
					o.mu.Lock()
					o.failures = append(o.failures, err.Error())
					o.mu.Unlock()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	running.Wait()
}

// slowAnswer is the time after which a 503 may be the answer of a sound server on a busy machine.
const slowAnswer = time.Second

// place places the order of a user. It repeats a request that is answered 503 after slowAnswer, up to three times.
func (o *orderers) place(user int) error {
	purchase := rig.Purchase(o.sale, o.tokens[user]).Keyed("rollout-" + strconv.Itoa(user))
	for try := 1; ; try++ {
		start := time.Now()
		a, err := rig.SendBy(context.Background(), o.client, o.base, purchase) // every request is answered
		switch {
		case err != nil || a.Success():
			return err
		case try == 4 || time.Since(start) < slowAnswer || !a.Busy():
			return fmt.Errorf("%d %s", a.Status, a.Text)
		}
	}
}

// TestRollingRestarts restarts three servers one after the other while orders arrive in three ways, through a proxy that follows
// /readyz: over keep-alive and over fresh connections, and over one connection of HTTP/2, which has no Connection: close and so
// lasts. No request breaks, every stream of a draining server ends in order, and the next one continues it.
func TestRollingRestarts(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			rollingRestarts(t, rig.RealStack(t).In(lane).With("SECKILL_DRAIN=5s"))
		})
	}
}

func rollingRestarts(t *testing.T, s *rig.Stack) {
	t.Helper()
	restarts := 3
	if n, err := strconv.Atoi(os.Getenv(envRollouts)); err == nil {
		restarts = n
	}
	servers, urls := make([]*rig.Server, 3), make([]string, 3)
	for i := range servers {
		servers[i] = s.Spawn(t, rig.FreeAddr(t))
		urls[i] = servers[i].URL
	}
	sale := servers[0].Sale(t, 10_000)
	tokens := s.Tokens(t, 1501) // fewer than requests, so that all are used
	proxy, front := newReadinessProxy(t, urls)
	rig.Eventually(t, "the proxy has found all servers", func() bool {
		return proxy.ready[0].Load() && proxy.ready[1].Load() && proxy.ready[2].Load()
	})
	kept := &orderers{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, base: front, sale: sale, tokens: tokens[:500],
	}
	fresh := &orderers{
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, base: front, sale: sale,
		tokens: tokens[500:1000],
	}
	t.Cleanup(kept.client.CloseIdleConnections)
	http2, connections := http2Client(t, proxy)
	shared := &orderers{client: http2.client, base: http2.url, sale: sale, tokens: tokens[1000:1500]}
	buyer := tokens[1500]
	order := servers[0].Buy(t, buyer, sale).ID
	stream := &orderStream{client: http2.client, url: http2.url + "/api/v1/orders/" + order + "/events", token: buyer}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	require.NoError(t, shared.place(0)) // opens the connection
	for _, o := range []*orderers{kept, fresh, shared} {
		running.Go(func() { o.run(ctx, 8) })
	}
	running.Go(func() { stream.follow(ctx) })
	for i := range restarts {
		p := servers[i%len(servers)]
		require.Zero(t, p.Stop(t))
		p = s.Spawn(t, strings.TrimPrefix(p.URL, "http://"))
		p.RequireReady(t)
		servers[i%len(servers)] = p
		rig.Eventually(t, "the proxy has found the server", func() bool { return proxy.ready[i%len(servers)].Load() })
	}
	rig.Eventually(t, "enough requests", func() bool {
		return min(kept.requests.Load(), fresh.requests.Load(), shared.requests.Load()) >= int64(restarts*minRequests)
	})
	servers[0].MustCancel(t, buyer, order)
	rig.Eventually(t, "the stream has the last state", stream.cancelled.Load)
	stop()
	running.Wait()
	t.Logf("%d restarts, %d requests over kept connections, %d over fresh ones, %d over HTTP/2",
		restarts, kept.requests.Load(), fresh.requests.Load(), shared.requests.Load())
	require.Empty(t, kept.failures, "over kept connections")
	require.Zero(t, proxy.broken.Load())
	require.Empty(t, fresh.failures, "over fresh connections")
	require.Empty(t, shared.failures, "over HTTP/2")
	require.EqualValues(t, 1, connections.Load())
	require.Empty(t, stream.failure.Load())
	require.Greater(t, stream.opened.Load(), int64(1), "the stream was continued at another server")
	rig.RequireSettled(t, s)
	s.Verify(t)
	require.EqualValues(t, len(tokens), s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE voucher_id = "+sale))
}

// endpoint is a URL with the client for it.
type endpoint struct {
	client *http.Client
	url    string
}

// http2Client starts a server of TLS and HTTP/2 in front of a proxy, and returns a client that accepts nothing else, and the number
// of its connections.
func http2Client(t *testing.T, proxy http.Handler) (e endpoint, connections *atomic.Int64) {
	t.Helper()
	front := httptest.NewUnstartedServer(proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)

	connections = &atomic.Int64{}
	trace := &httptrace.ClientTrace{TLSHandshakeStart: func() { connections.Add(1) }}
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := front.Client().Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		if err == nil && res.ProtoMajor != 2 {
			_ = res.Body.Close()
			err = errors.New("not HTTP/2: " + res.Proto)
		}
		return res, err
	})
	return endpoint{&http.Client{Transport: transport}, front.URL}, connections
}

// orderStream follows the states of an order.
type orderStream struct {
	client     *http.Client
	url, token string
	opened     atomic.Int64
	cancelled  atomic.Bool
	failure    atomic.Value // the first text of an error
}

// follow opens the stream again whenever it ends, until the order is cancelled or ctx ends.
func (s *orderStream) follow(ctx context.Context) {
	s.failure.Store("")
	for ctx.Err() == nil && !s.cancelled.Load() {
		if err := s.open(ctx); err != nil && ctx.Err() == nil {
			s.failure.CompareAndSwap("", err.Error())
		}
	}
}

func (s *orderStream) open(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	s.opened.Add(1)

	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"status":"cancelled"`) {
			s.cancelled.Store(true)
		}
	}
	return lines.Err()
}

// TestSecondSignalEndsTheDrain: the first SIGTERM turns /readyz red and nothing else, the second one ends the process.
func TestSecondSignalEndsTheDrain(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t).With("SECKILL_DRAIN=1h")
	p := s.Spawn(t, "")
	sale, token := p.Sale(t, 1), s.Tokens(t, 1)[0]
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	rig.Eventually(t, "/readyz is red", func() bool { return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusServiceUnavailable })
	require.Contains(t, rig.Fetch(t, p.URL+"/readyz").Text, "not ready: shutdown")
	require.Equal(t, http.StatusOK, rig.Fetch(t, p.URL+"/healthz").Status)
	p.Must(t, rig.Purchase(sale, token))
	rig.Eventually(t, "the process ends", func() bool {
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Done:
			return true
		default:
			return false
		}
	})
	require.Equal(t, -1, p.Cmd.ProcessState.ExitCode(), "ended by the signal")
}
