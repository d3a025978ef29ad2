package cluster

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// TestRedisClusterFailover kills the master with the id counter in mid-rush and leaves it dead. Its replica takes over.
func TestRedisClusterFailover(t *testing.T) {
	env.Full(t)
	t.Parallel()
	eachLaneOnCluster(t, func(t *testing.T, s *rig.Stack, cluster *env.RedisCluster) {
		cluster.AddReplicas(t)
		master, err := cluster.Client(t).MasterForKey(t.Context(), "icr:order:"+time.Now().UTC().Format("2006:01:02"))
		require.NoError(t, err)
		i := 0
		for cluster.Nodes[i].Addr != master.Options().Addr {
			i++
		}
		failover(t, s, []*rig.Server{s.Serve(t)}, fault{kill: cluster.Nodes[i].Kill, verdict: func() { cluster.Verdict(t, i) }})
	})
}

// TestCounterMasterDown kills the master with the id counter of a cluster without replicas. Sales whose keys are on other
// masters continue: exactly, and with unique ids after the master has come back without the counter.
func TestCounterMasterDown(t *testing.T) {
	env.Full(t)
	t.Parallel()
	eachLaneOnCluster(t, func(t *testing.T, s *rig.Stack, cluster *env.RedisCluster) {
		rdb := cluster.Client(t)
		masterOf := func(key string) string {
			master, err := rdb.MasterForKey(t.Context(), key)
			require.NoError(t, err)
			return master.Options().Addr
		}
		counter := "icr:order:" + time.Now().UTC().Format("2006:01:02")
		down := slices.IndexFunc(cluster.Nodes, func(n *env.Redis) bool { return n.Addr == masterOf(counter) })
		node := cluster.Nodes[down]
		p := s.Serve(t)
		p.MayRefuse() // while a node is down
		sale := func() string {
			for {
				id := p.Sale(t, 100)
				n, err := strconv.ParseInt(id, 10, 64)
				require.NoError(t, err)
				if masterOf((admission.Shard(n) % admission.Shards).Gate(n)) != node.Addr {
					return id
				}
			}
		}
		sales := []string{sale(), sale()}
		tokens := slices.DeleteFunc(s.Tokens(t, 300), func(token string) bool {
			return s.Lane == "lock" && masterOf("redlock:{"+app.OrderLockPrefix+rig.UserOf(t, token)+"}") == node.Addr
		})[:120]
		node.Kill()
		for i, id := range sales {
			c := rig.BuyersOf(id, 100, tokens, p)
			r := c.Run(t.Context())
			if i == 0 {
				p.RequireReady(t)
				require.NoError(t, node.Restart())
				rig.Eventually(t, "the counter is used again", func() bool { return rdb.Exists(t.Context(), counter).Val() == 1 })
			}
			rig.RequireExactSale(t, s, c, r)
		}
		cluster.Nodes[(down+1)%3].Kill()
		node.Kill()
		rig.Eventually(t, "a cluster without most of its masters is down", func() bool {
			return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusServiceUnavailable
		})
	})
}

// TestRedisClusterMasterFrozen freezes a master in mid-rush until its replica has taken over. It then goes on as a master
// until it learns that it is none.
func TestRedisClusterMasterFrozen(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s, cluster := clusterStack(t)
	cluster.AddReplicas(t)
	s = s.In("queue")
	failover(t, s, []*rig.Server{s.Serve(t)}, fault{
		kill:    func() { require.NoError(t, cluster.Nodes[0].Pause()) },
		verdict: func() { cluster.Verdict(t, 0); require.NoError(t, cluster.Nodes[0].Resume()) },
	})
	require.NoError(t, cluster.Nodes[0].Replicating(t.Context()))
}

// TestRedisSentinelFailover kills the master in mid-rush and leaves it dead. The Sentinels promote its replica.
func TestRedisSentinelFailover(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s, sentinel := sentinelStack(t)
			s = s.In(lane)
			s.DoctorReports(t, "3 Sentinels agree on the master")
			failover(t, s, []*rig.Server{s.Serve(t)}, fault{kill: sentinel.Master.Kill, verdict: func() { sentinel.Verdict(t) }})
		})
	}
}

// TestRedisSentinelMasterFrozen freezes the master in mid-rush until its replica is promoted. It then goes on as a master,
// for the 10 s that the Sentinels need to make it a replica.
func TestRedisSentinelMasterFrozen(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s, sentinel := sentinelStack(t)
	s = s.In("queue")
	failover(t, s, []*rig.Server{s.Serve(t)}, fault{
		kill:    func() { require.NoError(t, sentinel.Master.Pause()) },
		verdict: func() { sentinel.Verdict(t); require.NoError(t, sentinel.Master.Resume()) },
	})
	require.NoError(t, sentinel.Master.Replicating(t.Context()))
}

// sentinelStack returns a stack on a Redis with Sentinels of the test.
func sentinelStack(t *testing.T) (*rig.Stack, *env.RedisSentinel) {
	t.Helper()
	sentinel := env.StartRedisSentinel(t, 2*time.Second)
	s := rig.ServerStack(t, env.OneKind(t).DSN(t))
	s.Redis = nil
	return s.With("SECKILL_REDIS_ADDRS="+strings.Join(sentinel.Addrs(), ","), "SECKILL_REDIS_SENTINEL="+servers.SentinelMaster), sentinel
}

// TestLaggingReplicaPromoted promotes a replica that lacks the last writes in lane queue: 10 orders that are in the
// database already, and 15 that were only queued. The queued ones are lost unless a worker had read them. Their units
// can be bought again, and the database refuses what the old gate admits in excess.
func TestLaggingReplicaPromoted(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s, sentinel := sentinelStack(t)
	hold := filepath.Join(t.TempDir(), "hold")
	s = s.In("queue").With(rig.EnvHold + "=" + hold)
	p := s.Serve(t)
	const stock = 60
	tokens := s.Tokens(t, 90)
	sale := p.Sale(t, stock)
	buy := func(tokens []string) []rush.Answer {
		return rig.BuyersOf(sale, stock, tokens, p).Run(t.Context()).Answers
	}
	known := buy(tokens[:20])
	rig.RequireSettled(t, s)
	sentinel.StopReplication(t)
	missing := buy(tokens[20:30])
	rig.RequireSettled(t, s)
	for _, a := range slices.Concat(known, missing) {
		require.Equal(t, "ok", a.Code)
	}
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	var queued []string
	for _, token := range tokens[30:45] {
		queued = append(queued, p.Queue(t, token, sale))
	}
	sentinel.Master.Kill()
	sentinel.Verdict(t)
	require.NoError(t, os.Remove(hold))

	for i, token := range tokens[20:30] { // the gate does not know these buyers
		rig.Eventually(t, "the purchase is refused with the order that the database has", func() bool {
			_, err := p.Place(t.Context(), token, sale, "", "")
			var problem *rush.Problem
			return errors.As(err, &problem) && problem.Code == "duplicate_order" && problem.OrderID == missing[i].Order.ID
		})
	}
	c := rig.BuyersOf(sale, stock, tokens, p)
	r := &rush.Report{Codes: map[string]int{}, Answers: slices.Concat(known, missing, make([]rush.Answer, len(tokens)-30))}
	rig.RetryUnserved(t, s, c, r)
	rig.RequireAllServed(t, s, c, r)
	lost := 0
	for i, id := range queued {
		o, err := p.Order(t.Context(), tokens[30+i], id)
		require.True(t, err == nil || rig.HasCode(err, "not_found"), err)
		if err != nil || o.Status == "failed" {
			lost++
		} else {
			require.Equal(t, "pending_payment", o.Status, "read by a worker before the failover")
		}
	}
	t.Logf("%d of %d queued orders were lost", lost, len(queued))
	require.Positive(t, lost)
}

// fault is what happens in the middle of a rush.
type fault struct {
	begin   func() // if not nil, it waits until the rush may begin
	kill    func()
	verdict func() // returns when the system has failed over
}

// failover runs a rush on the servers with a fault in the middle of it, and verifies the promises at the end. The times
// until the verdict, and until each server sells again, are logged and not judged.
func failover(t *testing.T, s *rig.Stack, servers []*rig.Server, f fault) {
	t.Helper()
	const units = 240
	tokens, other := s.Tokens(t, 301), servers[0].Publish(t, rig.Offer{Stock: 10, LimitPerUser: 10})
	c := rig.BuyersOf(servers[0].Publish(t, rig.Offer{Stock: units, Segments: 16}), units, tokens[:300], servers...) // segments have no effect in the other lanes
	stock := func() int64 { return s.StockOf(t, c.VoucherID) }
	for _, p := range servers {
		p.MayRefuse() // until the system has failed over
	}
	if f.begin != nil {
		f.begin()
	}
	wait := rig.LongRush(t, s, c, 5*time.Second)
	before := stock()
	f.kill()
	killed := time.Now()
	f.verdict()
	promoted, left := time.Now(), stock()
	for _, p := range servers {
		p.Buy(t, tokens[300], other)
	}
	t.Logf("failed over after %.1f s, %d orders meanwhile, the next %.1f s later",
		promoted.Sub(killed).Seconds(), before-left, time.Since(promoted).Seconds())
	r := wait()
	if s.Lane == "queue" {
		rig.RetryUnserved(t, s, c, r)
	}
	rig.RequireAllServed(t, s, c, r)
}
