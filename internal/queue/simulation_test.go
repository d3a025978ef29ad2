package queue

import (
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/service"
	"seckill/internal/testenv"
)

// simulation is the lane queue from a click to the database: the real lane, gate, workers, committer and store, but
// in one thread, on a clock that moves only when somebody waits, with faults wherever a process or Redis may fail.
// Beside it runs a model of what buyers were promised. Every run has a fresh database and an empty Redis; nothing
// in it is random but what rapid draws, so that a seed repeats a failure and rapid can make it short.
type simulation struct {
	*world
	workers []*simWorker

	promises []*promise
	byMoment map[int64]*promise // by Admission.At, which no two have in common
	gates    map[int64]*gateFacts
	twice    map[int64]bool // order ids that were handed out twice, after Redis lost their counter
	booked   *picture       // whose books were checked last
	found    map[service.Kind]int
	seen     map[string]int // what happened how often, in all runs
}

// TestSimulation does some 2,000 steps on miniredis and some hundred on Redis. -rapid.seed repeats a run,
// -rapid.checks and -rapid.steps make it longer.
func TestSimulation(t *testing.T) {
	seed := rand.Uint64()
	setRapid(t, "checks", 25)
	setRapid(t, "steps", 80)
	setRapid(t, "nofailfile", true) // the seed is enough
	setRapid(t, "shrinktime", "1h") // on the clock of the simulation: some hundred runs
	setRapid(t, "seed", seed)
	template := migrated(t)
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		if filepath.Base(t.Name()) == "redis" {
			setRapid(t, "checks", 4)
		}
		t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
		seen := map[string]int{}
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(noDeadline{t}, func(rt *rapid.T) {
				s := newSimulation(rt, newWorld(rt, rdb, template, filepath.Join(t.TempDir(), "db")), seen)
				defer s.close()
				s.run(rt)
			})
		})
		t.Logf("promises by what became of them, and other events: %v", seen)
	})
}

// setRapid changes a default of rapid for this test. What the command line says stays.
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

// noDeadline hides from rapid the deadline of a test, for which nobody may ask where time stands still.
type noDeadline struct{ testing.TB }

func newSimulation(t *rapid.T, w *world, seen map[string]int) *simulation {
	s := &simulation{
		world: w, byMoment: map[int64]*promise{}, gates: map[int64]*gateFacts{}, twice: map[int64]bool{},
		booked: &picture{}, seen: seen,
	}
	for _, v := range w.vouchers {
		s.gates[v.id] = &gateFacts{excused: map[int64]bool{}}
	}
	for i := range 3 {
		s.workers = append(s.workers, newSimWorker(s, "worker-"+strconv.Itoa(i)))
	}
	return s
}

// run is random steps with a check after each, and then the end that every run must come to.
func (s *simulation) run(t *rapid.T) {
	steps := s.steps()
	t.Repeat(map[string]func(*rapid.T){
		"":     s.check,
		"step": func(t *rapid.T) { steps[evenly(t, "what", possible(steps)...)].do(t) },
	})
	s.conclude(t)
}

// step is something that may happen.
type step struct {
	weight int         // how often, compared with the others
	can    func() bool // whether it can happen now; nil: always
	do     func(*rapid.T)
}

func (s *simulation) steps() map[string]step {
	worker := func(fits func(*simWorker) bool) func() bool {
		return func() bool { return slices.ContainsFunc(s.workers, fits) }
	}
	order := func(fits func(*promise) bool) func() bool {
		return func() bool { return slices.ContainsFunc(s.promises, fits) }
	}
	return map[string]step{
		"buy":                 {8, nil, s.buy},
		"buy together":        {5, nil, s.buyTogether},
		"another lane sells":  {2, nil, s.sellElsewhere},
		"read":                {6, worker(free), s.read},
		"claim":               {6, worker(free), s.claim},
		"handle":              {9, worker(busy), s.handle},
		"lose what was read":  {1, worker(busy), s.loseHand},
		"settle at last":      {2, worker(owing), s.settleLate},
		"settle again":        {2, worker(experienced), s.settleAgain},
		"cancel":              {5, order(cancellable), s.cancel},
		"release again":       {1, order(isCancelled), s.releaseAgain},
		"replay":              {4, order(buried), s.replay},
		"discard":             {1, order(buried), s.discard},
		"reconcile":           {1, nil, s.reconcile},
		"the id clock jumps":  {2, nil, s.jump},
		"Redis loses a gate":  {2, nil, s.loseGate},
		"Redis loses a group": {1, nil, s.loseGroup},
		"Redis loses more":    {1, nil, s.loseMore},
	}
}

// possible names the steps that can happen now, each as often as its weight says, in an order that is always the same.
func possible(steps map[string]step) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		if step := steps[name]; step.can == nil || step.can() {
			names = append(names, slices.Repeat([]string{name}, step.weight)...)
		}
	}
	return names
}

// evenly draws one of some. Rapid's own generators prefer the first.
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
