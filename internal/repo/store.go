package repo

import (
	"seckill/internal/repo/sqldb"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	*sqldb.DB
	db sqldb.Access
}

// OpenMySQL opens MySQL or MariaDB as sqldb.OpenMySQL does.
func OpenMySQL(dsn string) (*Store, error) { return open(sqldb.OpenMySQL(dsn)) }

// OpenSQLite opens the embedded database as sqldb.OpenSQLite does.
func OpenSQLite(file string) (*Store, error) { return open(sqldb.OpenSQLite(file)) }

func open(db *sqldb.DB, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{DB: db, db: sqldb.Access{DB: db}}, nil
}
