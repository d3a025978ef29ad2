// Package batch groups concurrent calls into batches: while one batch runs, the next one forms.
//
// A call that arrives alone runs at once, unless a batch of several items has just ended: the next one then waits up to
// 0.8 ms for more calls. A [Batcher] keeps the batches of different keys apart as long as enough batches may run at the
// same time. No existing package was found that is keyed, bounded, and runs a second batch beside the first;
// golang.org/x/sync/singleflight shares one result among equal calls only.
//
// A key whose batches hang, because a transaction holds the row of its sale or the Redis of its gate does not answer,
// delays no other key for long: from slowRun on it has batches and places of its own, until one of them is quick.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// The reasons why a call has no result of its own.
var (
	// ErrFull means that too many calls wait for the same key. The item was not run.
	ErrFull = errors.New("batch: too many calls are waiting")
	// ErrTimeout means that the call ended before its batch did. The item may still be run.
	ErrTimeout = errors.New("batch: no result in time")
)

const (
	// maxBatch is the largest number of items in a batch. Beyond some hundreds of rows a transaction is not faster per
	// row, and its first caller waits for the last row.
	maxBatch = 500
	// maxWaiting is the largest number of calls that wait for one key; further calls fail with ErrFull.
	maxWaiting = 20_000
	// maxRunning is the largest number of batches that run at the same time, apart from slow ones. With 1,000 vouchers on
	// sale, half as many as eight form batches twice as large, and an order costs a sixth less CPU time. It also leaves
	// connections to the database and to Redis for everything else.
	maxRunning = 4
	// secondBatchThreshold is how many calls must wait for a key before a second batch runs beside the first. It
	// prepares a transaction while the previous one is written to disk, which raises throughput by a sixth. Below the
	// threshold the batches would only become smaller.
	secondBatchThreshold = 64
	// After a batch of gatherFrom items or more, the next batch waits up to gatherFor for nine tenths as many new
	// calls: the callers that were just answered usually call again at once. Without the wait the first of them is
	// committed alone, which costs a sixth more CPU time per item at 64 connections. A call that arrives alone waits
	// only then: it cannot be distinguished from the first of many.
	gatherFrom = 8
	gatherFor  = 800 * time.Microsecond
	// runTimeout bounds one run of a batch.
	runTimeout = 2 * time.Second
	// slowRun is the time after which a batch gives its place to another one, and its keys count as slow. On a database
	// whose every statement is slow, the batches take less, so that keys can still share them.
	slowRun = time.Second
)

// StartTimeout bounds the time until the batch of a call starts. With the time of the run it is below the 4 s that a
// request may take.
const StartTimeout = 1800 * time.Millisecond

// Config configures a Batcher.
type Config[T, R any] struct {
	// Run processes a batch and returns one result per item, in the same order. All items of a batch belong to at most
	// MaxKeys keys. Batches run concurrently. The context ends after 2 s.
	Run func(ctx context.Context, items []T) []R
	// Fail makes the result of an item that was not processed. The error is ErrFull, ErrTimeout, or describes a Run
	// that panicked or returned too few results.
	Fail func(error) R
	// MaxKeys is how many keys may share a batch once as many batches run as may run at the same time. 0 means 1.
	MaxKeys int
}

// Batcher groups concurrent calls into batches. A key uses memory only while calls wait for it, and while it is slow. A
// Batcher is safe for concurrent use.
type Batcher[T, R any] struct {
	cfg Config[T, R]
	// For the batches of quick keys, and for those of slow ones.
	quick places
	slow  places
	// The calls of *call, to reuse their channels and timers.
	calls  sync.Pool
	mu     sync.Mutex
	queues map[int64]*queue[T, R]
}

// places is a semaphore: one element per running batch that is not slow yet.
type places chan struct{}

// queue holds the calls that wait for one key. It exists while it has calls or is slow.
type queue[T, R any] struct {
	key     int64
	waiting []*call[T, R]
	// Goroutines that serve the queue, at most two.
	serving int
	// Batches with items of this key.
	running int
	// The newest batch takes or took longer than slowRun.
	slow bool
	// Closed when want calls wait; nil while no goroutine gathers.
	full chan struct{}
	// Calls, including those that waited when the gathering began.
	want int
}

type call[T, R any] struct {
	item   T
	since  time.Time
	result R
	done   chan struct{}
	// Used by Do.
	timer *time.Timer
}

// New returns a Batcher. It starts no goroutine until the first call.
func New[T, R any](cfg Config[T, R]) *Batcher[T, R] {
	cfg.MaxKeys = max(cfg.MaxKeys, 1)
	return &Batcher[T, R]{
		cfg:    cfg,
		quick:  make(places, maxRunning),
		slow:   make(places, maxRunning),
		queues: map[int64]*queue[T, R]{},
	}
}

// Do runs item in a batch and returns its result. At the deadline it returns ErrTimeout; the item may still run,
// because a running batch cannot be interrupted. A timer is cheaper than a context for callers in a hot path.
func (b *Batcher[T, R]) Do(key int64, item T, deadline time.Time) R {
	c := b.enqueue(key, item)
	if c == nil {
		return b.cfg.Fail(ErrFull)
	}

	if c.timer == nil {
		c.timer = time.NewTimer(time.Until(deadline))
	} else {
		c.timer.Reset(time.Until(deadline))
	}

	select {
	case <-c.done:
		c.timer.Stop()
		return b.release(c)
	case <-c.timer.C:
		select {
		case <-c.done:
			// Both were ready.
			return b.release(c)
		default:
			return b.cfg.Fail(ErrTimeout)
		}
	}
}

// DoContext is Do with a context instead of a deadline.
func (b *Batcher[T, R]) DoContext(ctx context.Context, key int64, item T) R {
	c := b.enqueue(key, item)
	if c == nil {
		return b.cfg.Fail(ErrFull)
	}

	select {
	case <-c.done:
		return b.release(c)
	case <-ctx.Done():
		return b.cfg.Fail(ErrTimeout)
	}
}

// enqueue adds a call to the queue of its key and starts a goroutine for the queue if necessary. It returns nil if the
// queue is full.
func (b *Batcher[T, R]) enqueue(key int64, item T) *call[T, R] {
	c, ok := b.calls.Get().(*call[T, R])
	if !ok {
		c = &call[T, R]{done: make(chan struct{}, 1)}
	}

	c.item = item
	c.since = time.Now()

	b.mu.Lock()
	defer b.mu.Unlock()

	q := b.queues[key]
	if q == nil {
		q = &queue[T, R]{key: key}
		b.queues[key] = q
	}

	if q.serving == 0 || q.serving < 2 && len(q.waiting) >= secondBatchThreshold {
		q.serving++
		go b.serve(q)
	}

	if len(q.waiting) >= maxWaiting {
		return nil
	}

	q.waiting = append(q.waiting, c)
	if q.full != nil && len(q.waiting) >= q.want {
		close(q.full)
		q.full = nil
	}

	return c
}

func (b *Batcher[T, R]) release(c *call[T, R]) R {
	result := c.result
	*c = call[T, R]{done: c.done, timer: c.timer}
	b.calls.Put(c)
	return result
}

func (b *Batcher[T, R]) serve(q *queue[T, R]) {
	last := 0
	for {
		if last >= gatherFrom {
			b.gather(q, last)
		}

		place := b.placesOf(q)
		place <- struct{}{}
		batch, queues := b.take(q, place)
		last = len(batch)

		if len(queues) == 0 {
			<-place
			return
		}

		overrun := time.AfterFunc(slowRun, func() {
			b.setSlow(queues, true)
			<-place
		})
		if len(batch) > 0 {
			b.run(batch)
		}
		if overrun.Stop() {
			b.setSlow(queues, false)
			<-place
		}

		b.mu.Lock()
		for _, q := range queues {
			q.running--
			b.removeIdle(q)
		}
		b.mu.Unlock()
	}
}

// removeIdle forgets a queue without calls, unless its key is slow. The caller holds mu.
func (b *Batcher[T, R]) removeIdle(q *queue[T, R]) {
	if q.serving == 0 && q.running == 0 && !q.slow {
		delete(b.queues, q.key)
	}
}

func (b *Batcher[T, R]) placesOf(q *queue[T, R]) places {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.slow {
		return b.slow
	}
	return b.quick
}

func (b *Batcher[T, R]) setSlow(queues []*queue[T, R], slow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range queues {
		q.slow = slow
	}
}

// gather waits up to gatherFor for nine tenths as many new calls as the last batch had, or until a batch is full.
func (b *Batcher[T, R]) gather(q *queue[T, R], last int) {
	b.mu.Lock()
	if q.full != nil || len(q.waiting) >= maxBatch {
		b.mu.Unlock()
		return
	}

	full := make(chan struct{})
	q.full = full
	q.want = min(len(q.waiting)+last*9/10, maxBatch)
	b.mu.Unlock()

	timer := time.NewTimer(gatherFor)
	defer timer.Stop()

	select {
	case <-full:
	case <-timer.C:
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	if q.full == full {
		q.full = nil
	}
}

// take removes the next batch from the queue and returns it with the queues that it came from: those of other quick keys
// only if all places are in use. It returns no queue if none of the calls is left; the caller then stops serving q.
func (b *Batcher[T, R]) take(q *queue[T, R], place places) ([]*call[T, R], []*queue[T, R]) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if len(q.waiting) == 0 {
		q.serving--
		b.removeIdle(q)
		return nil, nil
	}

	batch := b.dequeue(q, nil)
	queues := []*queue[T, R]{q}
	q.running++
	if q.slow || len(place) < cap(place) {
		// The other queues can still run batches of their own.
		return batch, queues
	}

	for _, other := range b.queues {
		if len(queues) >= b.cfg.MaxKeys || len(batch) >= maxBatch {
			break
		}

		if len(other.waiting) > 0 && other.running == 0 && !other.slow {
			batch = b.dequeue(other, batch)
			queues = append(queues, other)
			other.running++
		}
	}

	return batch, queues
}

// dequeue moves waiting calls into the batch up to its limit. Calls that have waited longer than StartTimeout fail
// instead: their result could arrive after the caller has gone.
func (b *Batcher[T, R]) dequeue(q *queue[T, R], batch []*call[T, R]) []*call[T, R] {
	late := 0
	for late < len(q.waiting) && time.Since(q.waiting[late].since) > StartTimeout {
		q.waiting[late].finish(b.cfg.Fail(ErrTimeout))
		late++
	}
	n := min(len(q.waiting), late+maxBatch-len(batch))
	batch = append(batch, q.waiting[late:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

func (b *Batcher[T, R]) run(batch []*call[T, R]) {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()

	items := make([]T, len(batch))
	for i, c := range batch {
		items[i] = c.item
	}

	finished := 0
	fail := func(err error) {
		for _, c := range batch[finished:] {
			c.finish(b.cfg.Fail(err))
		}
	}
	defer func() {
		if p := recover(); p != nil {
			fail(fmt.Errorf("batch: panic: %v\n%s", p, debug.Stack()))
		}
	}()

	results := b.cfg.Run(ctx, items)
	for i, c := range batch[:min(len(batch), len(results))] {
		c.finish(results[i])
		finished++
	}

	if finished < len(batch) {
		fail(fmt.Errorf("batch: %d results for %d items", len(results), len(batch)))
	}
}

func (c *call[T, R]) finish(r R) {
	c.result = r
	// Has room for one element, so it never blocks.
	c.done <- struct{}{}
}
