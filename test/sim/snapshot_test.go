package sim

import (
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
)

// snapshot is the content of the database and the stream after a step.
type snapshot struct {
	model
	slots map[int64]int64 // by id of active order
	queue []domain.Admission
	dead  map[int64]bool // orders with a dead letter
}

// readSnapshot reads all tables and the stream.
func (l *life) readSnapshot() *snapshot {
	now := &snapshot{model: newModel(), slots: map[int64]int64{}}
	l.read(`SELECT v.id, s.initial_stock, s.stock, v.pay_value, s.limit_per_user, v.status, s.begin_at, s.end_at
		FROM vouchers v JOIN seckill_vouchers s ON s.voucher_id = v.id`, func(scan func(...any) error) error {
		var id int64
		var v voucher
		var status domain.VoucherStatus
		var begin, end time.Time
		err := scan(&id, &v.initial, &v.stock, &v.price, &v.limit, &status, &begin, &end)
		v.on, v.window = status == domain.VoucherOn, windowOf(begin, end)
		now.vouchers[id] = v
		return err
	})
	l.read("SELECT voucher_id, SUM(delta), COUNT(*) FROM stock_changes GROUP BY voucher_id", func(scan func(...any) error) error {
		var id, added, changes int64
		err := scan(&id, &added, &changes)
		v := now.vouchers[id]
		v.added, v.changes = added, changes
		now.vouchers[id] = v
		return err
	})
	l.read(`SELECT id, user_id, voucher_id, amount, status, slot, paid_at IS NOT NULL, redeemed_at IS NOT NULL,
		cancelled_at IS NOT NULL, refunded_at IS NOT NULL FROM voucher_orders`, func(scan func(...any) error) error {
		var id int64
		var o order
		var slot sql.NullInt64
		err := scan(&id, &o.user, &o.voucher, &o.amount, &o.status, &slot, &o.paid, &o.redeemed, &o.cancelled, &o.refunded)
		if o.slot = slot.Valid; o.slot {
			now.slots[id] = slot.Int64
		}
		now.orders[id] = o
		return err
	})
	l.read("SELECT provider_ref, order_id, provider, amount, status FROM payments", func(scan func(...any) error) error {
		var ref string
		var p payment
		err := scan(&ref, &p.order, &p.provider, &p.amount, &p.status)
		now.payments[ref] = p
		return err
	})
	l.read(`SELECT voucher_id, COALESCE(order_id, 0), action, actor, actor_id, COUNT(*) FROM audit_log
		GROUP BY voucher_id, order_id, action, actor, actor_id`, func(scan func(...any) error) error {
		var e auditEntry
		var n int
		err := scan(&e.voucher, &e.order, &e.action, &e.by.Kind, &e.by.ID, &n)
		now.audit[e] = n
		return err
	})
	if l.lane == "queue" {
		now.queue, now.dead = l.queued(), map[int64]bool{}
		letters, err := l.gate.DeadLetters(l.ctx, "", 500)
		require.NoError(l, err)
		for _, letter := range letters {
			now.dead[letter.Admission.OrderID] = true
		}
	}
	return now
}

// read runs a query. Statements are prepared once per run, which halves the run time.
func (l *life) read(query string, row func(scan func(...any) error) error) {
	stmt := l.queries[query]
	if stmt == nil {
		var err error
		stmt, err = l.db.PrepareContext(l.ctx, query)
		require.NoError(l, err)
		l.queries[query] = stmt
	}
	rows, err := stmt.QueryContext(l.ctx)
	require.NoError(l, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		require.NoError(l, row(rows.Scan))
	}
	require.NoError(l, rows.Err())
}

// queued returns the admissions in the streams.
func (l *life) queued() []domain.Admission {
	var queue []domain.Admission
	for _, stream := range l.streams {
		entries, err := l.rdb.XRange(l.ctx, stream, "-", "+").Result()
		require.NoError(l, err)
		for _, e := range entries {
			p, err := l.gate.Parse(stream, e.ID, e.Values)
			require.NoError(l, err)
			queue = append(queue, p.Admissions...)
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
	l.summary.counts["step"]++
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
	for _, key := range admission.QueuedTickets()[firstVoucher : firstVoucher+maxSegments] {
		for user, rows := range l.rdb.HGetAll(l.ctx, key).Val() {
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
