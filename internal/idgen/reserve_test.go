package idgen

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/test/env"
)

var errDown = errors.New("the master of the counter is down")

// outage makes the commands of a client fail while it lasts, and counts them.
type outage struct {
	lasts    atomic.Bool
	commands atomic.Int64
}

func (o *outage) strike(context.Context, []redis.Cmder) error {
	o.commands.Add(1)
	if o.lasts.Load() {
		return errDown
	}
	return nil
}

// failingClient returns another client for the database of rdb, and its outage.
func failingClient(t *testing.T, rdb *redis.Client) (*redis.Client, *outage) {
	t.Helper()
	opts := *rdb.Options()
	opts.PushNotificationProcessor = nil // one per client
	own, o := redis.NewClient(&opts), &outage{}
	t.Cleanup(func() { _ = own.Close() })
	own.AddHook(env.EachTrip(o.strike))
	return own, o
}

// reserving returns a generator with a connection of its own that can fail.
func reserving(t *testing.T, rdb *redis.Client, c *clock, opts ...Option) (*Generator, *outage) {
	t.Helper()
	own, o := failingClient(t, rdb)
	g := env.Must(New(own, "order", append(opts, WithClock(c.now))...))(t)
	return g, o
}

// That reserved ids are unique is shown by TestConcurrentIDsAreUnique and TestGuardedIDsAreUnique.
func TestReservedIDsWhileRedisFails(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx, c := t.Context(), &clock{t: noon}
		g, down := reserving(t, rdb, c, WithGuard())
		take := func(n int) {
			t.Helper()
			ids := env.Must(g.NextN(ctx, n))(t)
			for _, id := range ids {
				require.Equal(t, c.now(), Time(id))
			}
		}
		down.lasts.Store(true)
		env.Fails(g.Next(ctx))(t, errDown, "nothing is reserved")
		require.ErrorIs(t, g.Reserve(ctx), errDown)
		require.ErrorIs(t, g.Skip(ctx, idAt(noon, 1)), errDown)
		down.lasts.Store(false)
		require.NoError(t, g.Reserve(ctx))
		take(100)

		down.lasts.Store(true)
		before := down.commands.Load()
		for range 3 {
			take(1000)
		}
		require.Equal(t, before+1, down.commands.Load(), "only the first call waits for Redis")
		c.set(noon.Add(-time.Second))
		require.Equal(t, noon, Time(next(t, g)), "the clock goes back, and the ids do not")
		c.set(noon)
		take(reserveSize - 3001)
		env.Fails(g.Next(ctx))(t, errDown, "all numbers are used in this second")
		require.ErrorIs(t, g.Reserve(ctx), errDown)
		c.set(noon.Add(time.Second))
		take(reserveSize)
		env.Fails(g.NextN(ctx, reserveSize+1))(t, errDown)

		down.lasts.Store(false)
		require.NoError(t, g.Reserve(ctx))
		c.set(noon.Add(2 * time.Second))
		counted := rdb.Get(ctx, noonKey).Val()
		take(10)
		require.NotEqual(t, counted, rdb.Get(ctx, noonKey).Val(), "the counter is used again")
	})
}

func TestReserveIsRepeatedOnlyForAnotherDay(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx, c := t.Context(), &clock{t: noon}
		g, down := reserving(t, rdb, c)
		for range 2 {
			require.NoError(t, g.Reserve(ctx))
			require.Equal(t, strconv.Itoa(reserveSize), rdb.Get(ctx, noonKey).Val())
		}
		midnight := noon.Truncate(24 * time.Hour).Add(24 * time.Hour)
		c.set(midnight.Add(-reserveAhead))
		require.NoError(t, g.Reserve(ctx))
		require.EqualValues(t, 2, rdb.DBSize(ctx).Val())
		require.NoError(t, rdb.FlushDB(ctx).Err())
		require.NoError(t, g.Reserve(ctx))
		require.EqualValues(t, 2, rdb.DBSize(ctx).Val(), "a lost counter may return the numbers of its block again")
		down.lasts.Store(true)
		for _, at := range []time.Duration{-1, 0, 1, -2} { // seconds from midnight
			c.set(midnight.Add(at * time.Second))
			next(t, g)
		}
		c.set(midnight.AddDate(0, 0, 1).Add(reserveAhead))
		env.Fails(g.Next(ctx))(t, errDown, "the blocks are of other days")
		down.lasts.Store(false)
		require.NoError(t, g.Reserve(ctx))
		require.Len(t, g.blocks, 1, "blocks of earlier days are dropped")
	})
}

// TestGuardedIDsAreUnique is a walk with three generators whose connections fail, while Redis loses its data and the clock
// jumps.
func TestGuardedIDsAreUnique(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const generators = 3
		var conns [generators]*redis.Client
		var outages [generators]*outage
		for i := range generators {
			conns[i], outages[i] = failingClient(t, rdb)
		}

		rapid.Check(t, func(t *rapid.T) {
			ctx, c, seen := context.Background(), &clock{t: noon}, map[int64]bool{}
			require.NoError(t, rdb.FlushDB(ctx).Err())
			var all [generators]*Generator
			start := func(i int) {
				g, err := New(conns[i], "order", WithClock(c.now), WithGuard())
				require.NoError(t, err)
				all[i] = g
			}
			for i := range generators {
				outages[i].lasts.Store(false)
				start(i)
			}

			which := rapid.IntRange(0, generators-1)
			t.Repeat(map[string]func(*rapid.T){
				"ids": func(t *rapid.T) {
					ids, err := all[which.Draw(t, "generator")].NextN(ctx, rapid.IntRange(1, 5).Draw(t, "n"))
					if err != nil {
						require.ErrorIs(t, err, errDown)
					}
					for _, id := range ids {
						require.False(t, seen[id], "%d repeats", id)
						seen[id] = true
					}
				},
				"reserve":          func(t *rapid.T) { _ = all[which.Draw(t, "generator")].Reserve(ctx) },
				"restart":          func(t *rapid.T) { start(which.Draw(t, "generator")) },
				"Redis is flushed": func(*rapid.T) { require.NoError(t, rdb.FlushDB(ctx).Err()) },
				"outage begins or ends": func(t *rapid.T) {
					o := outages[which.Draw(t, "generator")]
					o.lasts.Store(!o.lasts.Load())
				},
				"clock jumps": func(t *rapid.T) {
					seconds := rapid.SampledFrom([]int{-1, 0, 1, 12*60*60 - 1, 12 * 60 * 60}).Draw(t, "seconds from noon")
					c.set(noon.Add(time.Duration(seconds) * time.Second))
				},
			})
		})
	})
}
