package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/test/env"
	"seckill/test/env/servers"
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

// faultRuns limits the runs in which a planted fault must be found.
const faultRuns = 400

// plantedFault replaces parts of the product with defective ones.
type plantedFault struct {
	lane    string                    // the lane under test; empty means batch
	trigger string                    // that the database gets
	edit    func(w *world, value any) // may change what an operation of the store gets, or has read
	commit  func(w *worker, as []domain.Admission) []error
	mutant  mutant
	// script runs after a script in Redis. args begins with the keys.
	script func(w *world, name string, args []any, reply *redis.Cmd)
	// command may change a command before Redis executes it.
	command func(args []any)
}

// TestLifeFindsFaults requires that the simulation finds each of the planted faults, on SQLite.
func TestLifeFindsFaults(t *testing.T) {
	env.FullNoRace(t, "it shows what TestLife finds")
	setRapid(t, "checks", faultRuns)
	setRapid(t, "steps", 2*lifeSteps) // longer runs instead of more conclusions
	setRapid(t, "nofailfile", true)
	setRapid(t, "shrinktime", "0s")
	s := stack{open: emptySQLite(t), rdb: servers.NewRedisClient(t, env.StartMiniredis(t).Addr(), 0).(*redis.Client)}
	for _, name := range slices.Sorted(maps.Keys(plantedFaults)) {
		t.Run(name, func(t *testing.T) {
			p, failure, runs := plantedFaults[name], "", 0
			for _, script := range scripts {
				if script.name == p.mutant.script {
					require.Contains(t, script.source, p.mutant.what, "the script has changed; update the fault")
				}
			}
			var failed bool
			inBubble(t, func(t *testing.T) {
				failed = env.Finds(t, func(t testing.TB) {
					rapid.Check(t, func(rt *rapid.T) {
						if failure == "" { // after a failure the remaining runs are skipped
							runs++
							runOnce(rt, s, cmp.Or(p.lane, "batch"), p, &failure)
						}
					})
				})
			})
			require.True(t, failed && failure != "", "not found in %d runs", runs)
			require.NotRegexp(t, "SQL logic error|"+brokenMutant, failure, "the schema or the script has changed; update the fault")
			message, _, _ := strings.Cut(failure, "\nHistory:")
			t.Logf("found in run %d: %s", runs, message)
		})
	}
}

// sql changes the database without the services.
func (w *world) sql(query string, args ...any) {
	if _, err := w.db.Exec(query, args...); err != nil {
		panic(fmt.Sprintf("%s: %v", query, err))
	}
}

// inStore plants a fault in the operations of the store that get, or read, a value of this type.
func inStore[V any](edit func(w *world, value *V)) plantedFault {
	return plantedFault{edit: func(w *world, value any) {
		if v, ok := value.(*V); ok {
			edit(w, v)
		}
	}}
}

// inDatabase plants a fault that follows a change of a row, in the same transaction. It is that of a trigger.
func inDatabase(change, then string) plantedFault {
	return plantedFault{trigger: "CREATE TRIGGER planted AFTER " + change + " BEGIN " + then + "; END"}
}

// afterMove plants a fault that follows one status transition, of which NEW is the entry in the audit log.
func afterMove(name, then string) plantedFault {
	return inDatabase("INSERT ON audit_log WHEN NEW.action = '"+name+"'", then)
}

// Of the sale of NEW.
const (
	addUnit  = "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = NEW.voucher_id"
	takeUnit = "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = NEW.voucher_id AND stock > 0"
)

// in returns the same fault for another lane.
func (p plantedFault) in(lane string) plantedFault {
	p.lane = lane
	return p
}

// mutant is a script of the gate in which a text is replaced.
type mutant struct{ script, what, with string }

const brokenMutant = "a planted script fails"

// inGate plants a fault in a script of the gate.
func inGate(script, what, with string) plantedFault {
	return plantedFault{lane: "queue", mutant: mutant{script, what, with}}
}

type luaScript struct{ name, source string }

// scripts are the gate's and the ids' scripts, by their hash.
var scripts = func() map[string]luaScript {
	hashes := map[string]luaScript{}
	for _, dir := range []string{"sale/admission/lua", "idgen"} {
		common, _ := os.ReadFile(filepath.Join("../../internal", dir, "common.lua")) // the ids have none
		files, err := filepath.Glob(filepath.Join("../../internal", dir, "*.lua"))
		if err != nil || len(files) == 0 {
			panic("no scripts in " + dir)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				panic(err)
			}
			text := string(common) + string(source)
			hashes[redis.NewScript(text).Hash()] = luaScript{strings.TrimSuffix(filepath.Base(file), ".lua"), text}
		}
	}
	return hashes
}()

// onCommand injects faults into the commands that Redis executes: those of the step, and those that are planted.
func (w *world) onCommand(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	args := cmd.Args()
	if w.planted.command != nil {
		w.planted.command(args)
	}
	if cmd.Name() != "evalsha" {
		return next(ctx, cmd)
	}

	hash, _ := args[1].(string)
	name, source := scripts[hash].name, scripts[hash].source
	if m := w.planted.mutant; name != "" && name == m.script {
		args[0], args[1] = "eval", strings.Replace(source, m.what, m.with, 1)
	}
	if name == "borrow" && w.gateFault == gateLosesLoan {
		cmd.SetErr(errInjected)
		return errInjected
	}

	err := next(ctx, cmd)
	if args[0] == "eval" && redis.HasErrorPrefix(err, "Error compiling script") { // or running it, in miniredis
		panic(fmt.Sprintf("%s: %v", brokenMutant, err))
	}
	reply, script := cmd.(*redis.Cmd)
	if err == nil && script && w.planted.script != nil {
		w.planted.script(w, name, args[3:], reply)
	}

	// The gate repeats a call without a reply until it gets one.
	if err == nil && name == "reserve" && w.gateFault == gateRepeats && w.repeats.Add(1) <= 2 {
		cmd.SetErr(io.ErrUnexpectedEOF)
		return io.ErrUnexpectedEOF
	}
	return err
}

var plantedFaults = map[string]plantedFault{
	"a cancelled order returns its unit twice": afterMove("cancel", addUnit),
	"a cancelled order keeps its unit":         afterMove("cancel", takeUnit),
	"a cancelled order keeps its slot":         afterMove("cancel", "UPDATE OR IGNORE voucher_orders SET slot = 1 WHERE id = NEW.order_id"),
	"a redeemed order returns its unit":        afterMove("redeem", addUnit),
	"a transition is missing in the audit log": afterMove("redeem", "DELETE FROM audit_log WHERE id = NEW.id"),
	"the closer keeps the units":               afterMove("expire", takeUnit),
	"a refunded order keeps its unit":          afterMove("refunded", takeUnit),
	"a late payment is kept":                   afterMove("return_money", "UPDATE payments SET status = 2 WHERE order_id = NEW.order_id AND status = 4"),
	"a stock change is not recorded":           inDatabase("INSERT ON stock_changes", "DELETE FROM stock_changes"),
	"stock is reset instead of changed":        inDatabase("UPDATE ON vouchers", "UPDATE seckill_vouchers SET stock = initial_stock WHERE voucher_id = NEW.id"),
	"a new price changes existing orders": inDatabase("UPDATE ON vouchers",
		"UPDATE voucher_orders SET amount = NEW.pay_value WHERE voucher_id = NEW.id AND status = 1"),
	"an order takes no unit": inDatabase("INSERT ON voucher_orders", addUnit).in("queue"),
	"an order is answered without a commit": inDatabase("INSERT ON voucher_orders", "DELETE FROM voucher_orders WHERE id = NEW.id; "+addUnit).
		in("lock"),
	"a refund is finished before its money is returned": inDatabase("UPDATE ON payments WHEN OLD.status = 2 AND NEW.status = 4",
		"UPDATE payments SET status = 5 WHERE id = NEW.id"),
	"a paid order can be cancelled": inStore(func(w *world, m *domain.OrderMove) {
		if m.Move.Name == "cancel" {
			m.Move.From = domain.OrderStatus(w.number("SELECT COALESCE(MAX(status), 0) FROM voucher_orders WHERE id = ?", m.OrderID))
		}
	}),
	"an order is redeemed twice": inStore(func(w *world, m *domain.OrderMove) {
		if m.Move.Name == "redeem" {
			w.sql("UPDATE voucher_orders SET status = 2 WHERE id = ? AND status = 3", m.OrderID)
		}
	}),
	"another user can cancel": inStore(func(_ *world, m *domain.OrderMove) { m.By.Kind = domain.ActorAdmin }),
	"the closer closes paid orders": inStore(func(w *world, _ *closeLimit) {
		w.sql("UPDATE voucher_orders SET status = 1 WHERE status = 2 AND expires_at <= ?", time.Now())
	}),
	"the closer closes orders before they are due": inStore(func(w *world, _ *closeLimit) {
		w.sql("UPDATE voucher_orders SET expires_at = ?", longAgo)
	}),
	"the closer skips an order": inStore(func(_ *world, limit *closeLimit) { *limit = 1 }),
	"a refund is forgotten after its first try": inStore(func(w *world, _ *retryPause) {
		w.sql("UPDATE payments SET next_try_at = ? WHERE status = 4 AND refund_tries > 0", farAhead)
	}),
	"servers do not share refunds": inStore(func(_ *world, pause *retryPause) {
		*pause = func(int) time.Duration { return -time.Hour }
	}),
	"a repeated notice pays twice": inStore(func(w *world, n *domain.PaymentNotice) {
		if w.number("SELECT COUNT(*) FROM payments WHERE provider_ref = ? AND status = 2", n.Ref) > 0 {
			n.Ref += " again"
		}
	}),
	"any amount is accepted": inStore(func(w *world, n *domain.PaymentNotice) {
		n.Amount = w.number("SELECT COALESCE(MAX(amount), 0) FROM voucher_orders WHERE id = ?", n.OrderID)
	}),
	"a payment of another order is accepted": inStore(func(w *world, n *domain.PaymentNotice) {
		w.sql("UPDATE payments SET order_id = ? WHERE provider_ref = ?", n.OrderID, n.Ref)
	}),
	"a late failure notice undoes a payment": inStore(func(w *world, n *domain.PaymentNotice) {
		if n.Result == domain.PaymentFailed {
			w.sql("UPDATE payments SET status = 3 WHERE provider_ref = ?", n.Ref)
		}
	}),
	"a repeated reversal frees another unit": inStore(func(w *world, n *domain.PaymentNotice) {
		if w.number("SELECT COUNT(*) FROM payments WHERE provider_ref = ? AND status = 5", n.Ref) > 0 {
			w.sql("UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = (SELECT voucher_id FROM voucher_orders WHERE id = ?)", n.OrderID)
		}
	}),
	"each click begins a payment": inStore(func(w *world, p *domain.Payment) {
		w.sql("UPDATE payments SET status = 3 WHERE order_id = ? AND status = 1", p.OrderID)
	}),
	"a server never refreshes a snapshot": inStore(func(w *world, found *[]domain.Voucher) {
		for i, v := range *found {
			was, _ := w.firstRead.LoadOrStore(v.ID, v)
			(*found)[i] = was.(domain.Voucher)
		}
	}),
	"a user can exceed the limit by one order": inStore(func(_ *world, orders *[]domain.NewOrder) {
		for i := range *orders {
			(*orders)[i].Limit++
		}
	}),
	"the gate gets more units than the database": inGate("add_stock", `STOCK, ARGV[1]`, `STOCK, math.max(delta, 2 * delta)`),
	"the gate misses removed units":              inGate("add_stock", `STOCK, ARGV[1]`, `STOCK, math.max(delta, 0)`),
	"the gate misses ended orders":               inGate("release", `release_order(ARGV[i], ARGV[i + 1])`, `false`),
	"the gate frees the buyer's other order": inGate("release", `ARGV[i], ARGV[i + 1]`,
		`ARGV[i], newest_order(redis.call('HGET', BUYERS, ARGV[i]) or '')`),
	"a loan leaves its units with the lender": inGate("lend", `redis.call('DECRBY', STOCK, units)`, ``),
	"a loan loses a unit":                     inGate("borrow", `STOCK, units`, `STOCK, units - 1`),
	"a segment forgets what it has lent":      inGate("lend", `'HINCRBY', LOANS`, `'HSET', LOANS`),
	"a repeated reservation takes another unit": inGate("reserve", `local list = lists[user]`,
		`local list = lists[user] if has_order(list, order) then redis.call('DECR', STOCK) end`),
	"a repeated settlement returns another unit": inGate("settle", `if removed_entries > 0 then increment_version() end`,
		`if removed_entries > 0 then increment_version() else redis.call('INCR', STOCK) end`),
	"a replayed order takes no unit": inGate("replay", `redis.call('DECR', STOCK)`, ``),
	"an order is committed whatever the generation of its gate": inStore(func(_ *world, orders *[]domain.NewOrder) {
		for i := range *orders {
			(*orders)[i].Generation = nil
		}
	}).in("queue"),
	"the counter of ids begins again in another second": func() plantedFault {
		var second, n int64
		return plantedFault{lane: "queue", script: func(w *world, name string, args []any, reply *redis.Cmd) {
			if name != "guarded" {
				return
			}
			if now := time.Now().Add(w.idSkew).Unix(); now != second {
				second, n = now, 0
			}
			n += args[2].(int64)
			reply.SetVal(n)
		}}
	}(),
	"a new group skips the entries of a lost one": {lane: "queue", command: func(args []any) {
		if args[0] == "xgroup" && args[1] == "create" {
			args[4] = "$"
		}
	}},
	"an order that fails takes its batch with it": {lane: "queue", commit: func(w *worker, as []domain.Admission) []error {
		if len(as) == 1 && w.failed[as[0].OrderID] {
			return []error{errors.New("its batch has failed")}
		}
		errs := w.commitOrders(w.ctx, as)
		for i, a := range as {
			w.failed[a.OrderID] = errs[i] != nil
		}
		return errs
	}},
	"workers settle uncommitted orders": {lane: "queue", commit: func(w *worker, as []domain.Admission) []error {
		return append(w.commitOrders(w.ctx, as[1:]), nil)
	}},
	"workers fail committed orders": {lane: "queue", commit: func(w *worker, as []domain.Admission) []error {
		errs := w.commitOrders(w.ctx, as)
		errs[0] = domain.ErrSoldOut
		return errs
	}},
	"workers return results in the wrong order": {lane: "queue", commit: func(w *worker, as []domain.Admission) []error {
		slices.Reverse(as)
		for i := range as {
			as[i].UserID = as[0].UserID
		}
		return w.commitOrders(w.ctx, as)
	}},
}

func (w *world) number(query string, args ...any) (n int64) {
	if err := w.db.QueryRow(query, args...).Scan(&n); err != nil {
		panic(err)
	}
	return n
}
