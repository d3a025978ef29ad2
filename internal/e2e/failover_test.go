package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/servers"
	"seckill/internal/testenv"
)

// TestRedisClusterFailover kills the master with the id counter, which every order needs, in mid-rush and leaves it
// dead. Its replica takes over.
func TestRedisClusterFailover(t *testing.T) {
	t.Parallel()
	eachLaneOnCluster(t, func(t *testing.T, s *stack, cluster *testenv.RedisCluster) {
		cluster.AddReplicas(t)
		master, err := cluster.Client(t).MasterForKey(t.Context(), "icr:order:"+time.Now().UTC().Format("2006:01:02"))
		require.NoError(t, err)
		i := 0
		for cluster.Nodes[i].Addr != master.Options().Addr {
			i++
		}
		failover(t, s, cluster.Nodes[i].Kill, func() { cluster.Verdict(t, i) })
	})
}

// TestRedisSentinelFailover kills the master in mid-rush and leaves it dead. The Sentinels promote its replica.
func TestRedisSentinelFailover(t *testing.T) {
	t.Parallel()
	testenv.Long(t)
	for _, lane := range lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			sentinel := testenv.StartRedisSentinel(t, 2*time.Second)
			s := serverStack(t, testenv.MySQLDSN(t)).in(lane)
			s.redis = nil
			s = s.with("SECKILL_REDIS_ADDRS="+strings.Join(sentinel.Addrs(), ","), "SECKILL_REDIS_SENTINEL="+servers.SentinelMaster)
			_, found := s.run(t, "doctor")
			require.Contains(t, found, "3 Sentinels agree on the master")
			failover(t, s, sentinel.Nodes[0].Kill, func() { sentinel.Verdict(t) })
		})
	}
}

// failover runs a rush, calls kill in the middle of it, and verifies the promises at the end. verdict returns when the
// system has promoted a replica. The times until then, and until orders flow again, are logged and not judged.
func failover(t *testing.T, s *stack, kill, verdict func()) {
	t.Helper()
	p := s.serve(t, "")
	units := 3000
	if s.lane == "queue" {
		units = 1000 // its few parallel buyers wait for the end of each order
	}
	c := buyersOf(p.segmentedSale(t, units), int64(units), s.tokens(t, units+500), p) // segments have no effect in the other lanes
	stock := func() int64 { return s.count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID) }
	wait := longRush(t, s, c)
	require.Positive(t, stock(), "the rush ended before the fault")
	killed := time.Now()
	kill()
	verdict()
	promoted, left := time.Now(), stock()
	eventually(t, "orders flow again", func() bool { return stock() < left })
	resumed := time.Now()
	var orders []int64
	for range 3 {
		was := stock()
		time.Sleep(500 * time.Millisecond)
		orders = append(orders, was-stock())
	}
	t.Logf("replica promoted after %.1f s, orders %.1f s later, then every 0.5 s %v", promoted.Sub(killed).Seconds(),
		resumed.Sub(promoted).Seconds(), orders)
	r := wait()
	if s.lane == "queue" {
		retryUnserved(t, s, c, r)
	}
	requireSoldOut(t, s, c, r)
	requireInvariants(t, s, c, r)
}
