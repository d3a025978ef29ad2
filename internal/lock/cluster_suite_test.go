package lock

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/test/testenv"
)

// clusters holds the running clusters by the address of their first node.
var clusters sync.Map

// startCluster returns an address at which newClient and newLocks reach the whole cluster.
func startCluster(t *testing.T) string {
	t.Helper()
	c := testenv.StartRedisCluster(t)
	addr := c.Nodes[0].Addr
	clusters.Store(addr, c)
	t.Cleanup(func() { clusters.Delete(addr) })
	return addr
}

// newClusterClient returns a client of the cluster at that address, or nil if there is none.
func newClusterClient(t testing.TB, addr string) *redis.ClusterClient {
	t.Helper()
	c, ok := clusters.Load(addr)
	if !ok {
		return nil
	}
	return c.(*testenv.RedisCluster).Client(t)
}

// overCluster is a hook that redirects a single-node client to the cluster, because the tests inspect a server through
// a *redis.Client.
type overCluster struct{ rdb *redis.ClusterClient }

func (o overCluster) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (o overCluster) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		var all []string
		var mu sync.Mutex
		list, lists := cmd.(*redis.StringSliceCmd)
		switch cmd.Name() {
		case "keys", "pubsub", "flushall":
			err := o.rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
				one := redis.NewStringSliceCmd(ctx, cmd.Args()...)
				if !lists {
					return node.Do(ctx, cmd.Args()...).Err()
				}
				err := node.Process(ctx, one)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, one.Val()...)
				return err
			})
			if lists {
				list.SetVal(all)
			}
			cmd.SetErr(err)
			return err
		default:
			return o.rdb.Process(ctx, cmd)
		}
	}
}

func (o overCluster) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := o.rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // only queues
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}
