package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// purchase is an order and the reference of its only payment.
type purchase struct{ token, order, ref string }

// purchases places an order for each buyer and begins its payment.
func purchases(t *testing.T, p *rig.Server, sale string, tokens []string) []purchase {
	t.Helper()
	all := make([]purchase, len(tokens))
	for i, token := range tokens {
		all[i] = purchase{token: token, order: p.Buy(t, token, sale).ID}
	}
	for i := range all {
		all[i].pay(t, p)
	}
	return all
}

// pay requests the payment. A repeated request must return the same payment.
func (d *purchase) pay(t *testing.T, p *rig.Server) {
	t.Helper()
	ref := p.Must(t, rig.Pay(d.order, d.token))["payment"].(map[string]any)["provider_ref"].(string)
	if d.ref != "" {
		require.Equal(t, d.ref, ref, "a repeated request returns the same payment")
	}
	d.ref = ref
}

// waitForEnd waits until the order has one of the given statuses and its payment the status that belongs to it.
func (d *purchase) waitForEnd(t *testing.T, p *rig.Server, payment map[string]string) (status string) {
	t.Helper()
	rig.Eventually(t, "order "+d.order+" ends", func() bool {
		o, err := p.Order(t.Context(), d.token, d.order)
		if err != nil || payment[o.Status] == "" {
			return false
		}
		refs, statuses := p.Payments(t, d.token, d.order)
		require.Equal(t, []string{d.ref}, refs)
		status = o.Status
		return statuses[0] == payment[o.Status]
	})
	return status
}

// TestServerKilledWhilePaying kills the server with SIGKILL while payments and refunds are in progress. The provider
// delays, loses and repeats its notices and refuses the first refunds. A repeated payment request returns the same
// payment, and every payment and refund completes.
func TestServerKilledWhilePaying(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue").With("SECKILL_SANDBOX=delay=1s,lose=1,repeat=2")
	const n = 15
	addr, tokens := rig.FreeAddr(t), s.Tokens(t, 2*n)
	p := s.With("SECKILL_SANDBOX=delay=1s,lose=1,repeat=2,refuse-refunds=1").Spawn(t, addr)
	sale := p.Sale(t, 2*n)
	refunding := purchases(t, p, sale, tokens[:n])
	for _, d := range refunding {
		p.WaitFor(t, d.token, d.order, "paid")
		p.Must(t, rig.Post("/orders/"+d.order+"/refund", d.token, nil))
	}
	paying := purchases(t, p, sale, tokens[n:]) // no notice was sent for these
	p.Kill()
	s.Verify(t)

	p = s.Spawn(t, addr)
	for i := range paying {
		if o, err := p.Order(t.Context(), paying[i].token, paying[i].order); err == nil && o.Status == "pending_payment" {
			paying[i].pay(t, p)
		}
	}
	for _, d := range refunding {
		d.waitForEnd(t, p, map[string]string{"refunded": "refunded"})
	}
	for _, d := range paying {
		d.waitForEnd(t, p, map[string]string{"paid": "succeeded"})
	}
	rig.RequireSettled(t, s)
	s.Verify(t)
}

// TestDatabaseKilledWhileClosing kills and restarts the database when the first of many orders has been closed, while others
// become due and payment notices arrive. Each order is either paid, or cancelled and its payment refunded.
func TestDatabaseKilledWhileClosing(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t).OwnDatabase(t).In("queue").With("SECKILL_SANDBOX=delay=5s,repeat=1")
	servers := []*rig.Server{s.Serve(t), s.Serve(t)}
	for _, p := range servers {
		p.MayRefuse() // while the database is down
	}
	all := purchases(t, servers[0], servers[0].Sale(t, 40), s.Tokens(t, 40))
	// Half of the orders stay open for their notices. The others become due one after another, the one paid last first, so
	// that it is closed before its notice on the slowest machine, too.
	now := time.Now()
	for i, d := range slices.Backward(all[len(all)/2:]) {
		s.Expire(t, d.order, now.Add(time.Duration(len(all)/2-1-i)*200*time.Millisecond))
	}
	rig.Eventually(t, "an order is closed", func() bool { return s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE slot IS NULL") > 0 })

	s.Database.Kill()
	requireNotReady(t, servers[0])
	require.NoError(t, s.Database.Restart())
	for _, p := range servers {
		rig.RequireReady(t, p)
	}
	ends := map[string]int{}
	for _, d := range all {
		ends[d.waitForEnd(t, servers[0], map[string]string{"paid": "succeeded", "cancelled": "refunded"})]++
	}
	t.Logf("%v", ends)
	rig.RequireSettled(t, s)
	s.Verify(t)
}
