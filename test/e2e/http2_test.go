package e2e

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestRollingRestartsBehindHTTP2 restarts two servers behind a proxy with TLS, to which all buyers share one connection of
// HTTP/2. That has no Connection: close, so the connection lasts. No request breaks, every stream of a draining server ends
// in order, and the next one continues it.
func TestRollingRestartsBehindHTTP2(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).With("SECKILL_DRAIN=3s")
	servers := []*rig.Server{s.Spawn(t, rig.FreeAddr(t)), s.Spawn(t, rig.FreeAddr(t))}
	sale := servers[0].Sale(t, 1000)
	tokens := s.Tokens(t, 100)
	order := servers[0].Buy(t, tokens[0], sale).ID

	proxy, _ := newReadinessProxy(t, []string{servers[0].URL, servers[1].URL})
	front := httptest.NewUnstartedServer(proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	for i := range servers {
		rig.Eventually(t, "the proxy has found the servers", proxy.ready[i].Load)
	}

	var connections atomic.Int64
	trace := httptrace.WithClientTrace(context.WithoutCancel(t.Context()), &httptrace.ClientTrace{
		TLSHandshakeStart: func() { connections.Add(1) },
	})
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := front.Client().Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), httptrace.ContextClientTrace(trace))))
		if err == nil && res.ProtoMajor != 2 {
			_ = res.Body.Close()
			err = errors.New("not HTTP/2: " + res.Proto)
		}
		return res, err
	})}
	buyers := &orderers{client: client, base: front.URL, sale: sale, tokens: tokens[1:]}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	require.NoError(t, buyers.place(0)) // opens the connection
	running.Go(func() { buyers.run(ctx, 8) })

	stream := &orderStream{client: client, url: front.URL + "/api/v1/orders/" + order + "/events", token: tokens[0]}
	running.Go(func() { stream.follow(ctx) })
	for i, p := range servers {
		require.Zero(t, p.Stop(t))
		p = s.Spawn(t, strings.TrimPrefix(p.URL, "http://"))
		rig.RequireReady(t, p)
		servers[i] = p
		rig.Eventually(t, "the proxy has found the server", proxy.ready[i].Load)
	}
	rig.Eventually(t, "enough requests", func() bool { return buyers.requests.Load() > 2*minRequests })
	servers[0].MustCancel(t, tokens[0], order)
	rig.Eventually(t, "the stream has the last state", stream.cancelled.Load)
	stop()
	running.Wait()

	t.Logf("%d requests and %d streams over %d connections", buyers.requests.Load(), stream.opened.Load(), connections.Load())
	require.Empty(t, buyers.failures)
	require.Zero(t, proxy.broken.Load())
	require.Empty(t, stream.failure.Load())
	require.Greater(t, stream.opened.Load(), int64(1), "the stream was continued at another server")
	require.EqualValues(t, 1, connections.Load())
	s.Verify(t)
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
