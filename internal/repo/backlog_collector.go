package repo

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NewBacklogCollector returns the metrics of the overdue work in a database.
func NewBacklogCollector(s *Store) prometheus.Collector { return backlogCollector{s} }

// backlogCollector exports the overdue work in the database: orders to close, refunds to make, events to deliver. It is the
// same on every server.
type backlogCollector struct{ store *Store }

var (
	backlogOrders  = prometheus.NewDesc("seckill_orders_due", "Expired unpaid orders that are not closed yet.", nil, nil)
	backlogOverdue = prometheus.NewDesc("seckill_orders_oldest_due_seconds", "Time since the oldest expired unpaid order was due to be closed.", nil, nil)
	backlogRefunds = prometheus.NewDesc("seckill_refunds_open", "Payments with a refund that is not completed.", nil, nil)
	backlogEvents  = prometheus.NewDesc("seckill_events_pending", "Events of orders that are not delivered.", nil, nil)
	backlogEvent   = prometheus.NewDesc("seckill_events_oldest_seconds", "Age of the oldest event that is not delivered.", nil, nil)
	backlogNotices = prometheus.NewDesc("seckill_payment_notices_unread", "Signed notices and answers of payment providers that could not be processed, and that no operator has closed.", nil, nil)
	backlogOldest  = prometheus.NewDesc("seckill_refunds_oldest_seconds", "How long the oldest open refund has waited.", nil, nil)
)

// Describe implements prometheus.Collector.
func (backlogCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{backlogOrders, backlogOverdue, backlogRefunds, backlogOldest, backlogEvents, backlogEvent, backlogNotices} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It exports nothing while the database does not answer.
func (b backlogCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	due, err := b.store.Backlog(ctx)
	if err != nil {
		return
	}

	ch <- prometheus.MustNewConstMetric(backlogOrders, prometheus.GaugeValue, float64(due.Orders))
	ch <- prometheus.MustNewConstMetric(backlogOverdue, prometheus.GaugeValue, due.OldestOrder.Seconds())
	ch <- prometheus.MustNewConstMetric(backlogRefunds, prometheus.GaugeValue, float64(due.Refunds))
	ch <- prometheus.MustNewConstMetric(backlogOldest, prometheus.GaugeValue, due.OldestRefund.Seconds())
	ch <- prometheus.MustNewConstMetric(backlogNotices, prometheus.GaugeValue, float64(due.Notices))
	ch <- prometheus.MustNewConstMetric(backlogEvents, prometheus.GaugeValue, float64(due.Events))
	ch <- prometheus.MustNewConstMetric(backlogEvent, prometheus.GaugeValue, due.OldestEvent.Seconds())
}
