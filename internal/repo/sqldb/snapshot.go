package sqldb

import (
	"context"
	"database/sql"
	"sync"
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

// longLivedPool is the pool for reads of whole sales, which opens at the first use.
type longLivedPool struct {
	mu sync.Mutex
	db *sql.DB
}

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
	if a.Dialect() != "mysql" {
		return a.Snapshot(ctx, fn)
	}

	db, err := a.longLivedDB()
	if err != nil {
		return err
	}

	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return a.Translate(err)
	}

	// Nothing was written.
	defer func() { _ = tx.Rollback() }()

	session := a.readPool.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return a.Translate(fn(session))
}

func (a Access) longLivedDB() (*sql.DB, error) {
	a.longLived.mu.Lock()
	defer a.longLived.mu.Unlock()

	if a.longLived.db == nil {
		db, err := a.dialect.openLongLived()
		if err != nil {
			return nil, err
		}

		db.SetMaxOpenConns(LongLivedConns)
		db.SetConnMaxIdleTime(longLivedIdle)
		a.longLived.db = db
	}

	return a.longLived.db, nil
}

func (p *longLivedPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db == nil {
		return nil
	}
	return p.db.Close()
}
