package idgen

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"seckill/test/env"
	"seckill/test/env/servers"
)

func TestMain(m *testing.M) { env.Main(m) }

// noon is the initial time of every test, far from midnight.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const noonKey = "icr:order:2026:11:20"

// clock is read by generators, and set while none is used.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newGenerator(t require.TestingT, rdb env.RedisClient) (*Generator, *clock) {
	c := &clock{t: noon}
	return env.Must(New(rdb, "order", WithClock(c.now)))(t), c
}

func next(t require.TestingT, g *Generator) int64 {
	return env.Must(g.Next(context.Background()))(t)
}

func TestSecondsOfIDs(t *testing.T) {
	require.Equal(t, "2002-01-02T00:00:00Z", Time(0).Format(time.RFC3339))
	require.Equal(t, "2070-01-20T03:14:07Z", Time(math.MaxInt64).Format(time.RFC3339))
	require.Equal(t, idAt(noon, 0), First(noon.Add(999*time.Millisecond)))
	require.Zero(t, First(time.Time{}))
	require.Equal(t, int64(math.MaxInt64)>>sequenceBits<<sequenceBits, First(time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func TestLayoutKeyAndExpiry(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, c := newGenerator(t, rdb)
		ctx := t.Context()
		c.t = time.Unix(Epoch+5, 999_999_999)
		require.EqualValues(t, 5<<32|1, next(t, g))
		require.EqualValues(t, 5<<32|2, next(t, g))
		require.Equal(t, []int64{5<<32 | 3, 5<<32 | 4, 5<<32 | 5}, env.Must(g.NextN(ctx, 3))(t))

		// The day of the key is the UTC day in every time zone.
		c.t = time.Date(2026, 11, 20, 1, 0, 0, 0, time.FixedZone("", 8*3600))
		id := next(t, g)
		require.Equal(t, c.now().UTC(), Time(id))
		require.Equal(t, id, next(t, env.Must(New(rdb, "payment", WithClock(c.now)))(t)), "each name has its own counter")
		keys := env.Must(rdb.Keys(ctx, "*").Result())(t)
		require.ElementsMatch(t, []string{"icr:order:2002:01:02", "icr:order:2026:11:19", "icr:payment:2026:11:19"}, keys)
		for _, key := range keys {
			ttl := env.Must(rdb.TTL(ctx, key).Result())(t)
			require.Greater(t, ttl, 47*time.Hour)
			require.LessOrEqual(t, ttl, 48*time.Hour)
		}
	})
}

// Eight workers take ids of the counter, and all numbers of a reserved block while Redis is down.
func TestConcurrentIDsAreUnique(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		reserved, down := reserving(t, rdb, &clock{t: noon})
		require.NoError(t, reserved.Reserve(t.Context()))
		down.lasts.Store(true)
		counted := env.Must(New(rdb, "order"))(t) // with the real clock
		const workers, size = 8, 512
		for g, blocks := range map[*Generator]int{counted: 250, reserved: reserveSize / size / workers} {
			var all [workers][]int64
			var group errgroup.Group
			for w := range workers {
				group.Go(func() error {
					for range blocks {
						ids, err := g.NextN(t.Context(), size)
						if err != nil {
							return err
						}
						all[w] = append(all[w], ids...)
					}
					return nil
				})
			}
			require.NoError(t, group.Wait())
			ids := slices.Concat(all[:]...)
			slices.Sort(ids)
			require.Positive(t, ids[0])
			require.Len(t, slices.Compact(ids), workers*blocks*size)
		}
	})
}

func TestExhausted(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, c := newGenerator(t, rdb)
		require.NoError(t, rdb.Set(t.Context(), noonKey, int64(math.MaxUint32-2), 0).Err())
		env.Fails(g.NextN(t.Context(), 3))(t, ErrExhausted)

		require.NoError(t, rdb.Set(t.Context(), noonKey, int64(math.MaxUint32-1), 0).Err())
		id := next(t, g)
		require.EqualValues(t, math.MaxUint32, id&math.MaxUint32)
		require.Equal(t, noon, Time(id))
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, ErrExhausted)
		require.ErrorContains(t, err, noonKey)

		c.t = noon.AddDate(0, 0, 1)
		require.EqualValues(t, 1, next(t, g)&math.MaxUint32)
	})
}

func TestClockOutOfRange(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, c := newGenerator(t, rdb)
		for _, bad := range []time.Time{{}, time.Unix(Epoch, -1), time.Unix(Epoch+1<<31, 0)} {
			c.t = bad
			env.Fails(g.Next(t.Context()))(t, ErrClock, bad)
		}
		require.Zero(t, env.Must(rdb.DBSize(t.Context()).Result())(t), "no number is taken")
		for _, good := range []time.Time{time.Unix(Epoch, 0), time.Unix(Epoch+1<<31-1, 0)} {
			c.t = good
			id := next(t, g)
			require.Positive(t, id)
			require.Equal(t, good.UTC(), Time(id))
		}
	})
}

func TestInvalidCounters(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, _ := newGenerator(t, rdb)
		ctx := t.Context()
		for _, bad := range []string{"garbage", "9223372036854775807", "99999999999999999999", "-1"} {
			require.NoError(t, rdb.Set(ctx, noonKey, bad, 0).Err())
			env.Fails(g.Next(ctx))(t, noonKey, bad)
		}
		require.NoError(t, rdb.Set(ctx, noonKey, "garbage", 0).Err())
		env.Fails(newGuarded(t, rdb).Next(ctx))(t, noonKey)
		err := g.Skip(ctx, idAt(noon, 1))
		require.ErrorContains(t, err, noonKey)
		require.ErrorContains(t, err, "not an integer")
		require.Equal(t, "garbage", rdb.Get(ctx, noonKey).Val())

		require.NoError(t, rdb.Del(ctx, noonKey).Err())
		require.NoError(t, rdb.RPush(ctx, noonKey, "a list").Err())
		env.Fails(g.Next(ctx))(t, "WRONGTYPE")
		require.ErrorContains(t, g.Skip(ctx, idAt(noon, 1)), noonKey)
	})
}

func TestInvalidArguments(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, _ := newGenerator(t, rdb)
		for _, n := range []int{math.MinInt, -1, 0, MaxBlock + 1, math.MaxInt} {
			env.Fails(g.NextN(t.Context(), n))(t, ErrInvalid, n)
		}
		for _, id := range []int64{math.MinInt64, -1, 0, 7 << 32} {
			require.ErrorIs(t, g.Skip(t.Context(), id), ErrInvalid, id)
		}
		ids := env.Must(g.NextN(t.Context(), MaxBlock))(t)
		require.Equal(t, idAt(noon, 1), ids[0], "the rejected calls took no numbers")
		require.Equal(t, idAt(noon, MaxBlock), ids[MaxBlock-1])
	})
	env.Fails(New(nil, "order"))(t, ErrInvalid)
	rdb := servers.NewRedisClient(t, "127.0.0.1:1", 0)
	env.Fails(New(rdb, ""))(t, ErrInvalid)
	env.Fails(New(rdb, "order", WithClock(nil)))(t, ErrInvalid)
}

// idAt composes an id as described in the package documentation.
func idAt(t time.Time, sequence int64) int64 {
	return (t.Unix()-Epoch)*(1<<32) + sequence
}

func TestSkipRaisesCounterOfIDsDay(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, c := newGenerator(t, rdb)
		ctx := t.Context()
		const high = 5 * skipAhead
		require.NoError(t, rdb.Set(ctx, noonKey, high, time.Hour).Err())
		c.t = noon.AddDate(0, 0, 1) // the collision is detected after midnight
		require.NoError(t, g.Skip(ctx, idAt(noon, 1)))
		require.Greater(t, rdb.TTL(ctx, noonKey).Val(), 47*time.Hour)
		require.EqualValues(t, 1, next(t, g)&math.MaxUint32)
		c.t = noon
		require.Equal(t, idAt(noon, high+1), next(t, g))

		for _, taken := range []int64{high + 1, high} { // the counter jumps once
			require.NoError(t, g.Skip(ctx, idAt(noon, taken)))
		}
		require.Equal(t, idAt(noon, high+skipAhead+2), next(t, g))
		require.NoError(t, g.Skip(ctx, idAt(noon, math.MaxUint32-skipAhead)))
		env.Fails(g.Next(ctx))(t, ErrExhausted)
		require.ErrorIs(t, g.Skip(ctx, idAt(noon, math.MaxUint32-skipAhead+1)), ErrExhausted)
	})
}

// A counter that is lost within a second repeats ids. This is the documented limit and the reason for Skip: after each loss, an
// order has an id after at most one more Skip.
func TestSkipAfterLossesWithinSecond(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, _ := newGenerator(t, rdb)
		ctx := t.Context()
		issued := env.Must(g.NextN(ctx, 1000))(t)
		orders := map[int64]bool{issued[0]: true}

		for losses := 1; losses <= 3; losses++ {
			require.NoError(t, rdb.FlushDB(ctx).Err())
			id := next(t, g)
			require.Equal(t, issued[0], id)

			skips := 0
			for ; orders[id]; skips++ {
				require.NoError(t, g.Skip(ctx, id))
				id = next(t, g)
			}
			require.LessOrEqual(t, skips, losses)
			require.Greater(t, id, issued[len(issued)-1])
			orders[id] = true
		}

		require.Greater(t, rdb.TTL(ctx, noonKey).Val(), 47*time.Hour)
	})
}

func newGuarded(t *testing.T, rdb env.RedisClient) *Generator {
	t.Helper()
	return env.Must(New(rdb, "order", WithClock(func() time.Time { return noon }), WithGuard()))(t)
}

// Redis restarts without its last numbers, as from an append-only file that was not synced.
func TestGuardedIDsAreUniqueAfterRestart(t *testing.T) {
	t.Parallel()
	server := env.StartRedis(t)
	rdb := servers.NewRedisClient(t, server.Addr, 0)
	ctx, g := t.Context(), newGuarded(t, rdb)
	first := next(t, g)
	kept := rdb.Get(ctx, noonKey).Val()
	run := rdb.Get(ctx, "{"+noonKey+"}:run").Val()
	require.Len(t, run, 40)
	last := env.Must(g.NextN(ctx, 1000))(t)
	require.Equal(t, first+1000, last[999], "no gap while nothing is lost")

	server.Kill()
	require.NoError(t, server.Restart())
	require.NoError(t, rdb.Set(ctx, noonKey, kept, 0).Err())
	require.NoError(t, rdb.Set(ctx, "{"+noonKey+"}:run", run, 0).Err())
	fresh := next(t, newGuarded(t, rdb))
	require.Greater(t, fresh, last[999])
	require.Equal(t, fresh+1, next(t, g))
}

var errDown = errors.New("the master of the counter is down")

// outage makes the commands of a client fail while it lasts, and counts them.
type outage struct {
	lasts    atomic.Bool
	commands atomic.Int64
}

// failingClient returns another client for the database of rdb, and its outage.
func failingClient(t *testing.T, rdb env.RedisClient) (env.RedisClient, *outage) {
	t.Helper()
	own, o := servers.AnotherRedisClient(t, rdb), &outage{}
	own.AddHook(env.EachTrip(func(context.Context, []redis.Cmder) error {
		o.commands.Add(1)
		if o.lasts.Load() {
			return errDown
		}
		return nil
	}))
	return own, o
}

// reserving returns a generator with a connection of its own that can fail.
func reserving(t *testing.T, rdb env.RedisClient, c *clock, opts ...Option) (*Generator, *outage) {
	t.Helper()
	own, o := failingClient(t, rdb)
	return env.Must(New(own, "order", append(opts, WithClock(c.now))...))(t), o
}

// That reserved ids are unique is shown by TestConcurrentIDsAreUnique and TestGuardedIDsAreUnique.
func TestReservedIDsWhileRedisFails(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		ctx, c := t.Context(), &clock{t: noon}
		g, down := reserving(t, rdb, c, WithGuard())
		take := func(n int) {
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
		c.t = noon.Add(-time.Second)
		require.Equal(t, noon, Time(next(t, g)), "the clock goes back, and the ids do not")
		c.t = noon
		take(reserveSize - 3001)
		env.Fails(g.Next(ctx))(t, errDown, "all numbers are used in this second")
		require.ErrorIs(t, g.Reserve(ctx), errDown)
		c.t = noon.Add(time.Second)
		take(reserveSize)
		env.Fails(g.NextN(ctx, reserveSize+1))(t, errDown)

		down.lasts.Store(false)
		require.NoError(t, g.Reserve(ctx))
		c.t = noon.Add(2 * time.Second)
		id := next(t, g)
		require.Equal(t, idAt(c.t, env.Must(rdb.Get(ctx, noonKey).Int64())(t)), id, "the counter is used again")
		for _, key := range rdb.Keys(ctx, "*").Val() { // miniredis has no run id
			require.Greater(t, rdb.TTL(ctx, key).Val(), 47*time.Hour, key)
		}
	})
}

func TestReserveIsRepeatedOnlyForAnotherDay(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		ctx, c := t.Context(), &clock{t: noon}
		g, down := reserving(t, rdb, c)
		for range 2 {
			require.NoError(t, g.Reserve(ctx))
			require.Equal(t, strconv.Itoa(reserveSize), rdb.Get(ctx, noonKey).Val())
		}
		require.NoError(t, rdb.FlushDB(ctx).Err())
		require.NoError(t, g.Reserve(ctx))
		require.EqualValues(t, 1, rdb.DBSize(ctx).Val(), "a lost counter may return the numbers of its block again")

		c.t = noon.AddDate(0, 0, 1)
		down.lasts.Store(true)
		env.Fails(g.Next(ctx))(t, errDown, "the block is of another day")
		down.lasts.Store(false)
		require.NoError(t, g.Reserve(ctx))
		require.EqualValues(t, 2, rdb.DBSize(ctx).Val())
		down.lasts.Store(true)
		require.Equal(t, c.now(), Time(next(t, g)))
	})
}

// TestGuardedIDsAreUnique is a walk with three generators whose connections fail, while Redis loses its data and the clock
// jumps.
func TestGuardedIDsAreUnique(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		const generators = 3
		var conns [generators]env.RedisClient
		var outages [generators]*outage
		for i := range generators {
			conns[i], outages[i] = failingClient(t, rdb)
		}

		rapid.Check(t, func(t *rapid.T) {
			ctx, c, seen := context.Background(), &clock{t: noon}, map[int64]bool{}
			require.NoError(t, rdb.FlushDB(ctx).Err())
			var all [generators]*Generator
			start := func(i int) {
				all[i] = env.Must(New(conns[i], "order", WithClock(c.now), WithGuard()))(t)
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
					c.t = noon.Add(time.Duration(seconds) * time.Second)
				},
			})
		})
	})
}
