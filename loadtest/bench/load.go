package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is a closed loop of clients: each connection sends its next request when the previous one has been answered.
type load struct {
	// What is measured.
	subject string
	// Used by the connections in turn.
	servers  []*process
	conns    int
	requests [][]byte
	// Start over when all requests have been sent, instead of ending.
	endless bool
	// No request is sent after this time.
	limit time.Duration
	// Each connection sends one request in every interval of this length, at a random time: requests of independent users
	// do not come at the same moment. 0 means without a pause.
	pace time.Duration
}

// answerTimeout bounds the wait for one answer. A server that takes longer is considered broken.
const answerTimeout = 30 * time.Second

// runLoads runs loads concurrently until the first one ends or any fails, and returns one sample per load. A connection that
// breaks, a missing answer and the end of ctx are errors; an unwanted answer is not, see sample.only.
func runLoads(ctx context.Context, loads ...load) ([]*sample, error) {
	var (
		group   errgroup.Group
		samples = make([]*sample, len(loads))
		stop    atomic.Bool
	)

	for i, l := range loads {
		group.Go(func() error {
			var err error
			if samples[i], err = l.run(ctx, &stop); err != nil {
				err = fmt.Errorf("%s, %d connections: %w", l.subject, l.conns, err)
			}
			if i == 0 || err != nil {
				stop.Store(true)
			}
			return err
		})
	}

	return samples, group.Wait()
}

// run opens all connections first and then sends on all of them, until stop is set at the latest.
func (l load) run(ctx context.Context, stop *atomic.Bool) (*sample, error) {
	conns := make([]*conn, 0, l.conns)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()

	for i := range l.conns {
		c, err := dial(ctx, l.servers[i%len(l.servers)].Addr)
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", i+1, err)
		}
		conns = append(conns, c)
	}

	var (
		group errgroup.Group
		next  = make([]atomic.Int64, len(l.servers))
		users = make([]sample, len(conns))
		start = time.Now()
	)

	interrupt := context.AfterFunc(ctx, func() { stop.Store(true) })
	defer interrupt()

	for i, c := range conns {
		u := &users[i]
		u.answers = map[string]int64{}
		server := i % len(l.servers)

		// Each server has its own requests, so that a user comes to the same server in every round, as behind a balancer
		// with sticky sessions. It has verified the user's token then, as a single server has.
		request := func() int64 { return (next[server].Add(1)-1)*int64(len(l.servers)) + int64(server) }

		group.Go(func() error {
			err := c.SetDeadline(start.Add(l.limit + answerTimeout))
			if err == nil {
				err = u.send(&l, c, request, stop, start)
			}
			if err != nil {
				stop.Store(true)
			}
			return err
		})
	}

	// If a server dies, all connections fail in the same way.
	err := group.Wait()
	m := &sample{
		subject: l.subject,
		answers: map[string]int64{},
		elapsed: time.Since(start),
	}

	for _, u := range users {
		m.latencies = append(m.latencies, u.latencies...)
		for kind, n := range u.answers {
			m.answers[kind] += n
		}
	}

	slices.Sort(m.latencies)
	m.counts = m.total()

	return m, cmp.Or(context.Cause(ctx), err)
}

// send adds the answers on one connection.
func (m *sample) send(l *load, c *conn, request func() int64, stop *atomic.Bool, start time.Time) error {
	n := int64(len(l.requests))
	sent := time.Now()
	for round := time.Duration(0); sent.Sub(start) < l.limit && !stop.Load(); round++ {
		i := request()
		if i >= n && !l.endless {
			return nil
		}

		if l.pace > 0 {
			time.Sleep(time.Until(start.Add(round*l.pace + rand.N(l.pace))))
			sent = time.Now()
		}

		kind, err := c.do(l.requests[i%n])
		if err != nil {
			return err
		}

		now := time.Now()
		m.latencies = append(m.latencies, now.Sub(sent))
		sent = now
		m.answers[kind]++
	}

	return nil
}

func (m *sample) only(allowed ...string) error {
	var n int64
	for _, kind := range allowed {
		n += m.answers[kind]
	}

	if n == m.total() && n > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d answers, not all %s: %v", errWrongAnswers, m.total(), strings.Join(allowed, " or "), m.answers)
}

// errWrongAnswers is returned if the answers of a server are not the expected ones.
var errWrongAnswers = errors.New("unexpected answers")

// conn is a keep-alive HTTP/1.1 connection for one goroutine. It understands only what Go's servers send and is needed to
// count answers: client and server share the machine, so CPU time of the client reduces the server's.
type conn struct {
	net.Conn
	buf []byte
	// The last one with its head, valid until the next request.
	response []byte
}

// maxAnswer bounds a response in bytes. The longest is a compressed list of 100 vouchers with long rules.
const maxAnswer = 256 << 10

// errResponse is a response that this client does not understand.
var errResponse = fmt.Errorf("no response of HTTP/1.1 with a Content-Length and at most %d bytes", maxAnswer)

func dial(ctx context.Context, addr string) (*conn, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}

	return &conn{Conn: c, buf: make([]byte, maxAnswer)}, nil
}

// do sends a request, reads its response and returns the kind of it: the status, or the code of a problem document. After an
// error the connection must be closed.
func (c *conn) do(request []byte) (string, error) {
	if _, err := c.Write(request); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}

	for read := 0; ; {
		status, size, err := parseHead(c.buf[:read])
		if err != nil {
			return "", err
		}

		if size > 0 && read == size {
			c.response = c.buf[:read]
			return kindOf(status, c.response), nil
		}
		if size > 0 && read > size || max(size, read+1) > maxAnswer {
			return "", fmt.Errorf("%w: %d bytes for one of %d", errResponse, read, size)
		}

		n, err := c.Read(c.buf[read:])
		if n == 0 {
			return "", fmt.Errorf("receive: %w", err)
		}
		read += n
	}
}

func kindOf(status string, response []byte) string {
	if status < "400" {
		return status
	}

	_, rest, _ := bytes.Cut(response, []byte(`"code":"`))
	code, _, found := bytes.Cut(rest, []byte{'"'})
	if !found {
		return status
	}

	return string(code)
}

var (
	protocol   = []byte("HTTP/1.1 ")
	endOfHead  = []byte("\r\n\r\n")
	lengthName = []byte("\r\nContent-Length: ")
)

// parseHead returns the status of a response and its size with the head. The size is 0 while the head is incomplete.
func parseHead(b []byte) (status string, size int, err error) {
	end := bytes.Index(b, endOfHead)
	if end < 0 {
		return "", 0, nil
	}

	line, isHTTP := bytes.CutPrefix(b[:end], protocol)
	code, _, _ := bytes.Cut(line, []byte{' '})
	_, rest, _ := bytes.Cut(line, lengthName)
	digits, _, _ := bytes.Cut(rest, []byte{'\r'})

	length, err := strconv.Atoi(string(digits))
	if err != nil || !isHTTP {
		return "", 0, fmt.Errorf("%w: %q", errResponse, b[:end])
	}

	return string(code), end + len(endOfHead) + length, nil
}

// httpRequest returns an HTTP request without a body. token may be empty. more are further lines of the head.
func httpRequest(method, path, token string, more ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path)

	if method != http.MethodGet {
		b.WriteString("Content-Length: 0\r\n")
	}
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}

	for _, line := range more {
		b.WriteString(line + "\r\n")
	}

	b.WriteString("\r\n")
	return b.Bytes()
}
