// Package sqldb opens MySQL, MariaDB or SQLite through gorm, changes their schema, and runs transactions on them. It
// hides what differs between the databases, and translates driver errors into the errors of package domain.
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"seckill/internal/domain"
)

// DB is an open database. It is safe for concurrent use.
//
// writePool and readPool are separate, so that reads do not take connections from transactions. No transaction of
// writePool waits for readPool. SQLite allows one writer at a time: its writePool has a single connection, and readPool
// reads the write-ahead log beside it.
type DB struct {
	*failover

	writePool, readPool *gorm.DB
	// Without I/O timeouts, for reads of whole sales; readPool on SQLite.
	longPool *gorm.DB
	dialect  dialect
	// A transaction found the database unavailable, and Ping has committed nothing since.
	doubtful atomic.Bool
}

// dialect is what differs between the databases.
type dialect struct {
	// "mysql" or "sqlite".
	name string
	// files has the migrations, in a folder with that name.
	files fs.FS
	sql   Syntax
	// translate classifies a driver error.
	translate func(error) fault
	// ping returns nil if the server of a pool answers and accepts writes.
	ping func(ctx context.Context, pool *sql.DB) error
	// writable returns nil if the server of a connection accepts writes. It is called only if servers were left.
	writable func(ctx context.Context, conn gorm.ConnPool) error
	// migrations opens a pool without I/O timeouts. While skipApplied is true, DDL that is in effect already is
	// skipped.
	migrations func(skipApplied *atomic.Bool) (*sql.DB, error)
	// lockSchema waits for the schema lock, which one process holds at a time, until unlock.
	lockSchema func(ctx context.Context) (unlock func() error, err error)
}

// Syntax is SQL text that differs between the databases.
type Syntax struct {
	// The current time.
	Now string
	// The time %d milliseconds from now.
	InMillis string
	// Ends an INSERT that leaves existing rows unchanged.
	SkipExisting string
	// Ends a query that locks its rows.
	ForUpdate  string
	forceIndex string
}

// ForceIndex returns the text that follows the name of a table and forces a lookup by an index, whatever the statistics
// suggest.
func (s Syntax) ForceIndex(index string) string { return strings.ReplaceAll(s.forceIndex, "%s", index) }

// fault is a kind of driver error.
type fault int

const (
	faultOther       fault = iota
	faultRetry             // nothing was changed, and a retry at once can succeed (deadlock)
	faultRefused           // nothing was changed, and this server accepts no transaction; another one may
	faultUnavailable       // the database is unavailable or full
	faultLost              // the server did not answer, or closed the connection
)

// gormConfig turns off implicit behaviour of gorm: no transaction around single statements, and no log of its own
// (errors are returned and logged once, where they are answered).
func gormConfig() *gorm.Config {
	return &gorm.Config{
		SkipDefaultTransaction: true,
		// The caller decides how long to wait for the server.
		DisableAutomaticPing: true,
		Logger:               logger.Discard,
		NowFunc:              func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
	}
}

// Dialect returns "mysql" or "sqlite".
func (db *DB) Dialect() string { return db.dialect.name }

// Ping returns nil if the database answers and accepts writes. It writes only after a transaction has failed: a server
// whose disk is full answers everything but COMMIT. Error: domain.ErrUnavailable.
func (db *DB) Ping(ctx context.Context) error {
	for _, pool := range db.Pools() {
		err := db.dialect.ping(ctx, pool)
		if err == nil {
			continue
		}

		if db.dialect.translate(err) == faultRefused {
			db.leaveServer()
		}

		return Access{db}.Translate(err)
	}

	if db.doubtful.Load() {
		return db.tryWrite(ctx)
	}
	return nil
}

// tryWrite commits a change without a meaning: the time of the version before the first migration. A user without the right
// to do so says nothing about the server.
func (db *DB) tryWrite(ctx context.Context) error {
	err := Access{db}.Write(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE goose_db_version SET tstamp = CURRENT_TIMESTAMP WHERE version_id = 0").Error
	})
	if errors.Is(err, domain.ErrUnavailable) && errorNumber(err) != erNoRight {
		return err
	}

	db.doubtful.Store(false)
	return nil
}

// Pools returns the connection pools by name, for metrics.
func (db *DB) Pools() map[string]*sql.DB {
	pools := map[string]*sql.DB{}
	for name, g := range map[string]*gorm.DB{"write": db.writePool, "read": db.readPool} {
		if pool, err := g.DB(); err == nil {
			pools[name] = pool
		}
	}
	return pools
}

// Close closes the connections. The database rolls back the open transactions.
func (db *DB) Close() error {
	var errs []error
	for _, g := range []*gorm.DB{db.writePool, db.readPool, db.longPool} {
		if pool, err := g.DB(); err == nil {
			errs = append(errs, pool.Close())
		}
	}
	return errors.Join(errs...)
}

// Names of unique indexes that ForceIndex forces.
const (
	PrimaryKey        = "PRIMARY"
	UKUserVoucherSlot = "uk_user_voucher_slot"
)

// Translate maps a driver error to an error of package domain. Errors of package domain pass unchanged. So do unknown
// errors, which are answered as internal errors.
func (a Access) Translate(err error) error {
	switch {
	case err == nil, errors.Is(err, domain.ErrUnavailable):
		return err
	case errors.Is(err, gorm.ErrRecordNotFound):
		return domain.ErrNotFound
	case unreachable(err), a.dialect.translate(err) != faultOther:
		return fmt.Errorf("%w: database: %w", domain.ErrUnavailable, err)
	}
	return err
}

func unreachable(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
