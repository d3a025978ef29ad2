package idgen

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func newGuarded(t *testing.T, rdb redis.UniversalClient) *Generator {
	t.Helper()
	g, err := New(rdb, "order", WithClock(func() time.Time { return noon }), WithGuard())
	require.NoError(t, err)
	return g
}

// All generators are in the same second, and none keeps state.
func TestGuardedIDsAreUniqueAfterFlush(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx, seen := t.Context(), map[int64]bool{}
		take := func() {
			g := newGuarded(t, rdb)
			ids, err := g.NextN(ctx, 100)
			require.NoError(t, err)
			for _, id := range append(ids, next(t, g)) {
				require.False(t, seen[id], "%d repeats", id)
				require.Equal(t, noon, Time(id))
				seen[id] = true
			}
			counted, err := rdb.Get(ctx, noonKey).Int64()
			require.NoError(t, err)
			require.Equal(t, idAt(noon, counted), ids[99]+1, "the sequence is the counter")
		}
		for range 20 {
			take()
			take()
			require.NoError(t, rdb.FlushDB(ctx).Err())
		}
		take()
		keys, err := rdb.Keys(ctx, "*").Result()
		require.NoError(t, err)
		require.Contains(t, keys, noonKey)
		for _, key := range keys { // miniredis has no run id
			require.Greater(t, rdb.TTL(ctx, key).Val(), 47*time.Hour, key)
		}
		require.NoError(t, rdb.Set(ctx, noonKey, "garbage", 0).Err())
		_, err = newGuarded(t, rdb).Next(ctx)
		require.ErrorContains(t, err, noonKey)
		require.Equal(t, "garbage", rdb.Get(ctx, noonKey).Val())
	})
}

// Redis restarts without its last numbers, as from an append-only file that was not synced.
func TestGuardedIDsAreUniqueAfterRestart(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, g := t.Context(), newGuarded(t, rdb)
	first := next(t, g)
	kept := rdb.Get(ctx, noonKey).Val()
	run := rdb.Get(ctx, "{"+noonKey+"}:run").Val()
	require.Len(t, run, 40)
	last, err := g.NextN(ctx, 1000)
	require.NoError(t, err)
	require.Equal(t, first+1000, last[999], "no gap while nothing is lost")

	server.Kill()
	require.NoError(t, server.Restart())
	require.NoError(t, rdb.Set(ctx, noonKey, kept, 0).Err())
	require.NoError(t, rdb.Set(ctx, "{"+noonKey+"}:run", run, 0).Err())
	fresh := next(t, newGuarded(t, rdb))
	require.Greater(t, fresh, last[999])
	require.Equal(t, fresh+1, next(t, g))
}
