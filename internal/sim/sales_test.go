package sim_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/service"
	"seckill/internal/sim"
)

func (l *life) changeStock(t *rapid.T) {
	at, id, delta := l.anyShop(t), l.anyVoucher(t), sim.Evenly[int64](t, "delta", -3, -2, -1, -1, 1, 2, 3)
	l.drawFate(t, 1)
	l.drawGateFate(t)
	l.drawNews(t)
	untold := l.gateFate != ""
	if struck := l.perform(l.adds(at, id, delta)); l.lane == "queue" && delta < 0 && (struck || untold) {
		l.gateMissed(id)
	}
}

// adds is an admin who adds units to a sale, or takes some away.
func (l *life) adds(at *shop, id, delta int64) deed {
	short := false // it refuses what it does not have; one that is cold does not know
	if l.lane == "queue" && delta < 0 {
		level, err := l.gate.Level(l.ctx, id)
		short = err == nil && level.Stock+delta < 0
	}
	return deed{name: "change stock by " + number(delta), at: at, do: func() string {
		_, err := at.vouchers.ChangeStock(l.ctx, adminID, id, delta, "a reason")
		return word(err)
	}, effect: func(b books, _ *picture) string {
		switch {
		case short && l.gateFate != deaf:
			return "invalid_state"
		case delta < 0 && l.gateFate != "": // the gate is asked first
			return "unavailable"
		}
		return b.stock(id, delta)
	}}
}

// gateMissed: what was to be taken away has left the gate, and perhaps not the database.
func (l *life) gateMissed(id int64) {
	level, err := l.gate.Level(l.ctx, id)
	if err != nil {
		return
	}
	stock, _, _ := l.now.gate(id)
	require.LessOrEqual(l, level.Stock-stock, int64(0), "units that the gate of voucher %d has too many", id)
	if level.Stock < stock {
		l.gateOff[id] = true
	}
}

// changeSale is an admin who changes something else of a sale.
func (l *life) changeSale(t *rapid.T) {
	id := l.anyVoucher(t)
	v := l.books.vouchers[id]
	var ch service.VoucherChange
	var change func(*voucher)
	what := sim.Evenly(t, "what", "on", "window", "price", "price", "limit", "limit")
	if closedWord(v) != "" { // not for long
		what = map[bool]string{true: "window", false: "on"}[v.on]
	}
	switch what {
	case "on":
		status := service.VoucherOn
		if v.on {
			status = service.VoucherOff
		}
		ch.Status, change = &status, func(v *voucher) { v.on = status == service.VoucherOn }
	case "window":
		window := "open"
		if v.window == "open" {
			window = sim.Evenly(t, "window", "ended", "upcoming")
		}
		begin, end := windowTimes(window)
		ch.BeginAt, ch.EndAt, change = &begin, &end, func(v *voucher) { v.window = window }
	case "price":
		price := v.price + 1
		ch.PayValue, change = &price, func(v *voucher) { v.price = price }
	case "limit":
		limit := sim.Evenly(t, "limit", 1, 2, 3)
		ch.LimitPerUser, change = &limit, func(v *voucher) { v.limit = limit }
	}
	l.drawFate(t, 1)
	l.drawNews(t)
	l.perform(l.changes(l.anyShop(t), id, ch, change))
}

func (l *life) changes(at *shop, id int64, ch service.VoucherChange, change func(*voucher)) deed {
	return deed{name: "change a sale", at: at, do: func() string {
		_, err := at.vouchers.Change(l.ctx, adminID, id, ch)
		return word(err)
	}, effect: func(b books, _ *picture) string { return b.change(id, change) }}
}
