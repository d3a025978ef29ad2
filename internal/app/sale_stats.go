package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/queue"
	"seckill/internal/salestats"
)

// statsChannel carries the sale statistics of each server.
const statsChannel = "seckill:pulse"

// maxPendingStats bounds the messages that wait while Redis is slow. A server sends about one a second.
const maxPendingStats = 8

// saleStats counts what this server does per sale, and exchanges the counters with the other servers.
type saleStats struct {
	rdb        redis.UniversalClient
	log        *slog.Logger
	aggregator *salestats.Aggregator
	pending    chan []byte
}

// newSaleStats returns statistics that count at once and are exchanged while send and receive run.
func newSaleStats(rdb redis.UniversalClient, log *slog.Logger, lane, instance string) *saleStats {
	return &saleStats{
		rdb: rdb, log: log, aggregator: salestats.NewAggregator(instance, lane != "queue"), pending: make(chan []byte, maxPendingStats),
	}
}

// newSaleMonitor returns the monitor that shows live sales to admins. Gate and queue are polled in lane queue only.
func newSaleMonitor(
	lane string, stats *saleStats, subscribers *salestats.Subscribers, store salestats.MonitorStore, gate Gate, workers *queue.Workers,
) *salestats.Monitor {
	cfg := salestats.MonitorConfig{
		Store: store, Aggregator: stats.aggregator, Subscribers: subscribers, Lane: lane, Publish: stats.publish, Log: stats.log,
	}
	if lane == "queue" {
		cfg.Level = gate.Level
		cfg.Lag = func(ctx context.Context) (salestats.QueueLag, error) {
			lag, err := workers.Lag(ctx)
			return salestats.QueueLag{Unsettled: lag.Unsettled, Oldest: lag.Oldest, DeadLetters: lag.Dead}, err
		}
	}
	return salestats.NewMonitor(cfg)
}

// publish queues a message for the other servers. It never blocks: if the queue is full, the message is dropped.
func (s *saleStats) publish(message []byte) {
	select {
	case s.pending <- message:
	default:
	}
}

// send sends queued messages until ctx ends.
func (s *saleStats) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-s.pending:
			if err := s.rdb.Publish(ctx, statsChannel, message).Err(); err != nil && ctx.Err() == nil {
				s.log.Debug("cannot publish sale statistics", "err", err)
			}
		}
	}
}

// receive adds the statistics of the other servers until ctx ends.
func (s *saleStats) receive(ctx context.Context) {
	subscribe(ctx, s.rdb, statsChannel, func(message string) { s.aggregator.Merge([]byte(message), time.Now()) })
}

// batch counts the orders that one batch of lane batch or lock stored.
func (s *saleStats) batch(purchases []domain.Purchase, placed []domain.Placed) {
	s.transaction(len(purchases), func(i int) (int64, error) { return purchases[i].VoucherID, placed[i].Err })
}

// commit wraps the commit of the queue's workers and counts the orders that it stores.
func (s *saleStats) commit(commit queue.CommitFunc) queue.CommitFunc {
	return func(ctx context.Context, as []domain.Admission) []error {
		errs := commit(ctx, as)
		s.transaction(len(errs), func(i int) (int64, error) { return as[i].VoucherID, errs[i] })
		return errs
	}
}

// transaction counts the orders per voucher that one transaction of n purchases stored.
func (s *saleStats) transaction(n int, outcome func(i int) (voucherID int64, err error)) {
	rows := map[int64]int{}
	for i := range n {
		if voucher, err := outcome(i); err == nil {
			rows[voucher]++
		}
	}
	for voucher, stored := range rows {
		s.aggregator.CountBatch(voucher, stored)
	}
}

// settled counts the final outcomes of a settled stream entry. Admissions that are retried are not counted.
func (s *saleStats) settled(p domain.StreamEntry) {
	for i, end := range p.Ends {
		switch {
		case end.Again:
		case end.Dead != "":
			s.aggregator.CountSettled(p.Admissions[i].VoucherID, "dead_letter")
		default:
			s.aggregator.CountSettled(p.Admissions[i].VoucherID, end.Failed)
		}
	}
}
