package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"seckill/migrations"
)

const (
	sqliteReaders     = 4
	sqliteOpenTimeout = 10 * time.Second
)

// OpenSQLite opens the embedded database in a file, which several processes of one machine may share.
//
// With the write-ahead log and synchronous=FULL, a commit is on disk when it returns. _txlock=immediate takes the write
// lock at BEGIN; a deferred transaction that writes later would fail if another one had written in between. Times are
// stored as integer milliseconds, so they compare as numbers. secure_delete removes erased phone numbers from the file.
func OpenSQLite(file string) (_ *DB, err error) {
	// A new file is switched to the write-ahead log once. During the switch, other processes get SQLITE_BUSY at once,
	// regardless of the busy timeout.
	ctx, cancel := context.WithTimeout(context.Background(), sqliteOpenTimeout)
	defer cancel()

	unlock, err := lockFile(ctx, file+".open-lock")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	write := sqliteDSN(file, "_txlock=immediate")
	writePool, err := openSQLite(write, 1)
	if err != nil {
		return nil, err
	}

	readPool, err := openSQLite(sqliteDSN(file, "_pragma=query_only(1)"), sqliteReaders)
	if err != nil {
		return nil, err
	}

	return &DB{
		writePool: writePool,
		readPool:  readPool,
		longPool:  readPool,
		failover:  new(failover),
		dialect: dialect{
			name:      "sqlite",
			files:     migrations.FS,
			sql:       sqliteSyntax,
			translate: sqliteFault,
			ping: func(ctx context.Context, pool *sql.DB) error {
				// Scan releases the connection.
				return pool.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
			},
			// Each migration is a transaction, so there is nothing to skip.
			migrations: func(*atomic.Bool) (*sql.DB, error) { return sqlitePool(write) },
			lockSchema: func(ctx context.Context) (func() error, error) { return lockFile(ctx, file+".migrate-lock") },
		},
	}, nil
}

var sqliteSyntax = Syntax{
	Now:          "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	InMillis:     "CAST(unixepoch('subsec') * 1000 AS INTEGER) + %d",
	SkipExisting: " ON CONFLICT DO NOTHING",
}

func sqliteDSN(file string, extra string) string {
	return (&url.URL{
		Scheme: "file",
		Opaque: (&url.URL{Path: file}).EscapedPath(),
		RawQuery: strings.Join([]string{
			"_pragma=busy_timeout(3500)", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)",
			"_pragma=secure_delete(1)", "_time_integer_format=unix_milli", "_inttotime=1", extra,
		}, "&"),
	}).String()
}

func openSQLite(dsn string, conns int) (*gorm.DB, error) {
	pool, err := sqlitePool(dsn)
	if err != nil {
		return nil, err
	}

	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)

	db, err := gorm.Open(&gormsqlite.Dialector{Conn: pool}, gormConfig())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite: %w", err), pool.Close())
	}

	return db, nil
}

func sqlitePool(dsn string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	return sql.OpenDB(connector), nil
}

func sqliteFault(err error) fault {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return faultOther
	}

	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		// If it is busy or locked, busy_timeout is over: no time is left.
		return faultUnavailable
	}

	return faultOther
}

func lockFile(ctx context.Context, path string) (func() error, error) {
	lock := flock.New(path, flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return lock.Unlock, nil
}
