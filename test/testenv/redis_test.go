package testenv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRedisLosesDataOnKill(t *testing.T) {
	t.Parallel()
	r := StartRedis(t)
	rdb := r.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	r.Kill()
	require.Error(t, rdb.Ping(t.Context()).Err())
	require.ErrorContains(t, r.Pause(), "not running")
	require.NoError(t, r.Restart())
	require.ErrorIs(t, rdb.Get(t.Context(), "k").Err(), redis.Nil)
}

func TestRedisArgsOverride(t *testing.T) {
	t.Parallel()
	r := StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--requirepass", "secret")
	rdb := r.Client(t, func(o *redis.Options) { o.Password = "secret" })
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	require.NoError(t, r.Restart(), "restart of a running server")
	v, err := rdb.Get(t.Context(), "k").Result()
	require.NoError(t, err)
	assert.Equal(t, "v", v)
}

func TestRedisPause(t *testing.T) {
	t.Parallel()
	r := StartRedis(t)
	rdb := r.Client(t)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, r.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, rdb.Ping(ctx).Err())
	require.NoError(t, r.Resume())
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, r.Pause())
	require.NoError(t, r.Restart(), "a paused server can be restarted")
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestEachRedisStartsEmptyAndExpiresKeys(t *testing.T) {
	for range 2 { // the second round must not see the keys of the first
		EachRedis(t, func(t *testing.T, rdb *redis.Client) {
			n, err := rdb.DBSize(t.Context()).Result()
			require.NoError(t, err)
			require.Zero(t, n)
			require.NoError(t, rdb.Set(t.Context(), "stays", "v", 0).Err())
			require.NoError(t, rdb.Set(t.Context(), "goes", "v", 50*time.Millisecond).Err())
			require.Eventually(t, func() bool {
				return errors.Is(rdb.Get(context.Background(), "goes").Err(), redis.Nil)
			}, startTimeout, 10*time.Millisecond)
			require.NoError(t, rdb.Get(t.Context(), "stays").Err())
		})
	}
}

func TestDatabaseNumbersAreReused(t *testing.T) {
	r := StartRedis(t)
	first := r.database(t)
	require.NoError(t, first.Set(t.Context(), "k", "v", 0).Err())
	r.handedOut.Store(redisDatabases - 1)
	again := r.database(t)
	assert.Equal(t, first.Options().DB, again.Options().DB)
	assert.ErrorIs(t, again.Get(t.Context(), "k").Err(), redis.Nil)
}
