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
	// commandTimeout bounds the time that a command is queued, and then its round trip.
	commandTimeout = time.Second

	// maxBatch is the most commands that share a round trip, maxQueued the most that are queued.
	maxBatch, maxQueued = 256, 1 << 14

	// maxInFlight is the most batches in flight: more than one, so that a connection that hangs does not stop the rest,
	// and few, so that batches fill under load.
	maxInFlight = 3

	// batchDelay is how long a deferrable call may be delayed to share a round trip.
	batchDelay = 2 * time.Millisecond

	// maxInFlightSolo replaces maxInFlight where each command has a round trip of its own.
	maxInFlightSolo = 128
)

var errBusy = errors.New("too many commands are waiting for Redis")

// An executor sends scripts to one Redis. Scripts of concurrent callers share round trips: the calls submitted while
// batches are in flight form the next batch. Only deferrable calls are delayed to fill a batch.
//
// Commands are sent once, regardless of the retries configured in the client, because only some scripts may be
// repeated.
//
// It replaces go-redis's AutoPipeline, which is experimental and retries.
type executor struct {
	rdb         redis.UniversalClient
	timeout     time.Duration // commandTimeout, except in tests
	batch       int           // the most commands in a round trip
	maxInFlight int

	mu       sync.Mutex
	queue    []*call
	inFlight int
	closed   bool
	senders  sync.WaitGroup
	delayed  *time.Timer // runs while only deferrable calls are queued
}

func newExecutor(rdb redis.UniversalClient) *executor {
	e := &executor{rdb: bounded(rdb, commandTimeout), timeout: commandTimeout, batch: 1, maxInFlight: maxInFlightSolo}
	e.delayed = time.AfterFunc(time.Hour, e.sendDelayed)
	e.delayed.Stop()
	// A pipeline over several nodes would be as slow as the slowest of them.
	if _, ok := rdb.(*redis.Client); ok {
		e.batch, e.maxInFlight = maxBatch, maxInFlight
	}
	return e
}

// A call is one command from its submission to its reply.
type call struct {
	script   *script // nil for a plain command
	keys     []string
	args     []any
	plain    []any // a command that is not a script
	queuedAt time.Time

	deferrable bool // it may be delayed by batchDelay to share a round trip

	onReply func(value any, err error) // called before done is closed; may be nil, and must not block
	done    chan struct{}              // closed when value and err are set
	value   any
	err     error

	state callState // guarded by the executor's mu
}

// callState is how far a call got.
type callState int

const (
	callQueued callState = iota
	callSent
	callDropped // it will not be sent
)

// finish sets the outcome.
func (c *call) finish(value any, err error) {
	c.value, c.err = value, err
	if c.onReply != nil {
		c.onReply(value, err)
	}
	close(c.done)
}

// command returns the arguments of the Redis command: the script's hash, or its whole source.
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

// send submits a script call.
func (e *executor) send(s *script, keys []string, args []any) *call {
	return e.submit(&call{script: s, keys: keys, args: args})
}

// submit queues a call and returns it at once.
func (e *executor) submit(c *call) *call {
	if e.enqueue(c) {
		go e.sendQueued()
	}
	return c
}

// submitAndWait submits c and waits as wait does. A caller whose ctx has no end sends the batch itself, which is faster
// than leaving it to another goroutine.
func (e *executor) submitAndWait(ctx context.Context, c *call) bool {
	if ctx.Done() != nil {
		return e.wait(ctx, e.submit(c))
	}
	if e.enqueue(c) {
		batch := e.nextBatch()
		if len(batch) > 0 { // otherwise another sender has taken the call
			e.sendBatch(batch)
			batch = e.nextBatch()
		}
		if len(batch) > 0 {
			go e.sendFrom(batch)
		} else {
			e.senders.Done()
		}
	}
	<-c.done
	return true
}

// enqueue queues a call. If it returns true, the caller has to run a sender.
func (e *executor) enqueue(c *call) bool {
	c.queuedAt, c.done = time.Now(), make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		c.finish(nil, ErrClosed)
	case len(e.queue) >= maxQueued:
		c.finish(nil, errBusy)
	default:
		e.queue = append(e.queue, c)
		if c.deferrable && e.batch > 1 {
			if len(e.queue) == 1 {
				e.delayed.Reset(batchDelay)
			}
			return false
		}
		return e.addSender()
	}
	return false
}

// addSender reports whether another sender may start, and counts it. The caller holds mu.
func (e *executor) addSender() bool {
	if e.inFlight == e.maxInFlight {
		return false
	}
	e.inFlight++
	e.senders.Add(1)
	return true
}

// sendDelayed is the function of the delayed timer.
func (e *executor) sendDelayed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) > 0 && e.addSender() {
		go e.sendQueued()
	}
}

// wait waits for c until ctx ends, and up to cancelGrace longer because the true outcome is worth it. It returns false
// if the command is still in flight then. A command that was not sent yet is cancelled, which is an outcome.
func (e *executor) wait(ctx context.Context, c *call) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return e.dropUnsent(c) || c.wait(ctx)
	}
}

// wait is executor.wait without cancelling an unsent command.
func (c *call) wait(ctx context.Context) bool { return waitWithGrace(ctx, c.done) }

// run submits a script call and waits, for callers that need not distinguish how far an unanswered command got.
func (e *executor) run(ctx context.Context, s *script, keys []string, args []any) (any, error) {
	c := &call{script: s, keys: keys, args: args}
	if !e.submitAndWait(ctx, c) {
		return nil, waitEnded(ctx)
	}
	return c.value, c.err
}

// dropUnsent cancels a call that was not sent yet. It returns false if the call was sent or dropped before.
func (e *executor) dropUnsent(c *call) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.state != callQueued {
		return false
	}
	select {
	case <-c.done: // refused by enqueue
	default:
		c.state = callDropped
		c.finish(nil, fmt.Errorf("%w: its caller gave up", errNotSent))
	}
	return true
}

// sendQueued sends batches until the queue is empty.
func (e *executor) sendQueued() { e.sendFrom(e.nextBatch()) }

func (e *executor) sendFrom(batch []*call) {
	for ; len(batch) > 0; batch = e.nextBatch() {
		e.sendBatch(batch)
	}
	e.senders.Done()
}

// sendBatch sends a batch and finishes its calls.
//
//nolint:contextcheck // the calls belong to many callers and outlast them
func (e *executor) sendBatch(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	if missing := e.roundTrip(ctx, batch, true); len(missing) > 0 {
		// The server refused these, so sending them again is their first execution.
		e.roundTrip(ctx, missing, false)
	}
}

// nextBatch takes a batch from the queue. If it is empty, the sender ends.
func (e *executor) nextBatch() []*call {
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
		case c.state == callDropped:
		case time.Since(c.queuedAt) > e.timeout:
			c.state = callDropped
			c.finish(nil, fmt.Errorf("%w in %v: %w", errNotSent, e.timeout, context.DeadlineExceeded))
		default:
			c.state = callSent
			batch = append(batch, c)
		}
	}
	rest := copy(e.queue, e.queue[taken:])
	clear(e.queue[rest:])
	e.queue = e.queue[:rest]
	if len(e.queue) == 0 {
		e.delayed.Stop()
	}
	if len(batch) == 0 {
		e.inFlight--
	}
	return batch
}

// roundTrip sends a batch and finishes its calls, except those that name a script by a hash unknown to the server,
// which it returns.
func (e *executor) roundTrip(ctx context.Context, batch []*call, byHash bool) (missing []*call) {
	groups := group(batch)
	cmds := make([]noRetry, len(groups))
	for i, calls := range groups {
		cmds[i] = noRetry{redis.NewCmd(ctx, command(calls, byHash)...)}
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
	for i, calls := range groups {
		value, err := cmds[i].Result()
		if byHash && noScript(err) {
			missing = append(missing, calls...)
			continue
		}
		finish(calls, value, err)
	}
	return missing
}

// group groups the calls that one command can execute: those of one script that has a joint form. The order of the
// others is kept.
func group(batch []*call) [][]*call {
	groups, of := make([][]*call, 0, len(batch)), map[*script]int{}
	for _, c := range batch {
		if c.script == nil || c.script.joint == nil {
			groups = append(groups, []*call{c})
			continue
		}
		i, begun := of[c.script]
		if !begun {
			i = len(groups)
			of[c.script] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// command returns the arguments of the Redis command for calls that travel together.
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

// scriptError is the error of one call of a joint script, as Redis would have returned it for that call alone.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as a Redis reply (redis.Error).
func (scriptError) RedisError() {}

// close refuses further commands and waits for those in flight.
func (e *executor) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.sendDelayed() // including deferrable calls
	e.senders.Wait()
}
