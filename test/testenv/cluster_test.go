package testenv

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestRedisClusterNodeCanBeKilledAndRestarted(t *testing.T) {
	t.Parallel()
	c := StartRedisCluster(t)
	rdb := c.Client(t)
	for i := range 30 {
		require.NoError(t, rdb.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err())
	}
	for _, n := range c.Nodes {
		keys, err := n.Client(t).DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.Positive(t, keys, "every node has some of the keys")
	}
	two := []string{"k1", "k2"} // in two slots
	require.ErrorContains(t, rdb.MGet(t.Context(), two...).Err(), "CROSSSLOT")

	c.Nodes[0].Kill()
	var down int
	for i := range 30 {
		if err := rdb.Get(t.Context(), fmt.Sprint("k", i)).Err(); err != nil {
			require.NotErrorIs(t, err, redis.Nil)
			down++
		}
	}
	require.Positive(t, down)
	require.Less(t, down, 30)
	require.NoError(t, c.Nodes[0].Restart(), "the node rejoins its cluster")
	require.Eventually(t, func() bool {
		for i := range 30 {
			if rdb.Set(context.Background(), fmt.Sprint("k", i), i, 0).Err() != nil {
				return false
			}
		}
		return true
	}, startTimeout, 10*time.Millisecond)
}
