package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/queue"
	"seckill/internal/service"
)

// gate is package admission's Gate in the form that the service wants.
type Gate struct{ *admission.Gate }

func NewGate(rdb redis.UniversalClient, backlog int, log *slog.Logger) Gate {
	host, _ := os.Hostname() // a name for people; the random part makes it unique
	instance := fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])
	return Gate{admission.New(admission.Config{Redis: rdb, Instance: instance, MaxBacklog: backlog, Log: log})}
}

// Expect implements service.Gate.
func (g Gate) Expect(orderID int64) service.Expectation { return g.Gate.Expect(orderID) }

// DeadLetters implements service.DeadLetterStore.
func (g Gate) DeadLetters(ctx context.Context, before string, limit int) ([]service.DeadLetter, error) {
	found, err := g.Gate.DeadLetters(ctx, before, limit)
	letters := make([]service.DeadLetter, len(found))
	for i, l := range found {
		letters[i] = service.DeadLetter(l)
	}
	return letters, err
}

// DeadLetter implements service.DeadLetterStore.
func (g Gate) DeadLetter(ctx context.Context, id string) (service.DeadLetter, error) {
	l, err := g.Gate.DeadLetter(ctx, id)
	return service.DeadLetter(l), err
}

// newWorkers makes the workers that turn the gate's admissions into orders. They tell moved which ones have ended.
func newWorkers(
	e *Env, g Gate, rdb redis.UniversalClient, commit queue.CommitFunc, m *metrics, c *console, moved func(orderID int64),
) *queue.Workers {
	if e.Tuning.Commit != nil {
		commit = e.Tuning.Commit(commit)
	}
	return queue.New(queue.Config{
		Redis: rdb, Streams: admission.Streams(), Tickets: admission.QueuedTickets(), DeadStreams: admission.DeadStreams(),
		Group: admission.Group, Consumer: g.Instance(), Gate: g, Commit: c.commit(commit), Observe: m.workerBatch,
		Settled: c.settled(moved), Log: e.Log,
		MinIdle: e.Tuning.MinIdle, ClaimEvery: e.Tuning.ClaimEvery,
	})
}

// readLag asks how far the workers are behind, beside them.
func ReadLag(ctx context.Context, rdb redis.UniversalClient) (queue.Lag, error) {
	return queue.New(queue.Config{
		Redis: rdb, Streams: admission.Streams(), Tickets: admission.QueuedTickets(), DeadStreams: admission.DeadStreams(),
	}).Lag(ctx)
}

// warnOfBacklog says so if orders wait that nobody in this lane will confirm.
func warnOfBacklog(ctx context.Context, w *queue.Workers, lane string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if lag, err := w.Lag(ctx); err == nil && lag.Unsettled > 0 {
		log.Warn("orders wait in the queue, which only servers in the lane queue confirm", "orders", lag.Unsettled, "lane", lane)
	}
}

// workerBatch is told of every batch of the workers.
func (m *metrics) workerBatch(b queue.Batch) {
	m.settled.WithLabelValues("ok").Add(float64(b.Committed))
	for reason, n := range b.Failed {
		m.settled.WithLabelValues(reason).Add(float64(n))
	}
	m.settled.WithLabelValues("dead_letter").Add(float64(b.DeadLettered))
}

// queueLag shows how far the workers are behind.
type queueLag struct{ workers *queue.Workers }

var (
	queueUnsettled = prometheus.NewDesc("seckill_queue_unsettled", "Admissions in the queue that are not settled; of a user with several, one.", nil, nil)
	queueOldest    = prometheus.NewDesc("seckill_queue_oldest_seconds", "Age of the oldest entry in the queue.", nil, nil)
	queueDead      = prometheus.NewDesc("seckill_queue_dead_letters", "Dead letters that wait for an operator.", nil, nil)
)

// Describe implements prometheus.Collector.
func (queueLag) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueUnsettled, queueOldest, queueDead} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. While Redis does not answer there is nothing to show.
func (q queueLag) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lag, err := q.workers.Lag(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(queueUnsettled, prometheus.GaugeValue, float64(lag.Unsettled))
	ch <- prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, lag.Oldest.Seconds())
	ch <- prometheus.MustNewConstMetric(queueDead, prometheus.GaugeValue, float64(lag.Dead))
}
