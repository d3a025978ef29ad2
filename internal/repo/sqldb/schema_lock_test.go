package sqldb

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
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
	const lease = time.Second
	ends := func() (at time.Time) {
		require.NoError(t, db.writePool.Raw("SELECT ends_at FROM schema_lease").Scan(&at).Error)
		return at
	}
	exec(createLease)
	exec(initLease)
	exec(takeLease, "killed", lease.Microseconds(), "killed")
	held, release, err := leaseSchema(t.Context(), pool, lease)
	require.NoError(t, err)
	taken := ends()
	require.Eventually(t, func() bool { return ends().After(taken) }, time.Minute, 20*time.Millisecond, "the holder renews its lease")
	require.NoError(t, held.Err())

	exec("UPDATE schema_lease SET holder = 'thief', ends_at = NOW(3) + INTERVAL 1 HOUR")
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), errSchemaLeaseLost)
	release()
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err = leaseSchema(impatient, pool, lease)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	exec("UPDATE schema_lease SET ends_at = NOW(3)")
	_, release, err = leaseSchema(t.Context(), pool, time.Hour)
	require.NoError(t, err)
	release()
	_, release, err = leaseSchema(t.Context(), pool, time.Hour)
	require.NoError(t, err, "a released lease is free at once")
	release()
}
