package handler

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/salestats"
	"seckill/internal/service"
)

const (
	// eventLook is the longest that a stream trusts that it would have been woken. An order that waits in the queue is
	// read more often, from queuedLook to maxQueuedLook, since only its own end wakes the stream, and not that the line moves.
	// Those who wait share the reads of the queue.
	eventLook     = 30 * time.Second
	queuedLook    = 100 * time.Millisecond
	maxQueuedLook = 3 * time.Second
	// defaultLostAfter is how long an order that was queued must be in neither queue nor database before its stream says
	// that it failed. A worker that holds it drops it after at most 10 s: it renews its claims every 2.5 s, one transaction
	// lasts 5 s at most, and what the stream does not have any more is not claimed again.
	defaultLostAfter = 30 * time.Second
)

type eventHandler struct {
	orders    *service.Orders
	watchers  *salestats.Watchers
	lostAfter time.Duration
}

// order streams the states of an order, from the present one to the last. The id of an event is how far the order has come, so
// that it is the same on every server; who names it in Last-Event-ID is not told again, and if there is nothing more
// to come hears 204, which tells a browser not to come back.
func (h *eventHandler) order(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	user := caller(c).UserID
	watch, err := h.watchers.Watch(user, id) // before the first look: what happens after it wakes us
	if err != nil {
		return err
	}
	s := &orderStream{h: h, watch: watch, user: user, id: id}
	streaming := false
	defer func() {
		if !streaming {
			h.watchers.Unwatch(watch)
		}
	}()
	o, err := aside(func(ctx context.Context) (service.Order, error) { return h.orders.Get(ctx, user, id) })
	if err != nil {
		return err
	}
	if s.seen, err = strconv.ParseInt(c.GetHeader("Last-Event-ID"), 10, 64); err != nil {
		s.seen = 0 // what cannot be read is nothing seen
	}
	if o.Status.Final() && s.seen >= howFar(&o) {
		c.Status(http.StatusNoContent)
		return nil
	}
	if s.stream, err = openStream(c); err != nil {
		return err
	}
	streaming = true
	go s.run(o)
	return nil
}

// orderStream is one stream.
type orderStream struct {
	*stream

	h        *eventHandler
	watch    *salestats.Watch
	user, id int64
	seen     int64     // howFar what was told last has come
	lost     time.Time // since when the order is in neither queue nor database
}

// run writes what happens until the order is at its end, the client is gone, or the process stops.
func (s *orderStream) run(o service.Order) {
	defer s.h.watchers.Unwatch(s.watch)
	defer s.attend()()
	look := time.NewTimer(eventLook)
	defer look.Stop()
	wait := queuedLook
	for s.tell(&o) && !o.Status.Final() {
		if o.Status == service.OrderQueued {
			wait = min(2*wait, maxQueuedLook)
		} else {
			wait = eventLook
		}
		look.Reset(wait/2 + rand.N(wait)) // streams that began together do not look together
		if !s.sleep(s.watch, look.C) {
			return
		}
		o = s.now(o)
	}
}

// now returns the order as it is, or as it was while that cannot be read. One that was lost with the data of Redis has
// failed when no worker can hold it any more. While queue or database do not answer, that time does not run.
func (s *orderStream) now(was service.Order) service.Order {
	o, err := aside(func(ctx context.Context) (service.Order, error) { return s.h.orders.Follow(ctx, s.user, was) })
	switch {
	case err == nil:
		s.lost = time.Time{}
		return o
	case !errors.Is(err, service.ErrNotFound):
		s.lost = time.Time{}
	case s.lost.IsZero():
		s.lost = time.Now()
	case time.Since(s.lost) >= s.h.lostAfter:
		was.Status, was.Reason = service.OrderFailed, service.ReasonInternal
	}
	return was
}

// oneStatus is how far it is from one status to the next, in places of the line.
const oneStatus = 1_000_000_000

// howFar says how far an order has come: it grows with its status and, while it is queued, with every one before it who
// is done.
func howFar(o *service.Order) int64 {
	far := int64(o.Status.Progress()) * oneStatus
	if o.Status == service.OrderQueued && o.Ahead != nil {
		far += max(1, oneStatus-1-*o.Ahead)
	}
	return far
}

// tell writes an event unless the client has seen that much. It returns false if the client is gone.
func (s *orderStream) tell(o *service.Order) bool {
	far := howFar(o)
	if far <= s.seen {
		return true
	}
	s.seen = far
	b := append(make([]byte, 0, 512), "event: order\nid: "...)
	b = strconv.AppendInt(b, far, 10)
	b = append(b, "\ndata: "...)
	b = appendOrder(b, o) // in one line: strings are escaped
	return s.write(append(b, "\n\n"...))
}
