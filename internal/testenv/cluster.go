package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterNodes = 3
	clusterSlots = 16384
)

// RedisCluster is a Redis Cluster of three masters, without replicas unless AddReplicas was called. Each node can be
// killed, paused and restarted. The slots of a node that is down are unavailable.
type RedisCluster struct {
	Nodes    []*Redis // masters at the start
	Replicas []*Redis // the replica of each, or empty

	start starter
	args  []string
}

// starter is StartRedis, or starts servers with further settings.
type starter func(tb testing.TB, args ...string) *Redis

// StartRedisCluster starts a private cluster and stops it at cleanup. args are passed to every node.
func StartRedisCluster(tb testing.TB, args ...string) *RedisCluster {
	tb.Helper()
	return startCluster(tb, StartRedis, args...)
}

func startCluster(tb testing.TB, start starter, args ...string) *RedisCluster {
	tb.Helper()
	c := &RedisCluster{start: start, args: append([]string{
		"--cluster-enabled", "yes",
		"--cluster-require-full-coverage", "no", // the other nodes keep serving if one is down
		"--cluster-node-timeout", "2000",
	}, args...)}
	for range clusterNodes {
		c.Nodes = append(c.Nodes, start(tb, c.args...))
	}
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	if err := c.form(ctx); err != nil {
		tb.Fatalf("form a Redis cluster: %v", err)
	}
	return c
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

// form assigns the slots to the nodes and returns when every node has the complete slot map.
func (c *RedisCluster) form(ctx context.Context) error {
	nodes := make([]*redis.Client, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redis.NewClient(clientOptions(n.Addr))
		defer func() { _ = nodes[i].Close() }()
	}
	for i, rdb := range nodes {
		first, next := i*clusterSlots/clusterNodes, (i+1)*clusterSlots/clusterNodes
		if err := rdb.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
			return err
		}
		// Nodes with the same epoch need seconds to resolve the conflict.
		if err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes[1:] {
		host, port, err := net.SplitHostPort(n.peerAddr())
		if err != nil {
			return err
		}
		if err := nodes[0].ClusterMeet(ctx, host, port).Err(); err != nil {
			return err
		}
	}
	for _, rdb := range nodes {
		if err := untilFormed(ctx, rdb); err != nil {
			return err
		}
	}
	return nil
}

// untilFormed waits until a node reports that the cluster is complete.
func untilFormed(ctx context.Context, rdb *redis.Client) error {
	for {
		info, err := rdb.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, "cluster_size:"+strconv.Itoa(clusterNodes)) &&
			strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(clusterSlots)) {
			return nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return errors.Join(ctx.Err(), fmt.Errorf("not formed in time:\n%s", info))
		}
	}
}

// AddReplicas starts a replica of each master and returns when all have their master's data.
func (c *RedisCluster) AddReplicas(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(c.Nodes))
	for i, master := range c.Nodes {
		replica := c.start(tb, append(c.args, "--repl-diskless-sync-delay", "0")...)
		c.Replicas = append(c.Replicas, replica)
		from, to := master.Client(tb), replica.Client(tb)
		wg.Go(func() { errs[i] = replicate(ctx, master.peerAddr(), from, to) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("add replicas to a Redis cluster: %v", err)
	}
}

// replicate adds a node to the cluster of the master at addr as its replica.
func replicate(ctx context.Context, addr string, master, replica *redis.Client) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if err := replica.ClusterMeet(ctx, host, port).Err(); err != nil {
		return err
	}
	id, err := master.Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	for err := errors.New("not met"); err != nil; err = replica.ClusterReplicate(ctx, id).Err() {
		if !sleep(ctx, 20*time.Millisecond) {
			return errors.Join(ctx.Err(), err)
		}
	}
	for replica.InfoMap(ctx, "replication").Item("Replication", "master_link_status") != "up" {
		if !sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("no link to the master: %w", ctx.Err())
		}
	}
	return nil
}

// Verdict waits until the replica of node i has taken over its slots.
func (c *RedisCluster) Verdict(tb testing.TB, i int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rdb := c.Replicas[i].Client(tb)
	for rdb.InfoMap(ctx, "replication").Item("Replication", "role") != "master" {
		if !sleep(ctx, 20*time.Millisecond) {
			tb.Fatal("no failover in the cluster")
		}
	}
}
