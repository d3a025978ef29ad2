package lock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errWork = errors.New("work failed")

func TestDo(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.WithValue(context.Background(), ctxKey{}, "trace")
		l := newLock(t, "a", []string{addr})
		for name, do := range map[string]func(context.Context, Locker, func(context.Context) error, ...Option) error{"Do": Do, "TryDo": TryDo} {
			var inner context.Context
			require.NoError(t, do(ctx, l, func(ctx context.Context) error {
				inner = ctx
				assert.NoError(t, ctx.Err())
				assert.Equal(t, "trace", ctx.Value(ctxKey{}))
				err := TryDo(ctx, l, func(context.Context) error { t.Error("two holders at once"); return nil })
				assert.ErrorIs(t, err, ErrNotAcquired)
				return nil
			}), name)
			requireDone(t, inner, ErrReleased)
			require.ErrorIs(t, do(ctx, l, func(context.Context) error { return errWork }), errWork, name)
			require.Panics(t, func() { _ = do(ctx, l, func(context.Context) error { panic("at work") }) }, name)
			require.Zero(t, newClient(t, addr).DBSize(ctx).Val(), name)
		}
	})
}

// The release does not depend on a ctx that ended during the work.
func TestDoReleasesAfterContextEnds(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		err := Do(ctx, newLock(t, "a", []string{addr}), func(ctx context.Context) error {
			cancel(errWork)
			requireDone(t, ctx, errWork)
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, newClient(t, addr).DBSize(context.Background()).Val())
	})
}

func TestDoReportsLostLock(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		l := newLock(t, "a", []string{addr})
		outlive := func(result func(context.Context) error) error {
			return Do(ctx, l, func(ctx context.Context) error {
				requireDone(t, ctx, ErrLost)
				return result(ctx)
			}, WithLease(3*time.Second))
		}
		var unlock *UnlockError
		err := outlive(func(context.Context) error { return nil })
		require.ErrorAs(t, err, &unlock, "the work is done, but another holder may have worked too")
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrLost)

		err = outlive(func(context.Context) error { return errWork })
		require.NotErrorAs(t, err, &unlock)
		require.ErrorIs(t, err, errWork)
		require.ErrorIs(t, err, ErrLost)
	})
}

func TestDoReportsFailedRelease(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		l, p := proxied(t, addr)
		err := Do(context.Background(), l, func(context.Context) error {
			p.Inject(refuse, anyCmd, always)
			return nil
		})
		var unlock *UnlockError
		require.ErrorAs(t, err, &unlock)
		require.ErrorIs(t, err, ErrUncertain)
		require.NotErrorIs(t, err, ErrLost, "no other holder was admitted")
	})
}
