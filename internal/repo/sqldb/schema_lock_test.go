package sqldb

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// A lease that its holder does not renew passes to another process, which the holder notices.
func TestSchemaLease(t *testing.T) {
	t.Parallel()
	db, err := OpenMySQL(testenv.MySQLDSN(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	pool, err := db.dialect.openLongLived()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	galera, err := onGalera(t.Context(), pool)
	require.NoError(t, err)
	require.False(t, galera, "GET_LOCK suffices")
	exec := func(stmt string, args ...any) {
		_, err := pool.ExecContext(t.Context(), stmt, args...)
		require.NoError(t, err)
	}
	const lease = 500 * time.Millisecond
	exec(createLease)
	exec(initLease)
	exec(takeLease, "killed", lease.Microseconds(), "killed")
	held, release, err := leaseSchema(t.Context(), pool, lease)
	require.NoError(t, err)

	impatient, cancel := context.WithTimeout(t.Context(), 3*lease)
	defer cancel()
	_, _, err = leaseSchema(impatient, pool, lease)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the holder renews its lease")
	require.NoError(t, held.Err())

	exec("UPDATE schema_lease SET holder = 'thief', ends_at = NOW(3) + INTERVAL 1 HOUR")
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), errSchemaLeaseLost)
	release()

	exec("UPDATE schema_lease SET ends_at = NOW(3)")
	_, release, err = leaseSchema(t.Context(), pool, time.Hour)
	require.NoError(t, err)
	release()
	_, release, err = leaseSchema(t.Context(), pool, time.Hour)
	require.NoError(t, err, "a released lease is free at once")
	release()
}
