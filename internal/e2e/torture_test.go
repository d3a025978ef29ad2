package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// tortureStack returns a stack for the torture command, which starts its own servers. It is skipped if their programs are
// missing and not required.
func tortureStack(t *testing.T) *stack {
	testenv.Long(t)
	testenv.SharedMariaDB(t)
	testenv.SharedRedis(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	return &stack{env: []string{
		"SECKILL_ORDER_LANE=lock", // which the servers of a campaign do not inherit
		"XDG_CACHE_HOME=" + cache, // it has an empty data directory of MariaDB, which takes seconds to create
	}}
}

// TestTorture runs a short fault campaign, in which every kind of fault occurs, on one database and a Redis with Sentinel.
func TestTorture(t *testing.T) {
	t.Parallel()
	campaign(t, "lock")
}

// TestTortureOfClusters is TestTorture on a Galera cluster and a Redis Cluster. In make test it has a process of its own,
// which begins beside the tests that run one at a time: on a busy machine the scripts with which a node of Galera joins take
// minutes.
func TestTortureOfClusters(t *testing.T) {
	campaign(t, "queue", "--redis", "cluster", "--database", "galera")
}

// campaign runs a campaign without violations. It repeats one in which a fault was not injected, because a server did not
// answer in time again.
func campaign(t *testing.T, lane string, systems ...string) {
	t.Helper()
	args := append([]string{"torture", "--orders", "600", "--rate", "60", "--lane", lane}, systems...)
	code, out := tortureStack(t).runProcess(t, args...)
	if code == exitUnchecked {
		t.Log(out)
		code, out = tortureStack(t).runProcess(t, args...)
	}
	require.Zero(t, code, out)
	require.Contains(t, out, "lane `"+lane+"`")
	require.Regexp(t, `\n[6-9][0-9]{2} orders of 840 buyers`, out, "every unit was sold")
	require.NotRegexp(t, `\n\| [a-zA-Z].* \| 0 \| 0 \| 0.0 s`, out, "every kind of fault was injected")
	t.Log(out)
}

// TestTortureFindsPlantedViolations breaks three promises by hand in the database of a campaign: it deletes an order that
// was answered and returns its unit, adds a unit to the stock, and gives five users a second order with a unit.
func TestTortureFindsPlantedViolations(t *testing.T) {
	t.Parallel()
	s := tortureStack(t)
	cmd := s.command(t, "torture", "--orders", "400", "--rate", "60", "--lane", "batch", "--seed", "2")
	out := &buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // and with it its servers
	dsn := regexp.MustCompile(`database (\S+)\n`)
	eventually(t, "the campaign has begun", func() bool { return dsn.MatchString(out.String()) })
	cfg, err := mysql.ParseDSN(dsn.FindStringSubmatch(out.String())[1])
	require.NoError(t, err)
	cfg.Logger = &mysql.NopLogger{} // the campaign breaks connections
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	violations := [][]string{
		{
			"SELECT user_id, voucher_id INTO @user, @voucher FROM voucher_orders WHERE status = 1 ORDER BY id LIMIT 1 FOR UPDATE",
			"DELETE FROM voucher_orders WHERE user_id = @user",
			"UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = @voucher",
		},
		{"UPDATE seckill_vouchers SET stock = stock + 1 ORDER BY voucher_id DESC LIMIT 1"},
	}
	for n := range 5 { // some of these users may cancel their first order before the end
		violations = append(violations, []string{
			fmt.Sprintf("SELECT id INTO @id FROM voucher_orders WHERE status = 1 AND id > 99 ORDER BY id DESC LIMIT 1 OFFSET %d FOR UPDATE", n),
			fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, currency, created_at, updated_at, expires_at)
			 SELECT %d, user_id, voucher_id, 2, status, amount, currency, created_at, updated_at, expires_at FROM voucher_orders WHERE id = @id`, n+1),
		})
	}
	for _, statements := range violations {
		eventually(t, "the database accepts the violation", func() bool { return plant(db, statements) == nil })
	}
	require.Error(t, cmd.Wait())
	require.Equal(t, exitViolation, cmd.ProcessState.ExitCode(), out)
	for _, want := range []string{
		"I6 Order IDs are unique | holds", "I2 One order per user | **BROKEN**", "I3 Conservation | **BROKEN**", "I4 Answers are true | **BROKEN**",
		"is not in the database", "users hold more active orders than allowed", "units in total",
	} {
		require.Contains(t, out.String(), want)
	}
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
