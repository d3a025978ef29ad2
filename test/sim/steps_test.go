package sim

import (
	"context"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/lock"
	"seckill/internal/service"
)

// action is an operation of a user or admin on a server, with its expected effect.
type action struct {
	name string
	at   *server
	do   func() string // returns the result as a code
	// effect applies the expected changes to the model and returns the expected code. now is the database after the
	// action; effect reads values from it that the product generates, such as payment references.
	effect func(m model, now *snapshot) string
	// whole means that effect accounts for faults itself because the action has several transactions. Otherwise the
	// action has one transaction.
	whole bool
}

// errorCodes maps errors to codes. For joined errors the first match wins.
var errorCodes = []struct {
	err  error
	code string
}{
	{domain.ErrUnavailable, "unavailable"}, {errBank, "bank_unavailable"}, {domain.ErrNotFound, "not_found"},
	{domain.ErrInvalidState, "invalid_state"}, {domain.ErrUnauthenticated, "unauthenticated"}, {domain.ErrSoldOut, "sold_out"},
	{domain.ErrSaleEnded, "ended"}, {domain.ErrSaleNotStarted, "not_started"}, {domain.ErrOrderInProgress, "in_progress"},
}

func errorCode(err error) string {
	var invalid *domain.InvalidError
	var duplicate *domain.DuplicateOrderError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &invalid):
		return "invalid"
	case errors.As(err, &duplicate):
		return "duplicate " + number(duplicate.OrderID)
	}
	for _, c := range errorCodes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return err.Error()
}

func codeOf[T any](_ T, err error) string { return errorCode(err) }

// drawFault injects a fault into every fifth action, in one of its first transactions.
func (l *life) drawFault(t *rapid.T, transactions int64) {
	if !oneIn(t, "inject fault", 5) {
		return
	}
	l.fault.kind = evenly(t, "fault", lostRequest, lostReply, lostReply, crashBefore, crashAfter)
	for l.fault.at = 1; l.fault.at < transactions && rapid.Bool().Draw(t, "later"); l.fault.at++ {
	}
}

// drawGateFault makes every sixth action that changes the gate lose the request or the reply.
func (l *life) drawGateFault(t *rapid.T) {
	if l.lane == "queue" && l.fault.at == 0 && oneIn(t, "gate", 6) {
		l.gateFault = evenly(t, "gate's fault", gateLosesRequest, gateLosesReply)
	}
}

func (l *life) drawLostInvalidation(t *rapid.T) { l.lostInvalidation = oneIn(t, "no news", 6) }

// perform executes actions concurrently and derives the new model. It reports whether a transaction fault was injected.
func (l *life) perform(actions ...action) (injected bool) {
	answers := concurrently(actions)
	for i, d := range actions {
		l.record("  %s at %s: %s", d.name, d.at.name, answers[i])
	}
	l.recordFaults()
	l.latest = l.readSnapshot()
	before := l.model
	if len(actions) > 1 {
		var explained bool
		l.model, explained = l.explain(before, actions, answers)
		require.True(l, explained, "no sequential order explains the answers %q: before\n%+v, now\n%+v",
			answers, before, l.latest.model)
	} else {
		l.model = l.applyAlone(actions[0], answers[0])
	}
	injected = l.injected.Load()
	l.afterStep(actions[0].at, before)
	return injected
}

func (l *life) recordFaults() {
	if l.injected.Load() || l.gateFault != "" || l.lostInvalidation {
		l.record("  faults: %s in transaction %d; the gate: %q; lost invalidation: %t", l.fault.kind, l.fault.at, l.gateFault, l.lostInvalidation)
	}
}

func concurrently(actions []action) []string {
	answers := make([]string, len(actions))
	var all sync.WaitGroup
	for i, d := range actions {
		all.Go(func() { answers[i] = d.do() })
	}
	all.Wait()
	return answers
}

func (l *life) applyAlone(d action, answer string) model {
	next := l.model.clone()
	want := "unavailable"
	if d.whole || !l.injected.Load() {
		want = d.effect(next, l.latest)
	} else if l.fault.done() {
		_ = d.effect(next, l.latest)
	}
	if !l.crashed.Load() { // a crashed server sends no answer
		require.Equal(l, want, answer, "answer to %s", d.name)
	}
	return next
}

// explain returns the model after some sequential order of the actions that matches their answers and the database, and
// whether there is one.
func (l *life) explain(m model, actions []action, answers []string) (model, bool) {
	if len(actions) == 0 {
		return m, assert.ObjectsAreEqual(m, l.latest.model)
	}
	for i, first := range actions {
		next := m.clone()
		if first.effect(next, l.latest) != answers[i] {
			continue
		}
		rest, restAnswers := slices.Delete(slices.Clone(actions), i, i+1), slices.Delete(slices.Clone(answers), i, i+1)
		if end, explained := l.explain(next, rest, restAnswers); explained {
			return end, true
		}
	}
	return m, false
}

// afterStep marks what missed messages leave stale and restarts a crashed server.
func (l *life) afterStep(at *server, before model) {
	untold := l.injected.Load() || l.gateFault != ""
	for id, v := range l.model.vouchers {
		if untold && v != before.vouchers[id] {
			l.gateStale[id] = true
		}
		if l.injected.Load() {
			for _, s := range l.servers {
				s.markStale(id)
			}
		}
	}
	if l.crashed.Load() {
		l.start(slices.Index(l.servers[:], at))
	}
	l.clearFaults()
}

// buy performs n purchases concurrently, possibly several of one user.
func (l *life) buy(t *rapid.T, n int) {
	l.drawFault(t, 1)
	l.drawGateFault(t)
	if l.lane == "queue" && l.gateFault == "" && oneIn(t, "script", 4) {
		l.gateFault = evenly(t, "script's fault", gateLosesLoan, gateRepeats)
	}
	at := l.anyServer(t)
	l.click(t, at, at.orders, n)
}

// buyElsewhere performs a purchase in a process with another lane, of which the gate learns nothing.
func (l *life) buyElsewhere(t *rapid.T) {
	at := l.anyServer(t)
	before := len(l.model.orders)
	for _, b := range l.click(t, at, at.other, 1) {
		if len(l.model.orders) > before {
			l.gateStale[b.voucher] = true
		}
	}
}

// click performs n purchases through a lane of a server.
func (l *life) click(t *rapid.T, at *server, orders *service.Orders, n int) []*click {
	clicks := make([]*click, n)
	for i := range clicks {
		clicks[i] = &click{user: anyUser(t), voucher: l.anyVoucher(t)}
	}
	l.place(at, orders, clicks...)
	return clicks
}

func (l *life) place(at *server, orders *service.Orders, clicks ...*click) {
	actions := make([]action, len(clicks))
	for i, b := range clicks {
		actions[i] = action{name: "buy", at: at, do: func() string {
			o, err := orders.Place(l.ctx, b.user, b.voucher, 0)
			b.order = o.ID
			return errorCode(err)
		}}
	}
	before := l.model
	var g map[int64]*gateUnits
	if orders != at.other {
		g = l.gates()
	}
	for i, answer := range concurrently(actions) {
		clicks[i].answer = answer
		l.record("  user %d buys voucher %d at %s: %s, order %d", clicks[i].user, clicks[i].voucher, at.name, answer, clicks[i].order)
	}
	l.recordFaults()
	l.latest = l.readSnapshot()
	l.applyClicks(at, clicks, g)
	if l.crashed.Load() && l.lane == "lock" { // the lock of the first user stays until its lease ends
		l.locks[clicks[0].user] = true
		require.NoError(l, l.rdb.Set(l.ctx, lock.RedLockKey(userLock(clicks[0].user)), "crashed", time.Minute).Err())
	}
	l.afterStep(at, before)
}

type click struct {
	user, voucher, order int64
	answer               string
}

// applyClicks derives the effects of concurrent purchases. It applies successful ones first: if "sold out" or "limit
// reached" was true at any time, it is still true at the end. g has the units of the gates, and is nil if the lane uses
// none.
func (l *life) applyClicks(at *server, clicks []*click, g map[int64]*gateUnits) {
	next := l.model.clone()
	if g != nil {
		l.applyAdmissions(at, clicks, g)
	} else {
		l.applyOrders(next, at, clicks)
	}
	for _, b := range clicks {
		v, fresh := next.vouchers[b.voucher], at.fresh(b.voucher)
		closed := closedCode(v)
		switch b.answer {
		case "ok":
			require.True(l, closed == "" || !fresh, "user %d bought voucher %d, which is %s", b.user, b.voucher, closed)
		case "sold_out":
			require.True(l, v.stock == 0 || !fresh || g != nil && g[b.voucher].net <= 0,
				"user %d got sold_out for voucher %d: %d units, %+v in the gate", b.user, b.voucher, v.stock, g[b.voucher])
			require.True(l, closed == "" || !fresh, "user %d got sold_out for voucher %d, which is %s", b.user, b.voucher, closed)
			if g != nil {
				at.markStale(b.voucher) // the lane caches the gate's answer
				l.refuse(b.user, b.voucher)
			}
		case "ended", "not_started", "not_found":
			require.True(l, closed == b.answer || !fresh, "user %d got %s for voucher %d, which is %q", b.user, b.answer, b.voucher, closed)
		case "in_progress":
			concurrent := func(other *click) bool { return other != b && other.user == b.user }
			require.True(l, l.lane == "lock" && (l.locks[b.user] || slices.ContainsFunc(clicks, concurrent)), "no request of user %d is in progress", b.user)
		case "unavailable":
			require.True(l, l.injected.Load() || l.gateFault != "", "unavailable without a fault")
		default:
			l.checkDuplicate(next, b, fresh)
		}
	}
	l.model = next
}

// closedCode returns the error code for a purchase from a sale that is not open, or "".
func closedCode(v voucher) string {
	switch {
	case !v.on:
		return "not_found"
	case v.window == "ended":
		return "ended"
	case v.window == "upcoming":
		return "not_started"
	}
	return ""
}

// checkDuplicate requires that the user has the named order, and as many active orders as allowed.
func (l *life) checkDuplicate(next model, b *click, fresh bool) {
	mine := l.ordersOf(next, b.user, b.voucher)
	limit := next.vouchers[b.voucher].limit
	if !fresh {
		limit = 1
	}
	switch {
	case !l.gateStale[b.voucher]:
		require.GreaterOrEqual(l, len(mine), limit, "user %d got %s for voucher %d", b.user, b.answer, b.voucher)
	default: // the gate may have missed the end of some of these orders
		for id, o := range next.orders {
			if o.user == b.user && o.voucher == b.voucher {
				mine = append(mine, id)
			}
		}
	}
	named := func(id int64) bool { return b.answer == "duplicate "+number(id) }
	require.True(l, slices.ContainsFunc(mine, named), "user %d got %q for voucher %d and has %v", b.user, b.answer, b.voucher, mine)
}

// ordersOf returns the ids of a user's active orders and queued reservations for a voucher.
func (l *life) ordersOf(m model, user, voucher int64) []int64 {
	var ids []int64
	for id, o := range m.orders {
		if o.user == user && o.voucher == voucher && o.status.Active() {
			ids = append(ids, id)
		}
	}
	for id, p := range l.reservations {
		if _, stored := m.orders[id]; !stored && p.state == stateQueued && p.UserID == user && p.VoucherID == voucher {
			ids = append(ids, id)
		}
	}
	return ids
}

// applyOrders adds the new orders of lanes lock and batch to the model.
func (l *life) applyOrders(next model, at *server, clicks []*click) {
	for _, b := range clicks {
		if b.answer == "ok" {
			require.Contains(l, l.latest.orders, b.order, "an answered order is stored")
			require.NotContains(l, next.orders, b.order, "order ids are unique")
			require.Equal(l, b.user, l.latest.orders[b.order].user)
		}
	}
	for id, o := range l.latest.orders {
		if _, known := next.orders[id]; known {
			continue
		}
		clicked := func(b *click) bool {
			answered := b.answer == "ok" && b.order == id || l.injected.Load() && l.fault.done()
			return answered && b.user == o.user && b.voucher == o.voucher
		}
		require.True(l, slices.ContainsFunc(clicks, clicked), "no buyer received order %d: %+v", id, o)
		l.applyOrder(next, at.fresh(o.voucher), id, o)
	}
}

// applyOrder adds a new order to the model if the sale allowed it.
func (l *life) applyOrder(next model, fresh bool, id int64, o order) {
	v := next.vouchers[o.voucher]
	require.Positive(l, v.stock, "units left for order %d", id)
	require.Less(l, next.held(o.user, o.voucher), v.limit, "orders of user %d before order %d", o.user, id)
	require.True(l, o.amount == v.price || !fresh, "order %d: its amount is %d, the price %d", id, o.amount, v.price)
	next.place(id, order{user: o.user, voucher: o.voucher, amount: o.amount, status: domain.OrderPendingPayment, slot: true})
}

func (l *life) anyServer(t *rapid.T) *server {
	return evenly(t, "server", l.servers[0], l.servers[1])
}

// anyUser draws one of four users, few enough for conflicts.
func anyUser(t *rapid.T) int64 { return evenly[int64](t, "user", 1, 2, 3, 4) }

// wait advances the clock of the bubble.
func wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

func (l *life) steps() map[string]step {
	queue := func(can func() bool) func() bool { return func() bool { return l.lane == "queue" && can() } }
	always := func() bool { return true }
	return map[string]step{
		"buy":                      {10, nil, func(t *rapid.T) { l.buy(t, 1) }},
		"buy concurrently":         {5, nil, func(t *rapid.T) { l.buy(t, evenly(t, "clicks", 2, 3, 4, 5)) }},
		"work":                     {16, queue(func() bool { return l.busyStream() != "" }), l.work},
		"a worker continues":       {4, queue(func() bool { return len(l.suspended) > 0 }), func(t *rapid.T) { l.continueWorker(evenly(t, "worker", l.suspended...)) }},
		"buyers return":            {10, queue(func() bool { return len(l.lostInHand()) > 0 }), l.buyersReturn},
		"settle again":             {2, queue(func() bool { return len(l.settled) > 0 }), l.settleAgain},
		"replay":                   {4, queue(func() bool { return len(l.letters()) > 0 }), l.replay},
		"discard":                  {1, queue(func() bool { return len(l.letters()) > 0 }), func(t *rapid.T) { l.discardLetter(l.anyDeadLetter(t)) }},
		"another lane sells":       {2, queue(always), l.buyElsewhere},
		"release again":            {1, queue(func() bool { return len(l.ended()) > 0 }), l.releaseAgain},
		"reconcile":                {1, queue(always), func(*rapid.T) { l.reconcile() }},
		"cancel":                   {4, l.anyOrders, orderStep(l, domain.OrderPendingPayment, l.cancel)},
		"pay":                      {6, l.anyOrders, orderStep(l, domain.OrderPendingPayment, l.pay)},
		"pay completely":           {5, func() bool { return len(l.with(domain.OrderPendingPayment)) > 0 }, l.payAndDeliver},
		"pay at the bank":          {6, func() bool { return len(l.unpaid()) > 0 }, l.payAtBank},
		"unsolicited payment":      {1, l.anyOrders, l.payUnsolicited},
		"money goes back":          {2, func() bool { return len(l.withMoney()) > 0 }, l.reverseAtBank},
		"webhook":                  {6, func() bool { return len(l.bank.notices) > 0 }, l.webhook},
		"forged webhook":           {2, l.anyOrders, l.forge},
		"payment deadline passes":  {3, l.anyOrders, l.expire},
		"close":                    {3, nil, func(t *rapid.T) { l.performWithFaults(t, 1, l.closeDue(l.anyServer(t))) }},
		"refund":                   {4, l.anyOrders, orderStep(l, domain.OrderPaid, l.refund)},
		"return money":             {4, l.refunding, l.returnMoney},
		"redeem":                   {3, l.anyOrders, orderStep(l, domain.OrderPaid, l.redeem)},
		"undo a redemption":        {2, l.anyOrders, orderStep(l, domain.OrderRedeemed, l.undoRedeem)},
		"redeem again":             {1, l.anyOrders, orderStep(l, domain.OrderRedeemed, l.redeem)},
		"race":                     {5, func() bool { return len(l.model.orders) > 0 }, l.race},
		"change stock":             {3, nil, l.changeStock},
		"change a sale":            {3, nil, l.changeSale},
		"a second passes":          {2, nil, func(*rapid.T) { wait(l.ctx, maxStaleness) }},
		"lock leases end":          {3, func() bool { return len(l.locks) > 0 }, l.expireLocks},
		"Redis loses all data":     {1, nil, l.loseRedis},
		"Redis loses what is held": {4, queue(func() bool { return len(l.inHand()) > 0 }), l.loseRedis},
		"Redis loses counters":     {1, nil, l.loseCounters},
		"Redis loses a gate":       {2, queue(always), l.loseGate},
		"Redis loses a group":      {1, queue(func() bool { return l.busyStream() != "" }), l.loseGroup},
		"Redis fails over":         {2, queue(always), l.failOver},
		"the id clock jumps": {2, nil, func(t *rapid.T) { // even into seconds in which ids were generated before
			l.idSkew += evenly[time.Duration](t, "seconds", -2, -1, 1, 2) * time.Second
		}},
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
	id := evenly(t, "order", ids...)
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
	if p := l.reservations[of.id]; p != nil && p.UserID == of.user && (p.state == stateQueued || p.state == stateFailed || p.state == stateDead) && l.lane == "queue" {
		if _, err := l.gate.Ticket(l.ctx, of.user, of.id, 0); err == nil {
			return "invalid_state"
		}
	}
	return "not_found"
}

func (l *life) cancel(_ *rapid.T, at *server, of target) action {
	absent := l.absentCode(of)
	return action{name: "cancel", at: at, do: func() string {
		return codeOf(at.orders.Cancel(l.ctx, nil, buyer(of.user), of.id))
	}, effect: func(m model, _ *snapshot) string {
		if !m.owned(of.user, of.id) {
			return absent
		}
		return m.move(of.id, "cancel", buyer(of.user))
	}}
}
func (l *life) redeem(t *rapid.T, at *server, of target) action {
	code := evenly(t, "code", "", redeemCodes.Of(of.id), "wrong")
	return action{name: "redeem", at: at, do: func() string {
		return codeOf(at.orders.Redeem(l.ctx, nil, adminID, of.id, code))
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

func (l *life) undoRedeem(t *rapid.T, at *server, of target) action {
	code := evenly(t, "code", "", redeemCodes.Of(of.id))
	return action{name: "undo a redemption", at: at, do: func() string {
		return codeOf(at.orders.UndoRedeem(l.ctx, nil, adminID, of.id, code, "a mistake"))
	}, effect: func(m model, _ *snapshot) string {
		if _, ok := m.orders[of.id]; !ok {
			return "not_found"
		}
		return m.move(of.id, "undo_redeem", admin)
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
	l.sql("UPDATE voucher_orders SET expires_at = ? WHERE id = ?", longAgo, id)
	l.due[id] = true
}

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
	id := evenly(t, "order", slices.Sorted(maps.Keys(l.model.orders))...)
	of := target{l.owner(id), id}
	actions := make([]action, evenly(t, "how many", 2, 2, 3))
	closes := 0
	for i := range actions {
		at := l.anyServer(t)
		notices := slices.DeleteFunc(slices.Clone(l.bank.notices), func(n *notice) bool { return n.OrderID != id })
		switch what := evenly(t, "what", "cancel", "close", "pay", "refund", "redeem", "webhook", "webhook", "webhook"); {
		case what == "cancel":
			actions[i] = l.cancel(t, at, of)
		// A server closes one batch after the other.
		case what == "close" && closes < len(l.servers):
			actions[i] = l.closeBeside(l.servers[closes])
			closes++
		case what == "pay":
			actions[i] = l.payAt(t, at, of)
		case what == "refund":
			actions[i] = l.refund(t, at, of)
		case what == "webhook" && len(notices) > 0:
			actions[i] = l.deliver(at, evenly(t, "notice", notices...))
		default:
			actions[i] = l.redeem(t, at, of)
		}
	}
	if closes > 0 && l.model.orders[id].status == domain.OrderPendingPayment {
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
		if p.state == stateQueued || p.state == stateDead {
			p.state = stateLost
		}
	}

	// A restart takes more than a millisecond. Within the same one, a new entry could get the id of a lost one.
	begin := l.rdb.Time(l.ctx).Val()
	for l.rdb.Time(l.ctx).Val().Sub(begin) < 2*time.Millisecond {
	}
}

// failOver replaces the server of Redis by one that has lost nothing. The gates cannot know that.
func (l *life) failOver(t *rapid.T) {
	for id := range l.model.vouchers {
		for _, stream := range l.streams[:l.segments[id]] {
			if meta := gateKey(stream, id, "meta"); l.rdb.Exists(l.ctx, meta).Val() > 0 {
				require.NoError(l, l.rdb.HSet(l.ctx, meta, "history", oldServer).Err())
			}
		}
	}
}

// loseCounters deletes the counters of order ids. In lanes lock and batch, the next orders of the same second collide.
func (l *life) loseCounters(t *rapid.T) {
	for _, key := range l.rdb.Keys(l.ctx, "icr:*").Val() {
		require.NoError(l, l.rdb.Del(l.ctx, key).Err())
	}
}

// loseGate unloads a gate or deletes some of its keys. It is cold then, and what remains of it is ignored.
func (l *life) loseGate(t *rapid.T) {
	id := l.anyVoucher(t)
	lost := evenly(t, "lost", []string{}, []string{"stock"}, []string{"stock", "buyers", "meta"})
	if len(lost) == 0 {
		require.NoError(l, l.gate.Unload(l.ctx, id))
		return
	}
	for _, stream := range l.streams[:l.segments[id]] {
		for _, name := range lost {
			require.NoError(l, l.rdb.Del(l.ctx, gateKey(stream, id, name)).Err())
		}
	}
}

// ended returns the ids of the orders that no longer hold a unit.
func (l *life) ended() []int64 {
	return append(l.with(domain.OrderCancelled), l.with(domain.OrderRefunded)...)
}

// releaseAgain repeats the release of an order that has ended, or makes up for one that was lost.
func (l *life) releaseAgain(t *rapid.T) {
	id := evenly(t, "order", l.ended()...)
	o := l.model.orders[id]
	require.NoError(l, l.gate.Release(l.ctx, o.voucher, domain.Holder{OrderID: id, UserID: o.user}))
}

// step is one action of a random walk. It is drawn in proportion to its weight whenever can returns true. A nil can is
// always true.
type step struct {
	weight int
	can    func() bool
	do     func(*rapid.T)
}

func nextStep(t *rapid.T, steps map[string]step) (name string) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(steps)) { // sorted, so a seed repeats its walk
		if s := steps[name]; s.can == nil || s.can() {
			names = append(names, slices.Repeat([]string{name}, s.weight)...)
		}
	}
	return evenly(t, "what", names...)
}

// evenly draws one of the values with equal probability. Rapid's own generators prefer the first ones.
func evenly[T any](t *rapid.T, label string, some ...T) T {
	if len(some) == 1 {
		return some[0]
	}
	return rapid.Custom(func(t *rapid.T) T {
		for {
			i := 0
			for range bits.Len(uint(len(some) - 1)) {
				i *= 2
				if rapid.Bool().Draw(t, "") {
					i++
				}
			}
			if i < len(some) {
				return some[i]
			}
		}
	}).Draw(t, label)
}
