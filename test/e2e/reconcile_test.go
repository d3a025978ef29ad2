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

// TestReconcileDoesNotChangeDatabase: errors in the database are reported with the order and not repaired.
func TestReconcileDoesNotChangeDatabase(t *testing.T) {
	t.Parallel()
	rig.Full("mariadb", "mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		for _, lane := range []string{"lock", "queue"} {
			s := rig.WithoutBackgroundRepair(s).In(lane).With(rig.EnvLasting + "=1s")
			p := s.Serve(t)
			sale, tokens := p.Sale(t, 2), s.Tokens(t, 2)
			l := &rig.LiveSale{Stack: s, P: p, Sale: sale}
			l.Order(t, tokens[0])
			second := l.Order(t, tokens[1])
			extra := second.ID[:len(second.ID)-3] + "999" // the newest order
			s.Exec(t, `INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
				SELECT `+extra+`, 424242, voucher_id, 1, 1, amount, created_at, expires_at, updated_at FROM voucher_orders WHERE id = `+second.ID)
			rows := s.Count(t, "SELECT COUNT(*) FROM voucher_orders")
			name := "order " + extra + " of user 424242"
			code, out := s.Check(t, "verify")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Contains(t, out, name)
			code, out = s.Check(t, "reconcile", "--apply")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Regexp(t, rig.Finding("I1").String()+".*manual.*"+name, out)
			require.Equal(t, rows, s.Count(t, "SELECT COUNT(*) FROM voucher_orders"))
			s.Exec(t, "DELETE FROM voucher_orders WHERE id = "+extra)

			s.Exec(t, "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = "+sale)
			code, out = s.Check(t, "verify")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Contains(t, out, "order "+second.ID+" of user "+second.UserID)
			code, out = s.Check(t, "reconcile", "--apply")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Regexp(t, rig.Finding("I3").String()+".*manual.*order "+second.ID, out)
			require.EqualValues(t, 1, s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+sale))
			s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+sale)
			_, out = s.Check(t, "reconcile", "--apply") // the gate had followed the database
			require.Contains(t, out, ", 0 left")
			s.Verify(t)
			require.Zero(t, p.Stop(t))
		}
	})
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
