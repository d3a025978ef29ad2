package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/rush"
	"seckill/internal/testenv"
)

// TestFirstStart is what a newcomer does: no flag, no service, an empty folder. A second start keeps the data.
func TestFirstStart(t *testing.T) {
	s := &stack{env: []string{"SECKILL_ADDR=127.0.0.1:0"}}
	dir := t.TempDir()
	s.env = append(s.env, "SECKILL_DATA_DIR="+filepath.Join(dir, "data"))
	p := s.serve(t, "")
	states := map[string]int{}
	for _, v := range listVouchers(t, p) {
		states[v.State]++
	}
	require.Equal(t, map[string]int{"on_sale": 2, "upcoming": 1, "ended": 1}, states) // one on_sale is not a flash sale

	token, err := p.Login(t.Context(), "13800000001")
	require.NoError(t, err)
	order, err := p.Place(t.Context(), token, "2")
	require.NoError(t, err)
	require.Zero(t, p.stop(t))

	p = s.serve(t, "")
	require.Len(t, listVouchers(t, p), 4, "the demo is not seeded twice")
	v, err := p.Voucher(t.Context(), "2")
	require.NoError(t, err)
	require.Equal(t, int64(99), v.Stock)
	_, err = p.Place(t.Context(), token, "2") // the token still works: the secret was kept
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "duplicate_order", problem.Code)
	require.Equal(t, order.ID, problem.OrderID)
	s.verify(t) // beside the running server

	secret, err := os.Stat(filepath.Join(dir, "data", app.SecretFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), secret.Mode().Perm())
}

func listVouchers(t *testing.T, p *process) []rush.Voucher {
	t.Helper()
	vouchers, err := p.Vouchers(t.Context())
	require.NoError(t, err)
	return vouchers
}

// TestSecondServerOnOneDataDirectory must be refused: each would have a Redis of its own.
func TestSecondServerOnOneDataDirectory(t *testing.T) {
	s := embeddedStack(t)
	s.serve(t, "")
	code, out := s.run(t, "serve", "--addr", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "another server uses the data directory")
}

// TestDependenciesMissingAtStart waits for a while, says for what, and gives up.
func TestDependenciesMissingAtStart(t *testing.T) {
	nowhere := freeAddr(t)
	for name, tc := range map[string]struct{ env, want string }{
		"database": {"SECKILL_MYSQL_DSN=root@tcp(" + nowhere + ")/seckill", "the database does not answer"},
		"redis":    {"SECKILL_REDIS_ADDRS=" + nowhere, "Redis does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := embeddedStack(t).with(tc.env, envPatience+"=2s").run(t, "serve", "--addr", "127.0.0.1:0")
			require.Equal(t, 1, code, out)
			require.Contains(t, out, tc.want)
			require.Contains(t, out, "waiting for")
			require.Contains(t, out, nowhere)
		})
	}
}

// TestServerWaitsForItsDependencies is the order in which docker compose may start things.
func TestServerWaitsForItsDependencies(t *testing.T) {
	s := realStack(t)
	s.killRedis()
	time.AfterFunc(time.Second, func() { _ = s.restartRedis() })
	p := s.serve(t, "")
	requireReady(t, p)
}

// TestLogoutOnEveryInstance ends a session on one server and finds its token dead on the other, and after Redis
// was lost and a server restarted.
func TestLogoutOnEveryInstance(t *testing.T) {
	each(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t, ""), s.serve(t, "")
		token, err := a.Login(t.Context(), "13800000001")
		require.NoError(t, err)
		other, err := a.Login(t.Context(), "13800000002")
		require.NoError(t, err)
		require.True(t, b.Knows(t.Context(), token))
		require.NoError(t, a.Logout(t.Context(), token))
		require.False(t, a.Knows(t.Context(), token), "at once on the server that was told")
		eventually(t, "the other server follows", func() bool { return !b.Knows(t.Context(), token) })

		require.NoError(t, s.flush())
		require.Zero(t, a.stop(t))
		a = s.serve(t, "")
		require.False(t, a.Knows(t.Context(), token), "revocations are in the database")
		require.True(t, a.Knows(t.Context(), other), "and so are the sessions that stand")
	})
}

// TestCancelIsSeenEverywhere returns a unit on one server and buys it on the other.
func TestCancelIsSeenEverywhere(t *testing.T) {
	eachLane(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t, ""), s.serve(t, "")
		sale, tokens := a.sale(t, 1), s.tokens(t, 2)
		order, err := a.Place(t.Context(), tokens[0], sale)
		require.NoError(t, err)
		requireOrdered(t, a, tokens[0], order.ID)
		_, err = b.Place(t.Context(), tokens[1], sale)
		var problem *rush.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, "sold_out", problem.Code)
		_, err = a.Cancel(t.Context(), tokens[0], order.ID)
		require.NoError(t, err)
		eventually(t, "the unit can be bought on the other server", func() bool {
			_, err := b.Place(t.Context(), tokens[1], sale)
			return err == nil || errors.As(err, &problem) && problem.Code == "duplicate_order"
		})
		s.verify(t)
	})
}

// TestWindow: nobody buys before the sale begins or after it has ended, also when that changes while it runs.
func TestWindow(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		sale, tokens := p.sale(t, 100), s.tokens(t, 100)
		move := func(field string, at time.Time) {
			t.Helper()
			body := fmt.Sprintf(`{%q: %q}`, field, at.Format(time.RFC3339))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, p.url+"/api/v1/admin/vouchers/"+sale, strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+p.admin(t))
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode)
		}
		hears := func(code string) { // each press is another buyer's: who bought meanwhile would hear of that
			t.Helper()
			for pressed := time.Now(); ; time.Sleep(300 * time.Millisecond) {
				require.NotEmpty(t, tokens, "nobody heard %q after %s", code, time.Since(pressed))
				_, err := p.Place(t.Context(), tokens[0], sale)
				tokens = tokens[1:]
				var problem *rush.Problem
				if err == nil && code == "" || errors.As(err, &problem) && problem.Code == code {
					return
				}
			}
		}
		hears("")
		move("begin_at", time.Now().Add(30*time.Minute))
		hears("sale_not_started")
		move("begin_at", time.Now().Add(-30*time.Minute))
		hears("")
		move("end_at", time.Now().Add(-time.Minute))
		hears("sale_ended")
		s.verify(t)
	})
}

// TestMigrate takes the schema up, down and up again.
func TestMigrate(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		code, out := s.run(t, "migrate", "up")
		require.Zero(t, code, out)
		require.Contains(t, out, "applied 00001_users.sql")
		_, out = s.run(t, "migrate", "up")
		require.Contains(t, out, "nothing to apply")
		_, out = s.run(t, "migrate", "status")
		require.NotContains(t, out, "pending")
		migrations := strings.Count(out, ".sql")
		for range migrations {
			code, out = s.run(t, "migrate", "down")
			require.Zero(t, code, out)
			require.Contains(t, out, "rolled back")
		}
		_, out = s.run(t, "migrate", "down")
		require.Contains(t, out, "nothing to roll back")
		_, out = s.run(t, "migrate", "status")
		require.Equal(t, migrations, strings.Count(out, "pending"))
		code, out = s.run(t, "migrate", "up")
		require.Zero(t, code, out)
	})
}

// TestServersThatStartTogetherMigrateOnce races the migrations of three processes.
func TestServersThatStartTogetherMigrateOnce(t *testing.T) {
	each(t, true, func(t *testing.T, s *stack) {
		started := make(chan *process, 3)
		for range 3 {
			go func() {
				var p *process
				defer func() { started <- p }() // also when serve fails the test
				p = s.serve(t, "")
			}()
		}
		for range 3 {
			p := <-started
			require.NotNil(t, p)
			require.Len(t, listVouchers(t, p), 4, "the demo was seeded once")
		}
	})
}

// TestVerifyFindsWhatIsBroken damages the books by hand: verify must exit with 1 and name the invariant.
func TestVerifyFindsWhatIsBroken(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		sale, tokens := p.sale(t, 5), s.tokens(t, 3)
		for _, token := range tokens {
			_, err := p.Place(t.Context(), token, sale)
			require.NoError(t, err)
		}
		s.verify(t)
		for _, tc := range []struct{ damage, repair, want string }{
			{"UPDATE seckill_vouchers SET stock = stock + 1", "UPDATE seckill_vouchers SET stock = stock - 1", "I3"},
			{"UPDATE seckill_vouchers SET stock = stock - 1", "UPDATE seckill_vouchers SET stock = stock + 1", "I5"},
			{"UPDATE seckill_vouchers SET initial_stock = 2, stock = 0", "UPDATE seckill_vouchers SET initial_stock = 5, stock = 2", "I1"},
			{"UPDATE voucher_orders SET slot = NULL", "UPDATE voucher_orders SET slot = 1", "I2"},
			{"UPDATE voucher_orders SET status = 4", "UPDATE voucher_orders SET status = 1", "I2"},
			{"UPDATE seckill_vouchers SET limit_per_user = 0", "UPDATE seckill_vouchers SET limit_per_user = 1", "3 users hold more"},
		} {
			where := " WHERE voucher_id = " + sale
			s.exec(t, tc.damage+where)
			code, out := s.run(t, "verify")
			require.Equal(t, exitViolation, code, out)
			require.Contains(t, out, "voucher "+sale+": ")
			require.Contains(t, out, tc.want)
			s.exec(t, tc.repair+where)
			s.verify(t)
		}
	})
}

// exec runs SQL on the stack's database, behind the program's back.
func (s *stack) exec(t *testing.T, query string) {
	t.Helper()
	s.query(t, func(db *sql.DB) {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	})
}

// query opens the stack's database.
func (s *stack) query(t *testing.T, do func(*sql.DB)) {
	t.Helper()
	driver, dsn := "mysql", s.setting("SECKILL_MYSQL_DSN")
	if dsn == "" {
		driver, dsn = "sqlite", "file:"+filepath.Join(s.setting("SECKILL_DATA_DIR"), app.DatabaseFile)+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	defer db.Close()
	do(db)
}

// TestVerifyWithoutDatabase cannot check, and says so by its exit code.
func TestVerifyWithoutDatabase(t *testing.T) {
	s := embeddedStack(t).with("SECKILL_MYSQL_DSN=root@tcp(" + freeAddr(t) + ")/seckill")
	code, out := s.run(t, "verify")
	require.Equal(t, exitUnchecked, code, out)
	require.Contains(t, out, "could not check the database")
}

// TestVerifyFindsStuckLock plants a lock that would keep its user out for ever.
func TestVerifyFindsStuckLock(t *testing.T) {
	s := realStack(t)
	s.serve(t, "")
	s.verify(t)
	rdb := s.client(t)
	require.NoError(t, rdb.Set(t.Context(), "redlock:{order:1}", "x", time.Minute).Err())
	s.verify(t)
	require.NoError(t, rdb.Set(t.Context(), "redlock:{order:2}", "x", 0).Err())
	code, out := s.run(t, "verify")
	require.Equal(t, exitViolation, code, out)
	require.Contains(t, out, "order:2")
	require.NotContains(t, out, "order:1}")
}

// TestSeedNeedsForceOutsideTheDemo because its tokens live for a day.
func TestSeedNeedsForceOutsideTheDemo(t *testing.T) {
	s := embeddedStack(t).with("SECKILL_DEMO=false")
	code, out := s.run(t, "seed", "--users", "2", "--tokens", "-")
	require.Equal(t, 1, code)
	require.Contains(t, out, "--force")
	code, out = s.run(t, "seed", "--users", "2", "--tokens", "-", "--force")
	require.Zero(t, code, out)
	require.Equal(t, 2, strings.Count(out, ",ey"), out)
}

// TestSeedIsRepeatable gives the same users new tokens.
func TestSeedIsRepeatable(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		users := func() []string {
			code, out := s.run(t, "seed", "--users", "1200", "--tokens", "-")
			require.Zero(t, code, out)
			var ids []string
			for line := range strings.Lines(out) {
				if id, _, ok := strings.Cut(line, ",ey"); ok {
					ids = append(ids, id)
				}
			}
			return ids
		}
		first := users()
		require.Len(t, first, 1200)
		require.Equal(t, first, users())
	})
}

// TestRushCommand runs the command as the README has it, in each of the ways in which it finds its buyers.
func TestRushCommand(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		t.Run("seeded", func(t *testing.T) {
			code, out := s.run(t, "rush", "--url", p.url, "--buyers", "300", "--stock", "50")
			require.Zero(t, code, out)
			require.Contains(t, out, "50 durable orders")
			require.Contains(t, out, "p99")
			require.NotContains(t, out, "BROKEN")
		})
		t.Run("logged in", func(t *testing.T) { // from a machine that sees nothing but the server
			elsewhere := &stack{env: []string{"SECKILL_DATA_DIR=" + filepath.Join(t.TempDir(), "none")}}
			code, out := elsewhere.run(t, "rush", "--url", p.url, "--buyers", "40", "--stock", "20")
			require.Zero(t, code, out)
			require.Contains(t, out, "20 durable orders")
		})
		t.Run("tokens", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tokens")
			code, out := s.run(t, "seed", "--users", "30", "--tokens", file)
			require.Zero(t, code, out)
			elsewhere := &stack{env: []string{"SECKILL_DATA_DIR=" + filepath.Join(t.TempDir(), "none")}}
			code, out = elsewhere.run(t, "rush", "--url", p.url, "--buyers", "30", "--stock", "10",
				"--tokens", file, "--admin-token", p.admin(t))
			require.Zero(t, code, out)
			require.Contains(t, out, "10 durable orders")
		})
		s.verify(t)
	})
}

// TestRushLeavesOtherDatabasesAlone: a data directory that is not the server's must not be written to.
func TestRushLeavesOtherDatabasesAlone(t *testing.T) {
	p := embeddedStack(t).serve(t, "")
	for name, demo := range map[string]string{"another secret": "true", "no demo": "false"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, app.SecretFile), []byte(strings.Repeat("x", 40)), 0o600))
			elsewhere := &stack{env: []string{"SECKILL_DATA_DIR=" + dir, "SECKILL_DEMO=" + demo, "SECKILL_ADMIN_PHONES=" + app.DemoAdmin}}
			code, out := elsewhere.run(t, "rush", "--url", p.url, "--buyers", "3", "--stock", "2")
			require.Zero(t, code, out) // it logged its buyers in
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, files, 1, "nothing but the secret: %v", files)
		})
	}
}

// TestLockNodes takes the user lock over three independent servers, of which one is dead, then two.
func TestLockNodes(t *testing.T) {
	s := realStack(t)
	nodes := []*testenv.Redis{testenv.StartRedis(t), testenv.StartRedis(t), testenv.StartRedis(t)}
	s = s.with("SECKILL_LOCK_NODES="+nodes[0].Addr+","+nodes[1].Addr+","+nodes[2].Addr, envPatience+"=2s")
	p := s.serve(t, "")
	sale, tokens := p.sale(t, 10), s.tokens(t, 3)
	_, err := p.Place(t.Context(), tokens[0], sale)
	require.NoError(t, err)
	c := crowd(p.sale(t, 1000), 1000, s.tokens(t, 1500), p)
	wait := longRush(t, s, c)
	nodes[0].Kill()
	r := wait()
	require.NoError(t, nodes[0].Restart()) // verify looks for locks on every node
	requireSoldOut(t, s, c, r)
	judge(t, s, c, r)
	nodes[0].Kill()
	requireReady(t, p)
	_, err = p.Place(t.Context(), tokens[1], sale)
	require.NoError(t, err, "a majority is enough")
	nodes[1].Kill()
	requireUnavailable(t, p, tokens[2], sale)
	require.Contains(t, body503(t, p.url+"/readyz"), "lock nodes")
	code, out := s.run(t, "serve", "--addr", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "a majority of the lock nodes does not answer")
}

// TestFilesAreTheOwnersOnly: they hold phone numbers, sessions and the signing secret.
func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // somebody else made it
	s := (&stack{}).with("SECKILL_DATA_DIR=" + dir)
	p := s.serve(t, "")
	_, err := p.Login(t.Context(), "13800000001")
	require.NoError(t, err)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", f.Name(), info.Mode())
	}
}

// TestEmptyVariables are the same as none: compose files pass them on empty.
func TestEmptyVariables(t *testing.T) {
	s := &stack{}
	fields := reflect.TypeFor[app.Config]()
	for i := range fields.NumField() {
		s.env = append(s.env, fields.Field(i).Tag.Get("env")+"=")
	}
	require.NotEmpty(t, listVouchers(t, s.serve(t, "")))
}

// TestOpsPort serves metrics and profiles on their own port only.
func TestOpsPort(t *testing.T) {
	s := embeddedStack(t).with("SECKILL_OPS_ADDR=127.0.0.1:0")
	p := s.serve(t, "")
	sale, tokens := p.sale(t, 1), s.tokens(t, 2)
	_, err := p.Place(t.Context(), tokens[0], sale)
	require.NoError(t, err)
	var addr string
	eventually(t, "the port is logged", func() bool {
		_, rest, ok := strings.Cut(p.log.String(), `msg="metrics and profiles" addr=`)
		addr, _, _ = strings.Cut(rest, "\n")
		return ok
	})
	page := body(t, "http://"+addr+"/metrics")
	for _, want := range []string{
		`seckill_order_seconds_count{lane="lock",outcome="ok"} 1`,
		`seckill_lock_events_total{event="acquired",lock="redlock"} 1`,
		`seckill_lock_wait_seconds_count{lock="redlock"} 1`,
		`seckill_lock_hold_seconds_count{lock="redlock"} 1`,
		`seckill_http_requests_total{method="POST",route="/api/v1/vouchers/:id/orders",status="201"} 1`,
		"go_sql_wait_duration_seconds_total", "seckill_redis_pool_connections",
	} {
		require.Contains(t, page, want)
	}
	require.Equal(t, http.StatusOK, get(t, "http://"+addr+"/debug/pprof/cmdline"))
	require.Equal(t, http.StatusNotFound, get(t, p.url+"/metrics"))
	require.Equal(t, http.StatusNotFound, get(t, p.url+"/debug/pprof/"))
}

// TestSigningSecret is made once, is kept, and is refused when somebody shortened it.
func TestSigningSecret(t *testing.T) {
	cfg := app.Config{DataDir: t.TempDir()}
	first, err := app.SigningSecret(cfg)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(first), auth.MinSecret)
	again, err := app.SigningSecret(cfg)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.DataDir, app.SecretFile), []byte("short"), 0o600))
	_, err = app.SigningSecret(cfg)
	require.ErrorContains(t, err, "at least 32")
}
