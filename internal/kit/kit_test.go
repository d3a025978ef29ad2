// Package kit_test has the tests of the small packages, in one program: that of a package costs a second of linking. Those of
// what is not exported are beside their package.
package kit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/kit/loop"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, loop.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stop)
		require.ErrorIs(t, loop.Sleep(ctx, time.Minute), stop)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestBackoff(t *testing.T) {
	for earlier, want := range map[int]time.Duration{0: 2, 1: 4, 2: 8, 3: 15, 100: 15} {
		require.Equal(t, want*time.Second, loop.Backoff(2*time.Second, 15*time.Second, earlier), earlier)
	}
	require.Equal(t, time.Second, loop.Backoff(2*time.Second, time.Second, 0))
}

// Batches run until one finds nothing, each within its own time.
func TestInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, began := 3, time.Now()
		require.NoError(t, loop.InBatches(t.Context(), func(ctx context.Context) (int, error) {
			left--
			return left, ctx.Err()
		}))
		require.Zero(t, left)
		require.Equal(t, 40*time.Millisecond, time.Since(began))
		require.ErrorIs(t, loop.InBatches(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}), context.DeadlineExceeded)
	})
}

// A task runs after each interval and when it is woken, and logs only the first of several failures.
func TestTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		wake := make(chan struct{})
		began, runs := time.Now(), []time.Duration{}
		ctx, cancel := context.WithCancel(t.Context())
		go loop.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), loop.Task{Name: "count", Every: time.Second, Wake: wake, Run: func(context.Context) error {
			runs = append(runs, time.Since(began))
			if len(runs) == 2 || len(runs) == 3 {
				return errors.New("broken")
			}
			return nil
		}})
		time.Sleep(2500 * time.Millisecond)
		wake <- struct{}{}
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 2500 * time.Millisecond, 3 * time.Second}, runs)
		require.Equal(t, 1, strings.Count(log.String(), "cannot count; will retry"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "recovered: count"))
	})
}

// A run that fails because the context ended is not a failure.
func TestTaskEndsWithoutALogEntry(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	loop.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), loop.Every(time.Millisecond, "count", func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}))
	require.Empty(t, log.String())
}
