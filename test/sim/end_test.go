package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
)

const (
	// The first segments of all vouchers are in one shard of the gate, and the others in the next shards.
	firstVoucher = 7
	maxSegments  = 3
	shards       = 16
	firstPrice   = 100
)

// drawVouchers draws one to three sales.
func drawVouchers(t *rapid.T) []domain.Voucher {
	vouchers := make([]domain.Voucher, evenly(t, "vouchers", 1, 2, 3))
	begin, end := windowTimes("open")
	for i := range vouchers {
		units := evenly[int64](t, "units", 1, 2, 3, 4, 5)
		vouchers[i] = domain.Voucher{
			ID: int64(firstVoucher + shards*i), ShopID: 1, Title: "simulated sale", PayValue: firstPrice, ActualValue: 200,
			Currency: domain.DefaultCurrency, Type: domain.VoucherSeckill, Status: domain.VoucherOn,
			Sale: &domain.Sale{
				InitialStock: units, Stock: units, BeginAt: begin, EndAt: end, LimitPerUser: evenly(t, "limit", 1, 2, 3),
				Segments: evenly(t, "segments", 1, maxSegments),
			},
		}
	}
	return vouchers
}

// open publishes the sales.
func (l *life) open(t *rapid.T, vouchers []domain.Voucher) {
	l.model = newModel()
	for _, v := range vouchers {
		v.CreatedAt, v.UpdatedAt = domain.Moment(time.Now()), domain.Moment(time.Now())
		l.segments[v.ID] = v.Sale.Segments
		require.NoError(l, l.store.CreateVoucher(l.ctx, nil, &v, admin))
		l.model.vouchers[v.ID] = voucher{
			initial: v.Sale.Stock, stock: v.Sale.Stock, price: v.PayValue, limit: v.Sale.LimitPerUser, on: true, window: "open",
		}
		l.model.addAudit(v.ID, 0, "create_voucher", admin)
	}
	l.clearFaults()
}

// windowTimes returns times so far apart that the clocks of the bubble, Redis and the database agree about them.
func windowTimes(window string) (begin, end time.Time) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	switch window {
	case "ended":
		return year(2003), year(2004)
	case "upcoming":
		return year(2100), year(8001)
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
	return evenly(t, "voucher", slices.Sorted(maps.Keys(l.model.vouchers))...)
}

// conclude ends every run: it completes all pending work and requires the state of a run without failures.
func (l *life) conclude(t *rapid.T) {
	l.expireLocks(t)
	for id := range l.model.vouchers { // every sale is open again
		status := domain.VoucherOn
		begin, end := windowTimes("open")
		l.mustPerform(l.changeVoucher(l.servers[0], id, domain.VoucherChange{
			Status: &status, VoucherFields: domain.VoucherFields{BeginAt: &begin, EndAt: &end},
		}, func(v *voucher) { v.on, v.window = true, "open" }))
	}
	wait(l.ctx, maxStaleness)
	l.drain()
	l.replayAll()
	l.settleAll()
	for id := range l.model.vouchers {
		l.sellOut(id)
	}
	wait(l.ctx, 30*time.Second) // limits in bubble time how often rapid shrinks a failure
}

// mustPerform performs an action without faults and checks the database.
func (l *life) mustPerform(d action) {
	l.perform(d)
	l.check()
}

// drain runs workers until the streams are empty.
func (l *life) drain() {
	if l.lane != "queue" {
		return
	}
	for len(l.suspended) > 0 {
		l.continueWorker(l.suspended[0])
		l.check()
	}
	for turns := 0; l.busyStream() != ""; turns++ {
		require.Less(l, turns, 100, "the workers do not finish")
		l.workOnce(completes, true)
		l.check()
	}
	for _, p := range l.reservations {
		require.NotEqual(l, stateQueued, p.state, "order %d is still queued", p.OrderID)
	}
}

// replayAll replays every dead letter after its cause is fixed, and discards those that the sale refuses now.
func (l *life) replayAll() {
	if l.lane != "queue" {
		return
	}
	letters, err := l.gate.DeadLetters(l.ctx, "", 500)
	require.NoError(l, err)
	for _, letter := range letters {
		if !l.replayLetter(letter, true) {
			l.discardLetter(letter)
		}
		l.drain()
	}
	require.False(l, l.anyDeadLetters())
}

// settleAll delivers every notice, closes every unpaid order and returns all money that is due. It then requires that
// only paid orders have kept money.
func (l *life) settleAll() {
	for _, n := range l.bank.notices {
		if !n.delivered.Load() {
			l.mustPerform(l.deliver(l.servers[0], n))
		}
	}
	for id, o := range l.model.orders {
		if o.status == domain.OrderPendingPayment {
			l.expired(id)
		}
	}
	l.mustPerform(l.closeDue(l.servers[1]))
	due := map[string]bool{}
	for ref, p := range l.model.payments {
		if p.status == domain.PaymentRefunding {
			due[ref] = true
			_, err := l.db.ExecContext(l.ctx, "UPDATE payments SET next_try_at = ? WHERE provider_ref = ?", longAgo, ref)
			require.NoError(l, err)
		}
	}
	l.mustPerform(l.returnDue(l.servers[0], due))
	kept, reversed := map[int64]int64{}, map[int64]bool{}
	for _, a := range l.bank.accounts {
		reversed[a.order] = reversed[a.order] || a.reversed
		if a.taken && !a.returned {
			kept[a.order] += a.amount
		}
	}
	for id, money := range kept {
		require.True(l, money == 0 || l.model.orders[id].amount > 0, "%d kept for unknown order %d", money, id)
	}
	for id, o := range l.model.orders {
		want := int64(0)
		if o.status == domain.OrderPaid || o.status == domain.OrderRedeemed {
			want = o.amount
		}
		if o.status == domain.OrderRedeemed && reversed[id] && kept[id] == 0 {
			continue
		}
		require.Equal(l, want, kept[id], "money kept for order %d, which is %s", id, o.status)
		require.True(l, o.status.Final() || o.status == domain.OrderPaid, "order %d ends as %s", id, o.status)
	}
}

// sellOut requires that every free unit can be bought, and no more.
func (l *life) sellOut(id int64) {
	const stranger = 1000
	l.mustPerform(l.addStock(l.servers[0], id, 1))
	l.buyAs(stranger, id) // the lane uses the sale, so reconciliation includes its gate
	l.drain()
	if l.lane == "queue" {
		l.reconcile(l.servers[0])
		wait(l.ctx, maxStaleness)
		l.checkExact(id)
	}
	for user := int64(stranger + 1); l.model.vouchers[id].stock > 0; user++ {
		require.Equal(l, "ok", l.buyAs(user, id), "%d units of voucher %d are left", l.model.vouchers[id].stock, id)
		l.drain()
	}
	require.Equal(l, "sold_out", l.buyAs(stranger-1, id))
	v := l.model.vouchers[id]
	require.Equal(l, v.initial+v.added, l.model.active(id), "orders of voucher %d, which is sold out", id)
}

// buyAs performs one purchase without faults.
func (l *life) buyAs(user, id int64) string {
	b, at, g := &click{user: user, voucher: id}, l.servers[0], l.gates()
	o, err := at.orders.Place(l.ctx, user, id, 0)
	b.order, b.answer = o.ID, errorCode(err)
	l.latest = l.readSnapshot()
	l.applyClicks(at, []*click{b}, g)
	l.check()
	return b.answer
}

// checkExact requires that, after reconciliation, the gate has the same counters and checksum as the database.
func (l *life) checkExact(id int64) {
	sale, err := l.real.SaleLevel(l.ctx, id)
	require.NoError(l, err)
	level, err := l.gate.Level(l.ctx, id)
	require.NoError(l, err)
	level.Version, level.Users, level.Built = 0, 0, 0
	require.Equal(l, admission.Level{Stock: sale.Stock, Held: sale.Active, Sum: sale.Sum}, level, "gate of voucher %d", id)
	delete(l.gateStale, id)
}
