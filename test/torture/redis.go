package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/test/env/servers"
)

// redisServers are the Redis servers of a campaign, each of them a master or its replica. At most one is in a fault.
type redisServers interface {
	Stop() error
	// nodes returns the servers with data.
	nodes() []*servers.Redis
	// addrs returns the addresses for the configuration, and the name of the master if they are of Sentinels.
	addrs() ([]string, string)
	// master returns the index of a master. n selects it.
	master(ctx context.Context, n int) (int, error)
	// replaced waits until another node is the master instead of one that does not answer.
	replaced(ctx context.Context, old int) error
	// follow waits until a node that was replaced has the data of the new master. restarted means that it was killed.
	follow(ctx context.Context, old int, restarted bool) error
}

func (s *system) startRedis(ctx context.Context, cluster bool) error {
	if !cluster {
		sentinel, err := servers.RunRedisSentinel(ctx, downAfter, s.startSentinelNode)
		if err != nil {
			return err
		}

		s.redis = sentinelRedis{sentinel}
		return nil
	}

	c, err := servers.RunRedisCluster(ctx, s.startClusterNode)
	if err != nil {
		return err
	}

	s.redis = clusterRedis{c, slices.Clone(s.redisLinks)}
	return c.AddReplicas(ctx)
}

func (s *system) startSentinelNode(ctx context.Context, run servers.RedisRunner, args ...string) (*servers.Redis, error) {
	if len(s.redisLinks) == sentinelNodes {
		return run(ctx, args...)
	}

	r, err := s.startProxied(ctx, run, args, "--replica-announce-ip", "--replica-announce-port")
	if err != nil {
		return nil, err
	}

	r.Announced = s.redisLinks[len(s.redisLinks)-1].Addr
	return r, nil
}

// sentinelNodes is the number of Redis servers besides the Sentinels.
const sentinelNodes = 2

// startClusterNode starts a node of a cluster behind a proxy, through which the nodes do not reach each other's bus.
func (s *system) startClusterNode(ctx context.Context, run servers.RedisRunner, args ...string) (*servers.Redis, error) {
	return s.startProxied(ctx, run, args, "--cluster-announce-ip", "--cluster-announce-port")
}

// startProxied starts a node that announces the host and the port of its proxy, the last of s.redisLinks, with these
// arguments.
func (s *system) startProxied(ctx context.Context, run servers.RedisRunner, args []string, hostArg, portArg string) (*servers.Redis, error) {
	p, err := servers.StartProxy(ctx)
	if err != nil {
		return nil, err
	}
	s.redisLinks = append(s.redisLinks, p)

	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return nil, err
	}

	r, err := run(ctx, append(slices.Clone(args), hostArg, host, portArg, port)...)
	if err != nil {
		return nil, err
	}

	p.Lead(r.Addr)
	return r, nil
}

// sentinelRedis is a master with a replica under three Sentinels.
type sentinelRedis struct{ *servers.RedisSentinel }

func (s sentinelRedis) nodes() []*servers.Redis { return s.Nodes }

func (s sentinelRedis) addrs() ([]string, string) { return s.Addrs(), servers.SentinelMaster }

func (s sentinelRedis) master(ctx context.Context, _ int) (int, error) { return s.Master(ctx) }

func (s sentinelRedis) replaced(ctx context.Context, old int) error { return s.Promoted(ctx, 1-old) }

// follow does not wait until the Sentinels find a restarted master without data, which takes them 10 s.
func (s sentinelRedis) follow(ctx context.Context, old int, restarted bool) error {
	if !restarted {
		return s.Nodes[old].Replicating(ctx)
	}

	host, port, err := net.SplitHostPort(s.Nodes[1-old].Announced)
	if err != nil {
		return err
	}

	err = s.Nodes[old].Use(func(rdb *redis.Client) error { return rdb.ReplicaOf(ctx, host, port).Err() })
	if err != nil {
		return err
	}

	return s.Nodes[old].Replicating(ctx)
}

// clusterRedis is a cluster of three masters with a replica each.
type clusterRedis struct {
	*servers.RedisCluster

	// Of the masters at the start.
	links []*servers.Proxy
}

func (c clusterRedis) nodes() []*servers.Redis { return slices.Concat(c.Nodes, c.Replicas) }

func (c clusterRedis) addrs() ([]string, string) {
	var addrs []string
	for _, p := range c.links {
		addrs = append(addrs, p.Addr)
	}

	return addrs, ""
}

func (c clusterRedis) partner(n int) int { return (n + len(c.Nodes)) % (2 * len(c.Nodes)) }

func (c clusterRedis) master(ctx context.Context, n int) (int, error) {
	n %= len(c.Nodes)
	for _, node := range []int{n, c.partner(n)} {
		if c.nodes()[node].IsMaster(ctx) {
			return node, nil
		}
	}

	return 0, fmt.Errorf("no master has the slots of node %d", n+1)
}

func (c clusterRedis) replaced(ctx context.Context, old int) error {
	return c.nodes()[c.partner(old)].Promoted(ctx)
}

func (c clusterRedis) follow(ctx context.Context, old int, _ bool) error {
	return c.nodes()[old].Replicating(ctx)
}

func (s *system) onMaster(n int, f func(ctx context.Context, node *servers.Redis) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()

	node, err := s.redis.master(ctx, n)
	if err != nil {
		return err
	}

	return f(ctx, s.redis.nodes()[node])
}

// failover takes a Redis master away until its replica is promoted and a time has passed. The old master then returns and
// becomes a replica.
func (s *system) failover(n int, away, back func(*servers.Process) error, restarted bool, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()

	old, err := s.redis.master(ctx, n)
	if err != nil {
		return err
	}

	node := s.redis.nodes()[old].Process
	if err := away(node); err != nil {
		return err
	}

	err = s.redis.replaced(ctx, old)
	time.Sleep(hold)

	if err := errors.Join(err, back(node)); err != nil {
		return err
	}

	return s.redis.follow(ctx, old, restarted)
}

// fillRedis lets a Redis master refuse to write for some time, as if its memory were full.
func (s *system) fillRedis(n int, hold time.Duration) error {
	return s.onMaster(n, func(ctx context.Context, node *servers.Redis) error {
		return node.Use(func(rdb *redis.Client) error {
			if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
				return err
			}

			time.Sleep(hold)
			return rdb.ConfigSet(ctx, "maxmemory", "0").Err()
		})
	})
}
