package env

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"seckill/test/env/servers"
)

// Kind is a kind of database server.
type Kind string

// The kinds of database servers.
const (
	MariaDB Kind = "mariadb"
	MySQL   Kind = "mysql"
)

// only returns the value of EnvDatabase, or "".
func only(tb testing.TB) Kind {
	tb.Helper()
	kind := Kind(os.Getenv(EnvDatabase))
	if kind != "" && kind != MariaDB && kind != MySQL {
		tb.Fatalf("%s=%s is neither %s nor %s", EnvDatabase, kind, MySQL, MariaDB)
	}

	return kind
}

// OpenDB opens a pool without the settings of the program, which is closed at cleanup.
func OpenDB(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db := Must(sql.Open("mysql", dsn))(tb)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// OneKind returns the kind of server for tests of what does not differ between the kinds.
func OneKind(tb testing.TB) Kind {
	tb.Helper()
	return cmp.Or(only(tb), MariaDB)
}

// Kinds returns the kinds of servers on which a test of statements or transactions runs: both in make test-all, else one.
func Kinds(tb testing.TB) []Kind {
	tb.Helper()
	if !IsFull() || only(tb) != "" {
		return []Kind{OneKind(tb)}
	}

	return []Kind{MariaDB, MySQL}
}

// EachKind runs a test on each of Kinds.
func EachKind(t *testing.T, fn func(t *testing.T, kind Kind)) {
	t.Helper()
	for _, kind := range Kinds(t) {
		t.Run(string(kind), func(t *testing.T) { fn(t, kind) })
	}
}

// UsesSQLite skips a test that would use SQLite if [EnvDatabase] names a server.
func UsesSQLite(tb testing.TB) {
	tb.Helper()
	if kind := only(tb); kind != "" {
		tb.Skipf("uses SQLite, and %s=%s", EnvDatabase, kind)
	}
}

// DSN returns the DSN of a new, empty utf8mb4 database that is dropped at cleanup. It is on the shared server of the
// kind. That of MySQL is the one in [EnvMySQLDSN], whose parameters are kept, if there is one.
func (k Kind) DSN(tb testing.TB) string {
	tb.Helper()
	dsn := os.Getenv(EnvMySQLDSN)
	if k != MySQL || dsn == "" {
		return k.shared(tb).DSN(tb)
	}

	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatalf("%s: %v", EnvMySQLDSN, err)
	}

	return testDatabase(tb, cfg, func() bool { return true })
}

// shared returns the server of a kind that all tests of this process share, and must neither kill nor pause.
func (k Kind) shared(tb testing.TB) *Database {
	tb.Helper()
	k.mustBeUsed(tb)
	start := sharedMariaDB
	if k == MySQL {
		start = sharedMySQL
	}

	d, err := start()
	k.need(tb, err)
	return d
}

// Start starts a private server and stops it at cleanup. args are appended to the default arguments and override them;
// --loose-x is ignored by a server that has no option x.
func (k Kind) Start(tb testing.TB, args ...string) *Database {
	tb.Helper()
	k.mustBeUsed(tb)
	d, err := k.run(tb.Context(), args...)
	k.need(tb, err)
	return started(d, err)(tb)
}

// mustBeUsed skips a test that would use a kind of server if [EnvDatabase] names another one.
func (k Kind) mustBeUsed(tb testing.TB) {
	tb.Helper()
	server(tb)
	if kind := only(tb); kind != "" && kind != k {
		tb.Skipf("uses %s, and %s=%s", k, EnvDatabase, kind)
	}
}

func (k Kind) runShared(ctx context.Context) (*Database, error) {
	return k.run(ctx, "--max-connections=2000") // a server of one test can have 50
}

func (k Kind) run(ctx context.Context, args ...string) (*Database, error) {
	run := servers.RunMariaDB
	if k == MySQL {
		run = servers.RunMySQL
	}

	d, err := run(ctx, args...)
	return &Database{Database: d, Kind: k}, err
}

// need is the function need, except that a test that starts a MySQL is skipped where only a running one is given.
func (k Kind) need(tb testing.TB, err error) {
	tb.Helper()
	if k == MySQL && errors.Is(err, exec.ErrNotFound) && os.Getenv(EnvMySQLDSN) != "" {
		tb.Skipf("needs a server of its own, and %s names one that others use; %v", EnvMySQLDSN, err)
	}

	need(tb, err)
}

// Database is a server process of a test.
type Database struct {
	*servers.Database

	Kind Kind
}

// DSN creates an empty utf8mb4 database with a new name and returns its DSN for go-sql-driver (TCP, user root, no
// parameters). The database is dropped at cleanup if the server is running then.
func (d *Database) DSN(tb testing.TB) string {
	tb.Helper()
	return testDatabase(tb, servers.AdminConfig(d.Addr), d.Answers)
}

func testDatabase(tb testing.TB, cfg *mysql.Config, answers func() bool) string {
	tb.Helper()

	// Random, because test processes share an external server.
	name := "seckill_test_" + strings.ToLower(rand.Text()[:16])

	ctx, cancel := context.WithTimeout(tb.Context(), servers.StartTimeout)
	defer cancel()
	dsn, err := servers.CreateDatabase(ctx, cfg, name)
	if err != nil {
		tb.Fatalf("create a database for the test: %v", err)
	}

	tb.Cleanup(func() {
		if !answers() {
			return
		}
		if err := servers.DropDatabase(cfg, name); err != nil {
			tb.Logf("database %s was not dropped: %v", name, err)
		}
	})

	return dsn
}

// StartGalera starts a private cluster of three MariaDB nodes and stops it at cleanup.
func StartGalera(tb testing.TB) *servers.Galera {
	tb.Helper()
	Full(tb)
	MariaDB.mustBeUsed(tb)
	return started(servers.RunGalera(tb.Context()))(tb)
}
