package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env/servers"
)

func getRequest(path string) []byte { return httpRequest(http.MethodGet, path, "", "") }

// serverOf returns a server as a load addresses it.
func serverOf(srv *httptest.Server) []*process {
	return []*process{{Program: &servers.Program{Addr: srv.Listener.Addr().String()}}}
}

func TestLoadSendsEachRequestOnce(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code":"sold_out"}`)
		}
	}))
	t.Cleanup(srv.Close)
	l := load{servers: serverOf(srv), conns: 3, limit: time.Minute}
	for range 10 {
		l.requests = append(l.requests, getRequest("/"), getRequest("/none"))
	}
	r, err := l.run(t.Context(), new(atomic.Bool))
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"200": 10, "sold_out": 10}, r.answers)
	assert.Equal(t, int64(20), r.total())
	assert.Equal(t, int64(20), served.Load())
	require.ErrorIs(t, r.only("200"), errWrongAnswers)
	require.NoError(t, r.only("200", "sold_out"))

	l.endless, l.limit = true, 50*time.Millisecond
	r, err = l.run(t.Context(), new(atomic.Bool))
	require.NoError(t, err)
	assert.Equal(t, served.Load()-20, r.total(), "all answers are counted")
}

func TestPaceLimitsTheRate(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	l := load{servers: serverOf(srv), conns: 1, requests: [][]byte{getRequest("/")}, endless: true,
		limit: 400 * time.Millisecond, pace: 200 * time.Millisecond}
	latency := l.pace
	for try := 0; try < 5 && latency >= l.pace; try++ { // an answer may be late; a pause that counts is in every try
		r, err := l.run(t.Context(), new(atomic.Bool))
		require.NoError(t, err)
		require.LessOrEqual(t, r.total(), int64(3))
		latency = r.percentile(1)
	}
	assert.Less(t, latency, l.pace, "the pause is not part of the latency")
}

// The first load sends two requests. The second one would run for a minute.
func TestFirstLoadEndsTheOthers(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	these := serverOf(srv)
	short := load{subject: "short", servers: these, conns: 1, requests: [][]byte{getRequest("/"), getRequest("/")}, limit: time.Minute}
	long := load{subject: "long", servers: these, conns: 2, requests: short.requests, limit: time.Minute, endless: true}
	results, err := runLoads(t.Context(), short, long)
	require.NoError(t, err)
	assert.Equal(t, int64(2), results[0].total())
	assert.Less(t, results[1].elapsed, time.Minute)

	short.subject = "broken"
	short.servers = []*process{{Program: &servers.Program{Addr: "127.0.0.1:1"}}}
	_, err = runLoads(t.Context(), long, short)
	require.ErrorContains(t, err, "broken, 1 connections")
}

func TestMissingAnswersFailTheLoad(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(srv.Close)
	l := load{servers: serverOf(srv), conns: 4, requests: [][]byte{getRequest("/")}, endless: true, limit: time.Minute}
	_, err := l.run(t.Context(), new(atomic.Bool))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.run(ctx, new(atomic.Bool))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, (&result{}).only("201"), errWrongAnswers, "without answers there is no success")
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	r := &result{}
	assert.Zero(t, r.percentile(50))
	for n := range time.Duration(200) {
		r.latencies = append(r.latencies, n+1)
	}
	for p, want := range map[float64]time.Duration{0.1: 1, 50: 100, 99: 198, 100: 200} {
		assert.Equal(t, want, r.percentile(p))
	}
}
