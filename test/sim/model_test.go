package sim

import (
	"maps"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
)

// model holds the contents of the tables, expected or read from the database.
type model struct {
	vouchers map[int64]voucher
	orders   map[int64]order
	payments map[string]payment // by reference
	audit    map[auditEntry]int
}

type voucher struct {
	initial, stock, price int64
	added, changes        int64 // sum and number of stock_changes
	limit                 int
	on                    bool
	window                string // "open", "ended" or "upcoming"
}

type order struct {
	user, voucher, amount               int64
	status                              domain.OrderStatus
	slot                                bool
	paid, redeemed, cancelled, refunded bool // the timestamp is set
}

type payment struct {
	order    int64
	provider string
	amount   int64
	status   domain.PaymentStatus
}

type auditEntry struct {
	voucher, order int64
	action         string
	by             domain.Actor
}

func newModel() model {
	return model{vouchers: map[int64]voucher{}, orders: map[int64]order{}, payments: map[string]payment{}, audit: map[auditEntry]int{}}
}

func (m model) clone() model {
	return model{maps.Clone(m.vouchers), maps.Clone(m.orders), maps.Clone(m.payments), maps.Clone(m.audit)}
}

var (
	system   = domain.Actor{Kind: domain.ActorSystem}
	provider = domain.Actor{Kind: domain.ActorProvider}
	admin    = domain.Actor{Kind: domain.ActorAdmin, ID: adminID}
)

func buyer(user int64) domain.Actor { return domain.Actor{Kind: domain.ActorBuyer, ID: user} }

func (m model) held(user, voucher int64) int {
	n := 0
	for _, o := range m.orders {
		if o.user == user && o.voucher == voucher && o.status.Active() {
			n++
		}
	}
	return n
}

func (m model) active(voucher int64) (n int64) {
	for _, o := range m.orders {
		if o.voucher == voucher && o.status.Active() {
			n++
		}
	}
	return n
}

// The effects of actions follow. Each applies its changes and audit entries, or returns the code of its refusal and
// changes nothing.

// move applies a status transition. The rules are written out here instead of taken from the table under test.
func (m model) move(id int64, action string, by domain.Actor) string {
	o := m.orders[id]
	pending, paid := o.status == domain.OrderPendingPayment, o.status == domain.OrderPaid
	switch {
	case action == "pay" && pending:
		o.status, o.paid = domain.OrderPaid, true
	case action == "cancel" && pending, action == "expire" && pending:
		o.status, o.cancelled = domain.OrderCancelled, true
	case action == "redeem" && paid:
		o.status, o.redeemed = domain.OrderRedeemed, true
	case action == "undo_redeem" && o.status == domain.OrderRedeemed && !m.moneyGone(id):
		o.status, o.redeemed = domain.OrderPaid, false
	case action == "refund" && paid:
		o.status = domain.OrderRefunding
	case action == "refunded" && o.status == domain.OrderRefunding:
		o.status, o.refunded = domain.OrderRefunded, true
	default:
		return "invalid_state"
	}
	if o.cancelled || o.refunded {
		o.slot = false
		v := m.vouchers[o.voucher]
		v.stock++
		m.vouchers[o.voucher] = v
	}
	m.orders[id] = o
	m.addAudit(o.voucher, id, action, by)
	return "ok"
}

// moneyGone reports whether the money of an order has gone back and no other payment replaces it.
func (m model) moneyGone(id int64) bool {
	gone := false
	for _, p := range m.payments {
		if p.order == id && p.status == domain.PaymentSucceeded {
			return false
		}
		gone = gone || p.order == id && p.status.Returned()
	}
	return gone
}

func (m model) addAudit(voucher, order int64, action string, by domain.Actor) {
	m.audit[auditEntry{voucher, order, action, by}]++
}

func (m model) owned(user, id int64) bool {
	o, ok := m.orders[id]
	return ok && o.user == user
}

func (m model) place(id int64, o order) {
	m.orders[id] = o
	v := m.vouchers[o.voucher]
	v.stock--
	m.vouchers[o.voucher] = v
}

// pay begins a payment or returns the pending one. The reference of a new payment is read from the database in now.
func (m model) pay(id int64, provider string, now *snapshot) (ref, code string) {
	if m.orders[id].status != domain.OrderPendingPayment {
		return "", "invalid_state"
	}
	for ref, p := range m.payments {
		if p.order == id && p.provider == provider && p.status == domain.PaymentPending {
			return ref, "ok"
		}
	}
	ref = "missing"
	for r, p := range now.payments {
		if _, known := m.payments[r]; !known && p.order == id && p.provider == provider && strings.HasPrefix(r, "pay_") {
			ref = r
		}
	}
	m.payments[ref] = payment{order: id, provider: provider, amount: m.orders[id].amount, status: domain.PaymentPending}
	return ref, "ok"
}

func (m model) settle(name string, n domain.PaymentNotice) string {
	o := m.orders[n.OrderID] // zero if the order does not exist
	p, known := m.payments[n.Ref]
	switch {
	case !known && n.Result != domain.PaymentSucceeded:
		return "not_found"
	case !known:
		p = payment{order: n.OrderID, provider: name, amount: o.amount, status: domain.PaymentPending}
	case p.order != n.OrderID || p.provider != name:
		return "invalid"
	}
	open := !p.status.Received()
	if n.Result.Received() && (!open || n.Result.Returned()) && p.amount != n.Amount {
		return "invalid"
	}
	if n.Result.Received() {
		p.amount = n.Amount
	}
	switch {
	case n.Result == domain.PaymentRefunded || n.Result == domain.PaymentDisputed:
		m.payments[n.Ref] = p
		m.reverse(n.Ref, n.Result)
		p = m.payments[n.Ref]
	case open && n.Result == domain.PaymentFailed:
		p.status = domain.PaymentFailed
	case open && known && o.status == domain.OrderPendingPayment && n.Amount == o.amount:
		p.status = domain.PaymentSucceeded
		m.move(n.OrderID, "pay", provider)
	case open:
		p.status = domain.PaymentRefunding
		m.addAudit(o.voucher, n.OrderID, "return_money", provider)
	}
	m.payments[n.Ref] = p
	return "ok " + p.status.String() + " " + m.orders[n.OrderID].status.String()
}

// reverse applies a notice that the money of a payment went back at the provider.
func (m model) reverse(ref string, result domain.PaymentStatus) {
	p := m.payments[ref]
	was, o := p.status, m.orders[p.order]
	if was == result || was == domain.PaymentDisputed {
		return
	}
	p.status = result
	m.payments[ref] = p
	if result == domain.PaymentDisputed {
		m.addAudit(o.voucher, p.order, "dispute", provider)
	}
	if was == domain.PaymentRefunded {
		return
	}
	if was == domain.PaymentSucceeded && o.status == domain.OrderPaid {
		m.move(p.order, "refund", provider)
	}
	m.moneyReturned(p.order)
}

func (m model) refund(user, id int64) string {
	if code := m.move(id, "refund", buyer(user)); code != "ok" {
		return code
	}
	for ref, p := range m.payments {
		if p.order == id && p.status == domain.PaymentSucceeded {
			p.status = domain.PaymentRefunding
			m.payments[ref] = p
			return "ok"
		}
	}
	return m.move(id, "refunded", system)
}

// finishRefund applies the provider's confirmation that money was returned.
func (m model) finishRefund(ref string) {
	p := m.payments[ref]
	if p.status != domain.PaymentRefunding {
		return
	}
	p.status = domain.PaymentRefunded
	m.payments[ref] = p
	m.moneyReturned(p.order)
}

// moneyReturned ends an order that is being refunded when all of its money has gone back.
func (m model) moneyReturned(id int64) {
	o, open := m.orders[id], false
	for _, p := range m.payments {
		kept := p.status == domain.PaymentSucceeded || p.status == domain.PaymentRefunding
		open = open || p.order == id && kept
	}
	if o.status == domain.OrderRefunding && !open {
		m.move(id, "refunded", provider)
		return
	}
	m.addAudit(o.voucher, id, "money_returned", provider)
}

func (m model) stock(id, delta int64) string {
	v := m.vouchers[id]
	if v.stock+delta < 0 {
		return "invalid_state"
	}
	v.stock, v.added, v.changes = v.stock+delta, v.added+delta, v.changes+1
	m.vouchers[id] = v
	m.addAudit(id, 0, "change_stock", admin)
	return "ok"
}

// change applies any other change of a voucher by an admin.
func (m model) change(id int64, change func(*voucher)) string {
	v := m.vouchers[id]
	limit := v.limit
	if change(&v); v.limit < limit {
		return "invalid_state"
	}
	m.vouchers[id] = v
	m.addAudit(id, 0, "change_voucher", admin)
	return "ok"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

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

func (l *life) addStock(at *server, id, delta int64) action {
	short := false // the gate refuses to remove more units than are free; a cold gate does not refuse
	if l.lane == "queue" && delta < 0 {
		level, err := l.gate.Level(l.ctx, id)
		short = err == nil && level.Stock+delta < 0
	}
	return action{name: "change stock by " + number(delta), at: at, do: func() string {
		return codeOf(at.vouchers.ChangeStock(l.ctx, nil, adminID, id, delta, "a reason"))
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
		ch.BeginAt, ch.EndAt, change = &domain.Time{Time: begin}, &domain.Time{Time: end}, func(v *voucher) { v.window = window }
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
		return codeOf(at.vouchers.Change(l.ctx, adminID, id, ch))
	}, effect: func(m model, _ *snapshot) string { return m.change(id, change) }}
}
