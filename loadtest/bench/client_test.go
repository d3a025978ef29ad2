package main

import (
	"bufio"
	"bytes"
	"context"
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
		{created + "{}", head{len(created), 201, 12}, nil},
		{"HTTP/1.1 204 No Content\r\n\r\n", head{27, 204, 0}, nil},
		{"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", head{35, 200, 0}, nil},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head{}, errNoLength},
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

// answering serves one connection: what it is given, a piece at a time, for each request.
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
		[]string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}"},
	)
	buy := orderRequest("7", "token")
	a, err := c.do(buy)
	require.NoError(t, err)
	assert.Equal(t, answer{status: 201}, a)
	a, err = c.do(buy)
	require.NoError(t, err)
	assert.Equal(t, answer{409, []byte("sold_out")}, a)
	_, err = c.do(buy)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestConnRefusesWhatItCannotCount(t *testing.T) {
	t.Parallel()
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for want, text := range map[error]string{
		errNotHTTP:  ok + "more",
		errTooLong:  "HTTP/1.1 200 OK\r\nContent-Length: 16384\r\n\r\n",
		errNoLength: "HTTP/1.1 200 OK\r\n\r\n",
	} {
		_, err := answering(t, []string{text}).do(request("/", ""))
		require.ErrorIs(t, err, want)
	}
	_, err := answering(t, []string{strings.Repeat("x", maxAnswer)}).do(request("/", ""))
	require.ErrorIs(t, err, errTooLong)
}

func TestOrderRequest(t *testing.T) {
	t.Parallel()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(orderRequest("7", "abc")))))
	require.NoError(t, err)
	assert.Equal(t, "POST /api/v1/vouchers/7/orders", req.Method+" "+req.URL.Path)
	assert.Equal(t, "Bearer abc", req.Header.Get("Authorization"))
	keyed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(withKey(orderRequest("7", "abc"), "k"))))
	require.NoError(t, err)
	assert.Equal(t, "k", keyed.Header.Get("Idempotency-Key"))
	assert.Equal(t, "Bearer abc", keyed.Header.Get("Authorization"))
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
		l.requests = append(l.requests, request("/", ""), request("/none", ""))
	}
	r, err := l.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"200": 10, "sold_out": 10}, r.answers)
	assert.Equal(t, int64(20), r.total())
	assert.Equal(t, int64(20), served.Load())
	require.ErrorIs(t, r.only("200"), errWrongAnswers)

	l.repeat, l.limit = true, 50*time.Millisecond
	r, err = l.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, served.Load()-20, r.total(), "answers that came are counted, all of them")
}

func TestLoadFails(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(srv.Close)
	l := load{addrs: []string{srv.Listener.Addr().String()}, conns: 4, requests: [][]byte{request("/", "")}, repeat: true, limit: time.Minute}
	_, err := l.run(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, (&result{}).only("201"), errWrongAnswers, "no answer is not an answer")
}
