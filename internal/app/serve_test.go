package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

func TestMaxConnections(t *testing.T) {
	for files, want := range map[uint64]int{256: 192, 1024: 768, 4096: 3072, 65_536: 64_512} {
		assert.Equal(t, want, maxConnections(files))
	}
}

// A database that goes away after it answered the first time is waited for. Other errors end the start at once.
func TestPrepareDatabaseWaits(t *testing.T) {
	db := testenv.StartMariaDB(t)
	no := false
	cfg := Config{MySQLDSN: db.DSN(t), Demo: &no}
	store, err := OpenStore(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	e := &Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.DiscardHandler), Tuning: Tuning{StartTimeout: time.Minute}}
	require.NoError(t, store.Ping(t.Context()))
	db.Kill()
	done := make(chan error, 1)
	go func() { done <- PrepareDatabase(e, store) }()
	time.Sleep(100 * time.Millisecond) // it fails for the first time
	require.Empty(t, done)
	require.NoError(t, db.Restart())
	require.NoError(t, <-done)
	all, err := store.Migrations(t.Context())
	require.NoError(t, err)
	require.NotZero(t, all[len(all)-1].Applied)

	foreign, err := OpenStore(Config{MySQLDSN: db.DSN(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, foreign.Close()) })
	_, err = foreign.Pools()["write"].ExecContext(t.Context(), "CREATE TABLE users (id INT)")
	require.NoError(t, err)
	require.ErrorContains(t, PrepareDatabase(e, foreign), "users")
}
