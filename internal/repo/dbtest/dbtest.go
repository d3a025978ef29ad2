// Package dbtest opens databases for the tests of the repository and of the packages above it.
package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/repo/sqldb"
	"seckill/internal/testenv"
)

// OnEach runs a test on a new database of each kind, so that all of them pass the same suite.
func OnEach(t *testing.T, fn func(t *testing.T, db *sqldb.DB)) {
	for name, open := range map[string]func(t *testing.T) (*sqldb.DB, error){
		"sqlite": func(t *testing.T) (*sqldb.DB, error) { return sqldb.OpenSQLite(SQLiteFile(t)) },
		"mysql":  func(t *testing.T) (*sqldb.DB, error) { return sqldb.OpenMySQL(MySQLDSN(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := open(t)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			fn(t, db)
		})
	}
}

// The migrations run once in a test process, and each database copies their result: a single run needs 0.2 s of processor
// time, with the race detector half a second. A process uses one kind of MySQL server, whose statements these are.
var (
	sqliteTemplate = sync.OnceValues(migratedFile)
	mysqlTemplate  = struct {
		sync.Mutex
		statements []string
	}{}
)

// SQLiteFile returns the path of a new SQLite database with the newest schema.
func SQLiteFile(tb testing.TB) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "test.db")
	CreateSQLite(tb, file)
	return file
}

// CreateSQLite creates a SQLite database with the newest schema.
func CreateSQLite(tb testing.TB, file string) {
	tb.Helper()
	data, err := sqliteTemplate()
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(file, data, 0o600))
}

// MySQLDSN returns the DSN of a new database with the newest schema on the server of [testenv.MySQLDSN].
func MySQLDSN(tb testing.TB) string {
	tb.Helper()
	return createTables(tb, testenv.MySQLDSN(tb))
}

// MariaDBDSN returns the DSN of a new database with the newest schema on a MariaDB of the tests.
func MariaDBDSN(tb testing.TB, server *testenv.MariaDB) string {
	tb.Helper()
	return createTables(tb, server.DSN(tb))
}

// createTables gives an empty database the newest schema, and returns its DSN.
func createTables(tb testing.TB, dsn string) string {
	tb.Helper()
	mysqlTemplate.Lock()
	defer mysqlTemplate.Unlock()
	if mysqlTemplate.statements == nil {
		statements, err := migratedSchema(tb.Context(), dsn)
		require.NoError(tb, err)
		mysqlTemplate.statements = statements
		return dsn
	}
	require.NoError(tb, onConnection(tb.Context(), dsn, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(tb.Context(), strings.Join(mysqlTemplate.statements, ";\n"))
		return err
	}))
	return dsn
}

// migratedFile returns the content of a SQLite database file after all migrations.
func migratedFile() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "seckill-dbtest")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "template.db")
	db, err := sqldb.OpenSQLite(file)
	if err != nil {
		return nil, err
	}
	_, err = db.MigrateUp(context.Background())
	if err := errors.Join(err, db.Close()); err != nil { // Close merges the write-ahead log into the file
		return nil, err
	}
	return os.ReadFile(file)
}

// migratedSchema runs all migrations on an empty database and returns the statements that repeat their result.
func migratedSchema(ctx context.Context, dsn string) (statements []string, err error) {
	db, err := sqldb.OpenMySQL(dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.MigrateUp(ctx)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	err = onConnection(ctx, dsn, func(conn *sql.Conn) error {
		tables, err := column(ctx, conn, "SHOW TABLES")
		if err != nil {
			return err
		}
		for _, table := range tables {
			var create string
			if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE `"+table+"`").Scan(&table, &create); err != nil {
				return err
			}
			statements = append(statements, create)
		}
		versions, err := column(ctx, conn, "SELECT CONCAT_WS(', ', id, version_id, is_applied) FROM goose_db_version")
		for _, version := range versions {
			statements = append(statements, "INSERT INTO goose_db_version (id, version_id, is_applied) VALUES ("+version+")")
		}
		return err
	})
	return statements, err
}

func column(ctx context.Context, conn *sql.Conn, query string) (values []string, err error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}

// onConnection runs fn on a connection that accepts several statements at once.
func onConnection(ctx context.Context, dsn string, fn func(conn *sql.Conn) error) (err error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	cfg.MultiStatements = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return fn(conn)
}

// RequireBlocked waits until a writer of the table waits for another writer. A test can call it once.
func RequireBlocked(t *testing.T, db sqldb.Access, table string) {
	t.Helper()
	require.Eventually(t, func() bool {
		if db.Dialect() == "sqlite" { // there is one write connection
			return db.Pools()["write"].Stats().WaitCount > 0
		}
		var waiting int64
		err := db.Reader(t.Context()).Raw("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE ? "+
			"AND info NOT LIKE '%processlist%' AND state <> ''", "%"+table+"%").Scan(&waiting).Error
		return err == nil && waiting > 0
	}, time.Minute, 5*time.Millisecond)
}
