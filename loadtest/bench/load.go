package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is a closed loop of clients: each connection sends its next request when the previous one has been answered.
type load struct {
	addrs    []string // host:port, used by the connections in turn
	conns    int
	requests [][]byte
	endless  bool          // start over when all requests have been sent, instead of ending
	limit    time.Duration // no request is sent after this time
	pace     time.Duration // interval between the starts of two requests of a connection; 0 means none
	stop     *atomic.Bool  // ends the load early when set; may be nil
}

// result is the outcome of a load.
type result struct {
	answers map[string]int64 // count by status, or by code for problem documents
	latency histogram
	elapsed time.Duration // time until the last answer
}

// total returns the number of answers.
func (r *result) total() int64 { return int64(r.latency.n) } //nolint:gosec // counted one by one

// answerTimeout bounds the wait for one answer. A server that takes longer is considered broken.
const answerTimeout = 30 * time.Second

// run opens all connections first and then sends on all of them. A missing answer is an error.
func (l load) run(ctx context.Context) (*result, error) {
	conns := make([]*conn, 0, l.conns)
	defer func() {
		for _, c := range conns {
			_ = c.net.Close()
		}
	}()
	for i := range l.conns {
		c, err := dial(ctx, l.addrs[i%len(l.addrs)])
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", i+1, err)
		}
		conns = append(conns, c)
	}
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		stop  = cmp.Or(l.stop, new(atomic.Bool))
		users = make([]client, len(conns))
		start = time.Now()
	)
	interrupt := context.AfterFunc(ctx, func() { stop.Store(true) })
	defer interrupt()
	for i, c := range conns {
		u := &users[i]
		u.answers = map[string]*int64{}
		wg.Go(func() {
			if u.err = c.net.SetDeadline(start.Add(l.limit + answerTimeout)); u.err == nil {
				u.err = u.send(&l, c, &next, stop, start)
			}
			if u.err != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	r := &result{answers: map[string]int64{}, elapsed: time.Since(start)}
	errs := []error{context.Cause(ctx)}
	for i := range users {
		errs = append(errs, users[i].err)
		users[i].addTo(r)
	}
	return r, firstOf(errs)
}

// client holds the results of one connection.
type client struct {
	answers map[string]*int64
	latency histogram
	err     error
}

// send sends requests until all are sent, the time is over or stop is set.
func (u *client) send(l *load, c *conn, next *atomic.Int64, stop *atomic.Bool, start time.Time) error {
	n := int64(len(l.requests))
	sent := time.Now()
	for round := time.Duration(0); sent.Sub(start) < l.limit && !stop.Load(); round++ {
		i := next.Add(1) - 1
		if i >= n && !l.endless {
			return nil
		}
		if l.pace > 0 {
			time.Sleep(time.Until(start.Add(round * l.pace)))
			sent = time.Now()
		}
		a, err := c.do(l.requests[i%n])
		if err != nil {
			return err
		}
		now := time.Now()
		u.latency.add(now.Sub(sent))
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

// addTo adds the results to r.
func (u *client) addTo(r *result) {
	r.latency.merge(&u.latency)
	for key, n := range u.answers {
		r.answers[key] += *n
	}
}

// firstOf returns the first error. If a server dies, all connections fail in the same way.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// only returns an error if there is no answer or an answer that is not allowed.
func (r *result) only(allowed ...string) error {
	if n := r.count(allowed...); n == r.total() && n > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d answers, not all %s: %v", errWrongAnswers, r.total(), strings.Join(allowed, " or "), r.answers)
}

// count returns the number of answers of the given kinds.
func (r *result) count(kinds ...string) (n int64) {
	for _, kind := range kinds {
		n += r.answers[kind]
	}
	return n
}

// errWrongAnswers is returned if the answers of a server are not the expected ones.
var errWrongAnswers = errors.New("unexpected answers")
