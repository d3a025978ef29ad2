package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests run in lane queue, which does everything the other lanes do and must also return each unit to the gate.

// purchase is an order and the reference of its only payment.
type purchase struct{ token, order, ref string }

// purchases places an order for each buyer and begins its payment.
func purchases(t *testing.T, p *server, sale string, tokens []string) []purchase {
	t.Helper()
	all := make([]purchase, len(tokens))
	for i, token := range tokens {
		all[i] = purchase{token: token, order: p.buy(t, token, sale).ID}
	}
	for i := range all {
		all[i].pay(t, p)
	}
	return all
}

// pay requests the payment. A repeated request must return the same payment.
func (d *purchase) pay(t *testing.T, p *server) {
	t.Helper()
	ref := p.must(t, http.MethodPost, "/orders/"+d.order+"/pay", d.token, nil)["payment"].(map[string]any)["provider_ref"].(string)
	if d.ref != "" {
		require.Equal(t, d.ref, ref, "a repeated request returns the same payment")
	}
	d.ref = ref
}

// waitForEnd waits until the order has one of the given statuses and its payment the status that belongs to it.
func (d *purchase) waitForEnd(t *testing.T, p *server, payment map[string]string) (status string) {
	t.Helper()
	eventually(t, "order "+d.order+" ends", func() bool {
		o, err := p.Order(t.Context(), d.token, d.order)
		if err != nil || payment[o.Status] == "" {
			return false
		}
		refs, statuses := p.payments(t, d.token, d.order)
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
	t.Parallel()
	s := realStack(t).in("queue").with("SECKILL_SANDBOX=delay=1s,lose=1,repeat=2")
	const n = 15
	addr, tokens := freeAddr(t), s.tokens(t, 2*n)
	p := s.with("SECKILL_SANDBOX=delay=1s,lose=1,repeat=2,refuse-refunds=1").spawn(t, addr)
	sale := p.sale(t, 2*n)
	refunding := purchases(t, p, sale, tokens[:n])
	for _, d := range refunding {
		p.waitFor(t, d.token, d.order, "paid")
		p.must(t, http.MethodPost, "/orders/"+d.order+"/refund", d.token, nil)
	}
	paying := purchases(t, p, sale, tokens[n:]) // no notice was sent for these
	p.kill()
	s.verify(t)

	p = s.spawn(t, addr)
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
	requireSettled(t, s)
	s.verify(t)
}

// TestDatabaseKilledWhileClosing kills and restarts MariaDB while orders are closed and payment notices arrive. Each
// order is either paid, or cancelled and its payment refunded.
func TestDatabaseKilledWhileClosing(t *testing.T) {
	t.Parallel()
	s := realStack(t).ownDatabase(t).in("queue").with("SECKILL_PAY_TIMEOUT=10s", "SECKILL_SANDBOX=delay=10200ms,repeat=1")
	servers := []*server{s.serve(t), s.serve(t)}
	tokens := s.tokens(t, 40)
	sale := servers[0].sale(t, 40)
	var mu sync.Mutex
	var all []purchase
	var wg sync.WaitGroup
	for i, token := range tokens {
		wg.Go(func() {
			p := servers[i%2]
			o, err := p.Place(t.Context(), token, sale)
			if err != nil {
				return
			}
			a, err := p.call(t.Context(), http.MethodPost, "/orders/"+o.ID+"/pay", token, nil)
			if err != nil || a.status != http.StatusOK {
				return // the order is still queued
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, purchase{token, o.ID, a.body["payment"].(map[string]any)["provider_ref"].(string)})
		})
	}
	wg.Wait()
	require.NotEmpty(t, all)
	time.Sleep(9500 * time.Millisecond) // the first orders are due and their notices sent
	s.database.Kill()
	requireNotReady(t, servers[0])
	require.NoError(t, s.database.Restart())
	for _, p := range servers {
		requireReady(t, p)
	}
	ends := map[string]int{}
	for _, d := range all {
		ends[d.waitForEnd(t, servers[0], map[string]string{"paid": "succeeded", "cancelled": "refunded"})]++
	}
	t.Logf("%v", ends)
	requireSettled(t, s)
	s.verify(t)
}

// TestPaymentWithoutRedis pays, refunds, cancels and closes committed orders during an outage of Redis. The returned
// units can be bought after the outage, although the gate missed their release.
func TestPaymentWithoutRedis(t *testing.T) {
	t.Parallel()
	s := realStack(t).in("queue")
	p := s.serve(t)
	tokens := s.tokens(t, 7)
	sale := p.sale(t, 4)
	refund, cancel, expire, keep := p.buy(t, tokens[0], sale), p.buy(t, tokens[1], sale), p.buy(t, tokens[2], sale), p.buy(t, tokens[3], sale)
	s.killRedis()
	for i, o := range []string{refund.ID, keep.ID} {
		token := []string{tokens[0], tokens[3]}[i]
		p.must(t, http.MethodPost, "/orders/"+o+"/pay", token, nil)
		p.waitFor(t, token, o, "paid")
	}
	p.must(t, http.MethodPost, "/orders/"+refund.ID+"/refund", tokens[0], nil)
	p.waitFor(t, tokens[0], refund.ID, "refunded")
	p.must(t, http.MethodPost, "/orders/"+cancel.ID+"/cancel", tokens[1], nil)
	s.expire(t, expire.ID, time.Now())
	p.waitFor(t, tokens[2], expire.ID, "cancelled")
	require.NoError(t, s.restartRedis())
	requireReady(t, p)
	for _, token := range tokens[4:7] {
		p.buyReturned(t, token, sale)
	}
	s.verify(t)
}

// TestPendingPaymentSurvivesRestart restarts the server, which discards the notices the sandbox has not sent. A
// repeated payment request returns the same payment and completes it. An order without one is closed on time and its
// unit returned.
func TestPendingPaymentSurvivesRestart(t *testing.T) {
	t.Parallel()
	each(t, false, func(t *testing.T, s *stack) {
		addr, tokens := freeAddr(t), s.tokens(t, 3)
		p := s.with("SECKILL_SANDBOX=delay=1h").spawn(t, addr)
		sale := p.sale(t, 2)
		all := purchases(t, p, sale, tokens[:2])
		require.Zero(t, p.stop(t), "a delayed notice does not block shutdown")
		p = s.spawn(t, addr)
		all[0].pay(t, p)
		all[0].waitForEnd(t, p, map[string]string{"paid": "succeeded"})
		s.expire(t, all[1].order, time.Now())
		all[1].waitForEnd(t, p, map[string]string{"cancelled": "pending"})
		p.buy(t, tokens[2], sale)
		s.verify(t)
	})
}
