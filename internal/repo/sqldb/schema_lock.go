package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// lockMySQLSchema takes a named lock of the server, which the server releases when its connection ends, even if this
// process dies. On Galera such a lock is local to its node.
func lockMySQLSchema(ctx context.Context, open func() (*sql.DB, error)) (func() error, error) {
	db, err := open()
	if err != nil {
		return nil, err
	}

	// Closing the pool closes the connection with the lock.
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	db.SetConnMaxLifetime(0)

	if err := takeServerLock(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the schema: %w", err), db.Close())
	}

	return db.Close, nil
}

func takeServerLock(ctx context.Context, db *sql.DB) error {
	for {
		// MySQL allows names of 64 characters.
		var got sql.NullInt64
		err := db.QueryRowContext(ctx, "SELECT GET_LOCK(IF(CHAR_LENGTH(name) <= 64, name, SHA2(name, 256)), 1) "+
			"FROM (SELECT CONCAT(DATABASE(), '.migrate') AS name) AS l").Scan(&got)

		switch {
		case err != nil:
			return err
		case !got.Valid:
			return errors.New("the server refused GET_LOCK")
		case got.Int64 == 1:
			return nil
		}
	}
}
