package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/ops/doctor"
	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

const goodSecret = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"

func requireStatus(t *testing.T, found map[string]doctor.Finding, want doctor.Status, names ...string) {
	t.Helper()
	for _, name := range names {
		require.Contains(t, found, name)
		require.Equal(t, want, found[name].Status, "%s: %s", name, found[name].Found)
	}
}

// TestDoctorPassesSoundStack checks a stack with a database user of least privilege, a durable Redis and random
// secrets.
func TestDoctorPassesSoundStack(t *testing.T) {
	env.Full(t)
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		s, dsn := sellersStack(t, kind)
		p := s.Serve(t)
		found := s.Diagnose(t, 0, "--instances", "3")
		for name, f := range found {
			if f.Check != "config.proxies" && f.Check != "config.sandbox" && f.Check != "sales.admins" { // no admin has enrolled
				require.Contains(t, []doctor.Status{doctor.OK, doctor.Skipped}, f.Status, "%s: %s", name, f.Found)
			}
		}
		requireStatus(t, found, doctor.OK, "database.schema", "database.checks", "database.isolation",
			"database.sql_mode", "redis.persistence redis "+s.Redis.Addr, "sales.upcoming", "sales.gates")
		require.Zero(t, p.Stop(t))

		out := s.DoctorReports(t, " 0 failed, ")
		require.Contains(t, out, "database.commit")
		require.Regexp(t, `\d+ checks: \d+ ok, \d+ warnings, 0 failed, \d+ skipped`, out)
		for _, secret := range []string{dsn.Passwd, goodSecret} {
			require.NotContains(t, out, secret)
		}
	})
}

// sellersStack returns a stack with a database user of least privilege, and its DSN.
func sellersStack(t *testing.T, kind env.Kind) (*rig.Stack, *mysql.Config) {
	t.Helper()
	env.Full(t)
	db, rds := kind.Start(t), env.StartRedis(t, "--appendonly", "yes")
	dsn, err := mysql.ParseDSN(db.DSN(t))
	require.NoError(t, err)
	s := &rig.Stack{Kind: db.Kind, Database: db, Redis: rds, Env: []string{"SECKILL_MYSQL_DSN=" + dsn.FormatDSN()}}
	s.Exec(t, "CREATE USER seller@'127.0.0.1' IDENTIFIED BY 'hunter2hunter2'")
	s.Exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `"+dsn.DBName+"`.* TO seller@'127.0.0.1'")
	dsn.User, dsn.Passwd = "seller", "hunter2hunter2"
	s.Env = []string{
		"SECKILL_MYSQL_DSN=" + dsn.FormatDSN(), "SECKILL_REDIS_ADDRS=" + rds.Addr, "SECKILL_DATA_DIR=" + t.TempDir(),
		"SECKILL_JWT_SECRET=" + goodSecret, "SECKILL_ADMIN_PHONES=13912345678", "SECKILL_ORDER_LANE=queue", "SECKILL_ADDR=127.0.0.1:0",
		"SECKILL_CODE_URL=https://sms.example", "SECKILL_EVENTS_SECRET=" + rig.EventsSecret, "SECKILL_UNSAFE=sandbox", // which no other provider replaces
	}
	return s, dsn
}

// TestDoctorExitCodes checks the exit codes: 0 with warnings, 1 with warnings and --strict, 1 on a failure, 2 if a
// server does not answer or the configuration is invalid.
func TestDoctorExitCodes(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t).With("SECKILL_RATE_LIMIT=on", "SECKILL_JWT_SECRET="+goodSecret, "SECKILL_UNSAFE=")
	requireStatus(t, s.Diagnose(t, 0), doctor.OK, "config.demo") // for this machine only
	reachable := s.With("SECKILL_ADDR=:0")
	found := reachable.Diagnose(t, 0)
	requireStatus(t, found, doctor.Warn, "config.demo")
	requireStatus(t, found, doctor.Skipped, "redis.reachable", "sales.queue") // no server runs
	reachable.Diagnose(t, 1, "--strict")
	requireStatus(t, s.With("SECKILL_JWT_SECRET="+rig.TestSecret).Diagnose(t, 1), doctor.Fail, "config.jwt_secret")
	nowhere := rig.FreeAddr(t)
	found = s.With("SECKILL_REDIS_ADDRS="+nowhere, "SECKILL_JWT_SECRET="+rig.TestSecret).Diagnose(t, 2)
	requireStatus(t, found, doctor.Fail, "redis.reachable redis "+nowhere)
	requireStatus(t, found, doctor.Skipped, "sales.queue")
	for _, args := range [][]string{{"--instances", "0"}, {"--no-such-flag"}, {"--pay-timeout", "1ms"}} {
		s.Exits(t, 2, append([]string{"doctor"}, args...)...)
	}
	require.NotContains(t, s.With("SECKILL_MYSQL_DSN=root:hunter2hunter2@tcp").Exits(t, 2, "doctor"), "hunter2")
}

// TestDoctorReportsDamagedSales damages the ledger and the gate of a sale directly in the stores, and queues an order that no
// lane commits. Package doctor shows what else is reported of a sale.
func TestDoctorReportsDamagedSales(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	p := s.Serve(t)
	sale := p.Sale(t, 5)
	tokens := s.Tokens(t, 1)
	p.Buy(t, tokens[0], sale)
	require.Zero(t, p.Stop(t)) // a running server would repair the damage

	found := s.Diagnose(t, 1) // Redis has no append-only file, so a restart loses queued orders
	requireStatus(t, found, doctor.OK, "sales.upcoming", "sales.windows", "sales.books", "sales.gates", "sales.queue")
	upcoming := strings.Fields(regexp.MustCompile(`voucher \d+`).FindString(found["sales.upcoming"].Found))[1]

	s.Exec(t, "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = "+upcoming)
	f := s.Diagnose(t, 1)["sales.books"]
	require.Equal(t, doctor.Fail, f.Status, f.Found)
	require.Contains(t, f.Found, "I3")
	s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+upcoming)

	prefix := "seckill:{s" + upcoming + "}:" + upcoming + ":"
	rdb := s.Client(t)
	stock := s.StockOf(t, upcoming)
	require.NoError(t, rdb.Set(t.Context(), prefix+"stock", stock-3, 0).Err())
	require.NoError(t, rdb.HSet(t.Context(), prefix+"meta", "held", 0, "queued", 0, "version", 1, "sum", 0).Err())
	f = s.Diagnose(t, 1)["sales.gates"]
	require.Equal(t, doctor.Warn, f.Status, f.Found)
	require.Contains(t, f.Found, "the gate is missing 3 free units")

	// Queued orders in a lane without workers, and a dead letter.
	require.NoError(t, rdb.HSet(t.Context(), admission.QueuedTickets()[3], "1", "row").Err())
	requireStatus(t, s.Diagnose(t, 1), doctor.OK, "sales.queue")
	requireStatus(t, s.With("SECKILL_ORDER_LANE=lock").Diagnose(t, 0), doctor.Warn, "sales.queue")
	require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: admission.DeadStreams()[3], Values: []string{"row", "row"}}).Err())
	requireStatus(t, s.Diagnose(t, 1), doctor.Warn, "sales.queue")
}
