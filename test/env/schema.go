package env

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/repo/sqldb"
)

// OnEach runs a test on a new database of each kind, with the newest schema, so that all of them pass the same suite.
func OnEach(t *testing.T, fn func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		fn(t, opened(t, Must(sqldb.OpenSQLite(SQLiteFile(t)))(t)))
	})
	OnEachServer(t, fn)
}

// OnEachServer is OnEach without SQLite.
func OnEachServer(t *testing.T, fn func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	EachKind(t, func(t *testing.T, kind Kind) {
		fn(t, opened(t, Must(sqldb.OpenMySQL(kind.MigratedDSN(t)))(t)))
	})
}

func opened(t *testing.T, db *sqldb.DB) *sqldb.DB {
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	Inject(db)
	return db
}

// The migrations run once in a test process, and each database copies their result: a single run needs 0.2 s of processor
// time, with the race detector half a second.
var (
	sqliteTemplate  = sync.OnceValues(migratedFile)
	serverTemplates = struct {
		sync.Mutex
		statements map[Kind][]string
	}{statements: map[Kind][]string{}}
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
	UsesSQLite(tb)
	data, err := sqliteTemplate()
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(file, data, 0o600))
}

// MigratedDSN is DSN with the newest schema.
func (k Kind) MigratedDSN(tb testing.TB) string {
	tb.Helper()
	return createTables(tb, k, k.DSN(tb))
}

// MigratedDSN is DSN with the newest schema.
func (d *Database) MigratedDSN(tb testing.TB) string {
	tb.Helper()
	return createTables(tb, d.Kind, d.DSN(tb))
}

func createTables(tb testing.TB, kind Kind, dsn string) string {
	tb.Helper()
	cfg := Must(mysql.ParseDSN(dsn))(tb)
	cfg.MultiStatements = true
	db := Must(sql.Open("mysql", cfg.FormatDSN()))(tb)
	defer func() { require.NoError(tb, db.Close()) }()

	serverTemplates.Lock()
	defer serverTemplates.Unlock()

	if serverTemplates.statements[kind] == nil {
		store := Must(sqldb.OpenMySQL(dsn))(tb)
		Must(store.MigrateUp(tb.Context()))(tb)
		require.NoError(tb, store.Close())
		serverTemplates.statements[kind] = schemaOf(tb, db)
		return dsn
	}

	Must(db.ExecContext(tb.Context(), strings.Join(serverTemplates.statements[kind], ";\n")))(tb)
	return dsn
}

func schemaOf(tb testing.TB, db *sql.DB) []string {
	tb.Helper()

	var statements []string
	_, tables := Query(tb, db, "SHOW TABLES")
	for _, table := range tables {
		_, shown := Query(tb, db, "SHOW CREATE TABLE `"+table[0].(string)+"`")
		statements = append(statements, shown[0][1].(string))
	}

	_, versions := Query(tb, db, "SELECT CONCAT_WS(', ', id, version_id, is_applied) FROM goose_db_version")
	for _, version := range versions {
		statements = append(statements, "INSERT INTO goose_db_version (id, version_id, is_applied) VALUES ("+version[0].(string)+")")
	}

	return statements
}

func migratedFile() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "seckill-schema")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	file := filepath.Join(dir, "template.db")
	db, err := sqldb.OpenSQLite(file)
	if err != nil {
		return nil, err
	}

	// Close merges the write-ahead log into the file.
	_, err = db.MigrateUp(context.Background())
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}

	return os.ReadFile(file)
}

// RequireBlocked waits until a writer of the table waits for another writer. A test can call it once.
func RequireBlocked(t *testing.T, db sqldb.Access, table string) {
	t.Helper()
	var name string
	if db.Dialect() == "mysql" {
		require.NoError(t, db.Reader(t.Context()).Raw("SELECT DATABASE()").Scan(&name).Error)
	}

	require.Eventually(t, func() bool {
		if db.Dialect() == "sqlite" { // there is one write connection
			return db.Pools()["write"].Stats().WaitCount > 0
		}
		// information_schema.processlist of MySQL cannot have a statement with the bytes of a hash (error 3854).
		var threads []struct{ DB, State, Info string }
		err := db.Reader(t.Context()).Raw("SHOW FULL PROCESSLIST").Scan(&threads).Error
		return err == nil && slices.ContainsFunc(threads, func(r struct{ DB, State, Info string }) bool {
			return r.DB == name && r.State != "" && strings.Contains(r.Info, table)
		})
	}, time.Minute, 5*time.Millisecond)
}

// Numbers returns a subquery with the numbers n of that many decimal digits, leading zeros included.
func Numbers(digits int) string {
	const digit = "(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 " +
		"UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
	n := "0"
	var from []string
	for i := range digits {
		n = fmt.Sprintf("10 * (%s) + d%d.d", n, i)
		from = append(from, fmt.Sprintf("%s d%d", digit, i))
	}

	return "(SELECT " + n + " AS n FROM " + strings.Join(from, ", ") + ")"
}
