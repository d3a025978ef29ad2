package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// searchInterval is the interval between searches for due events.
	searchInterval = time.Second
	// batchSize bounds the events that one search claims. They are delivered concurrently.
	batchSize = 32
	// DeliveryTimeout bounds one delivery. It is shorter than lease, so that no other server delivers the event meanwhile.
	DeliveryTimeout = 5 * time.Second
	// lease is the time until an event is delivered again whose server was killed. It outlasts the delivery and the storing
	// of its result.
	lease = 10 * time.Second
	// A failed delivery is repeated after firstRetry, and then after pauses that double up to lastRetry.
	firstRetry = 5 * time.Second
	lastRetry  = 15 * time.Minute
	// giveUp is the age from which a failing event is not retried.
	giveUp = 72 * time.Hour
	// maxStored bounds the stored part of an answer, in characters.
	maxStored = 1000
)

// Outbox delivers the events of orders to the receiver of SECKILL_EVENTS_URL: at least once, in order per order, retried for
// three days. Several may run on one store; each event is leased to one of them. All fields are required.
type Outbox struct {
	Store domain.EventStore
	// Returns the body of a delivery.
	Encode func(*domain.OrderEvent) ([]byte, error)
	Post   func(ctx context.Context, body []byte) (Answer, error)
	Now    func() time.Time
	Log    *slog.Logger
}

// Task delivers events.
func (o *Outbox) Task() loop.Task {
	return loop.Every(searchInterval, "deliver the events of orders", o.SendDue)
}

// SendDue delivers the events that are due, until none is left. It returns the first error of a delivery after it has
// tried the others.
func (o *Outbox) SendDue(ctx context.Context) error {
	var failed error
	for {
		events, err := o.Store.ClaimEvents(ctx, batchSize, lease)
		if err != nil || len(events) == 0 {
			return cmp.Or(failed, err)
		}

		results := make([]domain.EventResult, len(events))
		errs := make([]error, len(events))
		var deliveries sync.WaitGroup
		for i := range events {
			deliveries.Go(func() { results[i], errs[i] = o.deliver(ctx, events[i]) })
		}

		deliveries.Wait()

		// The deliveries were cut off: their leases end.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := o.Store.FinishEvents(ctx, results); err != nil {
			return cmp.Or(failed, err)
		}

		failed = cmp.Or(failed, cmp.Or(errs...))
	}
}

func (o *Outbox) deliver(ctx context.Context, e domain.OrderEvent) (domain.EventResult, error) {
	r := domain.EventResult{Event: e}
	body, err := o.Encode(&e)
	if err == nil {
		var answer Answer
		if answer, err = o.Post(ctx, body); answer.Status != 0 {
			r.Status = answer.Status
			r.Answer = storable(string(answer.Body))
			err = answer.Err()
		} else {
			r.Answer = storable(err.Error())
		}
	}

	r.Delivered = err == nil
	if r.Delivered {
		return r, nil
	}

	since := e.CreatedAt
	if e.RepeatedAt != nil {
		since = *e.RepeatedAt
	}

	if o.Now().Sub(since) >= giveUp {
		o.Log.Error("gave up the delivery of an event", "event_id", e.ID, "order_id", e.Order.ID, "type", string(e.Type), "err", err)
		return r, err
	}

	r.Retry = loop.Backoff(firstRetry, lastRetry, e.Tries-1)
	return r, err
}

// storable returns the beginning of an answer as text that every database stores unchanged.
func storable(answer string) string {
	runes := []rune(strings.ReplaceAll(strings.ToValidUTF8(answer, "\uFFFD"), "\x00", ""))
	return string(runes[:min(len(runes), maxStored)])
}
