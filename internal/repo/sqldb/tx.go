package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// Access runs transactions and reads on a DB. A store keeps it in an unexported field, so that its users can call only
// its own methods, of which each is one transaction.
type Access struct{ *DB }

// Reader returns a session on the connections for reads.
func (a Access) Reader(ctx context.Context) *gorm.DB { return a.readPool.WithContext(ctx) }

// Writer returns a session on the connections for writes, for single statements outside a transaction.
func (a Access) Writer(ctx context.Context) *gorm.DB { return a.writePool.WithContext(ctx) }

// Syntax returns the SQL text of this database.
func (a Access) Syntax() Syntax { return a.dialect.sql }

// ForUpdate locks the rows that a query reads until the transaction ends. gorm omits it on SQLite, where a write
// transaction excludes all others.
var ForUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// SkipLocked is ForUpdate without the rows that another transaction has locked, as it is about to change them. SQLite
// has no second writer.
var SkipLocked = clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked}

// Now returns the time of the database, which is the same for all instances. With SQLite it is the time of this
// machine.
func (a Access) Now(tx *gorm.DB) (time.Time, error) {
	if a.Dialect() != "mysql" {
		return domain.Moment(time.Now()), nil
	}
	var now time.Time
	err := tx.Raw("SELECT UTC_TIMESTAMP(3)").Row().Scan(&now)
	return now, err
}

const (
	// MaxOutages bounds the runs of a transaction that finds the database unavailable. Until the context ends, the callers
	// would pile up during an outage.
	MaxOutages = 3
	// OutagePause is the pause between these runs.
	OutagePause = 100 * time.Millisecond
	// PurgeBatch is the most rows of one table that a purge deletes, so that their locks are held for milliseconds.
	PurgeBatch = 500
)

// RetryUnavailable repeats an idempotent fn after deadlocks and, up to MaxOutages times in all, if the database is
// unavailable for a moment. fn uses RunTx or single statements.
func (a Access) RetryUnavailable(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := a.retry(ctx, fn)
		if !errors.Is(err, domain.ErrUnavailable) || try == MaxOutages || loop.Sleep(ctx, OutagePause) != nil {
			return err
		}
	}
}

// Write runs fn in a transaction. After a deadlock, which rolls everything back, the transaction runs again, and once
// after a server refused it; fn may therefore run several times. The error of a failed COMMIT is a *commitError: it is
// not known whether the transaction happened.
func (a Access) Write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return a.retry(ctx, func() error { return a.RunTx(ctx, fn) })
}

// retry runs fn, a transaction, and repeats it after deadlocks until ctx ends: each has a winner, so if many requests of one
// user meet at one row, each round completes one of them. If the server is not the primary any more, it repeats fn once, on
// a new connection.
func (a Access) retry(ctx context.Context, fn func() error) error {
	moved := false
	for try := 1; ; try++ {
		generation := a.beganNow()
		err := fn()
		if err == nil {
			return nil
		}

		kind := a.dialect.translate(err)
		if kind == faultLost {
			a.leaveSilent(generation)
		}

		if kind == faultRefused {
			a.leaveServer()
			if !moved && !Unanswered(err) {
				moved = true
				continue
			}
		}

		if kind != faultRetry {
			err = a.Translate(err)
			if errors.Is(err, domain.ErrUnavailable) && !errors.Is(err, context.Canceled) {
				a.doubtful.Store(true)
			}
			return err
		}

		if loop.Sleep(ctx, rand.N(time.Duration(min(try, 10))*5*time.Millisecond)) != nil {
			return a.Translate(ctx.Err())
		}
	}
}

// RunTx runs fn in one transaction.
func (a Access) RunTx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	generation := a.beganNow()
	tx := a.writePool.WithContext(ctx).Begin()
	if tx.Error != nil {
		return tx.Error
	}

	done := false
	defer func() {
		// Even if fn panics.
		if !done {
			tx.Rollback()
		}
	}()

	if err := fn(tx); err != nil {
		return err
	}

	unsettled := a.unsettled(generation)
	if unsettled {
		// After an error of any statement COMMIT must not follow: if the server has rolled back, it succeeds with nothing.
		if err := a.dialect.writable(ctx, tx.Statement.ConnPool); err != nil {
			return err
		}
	}

	done = true
	if err := tx.Commit().Error; err != nil {
		return &commitError{err}
	}

	if unsettled {
		a.settle(generation)
	}

	return nil
}

// commitError is a COMMIT that was sent and not answered.
type commitError struct{ err error }

func (e *commitError) Error() string { return fmt.Sprintf("commit: %v", e.err) }
func (e *commitError) Unwrap() error { return e.err }

// Unanswered reports whether err is that of a transaction of which it is not known whether it happened.
func Unanswered(err error) bool {
	var unknown *commitError
	return errors.As(err, &unknown)
}

// resolveGrace is the time that ResolveUnknownCommit has after the caller's context has ended, as it often has when
// COMMIT is not answered.
const resolveGrace = 500 * time.Millisecond

// extendDeadline returns a context that ends resolveGrace after ctx, with the values of ctx.
func extendDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	extended, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(resolveGrace, cancel) })
	return extended, func() { stop(); cancel() }
}

// ResolveUnknownCommit determines the outcome of a transaction whose COMMIT was not answered (err is a *commitError;
// other errors are returned unchanged). It returns nil if the transaction happened. committed reads a row that only
// this transaction can have written. ResolveUnknownCommit retries the read until ctx and resolveGrace are over, because
// the server may come back. The read locks the row, so it waits for a commit in progress, except that InnoDB without a
// binary log releases the locks before the commit is on disk (docs/operations.md). If the row is missing or cannot be read,
// it returns err: the request fails as unavailable, and its next attempt finds the true state.
func (a Access) ResolveUnknownCommit(ctx context.Context, err error, committed func(tx *gorm.DB) error) error {
	if !Unanswered(err) {
		return err
	}

	ctx, cancel := extendDeadline(ctx)
	defer cancel()

	for {
		found := committed(a.writePool.WithContext(ctx).Clauses(ForUpdate))
		switch {
		case found == nil:
			return nil
		case errors.Is(found, gorm.ErrRecordNotFound):
			return err
		}

		if loop.Sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// LongLivedConns bounds the reads of whole sales that run at once. Further reads wait, at most until their context ends.
const LongLivedConns = 4

// Snapshot runs fn in a read transaction whose queries all see the same state. SQLite transactions always do.
func (a Access) Snapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return a.snapshot(a.readPool.WithContext(ctx), fn)
}

func (a Access) snapshot(session *gorm.DB, fn func(tx *gorm.DB) error) error {
	var opts *sql.TxOptions
	if a.Dialect() == "mysql" {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return a.Translate(session.Transaction(fn, opts))
}

// LongSnapshot is Snapshot for reads of a whole sale, which take seconds if it has millions of orders. On MySQL they
// use their own connections, which have no I/O timeouts, and end with ctx.
func (a Access) LongSnapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return a.snapshot(a.longPool.WithContext(ctx), fn)
}
