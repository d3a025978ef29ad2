package app

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// TestUserLocksCloseTheirNodes: the connections to lock nodes end with the locks; those to the Redis of the sales do not.
func TestUserLocksCloseTheirNodes(t *testing.T) {
	t.Parallel()
	rdb := openEmbedded(RedisInfo{Addr: testenv.StartMiniredis(t).Addr()})
	defer rdb.Close()

	locks, err := openUserLocks(Config{LockNodes: []string{testenv.StartMiniredis(t).Addr()}}, rdb)
	require.NoError(t, err)
	require.NoError(t, locks.ping(t.Context()))
	locks.close()
	require.ErrorIs(t, locks.ping(t.Context()), redis.ErrClosed)

	locks, err = openUserLocks(Config{}, rdb)
	require.NoError(t, err)
	locks.close()
	require.NoError(t, locks.ping(t.Context()))
}
