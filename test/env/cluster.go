package env

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/test/env/servers"
)

// RedisCluster is a Redis Cluster of three masters of a test, without replicas unless AddReplicas was called.
type RedisCluster struct {
	*servers.RedisCluster

	Nodes    []*Redis // masters at the start
	Replicas []*Redis // the replica of each, or empty
}

// StartRedisCluster starts a private cluster and stops it at cleanup. args are passed to every node.
func StartRedisCluster(tb testing.TB, args ...string) *RedisCluster {
	tb.Helper()
	return startCluster(tb, nil, args...)
}

func startCluster(tb testing.TB, start servers.RedisStarter, args ...string) *RedisCluster {
	tb.Helper()
	Full(tb)
	s, err := servers.RunRedisCluster(tb.Context(), start, args...)
	need(tb, err)
	stopAtCleanup(tb, s)
	return &RedisCluster{RedisCluster: s, Nodes: ofTest(s.Nodes)}
}

// Client returns a client that is closed at cleanup. It sends every command once and follows redirections, and a
// context can end a command in flight. edits change its options first.
func (c *RedisCluster) Client(tb testing.TB, edits ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	opts := &redis.ClusterOptions{MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
	for _, n := range c.Nodes {
		opts.Addrs = append(opts.Addrs, n.Addr)
	}

	for _, edit := range edits {
		edit(opts)
	}

	rdb := redis.NewClusterClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// AddReplicas starts a replica of each master and returns when all have their master's data.
func (c *RedisCluster) AddReplicas(tb testing.TB) {
	tb.Helper()
	need(tb, c.RedisCluster.AddReplicas(tb.Context()))
	c.Replicas = ofTest(c.RedisCluster.Replicas)
}

// Verdict waits until the replica of node i has taken over its slots.
func (c *RedisCluster) Verdict(tb testing.TB, i int) {
	tb.Helper()
	inTime(tb, c.Replicas[i].Promoted)
}
