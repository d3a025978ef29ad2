package kit_test

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/kit/cache"
)

type point struct{ x, y int }

func TestCacheEntries(t *testing.T) {
	c := cache.New[point](cache.Options[string]{MaxEntries: 10})
	_, cached := c.Get(point{1, 2})
	require.False(t, cached)
	c.Set(point{1, 2}, "a")
	require.Equal(t, "a", c.Add(point{1, 2}, func() string { return "not used" }))
	require.Equal(t, "b", c.Add(point{3, 4}, func() string { return "b" }))
	require.Equal(t, map[point]string{{1, 2}: "a", {3, 4}: "b"}, maps.Collect(c.All()))
	for range c.All() {
		break
	}
	c.Delete(point{1, 2})
	_, cached = c.Get(point{1, 2})
	require.False(t, cached)
	c.Clear()
	require.Empty(t, maps.Collect(c.All()))
}

func TestCacheOfNilInterface(t *testing.T) {
	c := cache.New[string](cache.Options[error]{MaxEntries: 10})
	c.Set("key", nil)
	require.Equal(t, map[string]error{"key": nil}, maps.Collect(c.All()))
	require.NoError(t, c.Add("key", func() error { return errors.New("not used") }))
	err, cached := c.Get("key")
	require.True(t, cached)
	require.NoError(t, err)
}

func TestCacheNeedsOneBound(t *testing.T) {
	require.Panics(t, func() { cache.New[string](cache.Options[int]{TTL: time.Hour}) })
	require.Panics(t, func() { cache.New[string](cache.Options[int]{MaxWeight: 10}) }, "without a weight")
	require.Panics(t, func() {
		cache.New[string](cache.Options[int]{MaxEntries: 10, MaxWeight: 10, Weight: func(int) uint32 { return 1 }})
	})
}

func TestCacheExpiry(t *testing.T) {
	each := func(d time.Duration) time.Duration { return d }
	for name, test := range map[string]struct {
		options cache.Options[time.Duration]
		lasts   time.Duration
		kept    bool // by reads
	}{
		"TTL":  {cache.Options[time.Duration]{TTL: time.Minute}, time.Minute, false},
		"idle": {cache.Options[time.Duration]{IdleTTL: time.Minute}, time.Minute, true},
		"each": {cache.Options[time.Duration]{TTLOf: each}, 20 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.options.MaxWeight = 100
				test.options.Weight = func(time.Duration) uint32 { return 1 }
				c := cache.New[string](test.options)
				defer c.Close()

				c.Set("key", 20*time.Minute)
				time.Sleep(test.lasts - 5*time.Second)
				_, cached := c.Get("key")
				require.True(t, cached)
				time.Sleep(10 * time.Second)
				_, cached = c.Get("key")
				require.Equal(t, test.kept, cached)
			})
		})
	}
}

func TestCacheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[int64](cache.Options[*point]{MaxEntries: 10, TTL: time.Hour})
		defer c.Close()
		var loads atomic.Int32
		load := func(err error) func(context.Context) (*point, error) {
			return func(context.Context) (*point, error) {
				loads.Add(1)
				time.Sleep(time.Second)
				return &point{1, 2}, err
			}
		}
		unavailable := errors.New("unavailable")
		p, err := c.Load(t.Context(), 1, load(unavailable))
		require.Equal(t, unavailable, err)
		require.Nil(t, p)
		_, cached := c.Get(1)
		require.False(t, cached)

		loads.Store(0)
		results := make(chan *point, 10)
		for range cap(results) {
			go func() {
				p, err := c.Load(t.Context(), 1, load(nil))
				if err != nil {
					t.Error(err)
				}
				results <- p
			}()
		}
		first := <-results
		require.Equal(t, &point{1, 2}, first)
		for range cap(results) - 1 {
			require.Same(t, first, <-results)
		}
		require.EqualValues(t, 1, loads.Load())
	})
}
