package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/rush"
	"seckill/internal/testenv"
)

// clusterStack is a MariaDB and a Redis Cluster of the test's own. Redis dies by one of its nodes, all of which are
// flushed together.
func clusterStack(t *testing.T) (*stack, *testenv.RedisCluster) {
	cluster := testenv.StartRedisCluster(t)
	rdb := cluster.Client(t)
	s := serverStack(t, testenv.MySQLDSN(t))
	s.env = append(s.env, "SECKILL_REDIS_ADDRS="+strings.Join(rdb.Options().Addrs, ","))
	s.redis = nil
	s.flush = func() error {
		return rdb.ForEachMaster(context.Background(), func(ctx context.Context, node *redis.Client) error {
			return node.FlushAll(ctx).Err()
		})
	}
	return s, cluster
}

// eachLaneOnACluster runs a test in every lane on a cluster of its own.
func eachLaneOnACluster(t *testing.T, fn func(t *testing.T, s *stack, cluster *testenv.RedisCluster)) {
	for _, lane := range lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s, cluster := clusterStack(t)
			fn(t, s.in(lane), cluster)
		})
	}
}

// TestRushOnACluster has four sales at once, whose keys are in different slots, on two servers.
func TestRushOnACluster(t *testing.T) {
	eachLaneOnACluster(t, func(t *testing.T, s *stack, _ *testenv.RedisCluster) {
		servers := []*process{s.serve(t, ""), s.serve(t, "")}
		tokens := s.tokens(t, 400)
		var (
			crowds  [4]*rush.Crowd
			reports [4]*rush.Report
			wg      sync.WaitGroup
		)
		for i := range crowds {
			crowds[i] = crowd(servers[0].sale(t, 50), 50, tokens[100*i:100*(i+1)], servers...)
			wg.Go(func() { reports[i] = crowds[i].Run(t.Context()) })
		}
		wg.Wait()
		for i, c := range crowds {
			requireExactSale(t, c, reports[i])
			judge(t, s, c, reports[i])
		}
		requireOneOrder(t, servers[0].sale(t, 10), tokens[0], servers...)
	})
}

// TestClusterNodeKilledInMidRush kills each node in turn, which takes its slots along, and brings it back empty.
func TestClusterNodeKilledInMidRush(t *testing.T) {
	eachLaneOnACluster(t, func(t *testing.T, s *stack, cluster *testenv.RedisCluster) {
		p := s.serve(t, "")
		c := crowd(p.sale(t, 2000), 2000, s.tokens(t, 3000), p)
		wait := longRush(t, s, c)
		for _, node := range cluster.Nodes {
			node.Kill()
			require.NoError(t, node.Restart())
			requireReady(t, p)
		}
		r := wait()
		if s.lane == "queue" {
			pressAgain(t, s, c, r)
		}
		requireSoldOut(t, s, c, r)
		judge(t, s, c, r)
	})
}

// TestClusterClient checks the client that openRedis makes: it follows redirections, and executes no command twice.
func TestClusterClient(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartRedisCluster(t, "--cluster-node-timeout", "60000") // a thawed node still serves its slots
	rdb := app.OpenRedis("", cluster.Client(t).Options().Addrs...).(*redis.ClusterClient)
	t.Cleanup(func() { _ = rdb.Close() })
	script := redis.NewScript("return redis.call('INCR', KEYS[1])")
	increments := map[string]func(ctx context.Context, key string) error{
		"command": func(ctx context.Context, key string) error { return rdb.Incr(ctx, key).Err() },
		"script":  func(ctx context.Context, key string) error { return script.Run(ctx, rdb, []string{key}).Err() },
		"pipeline": func(ctx context.Context, key string) error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, key); p.Get(ctx, key); return nil })
			return err
		},
		"transaction": func(ctx context.Context, key string) error {
			_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, key); p.Get(ctx, key); return nil })
			return err
		},
	}
	key := func(name string) string { return name + ":{slot}" } // one slot, so one master
	holder := func() *testenv.Redis {
		master, err := rdb.MasterForKey(t.Context(), key(""))
		require.NoError(t, err)
		i := slices.IndexFunc(cluster.Nodes, func(n *testenv.Redis) bool { return n.Addr == master.Options().Addr })
		return cluster.Nodes[i]
	}

	// The slot moves after the client has read where it is.
	was := holder()
	to := cluster.Nodes[slices.IndexFunc(cluster.Nodes, func(n *testenv.Redis) bool { return n != was })]
	id := to.Client(t).Do(t.Context(), "CLUSTER", "MYID").Val()
	slot := rdb.ClusterKeySlot(t.Context(), key("")).Val()
	for _, n := range []*testenv.Redis{to, was} {
		require.NoError(t, n.Client(t).Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
	}
	for name, increment := range increments { // which also loads the script
		require.NoError(t, increment(t.Context(), key(name)), name)
	}
	require.Eventually(t, func() bool { return holder() == to }, time.Minute, 20*time.Millisecond)

	// The master executes what it was sent while it was frozen, when its answers are in vain.
	var wg sync.WaitGroup
	for range 32 { // at once, so that there are connections on which a command could be repeated
		wg.Go(func() { rdb.Do(t.Context(), "BLPOP", key("empty"), "0.1") })
	}
	wg.Wait()
	require.NoError(t, to.Pause())
	for name, increment := range increments {
		wg.Go(func() {
			if err := increment(t.Context(), key(name)); err == nil {
				t.Errorf("%s: a frozen server answered", name)
			}
		})
	}
	wg.Wait()
	require.NoError(t, to.Resume())
	require.Eventually(t, func() bool { return app.PingRedis(t.Context(), rdb) == nil }, time.Minute, 20*time.Millisecond)
	for name := range increments {
		n, err := rdb.Get(t.Context(), key(name)).Int()
		require.NoError(t, err)
		require.LessOrEqual(t, n, 2, name)
	}
}
