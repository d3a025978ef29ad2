package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestDefaultStartSeedsDemoOnce starts a server on an empty directory, which others may read, with every setting empty, as
// compose files pass unset variables on, and then a second time on its data. The files, with phone numbers, sessions and the
// signing secret, are private.
func TestDefaultStartSeedsDemoOnce(t *testing.T) {
	env.Full(t)
	t.Parallel()
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
	v := rig.Answered(t, func() (rush.Voucher, error) { return p.Voucher(t.Context(), "2") })
	require.Equal(t, int64(99), v.Stock)
	again := p.Do(t, rig.Post("/vouchers/2/orders", token, nil)) // the token is still valid, because the secret is stored
	rig.RequireProblem(t, http.StatusConflict, "duplicate_order", again)
	require.Equal(t, order.ID, again.Body["order_id"])
	s.Verify(t) // while the server is running

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
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
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t)
	s.Serve(t)
	code, out := s.RunProcess(t, "serve", "--addr", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "another server uses the data directory")
}

// TestStartWaitsForRedis starts the server before Redis, as docker compose may do. That the start goes on is shown by
// TestPrepareDatabaseWaits of package app.
func TestStartWaitsForRedis(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	s.KillRedis()
	s.RequireNoStart(t, "Redis")
}

// TestMigrateUpAndDown applies all migrations, reverts the last one and applies it again. Package sqldb reverts all.
func TestMigrateUpAndDown(t *testing.T) {
	t.Parallel()
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

// TestConcurrentStartsMigrateOnce starts three servers at once on an empty database.
func TestConcurrentStartsMigrateOnce(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t).OnEmptyDatabase(t)
	started := make(chan *rig.Server, 3)
	for range 3 {
		go func() {
			var p *rig.Server
			defer func() { started <- p }() // even if serve ends this goroutine
			p = s.Serve(t)
		}()
	}
	for range 3 {
		p := <-started
		require.NotNil(t, p)
		require.Len(t, listVouchers(t, p), 4, "the demo is seeded once")
	}
}

// TestVerifyReportsViolations damages orders and stock with SQL, and creates a lock that would block its user forever. Verify exits
// with 1 and names the violated invariant, or the lock.
func TestVerifyReportsViolations(t *testing.T) {
	t.Parallel()
	rig.Core("embedded", "mariadb").Full("mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		sale, tokens := p.Sale(t, 5), s.Tokens(t, 3)
		for _, token := range tokens {
			p.MustPlace(t, token, sale)
		}
		s.Verify(t)
		named := regexp.MustCompile(`: order \d+ of user \d+`)
		for _, tc := range []struct {
			damage, repair, want string
			names                bool // of orders
		}{
			{"UPDATE seckill_vouchers SET stock = stock + 1", "UPDATE seckill_vouchers SET stock = stock - 1", "I3", true},
			{"UPDATE seckill_vouchers SET stock = stock - 1", "UPDATE seckill_vouchers SET stock = stock + 1", "I5", false},
			{"UPDATE seckill_vouchers SET initial_stock = 2, stock = 0", "UPDATE seckill_vouchers SET initial_stock = 5, stock = 2", "I1", true},
			{"UPDATE voucher_orders SET slot = NULL", "UPDATE voucher_orders SET slot = 1", "I2", true},
			{"UPDATE voucher_orders SET status = 4", "UPDATE voucher_orders SET status = 1", "I2", true},
			{"UPDATE seckill_vouchers SET limit_per_user = 0", "UPDATE seckill_vouchers SET limit_per_user = 1", "3 users hold more", true},
		} {
			where := " WHERE voucher_id = " + sale
			s.Exec(t, tc.damage+where)
			out := s.Exits(t, rig.ExitViolation, "verify")
			require.Contains(t, out, "voucher "+sale+": ")
			require.Contains(t, out, tc.want)
			require.Equal(t, tc.names, named.MatchString(out), out)
			require.NotContains(t, out, "could not")
			s.Exec(t, tc.repair+where)
			s.Verify(t)
		}

		rdb := s.Client(t)
		require.NoError(t, rdb.Set(t.Context(), "redlock:{order:1}", "x", time.Minute).Err())
		s.Verify(t)
		require.NoError(t, rdb.Set(t.Context(), "redlock:{order:2}", "x", 0).Err())
		out := s.Exits(t, rig.ExitViolation, "verify")
		require.Contains(t, out, "order:2")
		require.NotContains(t, out, "order:1}")

		require.Zero(t, p.Stop(t))
		s.Exec(t, "UPDATE voucher_orders SET slot = NULL WHERE voucher_id = "+sale)

		// A Redis that is gone hides no violation.
		alone := s.With("SECKILL_REDIS_ADDRS=" + rig.FreeAddr(t))
		out = alone.Exits(t, rig.ExitViolation, "verify")
		require.Contains(t, out, "voucher "+sale+": I2")
		require.Regexp(t, named, out)
		require.Contains(t, out, "note: could not check Redis: ")
		s.Exec(t, "UPDATE voucher_orders SET slot = 1 WHERE voucher_id = "+sale)
		alone.Exits(t, rig.ExitUnchecked, "verify")
	})
}

// TestSeedRequiresForceOutsideDemo: seeded tokens are valid for a day. The audit log has the command.
func TestSeedRequiresForceOutsideDemo(t *testing.T) {
	env.Full(t)
	t.Parallel()
	demo := rig.EmbeddedStack(t).OnEmptyDatabase(t)
	s := demo.With("SECKILL_DEMO=false")
	require.Contains(t, s.Exits(t, 1, "seed", "--users", "2", "--tokens", "-"), "--force")
	out := s.Exits(t, 0, "seed", "--users", "2", "--tokens", "-", "--force")
	require.Equal(t, 2, strings.Count(out, ",ey"), out)
	p := demo.Serve(t)
	require.Equal(t, []string{"seed --force 2 users"}, p.Commands(t))
}

// TestRushCommand runs the command of the README with each source of buyers: seeded, simulated by
// the server, or a file of tokens.
func TestRushCommand(t *testing.T) {
	t.Parallel()
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
			out = elsewhere.Exits(t, 1, "rush", "--url", "http://"+rig.FreeAddr(t))
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
	env.Full(t)
	t.Parallel()
	p := rig.EmbeddedStack(t).Serve(t)
	for name, demo := range map[string]string{"another secret": "true", "no demo": "false"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, app.SecretFile), []byte(strings.Repeat("x", 40)), 0o600))
			elsewhere := &rig.Stack{Env: []string{"SECKILL_DATA_DIR=" + dir, "SECKILL_DEMO=" + demo, "SECKILL_ADMIN_PHONES=" + app.DemoAdmin}}
			elsewhere.Exits(t, 0, "rush", "--url", p.URL, "--buyers", "3", "--stock", "2") // its buyers logged in instead
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, files, 1, "the directory contains only the secret: %v", files)
		})
	}
}

// TestMetricsOnOpsPortOnly requests metrics and profiles on both ports.
func TestMetricsOnOpsPortOnly(t *testing.T) {
	env.Full(t)
	t.Parallel()
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
		"go_sql_wait_duration_seconds_total", "seckill_redis_pool_connections",
		`seckill_connections_refused_total{limit="total"} 0`, // connections are limited
	} {
		require.Contains(t, p.Metrics, want)
	}
	require.Equal(t, http.StatusOK, rig.Fetch(t, p.OpsURL()+"/debug/pprof/cmdline").Status)
	require.Equal(t, http.StatusNotFound, rig.Fetch(t, p.URL+"/metrics").Status)
	require.Equal(t, http.StatusNotFound, rig.Fetch(t, p.URL+"/debug/pprof/").Status)
}
