package repo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Store is the database. It is safe for concurrent use.
//
// writePool and readPool are separate, so that reads do not take connections from transactions. No transaction of
// writePool waits for readPool. SQLite allows one writer at a time: its writePool has a single connection, and readPool
// reads the write-ahead log beside it.
type Store struct {
	writePool, readPool *gorm.DB
	dialect             dialect
	longLived           longLivedPool
}

// dialect is what differs between the databases, apart from most SQL text.
type dialect struct {
	name string // "mysql" or "sqlite"; the folder of the migrations
	// translate classifies a driver error.
	translate func(error) fault
	// ping returns nil if the server of a pool answers and accepts writes.
	ping func(ctx context.Context, pool *sql.DB) error
	// keys is the SQL for idempotency keys.
	keys keyDialect
	// forceUserIndex and forceKeyIndex follow the table's name and force a lookup of orders by user or by key, whatever
	// the statistics suggest. forUpdate ends a query that locks its rows.
	forceUserIndex, forceKeyIndex, forUpdate string
	// openLongLived opens a pool without I/O timeouts, for schema changes and reads of whole sales.
	openLongLived func() (*sql.DB, error)
	// migrations opens a pool without I/O timeouts. While skipApplied is true, DDL that is in effect already is skipped.
	migrations func(skipApplied *atomic.Bool) (*sql.DB, error)
	// lockSchema waits for the schema lock, which one process holds at a time, until unlock.
	lockSchema func(ctx context.Context) (unlock func() error, err error)
}

// fault classifies a driver error.
type fault struct {
	kind  faultKind
	index string // for faultDuplicate: the index that collided
}

type faultKind int

const (
	faultOther       faultKind = iota
	faultDuplicate             // a unique index refused the row
	faultRetry                 // nothing was changed, and a retry at once can succeed (deadlock)
	faultUnavailable           // the database is unavailable or full
)

// gormConfig turns off implicit behaviour of gorm: no transaction around single statements, and no log of its own
// (errors are returned and logged once, where they are answered).
func gormConfig() *gorm.Config {
	return &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true, // the caller decides how long to wait for the server
		Logger:                 logger.Discard,
		NowFunc:                func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
	}
}

// Dialect returns "mysql" or "sqlite".
func (s *Store) Dialect() string { return s.dialect.name }

// Ping returns nil if the database answers and accepts writes. Error: domain.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	var errs []error
	for _, pool := range s.Pools() { // each pool drops its connections to a read-only server
		if err := s.dialect.ping(ctx, pool); err != nil {
			errs = append(errs, err)
		}
	}
	return s.translate(errors.Join(errs...))
}

// Pools returns the connection pools by name, for metrics.
func (s *Store) Pools() map[string]*sql.DB {
	pools := map[string]*sql.DB{}
	for name, g := range map[string]*gorm.DB{"write": s.writePool, "read": s.readPool} {
		if db, err := g.DB(); err == nil {
			pools[name] = db
		}
	}
	return pools
}

// Close closes the connections. The database rolls back the open transactions.
func (s *Store) Close() error {
	errs := []error{s.longLived.close()}
	for _, db := range s.Pools() {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// maxTxTries bounds the runs of a transaction that loses deadlocks. Every deadlock has a winner, so if many requests of
// one user meet at one row, each round completes one of them. The context bounds the time.
const maxTxTries = 100

// write runs fn in a transaction. After a deadlock, which rolls everything back, the transaction runs again; fn may
// therefore run several times. The error of a failed COMMIT is a *commitError: it is not known whether the transaction
// happened.
func (s *Store) write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.retry(ctx, func() error { return s.runTx(ctx, fn) })
}

// retry runs fn, a transaction, and repeats it after deadlocks.
func (s *Store) retry(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil {
			return nil
		}
		if s.dialect.translate(err).kind != faultRetry || try == maxTxTries {
			return s.translate(err)
		}
		select {
		case <-ctx.Done():
			return s.translate(ctx.Err())
		case <-time.After(rand.N(time.Duration(min(try, 10)) * 5 * time.Millisecond)):
		}
	}
}

// runTx runs fn in one transaction.
func (s *Store) runTx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	tx := s.writePool.WithContext(ctx).Begin()
	if tx.Error != nil {
		return tx.Error
	}
	done := false
	defer func() {
		if !done { // even if fn panics
			tx.Rollback()
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	done = true
	if err := tx.Commit().Error; err != nil {
		return &commitError{err}
	}
	return nil
}

// commitError is a COMMIT that was sent and not answered.
type commitError struct{ err error }

func (e *commitError) Error() string { return fmt.Sprintf("commit: %v", e.err) }
func (e *commitError) Unwrap() error { return e.err }

// resolveGrace is the time that resolveUnknownCommit has after the caller's context has ended, as it often has when
// COMMIT is not answered.
const resolveGrace = 500 * time.Millisecond

// extendDeadline returns a context that ends resolveGrace after ctx, with the values of ctx.
func extendDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	extended, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(resolveGrace, cancel) })
	return extended, func() { stop(); cancel() }
}

// resolveUnknownCommit determines the outcome of a transaction whose COMMIT was not answered (err is a *commitError;
// other errors are returned unchanged). It returns nil if the transaction happened. committed reads a row that only
// this transaction can have written. resolveUnknownCommit retries the read until ctx and resolveGrace are over, because
// the server may come back. The read locks the row, so it waits for a commit in progress. If the row is missing or
// cannot be read, it returns err: the request fails as unavailable, and its next attempt finds the true state.
func (s *Store) resolveUnknownCommit(ctx context.Context, err error, committed func(tx *gorm.DB) error) error {
	var unknown *commitError
	if !errors.As(err, &unknown) {
		return err
	}
	ctx, cancel := extendDeadline(ctx)
	defer cancel()
	for {
		found := committed(s.writePool.WithContext(ctx).Clauses(forUpdate))
		switch {
		case found == nil:
			return nil
		case errors.Is(found, gorm.ErrRecordNotFound):
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
