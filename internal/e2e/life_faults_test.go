package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The lane queue has all that the others have, and the gate, which must hear of each unit that returns.

// deal is an order of a test, and its only payment.
type deal struct{ token, order, ref string }

// deals has every buyer place an order and press pay, all at once.
func deals(t *testing.T, p *process, sale string, tokens []string) []deal {
	t.Helper()
	all := make([]deal, len(tokens))
	for i, token := range tokens {
		all[i] = deal{token: token, order: p.buy(t, token, sale).ID}
	}
	for i := range all {
		all[i].pay(t, p)
	}
	return all
}

// pay presses pay: the payment is the one that it was.
func (d *deal) pay(t *testing.T, p *process) {
	t.Helper()
	ref := p.must(t, http.MethodPost, "/orders/"+d.order+"/pay", d.token, nil)["payment"].(map[string]any)["provider_ref"].(string)
	if d.ref != "" {
		require.Equal(t, d.ref, ref, "paying again is the same payment")
	}
	d.ref = ref
}

// ends waits until an order has ended in one of the statuses, and requires the end of its only payment.
func (d *deal) ends(t *testing.T, p *process, payment map[string]string) (status string) {
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

// TestServerKilledWhilePaying is kill -9 while payments and refunds are under way, at a provider who is late, loses and
// repeats his notices, and refuses refunds at first. Whoever presses again has the same payment; everything ends.
func TestServerKilledWhilePaying(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		s = s.in("queue").with("SECKILL_SANDBOX=delay=1s,lose=1,repeat=2")
		const n = 15
		addr, tokens := freeAddr(t), s.tokens(t, 2*n)
		p := s.with("SECKILL_SANDBOX=delay=1s,lose=1,repeat=2,refuse-refunds=1").serve(t, addr)
		sale := p.sale(t, 2*n)
		refunding := deals(t, p, sale, tokens[:n])
		for _, d := range refunding {
			p.waitFor(t, d.token, d.order, "paid")
			p.must(t, http.MethodPost, "/orders/"+d.order+"/refund", d.token, nil)
		}
		paying := deals(t, p, sale, tokens[n:]) // of whom nobody has told
		p.kill()
		s.verify(t)

		p = s.serve(t, addr)
		for i := range paying {
			if o, err := p.Order(t.Context(), paying[i].token, paying[i].order); err == nil && o.Status == "pending_payment" {
				paying[i].pay(t, p)
			}
		}
		for _, d := range refunding {
			d.ends(t, p, map[string]string{"refunded": "refunded"})
		}
		for _, d := range paying {
			d.ends(t, p, map[string]string{"paid": "succeeded"})
		}
		requireSettled(t, s)
		s.verify(t)
	})
}

// TestDatabaseKilledWhileClosing kills MariaDB while orders are closed and the provider tells of others, and brings it
// back. Each order is paid and kept, or closed, and then the money that came for it is returned.
func TestDatabaseKilledWhileClosing(t *testing.T) {
	s := realStack(t).in("queue").with("SECKILL_PAY_TIMEOUT=4s", "SECKILL_SANDBOX=delay=4200ms,repeat=1")
	servers := []*process{s.serve(t, ""), s.serve(t, "")}
	tokens := s.tokens(t, 40)
	sale := servers[0].sale(t, 40)
	var mu sync.Mutex
	var all []deal
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
				return // of the lane queue, which is not there yet
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, deal{token, o.ID, a.body["payment"].(map[string]any)["provider_ref"].(string)})
		})
	}
	wg.Wait()
	require.NotEmpty(t, all)
	time.Sleep(3500 * time.Millisecond) // until the first of them are due and told of
	s.mariadb.Kill()
	requireNotReady(t, servers[0])
	require.NoError(t, s.mariadb.Restart())
	for _, p := range servers {
		requireReady(t, p)
	}
	ends := map[string]int{}
	for _, d := range all {
		ends[d.ends(t, servers[0], map[string]string{"paid": "succeeded", "cancelled": "refunded"})]++
	}
	t.Logf("%v", ends)
	requireSettled(t, s)
	s.verify(t)
}

// TestPayingWithoutRedis: an order that is there is paid, refunded, cancelled and closed while Redis is away. Its unit is
// for sale when Redis is back, although the gate was not told.
func TestPayingWithoutRedis(t *testing.T) {
	each(t, true, func(t *testing.T, s *stack) {
		s = s.in("queue")
		p := s.serve(t, "")
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
			eventually(t, "the unit can be bought again", func() bool {
				_, err := p.Place(t.Context(), token, sale)
				return err == nil
			})
		}
		s.verify(t)
	})
}

// TestForgottenPayment: the sandbox forgets by a restart what it has not told. A buyer who presses again has the same
// payment; the order of one who does not is closed in time, and its unit is back.
func TestForgottenPayment(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		addr, tokens := freeAddr(t), s.tokens(t, 3)
		p := s.with("SECKILL_SANDBOX=delay=1h").serve(t, addr)
		sale := p.sale(t, 2)
		all := deals(t, p, sale, tokens[:2])
		require.Zero(t, p.stop(t), "it does not wait for a notice that comes in an hour")
		p = s.serve(t, addr)
		all[0].pay(t, p)
		all[0].ends(t, p, map[string]string{"paid": "succeeded"})
		s.expire(t, all[1].order, time.Now())
		all[1].ends(t, p, map[string]string{"cancelled": "pending"})
		p.buy(t, tokens[2], sale)
		s.verify(t)
	})
}
