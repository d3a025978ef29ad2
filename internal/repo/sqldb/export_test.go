package sqldb

import (
	"database/sql"
	"io/fs"
	"sync/atomic"
)

// Most tests are in package sqldb_test, because package env, which gives them databases, imports this one. Here is what
// they need beside the exported names.

const MySQLIOTimeout = mysqlIOTimeout

var SessionSettings = sessionSettings

func SessionVariables() []string {
	names := make([]string, len(sessionVariables))
	for i, v := range sessionVariables {
		names[i] = v.name
	}
	return names
}

func UnknownCommit(err error) error { return &commitError{err} }

func (db *DB) LeaveServer() { db.leaveServer() }

func (db *DB) OpenMigrations() (*sql.DB, error) { return db.dialect.migrations(&atomic.Bool{}) }

func (db *DB) UseMigrations(files fs.FS) { db.dialect.files = files }
