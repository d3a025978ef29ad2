package idgen

import (
	"context"
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

func TestClockGoesBackWithIntactCounter(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, c := newGenerator(t, rdb)
		midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		seen := make(map[int64]bool)
		for _, at := range []time.Duration{2, 1, 0, -1, 1, -2, 3, -1, 2} { // seconds from midnight
			c.set(midnight.Add(at * time.Second))
			for range 10 {
				id := next(t, g)
				require.False(t, seen[id])
				seen[id] = true
			}
		}
	})
}

func TestLossInEarlierSecondIsHarmless(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, c := newGenerator(t, rdb)
		before := next(t, g)
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		c.set(noon.Add(time.Second))
		require.Greater(t, next(t, g), before)
	})
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

func TestTimeOfID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(0, maxSeconds).Draw(t, "seconds")
		sequence := rapid.Int64Range(1, maxSequence).Draw(t, "sequence")
		id := idAt(time.Unix(Epoch+seconds, 0), sequence)
		require.Positive(t, id)
		require.Equal(t, time.Unix(Epoch+seconds, 0).UTC(), Time(id))
	})
}

// The test is a caller with a primary key, while Redis loses its data and the clock jumps. Every order must get an id
// after at most one Skip per loss so far.
func TestOrdersGetIDsDespiteLosses(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(t *rapid.T) {
			ctx := context.Background()
			require.NoError(t, rdb.FlushDB(ctx).Err())
			g, c := newGenerator(t, rdb)
			table := make(map[int64]bool)
			losses := 0
			order := func() {
				for range losses + 1 {
					id := next(t, g)
					require.Equal(t, c.now().Unix(), Time(id).Unix())
					if !table[id] {
						table[id] = true
						return
					}
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
				},
			})
		})
	})
}
