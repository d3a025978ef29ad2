package sim_test

import (
	"maps"
	"strconv"
	"strings"

	"seckill/internal/service"
)

// books are the tables of the database, as far as the model looks at them: what they hold, or what they must hold.
type books struct {
	vouchers map[int64]voucher
	orders   map[int64]order
	payments map[string]payment // by their references
	audit    map[entry]int
}

type voucher struct {
	initial, stock, price int64
	added, changes        int64 // the sum and the number of stock_changes
	limit                 int
	on                    bool
	window                string // open, ended or upcoming
}

type order struct {
	user, voucher, amount             int64
	status                            service.OrderStatus
	slot                              bool
	paid, redeemed, cancelled, repaid bool // has a time when it was
}

type payment struct {
	order    int64
	provider string
	amount   int64
	status   service.PaymentStatus
}

// entry is a line of the audit log.
type entry struct {
	voucher, order int64
	action         string
	by             service.Actor
}

func newBooks() books {
	return books{vouchers: map[int64]voucher{}, orders: map[int64]order{}, payments: map[string]payment{}, audit: map[entry]int{}}
}

func (b books) clone() books {
	return books{maps.Clone(b.vouchers), maps.Clone(b.orders), maps.Clone(b.payments), maps.Clone(b.audit)}
}

var (
	system   = service.Actor{Kind: service.ActorSystem}
	provider = service.Actor{Kind: service.ActorProvider}
	admin    = service.Actor{Kind: service.ActorAdmin, ID: adminID}
)

func buyer(user int64) service.Actor { return service.Actor{Kind: service.ActorBuyer, ID: user} }

// held counts the active orders of a user.
func (b books) held(user, voucher int64) int {
	n := 0
	for _, o := range b.orders {
		if o.user == user && o.voucher == voucher && o.status.Active() {
			n++
		}
	}
	return n
}

// active counts the active orders of a voucher.
func (b books) active(voucher int64) (n int64) {
	for _, o := range b.orders {
		if o.voucher == voucher && o.status.Active() {
			n++
		}
	}
	return n
}

// The effects of steps. Each makes its entries, or returns the word for why it is refused and changes nothing.

// move is any move of an order. It is written out here, and not taken from the table that it tests.
func (b books) move(id int64, action string, by service.Actor) string {
	o := b.orders[id]
	pending, paid := o.status == service.OrderPendingPayment, o.status == service.OrderPaid
	switch {
	case action == "pay" && pending:
		o.status, o.paid = service.OrderPaid, true
	case action == "cancel" && pending, action == "expire" && pending:
		o.status, o.cancelled = service.OrderCancelled, true
	case action == "redeem" && paid:
		o.status, o.redeemed = service.OrderRedeemed, true
	case action == "refund" && paid:
		o.status = service.OrderRefunding
	case action == "refunded" && o.status == service.OrderRefunding:
		o.status, o.repaid = service.OrderRefunded, true
	default:
		return "invalid_state"
	}
	if o.cancelled || o.repaid {
		o.slot = false
		v := b.vouchers[o.voucher]
		v.stock++
		b.vouchers[o.voucher] = v
	}
	b.orders[id] = o
	b.note(o.voucher, id, action, by)
	return "ok"
}

func (b books) note(voucher, order int64, action string, by service.Actor) {
	b.audit[entry{voucher, order, action, by}]++
}

// owned says whether the order is there and the user's.
func (b books) owned(user, id int64) bool {
	o, ok := b.orders[id]
	return ok && o.user == user
}

// place is an order that was stored.
func (b books) place(id int64, o order) {
	b.orders[id] = o
	v := b.vouchers[o.voucher]
	v.stock--
	b.vouchers[o.voucher] = v
}

// pay begins a payment, or finds the one that was begun. A new one has the reference that is found in now.
func (b books) pay(id int64, provider string, now *picture) (ref, word string) {
	if b.orders[id].status != service.OrderPendingPayment {
		return "", "invalid_state"
	}
	for ref, p := range b.payments {
		if p.order == id && p.provider == provider && p.status == service.PaymentPending {
			return ref, "ok"
		}
	}
	ref = "missing"
	for r, p := range now.payments {
		if _, known := b.payments[r]; !known && p.order == id && p.provider == provider && strings.HasPrefix(r, "pay_") {
			ref = r
		}
	}
	b.payments[ref] = payment{order: id, provider: provider, amount: b.orders[id].amount, status: service.PaymentPending}
	return ref, "ok"
}

// settle is a notice of a payment.
func (b books) settle(name string, n service.PaymentNotice) string {
	o := b.orders[n.OrderID] // which may be missing
	p, known := b.payments[n.Ref]
	switch {
	case !known:
		p = payment{order: n.OrderID, provider: name, amount: o.amount, status: service.PaymentPending}
	case p.order != n.OrderID || p.provider != name:
		return "invalid"
	}
	open := !p.status.MoneyCame()
	if n.Succeeded && !open && p.amount != n.Amount {
		return "invalid"
	}
	if n.Succeeded {
		p.amount = n.Amount
	}
	switch {
	case open && !n.Succeeded:
		p.status = service.PaymentFailed
	case open && o.status == service.OrderPendingPayment && n.Amount == o.amount:
		p.status = service.PaymentSucceeded
		b.move(n.OrderID, "pay", provider)
	case open:
		p.status = service.PaymentRefunding
		b.note(o.voucher, n.OrderID, "return_money", provider)
	}
	b.payments[n.Ref] = p
	return "ok " + p.status.String() + " " + b.orders[n.OrderID].status.String()
}

// refund is a buyer who wants his money back.
func (b books) refund(user, id int64) string {
	if word := b.move(id, "refund", buyer(user)); word != "ok" {
		return word
	}
	for ref, p := range b.payments {
		if p.order == id && p.status == service.PaymentSucceeded {
			p.status = service.PaymentRefunding
			b.payments[ref] = p
			return "ok"
		}
	}
	return b.move(id, "refunded", system)
}

// returned is money that has gone back.
func (b books) returned(ref string) {
	p := b.payments[ref]
	if p.status != service.PaymentRefunding {
		return
	}
	p.status = service.PaymentRefunded
	b.payments[ref] = p
	o, open := b.orders[p.order], false
	for _, other := range b.payments {
		kept := other.status == service.PaymentSucceeded || other.status == service.PaymentRefunding
		open = open || other.order == p.order && kept
	}
	if o.status == service.OrderRefunding && !open {
		b.move(p.order, "refunded", provider)
		return
	}
	b.note(o.voucher, p.order, "money_returned", provider)
}

// stock adds units or takes them away.
func (b books) stock(id, delta int64) string {
	v := b.vouchers[id]
	if v.stock+delta < 0 {
		return "invalid_state"
	}
	v.stock, v.added, v.changes = v.stock+delta, v.added+delta, v.changes+1
	b.vouchers[id] = v
	b.note(id, 0, "change_stock", admin)
	return "ok"
}

// change is anything else that an admin changes of a voucher.
func (b books) change(id int64, change func(*voucher)) string {
	v := b.vouchers[id]
	limit := v.limit
	if change(&v); v.limit < limit {
		return "invalid_state"
	}
	b.vouchers[id] = v
	b.note(id, 0, "change_voucher", admin)
	return "ok"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
