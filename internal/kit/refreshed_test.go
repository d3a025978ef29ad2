package kit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/kit/cache"
	"seckill/test/env"
)

// counter is read by the tests: its value is the number of the read.
type counter struct {
	reads int
	takes time.Duration
	err   error
}

func (c *counter) read(context.Context) (int, error) {
	c.reads++
	n := c.reads
	time.Sleep(c.takes)
	if c.err != nil && c.err.Error() == "panic" {
		panic(c.err)
	}
	return n, c.err
}

func newRefreshed(c *counter) *cache.Refreshed[int] {
	return &cache.Refreshed[int]{Read: c.read, Fresh: 300 * time.Millisecond, Stale: 700 * time.Millisecond, Timeout: 2 * time.Second}
}

func TestRefreshedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 100 * time.Millisecond}
		r := newRefreshed(c)
		require.Nil(t, r.Last())
		get := func(want int, waits time.Duration) {
			t.Helper()
			began := time.Now()
			n := env.Must(r.Get(t.Context()))(t)
			require.Equal(t, want, n)
			require.Equal(t, waits, time.Since(began))
		}
		get(1, c.takes)
		time.Sleep(299 * time.Millisecond)
		get(1, 0)
		require.Equal(t, 1, c.reads)
		time.Sleep(time.Millisecond)
		get(1, 0) // and reads in the background
		synctest.Wait()
		require.Equal(t, 2, c.reads)
		time.Sleep(c.takes)
		synctest.Wait()
		get(2, 0)
		time.Sleep(time.Second)
		get(3, c.takes)

		r.Pause = 10
		time.Sleep(10*c.takes - time.Millisecond)
		get(3, 0)
		synctest.Wait()
		require.Equal(t, 3, c.reads, "the pause is ten times the duration of the read")
		time.Sleep(time.Millisecond)
		get(4, c.takes)
	})
}

// A reported change is in every value that Get returns afterwards, even if a read that runs has not seen it.
func TestRefreshedAfterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 100 * time.Millisecond}
		r := newRefreshed(c)
		r.Set(0, time.Now())
		time.Sleep(400 * time.Millisecond)
		n, err := r.Get(t.Context()) // starts the first read
		require.NoError(t, err)
		require.Zero(t, n)
		synctest.Wait()
		r.Outdate()
		n = env.Must(r.Get(t.Context()))(t)
		require.Equal(t, 2, n)

		r.Change(func(n int) int { return -n })
		n = env.Must(r.Get(t.Context()))(t)
		require.Equal(t, -2, n)
	})
}

// A value is kept while reads fail or take long. Its callers do not wait for such reads.
func TestRefreshedKeepsItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 100 * time.Millisecond, err: errors.New("unavailable")}
		r := newRefreshed(c)
		r.Set(7, time.Now())
		kept := func(waits time.Duration) {
			t.Helper()
			began := time.Now()
			require.Equal(t, 7, r.Kept(t.Context(), 250*time.Millisecond).Value)
			require.Equal(t, waits, time.Since(began))
		}
		time.Sleep(time.Second)
		kept(c.takes) // the first read that fails
		kept(0)
		synctest.Wait()
		time.Sleep(time.Second)
		env.Fails(r.Get(t.Context()))(t, c.err)

		c.err = errors.New("panic")
		_, err := r.Get(t.Context())
		require.ErrorContains(t, err, "panic in a read")

		c.err = nil
		c.takes = time.Second
		n := env.Must(r.Get(t.Context()))(t)
		r.Change(func(int) int { return 7 })
		time.Sleep(time.Second)
		kept(250 * time.Millisecond)
		kept(0)
		time.Sleep(time.Second)
		require.Equal(t, n+1, r.Last().Value)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Outdate()
		env.Fails(r.Get(ctx))(t, context.Canceled)
		time.Sleep(time.Second)
	})
}
