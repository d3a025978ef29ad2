package sqldb

import (
	"context"
	"database/sql"

	"gorm.io/gorm"
)

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
