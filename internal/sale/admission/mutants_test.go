package admission

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// A mutant is a script with a planted fault.
type mutant struct {
	fault      string
	script     **redis.Script
	source     string // the file in the folder lua
	what, with string // replaced text, there or else in common.lua, and its replacement
	find       func(t testing.TB, rdb *redis.Client)
}

// How a mutant is found: by the models, which have one goroutine, by changes during loads, or after a loss of data.
func byModel(t testing.TB, rdb *redis.Client) { runModel(t, rdb, rand.Uint64(), 500, nil) }
func bySegments(t testing.TB, rdb *redis.Client) {
	runModel(t, rdb, rand.Uint64(), 500, modelSegments)
}
func byStorm(t testing.TB, rdb *redis.Client) { runStorm(t, rdb, 20, 1) }
func byLoss(t testing.TB, rdb *redis.Client) {
	for _, find := range []func(testing.TB, *redis.Client){lostAdmission, confirmed, earlierGate, raises, elsewhere, withoutOrder} {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		find(t, rdb)
	}
}

var mutants = []mutant{
	{"a buyer gets one order too many", &reserveScript, "reserve", `>= tonumber(limit)`, `> tonumber(limit)`, byModel},
	{"one unit too many is admitted", &reserveScript, "reserve", `#rows >= units`, `#rows > units`, byModel},
	{"a purchase without an order gets a unit", &reserveScript, "reserve", `order == '0' or`, ``, byLoss},
	{"a repeated call admits again", &reserveScript, "reserve", `if not has_order(list, order) then`, `if true then`, byModel},
	{"a duplicate names the oldest order", &reserveScript, "reserve", `'[^,]*$'`, `'^[^,]*'`, byModel},
	{"a call takes one unit for all", &reserveScript, "reserve", `'DECRBY', STOCK, #rows`, `'DECRBY', STOCK, 1`, byModel},
	{"a purchase does not change the sum", &reserveScript, "reserve", `redis.call('HINCRBY', META, 'sum', sum)`, ``, byModel},
	{"a purchase does not change the version", &reserveScript, "reserve", `increment_version()`, ``, byModel},
	{"purchases during a load are lost", &reserveScript, "reserve", `if loading then`, `if false then`, byStorm},

	{"an entry is settled twice", &settleScript, "settle", `redis.call('XDEL', STREAM, entry) == 1`, `redis.call('XDEL', STREAM, entry) >= 0`, byModel},
	{"a retried order forgets its tries", &settleScript, "settle", `add_entry(row, 'tries', tries)`, `add_entry(row, 'tries', 0)`, byModel},
	{"a rejected order keeps its unit", &settleScript, "settle", `release_order(user, order)`, ``, byModel},
	{"settled tickets stay", &settleScript, "settle", `remove_tickets(users, prefixes)`, ``, byModel},
	{"entries are counted instead of orders", &settleScript, "settle", `'queued', -removed_rows`, `'queued', -removed_entries`, byModel},
	{"a dead order has no letter", &settleScript, "settle", `redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', tries, 'row', row)`, ``, byModel},
	{"settlements during a load are lost", &settleScript, "settle", `if loading then`, `if false then`, byStorm},

	{"each release returns a unit", &releaseScript, "release", `if not list or not has_order(list, order) then`, `if not list then`, byModel},
	{"a release frees all orders of a buyer", &releaseScript, "release", `remove_order(list, order))`, `'')`, byModel},
	{"releases during a load are lost", &releaseScript, "release", `if loading then add_notes('- '`, `if false then add_notes('- '`, byStorm},

	{"more units are removed than are free", &addStockScript, "add_stock", `return 'short'`, `delta = 0`, byModel},
	{"a load may miss a change of the stock", &addStockScript, "add_stock", `if loading then abort_load() end`, ``, byStorm},

	{"the lender keeps its units", &lendScript, "lend", `redis.call('DECRBY', STOCK, units)`, ``, bySegments},
	{"more units are lent than are free", &lendScript, "lend", `math.min(tonumber(redis.call('GET', STOCK)), tonumber(most))`, `tonumber(most)`, bySegments},
	{"a segment knows the last loan only", &lendScript, "lend", `'HINCRBY', LOANS`, `'HSET', LOANS`, bySegments},
	{"a repeated loan counts twice", &borrowScript, "borrow", `redis.call('HGET', LOANS, 'from:' .. other) or 0`, `0`, bySegments},
	{"a loan outlives a load", &borrowScript, "borrow", `or redis.call('HGET', LOANS, 'epoch') ~= epoch`, ``, bySegments},

	{"a replay takes no unit", &replayScript, "replay", `redis.call('DECR', STOCK)`, ``, byModel},
	{"a replay ignores the limit", &replayScript, "replay", `>= tonumber(limit)`, `>= 10`, byModel},
	{"a replayed letter stays", &replayScript, "replay", `redis.call('XDEL', DEAD, letter)`, ``, byModel},

	{"changes before the mark count again", &loadMarkScript, "load_mark", `redis.call('UNLINK', NOTES)`, ``, byStorm},
	{"changes in the snapshot count again", &loadFinishScript, "load_finish", `if has_order(list, order) == (n > 0) then return end`, ``, byStorm},
	{"a stale load is put in place", &loadFinishScript, "load_finish", `redis.call('GET', LOADING) ~= token or`, ``, byStorm},
	{"a load keeps loans that it has counted", &loadFinishScript, "load_finish", `redis.call('UNLINK', LOANS)`, ``, bySegments},
	{"a load of a lost gate does not raise the generation", &loadTakeScript, "load_take", `whole and 'taken' or 'fence'`, `'taken'`, byLoss},
	{"a load trusts a generation that the database has lost", &loadTakeScript, "load_take", `<= tonumber(ARGV[4])`, `>= 0`, byLoss},
	{"a gate forgets its server", &loadTakeScript, "load_take", `known and history == server_history()`, `known`, byLoss},
	{"a gate without a server is complete", &reserveScript, "reserve", `has_all_admissions() and 'sold_out' or 'unsure'`, `'sold_out'`, byLoss},
	{"a load keeps the old generation", &loadFinishScript, "load_finish", `if generation ~= '' then`, `if false then`, byLoss},
	{"a load ends on another server", &loadFinishScript, "load_finish", `server_history() ~= history`, `false`, byLoss},
	{"entries have no generation", &reserveScript, "reserve", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"a retried order has no generation", &settleScript, "settle", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"a replayed order has no generation", &replayScript, "replay", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"any entry with the id is confirmed", &confirmScript, "confirm", `prefix, 1, true) == 1`, `prefix, 1, true) ~= 0`, byLoss},
	{"a lost entry is confirmed", &confirmScript, "confirm", `if not found then return false end`, `if not found then return 1 end`, byLoss},

	{"tickets of lost entries stay", &loadTicketsScript, "load_tickets", `remove_tickets(users, rows)`, ``, byModel},
}

// plant replaces a script by its mutant until the test ends.
func (m mutant) plant(t *testing.T) {
	t.Helper()
	common, own := lua("common"), strings.ReplaceAll(lua(m.source), m.what, m.with)
	if own == lua(m.source) {
		common = strings.ReplaceAll(lua("common"), m.what, m.with)
	}
	require.NotEqual(t, lua("common")+lua(m.source), common+own, "the script has changed; update the mutant")
	sound := *m.script
	*m.script = redis.NewScript(common + own)
	t.Cleanup(func() { *m.script = sound })
}

// The models and the storms find every planted fault.
func TestMutantsAreCaught(t *testing.T) {
	env.FullNoRace(t, "it shows what the models find")
	rdb := redis.NewClient(&redis.Options{Addr: env.StartMiniredis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, m := range mutants {
		t.Run(m.fault, func(t *testing.T) {
			m.plant(t)
			for run := 1; ; run++ {
				require.NoError(t, rdb.FlushDB(t.Context()).Err())
				if fails(t, func(t testing.TB) { m.find(t, rdb) }) {
					t.Logf("caught in run %d", run)
					return
				}
				require.Less(t, run, 60, "nothing finds the fault")
			}
		})
	}
}

// fails reports whether a test fails. It runs the test in a goroutine, which FailNow ends.
func fails(t testing.TB, test func(t testing.TB)) bool {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
	return r.failed
}

// recorder records the failure of a test that is expected to fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow() {
	r.failed = true
	runtime.Goexit()
}
