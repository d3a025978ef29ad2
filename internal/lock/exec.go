package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// commandTimeout bounds the wait of a command for its turn, and then its
	// round trip.
	commandTimeout = time.Second

	// maxBatch commands share a round trip at most, and maxQueued wait for one.
	maxBatch, maxQueued = 256, 1 << 14

	// flights is how many batches may be under way: more than one, so that a
	// connection that hangs does not stop the rest, and few, so that batches
	// fill under load.
	flights = 3

	// lag is how long a call that can wait does so for others to go with.
	lag = 2 * time.Millisecond

	// soloFlights is the same where each command travels alone.
	soloFlights = 128
)

var errBusy = errors.New("too many commands are waiting for Redis")

// An executor sends scripts to one Redis. Those of concurrent callers share
// round trips: whatever was asked for while batches are under way is the next
// batch. Nobody waits for a batch to fill, but those who say that they can.
//
// Commands are sent once, whatever retries the client is configured with: only
// the scripts know whether they may be repeated.
//
// go-redis has an AutoPipeline for this; it is experimental, and retries.
type executor struct {
	rdb     redis.UniversalClient
	timeout time.Duration // commandTimeout, but in tests
	batch   int           // commands in a round trip
	flights int

	mu     sync.Mutex
	queue  []*call
	flying int
	closed bool
	landed sync.WaitGroup
	late   *time.Timer // runs while only patient calls are queued
}

func newExecutor(rdb redis.UniversalClient) *executor {
	e := &executor{rdb: bounded(rdb, commandTimeout), timeout: commandTimeout, batch: 1, flights: soloFlights}
	e.late = time.AfterFunc(time.Hour, e.depart)
	e.late.Stop()
	// A pipeline over several nodes would be as slow as the slowest of them.
	if _, ok := rdb.(*redis.Client); ok {
		e.batch, e.flights = maxBatch, flights
	}
	return e
}

// A call is one command on its way.
type call struct {
	script *script // nil: the command is plain
	keys   []string
	args   []any
	plain  []any // a command that is no script
	asked  time.Time

	patient bool // it may wait a little to go with others

	heed  func(value any, err error) // told the outcome before done; may be nil, and must not block
	done  chan struct{}              // closed when value and err are set
	value any
	err   error

	sent    bool // guarded by the executor's mu
	dropped bool
}

// finish sets the outcome.
func (c *call) finish(value any, err error) {
	c.value, c.err = value, err
	if c.heed != nil {
		c.heed(value, err)
	}
	close(c.done)
}

// command is what goes over the wire: the script's hash, or all of it.
func (c *call) command(byHash bool) []any {
	if c.script == nil {
		return c.plain
	}
	command := make([]any, 0, 3+len(c.keys)+len(c.args))
	if byHash {
		command = append(command, "evalsha", c.script.sha)
	} else {
		command = append(command, "eval", c.script.source)
	}
	command = append(command, len(c.keys))
	for _, key := range c.keys {
		command = append(command, key)
	}
	return append(command, c.args...)
}

// send queues a command.
func (e *executor) send(s *script, keys []string, args []any) *call {
	return e.post(&call{script: s, keys: keys, args: args})
}

// post is send for a call that is made already.
func (e *executor) post(c *call) *call {
	if e.line(c) {
		go e.fly()
	}
	return c
}

// deliver is post and wait. Who waits in any case takes the flight itself: that
// is sooner than to have another goroutine do it.
func (e *executor) deliver(ctx context.Context, c *call) bool {
	if ctx.Done() != nil {
		return e.wait(ctx, e.post(c))
	}
	if e.line(c) {
		batch := e.next()
		if len(batch) > 0 { // else another flight has taken the call
			e.ship(batch)
			batch = e.next()
		}
		if len(batch) > 0 {
			go e.carry(batch)
		} else {
			e.landed.Done()
		}
	}
	<-c.done
	return true
}

// line queues a call. If it returns true, the caller has to see to a flight.
func (e *executor) line(c *call) bool {
	c.asked, c.done = time.Now(), make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		c.finish(nil, ErrClosed)
	case len(e.queue) >= maxQueued:
		c.finish(nil, errBusy)
	default:
		e.queue = append(e.queue, c)
		if c.patient && e.batch > 1 {
			if len(e.queue) == 1 {
				e.late.Reset(lag)
			}
			return false
		}
		return e.claimFlight()
	}
	return false
}

// claimFlight says whether there is to be one more. The caller holds mu.
func (e *executor) claimFlight() bool {
	if e.flying == e.flights {
		return false
	}
	e.flying++
	e.landed.Add(1)
	return true
}

// depart is the late timer's function.
func (e *executor) depart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) > 0 && e.claimFlight() {
		go e.fly()
	}
}

// wait waits for c until ctx ends, and a little longer, since the true outcome
// is worth it. It returns false if the command is still under way then. A
// command that was not sent yet is taken back, which is an outcome.
func (e *executor) wait(ctx context.Context, c *call) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return e.drop(c) || c.wait(ctx)
	}
}

// wait is the executor's, but that it takes nothing back.
func (c *call) wait(ctx context.Context) bool { return inGrace(ctx, c.done) }

// run is send and wait, for callers that can do without knowing more than that
// a command may have been executed.
func (e *executor) run(ctx context.Context, s *script, keys []string, args []any) (any, error) {
	c := &call{script: s, keys: keys, args: args}
	if !e.deliver(ctx, c) {
		return nil, waitEnded(ctx)
	}
	return c.value, c.err
}

// drop takes a call back that was not sent.
func (e *executor) drop(c *call) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.sent || c.dropped {
		return false
	}
	select {
	case <-c.done: // refused
	default:
		c.dropped = true
		c.finish(nil, fmt.Errorf("%w: its caller left", errNotSent))
	}
	return true
}

// fly sends batches as long as there are any.
func (e *executor) fly() { e.carry(e.next()) }

func (e *executor) carry(batch []*call) {
	for ; len(batch) > 0; batch = e.next() {
		e.ship(batch)
	}
	e.landed.Done()
}

// ship sends a batch and finishes its calls.
//
//nolint:contextcheck // they are of many callers, and go on when these leave
func (e *executor) ship(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	if missing := e.trip(ctx, batch, true); len(missing) > 0 {
		// These were refused, so that sending them again is their first execution.
		e.trip(ctx, missing, false)
	}
}

// next takes a batch from the queue. An empty one ends the flight.
func (e *executor) next() []*call {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch := make([]*call, 0, min(len(e.queue), e.batch))
	taken := 0
	for _, c := range e.queue {
		if len(batch) == e.batch {
			break
		}
		taken++
		switch {
		case c.dropped:
		case time.Since(c.asked) > e.timeout:
			c.dropped = true
			c.finish(nil, fmt.Errorf("%w in %v: %w", errNotSent, e.timeout, context.DeadlineExceeded))
		default:
			c.sent = true
			batch = append(batch, c)
		}
	}
	rest := copy(e.queue, e.queue[taken:])
	clear(e.queue[rest:])
	e.queue = e.queue[:rest]
	if len(e.queue) == 0 {
		e.late.Stop()
	}
	if len(batch) == 0 {
		e.flying--
	}
	return batch
}

// trip is ship, but for the calls that name a script by a hash which the server
// does not know: it returns them.
func (e *executor) trip(ctx context.Context, batch []*call, byHash bool) (missing []*call) {
	joints := join(batch)
	cmds := make([]once, len(joints))
	for i, calls := range joints {
		cmds[i] = once{redis.NewCmd(ctx, command(calls, byHash)...)}
	}
	if len(cmds) == 1 {
		_ = e.rdb.Process(ctx, cmds[0]) // the same error as in the command
	} else {
		pipe := e.rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // only queues
		}
		_, _ = pipe.Exec(ctx) // the first of the commands' errors
	}
	for i, calls := range joints {
		value, err := cmds[i].Result()
		if byHash && noScript(err) {
			missing = append(missing, calls...)
			continue
		}
		finish(calls, value, err)
	}
	return missing
}

// join groups the calls that one command can execute: those of one script that
// has a joint form. The order of the others stays.
func join(batch []*call) [][]*call {
	joints, of := make([][]*call, 0, len(batch)), map[*script]int{}
	for _, c := range batch {
		if c.script == nil || c.script.joint == nil {
			joints = append(joints, []*call{c})
			continue
		}
		i, begun := of[c.script]
		if !begun {
			i = len(joints)
			of[c.script] = i
			joints = append(joints, nil)
		}
		joints[i] = append(joints[i], c)
	}
	return joints
}

// command is what goes over the wire for calls that travel together.
func command(calls []*call, byHash bool) []any {
	first := calls[0]
	if len(calls) == 1 {
		return first.command(byHash)
	}
	joint := call{script: first.script.joint, args: []any{len(first.args)}}
	for _, c := range calls {
		joint.keys, joint.args = append(joint.keys, c.keys[0]), append(joint.args, c.args...)
	}
	return joint.command(byHash)
}

// finish gives each call its part of the reply.
func finish(calls []*call, value any, err error) {
	if len(calls) == 1 {
		calls[0].finish(value, err)
		return
	}
	replies, _ := value.([]any)
	for i, c := range calls {
		switch {
		case err != nil:
			c.finish(nil, err)
		case i >= len(replies):
			c.finish(nil, fmt.Errorf("lock: unexpected reply %v", value))
		default:
			text, failed := replies[i].(string)
			if failed {
				c.finish(nil, scriptError(text))
			} else {
				c.finish(replies[i], nil)
			}
		}
	}
}

// scriptError is the error of one call of a joint script, as Redis would have
// replied it to the call alone.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as a reply (redis.Error).
func (scriptError) RedisError() {}

// close refuses further commands and waits for those under way.
func (e *executor) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.depart() // with the patient
	e.landed.Wait()
}
