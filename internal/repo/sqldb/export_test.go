package sqldb

import (
	"database/sql"
	"sync/atomic"
)

// Most tests are in package sqldb_test, because package env, which gives them databases, imports this one. Here is what
// they need beside the exported names.

// MySQLIOTimeout is mysqlIOTimeout.
const MySQLIOTimeout = mysqlIOTimeout

// ErrZeroTime is errZeroTime.
var ErrZeroTime = errZeroTime

// SessionSettings is sessionSettings.
var SessionSettings = sessionSettings

// SessionVariables returns the names of sessionVariables.
func SessionVariables() []string {
	names := make([]string, len(sessionVariables))
	for i, v := range sessionVariables {
		names[i] = v.name
	}
	return names
}

// UnknownCommit returns the error of a COMMIT that failed with err.
func UnknownCommit(err error) error { return &commitError{err} }

// LeaveServer is leaveServer.
func (db *DB) LeaveServer() { db.leaveServer() }

// OpenMigrations opens the pool of schema changes.
func (db *DB) OpenMigrations() (*sql.DB, error) { return db.dialect.migrations(&atomic.Bool{}) }
