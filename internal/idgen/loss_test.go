package idgen

import (
	"context"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"seckill/test/testenv"
)

// idAt composes an id as described in the package documentation.
func idAt(t time.Time, sequence int64) int64 {
	return (t.Unix()-Epoch)*(1<<32) + sequence
}

// A counter that is lost within a second repeats ids. This is the documented limit and the reason for Skip.
func TestSkipAfterLossWithinSecond(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := newGenerator(t, rdb)
		ctx := t.Context()
		issued, err := g.NextN(ctx, 1000)
		require.NoError(t, err)
		require.NoError(t, rdb.FlushDB(ctx).Err())
		taken := next(t, g)
		require.Equal(t, issued[0], taken)

		require.NoError(t, g.Skip(ctx, taken))
		ttl, err := rdb.TTL(ctx, noonKey).Result()
		require.NoError(t, err)
		require.Greater(t, ttl, 47*time.Hour)
		fresh, err := g.NextN(ctx, 1000)
		require.NoError(t, err)
		require.Greater(t, fresh[0], issued[len(issued)-1])
		require.Equal(t, idAt(noon, 1+skipAhead+1), fresh[0])
	})
}

func TestSkipRaisesCounterOfIDsDay(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, c := newGenerator(t, rdb)
		ctx := t.Context()
		const high = 5 * skipAhead
		require.NoError(t, rdb.Set(ctx, noonKey, high, time.Hour).Err())
		c.set(noon.AddDate(0, 0, 1)) // the collision is detected after midnight
		require.NoError(t, g.Skip(ctx, idAt(noon, 1)))
		require.Greater(t, rdb.TTL(ctx, noonKey).Val(), 47*time.Hour)
		require.EqualValues(t, 1, next(t, g)&math.MaxUint32)
		c.set(noon)
		require.Equal(t, idAt(noon, high+1), next(t, g))

		require.NoError(t, g.Skip(ctx, idAt(noon, math.MaxUint32-skipAhead)))
		_, err := g.Next(ctx)
		require.ErrorIs(t, err, ErrExhausted)
		require.ErrorIs(t, g.Skip(ctx, idAt(noon, math.MaxUint32-skipAhead+1)), ErrExhausted)
	})
}

// If a thousand buyers collide at once, the counter jumps once.
func TestConcurrentSkipsJumpOnce(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := newGenerator(t, rdb)
		ctx := t.Context()
		taken, err := g.NextN(ctx, 1000)
		require.NoError(t, err)
		var group errgroup.Group
		group.SetLimit(64)
		for _, id := range taken {
			group.Go(func() error { return g.Skip(ctx, id) })
		}
		require.NoError(t, group.Wait())
		require.Equal(t, idAt(noon, 1000+skipAhead+1), next(t, g))
	})
}

// The test is a caller with a primary key, while Redis loses its data and the clock jumps. Ids repeat only within a second
// in which Redis lost its data. Every order must get an id after at most one Skip per loss so far.
func TestOrdersGetIDsDespiteLosses(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(t *rapid.T) {
			ctx := context.Background()
			require.NoError(t, rdb.FlushDB(ctx).Err())
			g, c := newGenerator(t, rdb)
			table := make(map[int64]bool)
			losses := 0
			used, lossy := map[int64]bool{}, map[int64]bool{} // seconds with ids; those with ids before a loss
			order := func() {
				for range losses + 1 {
					id := next(t, g)
					require.Equal(t, c.now().Unix(), Time(id).Unix())
					used[c.now().Unix()] = true
					if !table[id] {
						table[id] = true
						return
					}
					require.True(t, lossy[c.now().Unix()], "%d repeats", id)
					require.NoError(t, g.Skip(ctx, id))
				}
				t.Fatalf("no free id after %d losses", losses)
			}
			t.Repeat(map[string]func(*rapid.T){
				"orders": func(t *rapid.T) {
					for range rapid.IntRange(1, 5).Draw(t, "n") {
						order()
					}
				},
				"clock jumps": func(t *rapid.T) {
					days := rapid.IntRange(-1, 1).Draw(t, "days")
					c.set(noon.AddDate(0, 0, days).Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "seconds")) * time.Second))
				},
				"Redis is flushed": func(t *rapid.T) {
					require.NoError(t, rdb.FlushDB(ctx).Err())
					losses++
					maps.Copy(lossy, used)
				},
			})
		})
	})
}

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
