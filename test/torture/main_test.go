package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// TestMain runs the tests, or the seckill that a campaign of theirs starts.
func TestMain(m *testing.M) { rig.Main(m) }

// TestTorture runs a short fault campaign, in which every kind of fault occurs, on one database and a Redis with Sentinel.
func TestTorture(t *testing.T) {
	requireServers(t)
	t.Parallel()
	requireNoViolation(t, "lock")
}

// TestTortureOfClusters is TestTorture on a Galera cluster and a Redis Cluster. It begins before the tests that run at the
// same time: on a busy machine the scripts with which a node of Galera joins take minutes.
func TestTortureOfClusters(t *testing.T) {
	requireServers(t)
	requireNoViolation(t, "queue", "--redis", "cluster", "--database", "galera")
}

// requireServers skips a test without the programs that a campaign starts.
func requireServers(t *testing.T) {
	t.Helper()
	env.Full(t)
	env.Program(t, "mariadbd")
	env.Program(t, "redis-server")
}

// requireNoViolation runs a campaign without violations. Its 840 buyers come for longer than a round of fifteen faults takes, one a
// second. It repeats a campaign in which a fault was not injected, because a server did not answer in time again.
func requireNoViolation(t *testing.T, lane string, systems ...string) {
	t.Helper()
	args := append([]string{"--orders", "600", "--rate", "45", "--lane", lane}, systems...)

	code, out := torture(t, args...)
	if code == exitUnchecked {
		t.Log(out)
		code, out = torture(t, args...)
	}

	require.Zero(t, code, out)
	require.Contains(t, out, "lane `"+lane+"`")
	require.Regexp(t, `\n[6-9][0-9]{2} orders of 840 buyers`, out, "every unit was sold")
	require.NotRegexp(t, `\n\| [a-zA-Z].* \| 0 \| 0 \| 0.0 s`, out, "every kind of fault was injected")
	t.Log(out)
}

func torture(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	var out env.Buffer
	code = run(context.WithoutCancel(t.Context()), args, &out, &out)
	return code, out.String()
}

// TestTortureFindsPlantedViolations breaks three promises by hand in the database of a campaign: it deletes an order that
// was answered and returns its unit, adds a unit to the stock, and gives five users a second order with a unit.
func TestTortureFindsPlantedViolations(t *testing.T) {
	requireServers(t)
	t.Parallel()

	var out env.Buffer
	ended := env.Go(func() int {
		args := []string{"--orders", "400", "--rate", "60", "--lane", "batch", "--seed", "2"}
		return run(context.WithoutCancel(t.Context()), args, &out, &out)
	})

	dsn := regexp.MustCompile(`database (\S+)\n`)
	rig.Eventually(t, "the campaign has begun", func() bool { return dsn.MatchString(out.String()) })
	cfg := env.Must(mysql.ParseDSN(dsn.FindStringSubmatch(out.String())[1]))(t)
	db := env.Must(servers.Open(cfg))(t)
	t.Cleanup(func() { _ = db.Close() })

	for _, statements := range violations() {
		rig.Eventually(t, "the database accepts the violation", func() bool { return plant(db, statements) == nil })
	}

	require.Equal(t, exitViolation, <-ended, out.String())
	for _, want := range []string{
		"I6 Order IDs are unique | holds", "I2 One order per user | **BROKEN**", "I3 Conservation | **BROKEN**", "I4 Answers are true | **BROKEN**",
		"is not in the database", "users hold more active orders than allowed", "units in total",
	} {
		require.Contains(t, out.String(), want)
	}
}

// violations returns transactions that each break a promise.
func violations() [][]string {
	planted := [][]string{
		{
			"SELECT user_id, voucher_id INTO @user, @voucher FROM voucher_orders WHERE status = 1 ORDER BY id LIMIT 1 FOR UPDATE",
			"DELETE FROM voucher_orders WHERE user_id = @user",
			"UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = @voucher",
		},
		{"UPDATE seckill_vouchers SET stock = stock + 1 ORDER BY voucher_id DESC LIMIT 1"},
	}
	for n := range 5 { // some of these users may cancel their first order before the end
		planted = append(planted, []string{
			fmt.Sprintf("SELECT id INTO @id FROM voucher_orders WHERE status = 1 AND id > 99 ORDER BY id DESC LIMIT 1 OFFSET %d FOR UPDATE", n),
			fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, currency, created_at, updated_at, expires_at)
			 SELECT %d, user_id, voucher_id, 2, status, amount, currency, created_at, updated_at, expires_at FROM voucher_orders WHERE id = @id`, n+1),
		})
	}
	return planted
}

// plant executes statements in one transaction. It fails while the campaign has no order, or keeps the database from
// working.
func plant(db *sql.DB, statements []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it has no effect

	for _, statement := range statements {
		res, err := tx.ExecContext(ctx, statement)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return sql.ErrNoRows
		}
	}
	return tx.Commit()
}

func TestCommandLine(t *testing.T) {
	code, out := torture(t, "--orders", "5000001")
	require.Equal(t, exitUnchecked, code)
	require.Contains(t, out, "--orders between 30 and 5000000")

	code, out = torture(t, "--lane", "fast")
	require.Equal(t, exitUnchecked, code)
	require.Contains(t, out, "--lane must be one of")
}

// TestSchedule: a seed fixes the faults and the fates. Every kind of fault occurs once in each round, within its bounds.
func TestSchedule(t *testing.T) {
	kinds := kindsOf(Config{})
	faultsOf := func(seed uint64) (faults []Fault) {
		next := schedule(seed, kinds)
		for range 3 * len(kinds) {
			f, k := next()
			require.GreaterOrEqual(t, f.Hold, k.min)
			require.LessOrEqual(t, f.Hold, k.max)
			faults = append(faults, f)
		}
		return faults
	}
	first := faultsOf(7)
	require.Equal(t, first, faultsOf(7))
	require.NotEqual(t, first, faultsOf(8))
	for round := range slices.Chunk(first, len(kinds)) {
		seen := map[string]bool{}
		for _, f := range round {
			seen[f.Kind] = true
		}
		require.Len(t, seen, len(kinds))
	}

	a, b := drawFates(7), drawFates(7)
	seen := map[fate]bool{}
	for range 200 {
		f := a()
		require.Equal(t, f, b())
		seen[f] = true
	}
	require.Len(t, seen, 6)
}

func TestReportOfViolations(t *testing.T) {
	c := &campaign{cfg: Config{Lane: "batch"}, system: &system{}, ledger: newLedger(0)}
	c.faults = []*Fault{{Kind: "kill server", Begin: 1, End: 2 * time.Second}, {Kind: "kill database", Error: "no"}}
	require.ErrorIs(t, c.report(time.Second).Err(), ErrNotInjected)
	for i := range maxViolations + 5 {
		c.ledger.violate("I4", "order %d is lost", i%(maxViolations+3)) // the last two repeat the first
	}
	r := c.report(time.Second)
	require.ErrorContains(t, r.Err(), "103 violations")
	var text bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&text))
	for _, want := range []string{
		"| I3 Conservation | holds |", "| I4 Answers are true | **BROKEN** |", "order 7 is lost", "- 3 more",
		"| kill server | 1 | 0 | 2.0 s / 2.0 s |", "kill database of : no",
	} {
		require.Contains(t, text.String(), want)
	}
	data := env.Must(json.Marshal(r))(t)
	var again Report
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, r, &again)
}
