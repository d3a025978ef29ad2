package cluster

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

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
	rig.RequireSoldOut(t, s, c, r)
	rig.RequireInvariants(t, s, c, r)
}
