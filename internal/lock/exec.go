package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxBatch is the most commands that share a round trip.
	maxBatch = 256

	// maxQueued is the most commands that are queued.
	maxQueued = 1 << 14

	// maxInFlight is the most batches in flight: more than one, so that a connection that hangs does not stop the rest,
	// and few, so that batches fill under load.
	maxInFlight = 3

	// batchDelay is how long a deferrable call may be delayed to share a round trip. A contended cycle of a mutex costs a
	// tenth less CPU time with it, and a quarter less if all waiters are of one client.
	batchDelay = 2 * time.Millisecond
)

var errBusy = errors.New("too many commands are waiting for Redis")

// An executor sends scripts to one Redis. Scripts of concurrent callers share round trips: the calls submitted while
// batches are in flight form the next batch. Only deferrable calls are delayed to fill a batch.
//
// Commands are sent once, regardless of the retries configured in the client, because only some scripts may be
// repeated.
//
// It replaces go-redis's AutoPipeline, which is experimental and retries. A batch.Batcher does not tell its caller whether a
// call that was given up has been sent, which decides whether it must be undone, and lets calls wait for a batch in flight,
// whose connection may hang.
type executor struct {
	// given is the caller's client, of which rdb may be a copy.
	given       redis.UniversalClient
	rdb         redis.UniversalClient
	timeout     time.Duration
	batch       int // the most commands in a round trip
	maxInFlight int

	mu       sync.Mutex
	queue    []*call
	inFlight int
	closed   bool
	senders  sync.WaitGroup
	// delayed runs while only deferrable calls are queued.
	delayed *time.Timer

	// slow means that the last batch had no answer, or took longer than a slowPart of the timeout, or one in flight does.
	slow atomic.Bool
	// probing means that a PING of isSlow is under way.
	probing atomic.Bool
}

func newExecutor(rdb redis.UniversalClient, timeout time.Duration) *executor {
	e := &executor{
		given:       rdb,
		rdb:         bounded(rdb, timeout),
		timeout:     timeout,
		batch:       1,
		maxInFlight: maxQueued,
	}
	e.delayed = time.AfterFunc(time.Hour, e.sendDelayed)
	e.delayed.Stop()

	// A pipeline over several nodes would be as slow as the slowest of them, and so would a queue for a few round trips: each
	// node has a pool of connections instead.
	if _, ok := rdb.(*redis.Client); ok {
		e.batch = maxBatch
		e.maxInFlight = maxInFlight
	}
	return e
}

// A call is one command from its submission to its reply.
type call struct {
	// Either a script or the words of a plain command.
	script *script
	keys   []string
	args   []any
	plain  []any

	// deferrable means that the call may be delayed by batchDelay to share a round trip.
	deferrable bool
	// onReply, if it is not nil, is called before done is closed. It must not block.
	onReply func(value any, err error)

	queuedAt time.Time
	// state is guarded by the executor's mu.
	state callState
	// done is closed when value and err are set.
	done  chan struct{}
	value any
	err   error
}

// callState is how far a call got.
type callState int

const (
	callQueued callState = iota
	callSent
	callDropped // it will not be sent
)

func (c *call) finish(value any, err error) {
	c.value = value
	c.err = err
	if c.onReply != nil {
		c.onReply(value, err)
	}
	close(c.done)
}

func (c *call) words(byHash bool) []any {
	if c.script == nil {
		return c.plain
	}

	words := make([]any, 0, 3+len(c.keys)+len(c.args))
	if byHash {
		words = append(words, "evalsha", c.script.sha)
	} else {
		words = append(words, "eval", c.script.source)
	}

	words = append(words, len(c.keys))
	for _, key := range c.keys {
		words = append(words, key)
	}
	return append(words, c.args...)
}

func (e *executor) submit(c *call) *call {
	if e.enqueue(c) {
		go e.sendQueued()
	}
	return c
}

// enqueue queues a call. If it returns true, the caller has to run a sender.
func (e *executor) enqueue(c *call) bool {
	c.queuedAt = time.Now()
	c.done = make(chan struct{})

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		c.finish(nil, ErrClosed)
		return false
	}
	if len(e.queue) >= maxQueued {
		c.finish(nil, errBusy)
		return false
	}

	e.queue = append(e.queue, c)
	if !c.deferrable || e.batch == 1 {
		return e.addSender()
	}
	if len(e.queue) == 1 {
		e.delayed.Reset(batchDelay)
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
		return e.dropUnsent(c, waitEnded(ctx)) || c.answered(ctx)
	}
}

// answered waits as executor.wait does, but does not cancel a command that was not sent yet.
func (c *call) answered(ctx context.Context) bool { return waitWithGrace(ctx, c.done) }

func (e *executor) run(ctx context.Context, s *script, keys []string, args []any) (any, error) {
	c := &call{
		script: s,
		keys:   keys,
		args:   args,
	}
	if !e.wait(ctx, e.submit(c)) {
		return nil, waitEnded(ctx)
	}
	return c.value, c.err
}

// slowPart is the part of its timeout from which a batch is slow: more than a busy node takes, and little for a buyer.
const slowPart = 10

// isSlow reports whether the last batch was slow or had no answer. Then it sends a PING, whose reply shows when the node is
// quick again.
func (e *executor) isSlow() bool {
	if !e.slow.Load() {
		return false
	}

	if e.probing.CompareAndSwap(false, true) {
		e.submit(&call{
			plain:   []any{"ping"},
			onReply: func(any, error) { e.probing.Store(false) },
		})
	}
	return true
}

func (e *executor) dropUnsent(c *call, why error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.state != callQueued {
		return false
	}

	if !isClosed(c.done) { // otherwise enqueue has refused it
		c.state = callDropped
		c.finish(nil, fmt.Errorf("%w: %w", errNotSent, why))
	}
	return true
}

func (e *executor) sendQueued() {
	for batch := e.nextBatch(); len(batch) > 0; batch = e.nextBatch() {
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

// noRetry is a command that go-redis never repeats, regardless of the client's MaxRetries: a repeated SET NX would be
// refused because of the first.
type noRetry struct{ *redis.Cmd }

// NoRetry implements the interface that go-redis checks before a retry.
func (noRetry) NoRetry() bool { return true }

// roundTrip sends a batch and finishes its calls, except those that name a script by a hash unknown to the server,
// which it returns.
func (e *executor) roundTrip(ctx context.Context, batch []*call, byHash bool) []*call {
	late := time.AfterFunc(e.timeout/slowPart, func() { e.slow.Store(true) })
	groups := group(batch)
	cmds := make([]noRetry, len(groups))
	for i, calls := range groups {
		cmds[i] = noRetry{redis.NewCmd(ctx, command(calls, byHash)...)}
	}

	// The commands have the errors that these methods return.
	if len(cmds) == 1 {
		_ = e.rdb.Process(ctx, cmds[0])
	} else {
		pipe := e.rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx)
	}

	// A node that is dead is not a quick one, on which the others could rely.
	if late.Stop() {
		e.slow.Store(notAnswered(cmds[len(cmds)-1].Err()))
	}

	var missing []*call
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

func notAnswered(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply)
}

// group groups the calls that one command can execute: those of one script that has a joint form. The order of the
// others is kept.
func group(batch []*call) [][]*call {
	groups := make([][]*call, 0, len(batch))
	of := map[*script]int{}
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

func command(calls []*call, byHash bool) []any {
	first := calls[0]
	if len(calls) == 1 {
		return first.words(byHash)
	}

	joint := call{script: first.script.joint, args: []any{len(first.args)}}
	for _, c := range calls {
		joint.keys = append(joint.keys, c.keys[0])
		joint.args = append(joint.args, c.args...)
	}
	return joint.words(byHash)
}

func finish(calls []*call, value any, err error) {
	if len(calls) == 1 {
		calls[0].finish(value, err)
		return
	}

	replies, _ := value.([]any)
	for i, c := range calls {
		if err != nil {
			c.finish(nil, err)
			continue
		}
		if i >= len(replies) {
			c.finish(nil, fmt.Errorf("lock: unexpected reply %v", value))
			continue
		}

		if text, failed := replies[i].(string); failed {
			c.finish(nil, scriptError(text))
		} else {
			c.finish(replies[i], nil)
		}
	}
}

// scriptError is the error of one call of a joint script, as Redis would have returned it for that call alone.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as a Redis reply (redis.Error).
func (scriptError) RedisError() {}

func (e *executor) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()

	// Deferrable calls are sent as well.
	e.sendDelayed()
	e.senders.Wait()
}
