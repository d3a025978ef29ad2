package e2e

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// soldInQueue starts a server in lane queue with a sale of which one unit is sold.
func soldInQueue(t *testing.T, s *stack) (p *server, sale string) {
	t.Helper()
	p = s.serve(t)
	sale = p.sale(t, 5)
	token := s.tokens(t, 1)[0]
	o := p.mustPlace(t, token, sale)
	requireOrdered(t, p, token, o.ID)
	requireSettled(t, s)
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
	s := realStack(t).in("queue")
	p, sale := soldInQueue(t, s)
	rdb := s.client(t)
	loseUnit(t, rdb, sale)
	code, out := s.with(envLasting+"=1m").check(t, "verify")
	require.Zero(t, code, "the server repairs it while verify waits: %s", out)
	require.Contains(t, out, "0 orders waiting, 0 dead letters, a server in lane queue is running")
	p.logs(t, "the gate differs from the database and is rebuilt")

	require.Zero(t, p.stop(t))
	brief := s.with(envLasting+"=1s", envEvery+"=1h")
	brief.serve(t) // repairs nothing
	loseUnit(t, rdb, sale)
	code, out = brief.check(t, "verify")
	require.Equal(t, exitViolation, code, out)
	require.Contains(t, out, "voucher "+sale+": I5: the gate is missing 1 free unit")
	s.exec(t, "UPDATE seckill_vouchers SET begin_at = '2020-01-01 00:00:00', end_at = '2020-01-02 00:00:00' WHERE voucher_id = "+sale)
	code, out = brief.check(t, "verify")
	require.Zero(t, code, out)
}

// TestVerifyIgnoresUnusedGate: a wrong gate is only a note if no server in lane queue runs.
func TestVerifyIgnoresUnusedGate(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	p, sale := soldInQueue(t, s.in("queue"))
	rdb := s.client(t)
	require.Zero(t, p.stop(t))
	loseUnit(t, rdb, sale)
	loseUnit(t, rdb, sale) // lane lock sells a unit without the gate, which would hide the first one
	other := s.in("lock").serve(t)
	other.mustPlace(t, s.tokens(t, 2)[1], sale)
	code, out := s.check(t, "verify")
	require.Zero(t, code, out)
	require.Contains(t, out, "no server in lane queue is running")
	require.Contains(t, out, "note: voucher "+sale)

	// With a subscriber to the channel of a server, the same gate is a violation.
	subscriber := rdb.Subscribe(t.Context(), "seckill:outcomes:unused")
	defer subscriber.Close()
	_, err := subscriber.Receive(t.Context())
	require.NoError(t, err)
	code, out = s.with(envLasting+"=1s").check(t, "verify")
	require.Equal(t, exitViolation, code, out)
}

// TestVerifyWithQueuedOrders: a queued order counts as neither sold nor lost.
func TestVerifyWithQueuedOrders(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	s, release := holdWorkers(t, s.in("queue"))
	p := s.serve(t)
	sale, tokens := p.sale(t, 5), s.tokens(t, 3)
	for _, token := range tokens {
		p.queue(t, token, sale)
	}
	code, out := s.check(t, "verify")
	require.Zero(t, code, out)
	require.Contains(t, out, "3 orders waiting, 0 dead letters")
	release()
	requireSettled(t, s)
	code, out = s.check(t, "verify")
	require.Zero(t, code, out)
	require.Contains(t, out, "0 orders waiting")
}
