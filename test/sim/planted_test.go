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
