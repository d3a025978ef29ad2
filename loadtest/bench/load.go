package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load is a closed loop of buyers: each connection sends its next request when it has the answer to its last one.
type load struct {
	addrs    []string // host:port; connection i talks to the i-th, in turn
	conns    int
	requests [][]byte
	repeat   bool          // begin anew when the requests are used up, instead of ending
	limit    time.Duration // no request is sent after it
	keyed    bool          // each request has an Idempotency-Key of its own
}

// result is what the load saw.
type result struct {
	answers map[string]int64 // by status, and of problems by code
	latency histogram
	elapsed time.Duration // until the last answer
}

// total counts the answers.
func (r *result) total() int64 { return int64(r.latency.n) } //nolint:gosec // counted one by one

// rate is answers a second.
func (r *result) rate() float64 { return float64(r.total()) / r.elapsed.Seconds() }

// answerPatience is how long an answer may take. A server that needs longer is broken, not slow.
const answerPatience = 30 * time.Second

// run opens the connections, then lets all begin at once. An answer that does not come is an error.
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
		stop  atomic.Bool
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
				s.err = s.buy(&l, c, &next, &stop, start)
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

// seat is what one connection saw.
type seat struct {
	answers map[string]*int64
	latency histogram
	err     error
}

// buy sends requests until they or the time are used up.
func (s *seat) buy(l *load, c *conn, next *atomic.Int64, stop *atomic.Bool, start time.Time) error {
	n := int64(len(l.requests))
	sent := time.Now()
	for sent.Sub(start) < l.limit && !stop.Load() {
		i := next.Add(1) - 1
		if i >= n && !l.repeat {
			return nil
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

// firstOf returns the first error that is one: where the server dies, every connection has the same to say.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// only is an error if there was an answer other than want, or none at all.
func (r *result) only(want string) error {
	if r.answers[want] == r.total() && r.total() > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d answers, not all of them %s: %v", errWrongAnswers, r.total(), want, r.answers)
}

var errWrongAnswers = errors.New("the server answered wrongly")
