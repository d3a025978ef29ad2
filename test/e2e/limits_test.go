package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestLimitsHoldOverServers checks that a caller that has used up a limit on one server is refused by another one,
// whose clock differs.
func TestLimitsHoldOverServers(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).With("SECKILL_RATE_LIMIT=on")
	token, rdb := s.Tokens(t, 1)[0], s.Client(t)
	first := s.Serve(t)
	second := s.With(rig.EnvClock + "=" + time.Now().Add(time.Hour).Format(time.RFC3339)).Serve(t)
	buckets := func(limit string) []string {
		keys, err := rdb.Keys(t.Context(), "seckill:limit:"+limit+":*").Result()
		require.NoError(t, err)
		return keys
	}
	for _, request := range []string{"POST /orders", "GET /entry", "GET /entry/events"} {
		method, path, _ := strings.Cut(request, " ")
		first.Once(t, rig.Request{Method: method, Path: "/api/v1/vouchers/0" + path, Token: token})
	}
	require.Empty(t, buckets("*"), "purchases and polls do without Redis")
	for _, limit := range []struct {
		name, path, body string
		burst            int
	}{
		{"{logins}:logins", "/auth/login", `{"phone":"13800000001","code":"1"}`, 120},
		{"refreshes", "/auth/refresh", `{"refresh_token":"1"}`, 120},
		{"entries", "/vouchers/0/entry", "", 200},
	} {
		post := func(p *rig.Server) rig.Answer {
			return p.Once(t, rig.Post(limit.path, token, limit.body))
		}
		for range limit.burst {
			require.NotEqual(t, http.StatusTooManyRequests, post(first).Status, limit.name)
		}
		rig.Eventually(t, "the bucket is empty and stays so", func() bool { // on a slow machine it is refilled meanwhile
			post(first)
			keys := buckets(limit.name)
			return len(keys) == 1 && rdb.PExpire(t.Context(), keys[0], time.Hour).Val()
		})

		// The second server has its own full bucket, which it uses when Redis takes too long.
		var a rig.Answer
		for range limit.burst / 2 {
			if a = post(second); a.Status == http.StatusTooManyRequests {
				break
			}
		}
		require.Equal(t, http.StatusTooManyRequests, a.Status, limit.name)
		require.Equal(t, "rate_limited", a.Body["code"])
		require.Equal(t, "1", a.Header.Get("Retry-After"))
	}
}

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
