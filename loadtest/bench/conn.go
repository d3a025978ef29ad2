package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// conn is a keep-alive HTTP/1.1 connection for one goroutine. It understands only what Go's servers send and is needed to
// count answers: client and server share the machine, so CPU time of the client reduces the server's.
type conn struct {
	net.Conn
	buf []byte
	// Bytes of buf that are filled.
	read int
}

// answer is the part of a response that is counted.
type answer struct {
	status int
	// Code of a problem document; valid until the next request.
	code []byte
}

// maxAnswer bounds a response in bytes. The longest is a compressed list of 100 vouchers with long rules. Most responses
// fit into firstBuffer.
const (
	maxAnswer   = 256 << 10
	firstBuffer = 32 << 10
)

// errResponse is a response that this client does not understand.
var errResponse = fmt.Errorf("no response of HTTP/1.1 with a Content-Length and at most %d bytes", maxAnswer)

func dial(ctx context.Context, addr string) (*conn, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}

	return &conn{Conn: c, buf: make([]byte, firstBuffer)}, nil
}

// response returns the last response with its head. It is valid until the next request.
func (c *conn) response() []byte { return c.buf[:c.read] }

// do sends a request and reads its response. After an error the connection must be closed.
func (c *conn) do(request []byte) (answer, error) {
	if _, err := c.Write(request); err != nil {
		return answer{}, fmt.Errorf("send: %w", err)
	}

	c.read = 0
	for {
		status, size, err := parseHead(c.response())
		if err != nil {
			return answer{}, err
		}

		if size > 0 && c.read == size {
			return c.finish(status), nil
		}
		if size > 0 && c.read > size || size > maxAnswer {
			return answer{}, fmt.Errorf("%w: %d bytes for one of %d", errResponse, c.read, size)
		}

		if missing := max(size, c.read+1) - len(c.buf); missing > 0 {
			c.buf = append(c.buf, make([]byte, missing)...)
		}

		n, err := c.Read(c.buf[c.read:])
		c.read += n

		if err != nil && n == 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return answer{}, fmt.Errorf("receive: %w", err)
		}
	}
}

func (c *conn) finish(status int) answer {
	if status < http.StatusBadRequest {
		return answer{status: status}
	}

	_, rest, _ := bytes.Cut(c.response(), []byte(`"code":"`))
	code, _, found := bytes.Cut(rest, []byte{'"'})
	if !found {
		code = nil
	}

	return answer{status, code}
}

var (
	protocol   = []byte("HTTP/1.1 ")
	endOfHead  = []byte("\r\n\r\n")
	lengthName = []byte("\r\nContent-Length: ")
)

// parseHead returns the status of a response and its size with the head. The size is 0 while the head is incomplete.
func parseHead(b []byte) (status, size int, err error) {
	end := bytes.Index(b, endOfHead)
	if end < 0 {
		return 0, 0, nil
	}

	line, isHTTP := bytes.CutPrefix(b[:end], protocol)
	code, _, _ := bytes.Cut(line, []byte{' '})
	status, err = strconv.Atoi(string(code))
	if err != nil || !isHTTP {
		return 0, 0, fmt.Errorf("%w: %q", errResponse, b[:end])
	}

	_, rest, _ := bytes.Cut(line, lengthName)
	digits, _, _ := bytes.Cut(rest, []byte{'\r'})
	length, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %q", errResponse, b[:end])
	}

	return status, end + len(endOfHead) + length, nil
}

// httpRequest returns an HTTP request without a body. token and key (the Idempotency-Key) may be empty. more are further
// lines of the head.
func httpRequest(method, path, token, key string, more ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path)

	if method != http.MethodGet {
		b.WriteString("Content-Length: 0\r\n")
	}
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	if key != "" {
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\n", key)
	}

	for _, line := range more {
		b.WriteString(line + "\r\n")
	}

	b.WriteString("\r\n")
	return b.Bytes()
}
