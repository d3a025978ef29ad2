package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestConnectionsAreLimited: a server whose process may open 256 files serves up to 192 connections and closes further
// ones at once, until some are closed.
func TestConnectionsAreLimited(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	s := rig.EmbeddedStack(t)
	s.Binary = filepath.Join(t.TempDir(), "seckill")
	require.NoError(t, os.WriteFile(s.Binary, []byte(fmt.Sprintf("#!/bin/sh\nulimit -n 256\nexec %s \"$@\"\n", exe)), 0o700))
	p := s.Spawn(t, "")
	var open []net.Conn
	connect := func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.URL[len("http://"):])
		require.NoError(t, err)
		open = append(open, c)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/healthz", http.NoBody)
		require.NoError(t, err)
		if err := req.Write(c); err != nil {
			return false
		}
		res, err := http.ReadResponse(bufio.NewReader(c), req)
		if err != nil {
			return false
		}
		require.NoError(t, res.Body.Close())
		return res.StatusCode == http.StatusOK
	}
	for range 192 {
		require.True(t, connect())
	}
	require.False(t, connect())
	p.Scrape(t)
	require.Contains(t, p.Metrics, `seckill_connections_refused_total{limit="total"} 1`)
	require.Contains(t, p.Metrics, "seckill_connections 192")
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	rig.Eventually(t, "a connection is served", connect)
}
