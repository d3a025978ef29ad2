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
// w and r are pools of their own, so that reads do not keep connections from transactions; nothing inside a transaction
// of w waits for r. SQLite allows one writer at a time: there w has a single connection, and r reads beside it from the
// write-ahead log.
type Store struct {
	w, r     *gorm.DB
	dialect  dialect
	patience patience
}

// dialect is what differs between the databases, SQL text aside.
type dialect struct {
	name string // folder of the migrations, label of the pool metrics
	// translate says what a driver error means.
	translate func(error) fault
	// ping returns nil if the server behind a pool answers and takes writes.
	ping func(ctx context.Context, pool *sql.DB) error
	// keys are the statements for idempotency keys.
	keys keyDialect
	// ordersByUser and ordersByKey, after the table's name, have orders looked up by user or key whatever the statistics
	// say; forUpdate ends a query that locks its rows.
	ordersByUser, ordersByKey, forUpdate string
	// patient opens a connection of its own without the deadlines that buyers need, for schema changes and books.
	patient func() (*sql.DB, error)
	// migrations is patient for schema changes. While again is true, a statement that is in effect already is skipped.
	migrations func(again *atomic.Bool) (*sql.DB, error)
	// lockSchema waits until no other process changes the schema, and keeps them from it until unlock.
	lockSchema func(ctx context.Context) (unlock func() error, err error)
}

// fault is the meaning of a driver error.
type fault struct {
	kind  faultKind
	index string // for faultDuplicate: the index that collided
}

type faultKind int

const (
	faultOther     faultKind = iota
	faultDuplicate           // a unique index refused the row
	faultRetry               // nothing was changed, and trying again at once can help (deadlock)
	faultDown                // the database is not there, or has no room
)

// gormConfig keeps gorm to what we ask of it: no transaction around single statements, no log of its own (errors
// are returned and logged once, where they are answered).
func gormConfig() *gorm.Config {
	return &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true, // who opens a store decides how long to wait for the server
		Logger:                 logger.Discard,
		NowFunc:                func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
	}
}

// Dialect is "mysql" or "sqlite".
func (s *Store) Dialect() string { return s.dialect.name }

// Ping returns nil if the database answers and takes writes. Error: ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	var errs []error
	for _, pool := range s.Pools() { // each of them drops its connections to a read-only server
		if err := s.dialect.ping(ctx, pool); err != nil {
			errs = append(errs, err)
		}
	}
	return s.translate(errors.Join(errs...))
}

// Pools returns the connection pools by name, for metrics.
func (s *Store) Pools() map[string]*sql.DB {
	pools := map[string]*sql.DB{}
	for name, g := range map[string]*gorm.DB{"write": s.w, "read": s.r} {
		if db, err := g.DB(); err == nil {
			pools[name] = db
		}
	}
	return pools
}

// Close closes the connections; transactions that run are rolled back by the database.
func (s *Store) Close() error {
	errs := []error{s.patience.close()}
	for _, db := range s.Pools() {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// maxTxTries bounds how often a transaction that lost a deadlock is run again. Each deadlock has a winner, so of many
// clicks of one user that meet at one row each round lets one through; the context bounds the time.
const maxTxTries = 100

// write runs fn in a transaction. A deadlock is tried again: the database rolled everything back. fn may therefore
// run several times. An error of the commit itself is a *commitError: then nobody knows whether the transaction
// happened.
func (s *Store) write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.retry(ctx, func() error { return s.once(ctx, fn) })
}

// retry runs fn, which is a transaction, again after a deadlock.
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

// once runs fn in one transaction.
func (s *Store) once(ctx context.Context, fn func(tx *gorm.DB) error) error {
	tx := s.w.WithContext(ctx).Begin()
	if tx.Error != nil {
		return tx.Error
	}
	done := false
	defer func() {
		if !done { // also when fn panics
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

// commitError says that COMMIT was sent and not answered.
type commitError struct{ err error }

func (e *commitError) Error() string { return fmt.Sprintf("commit: %v", e.err) }
func (e *commitError) Unwrap() error { return e.err }

// settleGrace is the time that settle has when the caller's is over, as it often is when COMMIT was not answered.
const settleGrace = 500 * time.Millisecond

// graceful returns a context that ends settleGrace after ctx.
func graceful(ctx context.Context) (context.Context, context.CancelFunc) {
	graceful, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(settleGrace, cancel) })
	return graceful, func() { stop(); cancel() }
}

// settle finds out what became of a transaction whose COMMIT was not answered (err is a *commitError; other errors
// pass): landed reads a row that only this transaction can have written. It keeps asking while the caller waits, for
// a server that comes back tells, and the read locks, so it waits for a commit that is still under way. If the row is
// not there or nobody could be asked, err stays: the caller says "unavailable", and the next try tells the truth.
func (s *Store) settle(ctx context.Context, err error, landed func(tx *gorm.DB) error) error {
	var unknown *commitError
	if !errors.As(err, &unknown) {
		return err
	}
	ctx, cancel := graceful(ctx)
	defer cancel()
	for {
		found := landed(s.w.WithContext(ctx).Clauses(forUpdate))
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
