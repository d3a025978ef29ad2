package app

import (
	"context"

	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/queue"
)

// saleStats counts what this server does per sale.
type saleStats struct{ counters *salestats.Counters }

func (w *wiring) newSaleMonitor(l *lanes, subscribers *salestats.Subscribers) *salestats.Monitor {
	cfg := salestats.MonitorConfig{
		Store:       w.store,
		Counters:    l.stats.counters,
		History:     &salestats.RedisHistory{Redis: w.rdb, Instance: l.gate.Instance()},
		Subscribers: subscribers,
		Stock:       l.sales.Stock,
		Gate:        l.mode.stock,
		Lane:        w.cfg.OrderLane,
		Log:         w.log,
	}

	if w.cfg.OrderLane == "queue" {
		cfg.Lag = l.gate.Lag
	}

	return salestats.NewMonitor(cfg)
}

func (s saleStats) batch(purchases []domain.Purchase, placed []domain.Placed) {
	s.transaction(len(purchases), func(i int) (int64, error) { return purchases[i].VoucherID, placed[i].Err })
}

func (s saleStats) commit(commit queue.CommitFunc) queue.CommitFunc {
	return func(ctx context.Context, as []domain.Admission) []error {
		errs := commit(ctx, as)
		s.transaction(len(errs), func(i int) (int64, error) { return as[i].VoucherID, errs[i] })
		return errs
	}
}

func (s saleStats) transaction(n int, outcome func(i int) (voucherID int64, err error)) {
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
