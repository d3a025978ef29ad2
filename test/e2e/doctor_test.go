package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/doctor"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
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
	testenv.Full(t)
	t.Parallel()
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		s, dsn := sellersStack(t, kind)
		p := s.Serve(t)
		found := s.Diagnose(t, 0, "--instances", "3")
		for name, f := range found {
			if f.Check != "machine.files" && f.Check != "config.proxies" && f.Check != "config.sandbox" && f.Check != "sales.admins" { // no admin has enrolled
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
func sellersStack(t *testing.T, kind testenv.Kind) (*rig.Stack, *mysql.Config) {
	t.Helper()
	testenv.Full(t)
	db, rds := kind.Start(t), testenv.StartRedis(t, "--appendonly", "yes")
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
	testenv.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t).With("SECKILL_RATE_LIMIT=on", "SECKILL_JWT_SECRET="+goodSecret, "SECKILL_UNSAFE=")
	requireStatus(t, s.Diagnose(t, 0), doctor.Warn, "config.demo")
	s.Diagnose(t, 1, "--strict")
	requireStatus(t, s.With("SECKILL_JWT_SECRET="+rig.TestSecret).Diagnose(t, 1), doctor.Fail, "config.jwt_secret")
	nowhere := rig.FreeAddr(t)
	found := s.With("SECKILL_REDIS_ADDRS="+nowhere, "SECKILL_JWT_SECRET="+rig.TestSecret).Diagnose(t, 2)
	requireStatus(t, found, doctor.Fail, "redis.reachable redis "+nowhere)
	requireStatus(t, found, doctor.Skipped, "sales.queue")
	for _, args := range [][]string{{"--instances", "0"}, {"--no-such-flag"}, {"--pay-timeout", "1ms"}} {
		code, out := s.Run(t, append([]string{"doctor"}, args...)...)
		require.Equal(t, 2, code, out)
	}
	code, out := s.With("SECKILL_MYSQL_DSN=root:hunter2hunter2@tcp").Run(t, "doctor")
	require.Equal(t, 2, code, out)
	require.NotContains(t, out, "hunter2")
}

// TestDoctorReportsFrozenServers freezes the database, Redis and a lock node: they accept connections and never answer.
func TestDoctorReportsFrozenServers(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s, _ := sellersStack(t, testenv.OneKind(t))
	node := testenv.StartRedis(t)
	s = s.With("SECKILL_LOCK_NODES="+node.Addr, "SECKILL_REDIS_PASSWORD=hunter2hunter2")
	for _, pause := range []func() error{s.Database.Pause, s.Redis.Pause, node.Pause} {
		require.NoError(t, pause())
	}
	found := s.Diagnose(t, 2)
	for _, name := range []string{"database.reachable", "redis.reachable redis " + s.Redis.Addr, "redis.reachable lock node " + node.Addr} {
		requireStatus(t, found, doctor.Fail, name)
		require.True(t, found[name].Unasked)
		require.Contains(t, found[name].Found, "hangs")
	}
	requireStatus(t, found, doctor.Skipped, "database.commit", "sales.upcoming", "sales.books", "redis.eviction redis "+s.Redis.Addr)
	requireStatus(t, found, doctor.Fail, "locks.independent")
}

// TestDoctorChecksEveryClusterMaster checks that the findings include masters that are not in the configuration.
func TestDoctorChecksEveryClusterMaster(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := testenv.StartRedisCluster(t)
	s := rig.EmbeddedStack(t).OnEmptyDatabase(t).With("SECKILL_REDIS_ADDRS=" + c.Nodes[0].Addr + "," + c.Nodes[1].Addr)
	found := s.Diagnose(t, 0)
	for _, n := range c.Nodes {
		requireStatus(t, found, doctor.OK, "redis.cluster redis "+n.Addr)
	}
	requireStatus(t, s.With("SECKILL_REDIS_ADDRS="+c.Nodes[2].Addr).Diagnose(t, 1), doctor.Fail, "redis.cluster redis "+c.Nodes[2].Addr)
}

// TestDoctorIsReadOnly runs the doctor without a server, beside a running one, whose embedded Redis it finds, and after
// its stop. Without a running server no file in the data directory changes.
func TestDoctorIsReadOnly(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t).OnEmptyDatabase(t)
	dir := s.Setting("SECKILL_DATA_DIR")
	before := files(t, dir)
	requireStatus(t, s.Diagnose(t, 0), doctor.Skipped, "database.reachable", "redis.reachable", "sales.upcoming")
	require.Equal(t, before, files(t, dir), "no database is created")
	missing := filepath.Join(dir, "none")
	s.With("SECKILL_DATA_DIR="+missing).Diagnose(t, 0)
	require.NoDirExists(t, missing)

	require.NoError(t, os.Chmod(dir, 0o700))
	p := s.Serve(t)
	found := s.Diagnose(t, 0)
	requireStatus(t, found, doctor.OK, "database.reachable", "database.schema", "database.journal", "data.permissions",
		"redis.reachable", "sales.upcoming", "sales.schema", "sales.windows", "sales.books", "sales.queue")
	require.Contains(t, found["sales.upcoming"].Found, "1 sales begin within 24h0m0s, the first is voucher")
	requireStatus(t, found, doctor.Skipped, "sales.gates")
	rig.RequireReady(t, p)
	require.Zero(t, p.Stop(t))
	before = files(t, dir)
	requireStatus(t, s.Diagnose(t, 0), doctor.Skipped, "redis.reachable", "sales.queue")
	require.Equal(t, before, files(t, dir))
}

// files returns the content of each file below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

// TestDoctorReportsDamagedSales damages the ledger, the time window and the gate of a sale directly in the stores.
func TestDoctorReportsDamagedSales(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	p := s.Serve(t)
	sale := p.Sale(t, 5)
	tokens := s.Tokens(t, 1)
	order := p.MustPlace(t, tokens[0], sale)
	rig.RequireOrdered(t, p, tokens[0], order.ID)
	require.Zero(t, p.Stop(t)) // a running server would repair the damage
	sound := 0
	if s.Redis != nil {
		sound = 1 // it has no append-only file, so a restart loses queued orders
	}
	found := s.Diagnose(t, sound)
	requireStatus(t, found, doctor.OK, "sales.upcoming", "sales.schema", "sales.windows", "sales.books", "sales.gates", "sales.queue")
	require.Contains(t, found["sales.gates"].Found, "0 of 1 gates")
	upcoming := strings.Fields(regexp.MustCompile(`voucher \d+`).FindString(found["sales.upcoming"].Found))[1]

	for _, tc := range []struct {
		damage, repair, check string
		want                  doctor.Status
		contains              string
	}{
		{"UPDATE seckill_vouchers SET stock = stock + 1", "UPDATE seckill_vouchers SET stock = stock - 1", "sales.books", doctor.Fail, "I3"},
		{"UPDATE seckill_vouchers SET limit_per_user = 0", "UPDATE seckill_vouchers SET limit_per_user = 1", "sales.windows", doctor.Fail, "allows no orders"},
		{"UPDATE seckill_vouchers SET end_at = begin_at", "", "sales.windows", doctor.Fail, "ends before it begins"},
	} {
		where := " WHERE voucher_id = " + upcoming
		s.Exec(t, tc.damage+where)
		f := s.Diagnose(t, 1)[tc.check]
		require.Equal(t, tc.want, f.Status, f.Found)
		require.Contains(t, f.Found, tc.contains)
		if tc.repair != "" {
			s.Exec(t, tc.repair+where)
		}
	}

	// The gate of an upcoming sale, first correct and then with a wrong stock. The sale still ends before it begins.
	prefix := "seckill:{s" + upcoming + "}:" + upcoming + ":"
	rdb := s.Client(t)
	stock := s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+upcoming)
	require.NoError(t, rdb.Set(t.Context(), prefix+"stock", stock, 0).Err())
	require.NoError(t, rdb.HSet(t.Context(), prefix+"meta", "held", 0, "queued", 0, "version", 1, "sum", 0).Err())
	require.Contains(t, s.Diagnose(t, 1)["sales.gates"].Found, "1 of 1 gates are loaded and match")
	require.NoError(t, rdb.Set(t.Context(), prefix+"stock", stock-3, 0).Err())
	f := s.Diagnose(t, 1)["sales.gates"]
	require.Equal(t, doctor.Warn, f.Status, f.Found)
	require.Contains(t, f.Found, "the gate is missing 3 free units")
	require.NoError(t, rdb.Del(t.Context(), prefix+"meta").Err())
	require.NoError(t, rdb.Set(t.Context(), prefix+"meta", "no hash", 0).Err())
	require.Contains(t, s.Diagnose(t, 1)["sales.gates"].Found, "the keys of its gate hold other data")
	require.NoError(t, rdb.Del(t.Context(), prefix+"meta", prefix+"stock").Err())

	// A migration is removed from the list of applied ones.
	s.Exec(t, "DELETE FROM goose_db_version WHERE version_id = 15")
	found = s.Diagnose(t, 1)
	requireStatus(t, found, doctor.Warn, "sales.schema", "database.schema")
	require.Contains(t, found["sales.schema"].Found, "voucher "+upcoming+" begins in")
	require.Contains(t, found["sales.schema"].Found, "migration 15 is pending")

	// Queued orders in a lane without workers, and a dead letter.
	require.NoError(t, rdb.HSet(t.Context(), admission.QueuedTickets()[3], "1", "row").Err())
	requireStatus(t, s.Diagnose(t, 1), doctor.OK, "sales.queue")
	requireStatus(t, s.With("SECKILL_ORDER_LANE=lock").Diagnose(t, 1), doctor.Warn, "sales.queue")
	require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: admission.DeadStreams()[3], Values: []string{"row", "row"}}).Err())
	requireStatus(t, s.Diagnose(t, 1), doctor.Warn, "sales.queue")
}
