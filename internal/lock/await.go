package lock

import (
	"context"
	"time"
)

// cancelGrace is how long a caller whose ctx has ended still waits for a command in flight. A healthy Redis answers
// within it, so that the caller gets the true outcome instead of ErrUncertain.
const cancelGrace = 20 * time.Millisecond

// await runs work and returns its result and true. If ctx ends first, await returns false, work continues, and late (if
// not nil) receives its result.
//
// It is needed because go-redis does not interrupt a command in flight when its context is cancelled. work must be
// bounded and must not depend on ctx.
func await[T any](ctx context.Context, work func() T, late func(T)) (T, bool) {
	if ctx.Done() == nil {
		return work(), true
	}

	var result T // set when done is closed
	done := make(chan struct{})
	go func() {
		result = work()
		close(done)
	}()
	if waitWithGrace(ctx, done) {
		return result, true
	}

	if late != nil {
		go func() {
			<-done
			late(result)
		}()
	}

	var zero T
	return zero, false
}

func waitWithGrace(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}

	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case <-done:
		return true
	case <-grace.C:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// undoWindow bounds a background undo. It outlasts a dropped connection and a short failover; after that the key
// expires with its lease.
const undoWindow = 5 * time.Second

// undoSlots bounds the background undos of the process, regardless of the number of locks: when Redis hangs, every
// request leaves one behind. Without a free slot the key expires with its lease, as when the process dies. There are
// more slots than commands that an executor has in flight.
var undoSlots = make(chan struct{}, 1024)

func undoInBackground(undo func()) bool {
	select {
	case undoSlots <- struct{}{}:
	default:
		return false
	}

	go func() {
		defer func() { <-undoSlots }()
		undo()
	}()
	return true
}
