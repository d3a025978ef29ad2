package loadgen

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
func answering(t *testing.T, answers ...[]string) *Conn {
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
	return &Conn{net: client, buf: make([]byte, firstBuffer)}
}

func TestConnReadsAnswersInPieces(t *testing.T) {
	t.Parallel()
	c := answering(t,
		strings.Split("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", ""),
		[]string{"HTTP/1.1 409 Conflict\r\nContent-Length: 19\r\n\r\n{\"code\":", "\"sold_out\"}"},
		strings.Split("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n{\"items\":[\r\n2\r\n]}\r\n0\r\n\r\n", ""),
		[]string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}"},
	)
	buy := Request(http.MethodPost, "/api/v1/vouchers/7/orders", "token", "", "")
	a, err := c.Do(buy)
	require.NoError(t, err)
	assert.Equal(t, Answer{Status: 201}, a)
	a, err = c.Do(buy)
	require.NoError(t, err)
	assert.Equal(t, Answer{409, []byte("sold_out")}, a)
	a, err = c.Do(buy)
	require.NoError(t, err)
	assert.Equal(t, Answer{Status: 200}, a)
	_, err = c.Do(buy)
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
		_, err := answering(t, []string{text}).Do(getRequest("/"))
		require.ErrorIs(t, err, want)
	}
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	_, err := answering(t, []string{chunked + "-1\r\n"}).Do(getRequest("/"))
	require.ErrorIs(t, err, errNotHTTP)
	_, err = answering(t, []string{chunked + "40000\r\n" + strings.Repeat("x", maxAnswer)}).Do(getRequest("/"))
	require.ErrorIs(t, err, errTooLong)
	_, err = answering(t, []string{strings.Repeat("x", maxAnswer)}).Do(getRequest("/"))
	require.ErrorIs(t, err, errTooLong)
}

func getRequest(path string) []byte { return Request(http.MethodGet, path, "", "", "") }
