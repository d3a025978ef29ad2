package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseHead(t *testing.T) {
	t.Parallel()
	created := "HTTP/1.1 201 Created\r\nLocation: /x\r\ncOnTeNt-LeNgTh:  12 \r\nContent-Type: a\r\n\r\n"
	for _, c := range []struct {
		in   string
		want head
		err  error
	}{
		{"", head{}, nil},
		{created[:len(created)-1], head{}, nil},
		{created + "{}", head{len(created), 201, 12, false}, nil},
		{"HTTP/1.1 204 No Content\r\n\r\n", head{27, 204, 0, false}, nil},
		{"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", head{35, 200, 0, false}, nil},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head{47, 200, -1, true}, nil},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", head{}, errNoLength},
		{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", head{}, errNotHTTP},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n", head{}, errNotHTTP},
		{"HTTP/1.1 20\r\n\r\n", head{}, errNotHTTP},
		{"HTTP/1.1 2x0 OK\r\n\r\n", head{}, errNotHTTP},
		{"HTTP/1.0 200 OK\r\n\r\n", head{}, errNotHTTP},
		{"\r\n\r\n", head{}, errNotHTTP},
	} {
		got, err := parseHead([]byte(c.in))
		require.ErrorIs(t, err, c.err, c.in)
		assert.Equal(t, c.want, got, c.in)
	}
}

func TestProblemCode(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "sold_out", string(problemCode([]byte(`{"code":"sold_out","title":"x"}`))))
	for _, body := range []string{``, `{}`, `{"code":"cut`} {
		assert.Nil(t, problemCode([]byte(body)), body)
	}
}

// answering returns a connection whose server sends one of the answers per request, piece by piece.
func answering(t *testing.T, answers ...[]string) *conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	go func() {
		defer server.Close()
		in := bufio.NewReader(server)
		for _, pieces := range answers {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			for _, p := range pieces {
				_, _ = server.Write([]byte(p))
			}
		}
	}()
	return &conn{net: client, buf: make([]byte, maxAnswer)}
}

func TestConnReadsAnswersInPieces(t *testing.T) {
	t.Parallel()
	c := answering(t,
		strings.Split("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", ""),
		[]string{"HTTP/1.1 409 Conflict\r\nContent-Length: 19\r\n\r\n{\"code\":", "\"sold_out\"}"},
		strings.Split("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n{\"items\":[\r\n2\r\n]}\r\n0\r\n\r\n", ""),
		[]string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}"},
	)
	buy := orderRequest("7", "token", "", "")
	a, err := c.do(buy)
	require.NoError(t, err)
	assert.Equal(t, answer{status: 201}, a)
	a, err = c.do(buy)
	require.NoError(t, err)
	assert.Equal(t, answer{409, []byte("sold_out")}, a)
	a, err = c.do(buy)
	require.NoError(t, err)
	assert.Equal(t, answer{status: 200}, a)
	_, err = c.do(buy)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestConnRejectsUnsupportedResponses(t *testing.T) {
	t.Parallel()
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for want, text := range map[error]string{
		errNotHTTP:  ok + "more",
		errTooLong:  fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", maxAnswer),
		errNoLength: "HTTP/1.1 200 OK\r\n\r\n",
	} {
		_, err := answering(t, []string{text}).do(getRequest("/"))
		require.ErrorIs(t, err, want)
	}
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	_, err := answering(t, []string{chunked + "-1\r\n"}).do(getRequest("/"))
	require.ErrorIs(t, err, errNotHTTP)
	_, err = answering(t, []string{chunked + "8000\r\n" + strings.Repeat("x", maxAnswer)}).do(getRequest("/"))
	require.ErrorIs(t, err, errTooLong)
	_, err = answering(t, []string{strings.Repeat("x", maxAnswer)}).do(getRequest("/"))
	require.ErrorIs(t, err, errTooLong)
}

func getRequest(path string) []byte { return request(http.MethodGet, path, "", "", "") }

func TestOrderRequest(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "k"} {
		text := string(orderRequest("7", "abc", key, ""))
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		require.NoError(t, err)
		assert.Equal(t, "POST /api/v1/vouchers/7/orders", req.Method+" "+req.URL.Path)
		assert.Equal(t, "Bearer abc", req.Header.Get("Authorization"))
		assert.Equal(t, key, req.Header.Get("Idempotency-Key"))
		assert.Equal(t, key != "", strings.Contains(text, "Idempotency-Key"))
	}
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
	l := load{addrs: []string{srv.Listener.Addr().String()}, conns: 3, limit: time.Minute}
	for range 10 {
		l.requests = append(l.requests, getRequest("/"), getRequest("/none"))
	}
	r, err := l.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"200": 10, "sold_out": 10}, r.answers)
	assert.Equal(t, int64(20), r.total())
	assert.Equal(t, int64(20), served.Load())
	require.ErrorIs(t, r.only("200"), errWrongAnswers)
	require.NoError(t, r.only("200", "sold_out"))
	assert.Equal(t, int64(10), r.count("200", "201"))

	l.endless, l.limit = true, 50*time.Millisecond
	r, err = l.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, served.Load()-20, r.total(), "all answers are counted")
}

func TestPaceLimitsTheRate(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	l := load{addrs: []string{srv.Listener.Addr().String()}, conns: 1, requests: [][]byte{getRequest("/")}, endless: true,
		limit: 400 * time.Millisecond, pace: 200 * time.Millisecond}
	r, err := l.run(t.Context())
	require.NoError(t, err)
	assert.LessOrEqual(t, r.total(), int64(3))
	assert.Less(t, r.latency.percentile(1), l.pace, "the pause is not part of the latency")
}

// The first load sends two requests. The second one would run for a minute.
func TestFirstPartEndsTheOthers(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	servers := []*process{{addr: srv.Listener.Addr().String()}}
	short := load{conns: 1, requests: [][]byte{getRequest("/"), getRequest("/")}, limit: time.Minute}
	long := load{conns: 2, requests: short.requests, limit: time.Minute, endless: true}
	results, err := runParts(t.Context(), []part{{"short", servers, short}, {"long", servers, long}})
	require.NoError(t, err)
	assert.Equal(t, int64(2), results[0].total())
	assert.Less(t, results[1].elapsed, time.Minute)

	_, err = runParts(t.Context(), []part{{"long", servers, long}, {"broken", []*process{{addr: "127.0.0.1:1"}}, short}})
	require.ErrorContains(t, err, "broken, 1 connections")
}

func TestMissingAnswersFailTheLoad(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(srv.Close)
	l := load{addrs: []string{srv.Listener.Addr().String()}, conns: 4, requests: [][]byte{getRequest("/")}, endless: true, limit: time.Minute}
	_, err := l.run(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, (&result{}).only("201"), errWrongAnswers, "without answers there is no success")
}
