package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	"seckill/migrations"
)

// Migration is one numbered change of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied time.Time // zero: not yet
}

// MigrateUp applies what is missing and returns it. Processes that start together wait for each other. MySQL commits each
// statement by itself, so a run that was interrupted may have executed some of the next migration, or all of it but the
// note that it is done. Those statements are skipped.
func (s *Store) MigrateUp(ctx context.Context) ([]Migration, error) {
	var done []Migration
	err := s.migrate(ctx, func(p *goose.Provider, again *atomic.Bool) error {
		add := func(r *goose.MigrationResult) {
			done = append(done, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: time.Now()})
		}
		version, err := p.GetDBVersion(ctx)
		if err != nil {
			return err
		}
		if version > 0 { // an empty database has no interrupted run, and tables of others there must be an error
			again.Store(true)
			r, err := p.UpByOne(ctx)
			again.Store(false)
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

// MigrateDown takes the newest migration back and returns it; nil if there was none.
func (s *Store) MigrateDown(ctx context.Context) (*Migration, error) {
	var undone *Migration
	err := s.migrate(ctx, func(p *goose.Provider, again *atomic.Bool) error {
		again.Store(true)
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
func (s *Store) Migrations(ctx context.Context) ([]Migration, error) {
	var all []Migration
	err := s.migrate(ctx, func(p *goose.Provider, _ *atomic.Bool) error {
		states, err := p.Status(ctx)
		for _, st := range states {
			all = append(all, Migration{Version: st.Source.Version, Name: st.Source.Path, Applied: st.AppliedAt})
		}
		return err
	})
	return all, err
}

// exclusively runs fn while no other process changes the schema or does the same.
func (s *Store) exclusively(ctx context.Context, fn func() error) (err error) {
	unlock, err := s.dialect.lockSchema(ctx)
	if err != nil {
		return s.translate(err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return fn()
}

// migrate runs fn with goose on connections of its own, on which again lets statements that are in effect be skipped.
// The lock is ours and not a goose.WithSessionLocker: goose makes its table of versions before it takes that, so
// processes that start together found it half made.
func (s *Store) migrate(ctx context.Context, fn func(p *goose.Provider, again *atomic.Bool) error) error {
	dialect := goose.DialectMySQL
	if s.dialect.name == "sqlite" {
		dialect = goose.DialectSQLite3
	}
	folder, err := fs.Sub(migrations.FS, s.dialect.name)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return s.exclusively(ctx, func() (err error) {
		var again atomic.Bool
		db, err := s.dialect.migrations(&again)
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		p, err := goose.NewProvider(dialect, db, folder)
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		if err := fn(p, &again); err != nil {
			return fmt.Errorf("migrations: %w", s.translate(err))
		}
		return nil
	})
}
