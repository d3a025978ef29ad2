package sim_test

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/service"
	"seckill/internal/sim"
)

const (
	// firstVoucher and the others are in one shard of the gate: one stream has all their admissions.
	firstVoucher = 7
	shards       = 16
	firstPrice   = 100
)

// drawVouchers makes one to three sales.
func drawVouchers(t *rapid.T) []service.Voucher {
	vouchers := make([]service.Voucher, sim.Evenly(t, "vouchers", 1, 2, 3))
	begin, end := windowTimes("open")
	for i := range vouchers {
		units := sim.Evenly[int64](t, "units", 1, 2, 3, 4, 5)
		vouchers[i] = service.Voucher{
			ID: int64(firstVoucher + shards*i), ShopID: 1, Title: "of a life", PayValue: firstPrice, ActualValue: 200,
			Currency: service.DefaultCurrency, Type: service.VoucherSeckill, Status: service.VoucherOn,
			Sale: &service.Sale{
				InitialStock: units, Stock: units, BeginAt: begin, EndAt: end, LimitPerUser: sim.Evenly(t, "limit", 1, 2, 3),
			},
		}
	}
	return vouchers
}

// open publishes the sales.
func (l *life) open(t *rapid.T, vouchers []service.Voucher) {
	l.books = newBooks()
	for _, v := range vouchers {
		v.CreatedAt, v.UpdatedAt = service.Moment(time.Now()), service.Moment(time.Now())
		require.NoError(l, l.store.CreateVoucher(l.ctx, &v, admin))
		l.books.vouchers[v.ID] = voucher{
			initial: v.Sale.Stock, stock: v.Sale.Stock, price: v.PayValue, limit: v.Sale.LimitPerUser, on: true, window: "open",
		}
		l.books.note(v.ID, 0, "create_voucher", admin)
	}
	l.calm()
}

// windowTimes are far away, so that the clocks of bubble, Redis and database agree about them.
func windowTimes(window string) (begin, end time.Time) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	switch window {
	case "ended":
		return year(2003), year(2004)
	case "upcoming":
		return year(8000), year(8001)
	}
	return year(2003), year(8001)
}

func windowOf(begin, end time.Time) string {
	for _, window := range []string{"open", "ended", "upcoming"} {
		if b, e := windowTimes(window); b.Equal(begin) && e.Equal(end) {
			return window
		}
	}
	return "from " + begin.String() + " to " + end.String()
}

func (l *life) anyVoucher(t *rapid.T) int64 {
	return sim.Evenly(t, "voucher", slices.Sorted(maps.Keys(l.books.vouchers))...)
}

// conclude is the end of every run: all that was begun comes to its end, and all must be as if nothing had ever failed.
func (l *life) conclude(t *rapid.T) {
	l.unlock(t)
	for id := range l.books.vouchers { // all can be bought again
		status := service.VoucherOn
		begin, end := windowTimes("open")
		l.do(l.changes(l.shops[0], id, service.VoucherChange{
			Status: &status, VoucherFields: service.VoucherFields{BeginAt: &begin, EndAt: &end},
		}, func(v *voucher) { v.on, v.window = true, "open" }))
	}
	wait(l.ctx, knowsAgain)
	l.drain()
	l.settleAll()
	for id := range l.books.vouchers {
		l.sellOut(id)
	}
	wait(l.ctx, 30*time.Second) // so that the bubble's clock bounds how often rapid makes a failure shorter
}

// do is a deed that nothing disturbs.
func (l *life) do(d deed) {
	l.perform(d)
	l.check()
}

// drain lets workers do all that there is.
func (l *life) drain() {
	if l.lane != "queue" {
		return
	}
	for turns := 0; l.rdb.XLen(l.ctx, l.stream).Val() > 0; turns++ {
		require.Less(l, turns, 100, "the workers do not come to an end")
		l.workOnce(survives)
		l.check()
	}
	for _, p := range l.promises {
		require.NotEqual(l, waiting, p.standing, "order %d never ended", p.OrderID)
	}
}

// settleAll: every notice arrives, every order that waits for its money is closed, and all money goes back that shall.
// Then no order has kept money that it should not have.
func (l *life) settleAll() {
	for _, n := range l.bank.notices {
		if !n.heard.Load() {
			l.do(l.deliver(l.shops[0], n))
		}
	}
	for id, o := range l.books.orders {
		if o.status == service.OrderPendingPayment {
			l.expired(id)
		}
	}
	l.do(l.close1(l.shops[1]))
	due := map[string]bool{}
	for ref, p := range l.books.payments {
		if p.status == service.PaymentRefunding {
			due[ref] = true
			_, err := l.db.ExecContext(l.ctx, "UPDATE payments SET next_try_at = ? WHERE provider_ref = ?", longAgo, ref)
			require.NoError(l, err)
		}
	}
	l.do(l.returnDue(l.shops[0], due))
	kept := map[int64]int64{}
	for _, a := range l.bank.accounts {
		if a.taken && !a.returned {
			kept[a.order] += a.amount
		}
	}
	for id, money := range kept {
		require.True(l, money == 0 || l.books.orders[id].amount > 0, "%d kept for order %d, which does not exist", money, id)
	}
	for id, o := range l.books.orders {
		want := int64(0)
		if o.status == service.OrderPaid || o.status == service.OrderRedeemed {
			want = o.amount
		}
		require.Equal(l, want, kept[id], "money kept for order %d, which is %s", id, o.status)
		require.True(l, o.status.Final() || o.status == service.OrderPaid, "order %d ends as %s", id, o.status)
	}
}

// sellOut: every unit that nobody holds can be bought, and not one more.
func (l *life) sellOut(id int64) {
	const stranger = 1000
	l.do(l.adds(l.shops[0], id, 1))
	l.buyAs(stranger, id) // so that the lane knows the sale, and its audit looks at the gate
	l.drain()
	if l.lane == "queue" {
		l.audit(l.shops[0])
		wait(l.ctx, knowsAgain)
		l.checkExact(id)
	}
	for user := int64(stranger + 1); l.books.vouchers[id].stock > 0; user++ {
		require.Equal(l, "ok", l.buyAs(user, id), "%d units of voucher %d are left", l.books.vouchers[id].stock, id)
		l.drain()
	}
	require.Equal(l, "sold_out", l.buyAs(stranger-1, id))
	v := l.books.vouchers[id]
	require.Equal(l, v.initial+v.added, l.books.active(id), "orders of voucher %d, which is sold out", id)
}

// buyAs is a click that nothing disturbs.
func (l *life) buyAs(user, id int64) string {
	b, at, g := &click{user: user, voucher: id}, l.shops[0], l.gates()
	o, err := at.orders.Place(l.ctx, user, id, 0)
	b.order, b.answer = o.ID, word(err)
	l.now = l.look()
	l.bought(at, []*click{b}, g)
	l.check()
	return b.answer
}

// checkExact: after the audit, the gate has the numbers of the database and the same orders, without excuses.
func (l *life) checkExact(id int64) {
	sale, err := l.real.SaleLevel(l.ctx, id)
	require.NoError(l, err)
	level, err := l.gate.Level(l.ctx, id)
	require.NoError(l, err)
	level.Version, level.Users, level.Built = 0, 0, 0
	require.Equal(l, admission.Level{Stock: sale.Stock, Held: sale.Active, Sum: sale.Sum}, level, "gate of voucher %d", id)
	delete(l.gateOff, id)
}
