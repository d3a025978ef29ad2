package queue

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NewLagCollector returns the metrics of how far the workers are behind. They need not run.
func NewLagCollector(w *Workers) prometheus.Collector { return lagCollector{w} }

type lagCollector struct{ workers *Workers }

var (
	lagUnsettled = prometheus.NewDesc("seckill_queue_unsettled", "Users with unsettled admissions in the queue.", nil, nil)
	lagOldest    = prometheus.NewDesc("seckill_queue_oldest_seconds", "Age of the oldest entry in the queue.", nil, nil)
	lagDead      = prometheus.NewDesc("seckill_queue_dead_letters", "Dead letters to be replayed or discarded by an operator.", nil, nil)
)

// Describe implements prometheus.Collector.
func (lagCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagUnsettled, lagOldest, lagDead} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It exports nothing while Redis does not answer.
func (q lagCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lag, err := q.workers.Lag(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(lagUnsettled, prometheus.GaugeValue, float64(lag.Unsettled))
	ch <- prometheus.MustNewConstMetric(lagOldest, prometheus.GaugeValue, lag.Oldest.Seconds())
	ch <- prometheus.MustNewConstMetric(lagDead, prometheus.GaugeValue, float64(lag.Dead))
}
