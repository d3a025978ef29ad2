package cluster

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/kit/redisconn"
	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// clusterStack returns a stack on a Redis Cluster of the test. Its flush empties all masters.
func clusterStack(t *testing.T) (*rig.Stack, *env.RedisCluster) {
	cluster := env.StartRedisCluster(t)
	rdb := cluster.Client(t)
	s := rig.ServerStack(t, env.OneKind(t).DSN(t))
	s.Env = append(s.Env, "SECKILL_REDIS_ADDRS="+strings.Join(rdb.Options().Addrs, ","))
	s.Redis = nil
	s.Flush = func() error {
		return rdb.ForEachMaster(context.Background(), func(ctx context.Context, node *redis.Client) error {
			return node.FlushAll(ctx).Err()
		})
	}
	return s, cluster
}

// eachLaneOnCluster runs a test in lanes lock and queue, each on a separate cluster.
func eachLaneOnCluster(t *testing.T, fn func(t *testing.T, s *rig.Stack, cluster *env.RedisCluster)) {
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s, cluster := clusterStack(t)
			fn(t, s.In(lane), cluster)
		})
	}
}

// TestClusterClient checks the client of app.SharedRedis: it follows redirections and does not repeat a command that the
// server may have executed.
func TestClusterClient(t *testing.T) {
	env.Full(t)
	t.Parallel()
	// A frozen node must keep its slots.
	cluster := env.StartRedisCluster(t, "--cluster-node-timeout", "60000")
	opened, err := app.SharedRedis(app.Config{RedisAddrs: cluster.Client(t).Options().Addrs})
	require.NoError(t, err)
	rdb := opened.(*redis.ClusterClient)
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
	key := func(name string) string { return name + ":{slot}" } // all keys are in one slot
	holder := func() *env.Redis {
		master, err := rdb.MasterForKey(t.Context(), key(""))
		require.NoError(t, err)
		i := slices.IndexFunc(cluster.Nodes, func(n *env.Redis) bool { return n.Addr == master.Options().Addr })
		return cluster.Nodes[i]
	}

	// The slot moves to another master after the client has cached its location.
	was := holder()
	to := cluster.Nodes[slices.IndexFunc(cluster.Nodes, func(n *env.Redis) bool { return n != was })]
	id := to.Client(t).Do(t.Context(), "CLUSTER", "MYID").Val()
	slot := rdb.ClusterKeySlot(t.Context(), key("")).Val()
	for _, n := range []*env.Redis{to, was} {
		require.NoError(t, n.Client(t).Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
	}
	for name, increment := range increments { // this also loads the script
		require.NoError(t, increment(t.Context(), key(name)), name)
	}
	require.Eventually(t, func() bool { return holder() == to }, time.Minute, 20*time.Millisecond)

	// A frozen master executes the commands when it resumes, after the client has given up on them.
	var wg sync.WaitGroup
	for range 32 { // concurrently, so that the pool has connections for a retry
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
	require.Eventually(t, func() bool { return redisconn.Ping(t.Context(), rdb) == nil }, time.Minute, 20*time.Millisecond)
	for name := range increments {
		n, err := rdb.Get(t.Context(), key(name)).Int()
		require.NoError(t, err)
		require.LessOrEqual(t, n, 2, name)
	}
}

// TestOpenSlot: while the slot of a sale moves to another node, purchases are refused with Retry-After. Afterwards the sale
// goes on by itself, exactly.
func TestOpenSlot(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s, cluster := clusterStack(t)
	s = s.In("queue")
	p := s.Serve(t)
	p.MayRefuse() // while the slot is open
	sale := p.Sale(t, 20)
	tokens := s.Tokens(t, 40)
	rig.RequireQueued(t, p.Do(t, rig.Purchase(sale, tokens[0])))

	rdb := cluster.Client(t)
	n, err := strconv.ParseInt(sale, 10, 64)
	require.NoError(t, err)
	key := (admission.Shard(n) % admission.Shards).Gate(n)
	slot := rdb.ClusterKeySlot(t.Context(), key).Val()
	source, err := rdb.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	var target *redis.Client
	for _, node := range cluster.Nodes {
		if node.Addr != source.Options().Addr {
			target = node.Client(t)
		}
	}
	id := func(node *redis.Client) any { return node.Do(t.Context(), "cluster", "myid").Val() }
	require.NoError(t, target.Do(t.Context(), "cluster", "setslot", slot, "importing", id(source)).Err())
	require.NoError(t, source.Do(t.Context(), "cluster", "setslot", slot, "migrating", id(target)).Err())
	for _, token := range tokens[1:4] {
		a := p.Once(t, rig.Purchase(sale, token))
		rig.RequireProblem(t, http.StatusServiceUnavailable, "unavailable", a)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}

	for _, node := range []*redis.Client{source, target} {
		require.NoError(t, node.Do(t.Context(), "cluster", "setslot", slot, "stable").Err())
	}
	c := rig.BuyersOf(sale, 20, tokens, p)
	r := c.Run(t.Context())
	rig.RequireAllServed(t, s, c, r)
}
