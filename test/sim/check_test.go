package sim

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
	"seckill/test/env"
)

// snapshot is the content of the database and the stream after a step.
type snapshot struct {
	model
	slots map[int64]int64 // by id of active order
	queue []domain.Admission
	dead  map[int64]bool // orders with a dead letter
}

func (l *life) readSnapshot() *snapshot {
	now := &snapshot{model: newModel(), slots: map[int64]int64{}}
	l.read(`SELECT v.id, s.initial_stock, s.stock, v.pay_value, s.limit_per_user, v.status, s.begin_at, s.end_at
		FROM vouchers v JOIN seckill_vouchers s ON s.voucher_id = v.id`, func(scan func(...any)) {
		var id int64
		var v voucher
		var status domain.VoucherStatus
		var begin, end time.Time
		scan(&id, &v.initial, &v.stock, &v.price, &v.limit, &status, &begin, &end)
		v.on, v.window = status == domain.VoucherOn, windowOf(begin, end)
		now.vouchers[id] = v
	})
	l.read("SELECT voucher_id, SUM(delta), COUNT(*) FROM stock_changes GROUP BY voucher_id", func(scan func(...any)) {
		var id, added, changes int64
		scan(&id, &added, &changes)
		v := now.vouchers[id]
		v.added, v.changes = added, changes
		now.vouchers[id] = v
	})
	l.read(`SELECT id, user_id, voucher_id, amount, status, slot, paid_at IS NOT NULL, redeemed_at IS NOT NULL,
		cancelled_at IS NOT NULL, refunded_at IS NOT NULL FROM voucher_orders`, func(scan func(...any)) {
		var id int64
		var o order
		var slot sql.NullInt64
		scan(&id, &o.user, &o.voucher, &o.amount, &o.status, &slot, &o.paid, &o.redeemed, &o.cancelled, &o.refunded)
		if o.slot = slot.Valid; o.slot {
			now.slots[id] = slot.Int64
		}
		now.orders[id] = o
	})
	l.read("SELECT provider_ref, order_id, provider, amount, status FROM payments", func(scan func(...any)) {
		var ref string
		var p payment
		scan(&ref, &p.order, &p.provider, &p.amount, &p.status)
		now.payments[ref] = p
	})
	l.read(`SELECT voucher_id, COALESCE(order_id, 0), action, actor, actor_id, COUNT(*) FROM audit_log
		GROUP BY voucher_id, order_id, action, actor, actor_id`, func(scan func(...any)) {
		var e auditEntry
		var n int
		scan(&e.voucher, &e.order, &e.action, &e.by.Kind, &e.by.ID, &n)
		now.audit[e] = n
	})
	if l.lane == "queue" {
		now.queue, now.dead = l.queued(), map[int64]bool{}
		for _, letter := range l.letters() {
			now.dead[letter.Admission.OrderID] = true
		}
	}
	return now
}

// read runs a query. Statements are prepared once per run, which halves the run time.
func (l *life) read(query string, row func(scan func(...any))) {
	if l.queries[query] == nil {
		l.queries[query] = env.Must(l.db.PrepareContext(l.ctx, query))(l)
	}
	rows, err := l.queries[query].QueryContext(l.ctx)
	require.NoError(l, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row(func(columns ...any) { require.NoError(l, rows.Scan(columns...)) })
	}
	require.NoError(l, rows.Err())
}

func (l *life) queued() []domain.Admission {
	var queue []domain.Admission
	for _, stream := range l.streams {
		for _, e := range env.Must(l.rdb.XRange(l.ctx, stream, "-", "+").Result())(l) {
			queue = append(queue, env.Must(l.gate.Parse(stream, e.ID, e.Values))(l).Admissions...)
		}
	}
	return queue
}

// check compares the database with the model and verifies the invariants. It runs after every step.
func (l *life) check() {
	now := l.latest
	if l.latest = nil; now == nil {
		now = l.readSnapshot()
	}
	require.Equal(l, l.model.vouchers, now.vouchers, "vouchers")
	require.Equal(l, l.model.orders, now.orders, "orders")
	require.Equal(l, l.model.payments, now.payments, "payments")
	require.Equal(l, l.model.audit, now.audit, "audit log")
	l.checkUnits(now)
	l.checkMoney(now)
	if l.lane == "queue" {
		for _, p := range l.reservations {
			l.track(p, now)
		}
		for id := range l.model.vouchers {
			l.checkGate(id, now)
		}
		l.checkTickets(now)
	}
}

// checkUnits verifies invariants I1, I2 and I3.
func (l *life) checkUnits(now *snapshot) {
	type seat struct{ user, voucher, slot int64 }
	taken := map[seat]int64{}
	for id, o := range now.orders {
		require.Equal(l, o.status.Active(), o.slot, "slot of order %d, %s", id, o.status)
		if !o.slot {
			continue
		}
		s := seat{o.user, o.voucher, now.slots[id]}
		require.Zero(l, taken[s], "orders %d and %d have the same slot", id, taken[s])
		taken[s] = id
		require.True(l, s.slot >= 1 && s.slot <= int64(now.vouchers[o.voucher].limit), "slot %d of order %d", s.slot, id)
	}
	for id, v := range now.vouchers {
		require.GreaterOrEqual(l, v.stock, int64(0))
		require.Equal(l, v.initial+v.added, v.stock+now.active(id), "voucher %d: total units = units left + active orders", id)
	}
}

// checkMoney compares the payments with the accounts of the bank.
func (l *life) checkMoney(now *snapshot) {
	kept, reversedOf := map[int64]int{}, map[int64]bool{} // successful payments by order, and whether one went back at the bank
	for ref, p := range now.payments {
		a := l.bank.find(ref)
		taken, returned, reversed := a != nil && a.taken, a != nil && a.returned, a != nil && a.reversed
		switch p.status {
		case domain.PaymentPending, domain.PaymentFailed:
			require.True(l, !returned || reversed, "payment %s is %s but its money was returned", ref, p.status)
		case domain.PaymentSucceeded:
			kept[p.order]++
			require.True(l, taken && (!returned || reversed), "payment %s succeeded: money received %t, returned %t", ref, taken, returned)
		case domain.PaymentRefunding:
			require.True(l, taken, "payment %s is refunding, but its money was never received", ref)
		case domain.PaymentDisputed:
			require.True(l, reversed, "payment %s is disputed", ref)
			fallthrough
		case domain.PaymentRefunded:
			reversedOf[p.order] = reversedOf[p.order] || reversed
			require.True(l, taken && returned, "payment %s is refunded: money received %t, returned %t", ref, taken, returned)
		}
	}
	for id, o := range now.orders {
		want := 0
		if o.status == domain.OrderPaid || o.status == domain.OrderRedeemed {
			want = 1
		}
		if o.status == domain.OrderRedeemed && reversedOf[id] && kept[id] == 0 {
			continue
		}
		require.Equal(l, want, kept[id], "payments kept for order %d, which is %s", id, o.status)
	}
}

// checkGate compares the gate with database and stream, unless the gate may have missed a change.
func (l *life) checkGate(id int64, now *snapshot) {
	level, err := l.gate.Level(l.ctx, id)
	if errors.Is(err, domain.ErrGateCold) {
		delete(l.gateStale, id) // the next load reads the current state
		return
	}
	require.NoError(l, err)
	if l.gateStale[id] {
		return
	}
	want := now.gate(id)
	level.Users, level.Version, level.Built, level.Backlog = 0, 0, 0, 0
	require.Equal(l, want, level, "gate of voucher %d", id)
}

// checkTickets requires that exactly the admissions in the streams have tickets that are not failed.
func (l *life) checkTickets(now *snapshot) {
	var want, got []string
	for _, a := range now.queue {
		want = append(want, "order "+number(a.OrderID)+" of "+number(a.UserID))
	}
	for shard := range admission.Shard(maxSegments) {
		for user, rows := range l.rdb.HGetAll(l.ctx, (firstVoucher + shard).Queued()).Val() {
			for row := range strings.SplitSeq(rows, "\n") {
				order, _, _ := strings.Cut(row, " ")
				got = append(got, "order "+order+" of "+user)
			}
		}
	}
	require.ElementsMatch(l, want, got, "queued tickets")
}

// gate returns the values that the gate of a voucher must hold.
func (now *snapshot) gate(id int64) admission.Level {
	level := admission.Level{Stock: now.vouchers[id].stock}
	hold := func(order int64) {
		level.Held++
		level.Sum += order % domain.LevelDigits
	}
	for order, o := range now.orders {
		if o.voucher == id && o.status.Active() {
			hold(order)
		}
	}
	for _, a := range now.queue {
		if a.VoucherID != id {
			continue
		}
		level.Queued++
		if _, stored := now.orders[a.OrderID]; !stored {
			level.Stock--
			hold(a.OrderID)
		}
	}
	return level
}

const (
	// The first segments of all vouchers are in one shard of the gate, and the others in the next shards.
	firstVoucher = 7
	maxSegments  = 3
	shards       = 16
	firstPrice   = 100
)

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
			Status: &status, VoucherFields: domain.VoucherFields{BeginAt: &domain.Time{Time: begin}, EndAt: &domain.Time{Time: end}},
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

func (l *life) drain() {
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
	for _, letter := range l.letters() {
		if !l.replayLetter(letter, true) {
			l.discardLetter(letter)
		}
		l.drain()
	}
	require.Empty(l, l.letters())
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
			l.sql("UPDATE payments SET next_try_at = ? WHERE provider_ref = ?", longAgo, ref)
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
	l.buyAs(stranger, id) // loads the gate
	l.drain()
	if l.lane == "queue" {
		l.reconcile()
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

func (l *life) buyAs(user, id int64) string {
	b := &click{user: user, voucher: id}
	l.place(l.servers[0], l.servers[0].orders, b)
	l.check()
	return b.answer
}

// checkExact requires that, after reconciliation, the gate has the same counters and checksum as the database.
func (l *life) checkExact(id int64) {
	sale := env.Must(l.real.SaleLevel(l.ctx, id))(l)
	level := env.Must(l.gate.Level(l.ctx, id))(l)
	level.Version, level.Users, level.Built = 0, 0, 0
	require.Equal(l, admission.Level{Stock: sale.Stock, Held: sale.Active, Sum: sale.Sum}, level, "gate of voucher %d", id)
	delete(l.gateStale, id)
}
