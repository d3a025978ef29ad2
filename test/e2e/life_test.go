package e2e

import (
	"context"
	"errors"
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

// purchaseLog records the answers to purchases.
type purchaseLog struct {
	mu       sync.Mutex
	accepted []time.Time // when the accepted purchases were sent
	codes    map[string]int
}

// send sends one purchase per buyer, every 10 ms, until ctx ends.
func (l *purchaseLog) send(ctx context.Context, p *rig.Server, tokens []string, sale string) {
	for _, token := range tokens {
		if ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
		sent := time.Now()
		_, err := p.Place(ctx, token, sale)
		var problem *rush.Problem
		l.mu.Lock()
		switch {
		case err == nil:
			l.codes["ok"]++
			l.accepted = append(l.accepted, sent)
		case errors.As(err, &problem):
			l.codes[problem.Code]++
		}
		l.mu.Unlock()
	}
}

// count returns the number of answers with a code.
func (l *purchaseLog) count(code string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.codes[code]
}

// TestSaleIsClosedInMidRush: after an admin has unpublished a voucher or ended its window, no server accepts a purchase
// that is sent more than a second after the admin's answer, in the best of three tries.
func TestSaleIsClosedInMidRush(t *testing.T) {
	t.Parallel()
	changes := map[string]func() map[string]any{ // by the code of purchases after the change
		"not_found":  func() map[string]any { return map[string]any{"status": "off"} },
		"sale_ended": func() map[string]any { return map[string]any{"end_at": time.Now().Add(-time.Second)} },
	}
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Serve(t), s.Serve(t)}
		tokens := s.Tokens(t, 4000)
		for code, change := range changes {
			last := lastAccepted(t, servers, tokens, change, code)
			for try := 1; try < 3 && last >= time.Second; try++ {
				last = lastAccepted(t, servers, tokens, change, code)
			}
			t.Logf("%s: the last accepted purchase was sent %s after the answer", code, last)
			require.Less(t, last, time.Second, code)
		}
		s.Verify(t)
	})
}

// lastAccepted changes a sale in mid-rush. It returns the time from the admin's answer to the sending of the last
// accepted purchase, which is negative if there is none.
func lastAccepted(t *testing.T, servers []*rig.Server, tokens []string, change func() map[string]any, code string) time.Duration {
	t.Helper()
	admin, sale, log := servers[0].Admin(t), servers[0].Sale(t, 100_000), &purchaseLog{codes: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	const senders = 8
	for i := range senders {
		wg.Go(func() { log.send(ctx, servers[i%2], tokens[i*len(tokens)/senders:(i+1)*len(tokens)/senders], sale) })
	}
	rig.Eventually(t, "purchases succeed", func() bool { return log.count("ok") > 50 })
	servers[0].Must(t, rig.Patch("/admin/vouchers/"+sale, admin, change()))
	answered := time.Now()
	// Both servers must have answered purchases that were sent more than a second after the change.
	rig.Eventually(t, "purchases are refused", func() bool { return log.count(code) > 50 && time.Since(answered) > 1500*time.Millisecond })
	stop()
	wg.Wait()
	last := time.Duration(-1)
	for _, at := range log.accepted {
		last = max(last, at.Sub(answered))
	}
	return last
}
