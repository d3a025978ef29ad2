package app

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDrainServesAndClosesConnections: during the drain the check fails, idle and new connections are served, and every
// answer ends its connection.
func TestDrainServesAndClosesConnections(t *testing.T) {
	t.Parallel()
	var d drain
	server := httptest.NewServer(d.handler(http.NotFoundHandler()))
	defer server.Close()
	get := func() (reused, closes bool) {
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		req, err := http.NewRequestWithContext(trace, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		res, err := server.Client().Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body) // otherwise the client does not reuse the connection
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return reused, res.Close
	}
	_, closes := get()
	require.False(t, closes)
	require.NoError(t, d.check(t.Context()))

	failed, drained := make(chan error), make(chan error, 1)
	go func() { drained <- d.run(time.Hour, failed) }()
	require.Eventually(t, func() bool { return errors.Is(d.check(t.Context()), errDraining) }, time.Minute, time.Millisecond)
	reused, closes := get()
	require.True(t, reused, "the idle connection is served")
	require.True(t, closes)
	reused, closes = get()
	require.False(t, reused)
	require.True(t, closes)

	broken := errors.New("the listener failed")
	failed <- broken
	require.ErrorIs(t, <-drained, broken)
}
