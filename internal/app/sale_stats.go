package app

import (
	"context"

	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/lane"
)

func (w *wiring) newSaleMonitor(l *lanes, subscribers *salestats.Subscribers) *salestats.Monitor {
	cfg := salestats.MonitorConfig{
		Store:       w.store,
		Counters:    l.counters,
		History:     &salestats.RedisHistory{Redis: w.rdb, Instance: w.instance},
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

// countedOrders counts the orders that each transaction stores, by sale.
type countedOrders struct {
	lane.OrderPlacer
	count func(voucherID int64, rows int)
}

// PlaceOrders implements lane.OrderPlacer.
func (c countedOrders) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	placed := c.OrderPlacer.PlaceOrders(ctx, orders)

	rows := map[int64]int{}
	for i := range placed {
		p := &placed[i]
		if p.Err == nil && !p.Before && !p.Replayed {
			rows[orders[i].VoucherID]++
		}
	}

	for voucher, stored := range rows {
		c.count(voucher, stored)
	}

	return placed
}
