package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestReconcileExitCodeWhenUnchecked: an incomplete check has an exit code of its own, different from that of a
// finding.
func TestReconcileExitCodeWhenUnchecked(t *testing.T) {
	env.Full(t)
	t.Parallel()
	out := rig.EmbeddedStack(t).OnEmptyDatabase(t).Exits(t, rig.ExitUnchecked, "reconcile")
	require.Contains(t, out, "could not check the database")
	rig.EmbeddedStack(t).Exits(t, rig.ExitUnchecked, "reconcile", "--nonsense")

	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	require.Contains(t, s.Exits(t, rig.ExitUnchecked, "reconcile", "--voucher", "999"), "not found")
	out = s.With("SECKILL_REDIS_ADDRS="+rig.FreeAddr(t)).Exits(t, rig.ExitUnchecked, "reconcile")
	require.Contains(t, out, "could not check Redis")
	require.Zero(t, p.Stop(t))
	require.Contains(t, s.Exits(t, 0, "reconcile"), "the embedded server is not running")
}

// TestVerifyReportsUndersell removes a unit from the gate. verify passes if a server repairs it in time, and fails with I5 if
// not, until reconcile has repaired it or the sale has ended.
func TestVerifyReportsUndersell(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	p := s.With(rig.EnvEvery+"=200ms", rig.EnvPause+"=100ms").Serve(t)
	sale := p.Sale(t, 5)
	p.Buy(t, s.Tokens(t, 1)[0], sale)
	rig.RequireSettled(t, s)
	s.ChangeGate(t, sale, -1)
	out := s.With(rig.EnvLasting+"=1m").Exits(t, 0, "verify") // the server repairs it meanwhile
	require.Contains(t, out, "0 orders waiting, 0 dead letters, a server in lane queue is running")
	p.Logs(t, "the gate differs from the database and is rebuilt")

	require.Zero(t, p.Stop(t))
	brief := s.With(rig.EnvLasting+"=300ms", rig.EnvPause+"=100ms", rig.EnvEvery+"=1h")
	brief.Serve(t) // repairs nothing
	s.ChangeGate(t, sale, -1)
	out = brief.Exits(t, rig.ExitViolation, "verify")
	require.Contains(t, out, "voucher "+sale+": I5: the gate is missing 1 free unit")

	out = brief.Exits(t, rig.ExitViolation, "reconcile", "--voucher", sale)
	require.Regexp(t, `gate_differs .*--apply repairs it`, out)
	require.Contains(t, brief.Exits(t, 0, "reconcile", "--apply"), ": 1 finding repaired, 0 left")
	brief.Verify(t)

	s.ChangeGate(t, sale, -1)
	s.Exec(t, "UPDATE seckill_vouchers SET begin_at = '2020-01-01 00:00:00', end_at = '2020-01-02 00:00:00' WHERE voucher_id = "+sale)
	brief.Exits(t, 0, "verify")
}

// TestReconcileDoesNotChangeDatabase: errors in the database are reported with the order and not repaired.
func TestReconcileDoesNotChangeDatabase(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "queue/mariadb", "lock/mysql", "queue/mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		s = rig.WithoutBackgroundRepair(s).With(rig.EnvLasting + "=1s")
		p := s.Serve(t)
		sale, tokens := p.Sale(t, 2), s.Tokens(t, 2)
		p.Buy(t, tokens[0], sale)
		second := p.Buy(t, tokens[1], sale).ID
		rig.RequireSettled(t, s)

		reports := func(invariant, order string) {
			t.Helper()
			require.Contains(t, s.Exits(t, rig.ExitViolation, "verify"), "order "+order+" of user ")
			out := s.Exits(t, rig.ExitViolation, "reconcile", "--apply")
			require.Regexp(t, `(?m)^\d+ +`+invariant+` .*manual.*order `+order+" of user ", out)
		}

		extra := second[:len(second)-3] + "999" // the newest order
		s.Exec(t, `INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
			SELECT `+extra+`, 424242, voucher_id, 1, 1, amount, created_at, expires_at, updated_at FROM voucher_orders WHERE id = `+second)
		rows := s.Count(t, "SELECT COUNT(*) FROM voucher_orders")
		reports("I1", extra)
		require.Equal(t, rows, s.Count(t, "SELECT COUNT(*) FROM voucher_orders"))
		s.Exec(t, "DELETE FROM voucher_orders WHERE id = "+extra)

		s.Exec(t, "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = "+sale)
		reports("I3", second)
		require.EqualValues(t, 1, s.StockOf(t, sale))
		s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+sale)

		out := s.Exits(t, 0, "reconcile", "--apply") // the gate had followed the database
		require.Contains(t, out, ", 0 left")
		s.Verify(t)
	})
}
