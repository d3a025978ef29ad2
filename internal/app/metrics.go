package app

import (
	"context"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"seckill/internal/handler"
	"seckill/internal/lock"
	"seckill/internal/reconcile"
	"seckill/internal/repo"
	"seckill/internal/version"
)

// metrics are the collectors of this package. Package handler registers its own.
type metrics struct {
	registry *prometheus.Registry
	orders   *prometheus.HistogramVec
	locks    *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	holds    *prometheus.HistogramVec
	batches  prometheus.Histogram
	settled  *prometheus.CounterVec
	expired  prometheus.Counter
	payments *prometheus.CounterVec
	keys     *prometheus.CounterVec

	findings   *prometheus.GaugeVec
	repairs    *prometheus.CounterVec
	reconciles prometheus.Gauge
}

func newMetrics(lane string, store *repo.Store, rdb redis.UniversalClient) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		orders: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "seckill_order_seconds", Help: "Time to decide a purchase, by outcome (ok, sold_out, duplicate_order, ...).",
			ConstLabels: prometheus.Labels{"lane": lane},
			Buckets:     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"outcome"}),
		locks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_lock_events_total", Help: "Events of locks (acquired, not_acquired, released, lost, failed, ...), by kind of lock.",
		}, []string{"lock", "event"}),
	}
	lockBuckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	m.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "seckill_lock_wait_seconds", Help: "Time until a lock was acquired.", Buckets: lockBuckets,
	}, []string{"lock"})
	m.holds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "seckill_lock_hold_seconds", Help: "Time from acquiring a lock to its release or loss.", Buckets: lockBuckets,
	}, []string{"lock"})
	m.batches = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seckill_batch_size", Help: "Purchases per batch (lanes batch and queue).",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})
	m.settled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_queue_settled_total", Help: "Admissions settled by the workers of this process, by outcome (ok, sold_out, ..., dead_letter).",
	}, []string{"outcome"})
	m.settled.WithLabelValues("ok") // the other outcomes appear with their first admission
	m.expired = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "seckill_orders_closed_total", Help: "Orders closed by this process because they were not paid in time.",
	})
	m.payments = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_payments_total", Help: "Events of payments (created, succeeded, failed, refunding, refunded, refund_failed), by provider.",
	}, []string{"provider", "event"})
	m.keys = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_idempotency_keys_total", Help: "Requests with an Idempotency-Key, by outcome (new, replayed, mismatch, takeover, in_progress, lost, unavailable).",
	}, []string{"outcome"})
	m.newReconcileMetrics()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_build_info", Help: "Always 1; the labels describe the build.",
		ConstLabels: prometheus.Labels{"version": version.String(), "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		m.expired, m.payments, backlog{store},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.orders, m.locks, m.waits, m.holds, m.batches, m.settled, m.keys, redisPool{rdb},
		m.findings, m.repairs, m.reconciles, build,
	)
	for name, db := range store.Pools() {
		m.registry.MustRegister(collectors.NewDBStatsCollector(db, store.Dialect()+"_"+name))
	}
	return m
}

// order records the outcome of a purchase. It is a service.OrderObserver.
func (m *metrics) order(err error, took time.Duration) {
	m.orders.WithLabelValues(handler.Outcome(err)).Observe(took.Seconds())
}

// lockEvent records an event of package lock.
func (m *metrics) lockEvent(e lock.Event) {
	m.locks.WithLabelValues(e.Lock, string(e.Kind)).Inc()
	switch e.Kind {
	case lock.EventAcquired:
		m.waits.WithLabelValues(e.Lock).Observe(e.Wait.Seconds())
	case lock.EventReleased, lock.EventLost:
		m.holds.WithLabelValues(e.Lock).Observe(e.Held.Seconds())
	case lock.EventNotAcquired, lock.EventFailed, lock.EventUncertain, lock.EventRenewFailed:
	}
}

// keyed records the outcome of a request with an Idempotency-Key.
func (m *metrics) keyed(outcome string) { m.keys.WithLabelValues(outcome).Inc() }

// batch records the size of a batch.
func (m *metrics) batch(size int) { m.batches.Observe(float64(size)) }

// closed records n orders that were closed together.
func (m *metrics) closed(n int) { m.expired.Add(float64(n)) }

// payment records an event of a payment.
func (m *metrics) payment(provider, event string) { m.payments.WithLabelValues(provider, event).Inc() }

// opsHandler serves metrics and profiles, for the private port.
func (m *metrics) opsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// backlog exports the overdue work in the database: orders to close and refunds to make. It is the same on every
// server.
type backlog struct{ store *repo.Store }

var (
	backlogOrders  = prometheus.NewDesc("seckill_orders_due", "Expired unpaid orders that are not closed yet.", nil, nil)
	backlogOverdue = prometheus.NewDesc("seckill_orders_oldest_due_seconds", "Time since the oldest expired unpaid order was due to be closed.", nil, nil)
	backlogRefunds = prometheus.NewDesc("seckill_refunds_open", "Payments with a refund that is not completed.", nil, nil)
	backlogOldest  = prometheus.NewDesc("seckill_refunds_oldest_seconds", "How long the oldest open refund has waited.", nil, nil)
)

// Describe implements prometheus.Collector.
func (backlog) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{backlogOrders, backlogOverdue, backlogRefunds, backlogOldest} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It exports nothing while the database does not answer.
func (b backlog) Collect(ch chan<- prometheus.Metric) {
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
}

// redisPool exports the pool statistics of go-redis. The redisprometheus collector of go-redis lacks the number and the
// duration of waits, which the alerts and the dashboard need.
type redisPool struct{ rdb redis.UniversalClient }

var (
	redisConns = prometheus.NewDesc("seckill_redis_pool_connections", "Connections to Redis: idle and total.", []string{"state"}, nil)
	redisWaits = prometheus.NewDesc("seckill_redis_pool_waits_total", "Commands that waited for a connection, by outcome.", []string{"outcome"}, nil)
	redisWait  = prometheus.NewDesc("seckill_redis_pool_wait_seconds_total", "Time that commands waited for a connection.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p redisPool) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{redisConns, redisWaits, redisWait} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p redisPool) Collect(ch chan<- prometheus.Metric) {
	s := p.rdb.PoolStats()
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	ch <- prometheus.MustNewConstMetric(redisConns, gauge, float64(s.TotalConns), "total")
	ch <- prometheus.MustNewConstMetric(redisConns, gauge, float64(s.IdleConns), "idle")
	ch <- prometheus.MustNewConstMetric(redisWaits, counter, float64(s.WaitCount), "served")
	ch <- prometheus.MustNewConstMetric(redisWaits, counter, float64(s.Timeouts), "timeout")
	ch <- prometheus.MustNewConstMetric(redisWait, counter, time.Duration(s.WaitDurationNs).Seconds())
}

// newReconcileMetrics creates the collectors of the reconciler.
func (m *metrics) newReconcileMetrics() {
	m.findings = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "seckill_reconcile_findings", Help: "Vouchers in use with a difference between database, gate and queue, by kind of finding; see docs/reconcile.md.",
	}, []string{"kind"})
	m.repairs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_reconcile_repairs_total", Help: "Findings repaired in the background by rebuilding a gate.",
	}, []string{"kind"})
	m.reconciles = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_reconcile_last_success_timestamp_seconds", Help: "Time of the last background reconciliation that could compare everything.",
	})
	for _, kind := range reconcile.Kinds() { // otherwise a counter first appears with the value 1, and rate() misses its first event
		m.findings.WithLabelValues(string(kind))
		m.repairs.WithLabelValues(string(kind))
	}
}

// reconciled records a round of the reconciler.
func (m *metrics) reconciled(r reconcile.Round) {
	for _, kind := range reconcile.Kinds() {
		m.findings.WithLabelValues(string(kind)).Set(float64(r.Findings[kind]))
		m.repairs.WithLabelValues(string(kind)).Add(float64(r.Repaired[kind]))
	}
	if r.OK {
		m.reconciles.Set(float64(r.At.UnixMilli()) / 1000)
	}
}
