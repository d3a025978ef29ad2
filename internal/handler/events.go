package handler

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

const (
	// pollInterval is the mean interval at which a stream reads its order, in case a wake-up was lost. A queued order
	// is polled more often, because a change of its position in the queue does not wake the stream: the interval
	// doubles from queuedPollInterval up to maxQueuedPollInterval. Streams share the reads of the queue.
	pollInterval          = 30 * time.Second
	queuedPollInterval    = 100 * time.Millisecond
	maxQueuedPollInterval = 3 * time.Second
	// lostAfter is how long a queued order must be absent from both queue and database before its stream reports
	// it as failed. A worker that still holds the order gives it up within 10 s: it renews its claims every 2.5 s, a
	// transaction lasts at most 5 s, and an entry that is gone from the Redis stream cannot be claimed again.
	lostAfter = 30 * time.Second
)

// order streams the states of an order from the present one to the last. The id of an event is the order's progress,
// which is the same on every server, so a client resumes anywhere with Last-Event-ID. If that id is the final state,
// the answer is 204, after which a browser does not reconnect.
func (a *api) orderStream(c *gin.Context, id int64) error {
	return serveStream(c, a.Auth, a.Subscribers, id, func(events *stream) (func(), error) {
		s := &orderStream{
			stream: events,
			api:    a,
			user:   caller(c).UserID,
		}

		o, err := readDetached(func(ctx context.Context) (domain.Order, error) { return a.Orders.Get(ctx, s.user, id) })
		if err != nil {
			return nil, err
		}

		if s.sent, err = strconv.ParseInt(c.GetHeader("Last-Event-ID"), 10, 64); err != nil {
			// Absent or invalid: send everything.
			s.sent = 0
		}

		if o.Status.Final() && s.sent >= progressOf(&o) {
			c.Status(http.StatusNoContent)
			return nil, nil
		}

		return func() { s.run(o) }, nil
	})
}

type orderStream struct {
	*stream

	api  *api
	user int64
	// progressOf the order in the last event.
	sent int64
	// Start of the absence from both queue and database; zero if present.
	lost time.Time
}

func (s *orderStream) run(o domain.Order) {
	poll := time.NewTimer(pollInterval)
	defer poll.Stop()

	interval := queuedPollInterval
	for s.send(&o) && !o.Status.Final() {
		if o.Status == domain.OrderQueued {
			interval = min(2*interval, maxQueuedPollInterval)
		} else {
			interval = pollInterval
		}

		// Jitter spreads streams that began together.
		poll.Reset(interval/2 + rand.N(interval))

		if !s.wait(poll.C) {
			return
		}

		o = s.reload(o)
	}
}

// reload returns the present order, or the last known one if the read fails. An order that is absent from queue and
// database for lostAfter was lost with the data of Redis and is returned as failed. A failed read restarts that time.
func (s *orderStream) reload(last domain.Order) domain.Order {
	o, err := readDetached(func(ctx context.Context) (domain.Order, error) { return s.api.Orders.Follow(ctx, s.user, last) })
	switch {
	case err == nil:
		s.lost = time.Time{}
		return o
	case !errors.Is(err, domain.ErrNotFound):
		s.lost = time.Time{}
	case s.lost.IsZero():
		s.lost = s.api.Now()
	case s.api.Now().Sub(s.lost) >= lostAfter:
		last.Status = domain.OrderFailed
		last.Reason = domain.ReasonInternal
	}

	return last
}

// statusStep is the difference in progress between two successive statuses. It exceeds every position in the queue.
const statusStep = 1_000_000_000

// progressOf returns a number that grows with the order's status and, while the order is queued, with its position in
// the queue.
func progressOf(o *domain.Order) int64 {
	progress := int64(o.Status.Progress()) * statusStep
	if o.Status == domain.OrderQueued && o.Ahead != nil {
		progress += max(1, statusStep-1-*o.Ahead)
	}
	return progress
}

// send writes an event unless the client already has one with this progress. It returns false if the write fails.
func (s *orderStream) send(o *domain.Order) bool {
	progress := progressOf(o)
	if progress <= s.sent {
		return true
	}

	s.sent = progress
	return s.stream.send("order", strconv.FormatInt(progress, 10), appendOrder(make([]byte, 0, 512), o))
}
