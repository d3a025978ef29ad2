package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Refreshed is a value that is read again in the background while it is in use. Its callers share the reads, and the
// last value is kept when a read fails. The exported fields must be set before the first use. It is safe for concurrent
// use.
type Refreshed[T any] struct {
	// Read reads the value. The end of a caller does not stop it.
	Read func(context.Context) (T, error)
	// The age from which a value is read again in the background.
	Fresh time.Duration
	// The age from which callers wait for that read.
	Stale time.Duration
	// A value is neither read again nor stale before this multiple of the duration of its read.
	Pause int
	// Bounds one read.
	Timeout time.Duration

	current atomic.Pointer[Reading[T]]

	mu sync.Mutex
	// Closed when the running read ends; nil if none runs.
	reading chan struct{}
	// Counts changes; a read that began with a lower number is outdated.
	changes int
	// The error of the last read.
	err error
	// The running read takes so long that Kept does not wait for it.
	slow bool
}

// Reading is a value and when it was read.
type Reading[T any] struct {
	Value T
	Began time.Time
	Ended time.Time

	// The value was changed elsewhere during or after the read.
	outdated bool
}

// Set sets a value whose read began at a time and has just ended.
func (r *Refreshed[T]) Set(value T, began time.Time) {
	r.current.Store(&Reading[T]{
		Value: value,
		Began: began,
		Ended: time.Now(),
	})
}

// Last returns the last reading, whatever its age; nil before the first.
func (r *Refreshed[T]) Last() *Reading[T] { return r.current.Load() }

func (r *Refreshed[T]) stale(v *Reading[T]) bool {
	return v == nil || v.outdated || time.Since(v.Began) >= r.Stale && !r.pauses(v)
}

func (r *Refreshed[T]) fresh(v *Reading[T]) bool {
	return time.Since(v.Ended) < r.Fresh || r.pauses(v)
}

func (r *Refreshed[T]) pauses(v *Reading[T]) bool {
	return time.Since(v.Ended) < time.Duration(r.Pause)*v.Ended.Sub(v.Began)
}

// Get returns the value with every change that was reported by Outdate or Change before the call. It waits for a read if
// the value is stale. Its error is that of the read, or of ctx if that ends first.
func (r *Refreshed[T]) Get(ctx context.Context) (T, error) {
	var none T

	// A running read may have begun before a change. The next one has not.
	for range 2 {
		v := r.current.Load()
		stale := r.stale(v)
		if !stale && r.fresh(v) {
			break
		}

		done, _ := r.start(ctx)
		if !stale {
			break
		}

		select {
		case <-done:
		case <-ctx.Done():
			return none, ctx.Err()
		}

		if err := r.lastErr(); err != nil {
			return none, err
		}
	}

	return r.current.Load().Value, nil
}

func (r *Refreshed[T]) lastErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Kept returns the last reading, of which there must be one. If it is stale, Kept waits at most for a time for one with every
// change that was reported before the call, unless the last read failed or the running one takes too long already.
func (r *Refreshed[T]) Kept(ctx context.Context, most time.Duration) *Reading[T] {
	v := r.current.Load()
	stale := r.stale(v)
	if !stale && r.fresh(v) {
		return v
	}

	_, failing := r.start(ctx)
	if !stale || failing {
		return v
	}

	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()

	if _, err := r.Get(waiting); err != nil && waiting.Err() != nil && ctx.Err() == nil {
		r.mu.Lock()
		r.slow = r.reading != nil
		r.mu.Unlock()
	}
	return r.current.Load()
}

// start starts a read unless one is running. The channel is closed when it ends. The second result reports that the last
// read failed or that the running one takes too long.
func (r *Refreshed[T]) start(ctx context.Context) (<-chan struct{}, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading == nil {
		r.reading = make(chan struct{})
		go r.refresh(context.WithoutCancel(ctx), r.changes)
	}
	return r.reading, r.err != nil || r.slow
}

// refresh reads and replaces the value. If it was changed during the read, the new one is outdated from the beginning.
func (r *Refreshed[T]) refresh(ctx context.Context, changes int) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()

	began := time.Now()
	value, err := r.read(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()

	r.err = err
	r.slow = false
	if err == nil {
		r.current.Store(&Reading[T]{
			Value:    value,
			Began:    began,
			Ended:    time.Now(),
			outdated: r.changes != changes,
		})
	}

	close(r.reading)
	r.reading = nil
}

// read turns a panic, which would end the process, into an error.
func (r *Refreshed[T]) read(ctx context.Context) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: panic in a read: %v\n%s", p, debug.Stack())
		}
	}()
	return r.Read(ctx)
}

// Outdate makes the next caller wait for a read that begins after the call. The value is kept for Kept.
func (r *Refreshed[T]) Outdate() {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.changes++
	if v := r.current.Load(); v != nil {
		old := *v
		old.outdated = true
		r.current.Store(&old)
	}
}

// Change replaces the value, which keeps its age. A running read may not have the change, so its result is outdated.
func (r *Refreshed[T]) Change(change func(T) T) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.changes++
	if v := r.current.Load(); v != nil {
		changed := *v
		changed.Value = change(v.Value)
		r.current.Store(&changed)
	}
}
