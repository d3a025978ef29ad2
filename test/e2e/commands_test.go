package e2e

import (
	"encoding/json"
	"image"
	"image/color"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/doctor"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestDefaultStartSeedsDemoOnce starts a server on an empty directory, which others may read, with every setting empty, as
// compose files pass unset variables on, and then a second time on its data. The files, with phone numbers, sessions and the
// signing secret, are private.
func TestDefaultStartSeedsDemoOnce(t *testing.T) {
	env.FullParallel(t)
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // an existing directory may be readable by others
	s := &rig.Stack{}
	fields := reflect.TypeFor[app.Config]()
	for i := range fields.NumField() {
		s.Env = append(s.Env, fields.Field(i).Tag.Get("env")+"=")
	}
	s = s.With("SECKILL_ADDR=127.0.0.1:0", "SECKILL_DATA_DIR="+dir)

	p := s.Spawn(t, "")
	states := map[string]int{}
	for _, v := range listVouchers(t, p) {
		states[v.State]++
	}
	// One of the vouchers on sale is not a flash sale.
	require.Equal(t, map[string]int{"on_sale": 2, "upcoming": 1, "ended": 1}, states)

	token := p.LoginToken(t, "13800000001")
	order := p.MustPlace(t, token, "2")
	require.Zero(t, p.Stop(t))

	p = s.Spawn(t, "")
	require.Len(t, listVouchers(t, p), 4, "the demo is not seeded twice")
	require.EqualValues(t, 99, p.Must(t, rig.Get("/vouchers/2", ""))["stock"])
	again := p.Do(t, rig.Post("/vouchers/2/orders", token, nil)) // the token is still valid, because the secret is stored
	rig.RequireProblem(t, http.StatusConflict, "duplicate_order", again)
	require.Equal(t, order, again.Body["order_id"])
	s.Verify(t) // while the server is running

	files := env.Must(os.ReadDir(dir))(t)
	require.NotEmpty(t, files)
	for _, f := range files {
		info := env.Must(f.Info())(t)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", f.Name(), info.Mode())
	}
}

func listVouchers(t *testing.T, p *rig.Server) []rush.Voucher {
	t.Helper()
	var list struct{ Items []rush.Voucher }
	require.NoError(t, json.Unmarshal([]byte(p.Do(t, rig.Get("/vouchers?limit=100", "")).Text), &list))
	return list.Items
}

// TestSecondServerOnDataDirectoryIsRejected starts two servers on one data directory. Each would have its own Redis.
func TestSecondServerOnDataDirectoryIsRejected(t *testing.T) {
	env.FullParallel(t)
	s := rig.EmbeddedStack(t)
	s.Serve(t)
	code, out := s.RunProcess(t, "serve", "--addr", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "another server uses the data directory")
}

// TestMigrateUpAndDown applies all migrations, reverts the last one and applies it again. Package sqldb reverts all.
func TestMigrateUpAndDown(t *testing.T) {
	rig.Core("embedded", "mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.OnEmptyDatabase(t)
		migrate := func(direction string) string { return s.Exits(t, 0, "migrate", direction) }
		require.Contains(t, migrate("down"), "nothing to roll back")
		require.Contains(t, migrate("up"), "applied 00001_users.sql")
		require.Contains(t, migrate("up"), "nothing to apply")
		require.NotContains(t, migrate("status"), "pending")
		require.Contains(t, migrate("down"), "rolled back")
		require.Equal(t, 1, strings.Count(migrate("status"), "pending"))
		migrate("up")
	})
}

func TestConcurrentStartsMigrateOnce(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t).OnEmptyDatabase(t)
	servers := make([]*rig.Server, 3)
	concurrently(len(servers), func(i int) { servers[i] = s.Serve(t) })
	for _, p := range servers {
		require.NotNil(t, p)
		require.Len(t, listVouchers(t, p), 4, "the demo is seeded once")
	}
}

// TestVerifyReportsViolations damages an order with SQL. Verify exits with 1 and names the violated invariant and the order.
// TestViolationsNameOrders of package repo has every damage.
func TestVerifyReportsViolations(t *testing.T) {
	rig.Core("embedded", "mariadb").Full("mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		sale := p.Sale(t, 5)
		order := p.MustPlace(t, s.Tokens(t, 1)[0], sale)
		s.Verify(t)

		s.Exec(t, "UPDATE voucher_orders SET slot = NULL WHERE voucher_id = "+sale)
		damage := regexp.MustCompile(`voucher ` + sale + `: I2: .*: order ` + order + ` of user \d+`)
		out := s.Exits(t, rig.ExitViolation, "verify")
		require.Regexp(t, damage, out)
		require.NotContains(t, out, "could not")

		// A Redis that is gone hides no violation.
		require.Zero(t, p.Stop(t))
		alone := s.With("SECKILL_REDIS_ADDRS=" + env.FreeAddr(t))
		out = alone.Exits(t, rig.ExitViolation, "verify")
		require.Regexp(t, damage, out)
		require.Contains(t, out, "note: could not check Redis: ")
		s.Exec(t, "UPDATE voucher_orders SET slot = 1 WHERE voucher_id = "+sale)
		alone.Exits(t, rig.ExitUnchecked, "verify")
	})
}

// TestSeedRequiresForceOutsideDemo: seeded tokens are valid for a day. The audit log has the command.
func TestSeedRequiresForceOutsideDemo(t *testing.T) {
	env.FullParallel(t)
	demo := rig.EmbeddedStack(t).OnEmptyDatabase(t)
	s := demo.With("SECKILL_DEMO=false")
	require.Contains(t, s.Exits(t, 1, "seed", "--users", "2", "--tokens", "-"), "--force")
	out := s.Exits(t, 0, "seed", "--users", "2", "--tokens", "-", "--force")
	require.Equal(t, 2, strings.Count(out, ",ey"), out)
	require.Equal(t, []string{"seed --force 2 users"}, demo.Serve(t).Commands(t))
}

// TestRushCommand runs the command of the README with each source of buyers: seeded, simulated by
// the server, or a file of tokens.
func TestRushCommand(t *testing.T) {
	rig.Full("embedded", "mariadb").Raced("embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		t.Run("seeded", func(t *testing.T) {
			out := s.Exits(t, 0, "rush", "--url", p.URL, "--buyers", "300", "--stock", "50")
			require.Contains(t, out, "50 durable orders")
			require.Contains(t, out, "p99")
			require.NotContains(t, out, "BROKEN")
			rig.Eventually(t, "the sale has ended", func() bool { return listVouchers(t, p)[0].State == "ended" })
		})
		t.Run("simulated by the server", func(t *testing.T) { // without access to the database
			elsewhere := &rig.Stack{Env: []string{"SECKILL_DATA_DIR=" + filepath.Join(t.TempDir(), "none")}}
			out := elsewhere.Exits(t, 0, "rush", "--url", p.URL, "--buyers", "40", "--stock", "20")
			require.Contains(t, out, "the server simulates 40 buyers of 20 units")
			require.Contains(t, out, "I1 No oversell           holds  20 active of 20")
			require.NotContains(t, out, "BROKEN")
			out = elsewhere.Exits(t, 1, "rush", "--url", "http://"+env.FreeAddr(t))
			require.Contains(t, out, "name another one with --url")
		})
		t.Run("tokens", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tokens")
			s.Exits(t, 0, "seed", "--users", "30", "--tokens", file)
			elsewhere := &rig.Stack{Env: []string{"SECKILL_DATA_DIR=" + filepath.Join(t.TempDir(), "none")}}
			out := elsewhere.Exits(t, 0, "rush", "--url", p.URL, "--buyers", "30", "--stock", "10",
				"--tokens", file, "--admin-token", p.Admin(t))
			require.Contains(t, out, "10 durable orders")
		})
		s.Verify(t)
	})
}

// TestRushDoesNotWriteToOtherDatabases runs the command on a data directory that does not belong to the server.
func TestRushDoesNotWriteToOtherDatabases(t *testing.T) {
	env.FullParallel(t)
	p := rig.EmbeddedStack(t).Serve(t)
	for name, demo := range map[string]string{"another secret": "true", "no demo": "false"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, app.SecretFile), []byte(strings.Repeat("x", 40)), 0o600))
			elsewhere := &rig.Stack{Env: []string{"SECKILL_DATA_DIR=" + dir, "SECKILL_DEMO=" + demo, "SECKILL_ADMIN_PHONES=" + app.DemoAdmin}}
			elsewhere.Exits(t, 0, "rush", "--url", p.URL, "--buyers", "3", "--stock", "2") // its buyers logged in instead
			files := env.Must(os.ReadDir(dir))(t)
			require.Len(t, files, 1, "the directory contains only the secret: %v", files)
		})
	}
}

// TestQueriesUseExistingMetrics has the metrics of the dashboard and the alerts.
func TestMetricsOnOpsPortOnly(t *testing.T) {
	env.FullParallel(t)
	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	p.MustPlace(t, s.Tokens(t, 1)[0], p.Sale(t, 1))
	p.Scrape(t)
	for _, want := range []string{
		`seckill_order_seconds_count{lane="lock",outcome="ok"} 1`,
		`seckill_lock_events_total{event="acquired",lock="redlock"} 1`,
		`seckill_lock_wait_seconds_count{lock="redlock"} 1`,
		`seckill_lock_hold_seconds_count{lock="redlock"} 1`,
		`seckill_http_requests_total{method="POST",route="/api/v1/vouchers/:id/orders",status="201"} 1`,
		`seckill_connections_refused_total{limit="total"} 0`, // connections are limited
	} {
		require.Contains(t, p.Metrics, want)
	}
	require.Equal(t, http.StatusOK, rig.Fetch(t, p.OpsURL()+"/debug/pprof/cmdline").Status)
	require.Equal(t, http.StatusNotFound, rig.Fetch(t, p.URL+"/metrics").Status)
	require.Equal(t, http.StatusNotFound, rig.Fetch(t, p.URL+"/debug/pprof/").Status)
}

// TestDemoDoesNotLimitCodes: the users of a demo share a few accounts, from private windows and scripts.
func TestDemoDoesNotLimitCodes(t *testing.T) {
	t.Parallel()
	p := rig.EmbeddedStack(t).With("SECKILL_RATE_LIMIT=on").Serve(t)
	for range 30 {
		require.NotEmpty(t, p.LogIn(t, "13800000000")["access_token"])
	}
}

var otpauth = regexp.MustCompile(`(?m)^otpauth://totp/Seckill:13900000002\?\S+$`)

func TestAdminCommands(t *testing.T) {
	env.FullParallel(t)
	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	out := s.Exits(t, 0, "admin", "enroll", "--phone", "13900000002")
	require.Contains(t, out, "has the role operator")
	require.Equal(t, otpauth.FindString(out), readTerminalQR(t, out))
	require.NotContains(t, s.Exits(t, 0, "admin", "enroll", "--phone", "13900000003", "--role", "viewer"), "otpauth")
	s.Exits(t, 1, "admin", "enroll", "--phone", "1", "--role", "viewer")
	out = s.Exits(t, 1, "admin", "enroll", "--phone", "13900000004", "--role", "redeemer", "--shops", "1,99")
	require.Contains(t, out, "there is no shop 99")
	s.Exits(t, 0, "admin", "enroll", "--phone", "13900000004", "--role", "redeemer", "--shops", "1,2")

	p.LogIn(t, "13800000000")
	token := p.LoginToken(t, "13900000002")
	require.Equal(t, http.StatusOK, p.Do(t, rig.Get("/admin/orders", token)).Status)
	out = s.Exits(t, 0, "admin", "list")
	require.Regexp(t, `13900000002 +operator +all +since 2`, out)
	require.Regexp(t, `13900000003 +viewer +all +not needed`, out)
	require.Regexp(t, `13900000004 +redeemer +1,2 +since 2`, out)
	require.Regexp(t, `13800000000 +admin +all +not needed`, out) // a demo asks for no second factor

	s.Exits(t, 0, "admin", "remove", "--phone", "13900000002")
	rig.Eventually(t, "the session ends", func() bool {
		return p.Once(t, rig.Get("/admin/orders", token)).Status == http.StatusUnauthorized
	})
	require.NotContains(t, s.Exits(t, 0, "admin", "list"), "13900000002")
	s.Exits(t, 1, "admin", "remove", "--phone", "13900000099")

	require.Equal(t, []string{
		"admin remove 139****0099", "admin list", "admin remove 139****0002", "admin list", "admin enroll --role redeemer 139****0004",
		"admin enroll --role redeemer 139****0004", "admin enroll --role viewer *", "admin enroll --role viewer 139****0003", "admin enroll 139****0002",
	}, p.Commands(t))
}

// readTerminalQR decodes the QR code in the output of a command.
func readTerminalQR(t *testing.T, out string) string {
	t.Helper()
	const scale = 4 // pixels of a module
	var lines [][]rune
	for line := range strings.Lines(out) {
		if strings.ContainsAny(line, "█▀▄") {
			lines = append(lines, []rune(strings.TrimRight(line, "\n")))
		}
	}
	require.NotEmpty(t, lines)
	picture := image.NewGray(image.Rect(0, 0, scale*len(lines[0]), scale*2*len(lines)))
	for y := range picture.Rect.Dy() {
		for x := range picture.Rect.Dx() {
			module := lines[y/scale/2][x/scale]
			light := module == '█' || module == '▀' && y/scale%2 == 0 || module == '▄' && y/scale%2 == 1
			if light {
				picture.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	bitmap := env.Must(gozxing.NewBinaryBitmapFromImage(picture))(t)
	found := env.Must(qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true}))(t)
	return found.GetText()
}

// TestReconcileExitCodeWhenUnchecked: an incomplete check has an exit code of its own, different from that of a
// finding.
func TestReconcileExitCodeWhenUnchecked(t *testing.T) {
	env.FullParallel(t)
	out := rig.EmbeddedStack(t).OnEmptyDatabase(t).Exits(t, rig.ExitUnchecked, "reconcile")
	require.Contains(t, out, "could not check the database")
	rig.EmbeddedStack(t).Exits(t, rig.ExitUnchecked, "reconcile", "--nonsense")

	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	require.Contains(t, s.Exits(t, rig.ExitUnchecked, "reconcile", "--voucher", "999"), "not found")
	out = s.With("SECKILL_REDIS_ADDRS="+env.FreeAddr(t)).Exits(t, rig.ExitUnchecked, "reconcile")
	require.Contains(t, out, "could not check Redis")
	require.Zero(t, p.Stop(t))
	require.Contains(t, s.Exits(t, 0, "reconcile"), "the embedded server is not running")
}

// TestVerifyReportsUndersell removes a unit from the gate, which no server repairs. verify fails with I5 until reconcile has
// repaired it, or the sale has ended.
func TestVerifyReportsUndersell(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t).In("queue").With(rig.EnvLasting+"=300ms", rig.EnvPause+"=100ms", rig.EnvEvery+"=1h")
	p := s.Serve(t) // repairs nothing
	sale := p.Sale(t, 5)
	p.Buy(t, s.Tokens(t, 1)[0], sale)
	rig.RequireSettled(t, s)

	s.ChangeGate(t, sale, -1)
	out := s.Exits(t, rig.ExitViolation, "verify")
	require.Contains(t, out, "voucher "+sale+": I5: the gate is missing 1 free unit")

	out = s.Exits(t, rig.ExitViolation, "reconcile", "--voucher", sale)
	require.Regexp(t, `gate_differs .*--apply repairs it`, out)
	require.Contains(t, s.Exits(t, 0, "reconcile", "--apply"), ": 1 finding repaired, 0 left")
	s.Verify(t)

	s.ChangeGate(t, sale, -1)
	s.Exec(t, "UPDATE seckill_vouchers SET begin_at = '2020-01-01 00:00:00', end_at = '2020-01-02 00:00:00' WHERE voucher_id = "+sale)
	s.Exits(t, 0, "verify")
}

// TestVerifyWaitsForRepair removes a unit from the gate, and a server repairs it in time.
func TestVerifyWaitsForRepair(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	p := s.With(rig.EnvEvery+"=200ms", rig.EnvPause+"=100ms").Serve(t)
	sale := p.Sale(t, 5)
	p.Buy(t, s.Tokens(t, 1)[0], sale)
	rig.RequireSettled(t, s)

	s.ChangeGate(t, sale, -1)
	out := s.With(rig.EnvLasting+"=1m").Exits(t, 0, "verify")
	require.Contains(t, out, "0 orders waiting, 0 dead letters, a server in lane queue is running")
	p.Logs(t, "the gate differs from the database and is rebuilt")
}

// TestReconcileDoesNotChangeDatabase: errors in the database are reported with the order and not repaired.
func TestReconcileDoesNotChangeDatabase(t *testing.T) {
	rig.Full("lock/mariadb", "queue/mariadb", "lock/mysql", "queue/mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		s = rig.WithoutBackgroundRepair(s).With(rig.EnvLasting + "=1s")
		p := s.Serve(t)
		sale, tokens := p.Sale(t, 2), s.Tokens(t, 2)
		p.Buy(t, tokens[0], sale)
		second := p.Buy(t, tokens[1], sale)
		rig.RequireSettled(t, s)

		reports := func(invariant, order string) {
			require.Contains(t, s.Exits(t, rig.ExitViolation, "verify"), "order "+order+" of user ")
			out := s.Exits(t, rig.ExitViolation, "reconcile", "--apply")
			require.Regexp(t, `(?m)^\d+ +`+invariant+` .*manual.*order `+order+" of user ", out)
		}

		extra := second[:len(second)-3] + "999" // the newest order
		s.Exec(t, `INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
			SELECT `+extra+`, 424242, voucher_id, 1, 1, amount, created_at, expires_at, updated_at FROM voucher_orders WHERE id = `+second)
		rows := s.Count(t, "SELECT COUNT(*) FROM voucher_orders")
		reports("I1", extra)
		require.Equal(t, rows, s.Count(t, "SELECT COUNT(*) FROM voucher_orders"))
		s.Exec(t, "DELETE FROM voucher_orders WHERE id = "+extra)

		s.Exec(t, "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = "+sale)
		reports("I3", second)
		require.EqualValues(t, 1, s.StockOf(t, sale))
		s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+sale)

		out := s.Exits(t, 0, "reconcile", "--apply") // the gate had followed the database
		require.Contains(t, out, ", 0 left")
		s.Verify(t)
	})
}

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
	env.FullParallel(t)
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		db, rds := kind.Start(t), env.StartRedis(t, "--appendonly", "yes")
		dsn := env.Must(mysql.ParseDSN(db.DSN(t)))(t)
		s := &rig.Stack{Kind: db.Kind, Database: db, Redis: rds, Env: []string{"SECKILL_MYSQL_DSN=" + dsn.FormatDSN()}}
		s.Exec(t, "CREATE USER seller@'127.0.0.1' IDENTIFIED BY 'hunter2hunter2'")
		s.Exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `"+dsn.DBName+"`.* TO seller@'127.0.0.1'")
		dsn.User, dsn.Passwd = "seller", "hunter2hunter2"
		s.Env = []string{
			"SECKILL_MYSQL_DSN=" + dsn.FormatDSN(), "SECKILL_REDIS_ADDRS=" + rds.Addr, "SECKILL_DATA_DIR=" + t.TempDir(),
			"SECKILL_JWT_SECRET=" + goodSecret, "SECKILL_ADMIN_PHONES=13912345678",
			"SECKILL_ORDER_LANE=queue", "SECKILL_ADDR=127.0.0.1:0",
			"SECKILL_CODE_URL=https://sms.example", "SECKILL_EVENTS_SECRET=" + rig.EventsSecret,
			"SECKILL_UNSAFE=sandbox", // which no other provider replaces
		}

		p := s.Serve(t)
		found := s.Diagnose(t, 0, "--instances", "3")
		for name, f := range found {
			if f.Check != "config.proxies" && f.Check != "config.sandbox" && f.Check != "sales.admins" { // no admin has enrolled
				require.Contains(t, []doctor.Status{doctor.OK, doctor.Skipped}, f.Status, "%s: %s", name, f.Found)
			}
		}
		requireStatus(t, found, doctor.OK, "database.schema", "database.checks", "database.isolation",
			"redis.persistence redis "+s.Redis.Addr, "sales.upcoming", "sales.gates")
		require.Zero(t, p.Stop(t))

		out := s.DoctorReports(t, " 0 failed, ")
		require.Contains(t, out, "database.commit")
		require.Regexp(t, `\d+ checks: \d+ ok, \d+ warnings, 0 failed, \d+ skipped`, out)
		for _, secret := range []string{dsn.Passwd, goodSecret} {
			require.NotContains(t, out, secret)
		}
	})
}

// TestDoctorExitCodes checks the exit codes: 0 with warnings, 1 with warnings and --strict, 1 on a failure, 2 if a
// server does not answer or the configuration is invalid.
func TestDoctorExitCodes(t *testing.T) {
	env.FullParallel(t)
	s := rig.EmbeddedStack(t)
	s = s.With("SECKILL_RATE_LIMIT=on", "SECKILL_JWT_SECRET="+goodSecret, "SECKILL_UNSAFE=", "SECKILL_ADDR=:0")
	found := s.Diagnose(t, 0)
	requireStatus(t, found, doctor.Warn, "config.demo")
	requireStatus(t, found, doctor.Skipped, "redis.reachable", "sales.queue") // no server runs
	s.Diagnose(t, 1, "--strict")
	requireStatus(t, s.With("SECKILL_JWT_SECRET="+rig.TestSecret).Diagnose(t, 1), doctor.Fail, "config.jwt_secret")
	nowhere := env.FreeAddr(t)
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
	env.FullParallel(t)
	s := rig.RealStack(t).In("queue")
	p := s.Serve(t)
	sale := p.Sale(t, 5)
	p.Buy(t, s.Tokens(t, 1)[0], sale)
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
	require.NoError(t, rdb.HSet(t.Context(), admission.Shard(3).Queued(), "1", "row").Err())
	requireStatus(t, s.Diagnose(t, 1), doctor.OK, "sales.queue")
	requireStatus(t, s.With("SECKILL_ORDER_LANE=lock").Diagnose(t, 0), doctor.Warn, "sales.queue")
	require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: admission.Shard(3).Dead(), Values: []string{"row", "row"}}).Err())
	requireStatus(t, s.Diagnose(t, 1), doctor.Warn, "sales.queue")
}
