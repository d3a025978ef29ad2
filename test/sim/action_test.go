package sim

import (
	"context"
	"errors"
	"slices"
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
		l.model = l.explain(actions, answers)
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

// explain returns the model after some sequential order of the actions that matches their answers and the database.
func (l *life) explain(actions []action, answers []string) model {
	names := make([]string, len(actions))
	for i, d := range actions {
		names[i] = d.name
	}
	for _, sequence := range permutations(len(actions)) {
		if next, ok := l.inOrder(actions, answers, sequence); ok && assert.ObjectsAreEqual(next, l.latest.model) {
			return next
		}
	}
	require.Fail(l, "no sequential order explains the answers", "%q returned %q: before\n%+v, now\n%+v", names, answers, l.model, l.latest.model)
	return model{}
}

// inOrder applies actions in the given sequence and reports whether each returns its observed answer.
func (l *life) inOrder(actions []action, answers []string, sequence []int) (model, bool) {
	next := l.model.clone()
	for _, i := range sequence {
		if actions[i].effect(next, l.latest) != answers[i] {
			return next, false
		}
	}
	return next, true
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
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
