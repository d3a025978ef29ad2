package app

import (
	"context"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"seckill/internal/handler"
	"seckill/internal/lock"
	"seckill/internal/ops/reconcile"
	"seckill/internal/ops/tracing"
	"seckill/internal/repo"
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
	admitted prometheus.Counter
	payments *prometheus.CounterVec
	keys     *prometheus.CounterVec

	// Of the reconciler.
	findings   *prometheus.GaugeVec
	repairs    *prometheus.CounterVec
	reconciles prometheus.Gauge
}

func newMetrics(lane string, store *repo.Store, rdb redis.UniversalClient) *metrics {
	registry := prometheus.NewRegistry()
	registered := promauto.With(registry)
	lockBuckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

	m := &metrics{
		registry: registry,
		orders: registered.NewHistogramVec(prometheus.HistogramOpts{
			Name:        "seckill_order_seconds",
			Help:        "Time to decide a purchase, by outcome (ok, sold_out, duplicate_order, ...).",
			ConstLabels: prometheus.Labels{"lane": lane},
			Buckets:     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"outcome"}),
		locks: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_lock_events_total", Help: "Events of locks (acquired, not_acquired, released, lost, failed, ...), by kind of lock.",
		}, []string{"lock", "event"}),
		waits: registered.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "seckill_lock_wait_seconds",
			Help:    "Time until a lock was acquired.",
			Buckets: lockBuckets,
		}, []string{"lock"}),
		holds: registered.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "seckill_lock_hold_seconds",
			Help:    "Time from acquiring a lock to its release or loss.",
			Buckets: lockBuckets,
		}, []string{"lock"}),
		batches: registered.NewHistogram(prometheus.HistogramOpts{
			Name:    "seckill_batch_size",
			Help:    "Purchases that one transaction decided together; in lane queue, one script.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		settled: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_queue_settled_total", Help: "Admissions settled by the workers of this process, by outcome (ok, sold_out, ..., dead_letter).",
		}, []string{"outcome"}),
		expired: registered.NewCounter(prometheus.CounterOpts{
			Name: "seckill_orders_closed_total", Help: "Orders closed by this process because they were not paid in time.",
		}),
		admitted: registered.NewCounter(prometheus.CounterOpts{
			Name: "seckill_room_admitted_total", Help: "Buyers that this process admitted from waiting rooms.",
		}),
		payments: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_payments_total", Help: "Events of payments (created, succeeded, failed, refunding, refunded, disputed, refund_failed, unread), by provider.",
		}, []string{"provider", "event"}),
		keys: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_idempotency_keys_total", Help: "Requests with an Idempotency-Key, by outcome (new, replayed, mismatch, takeover, in_progress, lost, unavailable).",
		}, []string{"outcome"}),
		findings: registered.NewGaugeVec(prometheus.GaugeOpts{
			Name: "seckill_reconcile_findings", Help: "Vouchers in use with a difference between database, gate and queue, by kind of finding; see docs/operations.md.",
		}, []string{"kind"}),
		repairs: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_reconcile_repairs_total", Help: "Findings repaired in the background by rebuilding a gate.",
		}, []string{"kind"}),
		reconciles: registered.NewGauge(prometheus.GaugeOpts{
			Name: "seckill_reconcile_last_success_timestamp_seconds", Help: "Time of the last background reconciliation that could compare everything.",
		}),
	}

	registered.NewGauge(prometheus.GaugeOpts{
		Name:        "seckill_build_info",
		Help:        "Always 1; the labels describe the build.",
		ConstLabels: prometheus.Labels{"version": Version(), "goversion": runtime.Version()},
	}).Set(1)

	// Otherwise a counter first appears with what it has counted since the last scrape, which rate() and increase() miss: a
	// whole rush. The other outcomes of purchases and of the queue appear with their first one.
	m.orders.WithLabelValues("ok")
	m.settled.WithLabelValues("ok")
	for _, kind := range reconcile.Kinds() {
		m.findings.WithLabelValues(string(kind))
		m.repairs.WithLabelValues(string(kind))
	}

	registry.MustRegister(
		backlogCollector(store), poolCollector(rdb),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for name, db := range store.Pools() {
		registry.MustRegister(collectors.NewDBStatsCollector(db, store.Dialect()+"_"+name))
	}

	return m
}

func (m *metrics) order(ctx context.Context, err error, took time.Duration) {
	tracing.Observe(ctx, m.orders.WithLabelValues(handler.Outcome(err)), took.Seconds())
}

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

func (m *metrics) keyed(outcome string) { m.keys.WithLabelValues(outcome).Inc() }

func (m *metrics) batch(size int) { m.batches.Observe(float64(size)) }

func (m *metrics) closed(n int) { m.expired.Add(float64(n)) }

func (m *metrics) roomAdmitted(n int) { m.admitted.Add(float64(n)) }

func (m *metrics) payment(provider, event string) { m.payments.WithLabelValues(provider, event).Inc() }

// opsHandler serves the metrics and profiles. With exemplars it offers OpenMetrics, which alone has them. Prometheus prefers
// that format and would write labels of buckets anew (le="1.0"), so it is off without traces.
func (m *metrics) opsHandler(exemplars bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: exemplars}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (m *metrics) reconciled(r reconcile.Round) {
	for _, kind := range reconcile.Kinds() {
		m.findings.WithLabelValues(string(kind)).Set(float64(r.Findings[kind]))
		m.repairs.WithLabelValues(string(kind)).Add(float64(r.Repaired[kind]))
	}
	if r.OK {
		m.reconciles.Set(float64(r.At.UnixMilli()) / 1000)
	}
}
