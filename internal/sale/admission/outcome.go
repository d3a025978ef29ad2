package admission

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/redisconn"
	"seckill/internal/sale/lane"
)

const (
	// recheck is the first pause between two checks of Wait, which bounds the delay after a lost message. It doubles up
	// to maxRecheck.
	recheck    = 250 * time.Millisecond
	maxRecheck = time.Second
)

// OutcomeChannels is a pattern that matches the outcome channels of all instances.
const OutcomeChannels = outcomePrefix + "*"

const outcomePrefix = "seckill:outcomes:"

func outcomeChannel(instance string) string { return outcomePrefix + instance }

// Instance returns the name of this process's outcome channel. Admission.ReplyTo must have it for a subscription of
// this process to receive the outcome.
func (g *Gate) Instance() string { return g.cfg.Instance }

// outcomeWaiter implements lane.OutcomeWaiter.
type outcomeWaiter struct {
	gate    *Gate
	orderID int64
	failed  chan string // buffers one
}

// Expect implements lane.Gate. An outcome that is published before the call is missed.
func (g *Gate) Expect(orderID int64, until time.Time) lane.OutcomeWaiter {
	e := &outcomeWaiter{
		gate:    g,
		orderID: orderID,
		failed:  make(chan string, 1),
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[orderID] = append(g.waiting[orderID], e)

	// Last, because the time may have come.
	time.AfterFunc(time.Until(until), e.end)
	return e
}

func (e *outcomeWaiter) end() {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	rest := slices.DeleteFunc(e.gate.waiting[e.orderID], func(other *outcomeWaiter) bool { return other == e })
	if len(rest) == 0 {
		delete(e.gate.waiting, e.orderID)
		return
	}
	e.gate.waiting[e.orderID] = rest
}

// Wait implements lane.OutcomeWaiter. It calls check once a second, more often at first, and ignores its errors.
func (e *outcomeWaiter) Wait(
	ctx context.Context, check func(context.Context) (failed string, known bool, err error),
) (string, error) {
	pause := recheck
	timer := time.NewTimer(pause)
	defer timer.Stop()

	for {
		select {
		case failed := <-e.failed:
			return failed, nil
		case <-ctx.Done():
			return "", ctx.Err()
		case <-timer.C:
			if failed, known, err := check(ctx); err == nil && known {
				return failed, nil
			}
			pause = min(2*pause, maxRecheck)
			timer.Reset(pause)
		}
	}
}

// Run delivers the outcomes that are published for this instance to the subscriptions of Expect until ctx ends. Its error is
// that of redisconn.Receive. Wait's checks make up for the messages that are lost.
func (g *Gate) Run(ctx context.Context) error {
	return redisconn.Receive(ctx, g.cfg.Redis, outcomeChannel(g.cfg.Instance), g.deliver)
}

// deliver hands the outcomes of a message to their subscriptions. The format is that of publish.
func (g *Gate) deliver(message string) {
	g.mu.Lock()
	defer g.mu.Unlock()

	for _, word := range strings.Fields(message) {
		order, failed, _ := strings.Cut(word, ":")
		id, err := strconv.ParseInt(order, 10, 64)
		if err != nil {
			// Any Redis client can publish on this channel.
			continue
		}

		for _, e := range g.waiting[id] {
			select {
			case e.failed <- failed:
			default:
				// It has an outcome already.
			}
		}
	}
}

// publish sends the outcomes to the instances with waiting buyers, one message per instance: "order" or "order:reason",
// separated by spaces. It does not return errors: Wait copes with lost messages.
func (g *Gate) publish(ctx context.Context, done []domain.StreamEntry) {
	messages := map[string][]string{}
	for _, p := range done {
		for i, end := range p.Ends {
			if to := p.Admissions[i].ReplyTo; to != "" && !end.Again {
				messages[to] = append(messages[to], outcomeText(p.Admissions[i].OrderID, end))
			}
		}
	}

	if len(messages) == 0 {
		return
	}

	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for to, words := range messages {
			p.Publish(ctx, outcomeChannel(to), strings.Join(words, " "))
		}
		return nil
	})
	if err != nil {
		g.cfg.Log.DebugContext(ctx, "gate: cannot publish outcomes", slog.Any("err", err))
	}
}

func outcomeText(orderID int64, end domain.End) string {
	word := strconv.FormatInt(orderID, 10)
	switch {
	case end.Dead != "":
		return word + ":" + domain.ReasonInternal
	case end.Failed != "":
		return word + ":" + end.Failed
	}
	return word
}
