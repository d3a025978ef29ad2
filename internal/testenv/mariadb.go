package testenv

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/servers"
)

// MariaDB is a mariadbd process of a test.
type MariaDB struct{ *servers.MariaDB }

// DSN creates an empty utf8mb4 database with a new name and returns its DSN for go-sql-driver (TCP, user root, no
// parameters). The database is dropped at cleanup if the server is running then.
func (m *MariaDB) DSN(tb testing.TB) string {
	tb.Helper()
	return testDatabase(tb, servers.AdminConfig(m.Addr), m.Answers)
}

// MySQLDSN returns the DSN of a new, empty utf8mb4 database that is dropped at cleanup. It is on the server in
// [EnvMySQLDSN], whose parameters are kept, or else on [SharedMariaDB].
func MySQLDSN(tb testing.TB) string {
	tb.Helper()
	dsn := os.Getenv(EnvMySQLDSN)
	if dsn == "" {
		return SharedMariaDB(tb).DSN(tb)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatalf("%s: %v", EnvMySQLDSN, err)
	}
	return testDatabase(tb, cfg, func() bool { return true })
}

func testDatabase(tb testing.TB, cfg *mysql.Config, answers func() bool) string {
	tb.Helper()
	name := randomDatabase()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
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

// randomDatabase returns a new name, which is random because test processes share an external server.
func randomDatabase() string { return "seckill_test_" + strings.ToLower(rand.Text()[:16]) }
