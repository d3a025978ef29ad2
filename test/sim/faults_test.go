package sim

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/sale/queue"
	"seckill/internal/service"
	"seckill/test/env"
)

// faultRuns limits the runs in which a planted fault must be found.
const faultRuns = 400

// plantedFault replaces parts of the product with defective ones.
type plantedFault struct {
	lane   string // the lane under test; empty means batch
	store  func(w *world, s lifeStore, on *serverStore)
	queue  func(w *world, q service.ReservationStore, on *serverQueue)
	commit func(next queue.CommitFunc) queue.CommitFunc // called once per worker
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
	s := stack{open: emptySQLite(t)}
	s.rdb = redis.NewClient(&redis.Options{Addr: env.StartMiniredis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = s.rdb.Close() })
	for _, name := range slices.Sorted(maps.Keys(plantedFaults)) {
		t.Run(name, func(t *testing.T) {
			p, d, runs := plantedFaults[name], &summary{counts: map[string]int{}}, 0
			if p.lane == "" {
				p.lane = "batch"
			}
			var failed bool
			inBubble(t, func(t *testing.T) {
				failed = fails(t, func(rt *rapid.T) {
					if d.failure == "" { // after a failure the remaining runs are skipped
						runs++
						runOnce(rt, s, p.lane, p, d)
					}
				})
			})
			require.True(t, failed && d.failure != "", "not found in %d runs", runs)
			t.Logf("found in run %d, after %d steps: %s", runs, d.counts["step"], firstWords(d.failure))
		})
	}
}

// firstWords returns the message of a failure without its trace.
func firstWords(failure string) string {
	failure, _, _ = strings.Cut(failure, "\nHistory:")
	_, failure, _ = strings.Cut(failure, "Error:")
	return strings.Join(strings.Fields(failure[:min(len(failure), 600)]), " ")
}

// sql changes the database without the services.
func (w *world) sql(query string, args ...any) {
	if _, err := w.db.Exec(query, args...); err != nil {
		panic(fmt.Sprintf("%s: %v", query, err))
	}
}

func (w *world) returnUnits(voucher int64, n int) {
	w.sql("UPDATE seckill_vouchers SET stock = stock + ? WHERE voucher_id = ?", n, voucher)
}

var ctx = context.Background()

// inStore plants a fault in the database: plant replaces an operation on the store by one that uses s.
func inStore(plant func(w *world, s lifeStore, on *serverStore)) plantedFault {
	return plantedFault{store: plant}
}

// afterMove plants a fault that follows one status transition.
func afterMove(name string, then func(w *world, o domain.Order)) plantedFault {
	return inStore(func(w *world, s lifeStore, on *serverStore) {
		on.move = func(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
			o, err := s.MoveOrder(ctx, m)
			if err == nil && m.Move.Name == name {
				then(w, o)
			}
			return o, err
		}
	})
}

// in returns the same fault for another lane.
func (p plantedFault) in(lane string) plantedFault {
	p.lane = lane
	return p
}

// inQueue plants a fault in the gate, as inStore does.
func inQueue(plant func(w *world, q service.ReservationStore, on *serverQueue)) plantedFault {
	return plantedFault{lane: "queue", queue: plant}
}

// afterScript plants a fault that follows a script in Redis.
func afterScript(name string, then func(w *world, args []any, reply *redis.Cmd)) plantedFault {
	return plantedFault{lane: "queue", script: func(w *world, script string, args []any, reply *redis.Cmd) {
		if script == name {
			then(w, args, reply)
		}
	}}
}

// afterLoan plants a fault that follows one of the two scripts of a loan between segments, if it moved units.
func afterLoan(name string, then func(w *world, stock string)) plantedFault {
	return afterScript(name, func(w *world, keys []any, reply *redis.Cmd) {
		if units, _ := reply.Int64(); units > 0 {
			then(w, keys[0].(string))
		}
	})
}

// scripts are the names of the gate's and the ids' scripts, by their hash.
var scripts = func() map[string]string {
	hashes := map[string]string{}
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
			hashes[redis.NewScript(string(common)+string(source)).Hash()] = strings.TrimSuffix(filepath.Base(file), ".lua")
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
	if cmd.Name() == "xreadgroup" && w.reads.Add(1) > 5 {
		w.stopReading()
	}
	if cmd.Name() != "evalsha" {
		return next(ctx, cmd)
	}

	hash, _ := args[1].(string)
	name := scripts[hash]
	if name == "borrow" && w.gateFault == gateLosesLoan {
		cmd.SetErr(errInjected)
		return errInjected
	}

	err := next(ctx, cmd)
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
