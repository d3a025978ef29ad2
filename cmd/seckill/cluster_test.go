package main

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

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
