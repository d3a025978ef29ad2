package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/doctor"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestLockNodesNeedMajority kills one of three independent lock nodes, then a second one.
func TestLockNodesNeedMajority(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	nodes := []*env.Redis{env.StartRedis(t), env.StartRedis(t), env.StartRedis(t)}
	s = s.With("SECKILL_LOCK_NODES=" + nodes[0].Addr + "," + nodes[1].Addr + "," + nodes[2].Addr)
	p := s.Serve(t)
	sale, tokens := p.Sale(t, 10), s.Tokens(t, 3)
	p.MustPlace(t, tokens[0], sale)
	c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)
	wait := rig.LongRush(t, s, c, time.Second)
	nodes[0].Kill()
	r := wait()
	require.NoError(t, nodes[0].Restart()) // verify reads the locks of every node
	rig.RequireAllServed(t, s, c, r)
	nodes[0].Kill()
	p.RequireReady(t)
	p.MustPlace(t, tokens[1], sale) // a majority is enough
	nodes[1].Kill()
	p.RequireUnavailable(t, tokens[2], sale)
	require.Contains(t, rig.Fetch(t, p.URL+"/readyz").Text, "lock nodes")
	s.RequireNoStart(t, "a majority of the lock nodes")
}

// TestZooKeeperHasUserLocks sells beside an election in the ensemble of the user locks, and then loses its majority.
func TestZooKeeperHasUserLocks(t *testing.T) {
	env.Full(t)
	t.Parallel()
	ensemble := env.StartZooKeeper(t)
	s := rig.RealStack(t).With("SECKILL_LOCK_NODES=zk://" + strings.Join(ensemble.Servers(), ","))
	require.Equal(t, doctor.OK, s.Diagnose(t, 0)["locks.ensemble"].Status)
	p := s.Serve(t)
	sale, tokens := p.Sale(t, 10), s.Tokens(t, 3)
	p.MustPlace(t, tokens[0], sale)
	c := rig.BuyersOf(p.Sale(t, 200), 200, s.Tokens(t, 300), p)
	wait := rig.LongRush(t, s, c, time.Second)
	first := ensemble.Leader(t)
	first.Kill()
	r := wait()
	rig.RequireAllServed(t, s, c, r)
	p.RequireReady(t)
	p.MustPlace(t, tokens[1], sale) // a majority is enough
	require.Contains(t, s.Exits(t, 0, "verify"), "in ZooKeeper")

	ensemble.Leader(t).Kill()
	rig.Eventually(t, "the server is not ready", func() bool { return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusServiceUnavailable })
	p.RequireUnavailable(t, tokens[2], sale)
	require.Contains(t, rig.Fetch(t, p.URL+"/readyz").Text, "lock nodes")
	s.RequireNoStart(t, "ZooKeeper, which has the user locks,")

	require.NoError(t, first.Restart())
	p.RequireReady(t)
	p.MustPlace(t, tokens[2], sale) // the session is established again
}
