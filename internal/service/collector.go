package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	// maxBatch bounds how many purchases are decided together. Above some hundreds a transaction gains nothing more,
	// and the first of them wait for the last.
	maxBatch = 500
	// maxWaiting bounds the purchases of one voucher that wait for the next batch; more are told so at once.
	maxWaiting = 20_000
	// maxBatches bounds the batches that run at once in this process. It leaves the pools of database and Redis room
	// for everything else.
	maxBatches = 8
	// crowd is how many must wait at a key for a second batch to begin beside the first. While one transaction ends on
	// disk, the next is prepared; that is worth a sixth of the throughput, and small batches are worth nothing.
	crowd = 64
	// A batch of at least gatherFrom is answered at once, and those who were answered come again in the next moment. The
	// next batch waits for as many, but not longer than gatherFor: else its first commit alone and the others wait for
	// them. It spares a sixth of the CPU time of an order at 64 connections. A lone buyer waits for nothing.
	gatherFrom = 8
	gatherFor  = 800 * time.Microsecond
	// batchTimeout bounds one batch. Together with batchPatience it stays below the 4 s that a request has.
	batchTimeout = 2 * time.Second
	// batchPatience is how long a purchase waits for its batch to begin.
	batchPatience = 1800 * time.Millisecond
)

// collector lets concurrent callers with the same key share the work: while one batch runs, the next one forms, and in
// a crowd a second one runs beside it. A caller who comes alone waits for nothing. Callers with different
// keys share a batch only when more keys are busy than batches may run. A key costs memory only while somebody waits
// there. It is safe for concurrent use.
type collector[T, R any] struct {
	// run decides a batch, of at most maxBatch elements and maxKeys keys, and returns a result for each.
	run func(ctx context.Context, batch []T) []R
	// failed makes the result of one that could not be decided.
	failed  func(error) R
	maxKeys int

	permits chan struct{}
	waiters sync.Pool // of *waiter, with their channels: a purchase then costs no allocation here
	mu      sync.Mutex
	queues  map[int64]*queue[T, R]
}

// queue holds those who wait at one key. It exists while goroutines serve it.
type queue[T, R any] struct {
	waiting []*waiter[T, R]
	serving int           // goroutines that serve it, at most two
	want    int           // how many must wait for full to be closed
	full    chan struct{} // nil: no batch is being gathered
	running int           // batches that are being decided
}

type waiter[T, R any] struct {
	item   T
	since  time.Time
	result R
	done   chan struct{}
	timer  *time.Timer // of do
}

func newCollector[T, R any](maxKeys int, run func(context.Context, []T) []R, failed func(error) R) *collector[T, R] {
	return &collector[T, R]{
		run: run, failed: failed, maxKeys: maxKeys,
		permits: make(chan struct{}, maxBatches), queues: map[int64]*queue[T, R]{},
	}
}

// do returns the result of item, decided together with others of its key. After the deadline the result is
// ErrUnavailable, and what becomes of item is unknown: what is being decided cannot be taken back.
func (c *collector[T, R]) do(key int64, item T, deadline time.Time) R {
	w := c.join(key, item)
	if w == nil {
		return c.failed(ErrOverloaded)
	}
	if w.timer == nil {
		w.timer = time.NewTimer(time.Until(deadline))
	} else {
		w.timer.Reset(time.Until(deadline))
	}
	select {
	case <-w.done:
		w.timer.Stop()
		return c.leave(w)
	case <-w.timer.C:
		select {
		case <-w.done: // both at once
			return c.leave(w)
		default:
			return c.failed(ErrUnavailable)
		}
	}
}

// doWithin is do with a context instead of a deadline.
func (c *collector[T, R]) doWithin(ctx context.Context, key int64, item T) R {
	w := c.join(key, item)
	if w == nil {
		return c.failed(ErrOverloaded)
	}
	select {
	case <-w.done:
		return c.leave(w)
	case <-ctx.Done():
		return c.failed(ErrUnavailable)
	}
}

// join has item decided by the next batch of its key; nil: too many wait there.
func (c *collector[T, R]) join(key int64, item T) *waiter[T, R] {
	w, ok := c.waiters.Get().(*waiter[T, R])
	if !ok {
		w = &waiter[T, R]{done: make(chan struct{}, 1)}
	}
	w.item, w.since = item, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	if q == nil {
		q = &queue[T, R]{}
		c.queues[key] = q
	}
	if q.serving == 0 || q.serving < 2 && len(q.waiting) >= crowd {
		q.serving++
		go c.serve(key, q)
	}
	if len(q.waiting) >= maxWaiting {
		return nil
	}
	q.waiting = append(q.waiting, w)
	if q.full != nil && len(q.waiting) >= q.want {
		close(q.full)
		q.full = nil
	}
	return w
}

// leave returns the result of a waiter who was told, and makes room for the next one.
func (c *collector[T, R]) leave(w *waiter[T, R]) R {
	result := w.result
	*w = waiter[T, R]{done: w.done, timer: w.timer}
	c.waiters.Put(w)
	return result
}

// serve runs batches until nobody waits any more.
func (c *collector[T, R]) serve(key int64, q *queue[T, R]) {
	last := 0
	for {
		if last >= gatherFrom {
			c.gather(q, last)
		}
		c.permits <- struct{}{}
		batch, queues := c.take(key, q)
		last = len(batch)
		if len(batch) > 0 {
			c.decide(batch)
		}
		<-c.permits
		if len(queues) == 0 {
			return
		}
		c.mu.Lock()
		for _, q := range queues {
			q.running--
		}
		c.mu.Unlock()
	}
}

// gather waits a moment for the buyers of a batch that was just answered.
func (c *collector[T, R]) gather(q *queue[T, R], last int) {
	c.mu.Lock()
	if q.full != nil || len(q.waiting) >= maxBatch {
		c.mu.Unlock()
		return
	}
	full := make(chan struct{})
	q.full, q.want = full, min(len(q.waiting)+last*9/10, maxBatch)
	c.mu.Unlock()
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.full == full {
		q.full = nil
	}
}

// take removes the next batch from the queue and returns it with the queues that it is of; no queue means that nobody
// waits, and the caller serves it no longer.
func (c *collector[T, R]) take(key int64, q *queue[T, R]) (batch []*waiter[T, R], queues []*queue[T, R]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(q.waiting) == 0 {
		q.serving--
		if q.serving == 0 {
			delete(c.queues, key)
		}
		return nil, nil
	}
	batch, queues = c.pick(q, nil), append(queues, q)
	q.running++
	if len(c.permits) < cap(c.permits) {
		return batch, queues // whoever waits elsewhere has a permit of his own
	}
	for _, other := range c.queues {
		if len(queues) >= c.maxKeys || len(batch) >= maxBatch {
			break
		}
		if len(other.waiting) > 0 && other.running == 0 {
			batch, queues = c.pick(other, batch), append(queues, other)
			other.running++
		}
	}
	return batch, queues
}

// pick moves those who wait at a queue to the batch, as far as there is room. Who has waited too long is not decided
// any more, since the answer could come too late to be heard: what the batches before him asked does not answer.
func (c *collector[T, R]) pick(q *queue[T, R], batch []*waiter[T, R]) []*waiter[T, R] {
	late := 0
	for late < len(q.waiting) && time.Since(q.waiting[late].since) > batchPatience {
		q.waiting[late].finish(c.failed(ErrUnavailable))
		late++
	}
	n := min(len(q.waiting), late+maxBatch-len(batch))
	batch = append(batch, q.waiting[late:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// decide runs one batch and answers everybody in it, whatever happens.
func (c *collector[T, R]) decide(batch []*waiter[T, R]) {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	items := make([]T, len(batch))
	for i, w := range batch {
		items[i] = w.item
	}
	answered := 0
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic in a batch: %v\n%s", p, debug.Stack())
			for _, w := range batch[answered:] {
				w.finish(c.failed(err))
			}
		}
	}()
	for i, r := range c.run(ctx, items) {
		batch[i].finish(r)
		answered++
	}
}

func (w *waiter[T, R]) finish(r R) {
	w.result = r
	w.done <- struct{}{} // has room for one: nobody waits for the waiter to hear it
}
