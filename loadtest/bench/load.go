package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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

// result is the outcome of a load.
type result struct {
	// Count by status, or by code for problem documents.
	answers map[string]int64
	// Sorted.
	latencies []time.Duration
	// Time until the last answer.
	elapsed time.Duration
}

func (r *result) total() int64 { return int64(len(r.latencies)) }

func (r *result) percentile(p float64) time.Duration {
	rank := int(math.Ceil(float64(len(r.latencies)) * p / 100))
	if rank == 0 {
		return 0
	}

	return r.latencies[rank-1]
}

// answerTimeout bounds the wait for one answer. A server that takes longer is considered broken.
const answerTimeout = 30 * time.Second

// runLoads runs loads concurrently until the first one ends or any fails, and returns one result per load. A connection that
// breaks, a missing answer and the end of ctx are errors; an unwanted answer is not, see result.only.
func runLoads(ctx context.Context, loads ...load) ([]*result, error) {
	var (
		wg      sync.WaitGroup
		results = make([]*result, len(loads))
		errs    = make([]error, len(loads))
		stop    atomic.Bool
	)

	for i, l := range loads {
		wg.Go(func() {
			if results[i], errs[i] = l.run(ctx, &stop); errs[i] != nil {
				errs[i] = fmt.Errorf("%s, %d connections: %w", l.subject, l.conns, errs[i])
			}
			if i == 0 || errs[i] != nil {
				stop.Store(true)
			}
		})
	}

	wg.Wait()
	return results, cmp.Or(errs...)
}

// run opens all connections first and then sends on all of them, until stop is set at the latest.
func (l load) run(ctx context.Context, stop *atomic.Bool) (*result, error) {
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
		wg    sync.WaitGroup
		next  = make([]atomic.Int64, len(l.servers))
		users = make([]client, len(conns))
		start = time.Now()
	)

	interrupt := context.AfterFunc(ctx, func() { stop.Store(true) })
	defer interrupt()

	for i, c := range conns {
		u := &users[i]
		u.answers = map[string]*int64{}
		server := i % len(l.servers)

		// Each server has its own requests, so that a user comes to the same server in every round, as behind a balancer
		// with sticky sessions. It has verified the user's token then, as a single server has.
		request := func() int64 { return (next[server].Add(1)-1)*int64(len(l.servers)) + int64(server) }

		wg.Go(func() {
			if u.err = c.SetDeadline(start.Add(l.limit + answerTimeout)); u.err == nil {
				u.err = u.send(&l, c, request, stop, start)
			}
			if u.err != nil {
				stop.Store(true)
			}
		})
	}

	wg.Wait()
	r := &result{answers: map[string]int64{}, elapsed: time.Since(start)}

	// If a server dies, all connections fail in the same way.
	err := context.Cause(ctx)
	for i := range users {
		err = cmp.Or(err, users[i].err)
		users[i].addTo(r)
	}
	slices.Sort(r.latencies)

	return r, err
}

// client holds the results of one connection.
type client struct {
	answers   map[string]*int64
	latencies []time.Duration
	err       error
}

func (u *client) send(l *load, c *conn, request func() int64, stop *atomic.Bool, start time.Time) error {
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

		a, err := c.do(l.requests[i%n])
		if err != nil {
			return err
		}

		now := time.Now()
		u.latencies = append(u.latencies, now.Sub(sent))
		sent = now
		u.count(a)
	}

	return nil
}

// count counts an answer. It allocates only for the first answer of a kind.
func (u *client) count(a answer) {
	key := a.code
	if key == nil {
		key = strconv.AppendInt(make([]byte, 0, 3), int64(a.status), 10)
	}

	if n, ok := u.answers[string(key)]; ok {
		*n++
		return
	}

	n := int64(1)
	u.answers[string(key)] = &n
}

func (u *client) addTo(r *result) {
	r.latencies = append(r.latencies, u.latencies...)
	for key, n := range u.answers {
		r.answers[key] += *n
	}
}

func (r *result) only(allowed ...string) error {
	var n int64
	for _, kind := range allowed {
		n += r.answers[kind]
	}

	if n == r.total() && n > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d answers, not all %s: %v", errWrongAnswers, r.total(), strings.Join(allowed, " or "), r.answers)
}

// errWrongAnswers is returned if the answers of a server are not the expected ones.
var errWrongAnswers = errors.New("unexpected answers")

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
