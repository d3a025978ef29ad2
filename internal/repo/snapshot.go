package repo

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"gorm.io/gorm"
)

const (
	// longLivedConns bounds the reads of whole sales that run at once. Further reads wait, at most until their context
	// ends.
	longLivedConns = 4
	// longLivedIdle is how long an idle connection is kept.
	longLivedIdle = time.Minute
)

// longLivedPool is the pool for reads of whole sales, which opens at the first use.
type longLivedPool struct {
	mu sync.Mutex
	db *sql.DB
}

// snapshot runs fn in a read transaction whose queries all see the same state. SQLite transactions always do.
func (s *Store) snapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	var opts *sql.TxOptions
	if s.Dialect() == "mysql" {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return s.readPool.WithContext(ctx).Transaction(fn, opts)
}

// longSnapshot is snapshot for reads of a whole sale, which take seconds if it has millions of orders. On MySQL they
// use their own connections, which have no I/O timeouts, and end with ctx.
func (s *Store) longSnapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if s.Dialect() != "mysql" {
		return s.snapshot(ctx, fn)
	}
	db, err := s.longLivedDB()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	session := s.readPool.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return fn(session)
}

func (s *Store) longLivedDB() (*sql.DB, error) {
	s.longLived.mu.Lock()
	defer s.longLived.mu.Unlock()
	if s.longLived.db == nil {
		db, err := s.dialect.openLongLived()
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(longLivedConns)
		db.SetConnMaxIdleTime(longLivedIdle)
		s.longLived.db = db
	}
	return s.longLived.db, nil
}

func (p *longLivedPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db == nil {
		return nil
	}
	return p.db.Close()
}
