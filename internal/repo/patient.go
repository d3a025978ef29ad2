package repo

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"gorm.io/gorm"
)

const (
	// patientConns bounds the reads of whole sales that run at once. Further reads wait until their context ends.
	patientConns = 4
	// patientIdle is how long an idle connection is kept.
	patientIdle = time.Minute
)

// patience is the pool for reads of whole sales, which opens at the first use.
type patience struct {
	mu sync.Mutex
	db *sql.DB
}

// census is snapshot for reads of a whole sale, which take seconds if it has millions of orders. On MySQL they use their
// own connections, which have no I/O timeouts, and end with ctx.
func (s *Store) census(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if s.Dialect() != "mysql" {
		return s.snapshot(ctx, fn)
	}
	db, err := s.patientPool()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	session := s.r.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return fn(session)
}

func (s *Store) patientPool() (*sql.DB, error) {
	s.patience.mu.Lock()
	defer s.patience.mu.Unlock()
	if s.patience.db == nil {
		db, err := s.dialect.patient()
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(patientConns)
		db.SetConnMaxIdleTime(patientIdle)
		s.patience.db = db
	}
	return s.patience.db, nil
}

func (p *patience) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db == nil {
		return nil
	}
	return p.db.Close()
}
