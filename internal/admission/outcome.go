package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

const (
	// recheck is how long a lost message may cost a buyer at first; it doubles up to maxRecheck.
	recheck    = 250 * time.Millisecond
	maxRecheck = time.Second
	// outcomesAhead is how many messages may wait for Run. Each has the outcomes of a batch.
	outcomesAhead = 1000
)

// Expectation is somebody's interest in how an admission ends.
type Expectation struct {
	gate    *Gate
	orderID int64
	outcome chan service.Outcome // holds one
}

// Expect registers interest in an admission of this instance, before it is reserved; else its outcome may come
// before anybody listens. The caller must Close it.
func (g *Gate) Expect(orderID int64) *Expectation {
	e := &Expectation{gate: g, orderID: orderID, outcome: make(chan service.Outcome, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[orderID] = append(g.waiting[orderID], e)
	return e
}

// Close ends the interest. It may be called more than once.
func (e *Expectation) Close() {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	rest := slices.DeleteFunc(e.gate.waiting[e.orderID], func(other *Expectation) bool { return other == e })
	if len(rest) == 0 {
		delete(e.gate.waiting, e.orderID)
		return
	}
	e.gate.waiting[e.orderID] = rest
}

// Wait returns the outcome when a message brings it, or when check, which runs at least once a second because messages
// get lost, says that it is known. Errors of check are not the end: as long as ctx allows there is hope.
// When ctx ends, its error is returned.
func (e *Expectation) Wait(
	ctx context.Context, check func(context.Context) (o service.Outcome, known bool, err error),
) (service.Outcome, error) {
	pause := recheck
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case o := <-e.outcome:
			return o, nil
		case <-ctx.Done():
			select {
			case o := <-e.outcome: // both at once
				return o, nil
			default:
				return service.Outcome{}, ctx.Err()
			}
		case <-timer.C:
			if o, known, err := check(ctx); err == nil && known {
				return o, nil
			}
			pause = min(2*pause, maxRecheck)
			timer.Reset(pause)
		}
	}
}

// Run hands the outcomes that are published for this instance to those who expect them, until ctx ends; then it
// returns nil. It connects again by itself, and what it misses meanwhile the waiting find out by their checks. It is an
// error to close the client first.
func (g *Gate) Run(ctx context.Context) error {
	sub := g.cfg.Redis.Subscribe(ctx, outcomes(g.cfg.Instance))
	messages := sub.Channel(redis.WithChannelSize(outcomesAhead))
	for {
		select {
		case <-ctx.Done():
			err := sub.Close()
			for range messages { // its goroutine ends by closing the channel
			}
			return err
		case m, open := <-messages:
			if !open {
				return errors.Join(errors.New("admission: the Redis client was closed"), sub.Close())
			}
			g.deliver(m.Payload)
		}
	}
}

// deliver reads a message as publish writes it.
func (g *Gate) deliver(message string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, word := range strings.Fields(message) {
		order, failed, _ := strings.Cut(word, ":")
		id, err := strconv.ParseInt(order, 10, 64)
		if err != nil {
			continue // the channel is open to everybody
		}
		for _, e := range g.waiting[id] {
			select {
			case e.outcome <- service.Outcome{OrderID: id, Failed: failed}:
			default: // told already
			}
		}
	}
}

// publish tells the instances whose buyers wait, one message for each: "order" or "order:reason", separated by
// spaces. A message that cannot be sent is a message lost, for which those who wait are prepared.
func (g *Gate) publish(ctx context.Context, done []service.Parcel) {
	messages := map[string][]string{}
	for _, p := range done {
		for i, end := range p.Ends {
			if to := p.Admissions[i].ReplyTo; to != "" && !end.Again {
				messages[to] = append(messages[to], outcome(p.Admissions[i].OrderID, end))
			}
		}
	}
	if len(messages) == 0 {
		return
	}
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for to, words := range messages {
			p.Publish(ctx, outcomes(to), strings.Join(words, " "))
		}
		return nil
	})
	if err != nil {
		g.cfg.Log.DebugContext(ctx, "gate: outcomes were not published", slog.Any("error", err))
	}
}

func outcome(orderID int64, end service.End) string {
	word := strconv.FormatInt(orderID, 10)
	switch {
	case end.Dead != "":
		return word + ":" + service.ReasonInternal
	case end.Failed != "":
		return word + ":" + end.Failed
	}
	return word
}
