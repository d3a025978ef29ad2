package redisconn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// NewPoolCollector returns the metrics of a client's pool of connections.
func NewPoolCollector(rdb redis.UniversalClient) prometheus.Collector { return poolCollector{rdb} }

// poolCollector exports the pool statistics of go-redis. The redisprometheus collector of go-redis lacks the number and the
// duration of waits, which the alerts and the dashboard need.
type poolCollector struct{ rdb redis.UniversalClient }

var (
	poolConns = prometheus.NewDesc("seckill_redis_pool_connections", "Connections to Redis: idle and total.", []string{"state"}, nil)
	poolWaits = prometheus.NewDesc("seckill_redis_pool_waits_total", "Commands that waited for a connection, by outcome.", []string{"outcome"}, nil)
	poolWait  = prometheus.NewDesc("seckill_redis_pool_wait_seconds_total", "Time that commands waited for a connection.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolWaits, poolWait} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p poolCollector) Collect(ch chan<- prometheus.Metric) {
	s := p.rdb.PoolStats()
	gauge := prometheus.GaugeValue
	counter := prometheus.CounterValue
	ch <- prometheus.MustNewConstMetric(poolConns, gauge, float64(s.TotalConns), "total")
	ch <- prometheus.MustNewConstMetric(poolConns, gauge, float64(s.IdleConns), "idle")
	ch <- prometheus.MustNewConstMetric(poolWaits, counter, float64(s.WaitCount), "served")
	ch <- prometheus.MustNewConstMetric(poolWaits, counter, float64(s.Timeouts), "timeout")
	ch <- prometheus.MustNewConstMetric(poolWait, counter, time.Duration(s.WaitDurationNs).Seconds())
}
