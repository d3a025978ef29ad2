package sim_test

import (
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/repo"
	"seckill/internal/sim"
	"seckill/internal/testenv"
)

// lifeChecks is how many runs TestLife makes of each lane on each stack. -rapid.checks or RAPID_CHECKS makes more.
const lifeChecks = 5

// lifeSteps is how many steps a run has on average, its end aside.
const lifeSteps = 60

// life is the whole life of orders, from the click to the refund: two servers with the real services, lanes, gate and
// workers on a real database, a bank that moves money, and people who buy, pay, cancel, redeem and change sales.
// Servers die, replies and messages get lost, notices come late, twice or in another order.
//
// Beside it runs a model: the books, which say what every table must hold. A step has an effect on them, and after every
// step they are compared with all of the database. Steps that run at once must have had the effect of some order of
// them. The clock is that of a bubble and moves only when somebody waits.
type life struct {
	*world
	books books

	// What the model must know of the lane queue.
	promises map[int64]*promise
	gateOff  map[int64]bool // vouchers whose gate was not told everything, until it is built again
	lateWork lateWork

	due   map[int64]bool // orders whose time to pay is over, if they are unpaid
	locks map[int64]bool // users whose lock was left by a server that died
	now   *picture       // what the last step left, if nobody has checked it yet

	queries map[string]*sql.Stmt

	t     *rapid.T
	diary *diary
	story []string // of this run
}

// diary is about all runs of a test.
type diary struct {
	seen    map[string]int // what happened how often
	failure string         // why the first run failed that did, and its story
}

// Errorf and FailNow make a life a require.TestingT. The first failure is kept with its story: what was done at once
// may end otherwise when rapid repeats it.
func (l *life) Errorf(format string, args ...any) {
	l.t.Errorf(format, args...)
	if l.diary.failure == "" {
		l.diary.failure = fmt.Sprintf(format, args...) + "\nThe story so far:\n" + strings.Join(l.story, "\n")
	}
}

// FailNow ends the run.
func (l *life) FailNow() { l.t.FailNow() }

// did notes what was done and what came of it.
func (l *life) did(format string, args ...any) {
	l.story = append(l.story, fmt.Sprintf(format, args...))
}

// TestLife plays the life of orders in every lane, on SQLite with miniredis and on MariaDB with Redis. -rapid.seed
// repeats a run.
func TestLife(t *testing.T) {
	setRapid(t, "seed", rand.Uint64())
	setRapid(t, "checks", lifeChecks)
	setRapid(t, "steps", lifeSteps)
	setRapid(t, "nofailfile", true) // the seed is enough
	setRapid(t, "shrinktime", "1h") // on the clock of the bubble: some hundred runs
	for _, lane := range []string{"lock", "batch", "queue"} {
		t.Run(lane, func(t *testing.T) {
			eachStack(t, func(t *testing.T, s stack) {
				t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
				d := &diary{seen: map[string]int{}}
				t.Cleanup(func() { t.Logf("what happened: %s\n%s", counted(d.seen), d.failure) })
				inBubble(t, func(t *testing.T) {
					rapid.Check(noDeadline{t}, func(rt *rapid.T) { live(rt, s, lane, planted{}, d) })
				})
			})
		})
	}
}

// live is one run.
func live(t *rapid.T, s stack, lane string, p planted, d *diary) {
	l := &life{
		promises: map[int64]*promise{}, gateOff: map[int64]bool{}, lateWork: lateWork{held: map[int64]bool{}},
		due: map[int64]bool{}, locks: map[int64]bool{}, queries: map[string]*sql.Stmt{}, t: t, diary: d,
	}
	vouchers := drawVouchers(t) // first: if rapid ends the run here, nothing is open
	l.world = newWorld(t, s, lane, p)
	defer l.close()
	l.open(t, vouchers)
	steps := l.steps()
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { l.check() },
		"step": func(t *rapid.T) {
			what := sim.Next(t, steps)
			l.did("%s", what)
			steps[what].Do(t)
		},
	})
	l.conclude(t)
}

// stack is a database and a Redis.
type stack struct {
	rdb  *redis.Client
	open func(t *rapid.T) *repo.Store // with the schema and nothing in it
}

// eachStack runs a test on the embedded default and on real servers.
func eachStack(t *testing.T, fn func(t *testing.T, s stack)) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		s := stack{rdb: rdb, open: emptySQLite(t)}
		if filepath.Base(t.Name()) == "redis" {
			s.open = emptyMariaDB(t)
		}
		fn(t, s)
	})
}

// emptySQLite copies an empty database for every run.
func emptySQLite(t *testing.T) func(*rapid.T) *repo.Store {
	template, file := filepath.Join(t.TempDir(), "template"), filepath.Join(t.TempDir(), "db")
	store, err := repo.OpenSQLite(template)
	require.NoError(t, err)
	_, err = store.MigrateUp(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Close()) // brings the log into the file
	data, err := os.ReadFile(template)
	require.NoError(t, err)
	return func(t *rapid.T) *repo.Store {
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(file + end)
		}
		require.NoError(t, os.WriteFile(file, data, 0o600))
		store, err := repo.OpenSQLite(file)
		require.NoError(t, err)
		return store
	}
}

// emptyMariaDB empties one database before every run: making one takes longer.
func emptyMariaDB(t *testing.T) func(*rapid.T) *repo.Store {
	dsn := testenv.MySQLDSN(t)
	store, err := repo.OpenMySQL(dsn)
	require.NoError(t, err)
	_, err = store.MigrateUp(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Close())
	return func(t *rapid.T) *repo.Store {
		store, err := repo.OpenMySQL(dsn)
		require.NoError(t, err)
		for _, table := range []string{"voucher_orders", "payments", "stock_changes", "audit_log", "seckill_vouchers", "vouchers"} {
			_, err := store.Pools()["write"].Exec("DELETE FROM " + table)
			require.NoError(t, err)
		}
		return store
	}
}

// inBubble runs a test on a clock of its own, which begins now: databases do not reach back to where it begins else.
func inBubble(t *testing.T, fn func(t *testing.T)) {
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		fn(t)
	})
}

// setRapid changes a default of rapid for this test. What the command line or the environment says stays.
func setRapid(t *testing.T, name string, value any) {
	t.Helper()
	_, given := os.LookupEnv("RAPID_" + strings.ToUpper(name))
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid."+name })
	if given {
		return
	}
	f := flag.Lookup("rapid." + name).Value
	before := f.String()
	require.NoError(t, f.Set(fmt.Sprint(value)))
	t.Cleanup(func() { _ = f.Set(before) })
}

// noDeadline hides from rapid the deadline of a test, for which nobody may ask where time stands still.
type noDeadline struct{ testing.TB }

func counted(seen map[string]int) string {
	words := make([]string, 0, len(seen))
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		words = append(words, fmt.Sprintf("%s %d", what, seen[what]))
	}
	return strings.Join(words, ", ")
}

// once draws true once in n times.
func once(t *rapid.T, label string, n int) bool {
	return sim.Evenly(t, label, append(make([]bool, n-1), true)...)
}
