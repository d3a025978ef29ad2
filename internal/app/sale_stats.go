package app

import (
	"context"
	"log/slog"
	"math"

	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/queue"
	"seckill/internal/service"
)

// saleStats counts what this server does per sale.
type saleStats struct{ counters *salestats.Counters }

// newSaleMonitor returns the monitor that shows live sales to admins. Gate and queue are polled in lane queue only.
func newSaleMonitor(
	lane string, stats *saleStats, history *salestats.RedisHistory, subscribers *salestats.Subscribers, store salestats.MonitorStore,
	sales *service.Sales, gate Gate, workers *queue.Workers, log *slog.Logger,
) *salestats.Monitor {
	cfg := salestats.MonitorConfig{
		Store: store, Counters: stats.counters, History: history, Subscribers: subscribers, Stock: sales.Stock, Lane: lane, Log: log,
	}

	if lane == "queue" {
		cfg.Level = gate.Level

		cfg.Lag = func(ctx context.Context) (salestats.QueueLag, error) {
			lag, err := workers.Lag(ctx)
			return salestats.QueueLag{
				Unsettled:   lag.Unsettled,
				Oldest:      math.Round(lag.Oldest.Seconds()*1000) / 1000,
				DeadLetters: lag.Dead,
			}, err
		}
	}

	return salestats.NewMonitor(cfg)
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
		s.counters.CountBatch(voucher, stored)
	}
}

func (s *saleStats) settled(p domain.StreamEntry) {
	for i, end := range p.Ends {
		switch {
		case end.Again:
		case end.Dead != "":
			s.counters.CountSettled(p.Admissions[i].VoucherID, "dead_letter")
		default:
			s.counters.CountSettled(p.Admissions[i].VoucherID, end.Failed)
		}
	}
}
