package main

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/repo"
	"seckill/test/env"
)

func TestAnswersAreComparedWithTheDatabase(t *testing.T) {
	env.Full(t)
	ctx := t.Context()
	dsn := env.MariaDB.DSN(t)
	store, err := repo.OpenMySQL(dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	_, err = store.MigrateUp(ctx)
	require.NoError(t, err)
	now := time.Now().UTC()
	_, err = store.SeedUsers(ctx, 30, now, now.Add(time.Hour))
	require.NoError(t, err)

	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s := &stack{db: db, tokens: make([]string, 30)}
	require.NoError(t, s.fill(ctx, 100))

	require.NoError(t, s.committed(ctx, []string{"1", "4"}, 40))
	require.ErrorIs(t, s.committed(ctx, []string{"1", "4"}, 41), errInconsistent)

	m := &sample{result: &result{}, counts: 30}
	_, err = s.db.ExecContext(ctx, "UPDATE seckill_vouchers SET stock = 10 WHERE voucher_id = 1") // ten are not committed yet
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.watchWorkers(short, m, []string{"1"})
	require.ErrorIs(t, err, errInconsistent)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, int64(10), m.backlog)

	_, err = s.db.ExecContext(ctx, "UPDATE seckill_vouchers SET stock = 0 WHERE voucher_id = 1")
	require.NoError(t, err)
	require.NoError(t, s.watchWorkers(ctx, m, []string{"1"}))
	assert.Positive(t, m.drained)
	assert.Zero(t, m.backlog)
}

func TestMain(m *testing.M) { env.Main(m) }
