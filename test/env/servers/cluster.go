package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// RedisCluster is a Redis Cluster of three masters, without replicas unless AddReplicas was called. Each node can be
// killed, paused and restarted. The slots of a master that is down are unavailable until its replica takes over.
type RedisCluster struct {
	Nodes    []*Redis // masters at the start
	Replicas []*Redis // the replica of each, or empty

	start RedisStarter
	args  []string
}

// RunRedisCluster starts a cluster. ctx and StartTimeout bound only the start; the servers run until Stop. Every
// server is started by start, unless that is nil, with args.
func RunRedisCluster(ctx context.Context, start RedisStarter, args ...string) (*RedisCluster, error) {
	if start == nil {
		start = startPlainly
	}

	c := &RedisCluster{start: start, args: append([]string{
		"--cluster-enabled", "yes",
		"--cluster-require-full-coverage", "no", // the other nodes keep serving if one is down
		"--cluster-node-timeout", "2000",
	}, args...)}
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}

	return c, nil
}

func (c *RedisCluster) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	for range clusterMasters {
		n, err := c.start(ctx, RunRedis, c.args...)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}

	if err := c.form(ctx); err != nil {
		return fmt.Errorf("form a Redis cluster: %w", err)
	}

	return nil
}

func (c *RedisCluster) form(ctx context.Context) error {
	for i, n := range c.Nodes {
		err := n.Use(func(rdb *redis.Client) error {
			first := i * clusterSlots / clusterMasters
			next := (i + 1) * clusterSlots / clusterMasters
			if err := rdb.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
				return err
			}
			// Nodes with the same epoch need seconds to resolve the conflict.
			return rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		})
		if err != nil {
			return err
		}
	}

	for _, n := range c.Nodes[1:] {
		if err := c.Nodes[0].meet(ctx, n); err != nil {
			return err
		}
	}

	return c.Formed(ctx)
}

// Use calls f with a client of the server.
func (r *Redis) Use(f func(rdb *redis.Client) error) error {
	rdb := redis.NewClient(RedisOptions(r.Addr))
	defer func() { _ = rdb.Close() }()
	return f(rdb)
}

func (r *Redis) meet(ctx context.Context, other *Redis) error {
	host, port, err := net.SplitHostPort(other.Announced)
	if err != nil {
		return err
	}

	return r.Use(func(rdb *redis.Client) error { return rdb.ClusterMeet(ctx, host, port).Err() })
}

// Formed returns when every node of the start reports that the cluster is complete. Error: ctx ended first.
func (c *RedisCluster) Formed(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Use(func(rdb *redis.Client) error { return nodeFormed(ctx, rdb) }); err != nil {
			return err
		}
	}

	return nil
}

func nodeFormed(ctx context.Context, rdb *redis.Client) error {
	return Until(ctx, func() error {
		info, err := rdb.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}

		if strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, "cluster_size:"+strconv.Itoa(clusterMasters)) &&
			strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(clusterSlots)) {
			return nil
		}
		return fmt.Errorf("not formed:\n%s", info)
	})
}

// AddReplicas starts a replica of each master and returns when all have their master's data.
func (c *RedisCluster) AddReplicas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

	var wg sync.WaitGroup
	errs := make([]error, len(c.Nodes))
	for i, master := range c.Nodes {
		replica, err := c.start(ctx, RunRedis, append(slices.Clone(c.args), "--repl-diskless-sync-delay", "0")...)
		if err != nil {
			wg.Wait()
			return err
		}
		c.Replicas = append(c.Replicas, replica)
		wg.Go(func() { errs[i] = replicate(ctx, master, replica) })
	}

	wg.Wait()
	return errors.Join(errs...)
}

func replicate(ctx context.Context, master, replica *Redis) error {
	if err := replica.meet(ctx, master); err != nil {
		return err
	}

	var id string
	err := master.Use(func(rdb *redis.Client) (err error) { id, err = rdb.Do(ctx, "CLUSTER", "MYID").Text(); return err })
	if err != nil {
		return err
	}

	// It fails until the nodes have met.
	err = replica.Use(func(rdb *redis.Client) error {
		return Until(ctx, func() error { return rdb.ClusterReplicate(ctx, id).Err() })
	})
	return errors.Join(err, replica.Replicating(ctx))
}

// Replicating returns when the server is a replica that has its master's data. Error: ctx ended first.
func (r *Redis) Replicating(ctx context.Context) error {
	return r.Use(func(rdb *redis.Client) error {
		return Until(ctx, func() error {
			if rdb.InfoMap(ctx, "replication").Item("Replication", "master_link_status") != "up" {
				return errors.New("no link to the master")
			}
			return nil
		})
	})
}

// IsMaster reports whether the server answers that it is a master.
func (r *Redis) IsMaster(ctx context.Context) (is bool) {
	_ = r.Use(func(rdb *redis.Client) error {
		is = rdb.InfoMap(ctx, "replication").Item("Replication", "role") == "master"
		return nil
	})
	return is
}

// Promoted returns when the server is a master. Error: ctx ended first.
func (r *Redis) Promoted(ctx context.Context) error {
	return Until(ctx, func() error {
		if !r.IsMaster(ctx) {
			return errors.New("no failover in the cluster")
		}
		return nil
	})
}

// Stop kills the servers and removes their data. They cannot be used again.
func (c *RedisCluster) Stop() error { return stopAll(slices.Concat(c.Nodes, c.Replicas)) }
