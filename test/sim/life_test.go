// Package sim simulates the order life cycle. Its tests perform random steps on the real packages, with crashes and
// lost replies, and compare every table with a model after each step.
package sim

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
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/test/env"
)

// lifeChecks returns the number of runs of TestLife per lane and stack. -rapid.checks or RAPID_CHECKS overrides it.
func lifeChecks() int {
	if env.IsFull() {
		return 5
	}
	return 1
}

// lifeSteps is the average number of steps per run, without the steps of conclude.
const lifeSteps = 60

// life is one simulated history of orders, from the click to the refund: two servers with the real services, lanes,
// gate and workers on a real database, a payment provider, and buyers and admins that purchase, pay, cancel, redeem and
// change sales. Servers crash, replies and messages are lost, payment notices arrive late, twice or out of order.
//
// A model holds the expected content of every table. Each step updates the model, and after every step the model is
// compared with the whole database. Concurrent steps must have had the effect of some sequential order of them. The
// clock is that of a synctest bubble and advances only while all goroutines wait.
type life struct {
	*world
	model model

	// Model state of lane queue.
	reservations map[int64]*reservation
	gateStale    map[int64]bool // vouchers whose gate may have missed a change, until it is rebuilt
	workers      int            // so far
	suspended    []*worker
	settled      [][]domain.StreamEntry

	due    map[int64]bool // orders past their payment deadline, if they are still unpaid
	locks  map[int64]bool // users whose lock was left behind by a crashed server
	latest *snapshot      // the database after the last step, until check has compared it

	queries map[string]*sql.Stmt

	t       *rapid.T
	summary *summary
	history []string // of this run
}

// summary collects the results of all runs of a test.
type summary struct {
	counts  map[string]int // occurrences of every event
	failure string         // message and history of the first failed run
}

// Errorf and FailNow make a life a require.TestingT. Errorf keeps the first failure with its history, because
// concurrent actions may end differently when rapid repeats the run.
func (l *life) Errorf(format string, args ...any) {
	l.t.Errorf(format, args...)
	if l.summary.failure == "" {
		l.summary.failure = fmt.Sprintf(format, args...) + "\nHistory:\n" + strings.Join(l.history, "\n")
	}
}

// FailNow ends the run.
func (l *life) FailNow() { l.t.FailNow() }

// record appends a line to the history of the run.
func (l *life) record(format string, args ...any) {
	l.history = append(l.history, fmt.Sprintf(format, args...))
}

// TestLife simulates order histories in every lane, on SQLite with miniredis and on a database server with Redis. -rapid.seed
// repeats a run.
func TestLife(t *testing.T) {
	setRapid(t, "seed", rand.Uint64())
	setRapid(t, "checks", lifeChecks())
	setRapid(t, "steps", lifeSteps)
	setRapid(t, "nofailfile", true) // the seed is enough
	setRapid(t, "shrinktime", "1h") // bubble time: some hundred runs
	for _, lane := range []string{"lock", "batch", "queue"} {
		t.Run(lane, func(t *testing.T) {
			eachStack(t, func(t *testing.T, s stack) {
				t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
				d := &summary{counts: map[string]int{}}
				t.Cleanup(func() { t.Logf("events: %s\n%s", counted(d.counts), d.failure) })
				inBubble(t, func(t *testing.T) {
					rapid.Check(noDeadline{t}, func(rt *rapid.T) { runOnce(rt, s, lane, plantedFault{}, d) })
				})
			})
		})
	}
}

// runOnce is one run.
func runOnce(t *rapid.T, s stack, lane string, p plantedFault, d *summary) {
	l := &life{
		reservations: map[int64]*reservation{}, gateStale: map[int64]bool{},
		due: map[int64]bool{}, locks: map[int64]bool{}, queries: map[string]*sql.Stmt{}, t: t, summary: d,
	}
	vouchers := drawVouchers(t) // first: if rapid ends the run here, nothing is left open
	l.world = newWorld(t, s, lane, p)
	defer l.close()
	l.open(t, vouchers)
	steps := l.steps()
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { l.check() },
		"step": func(t *rapid.T) {
			what := nextStep(t, steps)
			l.record("%s", what)
			steps[what].do(t)
		},
	})
	l.conclude(t)
}

// close ends what a failed run has left, and the world.
func (l *life) close() {
	for _, w := range l.suspended {
		w.crashed = true
		w.stop()
		close(w.resume)
		<-w.ended
	}
	l.world.close()
}

// stack is a database and a Redis server.
type stack struct {
	rdb  *redis.Client
	open func(t *rapid.T) *repo.Store // returns an empty database with the schema
}

// eachStack runs a test on the embedded default and on real servers.
func eachStack(t *testing.T, fn func(t *testing.T, s stack)) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		open := emptySQLite
		if filepath.Base(t.Name()) == "redis" {
			open = emptyServer
		}
		fn(t, stack{rdb: rdb, open: open(t)})
	})
}

// emptySQLite returns a function that opens a fresh copy of an empty database.
func emptySQLite(t *testing.T) func(*rapid.T) *repo.Store {
	file := env.SQLiteFile(t)
	data, err := os.ReadFile(file)
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

// emptyServer returns a function that empties one database and opens it. Creating a database takes longer.
func emptyServer(t *testing.T) func(*rapid.T) *repo.Store {
	dsn := env.OneKind(t).MigratedDSN(t)
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

// inBubble runs a test in a synctest bubble whose clock is set to the current time. The databases do not accept the
// bubble's initial time.
func inBubble(t *testing.T, fn func(t *testing.T)) {
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		fn(t)
	})
}

// setRapid changes a default of rapid for one test. A value from the command line or the environment takes precedence.
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

// noDeadline hides the deadline of the test from rapid: testing.T.Deadline must not be called in a bubble.
type noDeadline struct{ testing.TB }

func counted(seen map[string]int) string {
	errorCodes := make([]string, 0, len(seen))
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		errorCodes = append(errorCodes, fmt.Sprintf("%s %d", what, seen[what]))
	}
	return strings.Join(errorCodes, ", ")
}

// oneIn draws true with probability 1/n.
func oneIn(t *rapid.T, label string, n int) bool {
	return evenly(t, label, append(make([]bool, n-1), true)...)
}

func TestMain(m *testing.M) {
	env.Main(m, func() error { return goleak.Find() })
}
