package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
)

// Migration is one numbered change of the schema.
type Migration struct {
	Version int64
	Name    string
	// Zero if it is not applied.
	Applied time.Time
}

// MigrateUp applies the missing migrations and returns them. Concurrent processes wait for each other. MySQL commits
// each DDL statement by itself, so an interrupted run may have executed a part of the next migration, or all of it
// except goose's version record. Those statements are skipped.
func (db *DB) MigrateUp(ctx context.Context) ([]Migration, error) {
	var done []Migration
	err := db.migrate(ctx, func(ctx context.Context, p *goose.Provider, skipApplied *atomic.Bool) error {
		add := func(r *goose.MigrationResult) {
			done = append(done, Migration{
				Version: r.Source.Version,
				Name:    r.Source.Path,
				Applied: time.Now(),
			})
		}

		db.completeVersionTable(ctx)
		version, err := p.GetDBVersion(ctx)
		if err != nil {
			return err
		}

		// Foreign tables in a database without migrations must cause an error.
		if version > 0 || db.firstInterrupted(ctx) {
			skipApplied.Store(true)
			r, err := p.UpByOne(ctx)
			skipApplied.Store(false)

			if errors.Is(err, goose.ErrNoNextVersion) {
				return nil
			}
			if err != nil {
				return err
			}

			add(r)
		}

		results, err := p.Up(ctx)
		for _, r := range results {
			add(r)
		}

		return err
	})

	return done, err
}

// completeVersionTable adds the row without which goose fails, if a run was interrupted between the two statements that create
// goose's table on MySQL. Usually there is the row or no table; goose reports other errors.
func (db *DB) completeVersionTable(ctx context.Context) {
	_ = Access{db}.Writer(ctx).Exec("INSERT INTO goose_db_version (version_id, is_applied) " +
		"SELECT 0, TRUE FROM (SELECT COUNT(*) AS n FROM goose_db_version) AS versions WHERE n = 0").Error
}

// firstInterrupted reports whether a run was interrupted between the only statement of the first migration and its record:
// there is a table of users, of this program, it has no row, and the database has no other tables. On SQLite both are one
// transaction.
func (db *DB) firstInterrupted(ctx context.Context) bool {
	var n int
	err := Access{db}.Reader(ctx).Raw("SELECT COUNT(*) + (SELECT COUNT(*) FROM information_schema.tables " +
		"WHERE table_schema = DATABASE() AND table_name NOT IN ('users', 'goose_db_version')) " +
		"FROM (SELECT phone, nick_name, icon, role FROM users LIMIT 1) AS u").Scan(&n).Error
	return err == nil && n == 0
}

// MigrateDown reverts the newest migration and returns it, or nil if none is applied.
func (db *DB) MigrateDown(ctx context.Context) (*Migration, error) {
	var undone *Migration
	err := db.migrate(ctx, func(ctx context.Context, p *goose.Provider, skipApplied *atomic.Bool) error {
		skipApplied.Store(true)
		r, err := p.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}

		if err == nil {
			undone = &Migration{Version: r.Source.Version, Name: r.Source.Path}
		}

		return err
	})

	return undone, err
}

// Migrations lists all migrations, applied or not.
func (db *DB) Migrations(ctx context.Context) ([]Migration, error) {
	var all []Migration
	err := db.migrate(ctx, func(ctx context.Context, p *goose.Provider, _ *atomic.Bool) error {
		states, err := p.Status(ctx)
		for _, st := range states {
			all = append(all, Migration{
				Version: st.Source.Version,
				Name:    st.Source.Path,
				Applied: st.AppliedAt,
			})
		}

		return err
	})

	return all, err
}

// WithSchemaLock runs fn while it holds the schema lock, which excludes the migrations of other processes; on Galera, of
// those that use the same node.
func (a Access) WithSchemaLock(ctx context.Context, fn func() error) (err error) {
	unlock, err := a.dialect.lockSchema(ctx)
	if err != nil {
		return a.Translate(err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return fn()
}

// migrate runs fn with a goose provider on its own connections. While skipApplied is true, they skip DDL that is in
// effect already. migrate takes its own lock instead of goose.WithSessionLocker: goose creates its version table before
// it takes that lock, so concurrent processes could find the table half made.
func (db *DB) migrate(ctx context.Context, fn func(ctx context.Context, p *goose.Provider, skipApplied *atomic.Bool) error) error {
	dialect := goose.DialectMySQL
	if db.dialect.name == "sqlite" {
		dialect = goose.DialectSQLite3
	}

	folder, err := fs.Sub(db.dialect.files, db.dialect.name)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}

	return Access{db}.WithSchemaLock(ctx, func() (err error) {
		var skipApplied atomic.Bool
		pool, err := db.dialect.migrations(&skipApplied)
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		defer func() { err = errors.Join(err, pool.Close()) }()

		p, err := goose.NewProvider(dialect, pool, folder)
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}

		if err := fn(ctx, p, &skipApplied); err != nil {
			// A start waits for a database that is unavailable. It need not wait for a right of its user.
			if errorNumber(err) != erNoRight {
				err = Access{db}.Translate(err)
			}
			return fmt.Errorf("migrations: %w", err)
		}

		return nil
	})
}

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
	// The connection is silent while its holder changes the schema: eight hours, in seconds.
	if _, err := db.ExecContext(ctx, "SET SESSION wait_timeout = 28800"); err != nil {
		return err
	}

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
