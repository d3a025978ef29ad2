package sqldb

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"
)

const (
	// LongLivedConns bounds the reads of whole sales that run at once. Further reads wait, at most until their context
	// ends.
	LongLivedConns = 4
	// longLivedIdle is how long an idle connection is kept.
	longLivedIdle = time.Minute
)

// Snapshot runs fn in a read transaction whose queries all see the same state. SQLite transactions always do.
func (a Access) Snapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	var opts *sql.TxOptions
	if a.Dialect() == "mysql" {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return a.Translate(a.readPool.WithContext(ctx).Transaction(fn, opts))
}

// LongSnapshot is Snapshot for reads of a whole sale, which take seconds if it has millions of orders. On MySQL they
// use their own connections, which have no I/O timeouts, and end with ctx.
func (a Access) LongSnapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if a.longPool == nil {
		return a.Snapshot(ctx, fn)
	}

	tx, err := a.longPool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return a.Translate(err)
	}

	// Nothing was written.
	defer func() { _ = tx.Rollback() }()

	session := a.readPool.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return a.Translate(fn(session))
}
