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
// locks: when Redis is down, every request leaves one behind. What finds no
// slot is left to the lease, as when the process dies.
var undoSlots = make(chan struct{}, 128)

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

// undoLater waits for last and then repeats send in the background until the
// server has confirmed it, or until undoWindow is over.
func (c *Client) undoLater(last *call, send func() *call) {
	select {
	case undoSlots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-undoSlots }()
		<-last.done
		giveUp := time.Now().Add(undoWindow)
		for try := 0; time.Now().Before(giveUp) && c.life.Err() == nil; try++ {
			call := send()
			<-call.done
			if call.err == nil {
				return
			}
			time.Sleep(backoff(try))
		}
	}()
}
