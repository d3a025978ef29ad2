package e2e

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/idgen"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

func orderNames(orders ...rush.Order) (names []string) {
	for _, o := range orders {
		names = append(names, "order "+o.ID+" of user "+o.UserID)
	}
	return names
}

// damages has one of each sort. internal/ops/reconcile shows all findings, and internal/sale/admission how a damaged gate reads.
var damages = []rig.Damage{
	{Name: "stock up", Kind: "gate_differs", Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
		require.NoError(t, rdb.IncrBy(t.Context(), l.Key("stock"), 500).Err())
	}},
	{
		Name: "buyers missing", Kind: "gate_differs",
		Want: func(l *rig.LiveSale) []string { return orderNames(l.Buyers[0], l.Buyers[1]) },
		Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
			require.NoError(t, rdb.HDel(t.Context(), l.Key("buyers"), l.Buyers[0].UserID, l.Buyers[1].UserID).Err())
		},
	},
	{Name: "counter off", Kind: "gate_differs", Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
		require.NoError(t, rdb.HIncrBy(t.Context(), l.Key("meta"), "held", 500).Err())
	}},
	{Name: "stock not a number", Kind: "gate_broken", Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
		require.NoError(t, rdb.Set(t.Context(), l.Key("stock"), "many", 0).Err())
	}},
}

// TestReconcileCommandRepairsGate damages the gate during a sale: the command names and repairs each damage, and the
// sale does not oversell.
func TestReconcileCommandRepairsGate(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	l := rig.StartLiveSale(t, rig.WithoutBackgroundRepair(s), 4, 50*time.Millisecond)
	waitUntilAged(t, l)
	l.RequireSound(t)
	for _, d := range damages {
		d.Do(t, l, l.Rdb)
		l.RequireNamed(t, d)
		l.RequireRepaired(t, d)
		l.RequireSound(t)
	}
	l.SellOut(t)
}

// waitUntilAged waits until the orders are old enough to be reported as missing.
func waitUntilAged(t *testing.T, l *rig.LiveSale) {
	t.Helper()
	last, err := strconv.ParseInt(l.Buyers[len(l.Buyers)-1].ID, 10, 64)
	require.NoError(t, err)
	rig.Eventually(t, "the orders are old enough", func() bool { return time.Since(idgen.Time(last)) > 3*time.Second })
}

// TestReconcileExitCodeWhenUnchecked: an incomplete check has an exit code of its own, different from that of a
// finding.
func TestReconcileExitCodeWhenUnchecked(t *testing.T) {
	env.Full(t)
	t.Parallel()
	code, out := rig.EmbeddedStack(t).OnEmptyDatabase(t).Run(t, "reconcile")
	require.Equal(t, rig.ExitUnchecked, code, out)
	require.Contains(t, out, "could not check the database")
	code, out = rig.EmbeddedStack(t).Run(t, "reconcile", "--nonsense")
	require.Equal(t, rig.ExitUnchecked, code, out)

	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	code, out = s.Run(t, "reconcile", "--voucher", "999")
	require.Equal(t, rig.ExitUnchecked, code, out)
	require.Contains(t, out, "not found")
	code, out = s.With("SECKILL_REDIS_ADDRS="+rig.FreeAddr(t)).Run(t, "reconcile")
	require.Equal(t, rig.ExitUnchecked, code, out)
	require.Contains(t, out, "could not check Redis")
	require.Zero(t, p.Stop(t))
	code, out = s.Check(t, "reconcile")
	require.Zero(t, code, out)
	require.Contains(t, out, "the embedded server is not running")
}

// loseUnit removes a unit from the only loaded gate.
func loseUnit(t *testing.T, rdb redis.UniversalClient, sale string) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "seckill:{s*}:"+sale+":stock").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NoError(t, rdb.Decr(t.Context(), keys[0]).Err())
}

// TestVerifyReportsUndersell removes a unit from the gate. verify passes if a server repairs it in time, fails with I5
// if not, and passes after the sale has ended.
func TestVerifyReportsUndersell(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	p := s.With(rig.EnvEvery+"=200ms", rig.EnvPause+"=100ms").Serve(t)
	sale := p.Sale(t, 5)
	p.Buy(t, s.Tokens(t, 1)[0], sale)
	rig.RequireSettled(t, s)
	rdb := s.Client(t)
	loseUnit(t, rdb, sale)
	code, out := s.With(rig.EnvLasting+"=1m").Check(t, "verify")
	require.Zero(t, code, "the server repairs it while verify waits: %s", out)
	require.Contains(t, out, "0 orders waiting, 0 dead letters, a server in lane queue is running")
	p.Logs(t, "the gate differs from the database and is rebuilt")

	require.Zero(t, p.Stop(t))
	brief := s.With(rig.EnvLasting+"=300ms", rig.EnvEvery+"=1h")
	brief.Serve(t) // repairs nothing
	loseUnit(t, rdb, sale)
	code, out = brief.Check(t, "verify")
	require.Equal(t, rig.ExitViolation, code, out)
	require.Contains(t, out, "voucher "+sale+": I5: the gate is missing 1 free unit")
	s.Exec(t, "UPDATE seckill_vouchers SET begin_at = '2020-01-01 00:00:00', end_at = '2020-01-02 00:00:00' WHERE voucher_id = "+sale)
	code, out = brief.Check(t, "verify")
	require.Zero(t, code, out)
}
