package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/entry"
)

// collectTimeout bounds the reads of a collector. It is shorter than the interval of Prometheus in deploy/prometheus.
const collectTimeout = 3 * time.Second

// collector exports metrics that are read together when Prometheus asks for them. It exports nothing while the read fails,
// which the alert SeckillBacklogUnknown reports.
type collector[T any] struct {
	read    func(context.Context) (T, error)
	samples []sample[T]
}

// sample is one metric of a collector.
type sample[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label []string
	value func(T) float64
}

func gauge[T any](name, help string, value func(T) float64) sample[T] {
	return sample[T]{
		desc:  prometheus.NewDesc(name, help, nil, nil),
		kind:  prometheus.GaugeValue,
		value: value,
	}
}

// Describe implements prometheus.Collector.
func (c collector[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.samples {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector[T]) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()

	values, err := c.read(ctx)
	if err != nil {
		return
	}

	for _, s := range c.samples {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(values), s.label...)
	}
}

// backlogCollector exports the overdue work in the database. It is the same on every server.
func backlogCollector(store *repo.Store) prometheus.Collector {
	type backlog = repo.Backlog

	return collector[backlog]{store.Backlog, []sample[backlog]{
		gauge("seckill_orders_due", "Expired unpaid orders that are not closed yet.",
			func(b backlog) float64 { return float64(b.Orders) }),
		gauge("seckill_orders_oldest_due_seconds", "Time since the oldest expired unpaid order was due to be closed.",
			func(b backlog) float64 { return b.OldestOrder.Seconds() }),
		gauge("seckill_refunds_open", "Payments with a refund that is not completed.",
			func(b backlog) float64 { return float64(b.Refunds) }),
		gauge("seckill_refunds_oldest_seconds", "How long the oldest open refund has waited.",
			func(b backlog) float64 { return b.OldestRefund.Seconds() }),
		gauge("seckill_events_pending", "Events of orders that are not delivered.",
			func(b backlog) float64 { return float64(b.Events) }),
		gauge("seckill_events_oldest_seconds", "Age of the oldest event that is not delivered.",
			func(b backlog) float64 { return b.OldestEvent.Seconds() }),
		gauge("seckill_payment_notices_unread", "Signed notices and answers of payment providers that could not be processed, and that no operator has closed.",
			func(b backlog) float64 { return float64(b.Notices) }),
	}}
}

func lagCollector(g *admission.Gate) prometheus.Collector {
	return collector[domain.QueueLag]{g.Lag, []sample[domain.QueueLag]{
		gauge("seckill_queue_unsettled", "Users with unsettled admissions in the queue.",
			func(l domain.QueueLag) float64 { return float64(l.Unsettled) }),
		gauge("seckill_queue_oldest_seconds", "Age of the oldest entry in the queue.",
			func(l domain.QueueLag) float64 { return l.Oldest }),
		gauge("seckill_queue_dead_letters", "Dead letters to be replayed or discarded by an operator.",
			func(l domain.QueueLag) float64 { return float64(l.DeadLetters) }),
	}}
}

// roomCollector exports the buyers of the waiting rooms. A room has the same numbers on every server that knows it. Rooms
// have no label, because their number has no limit.
func roomCollector(rooms *entry.Rooms) prometheus.Collector {
	desc := prometheus.NewDesc("seckill_room_buyers",
		"Buyers in the waiting rooms in use, of sales that have not ended: lobby, waiting, present (of these two), pass (valid and not used).", []string{"state"}, nil)
	buyers := func(state string, n func(entry.Stats) int) sample[entry.Stats] {
		return sample[entry.Stats]{desc, prometheus.GaugeValue, []string{state}, func(s entry.Stats) float64 { return float64(n(s)) }}
	}

	totals := func(context.Context) (entry.Stats, error) { return rooms.Totals(), nil }
	return collector[entry.Stats]{totals, []sample[entry.Stats]{
		buyers("lobby", func(s entry.Stats) int { return s.Lobby }),
		buyers("waiting", func(s entry.Stats) int { return s.Waiting }),
		buyers("present", func(s entry.Stats) int { return s.Present }),
		buyers("pass", func(s entry.Stats) int { return s.Outstanding }),
	}}
}

// poolCollector exports the pool statistics of go-redis. The redisprometheus collector of go-redis lacks the number and the
// duration of waits, which the alerts and the dashboard need.
func poolCollector(rdb redis.UniversalClient) prometheus.Collector {
	type pool = *redis.PoolStats

	conns := prometheus.NewDesc("seckill_redis_pool_connections", "Connections to Redis: idle and total.", []string{"state"}, nil)
	waits := prometheus.NewDesc("seckill_redis_pool_waits_total", "Commands that waited for a connection, by outcome.", []string{"outcome"}, nil)
	waited := prometheus.NewDesc("seckill_redis_pool_wait_seconds_total", "Time that commands waited for a connection.", nil, nil)

	stats := func(context.Context) (pool, error) { return rdb.PoolStats(), nil }
	return collector[pool]{stats, []sample[pool]{
		{conns, prometheus.GaugeValue, []string{"total"}, func(s pool) float64 { return float64(s.TotalConns) }},
		{conns, prometheus.GaugeValue, []string{"idle"}, func(s pool) float64 { return float64(s.IdleConns) }},
		{waits, prometheus.CounterValue, []string{"served"}, func(s pool) float64 { return float64(s.WaitCount) }},
		{waits, prometheus.CounterValue, []string{"timeout"}, func(s pool) float64 { return float64(s.Timeouts) }},
		{waited, prometheus.CounterValue, nil, func(s pool) float64 { return time.Duration(s.WaitDurationNs).Seconds() }},
	}}
}
