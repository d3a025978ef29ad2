package queue

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/reconcile"
	"seckill/test/dbtest"
	"seckill/test/sim"
	"seckill/test/testenv"
)

// simulation runs the queue lane from a purchase to the database: the real lane, gate, workers, committer and store, in
// one thread, on a clock that moves only while a goroutine sleeps, with faults wherever a process or Redis can fail. A
// model of the confirmed admissions runs beside it. Every run has a fresh database and an empty Redis. Only rapid's
// draws are random, so that a seed repeats a failure and rapid can shrink it.
type simulation struct {
	*world
	workers []*simWorker

	promises []*promise
	byMoment map[int64]*promise // by Admission.At, which no two have in common
	gates    map[int64]*gateFacts
	twice    map[int64]bool // order ids that were generated twice, after Redis lost their counter
	checked  *snapshot      // the last one that checkLedger has checked
	found    map[reconcile.Kind]int
	seen     map[string]int // number of events by name, in all runs
}

// TestSimulation does about 2,000 steps on miniredis and a few hundred on Redis. -rapid.seed repeats a run,
// -rapid.checks and -rapid.steps extend it.
func TestSimulation(t *testing.T) {
	seed := rand.Uint64()
	setRapid(t, "checks", 25)
	setRapid(t, "steps", 80)
	setRapid(t, "nofailfile", true) // the seed repeats a failure
	setRapid(t, "shrinktime", "1h") // by the clock of the simulation: a few hundred runs
	setRapid(t, "seed", seed)
	template := dbtest.SQLiteFile(t)
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		if filepath.Base(t.Name()) == "redis" {
			setRapid(t, "checks", 4)
		}
		t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
		seen := map[string]int{}
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(noDeadline{t}, func(rt *rapid.T) {
				s := newSimulation(rt, newWorld(rt, rdb, template, filepath.Join(t.TempDir(), "db"), false), seen)
				defer s.close()
				s.run(rt)
			})
		})
		t.Logf("transitions of promises, and other events: %v", seen)
	})
}

// TestSimulationFindsForgottenLoss requires that the simulation finds a buyer with an order who was answered sold_out, if
// the gate does not know that Redis has lost admissions which a worker has in hand.
func TestSimulationFindsForgottenLoss(t *testing.T) {
	testenv.Full(t)
	setRapid(t, "checks", 200)
	setRapid(t, "steps", 160)
	setRapid(t, "nofailfile", true)
	setRapid(t, "shrinktime", "0s")
	setRapid(t, "seed", rand.Uint64())
	template := dbtest.SQLiteFile(t)
	rdb := redis.NewClient(&redis.Options{Addr: testenv.StartMiniredis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	runs, found := 0, false
	synctest.Test(t, func(t *testing.T) {
		sim.Fails(noDeadline{t}, func(rt *rapid.T) {
			if found {
				return // the remaining runs are skipped
			}
			runs++
			s := newSimulation(rt, newWorld(rt, rdb, template, filepath.Join(t.TempDir(), "db"), true), map[string]int{})
			defer s.close()
			defer func() {
				found = slices.ContainsFunc(s.promises, func(p *promise) bool { return p.refused && p.standing == committed })
			}()
			s.run(rt)
		})
	})
	require.True(t, found, "not found in %d runs", runs)
	t.Logf("found in run %d", runs)
}

// setRapid changes a default of rapid for this test, unless the flag is set on the command line.
func setRapid(t *testing.T, name string, value any) {
	t.Helper()
	name = "rapid." + name
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	f := flag.Lookup(name).Value
	before := f.String()
	require.NoError(t, f.Set(fmt.Sprint(value)))
	t.Cleanup(func() { _ = f.Set(before) })
}

// noDeadline hides the deadline of a test from rapid: a synctest bubble must not read it.
type noDeadline struct{ testing.TB }

func newSimulation(t *rapid.T, w *world, seen map[string]int) *simulation {
	s := &simulation{
		world: w, byMoment: map[int64]*promise{}, gates: map[int64]*gateFacts{}, twice: map[int64]bool{},
		checked: &snapshot{}, seen: seen,
	}
	for _, v := range w.vouchers {
		s.gates[v.id] = &gateFacts{excused: map[int64]bool{}}
	}
	for i := range 3 {
		s.workers = append(s.workers, newSimWorker(s, "worker-"+strconv.Itoa(i)))
	}
	return s
}

// run does random steps with a check after each, and then concludes.
func (s *simulation) run(t *rapid.T) {
	steps := s.steps()
	t.Repeat(map[string]func(*rapid.T){
		"":     s.check,
		"step": func(t *rapid.T) { steps[sim.Next(t, steps)].Do(t) },
	})
	s.conclude(t)
}

func (s *simulation) steps() map[string]sim.Step {
	worker := func(fits func(*simWorker) bool) func() bool {
		return func() bool { return slices.ContainsFunc(s.workers, fits) }
	}
	order := func(fits func(*promise) bool) func() bool {
		return func() bool { return slices.ContainsFunc(s.promises, fits) }
	}
	step := sim.NewStep
	return map[string]sim.Step{
		"buy":                 step(8, nil, s.buy),
		"buy together":        step(5, nil, s.buyTogether),
		"another lane sells":  step(2, nil, s.sellElsewhere),
		"read":                step(6, worker(free), s.read),
		"claim":               step(6, worker(free), s.claim),
		"handle":              step(9, worker(busy), s.handle),
		"lose entries":        step(1, worker(busy), s.loseEntries),
		"settle late":         step(2, worker(behind), s.settleLate),
		"settle again":        step(2, worker(hasSettled), s.settleAgain),
		"cancel":              step(5, order(cancellable), s.cancel),
		"release again":       step(1, order(isCancelled), s.releaseAgain),
		"replay":              step(4, order(isDead), s.replay),
		"discard":             step(1, order(isDead), s.discard),
		"reconcile":           step(1, nil, s.reconcile),
		"the id clock jumps":  step(2, nil, s.jump),
		"Redis loses a gate":  step(2, nil, s.loseGate),
		"Redis loses a group": step(1, nil, s.loseGroup),
		"Redis loses more":    step(1, nil, s.loseMore),
		"a loss is over":      step(4, func() bool { return slices.ContainsFunc(s.vouchers, s.lost) }, s.passLoss),
	}
}
