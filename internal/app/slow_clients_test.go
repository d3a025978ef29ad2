package app

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener in memory, whose connections follow the clock of synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection and reads all that the server sends on it. ended receives that when the server has closed it.
func (p *pipes) dial() (conn net.Conn, ended <-chan string) {
	conn, server := net.Pipe()
	p.conns <- server
	done := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(conn) // the connection is closed in the middle
		done <- string(all)
	}()
	return conn, done
}

// A client that sends its request byte by byte, or does not read its answer, keeps its connection for seconds.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
	slow := func(conn net.Conn, text string) {
		for _, b := range []byte(text) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	for name, tc := range map[string]struct {
		send func(conn net.Conn)
		ends time.Duration
	}{
		"silence":     {func(net.Conn) {}, readHeaderTimeout},
		"slow header": {func(conn net.Conn) { slow(conn, head) }, readHeaderTimeout},
		"slow body": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, head)
			slow(conn, strings.Repeat("x", 1000))
		}, readTimeout},
		"idle after an answer": {func(conn net.Conn) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }, idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener, failed := serveMemory(t)
				began := time.Now()
				conn, ended := listener.dial()
				var sending sync.WaitGroup
				sending.Go(func() { tc.send(conn) })
				answer := <-ended
				took := time.Since(began)
				sending.Wait()
				require.NotContains(t, answer, "complete")
				require.GreaterOrEqual(t, took, tc.ends)
				require.Less(t, took, tc.ends+2*time.Second, "net/http waits 0.5 s for the client to read an error")
				require.Empty(t, failed)
			})
		})
	}

	t.Run("answer is not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			listener, failed := serveMemory(t)
			conn, server := net.Pipe()
			listener.conns <- server
			_, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			began := time.Now()
			require.ErrorIs(t, <-failed, os.ErrDeadlineExceeded)
			require.Equal(t, writeTimeout, time.Since(began))
			require.NoError(t, conn.Close())
		})
	})

	t.Run("many of them delay nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			listener, _ := serveMemory(t)
			var sending sync.WaitGroup
			for range 500 {
				conn, _ := listener.dial()
				sending.Go(func() { slow(conn, head) })
			}
			time.Sleep(readHeaderTimeout / 2)
			conn, server := net.Pipe()
			listener.conns <- server
			began := time.Now()
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Zero(t, time.Since(began))
			require.NoError(t, conn.Close())
			sending.Wait()
		})
	})
}

// serveMemory runs the public server on a listener in memory. failed receives the errors of writes of the handler.
func serveMemory(t *testing.T) (listener *pipes, failed <-chan error) {
	t.Helper()
	listener = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	errs := make(chan error, 1)
	server := publicServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, err := w.Write(make([]byte, 1<<20))
			errs <- err
			return
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		if r.ContentLength > 0 {
			_, _ = io.WriteString(w, "complete")
		}
	}), slog.New(slog.DiscardHandler))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-stopped
	})
	return listener, errs
}
