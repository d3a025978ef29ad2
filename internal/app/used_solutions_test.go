package app

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// TestSolutionIsUsedUpOnce checks that two servers do not accept the same solution, and that it is forgotten later.
func TestSolutionIsUsedUpOnce(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		a, b := usedSolutions{rdb}, usedSolutions{rdb}
		useUp := func(u usedSolutions, id string) bool {
			first, err := u.UseUp(t.Context(), id, 3*time.Minute)
			require.NoError(t, err)
			return first
		}
		require.True(t, useUp(a, "1"))
		require.False(t, useUp(b, "1"))
		require.False(t, useUp(a, "1"))
		require.True(t, useUp(b, "2"))
		require.NoError(t, a.GiveBack(t.Context(), "2"))
		require.True(t, useUp(a, "2"))
		left, err := rdb.PTTL(t.Context(), "seckill:solution:1").Result()
		require.NoError(t, err)
		require.InDelta(t, 3*time.Minute, left, float64(time.Minute))

		require.NoError(t, rdb.Close())
		_, err = a.UseUp(t.Context(), "3", time.Minute)
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.ErrorIs(t, a.GiveBack(t.Context(), "3"), domain.ErrUnavailable)
	})
}
