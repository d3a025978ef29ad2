package e2e

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// soldInQueue starts a server in lane queue with a sale of which one unit is sold.
func soldInQueue(t *testing.T, s *rig.Stack) (p *rig.Server, sale string) {
	t.Helper()
	p = s.Serve(t)
	sale = p.Sale(t, 5)
	token := s.Tokens(t, 1)[0]
	o := p.MustPlace(t, token, sale)
	rig.RequireOrdered(t, p, token, o.ID)
	rig.RequireSettled(t, s)
	return p, sale
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
	p, sale := soldInQueue(t, s.With(rig.EnvEvery+"=200ms", rig.EnvPause+"=100ms"))
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
