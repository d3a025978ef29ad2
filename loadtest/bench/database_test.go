package main

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/repo"
	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/report"
	"seckill/test/testenv"
)

// filled returns a stack without servers whose database has 30 users with 100 old orders.
func filled(t *testing.T) (*stack, *repo.Store) {
	t.Helper()
	dsn := testenv.MariaDB.Start(t).DSN(t) // private, because global variables are changed
	store, err := repo.OpenMySQL(dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	_, err = store.MigrateUp(t.Context())
	require.NoError(t, err)
	now := time.Now().UTC()
	_, err = store.SeedUsers(t.Context(), 30, now, now.Add(time.Hour))
	require.NoError(t, err)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s := &stack{db: db, tokens: make([]string, 30)}
	require.NoError(t, s.fill(t.Context(), 100))
	return s, store
}

func TestCreatedOrdersKeepTheInvariants(t *testing.T) {
	testenv.Full(t)
	s, store := filled(t)
	totals, err := store.SaleTotals(t.Context())
	require.NoError(t, err)
	require.Len(t, totals, 4, "30 + 30 + 30 + 10")
	var orders int64
	for _, b := range totals {
		assert.Empty(t, b.Check())
		orders += b.Active
	}
	assert.Equal(t, int64(100), orders)

	require.NoError(t, s.flushPages(t.Context()))
	durable, err := s.number(t.Context(), "SELECT @@innodb_flush_log_at_trx_commit")
	require.NoError(t, err)
	assert.Equal(t, int64(1), durable)

	first, err := s.addActive(t.Context(), "2", 50)
	require.NoError(t, err)
	held, err := s.number(t.Context(), fmt.Sprintf(
		"SELECT COUNT(DISTINCT user_id) FROM voucher_orders WHERE voucher_id = 2 AND status = 1 AND id BETWEEN %d AND %d", first, first+49))
	require.NoError(t, err)
	assert.Equal(t, int64(50), held, "unpaid, with consecutive IDs")
	totals, err = store.SaleTotals(t.Context())
	require.NoError(t, err)
	for _, b := range totals {
		assert.Empty(t, b.Check())
	}

	require.NoError(t, s.empty(t.Context()))
	totals, err = store.SaleTotals(t.Context())
	require.NoError(t, err)
	assert.Empty(t, totals)
	require.NoError(t, s.fill(t.Context(), 1))
	oldest, err := s.number(t.Context(), "SELECT MIN(id) FROM vouchers")
	require.NoError(t, err)
	assert.Equal(t, int64(5), oldest, "servers may have cached the first four IDs")
}

func TestAnswersAreComparedWithTheDatabase(t *testing.T) {
	testenv.Full(t)
	s, _ := filled(t)
	ctx := t.Context()
	require.NoError(t, s.committed(ctx, []string{"1", "4"}, 40))
	require.ErrorIs(t, s.committed(ctx, []string{"1", "4"}, 41), errInconsistent)

	m := &report.Sample{Result: &loadgen.Result{}, Counts: 30}
	_, err := s.db.ExecContext(ctx, "UPDATE seckill_vouchers SET stock = 10 WHERE voucher_id = 1") // ten are not committed yet
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.watchWorkers(short, m, []string{"1"})
	require.ErrorIs(t, err, errInconsistent)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, int64(10), m.Backlog)

	_, err = s.db.ExecContext(ctx, "UPDATE seckill_vouchers SET stock = 0 WHERE voucher_id = 1")
	require.NoError(t, err)
	require.NoError(t, s.watchWorkers(ctx, m, []string{"1"}))
	assert.True(t, m.Queued)
	assert.Zero(t, m.Backlog)
}
