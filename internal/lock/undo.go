package lock

import (
	"context"
	"math"
	"time"
)

// undoWindow bounds a background undo. It outlasts a dropped connection and a short failover; after that the key
// expires with its lease.
const undoWindow = 5 * time.Second

// undoSlots bounds the background undos of the process, regardless of the number of locks: when Redis hangs, every
// request leaves one behind. Without a free slot the key expires with its lease, as when the process dies. There are
// more slots than commands that an executor has in flight.
var undoSlots = make(chan struct{}, 1024)

// undo removes the session's key from the nodes that may have it, with at most tries attempts. It ignores the end of
// ctx.
func (s *session) undo(ctx context.Context, tries int) {
	deadline := time.Now().Add(min(undoWindow, s.lease))
	for try := range tries {
		tryCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		_, _ = s.mutex.UnlockContext(tryCtx) // the node states record the outcome more exactly than the result
		cancel()
		pause := backoff(try)
		if s.uncleared() == 0 || try+1 == tries || time.Now().Add(pause).After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}

// undoInBackground repeats the undo in the background until it is done or undoWindow is over, if there is anything to
// undo. The caller must not use the session afterwards.
func (s *session) undoInBackground(ctx context.Context) {
	if s.uncleared() == 0 {
		return
	}
	select {
	case undoSlots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-undoSlots }()
		s.undo(ctx, math.MaxInt)
	}()
}

// undoLater waits for the claim's last command, and then releases in the background until the server has confirmed it,
// undoWindow is over, or the client is closed.
func (cl *claim) undoLater(last *call) {
	select {
	case undoSlots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-undoSlots }()
		deadline := time.Now().Add(undoWindow)
		for try := 0; ; try++ {
			<-last.done
			released := last.script == cl.kind.release && last.err == nil
			if released || time.Now().After(deadline) || cl.c.life.Err() != nil {
				return
			}
			if last.script == cl.kind.release {
				time.Sleep(backoff(try))
			}
			last = cl.sendRelease()
		}
	}()
}
