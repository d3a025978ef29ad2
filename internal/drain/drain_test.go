package drain_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := drain.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestDrainServesAndClosesConnections: during the drain the check fails, idle and new connections are served, and every
// answer ends its connection.
func TestDrainServesAndClosesConnections(t *testing.T) {
	var d drain.Drain
	srv := &http.Server{Handler: d.Handler(http.NotFoundHandler()), ReadHeaderTimeout: time.Minute}
	l := listen(t)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{}}
	get := func() (reused, closes bool) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String(), nil)
		require.NoError(t, err)
		res, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body) // otherwise the client does not reuse the connection
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return reused, res.Close
	}
	_, closes := get()
	require.False(t, closes)
	require.NoError(t, d.Check(t.Context()))

	abort, drained := make(chan error), make(chan error, 1)
	go func() { drained <- d.Run(l, time.Hour, abort) }()
	require.Eventually(t, func() bool { return errors.Is(d.Check(t.Context()), drain.ErrDraining) }, time.Minute, time.Millisecond)
	reused, closes := get()
	require.True(t, reused, "the idle connection is served")
	require.True(t, closes)
	reused, closes = get()
	require.False(t, reused)
	require.True(t, closes)

	broken := errors.New("the listener failed")
	abort <- broken
	require.ErrorIs(t, <-drained, broken)
	require.NoError(t, srv.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

// TestDrainLeavesNoConnectionInTheQueue: a drain ends when the connections that clients have established are accepted, and
// no further one is established, so closing the listener resets none.
func TestDrainLeavesNoConnectionInTheQueue(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can stop connections without closing the listener")
	}
	l := listen(t)
	early, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer early.Close()
	drained := make(chan error, 1)
	go func() { drained <- new(drain.Drain).Run(l, time.Nanosecond, nil) }()
	require.Never(t, func() bool { return len(drained) > 0 }, 1200*time.Millisecond, 50*time.Millisecond, "the server is busy")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	late, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	if err == nil {
		_ = late.Close()
	}
	require.Error(t, err, "a connection was established after the drain")
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	require.Equal(t, early.LocalAddr(), accepted.RemoteAddr())
	require.NoError(t, <-drained)
}
