package lock

import (
	"context"
	"math"
	"time"
)

// undoWindow bounds a background undo. It outlasts a dropped connection and a
// short failover; what lasts longer is left to the lease.
const undoWindow = 5 * time.Second

// undoSlots bounds the background undos of the process, whatever the number of
// locks: when Redis hangs, every request leaves one behind. What finds no slot
// is left to the lease, as when the process dies. There are more than an
// executor has commands under way.
var undoSlots = make(chan struct{}, 1024)

// undo removes our key from the nodes that may have it, in at most so many
// tries. The end of ctx does not matter.
func (s *session) undo(ctx context.Context, tries int) {
	giveUp := time.Now().Add(min(undoWindow, s.lease))
	for try := range tries {
		tryCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		_, _ = s.mutex.UnlockContext(tryCtx) // the seats know more than the result says
		cancel()
		pause := backoff(try)
		if s.ghosts() == 0 || try+1 == tries || time.Now().Add(pause).After(giveUp) {
			return
		}
		time.Sleep(pause)
	}
}

// undoGhosts repeats the undo in the background until it is done or undoWindow
// is over, if there is anything to undo. The caller gives the session away.
func (s *session) undoGhosts(ctx context.Context) {
	if s.ghosts() == 0 {
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

// undoLater waits for the claim's last command, and then releases in the
// background until the server has confirmed it, undoWindow is over, or the
// client is closed.
func (cl *claim) undoLater(last *call) {
	select {
	case undoSlots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-undoSlots }()
		giveUp := time.Now().Add(undoWindow)
		for try := 0; ; try++ {
			<-last.done
			released := last.script == cl.kind.release && last.err == nil
			if released || time.Now().After(giveUp) || cl.c.life.Err() != nil {
				return
			}
			if last.script == cl.kind.release {
				time.Sleep(backoff(try))
			}
			last = cl.sendRelease()
		}
	}()
}
