// Package loadgen sends HTTP requests from a fixed number of connections and counts and times the answers.
package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Conn is a keep-alive HTTP/1.1 connection for one goroutine. It implements only the part of HTTP that is needed to
// count answers: client and server share the machine, so CPU time of the client reduces the server's.
type Conn struct {
	net net.Conn
	buf []byte
	// Bytes of buf that are filled.
	read int
}

// Answer is the part of a response that is counted.
type Answer struct {
	Status int
	// Code of a problem document; valid until the next request.
	Code []byte
}

// maxAnswer bounds a response in bytes. The longest is a compressed list of 100 vouchers with long rules. Most responses
// fit into firstBuffer.
const (
	maxAnswer   = 256 << 10
	firstBuffer = 32 << 10
)

// Responses that this client does not support.
var (
	errNotHTTP  = errors.New("the response is not HTTP/1.1")
	errNoLength = errors.New("the response has no Content-Length")
	errTooLong  = fmt.Errorf("the response has more than %d bytes", maxAnswer)
)

// Dial connects to addr, host:port. The connection has no deadline; Close ends it.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}

	return &Conn{net: c, buf: make([]byte, firstBuffer)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.net.Close() }

// SetDeadline bounds the time of all further requests.
func (c *Conn) SetDeadline(t time.Time) error { return c.net.SetDeadline(t) }

// Response returns the last response with its head. It is valid until the next request.
func (c *Conn) Response() []byte { return c.buf[:c.read] }

// Do sends a request and reads its response. After an error the connection must be closed.
func (c *Conn) Do(request []byte) (Answer, error) {
	if _, err := c.net.Write(request); err != nil {
		return Answer{}, fmt.Errorf("send: %w", err)
	}

	c.read = 0
	for {
		h, err := parseHead(c.buf[:c.read])
		if err != nil {
			return Answer{}, err
		}

		if h.size > 0 && c.read >= h.size+h.length {
			return c.finish(h)
		}

		for max(h.size+h.length, c.read+1) > len(c.buf) {
			if len(c.buf) >= maxAnswer {
				return Answer{}, errTooLong
			}
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}

		n, err := c.net.Read(c.buf[c.read:])
		c.read += n

		if err != nil && n == 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Answer{}, fmt.Errorf("receive: %w", err)
		}
	}
}

func (c *Conn) finish(h head) (Answer, error) {
	if c.read > h.size+h.length {
		return Answer{}, fmt.Errorf("%w: %d bytes too many", errNotHTTP, c.read-h.size-h.length)
	}

	a := Answer{Status: h.status}
	if h.status >= 400 {
		a.Code = problemCode(c.buf[h.size:c.read])
	}

	return a, nil
}

// head holds the needed fields of a response's head. Its size is 0 while the head is incomplete.
type head struct {
	// Bytes of the head.
	size   int
	status int
	// Bytes of the body.
	length int
}

var (
	protocol   = []byte("HTTP/1.1 ")
	endOfHead  = []byte("\r\n\r\n")
	endOfLine  = []byte("\r\n")
	lengthName = []byte("content-length:")
)

// parseHead parses the head at the start of b. A response without a Content-Length is an error.
func parseHead(b []byte) (head, error) {
	end := bytes.Index(b, endOfHead)
	if end < 0 {
		return head{}, nil
	}

	size := end + len(endOfHead)
	status, lines, _ := bytes.Cut(b[:end+len(endOfLine)], endOfLine)
	code, ok := bytes.CutPrefix(status, protocol)
	if !ok || len(code) < 3 {
		return head{}, fmt.Errorf("%w: %q", errNotHTTP, status)
	}

	h := head{size: size, length: -1}
	if h.status, ok = number(code[:3]); !ok {
		return head{}, fmt.Errorf("%w: %q", errNotHTTP, status)
	}

	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, endOfLine)
		if len(line) < len(lengthName) || !bytes.EqualFold(line[:len(lengthName)], lengthName) {
			continue
		}
		if h.length, ok = number(bytes.TrimSpace(line[len(lengthName):])); !ok {
			return head{}, fmt.Errorf("%w: %q", errNotHTTP, line)
		}
	}

	if h.length < 0 {
		return head{}, errNoLength
	}

	return h, nil
}

// number parses up to nine digits.
func number(b []byte) (int, bool) {
	var n int
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}

	return n, len(b) > 0 && len(b) < 10
}

var codeField = []byte(`"code":"`)

func problemCode(body []byte) []byte {
	_, rest, ok := bytes.Cut(body, codeField)
	if !ok {
		return nil
	}

	code, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return nil
	}

	return code
}

// Request returns an HTTP request without a body. token and key (the Idempotency-Key) may be empty. more are further
// lines of the head.
func Request(method, path, token, key string, more ...string) []byte {
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

	b.Write(endOfLine)
	return b.Bytes()
}
