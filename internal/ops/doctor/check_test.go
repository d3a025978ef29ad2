package doctor

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

func result(r Result) Check {
	return Check{Name: string(r.Status), Run: func(context.Context) Result { return r }}
}

func TestChecksOfUnreachedServerAreSkipped(t *testing.T) {
	never := Check{Name: "never", Run: func(context.Context) Result { panic("the check ran") }}
	found := Run(t.Context(), []Group{
		{On: "a", Reach: result(Unanswered(errors.New("gone"), "start it")), Checks: []Check{never}},
		{Reach: result(Result{Status: Skipped, Found: "there is none"}), Checks: []Check{never}},
		{Reach: result(Bad(Warn, "", "old")), Checks: []Check{result(Good("well"))}},
		{Checks: []Check{result(Good("alone"))}},
	})
	assert.Equal(t, []Finding{
		{Check: "fail", On: "a", Result: Result{Status: Fail, Found: "gone", Change: "start it", Unasked: true, ErrorText: "gone"}},
		{Check: "never", On: "a", Result: Result{Status: Skipped, Found: "the server was not reached: see fail"}},
		{Check: "skipped", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "never", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "warn", Result: Result{Status: Warn, Found: "old"}},
		{Check: "ok", Result: Good("well")},
		{Check: "ok", Result: Good("alone")},
	}, found)
}

func TestMaskedRemovesSecretsOfErrorsOnly(t *testing.T) {
	assert.Equal(t, "redis error: no ***", FromError(Fail, "", "redis error: ", errors.New("no redis")).Masked([]string{"redis"}))
	assert.Equal(t, "use redis", Good("use redis").Masked([]string{"redis"}))
	assert.Equal(t, "no *** to ***", Unanswered(errors.New("no\nway to go"), "").Masked([]string{"way", "go"}))
	found := Run(t.Context(), []Group{{Reach: result(FromError(Skipped, "", "", errors.New("my password"))), Checks: []Check{result(Good(""))}}})
	assert.Equal(t, "my ***", found[1].Masked([]string{"password"}))
}

// Checks run at the same time: each ends at its own deadline.
func TestHangingChecksEndAtTheirDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		hang := func(ctx context.Context) Result {
			<-ctx.Done()
			return Unanswered(ctx.Err(), time.Since(begin).String())
		}
		checks := []Check{{Run: hang}, {Deadline: time.Millisecond, Run: hang}}
		var ends []string
		for _, f := range Run(t.Context(), []Group{{Checks: checks}, {Checks: checks}}) {
			require.Equal(t, []any{Fail, true}, []any{f.Status, f.Unasked})
			require.Contains(t, f.Found, "hangs")
			ends = append(ends, f.Change)
		}
		require.Equal(t, []string{"2s", "1ms", "2s", "1ms"}, ends)
	})
}

func TestClockSkew(t *testing.T) {
	for _, tc := range []struct {
		ahead, uncertain time.Duration
		want             Status
		found            string
	}{
		{0, time.Millisecond, OK, "0s ahead of the local clock (± 1ms)"},
		{500 * time.Millisecond, 0, OK, "500ms ahead"},
		{600 * time.Millisecond, 0, Warn, "600ms ahead"},
		{-600 * time.Millisecond, 0, Warn, "600ms behind"},
		{600 * time.Millisecond, 200 * time.Millisecond, OK, "± 200ms"}, // within the error of the measurement
		{-3 * time.Second, time.Millisecond, Fail, "3s behind"},
	} {
		r := skew{tc.ahead, tc.uncertain}.result(500*time.Millisecond, 2*time.Second, "cost")
		assert.Equal(t, tc.want, r.Status, tc)
		assert.Contains(t, r.Found, tc.found)
		assert.Equal(t, tc.want != OK, r.Change != "")
	}
}

// The server is 3 s ahead, and reads its clock at the end of 2 ms.
func TestMeasureSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := env.Must(measureSkew(t.Context(), func(context.Context) (time.Time, error) {
			time.Sleep(2 * time.Millisecond)
			return time.Now().Add(3 * time.Second), nil
		}))(t)
		require.Equal(t, skew{3*time.Second + time.Millisecond, time.Millisecond}, s)
	})
}

// embedded creates a data directory with a database that is opened with the given pragmas.
func embedded(t *testing.T, pragmas string) SQLite {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "seckill.db")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	pool := env.Must(sql.Open("sqlite", "file:"+file+"?"+pragmas))(t)
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = pool.Close() })
	execute(t, pool, "CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id INTEGER, is_applied INTEGER)",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (2, 1), (3, 0)")
	return SQLite{Pool: pool, Dir: dir, Database: "seckill.db", Secrets: []string{"jwt-secret"}, Migrations: []int64{1, 2}}
}

const programPragmas = "_pragma=journal_mode(WAL)"

func TestSQLite(t *testing.T) {
	t.Parallel()
	s := embedded(t, programPragmas)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "jwt-secret"), nil, 0o600))
	want(t, examine(t, s.Groups()...), map[string]Status{
		"database.reachable": OK, "database.schema": OK, "database.journal": OK, "data.permissions": OK,
	})
	s.Migrations = []int64{1, 2, 3}
	want(t, examine(t, s.Groups()...), map[string]Status{"database.schema": Warn})
	s.Migrations = []int64{1}
	want(t, examine(t, s.Groups()...), map[string]Status{"database.schema": Fail})

	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "jwt-secret"), 0o640))
	found := examine(t, s.Groups()...)
	want(t, found, map[string]Status{"data.permissions": Fail})
	assert.Equal(t, "chmod 600 "+filepath.Join(s.Dir, "jwt-secret"), found["data.permissions"].Change)
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "jwt-secret"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "seckill.db"), 0o644))
	want(t, examine(t, s.Groups()...), map[string]Status{"data.permissions": Fail})
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "seckill.db"), 0o600))
	require.NoError(t, os.Chmod(s.Dir, 0o755))
	want(t, examine(t, s.Groups()...), map[string]Status{"data.permissions": Warn})
}

func TestSQLiteWithoutWriteAheadLog(t *testing.T) {
	t.Parallel()
	found := examine(t, embedded(t, "_pragma=journal_mode(DELETE)").Groups()...)
	want(t, found, map[string]Status{"database.journal": Fail})
	assert.Contains(t, found["database.journal"].Found, "journal_mode delete")
}

func TestUnreachableSQLite(t *testing.T) {
	t.Parallel()
	s := SQLite{Err: fs.ErrNotExist, Dir: filepath.Join(t.TempDir(), "data"), Database: "seckill.db"}
	want(t, examine(t, s.Groups()...), map[string]Status{
		"database.reachable": Skipped, "database.schema": Skipped, "data.permissions": Skipped,
	})
	require.NoDirExists(t, s.Dir)
	s.Err = errors.New("file is not a database")
	found := examine(t, s.Groups()...)
	want(t, found, map[string]Status{"database.reachable": Fail, "database.journal": Skipped})
	assert.True(t, found["database.reachable"].Unasked)
	s.Err = &fs.PathError{Op: "open", Path: "/data/seckill.db", Err: fs.ErrPermission}
	assert.Contains(t, examine(t, s.Groups()...)["database.reachable"].Change, "as the user of the server")
}

// TestDoctorSkipsSlowTotals checks that a timeout of the totals is not reported as a database that hangs.
func TestDoctorSkipsSlowTotals(t *testing.T) {
	t.Parallel()
	store := env.Must(repo.OpenSQLite(filepath.Join(t.TempDir(), "seckill.db")))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := &Sales{Store: store}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r := s.checkTotals(late)
	require.Equal(t, Skipped, r.Status, r.Found)
	require.False(t, r.Unasked)
	require.Contains(t, r.Found, "too many orders to check within 30s")
	require.Contains(t, r.Change, "seckill verify")
	r = s.checkTotals(t.Context()) // the tables do not exist
	require.Equal(t, Fail, r.Status, r.Found)
	require.True(t, r.Unasked)
}

func TestDoctorChecksSaleWindows(t *testing.T) {
	begin := time.Now().Add(time.Hour)
	sale := func(edit func(*domain.Voucher)) domain.Voucher {
		v := domain.Voucher{ID: 7, Status: domain.VoucherOn, Sale: &domain.Sale{Stock: 5, BeginAt: begin, EndAt: begin.Add(time.Hour), LimitPerUser: 1}}
		edit(&v)
		return v
	}
	for found, tc := range map[string]struct {
		edit func(*domain.Voucher)
		want Status
	}{
		"valid window and units: 1": {func(*domain.Voucher) {}, OK},
		"ends before it begins":     {func(v *domain.Voucher) { v.Sale.EndAt = begin }, Fail},
		"allows no orders":          {func(v *domain.Voucher) { v.Sale.LimitPerUser = 0 }, Fail},
		"is not published":          {func(v *domain.Voucher) { v.Status = domain.VoucherOff }, Warn},
		"has no units":              {func(v *domain.Voucher) { v.Sale.Stock = 0 }, Warn},
		"lasts 1h0m0s, so units":    {func(v *domain.Voucher) { v.Sale.PayTimeout = time.Hour }, Warn},
		"has a pay_timeout of 30s":  {func(v *domain.Voucher) { v.Sale.PayTimeout = 30 * time.Second }, Warn},
		"lasts 10m0s":               {func(v *domain.Voucher) { v.Sale.EndAt = begin.Add(10 * time.Minute) }, Warn},
	} {
		r := (&Sales{upcoming: []domain.Voucher{sale(tc.edit)}, PayTimeout: 15 * time.Minute}).checkWindows(t.Context())
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
	off := sale(func(v *domain.Voucher) { v.Status = domain.VoucherOff })
	many := &Sales{upcoming: []domain.Voucher{off, off, off, off, off}, PayTimeout: time.Minute}
	require.Contains(t, many.checkWindows(t.Context()).Found, "and 2 more")
}

// TestUnreadableQueue: what Redis answers is a fault of the queue, of which no other check knows. Without an answer
// redis.reachable fails.
func TestUnreadableQueue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want Status
	}{
		{refusal("WRONGTYPE Operation against a key holding the wrong kind of value"), Fail},
		{net.ErrClosed, Skipped},
	} {
		s := &Sales{Lane: "queue", Lag: func(context.Context) (domain.QueueLag, error) {
			return domain.QueueLag{}, fmt.Errorf("%w: read the lag: %w", domain.ErrUnavailable, tc.err)
		}}
		r := s.checkQueue(t.Context())
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Equal(t, tc.want == Fail, r.Unasked)
	}
}

// adminList is the part of a SalesStore that checkAdmins reads.
type adminList struct {
	SalesStore
	admins []domain.Admin
}

func (l adminList) Admins(context.Context, []string) ([]domain.Admin, error) { return l.admins, nil }

func TestDoctorChecksSecondFactors(t *testing.T) {
	enrolled := domain.Admin{User: domain.User{ID: 1, Phone: "1", Role: domain.RoleOperator}, EnrolledAt: time.Now()}
	missing := domain.Admin{User: domain.User{ID: 2, Phone: "2", Role: domain.RoleOperator}}
	configured := domain.Admin{User: domain.User{ID: 3, Phone: "3", Role: domain.RoleBuyer}}
	lost := domain.Admin{User: enrolled.User, EnrolledAt: enrolled.EnrolledAt, Factor: []byte("of an old secret")}
	viewer := domain.Admin{User: domain.User{ID: 4, Phone: "4", Role: domain.RoleViewer}}
	opens := func(_ int64, factor []byte) bool { return factor == nil }
	for found, tc := range map[string]struct {
		admins []domain.Admin
		demo   bool
		want   Status
	}{
		"2 users with a role":                 {[]domain.Admin{enrolled, viewer}, false, OK},
		"no secret decrypts cannot log in: 1": {[]domain.Admin{lost, viewer}, false, Warn},
		"buyers: 2, 3":                        {[]domain.Admin{enrolled, missing, configured}, false, Warn},
		"no user has a role":                  {nil, false, Warn},
		"demo mode":                           {[]domain.Admin{missing}, true, OK},
	} {
		r := (&Sales{Store: adminList{admins: tc.admins}, Admins: []string{"3"}, Demo: tc.demo, Opens: opens}).checkAdmins(t.Context())
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
}

func dial(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	pool := env.OpenDB(t, dsn)
	pool.SetMaxOpenConns(conns)
	return pool
}

// conns are the connections of a server.
const conns = 48

// longDeadline is a deadline that a server can keep even on a busy machine.
const longDeadline = time.Minute

// examine runs all checks of groups whose server answers or refuses, and returns their findings by name.
func examine(t *testing.T, groups ...Group) map[string]Finding {
	t.Helper()
	found := map[string]Finding{}
	for i := range groups {
		groups[i].Reach.Deadline = longDeadline
		for k := range groups[i].Checks {
			groups[i].Checks[k].Deadline = longDeadline
		}
	}
	for _, f := range Run(t.Context(), groups) {
		require.NotEmpty(t, f.Found, f.Check)
		found[f.Check] = f
	}
	return found
}

// want requires the status of checks, and a change for every warning and failure.
func want(t *testing.T, found map[string]Finding, statuses map[string]Status) {
	t.Helper()
	for name, status := range statuses {
		f, known := found[name]
		require.True(t, known, name)
		assert.Equal(t, status, f.Status, "%s: %s", name, f.Found)
		if status == Fail || status == Warn {
			assert.NotEmpty(t, f.Change, name)
		}
	}
}

func allGood(t *testing.T, found map[string]Finding) {
	t.Helper()
	for name, f := range found {
		assert.Equal(t, OK, f.Status, "%s: %s", name, f.Found)
	}
}

func execute(t *testing.T, pool *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := pool.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
}

const tables = `CREATE TABLE goose_db_version (id INT AUTO_INCREMENT PRIMARY KEY, version_id BIGINT, is_applied BOOLEAN);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (2, 1);
CREATE TABLE seckill_vouchers (voucher_id BIGINT PRIMARY KEY, stock BIGINT, CONSTRAINT ck_stock CHECK (stock >= 0));
CREATE TABLE voucher_orders (id BIGINT PRIMARY KEY)`

// All settings and the sessions are as recommended, for a user with the privileges that docs/operations.md recommends.
func TestWellConfiguredDatabase(t *testing.T) {
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		root := kind.Start(t, "--log-bin", "--sync-binlog=1", "--binlog-format=ROW").DSN(t)
		cfg := env.Must(mysql.ParseDSN(root))(t)
		admin := dial(t, root)
		execute(t, admin, strings.Split(tables, ";\n")...)
		execute(t, admin, "CREATE USER seller@'127.0.0.1' IDENTIFIED BY 'hunter2hunter2'",
			"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `"+cfg.DBName+"`.* TO seller@'127.0.0.1'")
		cfg.User, cfg.Passwd = "seller", "hunter2hunter2"
		isolation := map[env.Kind]string{env.MariaDB: "tx_isolation", env.MySQL: "transaction_isolation"}[kind]
		cfg.Params = map[string]string{isolation: "'READ-COMMITTED'"}
		found := examine(t, MySQL{Pool: dial(t, cfg.FormatDSN()), Migrations: []int64{1, 2}, Conns: conns, Instances: 3}.Group())
		allGood(t, found)
		assert.Len(t, found, 1+len(MySQL{}.Group().Checks))
		for _, f := range found {
			assert.NotContains(t, f.Found+f.Change, "hunter2", "neither the password nor a grant with its hash is printed")
		}
	})
}

func TestMisconfiguredDatabase(t *testing.T) {
	env.Full(t)
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		db := kind.Start(t, "--innodb-flush-log-at-trx-commit=2", "--log-bin", "--sync-binlog=0", "--binlog-format=ROW",
			"--innodb-doublewrite=OFF", "--max-connections=60")
		dsn := db.DSN(t)
		pool := dial(t, dsn)
		execute(t, pool, strings.Split(tables, ";\n")...)
		execute(t, pool, "ALTER TABLE seckill_vouchers DROP CONSTRAINT ck_stock", "SET GLOBAL read_only = 1")
		old := env.Must(mysql.ParseDSN(dsn))(t)
		old.Params = map[string]string{"timestamp": "1"} // sets the clock of its sessions
		m := MySQL{Pool: dial(t, old.FormatDSN()), Conns: conns, Migrations: []int64{1, 2, 3}, Instances: 2}
		found := examine(t, m.Group())
		want(t, found, map[string]Status{
			"database.reachable": OK, "database.version": OK, "database.schema": Warn, "database.checks": Fail, "database.commit": Fail,
			"database.binlog": Fail, "database.doublewrite": Warn, "database.isolation": Fail, "database.connections": Fail,
			"database.writable": Fail, "database.clock": Fail,
		})

		execute(t, pool, "SET GLOBAL binlog_format = 'STATEMENT'", "SET GLOBAL sync_binlog = 1", "SET GLOBAL read_only = 0",
			"ALTER TABLE seckill_vouchers ADD CONSTRAINT ck_stock CHECK (stock >= 0)")
		if kind == env.MySQL {
			execute(t, pool, "ALTER TABLE seckill_vouchers ALTER CHECK ck_stock NOT ENFORCED")
		} else {
			execute(t, pool, "SET GLOBAL check_constraint_checks = OFF")
		}
		m.Pool, m.Conns, m.Instances, m.Migrations = dial(t, dsn), 55, 1, []int64{1}
		found = examine(t, m.Group())
		want(t, found, map[string]Status{
			"database.schema": Fail, "database.checks": Fail, "database.binlog": Fail, "database.connections": Warn, "database.clock": OK,
		})
	})
}

// replicationSQL are the statements of TestReplication: to install semi-synchronous replication, to attach a replica to a
// host and port, to make both sides semi-synchronous, and the variable of the point at which the primary waits.
var replicationSQL = map[env.Kind]struct {
	install   [2][]string
	attach    string
	primary   string
	replica   []string
	waitPoint string
}{
	env.MariaDB: {
		attach:    "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='copy', MASTER_PASSWORD='secret'; START SLAVE",
		primary:   "SET GLOBAL rpl_semi_sync_master_enabled = 1",
		replica:   []string{"SET GLOBAL rpl_semi_sync_slave_enabled = 1", "STOP SLAVE", "START SLAVE"},
		waitPoint: "rpl_semi_sync_master_wait_point",
	},
	env.MySQL: {
		install: [2][]string{
			{"INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'"},
			{"INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'"},
		},
		attach: "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='copy', SOURCE_PASSWORD='secret', " +
			"GET_SOURCE_PUBLIC_KEY=1; START REPLICA",
		primary:   "SET GLOBAL rpl_semi_sync_source_enabled = 1",
		replica:   []string{"SET GLOBAL rpl_semi_sync_replica_enabled = 1", "STOP REPLICA", "START REPLICA"},
		waitPoint: "rpl_semi_sync_source_wait_point",
	},
}

// The replica is attached asynchronously at first, then semi-synchronously.
func TestReplication(t *testing.T) {
	env.Full(t)
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		statements := replicationSQL[kind]
		primary := kind.Start(t, "--log-bin", "--server-id=1")
		replica := kind.Start(t, "--server-id=2")
		pool, other := dial(t, primary.DSN(t)), dial(t, replica.DSN(t))
		check := func() Result {
			return examine(t, MySQL{Pool: pool, Migrations: []int64{1}, Conns: conns, Instances: 1}.Group())["database.replication"].Result
		}
		require.Equal(t, OK, check().Status)

		host, port, err := net.SplitHostPort(primary.Addr)
		require.NoError(t, err)
		execute(t, pool, "CREATE USER copy IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO copy")
		execute(t, pool, statements.install[0]...)
		execute(t, other, statements.install[1]...)
		execute(t, other, strings.Split(fmt.Sprintf(statements.attach, host, port), "; ")...)
		require.Eventually(t, func() bool { return check().Status == Warn }, time.Minute, 20*time.Millisecond)
		require.Contains(t, check().Found, "1 replicas, asynchronous")

		execute(t, pool, "SET GLOBAL "+statements.waitPoint+" = 'AFTER_COMMIT'", statements.primary)
		execute(t, other, statements.replica...)
		require.Eventually(t, func() bool { return strings.Contains(check().Change, "AFTER_SYNC', and") }, time.Minute, 20*time.Millisecond)
		execute(t, pool, "SET GLOBAL "+statements.waitPoint+" = 'AFTER_SYNC'")
		require.Equal(t, OK, check().Status, check().Found)
	})
}

// A statement runs whose text has bytes that are not UTF-8, as those with the hash of an Idempotency-Key have.
func TestReplicationCheckDuringBinaryStatement(t *testing.T) {
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		pool := dial(t, kind.DSN(t))
		other := env.Must(pool.Conn(t.Context()))(t)
		var id int64
		require.NoError(t, other.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		ended := env.Go(func() any { // MariaDB returns an error when it is interrupted, and MySQL does not
			return env.Err(other.ExecContext(context.WithoutCancel(t.Context()), "SELECT SLEEP(600), _binary'\x82T\xc3)\xe9'"))
		})
		require.Eventually(t, func() bool {
			var sleeps int
			err := pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'").Scan(&sleeps)
			return err != nil || sleeps > 0
		}, time.Minute, time.Millisecond)

		s := &MySQL{Pool: pool, maria: kind == env.MariaDB}
		assert.Equal(t, OK, s.checkReplication(t.Context()).Status, s.checkReplication(t.Context()).Found)
		execute(t, pool, fmt.Sprint("KILL QUERY ", id))
		<-ended
		require.NoError(t, other.Close())
	})
}

func TestReplicationResult(t *testing.T) {
	type values = map[string]string
	galera := values{"wsrep_cluster_size": "3"}
	source := values{"rpl_semi_sync_source_status": "ON", "rpl_semi_sync_source_clients": "1"}
	waits := func(point string) values {
		return values{"rpl_semi_sync_source_wait_point": point, "rpl_semi_sync_source_timeout": "10000"}
	}
	for name, tc := range map[string]struct {
		want Status
		got  Result
	}{
		"no replica":                       {OK, replicationResult(0, values{}, values{}, values{})},
		"Galera, reads do not wait":        {Warn, replicationResult(0, galera, values{}, values{"wsrep_sync_wait": "6"})},
		"Galera, reads wait":               {OK, replicationResult(0, galera, values{}, values{"wsrep_sync_wait": "7"})},
		"Galera, no majority":              {Fail, replicationResult(0, values{"wsrep_cluster_size": "1", "wsrep_ready": "OFF"}, values{}, values{})},
		"Galera of one":                    {Warn, replicationResult(0, values{"wsrep_cluster_size": "1", "wsrep_ready": "ON"}, values{}, values{})},
		"Galera of two":                    {Warn, replicationResult(0, values{"wsrep_cluster_size": "2"}, values{}, values{"wsrep_sync_wait": "1"})},
		"semi-synchronous, for 10 s":       {OK, replicationResult(1, source, waits("AFTER_SYNC"), values{})},
		"semi-synchronous, after commit":   {Warn, replicationResult(1, source, waits("AFTER_COMMIT"), values{})},
		"semi-synchronous without clients": {Warn, replicationResult(2, values{"rpl_semi_sync_source_status": "ON", "rpl_semi_sync_source_clients": "0"}, values{}, values{})},
		"group, reads wait": {OK, groupResult(3, values{
			"group_replication_consistency": "BEFORE_ON_PRIMARY_FAILOVER", "group_replication_single_primary_mode": "ON",
		})},
		"group, eventual":          {Warn, groupResult(3, values{"group_replication_consistency": "EVENTUAL"})},
		"group, several primaries": {Warn, groupResult(3, values{"group_replication_single_primary_mode": "OFF"})},
		"group of two":             {Warn, groupResult(2, values{})},
		"group of one":             {Fail, groupResult(1, values{})},
	} {
		assert.Equal(t, tc.want, tc.got.Status, "%s: %s", name, tc.got.Found)
		assert.Equal(t, tc.got.Status != OK, tc.got.Change != "", name)
	}
}

func TestChecksOfEmptyDatabaseCreateNoTables(t *testing.T) {
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		pool := dial(t, kind.DSN(t))
		found := examine(t, MySQL{Pool: pool, Migrations: []int64{1, 2}, Conns: conns, Instances: 1}.Group())
		want(t, found, map[string]Status{"database.schema": Warn, "database.checks": Skipped, "database.binlog": OK})
		var n int
		require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&n))
		require.Zero(t, n)
	})
}

// TestStatusPerSetting has the cases that no server of these tests can be in: other versions, other names of variables, and
// limits of the account.
func TestStatusPerSetting(t *testing.T) {
	version := func(text string) Result {
		s := &MySQL{text: text}
		s.maria, s.version = parseVersion(text)
		return s.checkVersion(t.Context())
	}
	with := func(check func(*MySQL, context.Context) Result, variables ...string) Result {
		all := map[string]string{}
		for i := 0; i < len(variables); i += 2 {
			all[variables[i]] = variables[i+1]
		}
		return check(&MySQL{Conns: conns, Instances: 2, global: all, session: all}, t.Context())
	}
	doublewrite, writable, connections := (*MySQL).checkDoublewrite, (*MySQL).checkWritable, (*MySQL).checkConnections

	for _, tc := range []struct {
		want Status
		got  Result
	}{
		{OK, version("8.0.16-log")},
		{Fail, version("8.0.15")},
		{OK, version("5.5.5-10.6.12-MariaDB")},
		{Fail, version("10.5.20-MariaDB")},
		{Fail, version("8.4.0-TiDB-v9.0.0")},
		{Warn, with(doublewrite, "innodb_doublewrite", "DETECT_ONLY")},
		{Skipped, with(doublewrite)},
		{Fail, with(writable, "read_only", "OFF", "super_read_only", "ON")},
		{Fail, with(writable, "innodb_read_only", "ON")},
		{Fail, with(writable, "innodb_force_recovery", "1")},
		{Fail, with(writable, "transaction_read_only", "OFF", "tx_read_only", "ON")},
		{Fail, with(connections, "max_connections", "1000", "max_user_connections", "90")},
	} {
		assert.Equal(t, tc.want, tc.got.Status, tc.got.Found)
		assert.Equal(t, tc.want == Warn || tc.want == Fail, tc.got.Change != "", tc.got.Found)
	}

	// A server that refuses a connection was reached: the advice is not about the network.
	unreached := mysqlFix(context.DeadlineExceeded)
	for _, number := range []uint16{1040, 1044, 1045, 1049, 1193, 1203, 1226, 1820, 3032, 3118, 3159} {
		assert.NotEqual(t, unreached, mysqlFix(&mysql.MySQLError{Number: number}), number)
	}
	assert.Contains(t, mysqlFix(mysql.ErrNoTLS), "remove tls")

	untrusted := fmt.Errorf("dial: %w", &tls.CertificateVerificationError{Err: errors.New("no IP SANs")})
	assert.Contains(t, mysqlFix(untrusted), "tls=skip-verify")
	assert.Contains(t, redisFix(untrusted), "SECKILL_REDIS_CA")
}

func TestRedoLogSwitchedOff(t *testing.T) {
	env.Full(t)
	t.Parallel()
	pool := dial(t, env.MySQL.Start(t).DSN(t))
	s := &MySQL{Pool: pool, global: map[string]string{"innodb_flush_log_at_trx_commit": "1"}}
	require.Equal(t, OK, s.checkCommit(t.Context()).Status)
	execute(t, pool, "ALTER INSTANCE DISABLE INNODB REDO_LOG")
	r := s.checkCommit(t.Context())
	require.Equal(t, Fail, r.Status)
	require.Contains(t, r.Change, "ENABLE INNODB REDO_LOG")
	execute(t, pool, r.Change)
	require.Equal(t, OK, s.checkCommit(t.Context()).Status)
}
