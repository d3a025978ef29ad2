package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Load is a closed loop of clients: each connection sends its next request when the previous one has been answered.
type Load struct {
	// For errors.
	Name string
	// Host:port, used by the connections in turn.
	Addrs    []string
	Conns    int
	Requests [][]byte
	// Start over when all requests have been sent, instead of ending.
	Endless bool
	// No request is sent after this time.
	Limit time.Duration
	// Interval between the starts of two requests of a connection; 0 means none.
	Pace time.Duration
}

// Result is the outcome of a load.
type Result struct {
	// Count by status, or by code for problem documents.
	Answers map[string]int64
	Latency Histogram
	// Time until the last answer.
	Elapsed time.Duration
}

// Total returns the number of answers.
func (r *Result) Total() int64 { return int64(r.Latency.n) } //nolint:gosec // counted one by one

// AnswerTimeout bounds the wait for one answer. A server that takes longer is considered broken.
const AnswerTimeout = 30 * time.Second

// Run runs loads concurrently until the first one ends or any fails, and returns one result per load. A connection that
// breaks, a missing answer and the end of ctx are errors; an unwanted answer is not, see Result.Only.
func Run(ctx context.Context, loads ...Load) ([]*Result, error) {
	var (
		wg      sync.WaitGroup
		results = make([]*Result, len(loads))
		errs    = make([]error, len(loads))
		stop    atomic.Bool
	)

	for i, l := range loads {
		wg.Go(func() {
			if results[i], errs[i] = l.run(ctx, &stop); errs[i] != nil {
				errs[i] = fmt.Errorf("%s, %d connections: %w", l.Name, l.Conns, errs[i])
			}
			if i == 0 || errs[i] != nil {
				stop.Store(true)
			}
		})
	}

	wg.Wait()
	return results, firstOf(errs)
}

// run opens all connections first and then sends on all of them, until stop is set at the latest.
func (l Load) run(ctx context.Context, stop *atomic.Bool) (*Result, error) {
	conns := make([]*Conn, 0, l.Conns)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()

	for i := range l.Conns {
		c, err := Dial(ctx, l.Addrs[i%len(l.Addrs)])
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", i+1, err)
		}
		conns = append(conns, c)
	}

	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		users = make([]client, len(conns))
		start = time.Now()
	)

	interrupt := context.AfterFunc(ctx, func() { stop.Store(true) })
	defer interrupt()

	for i, c := range conns {
		u := &users[i]
		u.answers = map[string]*int64{}

		wg.Go(func() {
			if u.err = c.SetDeadline(start.Add(l.Limit + AnswerTimeout)); u.err == nil {
				u.err = u.send(&l, c, &next, stop, start)
			}
			if u.err != nil {
				stop.Store(true)
			}
		})
	}

	wg.Wait()
	r := &Result{Answers: map[string]int64{}, Elapsed: time.Since(start)}
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
	latency Histogram
	err     error
}

func (u *client) send(l *Load, c *Conn, next *atomic.Int64, stop *atomic.Bool, start time.Time) error {
	n := int64(len(l.Requests))
	sent := time.Now()
	for round := time.Duration(0); sent.Sub(start) < l.Limit && !stop.Load(); round++ {
		i := next.Add(1) - 1
		if i >= n && !l.Endless {
			return nil
		}

		if l.Pace > 0 {
			time.Sleep(time.Until(start.Add(round * l.Pace)))
			sent = time.Now()
		}

		a, err := c.Do(l.Requests[i%n])
		if err != nil {
			return err
		}

		now := time.Now()
		u.latency.Add(now.Sub(sent))
		sent = now
		u.count(a)
	}

	return nil
}

// count counts an answer. It allocates only for the first answer of a kind.
func (u *client) count(a Answer) {
	key := a.Code
	if key == nil {
		key = strconv.AppendInt(make([]byte, 0, 3), int64(a.Status), 10)
	}

	if n, ok := u.answers[string(key)]; ok {
		*n++
		return
	}

	n := int64(1)
	u.answers[string(key)] = &n
}

func (u *client) addTo(r *Result) {
	r.Latency.merge(&u.latency)
	for key, n := range u.answers {
		r.Answers[key] += *n
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

// Only returns ErrWrongAnswers if there is no answer or an answer that is not allowed.
func (r *Result) Only(allowed ...string) error {
	if n := r.Count(allowed...); n == r.Total() && n > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d answers, not all %s: %v", ErrWrongAnswers, r.Total(), strings.Join(allowed, " or "), r.Answers)
}

// Count returns the number of answers of the given kinds.
func (r *Result) Count(kinds ...string) int64 {
	var n int64
	for _, kind := range kinds {
		n += r.Answers[kind]
	}
	return n
}

// ErrWrongAnswers is returned if the answers of a server are not the expected ones.
var ErrWrongAnswers = errors.New("unexpected answers")
