package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/migrations"
	"seckill/test/env"
	"seckill/test/env/servers"
)

func open(t *testing.T, dsn string) sqldb.Access {
	t.Helper()
	db := env.Must(sqldb.OpenMySQL(dsn))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return sqldb.Access{DB: db}
}

// wrongGlobals are values of the variables that would break the program, for those that are not checked elsewhere.
var wrongGlobals = map[string]string{
	"autocommit":               "0",
	"completion_type":          "'CHAIN'",
	"sql_mode":                 "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
	"unique_checks":            "0",
	"sql_select_limit":         "1",
	"sql_big_selects":          "0",
	"sql_safe_updates":         "1",
	"time_zone":                "'+08:00'",
	"innodb_lock_wait_timeout": "50",
}

// Each session has the values of the table, whether a wrong one comes from the server or from the DSN, and the server
// has no warning about them.
func TestSessionVariables(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		server := kind.Start(t)
		dsn := server.DSN(t)
		cfg := env.Must(mysqldriver.ParseDSN(dsn))(t)
		cfg.Params = map[string]string{"transaction_isolation": "'SERIALIZABLE'"}
		if kind == env.MariaDB {
			cfg.Params = map[string]string{"tx_isolation": "'SERIALIZABLE'"}
		}
		admin := env.OpenDB(t, dsn)
		for name, value := range wrongGlobals {
			cfg.Params[name] = value
		}

		values := func(dsn string) map[string]string {
			found := map[string]string{}
			for name, pool := range open(t, dsn).Pools() {
				for _, variable := range sqldb.SessionVariables() {
					var value string
					require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT @@session."+variable).Scan(&value))
					found[name+"."+variable] = value
				}
				var isolation string
				require.NoError(t, pool.QueryRowContext(t.Context(),
					"SELECT /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */").Scan(&isolation))
				require.Equal(t, "READ-COMMITTED", isolation)
			}
			return found
		}
		right := values(dsn)
		require.Equal(t, right, values(cfg.FormatDSN()), "wrong in the DSN")
		for name, value := range wrongGlobals {
			env.Must(admin.ExecContext(t.Context(), "SET GLOBAL "+name+" = "+value))(t)
		}
		require.Equal(t, right, values(dsn), "wrong on the server")
		for _, pool := range []string{"write", "read"} {
			require.Equal(t, "1", right[pool+".autocommit"])
			require.Equal(t, "NO_CHAIN", right[pool+".completion_type"])
			require.Equal(t, "+00:00", right[pool+".time_zone"])
		}

		for name, pool := range open(t, dsn+"?wait_timeout=28800").Pools() {
			var silence, statement float64
			require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT @@session.wait_timeout, "+
				"/*M! @@session.max_statement_time */ /*!80000 @@session.max_execution_time / 1000 */").Scan(&silence, &statement))
			require.InDelta(t, 20, silence, 0, "%s: a process that froze in a transaction would stop a sale", name)
			require.InDelta(t, 5, statement, 0, "%s: statements without a caller would fill the server", name)
		}

		conn := env.Must(admin.Conn(t.Context()))(t)
		defer func() { require.NoError(t, conn.Close()) }()
		for _, stmt := range sqldb.SessionSettings() {
			env.Must(conn.ExecContext(t.Context(), stmt))(t)
			var level, code, message string
			err := conn.QueryRowContext(t.Context(), "SHOW WARNINGS").Scan(&level, &code, &message)
			require.ErrorIs(t, err, sql.ErrNoRows, "%s: %s %s", stmt, code, message)
		}
		require.Len(t, wrongGlobals, len(sqldb.SessionVariables()))
	})
}

// A server that refuses writes is not ready, whichever variable says so.
func TestPingFindsReadOnlyServers(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		server := kind.Start(t)
		db := open(t, server.DSN(t))
		admin := env.OpenDB(t, "root@tcp("+server.Addr+")/")
		set := func(variable, value string) {
			env.Must(admin.ExecContext(t.Context(), "SET GLOBAL "+variable+" = "+value))(t)
		}

		transactions := map[env.Kind]string{env.MySQL: "transaction_read_only", env.MariaDB: "tx_read_only"}[kind]
		for _, variable := range []string{"read_only", transactions} {
			require.NoError(t, db.Ping(t.Context()))
			set(variable, "ON")
			err := db.Ping(t.Context())
			require.ErrorIs(t, err, domain.ErrUnavailable, variable)
			require.ErrorContains(t, err, "read-only")
			set(variable, "OFF")
		}
		require.NoError(t, db.Ping(t.Context()))
	})
}

// All connections use TLS if the DSN says so. The server has signed its certificate itself.
func TestTLS(t *testing.T) {
	env.Full(t)
	plain := "root@tcp(" + env.MySQL.Start(t).Addr + ")/mysql"
	env.Must(env.OpenDB(t, plain).ExecContext(t.Context(), "SET GLOBAL require_secure_transport = ON"))(t)

	ping := func(dsn string) error { return open(t, dsn).Ping(t.Context()) }
	require.ErrorContains(t, ping(plain), "insecure transport")
	require.ErrorContains(t, ping(plain+"?tls=true"), "certificate")
	require.NoError(t, ping(plain+"?tls=skip-verify"))
	require.NoError(t, ping(plain+"?tls=preferred"))

	var name, cipher string
	require.NoError(t, open(t, plain+"?tls=skip-verify").LongSnapshot(t.Context(), func(tx *gorm.DB) error {
		return tx.Raw("SHOW SESSION STATUS LIKE 'Ssl_cipher'").Row().Scan(&name, &cipher)
	}))
	require.NotEmpty(t, cipher)
}

// The schema lock is held as long as a migration takes, although its connection says nothing meanwhile.
func TestSchemaLockOutlivesWaitTimeout(t *testing.T) {
	env.FullParallel(t)
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		a := open(t, kind.Start(t, "--wait-timeout=1").DSN(t))
		require.NoError(t, a.WithSchemaLock(t.Context(), func() error {
			time.Sleep(2500 * time.Millisecond)
			var free int
			require.NoError(t, a.Reader(t.Context()).Raw("SELECT IS_FREE_LOCK(CONCAT(DATABASE(), '.migrate'))").Scan(&free).Error)
			require.Zero(t, free)
			return nil
		}))
	})
}

// Schema changes of large tables, and reads of whole sales, may take longer than the I/O timeout of other statements. The reads
// end with their context.
func TestLongStatementsEndOnlyWithContext(t *testing.T) {
	env.Full(t)
	t.Parallel()
	a := open(t, env.OneKind(t).DSN(t))
	long := (sqldb.MySQLIOTimeout + time.Second/2).Seconds()
	pool := env.Must(a.OpenMigrations())(t)
	defer func() { require.NoError(t, pool.Close()) }()
	env.Must(pool.ExecContext(t.Context(), "DO SLEEP(?)", long))(t)

	slow := func(tx *gorm.DB) error { return tx.Exec("DO SLEEP(?)", long).Error }
	require.NoError(t, a.LongSnapshot(t.Context(), slow))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Error(t, a.LongSnapshot(ctx, slow))
}

// A transaction runs again that Galera has rolled back, because another node has changed the same row. Galera says so in
// the next statement, which after a switch of servers is one of RunTx; COMMIT would succeed with nothing. A node without a
// majority is unavailable, although it answers.
func TestGalera(t *testing.T) {
	t.Parallel()
	g := env.StartGalera(t)
	dsn := env.Must(g.CreateDatabase(t.Context(), "galera"))(t)
	db, other := open(t, dsn), open(t, strings.Replace(dsn, g.Nodes[0].Addr, g.Nodes[1].Addr, 1))
	exec := func(tx *gorm.DB, query string) { require.NoError(t, tx.Exec(query).Error) }
	reads := func(at sqldb.Access, n int) {
		require.Eventually(t, func() bool {
			var found int
			err := at.Reader(t.Context()).Raw("SELECT n FROM aborted").Row().Scan(&found)
			return err == nil && found == n
		}, time.Minute, time.Millisecond)
	}

	exec(db.Writer(t.Context()), "CREATE TABLE aborted (id INT PRIMARY KEY, n INT NOT NULL)")
	exec(db.Writer(t.Context()), "INSERT INTO aborted VALUES (1, 0)")
	reads(other, 0)

	db.LeaveServer()
	runs := 0
	require.NoError(t, db.Write(t.Context(), func(tx *gorm.DB) error {
		exec(tx, "UPDATE aborted SET n = n + 1")
		if runs++; runs == 1 {
			exec(other.Writer(t.Context()), "UPDATE aborted SET n = 10")
			reads(db, 10)
		}
		return nil
	}))

	require.Equal(t, 2, runs)
	reads(db, 11)

	for _, n := range g.Nodes[1:] {
		n.Kill()
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // first it hangs
		err := db.Ping(t.Context())
		assert.ErrorIs(c, err, domain.ErrUnavailable)
		assert.ErrorContains(c, err, "1047")
	}, time.Minute, 20*time.Millisecond)
}

func TestMain(m *testing.M) { env.Main(m) }

// After an unanswered COMMIT, success must be reported if and only if the row is stored.
func TestResolveUnknownCommit(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		a := sqldb.Access{DB: db}

		type row struct{ ID int64 }
		require.NoError(t, a.Writer(t.Context()).Exec("CREATE TABLE stored_rows (id INTEGER PRIMARY KEY)").Error)
		require.NoError(t, a.Writer(t.Context()).Exec("INSERT INTO stored_rows VALUES (1)").Error)

		lost := sqldb.UnknownCommit(mysqldriver.ErrInvalidConn)
		read := func(id int64) func(tx *gorm.DB) error {
			return func(tx *gorm.DB) error { return tx.Table("stored_rows").Where("id = ?", id).Take(&row{}).Error }
		}

		require.NoError(t, a.ResolveUnknownCommit(t.Context(), lost, read(1)))
		require.ErrorIs(t, a.ResolveUnknownCommit(t.Context(), lost, read(2)), mysqldriver.ErrInvalidConn, "rolled back")
		other := errors.New("something else")
		require.Same(t, other, a.ResolveUnknownCommit(t.Context(), other, read(1)), "only commits are looked up")

		ctx := env.Cancelled(t.Context())
		require.NoError(t, a.ResolveUnknownCommit(ctx, lost, read(1)), "the context ended during COMMIT, but the read has its own time")

		unreachable := func(*gorm.DB) error { return mysqldriver.ErrInvalidConn }
		require.ErrorIs(t, a.ResolveUnknownCommit(ctx, lost, unreachable), mysqldriver.ErrInvalidConn, "the row could not be read")
	})
}

// Several processes migrate an empty database at once. goose creates its version table in two steps, and no process may
// see the first step without the second.
func TestConcurrentMigrateUp(t *testing.T) {
	env.Full(t)
	requireAppliedOnce := func(t *testing.T, db *sqldb.DB) { // each call has connections and a lock of its own
		t.Helper()
		var wg sync.WaitGroup
		var applied atomic.Int64
		for range 4 {
			wg.Go(func() {
				done, err := db.MigrateUp(t.Context())
				assert.NoError(t, err)
				applied.Add(int64(len(done)))
			})
		}
		wg.Wait()
		require.EqualValues(t, len(env.Must(db.Migrations(t.Context()))(t)), applied.Load())
	}

	t.Run("sqlite", func(t *testing.T) {
		env.UsesSQLite(t)
		for range 5 {
			db := env.Must(sqldb.OpenSQLite(filepath.Join(t.TempDir(), "test.db")))(t)
			requireAppliedOnce(t, db)
			require.NoError(t, db.Close())
		}
	})
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		for range 5 {
			requireAppliedOnce(t, open(t, kind.DSN(t)).DB)
		}
	})
}

// Each migration is executed up to each point at which a process can be killed. The name of the database has the maximum
// length, which also tests the name of the lock.
func TestInterruptedMigrationIsContinued(t *testing.T) {
	env.Full(t)
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		cfg := env.Must(mysqldriver.ParseDSN(kind.DSN(t)))(t)
		name := cfg.DBName + strings.Repeat("x", 64-len(cfg.DBName))
		dsn := env.Must(servers.CreateDatabase(t.Context(), cfg, name))(t)
		t.Cleanup(func() { require.NoError(t, servers.DropDatabase(cfg, name)) })
		s := open(t, dsn)

		schema := func() (all []string) {
			require.NoError(t, s.Writer(t.Context()).Raw(`SELECT CONCAT_WS(' ', table_name, column_name, column_type, is_nullable, column_default, collation_name, column_key)
				FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`).Scan(&all).Error)
			return all
		}
		files := env.Must(fs.Glob(migrations.FS, "mysql/*.sql"))(t)
		upTo := fstest.MapFS{}
		s.UseMigrations(upTo)
		for _, file := range files {
			upTo[file] = &fstest.MapFile{Data: env.Must(fs.ReadFile(migrations.FS, file))(t)}
			up := upStatements(t, file)
			var complete []string
			for done := range len(up) + 1 {
				for _, stmt := range up[:done] {
					require.NoError(t, s.Writer(t.Context()).Exec(stmt).Error)
				}
				applied, err := s.MigrateUp(t.Context())
				require.NoError(t, err, "%d statements of %s were executed before", done, file)
				require.Len(t, applied, 1)
				if done == 0 {
					complete = schema()
				}
				require.Equal(t, complete, schema())
				if done < len(up) {
					env.Must(s.MigrateDown(t.Context()))(t)
				}
			}
		}

		// A foreign table in the place of one that a later migration creates is an error: only the next one can have been interrupted.
		for undone := ""; undone != "00050_gate_generation.sql"; {
			undone = env.Must(s.MigrateDown(t.Context()))(t).Name
		}
		require.NoError(t, s.Writer(t.Context()).Exec("CREATE TABLE offers (id INT)").Error)
		env.Fails(s.MigrateUp(t.Context()))(t, "offers")

		// A foreign table in a database without migrations is an error.
		other := open(t, kind.DSN(t))
		require.NoError(t, other.Writer(t.Context()).Exec("CREATE TABLE users (id INT)").Error)
		env.Fails(other.MigrateUp(t.Context()))(t, "users")

		// So is one like that of the first migration, if others have come with it.
		like := open(t, kind.DSN(t))
		require.NoError(t, like.Writer(t.Context()).Exec(upStatements(t, files[0])[0]).Error)
		require.NoError(t, like.Writer(t.Context()).Exec("CREATE TABLE offers (id INT)").Error)
		env.Fails(like.MigrateUp(t.Context()))(t, "users")
	})
}

// goose creates its table with two statements, between which a process can be killed.
func TestVersionTableWithoutRowIsCompleted(t *testing.T) {
	env.Full(t)
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		s := open(t, kind.DSN(t))
		all := env.Must(s.Migrations(t.Context()))(t)
		require.NoError(t, s.Writer(t.Context()).Exec("DELETE FROM goose_db_version WHERE id > 0").Error)
		require.Len(t, env.Must(s.MigrateUp(t.Context()))(t), len(all))
	})
}

// Every change of an index of the orders demands LOCK = NONE, so that a server refuses it if it could not place orders
// meanwhile.
func TestIndexesOfOrdersAreBuiltOnline(t *testing.T) {
	changes := 0
	for _, file := range env.Must(fs.Glob(migrations.FS, "mysql/*.sql"))(t) {
		text := env.Must(fs.ReadFile(migrations.FS, file))(t)
		for _, change := range regexp.MustCompile("(?m)^ALTER TABLE voucher_orders .* KEY .*$").FindAllString(string(text), -1) {
			changes++
			require.Contains(t, change, "LOCK = NONE", file)
		}
	}
	require.Positive(t, changes)
}

func upStatements(t *testing.T, file string) (all []string) {
	text := env.Must(fs.ReadFile(migrations.FS, file))(t)
	up, _, _ := strings.Cut(string(text), "-- +goose Down")
	up = regexp.MustCompile("(?m)^ *--.*$").ReplaceAllString(up, "")
	for stmt := range strings.SplitSeq(up, ";") {
		if stmt = strings.TrimSpace(stmt); stmt != "" {
			all = append(all, stmt)
		}
	}
	return all
}

// A new file is opened several times at once. The switch to the write-ahead log must not make the other calls fail with
// SQLITE_BUSY.
func TestConcurrentOpenSQLite(t *testing.T) {
	for range 30 {
		file := filepath.Join(t.TempDir(), "test.db")

		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := sqldb.OpenSQLite(file)
				if assert.NoError(t, err) {
					assert.NoError(t, s.Close())
				}
			})
		}

		wg.Wait()
	}
}

// firstWithOrders is the first version with orders and payments.
const firstWithOrders = 10

// All migrations are reverted one by one and applied again, on tables with rows. What is in a column stays the same as long
// as there is the column.
func TestMigrationsAreReversible(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		a := sqldb.Access{DB: db}
		applied := env.Must(a.Migrations(t.Context()))(t)
		fill(t, a)
		before := readColumns(t, a)
		require.Len(t, before["voucher_orders.status"], filledRows)

		for i := len(applied) - 1; i >= 0; i-- {
			undone := env.Must(a.MigrateDown(t.Context()))(t)
			require.Equal(t, applied[i].Version, undone.Version)
			if i == 0 {
				break
			}
			after := readColumns(t, a)
			requireKept(t, before, after, "down "+undone.Name)
			before = after
			if undone.Version != firstWithOrders+1 {
				continue
			}

			again := env.Must(a.MigrateUp(t.Context()))(t)
			require.Len(t, again, len(applied)-i)
			requireKept(t, before, readColumns(t, a), "up")
			for range again {
				env.Must(a.MigrateDown(t.Context()))(t)
			}
		}
		require.Nil(t, env.Must(a.MigrateDown(t.Context()))(t))
		require.Len(t, env.Must(a.MigrateUp(t.Context()))(t), len(applied))
	})
}

const filledRows = 12

type columnInfo struct {
	Table, Name, Type   string
	Nullable, Generated bool
}

// columnsOf returns the columns of all tables except that of goose, in their order.
func columnsOf(t *testing.T, a sqldb.Access) (all []columnInfo) {
	t.Helper()
	query := `SELECT m.name AS "table", c.name, lower(c.type) AS type, c."notnull" = 0 AS nullable, c.hidden > 0 AS generated
		FROM sqlite_master m, pragma_table_xinfo(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version' ORDER BY m.name, c.cid`
	if a.Dialect() == "mysql" {
		query = "SELECT table_name AS `table`, column_name AS name, data_type AS type, is_nullable = 'YES' AS nullable, " +
			"COALESCE(generation_expression, '') <> '' AS `generated` FROM information_schema.columns " +
			"WHERE table_schema = DATABASE() AND table_name <> 'goose_db_version' ORDER BY table_name, ordinal_position"
	}
	require.NoError(t, a.Writer(t.Context()).Raw(query).Scan(&all).Error)
	require.NotEmpty(t, all)
	return all
}

// fill gives every table filledRows rows. The second half of them has no value where it may have none, and the orders and
// payments of each half have every status.
func fill(t *testing.T, a sqldb.Access) {
	t.Helper()
	byTable := map[string][]columnInfo{}
	for _, c := range columnsOf(t, a) {
		if !c.Generated {
			byTable[c.Table] = append(byTable[c.Table], c)
		}
	}

	for table, columns := range byTable {
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name
		}

		insert := "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
		for row := range filledRows {
			values := make([]any, len(columns))
			for i, c := range columns {
				values[i] = c.value(row)
			}
			_, err := a.Pools()["write"].ExecContext(t.Context(), insert, values...)
			require.NoError(t, err, table)
		}
	}
}

// value returns the content of the column in a row. That of the first column of a table differs from row to row.
func (c columnInfo) value(row int) any {
	number := row + 1
	switch {
	case c.Nullable && row >= filledRows/2:
		return nil
	case c.Name == "status":
		return number%6 + 1
	case strings.HasPrefix(c.Type, "datetime"):
		return time.Date(2026, 11, 11, 12, 0, number, 123e6, time.UTC)
	case strings.Contains(c.Type, "int"), c.Type == "double", c.Type == "real":
		return number
	case strings.Contains(c.Type, "bin"), strings.HasSuffix(c.Type, "blob"):
		return []byte{byte(number), 0xff}
	default:
		return fmt.Sprintf("%c%d", 'a'+rune(row), number)
	}
}

// readColumns returns the content of all columns, by "table.column". Those of one table have the same order of rows.
func readColumns(t *testing.T, a sqldb.Access) map[string][]string {
	t.Helper()
	content, order := map[string][]string{}, map[string]string{}
	for _, c := range columnsOf(t, a) {
		if order[c.Table] == "" {
			order[c.Table] = c.Name
		}
		var values []sql.NullString
		query := "SELECT " + c.Name + " FROM " + c.Table + " ORDER BY " + order[c.Table]
		require.NoError(t, a.Writer(t.Context()).Raw(query).Scan(&values).Error, query)
		for _, v := range values {
			content[c.Table+"."+c.Name] = append(content[c.Table+"."+c.Name], fmt.Sprintf("%t %q", v.Valid, v.String))
		}
	}
	return content
}

// requireKept compares the columns that there were before a migration and are there now. Migration 22 deletes the login
// codes, which live for two minutes.
func requireKept(t *testing.T, before, after map[string][]string, migration string) {
	t.Helper()
	for column, values := range before {
		if now, ok := after[column]; ok && !strings.HasPrefix(column, "login_codes.") {
			require.Equal(t, values, now, "%s after the migration %s", column, migration)
		}
	}
}
