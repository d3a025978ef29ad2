package lock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// Locks of many names are spread over all nodes. Waiters are woken on whichever node their client is subscribed. A dead
// node affects only its own locks.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartRedisCluster(t)
	clients := make([]*Client, 3)
	for i := range clients {
		clients[i] = newLocksOf(t, cluster.Client(t))
	}

	for _, k := range lockKinds {
		t.Run(k.label, func(t *testing.T) {
			const names, contenders = 6, 3
			var inside [names]atomic.Int64
			for i := range names {
				k.ready(t, clients[0], fmt.Sprint("{", i))
			}
			requireWoken(t, func(ctx context.Context) {
				var wg sync.WaitGroup
				for i := range names * contenders {
					wg.Go(func() {
						assert.NoError(t, Do(ctx, k.block(clients[i%3], fmt.Sprint("{", i%names)), func(context.Context) error {
							assert.EqualValues(t, 1, inside[i%names].Add(1))
							inside[i%names].Add(-1)
							return nil
						}))
					})
				}
				wg.Wait()
			})
		})
	}

	t.Run("a node dies", func(t *testing.T) {
		alive, dead := namesByNode(t, cluster)
		cluster.Nodes[0].Kill()
		ctx := soon(t)
		_, err := clients[0].Mutex(dead).TryLock(ctx)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, Do(ctx, clients[0].Mutex(alive), nothing))
	})
}

// namesByNode returns the name of a mutex that is not on the first node, and of one that is.
func namesByNode(t *testing.T, cluster *testenv.RedisCluster) (elsewhere, first string) {
	t.Helper()
	rdb := cluster.Client(t)
	for i := 0; elsewhere == "" || first == ""; i++ {
		name := fmt.Sprint(i)
		node, err := rdb.MasterForKey(context.Background(), keysOf(DefaultPrefix, mutexKind.name, name)[0])
		require.NoError(t, err)
		if node.Options().Addr == cluster.Nodes[0].Addr {
			first = name
		} else {
			elsewhere = name
		}
	}
	return elsewhere, first
}
