package sim

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
)

func (l *life) changeStock(t *rapid.T) {
	at, id, delta := l.anyServer(t), l.anyVoucher(t), evenly[int64](t, "delta", -3, -2, -1, -1, 1, 2, 3)
	l.drawFault(t, 1)
	l.drawGateFault(t)
	l.drawLostInvalidation(t)
	untold := l.gateFault != ""
	if injected := l.perform(l.addStock(at, id, delta)); l.lane == "queue" && delta < 0 && (injected || untold) {
		l.checkRemoval(id)
	}
}

// addStock adds units to a sale or removes units.
func (l *life) addStock(at *server, id, delta int64) action {
	short := false // the gate refuses to remove more units than are free; a cold gate does not refuse
	if l.lane == "queue" && delta < 0 {
		level, err := l.gate.Level(l.ctx, id)
		short = err == nil && level.Stock+delta < 0
	}
	return action{name: "change stock by " + number(delta), at: at, do: func() string {
		_, err := at.vouchers.ChangeStock(l.ctx, nil, adminID, id, delta, "a reason")
		return errorCode(err)
	}, effect: func(m model, _ *snapshot) string {
		switch {
		case short && l.gateFault != gateLosesRequest:
			return "invalid_state"
		case delta < 0 && l.gateFault != "": // a removal calls the gate first
			return "unavailable"
		}
		return m.stock(id, delta)
	}}
}

// checkRemoval accounts for units that have left the gate but perhaps not the database.
func (l *life) checkRemoval(id int64) {
	level, err := l.gate.Level(l.ctx, id)
	if err != nil {
		return
	}
	stock := l.latest.gate(id).Stock
	if !l.gateStale[id] {
		require.LessOrEqual(l, level.Stock-stock, int64(0), "units that the gate of voucher %d has too many", id)
	}
	if level.Stock < stock {
		l.gateStale[id] = true
	}
}

// changeSale changes another property of a sale.
func (l *life) changeSale(t *rapid.T) {
	id := l.anyVoucher(t)
	v := l.model.vouchers[id]
	var ch domain.VoucherChange
	var change func(*voucher)
	what := evenly(t, "what", "on", "window", "price", "price", "limit", "limit")
	if closedCode(v) != "" { // a closed sale opens again soon
		what = map[bool]string{true: "window", false: "on"}[v.on]
	}
	switch what {
	case "on":
		status := domain.VoucherOn
		if v.on {
			status = domain.VoucherOff
		}
		ch.Status, change = &status, func(v *voucher) { v.on = status == domain.VoucherOn }
	case "window":
		window := "open"
		if v.window == "open" {
			window = evenly(t, "window", "ended", "upcoming")
		}
		begin, end := windowTimes(window)
		ch.BeginAt, ch.EndAt, change = &begin, &end, func(v *voucher) { v.window = window }
	case "price":
		price := v.price + 1
		ch.PayValue, change = &price, func(v *voucher) { v.price = price }
	case "limit":
		limit := evenly(t, "limit", 1, 2, 3)
		ch.LimitPerUser, change = &limit, func(v *voucher) { v.limit = limit }
	}
	l.drawFault(t, 1)
	l.drawLostInvalidation(t)
	l.perform(l.changeVoucher(l.anyServer(t), id, ch, change))
}

func (l *life) changeVoucher(at *server, id int64, ch domain.VoucherChange, change func(*voucher)) action {
	return action{name: "change a sale", at: at, do: func() string {
		_, err := at.vouchers.Change(l.ctx, adminID, id, ch)
		return errorCode(err)
	}, effect: func(m model, _ *snapshot) string { return m.change(id, change) }}
}
