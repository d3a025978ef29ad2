// Package dbtest opens databases for the tests of the repository.
package dbtest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/repo/sqldb"
	"seckill/internal/testenv"
)

// OnEach runs a test on a new database of each kind, so that all of them pass the same suite.
func OnEach(t *testing.T, fn func(t *testing.T, db *sqldb.DB)) {
	for name, open := range map[string]func(t *testing.T) (*sqldb.DB, error){
		"sqlite": func(t *testing.T) (*sqldb.DB, error) { return sqldb.OpenSQLite(filepath.Join(t.TempDir(), "test.db")) },
		"mysql":  func(t *testing.T) (*sqldb.DB, error) { return sqldb.OpenMySQL(testenv.MySQLDSN(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := open(t)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			_, err = db.MigrateUp(t.Context())
			require.NoError(t, err)
			fn(t, db)
		})
	}
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
