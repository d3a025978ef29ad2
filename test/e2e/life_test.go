package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestOrderFromPurchaseToRefund buys, pays through the sandbox and refunds an order. Its unit is then bought on another
// server.
func TestOrderFromPurchaseToRefund(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded", "queue/mariadb").Full("lock/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 2)
		sale := a.Sale(t, 1)
		o := a.Buy(t, tokens[0], sale)
		b.RequireSoldOut(t, tokens[1], sale)
		a.Must(t, rig.Pay(o.ID, tokens[0]))
		a.WaitFor(t, tokens[0], o.ID, "paid")
		rig.RequireProblem(t, http.StatusConflict, "invalid_state", b.Do(t, rig.Post("/orders/"+o.ID+"/cancel", tokens[0], nil)))
		a.Must(t, rig.Post("/orders/"+o.ID+"/refund", tokens[0], nil))
		a.WaitFor(t, tokens[0], o.ID, "refunded")
		b.BuyReturned(t, rig.Purchase(sale, tokens[1]))
		_, statuses := b.Payments(t, tokens[0], o.ID)
		require.Equal(t, []string{"refunded"}, statuses)
		s.Verify(t)
	})
}

// TestUnpaidOrdersAreClosed: one of two servers closes unpaid orders after their deadline, never before it. A paid
// order is not closed.
func TestUnpaidOrdersAreClosed(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 5)
		sale := a.Sale(t, 4)
		kept := a.Buy(t, tokens[0], sale)
		a.Must(t, rig.Pay(kept.ID, tokens[0]))
		a.WaitFor(t, tokens[0], kept.ID, "paid")
		s.Expire(t, kept.ID, time.Now().Add(-time.Hour))
		for _, token := range tokens[1:4] {
			o := a.Buy(t, token, sale)
			expires := time.Now().Add(time.Second)
			s.Expire(t, o.ID, expires)
			seen := b.WaitFor(t, token, o.ID, "cancelled")
			require.False(t, seen.Before(expires), "it was closed %s before its deadline", expires.Sub(seen))
			rig.RequireProblem(t, http.StatusConflict, "invalid_state", a.Do(t, rig.Pay(o.ID, token)))
		}
		b.BuyReturned(t, rig.Purchase(sale, tokens[4]))
		require.Equal(t, "paid", a.Must(t, rig.Get("/orders/"+kept.ID, tokens[0]))["status"])
		s.Verify(t)
	})
}

// TestWrongClockClosesNothingEarly: the only server has a clock that is an hour ahead. It closes the order that is due
// and not the one that is due in half an hour, because the clock of the database decides.
func TestWrongClockClosesNothingEarly(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	tokens := s.Tokens(t, 2)
	right := s.Serve(t)
	sale := right.Sale(t, 2)
	later, soon := right.Buy(t, tokens[0], sale), right.Buy(t, tokens[1], sale)
	require.Zero(t, right.Stop(t))
	s.Expire(t, soon.ID, time.Now())
	s.Expire(t, later.ID, time.Now().Add(30*time.Minute))
	ahead := s.With(rig.EnvClock + "=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).Serve(t)
	ahead.WaitFor(t, tokens[1], soon.ID, "cancelled")
	got := rig.Answered(t, func() (rush.Order, error) { return ahead.Order(t.Context(), tokens[0], later.ID) })
	require.Equal(t, "pending_payment", got.Status)
}

// TestStockChangedInMidRush adds and removes units while two servers sell. In the end, the number of active orders
// equals the changed stock. Sold units cannot be removed.
func TestStockChangedInMidRush(t *testing.T) {
	t.Parallel()
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Spawn(t, "")
		tokens, admin := s.Tokens(t, 1000), a.Admin(t)
		total := int64(400)
		c := rig.BuyersOf(a.Sale(t, total), total, tokens, a, b)
		wait := rig.LongRush(t, s, c, 2*time.Second)
		path, refused := "/admin/vouchers/"+c.VoucherID+"/stock", 0
		for i, delta := range []int{50, -80, 10, -40, 100, -30, -100_000, 60} {
			got := []*rig.Server{a, b}[i%2].Do(t, rig.Post(path, admin, map[string]any{"delta": delta, "reason": "counted again"}))
			if got.Status == http.StatusOK {
				total += int64(delta)
				continue
			}
			rig.RequireProblem(t, http.StatusConflict, "invalid_state", got)
			refused++
		}
		require.Positive(t, refused, "a removal of 100,000 units")
		r := wait()
		c.Stock = total
		rig.RetryUnserved(t, s, c, r)
		held := 0
		for _, a := range r.Answers {
			if a.Code == "ok" {
				held++
			}
		}
		require.EqualValues(t, total, held, "answers: %v", r.Codes)
		rig.RequireInvariants(t, s, c, r)
	})
}

// closing counts the answers of one server to purchases of a sale that is closed meanwhile.
type closing struct {
	mu                      sync.Mutex
	accepted, refused, late int // late: accepted, although the purchase was sent after a refusal
}

// send sends a purchase of each buyer, every 10 ms, until ctx ends. code is that of a refusal.
func (c *closing) send(ctx context.Context, p *rig.Server, tokens []string, sale, code string) {
	for _, token := range tokens {
		if rig.Sleep(ctx, 10*time.Millisecond) != nil {
			return
		}
		_, refused := c.count()
		_, err := p.Place(ctx, token, sale)

		c.mu.Lock()
		switch {
		case err == nil && refused > 0:
			c.late++
		case err == nil:
			c.accepted++
		case rig.HasCode(err, code):
			c.refused++
		}
		c.mu.Unlock()
	}
}

func (c *closing) count() (accepted, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted, c.refused
}

// TestSaleIsClosedInMidRush: after an admin has unpublished a voucher or ended its window, each server refuses purchases, and
// accepts none that is sent after its first refusal. TestSalesExpire of package service shows that this takes a second.
func TestSaleIsClosedInMidRush(t *testing.T) {
	t.Parallel()
	changes := map[string]func() map[string]any{ // by the code of purchases after the change
		"not_found":  func() map[string]any { return map[string]any{"status": "off"} },
		"sale_ended": func() map[string]any { return map[string]any{"end_at": time.Now().Add(-time.Second)} },
	}
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Serve(t), s.Serve(t)}
		admin, tokens := servers[0].Admin(t), s.Tokens(t, 4000)
		for code, change := range changes {
			sale := servers[0].Sale(t, 100_000)
			counts := make([]closing, len(servers))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			const senders = 8
			var sending sync.WaitGroup
			for i := range senders {
				own := tokens[i*len(tokens)/senders : (i+1)*len(tokens)/senders]
				sending.Go(func() { counts[i%2].send(ctx, servers[i%2], own, sale, code) })
			}

			for i := range counts {
				rig.Eventually(t, "purchases succeed", func() bool { accepted, _ := counts[i].count(); return accepted > 25 })
			}
			servers[0].Must(t, rig.Patch("/admin/vouchers/"+sale, admin, change()))
			for i := range counts {
				rig.Eventually(t, "purchases are refused", func() bool { _, refused := counts[i].count(); return refused > 25 })
			}
			stop()
			sending.Wait()
			for i := range counts {
				require.Zero(t, counts[i].late, "%s: server %d", code, i)
			}
		}
		s.Verify(t)
	})
}
