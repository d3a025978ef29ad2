package lock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

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
		c, err := New(cluster.Client(t))
		require.NoError(t, err)
		c.exec.timeout = longTimeout
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		clients[i] = c
	}
	for _, k := range exclusiveKinds {
		t.Run(k.name, func(t *testing.T) {
			const names, contenders = 12, 4
			var inside [names]int // guarded by the locks: the race detector checks it
			tries := 0
			requireOneWithin(t, belowRecheck, func() time.Duration {
				tries++
				ctx := soon(t)
				var wg sync.WaitGroup
				began := time.Now()
				for i := range names * contenders {
					wg.Go(func() {
						assert.NoError(t, Do(ctx, k.lock(clients[i%3], fmt.Sprint("{", i%names)), func(context.Context) error {
							inside[i%names]++
							time.Sleep(time.Millisecond)
							return nil
						}))
					})
				}
				wg.Wait()
				return time.Since(began)
			})
			for i := range inside {
				assert.Equal(t, tries*contenders, inside[i])
			}
			for _, node := range cluster.Nodes {
				nothingLeft(t, newClient(t, node.Addr))
			}
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
