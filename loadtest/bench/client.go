package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// conn is one keep-alive HTTP/1.1 connection. It knows just enough of HTTP to count answers: on a machine that client
// and server share, what the client costs is taken from the server. It belongs to one goroutine.
type conn struct {
	net  net.Conn
	buf  []byte
	read int // bytes of buf that are filled
}

// answer is what the client keeps of a response.
type answer struct {
	status int
	code   []byte // of a problem; valid until the next request
}

// maxAnswer bounds a response; the answers to be measured have less than 1 KiB.
const maxAnswer = 16 << 10

// Answers that this client cannot count.
var (
	errNotHTTP  = errors.New("the answer is not HTTP/1.1")
	errNoLength = errors.New("the answer has no Content-Length")
	errTooLong  = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
)

func dial(ctx context.Context, addr string) (*conn, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, buf: make([]byte, maxAnswer)}, nil
}

// do sends a request and reads its answer.
func (c *conn) do(request []byte) (answer, error) {
	if _, err := c.net.Write(request); err != nil {
		return answer{}, fmt.Errorf("send: %w", err)
	}
	c.read = 0
	for {
		h, err := parseHead(c.buf[:c.read])
		if err != nil {
			return answer{}, err
		}
		if h.size > 0 && c.read >= h.size+h.length {
			return c.finish(h)
		}
		if h.size+h.length > len(c.buf) || c.read == len(c.buf) {
			return answer{}, errTooLong
		}
		n, err := c.net.Read(c.buf[c.read:])
		c.read += n
		if err != nil && n == 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return answer{}, fmt.Errorf("receive: %w", err)
		}
	}
}

// finish makes the answer of a response that is complete in the buffer.
func (c *conn) finish(h head) (answer, error) {
	if c.read > h.size+h.length {
		return answer{}, fmt.Errorf("%w: %d bytes too many", errNotHTTP, c.read-h.size-h.length)
	}
	a := answer{status: h.status}
	if h.status >= 400 {
		a.code = problemCode(c.buf[h.size:c.read])
	}
	return a, nil
}

// head is what matters of a response's head. Its size is 0 while the head is not complete.
type head struct {
	size   int // bytes of the head
	status int
	length int // bytes of the body
}

var (
	protocol   = []byte("HTTP/1.1 ")
	endOfHead  = []byte("\r\n\r\n")
	endOfLine  = []byte("\r\n")
	lengthName = []byte("content-length:")
)

// parseHead reads the head that b begins with. A response without a Content-Length is an error, unless its status
// says that there is no body.
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
		if h.status != 204 && h.status != 304 {
			return head{}, errNoLength
		}
		h.length = 0
	}
	return h, nil
}

// number reads up to nine digits.
func number(b []byte) (n int, ok bool) {
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, len(b) > 0 && len(b) < 10
}

var codeField = []byte(`"code":"`)

// problemCode finds the code of a problem document; nil if there is none.
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

// request is a POST without a body, as a browser's button sends it. token may be empty.
func request(path, token string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n", path)
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	b.Write(endOfLine)
	return b.Bytes()
}

// withKey is a request with an Idempotency-Key.
func withKey(request []byte, key string) []byte {
	head := bytes.TrimSuffix(request, endOfLine)
	return fmt.Appendf(bytes.Clone(head), "Idempotency-Key: %s\r\n\r\n", key)
}
