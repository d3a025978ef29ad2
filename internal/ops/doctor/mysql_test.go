package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// dial opens a pool without the session settings of the program.
func dial(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	pool := env.Must(sql.Open("mysql", dsn))(t)
	pool.SetMaxOpenConns(48)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

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
		db := kind.Start(t, "--log-bin", "--sync-binlog=1", "--binlog-format=ROW")
		root := db.DSN(t)
		cfg := env.Must(mysql.ParseDSN(root))(t)
		admin := dial(t, root)
		execute(t, admin, strings.Split(tables, ";\n")...)
		execute(t, admin, "CREATE USER seller@'127.0.0.1' IDENTIFIED BY 'hunter2hunter2'",
			"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `"+cfg.DBName+"`.* TO seller@'127.0.0.1'")
		cfg.User, cfg.Passwd = "seller", "hunter2hunter2"
		isolation := map[env.Kind]string{env.MariaDB: "tx_isolation", env.MySQL: "transaction_isolation"}[kind]
		cfg.Params = map[string]string{isolation: "'READ-COMMITTED'"}
		found := examine(t, MySQL{Pool: dial(t, cfg.FormatDSN()), Migrations: []int64{1, 2}, Instances: 3, Now: time.Now}.Group())
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
			"--innodb-doublewrite=OFF", "--sql-mode=", "--max-connections=60")
		dsn := db.DSN(t)
		pool := dial(t, dsn)
		execute(t, pool, strings.Split(tables, ";\n")...)
		execute(t, pool, "ALTER TABLE seckill_vouchers DROP CONSTRAINT ck_stock", "SET GLOBAL read_only = 1")
		m := MySQL{Pool: dial(t, dsn), Migrations: []int64{1, 2, 3}, Instances: 2, Now: func() time.Time { return time.Now().Add(5 * time.Second) }}
		found := examine(t, m.Group())
		want(t, found, map[string]Status{
			"database.reachable": OK, "database.version": OK, "database.schema": Warn, "database.checks": Fail, "database.commit": Fail,
			"database.binlog": Fail, "database.doublewrite": Warn, "database.sql_mode": Fail, "database.isolation": Fail,
			"database.connections": Fail, "database.writable": Fail, "database.clock": Fail,
		})

		execute(t, pool, "SET GLOBAL binlog_format = 'STATEMENT'", "SET GLOBAL sync_binlog = 1", "SET GLOBAL read_only = 0",
			"ALTER TABLE seckill_vouchers ADD CONSTRAINT ck_stock CHECK (stock >= 0)")
		if kind == env.MySQL {
			execute(t, pool, "ALTER TABLE seckill_vouchers ALTER CHECK ck_stock NOT ENFORCED")
		} else {
			execute(t, pool, "SET GLOBAL check_constraint_checks = OFF")
		}
		m.Pool, m.Instances, m.Migrations, m.Now = dial(t, dsn), 1, []int64{1}, func() time.Time { return time.Now().Add(-time.Second) }
		m.Pool.SetMaxOpenConns(55)
		found = examine(t, m.Group())
		want(t, found, map[string]Status{
			"database.schema": Fail, "database.checks": Fail, "database.binlog": Fail, "database.connections": Warn, "database.clock": Warn,
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
			return examine(t, MySQL{Pool: pool, Migrations: []int64{1}, Instances: 1, Now: time.Now}.Group())["database.replication"].Result
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
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			// MariaDB returns an error when it is interrupted, and MySQL does not.
			_, _ = other.ExecContext(context.WithoutCancel(t.Context()), "SELECT SLEEP(600), _binary'\x82T\xc3)\xe9'")
		}()
		require.Eventually(t, func() bool {
			var sleeps int
			err := pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'").Scan(&sleeps)
			return err != nil || sleeps > 0
		}, time.Minute, time.Millisecond)

		s := &mysqlServer{MySQL: MySQL{Pool: pool}, maria: kind == env.MariaDB}
		assert.Equal(t, OK, s.checkReplication(t.Context()).Status, s.checkReplication(t.Context()).Found)
		execute(t, pool, fmt.Sprint("KILL QUERY ", id))
		<-ended
		require.NoError(t, other.Close())
	})
}

func TestReplicationResult(t *testing.T) {
	t.Parallel()
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
		found := examine(t, MySQL{Pool: pool, Migrations: []int64{1, 2}, Instances: 1, Now: time.Now}.Group())
		want(t, found, map[string]Status{"database.schema": Warn, "database.checks": Skipped, "database.binlog": OK})
		var n int
		require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&n))
		require.Zero(t, n)
	})
}

// TestStatusPerSetting has the cases that no server of these tests can be in: other versions, other names of variables, and
// limits of the account.
func TestStatusPerSetting(t *testing.T) {
	t.Parallel()
	version := func(text string) Result {
		s := &mysqlServer{text: text}
		s.maria, s.version = parseVersion(text)
		return s.checkVersion(t.Context())
	}
	with := func(check func(*mysqlServer, context.Context) Result, variables ...string) Result {
		pool := dial(t, "none@tcp(127.0.0.1:1)/none") // only the size of the pool matters
		all := map[string]string{}
		for i := 0; i < len(variables); i += 2 {
			all[variables[i]] = variables[i+1]
		}
		return check(&mysqlServer{MySQL: MySQL{Pool: pool, Instances: 2}, global: all, session: all}, t.Context())
	}
	enforced := func(value string) Result { return (&mysqlServer{}).checkResult(value) }
	isolation, doublewrite, writable, mode := (*mysqlServer).checkIsolation, (*mysqlServer).checkDoublewrite, (*mysqlServer).checkWritable, (*mysqlServer).checkMode
	connections := (*mysqlServer).checkConnections

	for _, tc := range []struct {
		want Status
		got  Result
	}{
		{OK, version("8.4.10")},
		{OK, version("8.0.16-log")},
		{OK, version("9.7.0")},
		{Fail, version("8.0.15")},
		{Fail, version("5.7.44")},
		{OK, version("10.11.6-MariaDB-1")},
		{OK, version("5.5.5-10.6.12-MariaDB")},
		{Fail, version("10.5.20-MariaDB")},
		{Fail, version("8.4.0-TiDB-v9.0.0")},
		{OK, with(isolation, "transaction_isolation", "READ-COMMITTED")},
		{Fail, with(isolation, "transaction_isolation", "REPEATABLE-READ")},
		{Warn, with(doublewrite, "innodb_doublewrite", "DETECT_ONLY")},
		{Skipped, with(doublewrite)},
		{Fail, with(writable, "read_only", "ON")},
		{Fail, with(writable, "read_only", "OFF", "super_read_only", "ON")},
		{Fail, with(writable, "innodb_read_only", "ON")},
		{Fail, with(writable, "innodb_force_recovery", "1")},
		{OK, with(writable, "read_only", "OFF", "super_read_only", "OFF", "innodb_force_recovery", "0")},
		{OK, with(mode, "sql_mode", "ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES")},
		{OK, with(connections, "max_connections", "1000", "max_user_connections", "0")},
		{Fail, with(connections, "max_connections", "1000", "max_user_connections", "90")},
		{Warn, with(connections, "max_connections", "100", "max_user_connections", "0")},
		{OK, enforced("YES")},
		{Fail, enforced("NO")},
		{Fail, enforced("")},
	} {
		assert.Equal(t, tc.want, tc.got.Status, tc.got.Found)
		assert.Equal(t, tc.want == Warn || tc.want == Fail, tc.got.Change != "", tc.got.Found)
	}

	// A server that refuses a connection was reached: the advice is not about the network.
	unreached := mysqlFix(context.DeadlineExceeded)
	for _, number := range []uint16{1040, 1044, 1045, 1049, 1203, 1226, 1820, 3032, 3118, 3159} {
		assert.NotEqual(t, unreached, mysqlFix(&mysql.MySQLError{Number: number}), number)
	}
}

func TestRedoLogSwitchedOff(t *testing.T) {
	env.Full(t)
	t.Parallel()
	pool := dial(t, env.MySQL.Start(t).DSN(t))
	s := &mysqlServer{MySQL: MySQL{Pool: pool}, global: map[string]string{"innodb_flush_log_at_trx_commit": "1"}}
	require.Equal(t, OK, s.checkCommit(t.Context()).Status)
	execute(t, pool, "ALTER INSTANCE DISABLE INNODB REDO_LOG")
	r := s.checkCommit(t.Context())
	require.Equal(t, Fail, r.Status)
	require.Contains(t, r.Change, "ENABLE INNODB REDO_LOG")
	execute(t, pool, r.Change)
	require.Equal(t, OK, s.checkCommit(t.Context()).Status)
}
