package sim_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/lock"
	"seckill/internal/service"
	"seckill/internal/sim"
)

func (l *life) steps() map[string]sim.Step {
	queue := func(can func() bool) func() bool { return func() bool { return l.lane == "queue" && can() } }
	step := sim.NewStep
	return map[string]sim.Step{
		"buy":               step(10, nil, func(t *rapid.T) { l.buy(t, 1) }),
		"buy together":      step(5, nil, func(t *rapid.T) { l.buy(t, sim.Evenly(t, "clicks", 2, 3, 4, 5)) }),
		"work":              step(12, queue(func() bool { return l.rdb.XLen(l.ctx, l.stream).Val() > 0 }), l.work),
		"commit late":       step(2, queue(func() bool { return len(l.lateWork.commits) > 0 }), l.commitLate),
		"settle late":       step(2, queue(func() bool { return len(l.lateWork.settles) > 0 }), l.settleLate),
		"audit":             step(1, queue(func() bool { return true }), func(t *rapid.T) { l.audit(l.anyShop(t)) }),
		"cancel":            step(4, l.anyOrders, one(l, service.OrderPendingPayment, l.cancel)),
		"pay":               step(6, l.anyOrders, one(l, service.OrderPendingPayment, l.pay)),
		"pay to the end":    step(5, l.unpaidOrders, l.payToTheEnd),
		"pay at the bank":   step(6, func() bool { return len(l.unpaid()) > 0 }, l.payAtBank),
		"money unasked":     step(1, l.anyOrders, l.payUnasked),
		"webhook":           step(6, func() bool { return len(l.bank.notices) > 0 }, l.webhook),
		"forged webhook":    step(2, l.anyOrders, l.forge),
		"time to pay ends":  step(3, l.anyOrders, l.expire),
		"close":             step(3, nil, func(t *rapid.T) { l.harmed(t, 1, l.close1(l.anyShop(t))) }),
		"refund":            step(4, l.anyOrders, one(l, service.OrderPaid, l.refund)),
		"return money":      step(4, l.refunding, l.returnMoney),
		"redeem":            step(3, l.anyOrders, one(l, service.OrderPaid, l.redeem)),
		"redeem again":      step(1, l.anyOrders, one(l, service.OrderRedeemed, l.redeem)),
		"race":              step(5, func() bool { return len(l.books.orders) > 0 }, l.race),
		"change stock":      step(3, nil, l.changeStock),
		"change a sale":     step(3, nil, l.changeSale),
		"a second passes":   step(2, nil, func(*rapid.T) { wait(l.ctx, knowsAgain) }),
		"a lock's end":      step(3, func() bool { return len(l.locks) > 0 }, l.unlock),
		"Redis loses all":   step(1, nil, l.loseRedis),
		"Redis loses gates": step(1, queue(func() bool { return true }), l.loseGates),
	}
}

// target is an order, or a promise of one, and who asks for something about it.
type target struct{ user, id int64 }

// targets are all orders there are or may be, sorted.
func (l *life) targets() []int64 {
	ids := slices.Collect(maps.Keys(l.books.orders))
	for id := range l.promises {
		if _, stored := l.books.orders[id]; !stored {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (l *life) anyOrders() bool { return len(l.targets()) > 0 }

// anyTarget draws an order and its owner, seldom somebody else. Every second one has the likely status, if there is one.
func (l *life) anyTarget(t *rapid.T, likely service.OrderStatus) target {
	ids := l.targets()
	if fit := l.with(likely); len(fit) > 0 && rapid.Bool().Draw(t, "likely") {
		ids = fit
	}
	id := sim.Evenly(t, "order", ids...)
	if once(t, "stranger", 5) {
		return target{anyUser(t), id}
	}
	return target{l.owner(id), id}
}

func (l *life) owner(id int64) int64 {
	if o, stored := l.books.orders[id]; stored {
		return o.user
	}
	return l.promises[id].UserID
}

// harmed does a deed that fate may strike, and says whether it did.
func (l *life) harmed(t *rapid.T, transactions int64, d deed) bool {
	l.drawFate(t, transactions)
	l.drawGateFate(t)
	l.drawNews(t)
	return l.perform(d)
}

// one is the step of one deed with one order.
func one(l *life, likely service.OrderStatus, of func(*rapid.T, *shop, target) deed) func(*rapid.T) {
	return func(t *rapid.T) {
		at, order := l.anyShop(t), l.anyTarget(t, likely)
		if l.harmed(t, 1, of(t, at, order)) && rapid.Bool().Draw(t, "again") { // who heard nothing says it again
			l.check()
			l.perform(of(t, l.anyShop(t), order))
		}
	}
}

// notStored is the word for an order that is not the user's in the database.
func (l *life) notStored(of target) string {
	if p := l.promises[of.id]; p != nil && p.UserID == of.user && (p.standing == waiting || p.standing == failed) && l.lane == "queue" {
		if _, err := l.gate.Ticket(l.ctx, of.user, of.id); err == nil {
			return "invalid_state"
		}
	}
	return "not_found"
}

func (l *life) cancel(_ *rapid.T, at *shop, of target) deed {
	absent := l.notStored(of)
	return deed{name: "cancel", at: at, do: func() string {
		_, err := at.orders.Cancel(l.ctx, of.user, of.id)
		return word(err)
	}, effect: func(b books, _ *picture) string {
		if !b.owned(of.user, of.id) {
			return absent
		}
		return b.move(of.id, "cancel", buyer(of.user))
	}}
}
func (l *life) redeem(t *rapid.T, at *shop, of target) deed {
	code := sim.Evenly(t, "code", "", redeemCodes.Of(of.id), "a wrong one")
	return deed{name: "redeem", at: at, do: func() string {
		_, err := at.orders.Redeem(l.ctx, adminID, of.id, code)
		return word(err)
	}, effect: func(b books, _ *picture) string {
		if code == "a wrong one" {
			return "invalid"
		}
		if _, ok := b.orders[of.id]; !ok {
			return "not_found"
		}
		return b.move(of.id, "redeem", admin)
	}}
}

// expire lets the time to pay of some orders end, by the clock of the database.
func (l *life) expire(t *rapid.T) {
	for _, id := range l.targets() {
		if l.books.orders[id].status == service.OrderPendingPayment && rapid.Bool().Draw(t, "due") {
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

// close1 closes what is due.
func (l *life) close1(at *shop) deed {
	return deed{name: "close", at: at, do: func() string {
		n, err := at.closer.CloseDue(l.ctx)
		if err != nil {
			return word(err)
		}
		return "closed " + strconv.Itoa(n)
	}, effect: func(b books, _ *picture) string { return b.close(slices.Collect(maps.Keys(l.due))) }}
}

// closeBeside closes what is due while others are at work: it leaves alone whatever they have locked, and a database
// that looks for one order may lock others for a moment. What it leaves is closed the next time. Of two closers each
// has closed as many as it says.
func (l *life) closeBeside(at *shop) deed {
	d, answer := l.close1(at), ""
	do := d.do
	d.do = func() string {
		answer = do()
		return answer
	}
	d.effect = func(b books, now *picture) string {
		var closed []int64
		for id := range l.due {
			if e := (entry{b.orders[id].voucher, id, "expire", system}); now.audit[e] > b.audit[e] {
				closed = append(closed, id)
			}
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(answer, "closed ")); err == nil {
			closed = closed[:min(n, len(closed))]
		}
		return b.close(closed)
	}
	return d
}

// close ends those of the orders that wait for their money.
func (b books) close(ids []int64) string {
	n := 0
	for _, id := range ids {
		if b.move(id, "expire", system) == "ok" {
			n++
		}
	}
	return "closed " + strconv.Itoa(n)
}

// race is several things that are done to one order at once, at both servers.
func (l *life) race(t *rapid.T) {
	id := sim.Evenly(t, "order", slices.Sorted(maps.Keys(l.books.orders))...)
	of := target{l.owner(id), id}
	deeds := make([]deed, sim.Evenly(t, "how many", 2, 2, 3))
	closes := false
	for i := range deeds {
		at := l.anyShop(t)
		notices := slices.DeleteFunc(slices.Clone(l.bank.notices), func(n *notice) bool { return n.OrderID != id })
		switch what := sim.Evenly(t, "what", "cancel", "close", "pay", "refund", "redeem", "webhook", "webhook", "webhook"); {
		case what == "cancel":
			deeds[i] = l.cancel(t, at, of)
		case what == "close":
			closes = true
			deeds[i] = l.closeBeside(at)
		case what == "pay":
			deeds[i] = l.payAt(t, at, of)
		case what == "refund":
			deeds[i] = l.refund(t, at, of)
		case what == "webhook" && len(notices) > 0:
			deeds[i] = l.deliver(at, sim.Evenly(t, "notice", notices...))
		default:
			deeds[i] = l.redeem(t, at, of)
		}
	}
	if closes && l.books.orders[id].status == service.OrderPendingPayment {
		l.expired(id)
	}
	l.did("  order %d, due are %v", id, slices.Sorted(maps.Keys(l.due)))
	l.perform(deeds...)
}

// unlock: the leases of all locks that were left end.
func (l *life) unlock(t *rapid.T) {
	for user := range l.locks {
		require.NoError(l, l.rdb.Del(l.ctx, lock.RedLockKey(userLock(user))).Err())
	}
	clear(l.locks)
}

// loseRedis is a Redis that comes back empty. Orders that were only there are lost, but for those that workers have in
// hand.
func (l *life) loseRedis(t *rapid.T) {
	require.NoError(l, l.rdb.FlushDB(l.ctx).Err())
	clear(l.locks)
	for _, p := range l.promises {
		if p.standing == waiting {
			p.standing = lost
		}
	}
	if l.lane == "queue" {
		// A restart lasts longer than a second, and so no id is handed out twice. What becomes of those is in the
		// simulation of the queue; in the other lanes the next orders of this second meet it.
		wait(l.ctx, 2*time.Second)
	}
}

// loseGates: what is left of a gate without its stock counts for nothing.
func (l *life) loseGates(t *rapid.T) {
	for id := range l.books.vouchers {
		require.NoError(l, l.gate.Unload(l.ctx, id))
	}
}
