package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"seckill/internal/kit/loop"
	"seckill/internal/repo"
)

// startTimeout is how long the program waits at its start for a database or a Redis that is not reachable yet.
const startTimeout = 30 * time.Second

// OpenStore opens the configured database without connecting to MySQL. The caller closes it.
func OpenStore(cfg Config) (*repo.Store, error) {
	store, err := openStore(cfg)
	if err == nil && cfg.EventsURL != "" {
		store.RecordEvents()
	}
	return store, err
}

func openStore(cfg Config) (*repo.Store, error) {
	if !cfg.Embedded() {
		return repo.OpenMySQL(cfg.MySQLDSN)
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}

	file := filepath.Join(cfg.DataDir, DatabaseFile)

	// The file holds phone numbers and sessions. SQLite creates its other files with the mode of this one.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}

	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}

	return repo.OpenSQLite(file)
}

// OpenPrepared is OpenStore, and brings the schema up to date. A server may be running.
func OpenPrepared(e *Env) (*repo.Store, error) {
	store, err := OpenStore(e.Config)
	if err != nil {
		return nil, err
	}

	if err := prepareDatabase(e, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}

	return store, nil
}

// WaitFor calls ping every 500 ms until it succeeds. It returns an error after startTimeout.
func WaitFor(e *Env, what string, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(e.Ctx, startTimeout, fmt.Errorf("waited for %s", startTimeout))
	defer cancel()

	for first := true; ; first = false {
		err := ping(ctx)
		if err == nil {
			return nil
		}

		if first {
			e.Log.Warn("waiting for "+what, "timeout", startTimeout, "err", err)
		}

		if ended := loop.Sleep(ctx, 500*time.Millisecond); ended != nil {
			return fmt.Errorf("%s does not answer (%w): %w", what, ended, err)
		}
	}
}
