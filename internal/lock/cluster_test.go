package lock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// TestOpenSlot: while the slot of a lock is moved to another node, Redis refuses scripts some of whose keys do not exist. The
// holder repeats its renewal and keeps the lock; an acquire fails with Redis's reason, and leaves nothing behind.
func TestOpenSlot(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartRedisCluster(t)
	rdb := cluster.Client(t)
	ctx := soon(t)
	var seen recorder
	c := newLocksOf(t, rdb, WithWatchdog(9*time.Second), WithObserver(seen.observe))
	h := must(t)(c.Mutex("x").TryLock(ctx))

	key := keysOf(DefaultPrefix, mutexKind.name, "x")[0]
	slot := rdb.ClusterKeySlot(ctx, key).Val()
	source, err := rdb.MasterForKey(ctx, key)
	require.NoError(t, err)
	var target *redis.Client
	for _, node := range cluster.Nodes {
		if node.Addr != source.Options().Addr {
			target = node.Client(t)
		}
	}
	id := func(node *redis.Client) any { return node.Do(ctx, "cluster", "myid").Val() }
	require.NoError(t, target.Do(ctx, "cluster", "setslot", slot, "importing", id(source)).Err())
	require.NoError(t, source.Do(ctx, "cluster", "setslot", slot, "migrating", id(target)).Err())

	_, err = c.Mutex("x").TryLock(ctx)
	require.ErrorContains(t, err, "TRYAGAIN")
	require.NotErrorIs(t, err, ErrNotAcquired)
	require.NotErrorIs(t, err, ErrUncertain)
	eventually(t, "a renewal fails", func() bool { return seen.count(EventRenewFailed) > 0 })
	before := h.ValidUntil()

	for _, node := range []*redis.Client{source, target} {
		require.NoError(t, node.Do(ctx, "cluster", "setslot", slot, "stable").Err())
	}
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(before) })
	require.NoError(t, h.Context().Err())
	release(t, h)
	require.Zero(t, rdb.Exists(ctx, key).Val())
}
