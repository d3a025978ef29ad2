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

// load is a closed loop of clients: each connection sends its next request when its last one has been answered.
type load struct {
	addrs    []string // host:port; connection i uses the i-th, in turn
	conns    int
	requests [][]byte
	endless  bool          // begin anew when the requests are used up, instead of ending
	limit    time.Duration // no request is sent after it
	pace     time.Duration // between the starts of two requests of a connection; 0: none
	stop     *atomic.Bool  // ends the load early when it becomes true; may be nil
}

// result is the outcome of a load.
type result struct {
	answers map[string]int64 // by status, and of problems by code
	latency histogram
	elapsed time.Duration // until the last answer
}

// total counts the answers.
func (r *result) total() int64 { return int64(r.latency.n) } //nolint:gosec // counted one by one

// answerPatience bounds the wait for one answer. A server that needs longer is broken, not slow.
const answerPatience = 30 * time.Second

// run opens the connections and then starts all of them at once. A missing answer is an error.
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
		seats = make([]seat, len(conns))
		start = time.Now()
	)
	interrupt := context.AfterFunc(ctx, func() { stop.Store(true) })
	defer interrupt()
	for i, c := range conns {
		s := &seats[i]
		s.answers = map[string]*int64{}
		wg.Go(func() {
			if s.err = c.net.SetDeadline(start.Add(l.limit + answerPatience)); s.err == nil {
				s.err = s.send(&l, c, &next, stop, start)
			}
			if s.err != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	r := &result{answers: map[string]int64{}, elapsed: time.Since(start)}
	errs := []error{context.Cause(ctx)}
	for i := range seats {
		errs = append(errs, seats[i].err)
		seats[i].addTo(r)
	}
	return r, firstOf(errs)
}

// seat holds the results of one connection.
type seat struct {
	answers map[string]*int64
	latency histogram
	err     error
}

// send sends requests until they or the time are used up.
func (s *seat) send(l *load, c *conn, next *atomic.Int64, stop *atomic.Bool, start time.Time) error {
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
		s.latency.add(now.Sub(sent))
		sent = now
		s.count(a)
	}
	return nil
}

// count allocates only for the first answer of a kind.
func (s *seat) count(a answer) {
	key := a.code
	if key == nil {
		key = strconv.AppendInt(make([]byte, 0, 3), int64(a.status), 10)
	}
	if n, ok := s.answers[string(key)]; ok {
		*n++
		return
	}
	n := int64(1)
	s.answers[string(key)] = &n
}

func (s *seat) addTo(r *result) {
	r.latency.merge(&s.latency)
	for key, n := range s.answers {
		r.answers[key] += *n
	}
}

// firstOf returns the first error: when a server dies, all connections fail in the same way.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// only returns an error if an answer is none of those allowed, or if there is no answer.
func (r *result) only(allowed ...string) error {
	if n := r.count(allowed...); n == r.total() && n > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d answers, not all of them %s: %v", errWrongAnswers, r.total(), strings.Join(allowed, " or "), r.answers)
}

// count returns the number of answers of the given kinds.
func (r *result) count(kinds ...string) (n int64) {
	for _, kind := range kinds {
		n += r.answers[kind]
	}
	return n
}

var errWrongAnswers = errors.New("the server answered wrongly")
