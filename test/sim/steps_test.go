package sim_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/lock"
	"seckill/test/sim"
)

func (l *life) steps() map[string]sim.Step {
	queue := func(can func() bool) func() bool { return func() bool { return l.lane == "queue" && can() } }
	step := sim.NewStep
	return map[string]sim.Step{
		"buy":                     step(10, nil, func(t *rapid.T) { l.buy(t, 1) }),
		"buy concurrently":        step(5, nil, func(t *rapid.T) { l.buy(t, sim.Evenly(t, "clicks", 2, 3, 4, 5)) }),
		"work":                    step(12, queue(func() bool { return l.busyStream() != "" }), l.work),
		"commit late":             step(2, queue(func() bool { return len(l.delayedWork.commits) > 0 }), l.commitLate),
		"settle late":             step(2, queue(func() bool { return len(l.delayedWork.settles) > 0 }), l.settleLate),
		"reconcile":               step(1, queue(func() bool { return true }), func(t *rapid.T) { l.reconcile(l.anyServer(t)) }),
		"cancel":                  step(4, l.anyOrders, orderStep(l, domain.OrderPendingPayment, l.cancel)),
		"pay":                     step(6, l.anyOrders, orderStep(l, domain.OrderPendingPayment, l.pay)),
		"pay completely":          step(5, l.unpaidOrders, l.payAndDeliver),
		"pay at the bank":         step(6, func() bool { return len(l.unpaid()) > 0 }, l.payAtBank),
		"unsolicited payment":     step(1, l.anyOrders, l.payUnsolicited),
		"webhook":                 step(6, func() bool { return len(l.bank.notices) > 0 }, l.webhook),
		"forged webhook":          step(2, l.anyOrders, l.forge),
		"payment deadline passes": step(3, l.anyOrders, l.expire),
		"close":                   step(3, nil, func(t *rapid.T) { l.performWithFaults(t, 1, l.closeDue(l.anyServer(t))) }),
		"refund":                  step(4, l.anyOrders, orderStep(l, domain.OrderPaid, l.refund)),
		"return money":            step(4, l.refunding, l.returnMoney),
		"redeem":                  step(3, l.anyOrders, orderStep(l, domain.OrderPaid, l.redeem)),
		"redeem again":            step(1, l.anyOrders, orderStep(l, domain.OrderRedeemed, l.redeem)),
		"race":                    step(5, func() bool { return len(l.model.orders) > 0 }, l.race),
		"change stock":            step(3, nil, l.changeStock),
		"change a sale":           step(3, nil, l.changeSale),
		"a second passes":         step(2, nil, func(*rapid.T) { wait(l.ctx, maxStaleness) }),
		"lock leases end":         step(3, func() bool { return len(l.locks) > 0 }, l.expireLocks),
		"Redis loses all data":    step(1, nil, l.loseRedis),
		"Redis loses gates":       step(1, queue(func() bool { return true }), l.unloadGates),
	}
}

// target is an order or a reservation, and the user that acts on it.
type target struct{ user, id int64 }

// targets returns the ids of all orders and reservations, sorted.
func (l *life) targets() []int64 {
	ids := slices.Collect(maps.Keys(l.model.orders))
	for id := range l.reservations {
		if _, stored := l.model.orders[id]; !stored {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (l *life) anyOrders() bool { return len(l.targets()) > 0 }

// anyTarget draws an order and its owner; one time in five the user is drawn at random. If orders with the likely
// status exist, every second draw is one of them.
func (l *life) anyTarget(t *rapid.T, likely domain.OrderStatus) target {
	ids := l.targets()
	if fit := l.with(likely); len(fit) > 0 && rapid.Bool().Draw(t, "likely") {
		ids = fit
	}
	id := sim.Evenly(t, "order", ids...)
	if oneIn(t, "any user", 5) {
		return target{anyUser(t), id}
	}
	return target{l.owner(id), id}
}

func (l *life) owner(id int64) int64 {
	if o, stored := l.model.orders[id]; stored {
		return o.user
	}
	return l.reservations[id].UserID
}

// performWithFaults performs an action with random faults and reports whether a transaction failed.
func (l *life) performWithFaults(t *rapid.T, transactions int64, d action) bool {
	l.drawFault(t, transactions)
	l.drawGateFault(t)
	l.drawLostInvalidation(t)
	return l.perform(d)
}

// orderStep returns a step that performs one action on one order.
func orderStep(l *life, likely domain.OrderStatus, of func(*rapid.T, *server, target) action) func(*rapid.T) {
	return func(t *rapid.T) {
		at, order := l.anyServer(t), l.anyTarget(t, likely)
		// A buyer without a reply repeats the request.
		if l.performWithFaults(t, 1, of(t, at, order)) && rapid.Bool().Draw(t, "again") {
			l.check()
			l.perform(of(t, l.anyServer(t), order))
		}
	}
}

// absentCode returns the error code for an order that the database does not store for the user.
func (l *life) absentCode(of target) string {
	if p := l.reservations[of.id]; p != nil && p.UserID == of.user && (p.state == stateQueued || p.state == stateFailed) && l.lane == "queue" {
		if _, err := l.gate.Ticket(l.ctx, of.user, of.id); err == nil {
			return "invalid_state"
		}
	}
	return "not_found"
}

func (l *life) cancel(_ *rapid.T, at *server, of target) action {
	absent := l.absentCode(of)
	return action{name: "cancel", at: at, do: func() string {
		_, err := at.orders.Cancel(l.ctx, nil, of.user, of.id)
		return errorCode(err)
	}, effect: func(m model, _ *snapshot) string {
		if !m.owned(of.user, of.id) {
			return absent
		}
		return m.move(of.id, "cancel", buyer(of.user))
	}}
}
func (l *life) redeem(t *rapid.T, at *server, of target) action {
	code := sim.Evenly(t, "code", "", redeemCodes.Of(of.id), "wrong")
	return action{name: "redeem", at: at, do: func() string {
		_, err := at.orders.Redeem(l.ctx, nil, adminID, of.id, code)
		return errorCode(err)
	}, effect: func(m model, _ *snapshot) string {
		if code == "wrong" {
			return "invalid"
		}
		if _, ok := m.orders[of.id]; !ok {
			return "not_found"
		}
		return m.move(of.id, "redeem", admin)
	}}
}

// expire moves the payment deadlines of some orders into the past. The database clock decides whether they are due.
func (l *life) expire(t *rapid.T) {
	for _, id := range l.targets() {
		if l.model.orders[id].status == domain.OrderPendingPayment && rapid.Bool().Draw(t, "due") {
			l.expired(id)
		}
	}
}

var longAgo, farAhead = time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

func (l *life) expired(id int64) {
	_, err := l.db.ExecContext(l.ctx, "UPDATE voucher_orders SET expires_at = ? WHERE id = ?", longAgo, id)
	require.NoError(l, err)
	l.due[id] = true
}

// closeDue cancels the orders that are due.
func (l *life) closeDue(at *server) action {
	return action{name: "close", at: at, do: func() string {
		n, err := at.closer.CloseDue(l.ctx)
		if err != nil {
			return errorCode(err)
		}
		return "closed " + strconv.Itoa(n)
	}, effect: func(m model, _ *snapshot) string { return m.close(slices.Collect(maps.Keys(l.due))) }}
}

// closeBeside cancels due orders while other actions run. The closer skips rows that another transaction has locked,
// and the database may lock other rows for a moment while it searches for one. Skipped orders are closed the next time.
// With two closers, each must have closed as many orders as it reports.
func (l *life) closeBeside(at *server) action {
	d, answer := l.closeDue(at), ""
	do := d.do
	d.do = func() string {
		answer = do()
		return answer
	}
	d.effect = func(m model, now *snapshot) string {
		var closed []int64
		for id := range l.due {
			if e := (auditEntry{m.orders[id].voucher, id, "expire", system}); now.audit[e] > m.audit[e] {
				closed = append(closed, id)
			}
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(answer, "closed ")); err == nil {
			closed = closed[:min(n, len(closed))]
		}
		return m.close(closed)
	}
	return d
}

// close cancels those of the orders that are still unpaid.
func (m model) close(ids []int64) string {
	n := 0
	for _, id := range ids {
		if m.move(id, "expire", system) == "ok" {
			n++
		}
	}
	return "closed " + strconv.Itoa(n)
}

// race performs several actions on one order concurrently, on both servers.
func (l *life) race(t *rapid.T) {
	id := sim.Evenly(t, "order", slices.Sorted(maps.Keys(l.model.orders))...)
	of := target{l.owner(id), id}
	actions := make([]action, sim.Evenly(t, "how many", 2, 2, 3))
	closes := false
	for i := range actions {
		at := l.anyServer(t)
		notices := slices.DeleteFunc(slices.Clone(l.bank.notices), func(n *notice) bool { return n.OrderID != id })
		switch what := sim.Evenly(t, "what", "cancel", "close", "pay", "refund", "redeem", "webhook", "webhook", "webhook"); {
		case what == "cancel":
			actions[i] = l.cancel(t, at, of)
		case what == "close":
			closes = true
			actions[i] = l.closeBeside(at)
		case what == "pay":
			actions[i] = l.payAt(t, at, of)
		case what == "refund":
			actions[i] = l.refund(t, at, of)
		case what == "webhook" && len(notices) > 0:
			actions[i] = l.deliver(at, sim.Evenly(t, "notice", notices...))
		default:
			actions[i] = l.redeem(t, at, of)
		}
	}
	if closes && l.model.orders[id].status == domain.OrderPendingPayment {
		l.expired(id)
	}
	l.record("  order %d, due: %v", id, slices.Sorted(maps.Keys(l.due)))
	l.perform(actions...)
}

// expireLocks ends the leases of all locks that crashed servers left behind.
func (l *life) expireLocks(t *rapid.T) {
	for user := range l.locks {
		require.NoError(l, l.rdb.Del(l.ctx, lock.RedLockKey(userLock(user))).Err())
	}
	clear(l.locks)
}

// loseRedis empties Redis. Queued orders are lost, except those that a worker already holds.
func (l *life) loseRedis(t *rapid.T) {
	require.NoError(l, l.rdb.FlushDB(l.ctx).Err())
	clear(l.locks)
	for _, p := range l.reservations {
		if p.state == stateQueued {
			p.state = stateLost
		}
	}
	if l.lane == "queue" {
		// A restart takes longer than a second, so no order id is issued twice. The simulation of package queue covers
		// duplicate ids; in the other lanes the next orders of the same second collide.
		wait(l.ctx, 2*time.Second)
	}
}

// unloadGates removes the stock keys of all gates, which makes them cold. The remaining keys of a cold gate are
// ignored.
func (l *life) unloadGates(t *rapid.T) {
	for id := range l.model.vouchers {
		require.NoError(l, l.gate.Unload(l.ctx, id))
	}
}
