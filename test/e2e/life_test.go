package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
)

// call sends a request with a JSON body (nil: none) and returns the answer, or an error if there was none.
func (p *server) call(ctx context.Context, method, path, token string, body any) (answer, error) {
	text := []byte{}
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	if err = json.NewDecoder(res.Body).Decode(&a.body); errors.Is(err, io.EOF) { // there is no body
		err = nil
	}
	return a, err
}

// reply is call for requests that have to be answered and may be repeated. It repeats one that is answered 503.
func (p *server) reply(t *testing.T, method, path, token string, body any) (a answer) {
	t.Helper()
	eventually(t, "an answer other than 503", func() bool {
		var err error
		a, err = p.call(t.Context(), method, path, token, body)
		require.NoError(t, err)
		return a.status != http.StatusServiceUnavailable
	})
	return a
}

// must is reply for requests that have to succeed. It returns the body of the answer.
func (p *server) must(t *testing.T, method, path, token string, body any) map[string]any {
	t.Helper()
	a := p.reply(t, method, path, token, body)
	require.Less(t, a.status, 300, "%s %s: %v", method, path, a.body)
	return a.body
}

// buyReturned buys a unit that is returned in the background, after the commit. Until then the purchase is refused with
// sold_out or, in place of an order of the user, with duplicate_order.
func (p *server) buyReturned(t *testing.T, token, sale string) (o rush.Order) {
	t.Helper()
	key := rand.Text() // a purchase that is answered 503 may be committed
	eventually(t, "the unit is on sale again", func() bool {
		var err error
		if o, err = p.PlaceWithKey(t.Context(), token, sale, key); err == nil {
			return true
		}
		var refusal *rush.Problem
		require.ErrorAs(t, err, &refusal)
		require.Contains(t, []string{"sold_out", "duplicate_order", "unavailable", "overloaded"}, refusal.Code)
		return false
	})
	requireOrdered(t, p, token, o.ID)
	return o
}

// mustPlace places an order. It repeats a purchase that is answered 503, with the same key, because it may be committed.
func (p *server) mustPlace(t *testing.T, token, sale string) rush.Order {
	t.Helper()
	key := rand.Text()
	return answered(t, func() (rush.Order, error) { return p.PlaceWithKey(t.Context(), token, sale, key) })
}

// mustCancel cancels an order.
func (p *server) mustCancel(t *testing.T, token, order string) rush.Order {
	t.Helper()
	return answered(t, func() (rush.Order, error) { return p.Cancel(t.Context(), token, order) })
}

// requireSoldOut requires that a purchase is refused with sold_out.
func (p *server) requireSoldOut(t *testing.T, token, sale string) {
	t.Helper()
	requireProblem(t, http.StatusConflict, "sold_out", p.answered(t, http.MethodPost, "/api/v1/vouchers/"+sale+"/orders", token))
}

// buy places an order and requires that it is committed.
func (p *server) buy(t *testing.T, token, sale string) rush.Order {
	t.Helper()
	o := p.mustPlace(t, token, sale)
	requireOrdered(t, p, token, o.ID)
	return o
}

// waitFor waits until an order has a status, and returns when it was first seen.
func (p *server) waitFor(t *testing.T, token, order, status string) time.Time {
	t.Helper()
	eventually(t, "order "+order+" is "+status, func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == status
	})
	return time.Now()
}

// payments returns the references and statuses of an order's payments.
func (p *server) payments(t *testing.T, token, order string) (refs, statuses []string) {
	t.Helper()
	for _, item := range p.must(t, http.MethodGet, "/orders/"+order+"/payments", token, nil)["items"].([]any) {
		refs = append(refs, item.(map[string]any)["provider_ref"].(string))
		statuses = append(statuses, item.(map[string]any)["status"].(string))
	}
	return refs, statuses
}

// expire sets the deadline for the payment of an order.
func (s *stack) expire(t *testing.T, order string, at time.Time) {
	t.Helper()
	value := fmt.Sprint(at.UnixMilli())
	if s.setting("SECKILL_MYSQL_DSN") != "" {
		value = at.UTC().Format("'2006-01-02 15:04:05.000000'")
	}
	s.exec(t, "UPDATE voucher_orders SET expires_at = "+value+" WHERE id = "+order)
}

// TestOrderFromPurchaseToRefund buys, pays through the sandbox and refunds an order. Its unit is then bought on another
// server.
func TestOrderFromPurchaseToRefund(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t), s.serve(t)
		tokens := s.tokens(t, 2)
		sale := a.sale(t, 1)
		o := a.buy(t, tokens[0], sale)
		b.requireSoldOut(t, tokens[1], sale)
		a.must(t, http.MethodPost, "/orders/"+o.ID+"/pay", tokens[0], nil)
		a.waitFor(t, tokens[0], o.ID, "paid")
		requireProblem(t, http.StatusConflict, "invalid_state", b.answered(t, http.MethodPost, "/api/v1/orders/"+o.ID+"/cancel", tokens[0]))
		a.must(t, http.MethodPost, "/orders/"+o.ID+"/refund", tokens[0], nil)
		a.waitFor(t, tokens[0], o.ID, "refunded")
		b.buyReturned(t, tokens[1], sale)
		_, statuses := b.payments(t, tokens[0], o.ID)
		require.Equal(t, []string{"refunded"}, statuses)
		s.verify(t)
	})
}

// TestUnpaidOrdersAreClosed: one of two servers closes unpaid orders after their deadline, never before it. A paid
// order is not closed.
func TestUnpaidOrdersAreClosed(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t), s.serve(t)
		tokens := s.tokens(t, 5)
		sale := a.sale(t, 4)
		kept := a.buy(t, tokens[0], sale)
		a.must(t, http.MethodPost, "/orders/"+kept.ID+"/pay", tokens[0], nil)
		a.waitFor(t, tokens[0], kept.ID, "paid")
		s.expire(t, kept.ID, time.Now().Add(-time.Hour))
		for _, token := range tokens[1:4] {
			o := a.buy(t, token, sale)
			expires := time.Now().Add(time.Second)
			s.expire(t, o.ID, expires)
			seen := b.waitFor(t, token, o.ID, "cancelled")
			require.False(t, seen.Before(expires), "it was closed %s before its deadline", expires.Sub(seen))
			requireProblem(t, http.StatusConflict, "invalid_state", a.answered(t, http.MethodPost, "/api/v1/orders/"+o.ID+"/pay", token))
		}
		b.buyReturned(t, tokens[4], sale)
		require.Equal(t, "paid", a.must(t, http.MethodGet, "/orders/"+kept.ID, tokens[0], nil)["status"])
		s.verify(t)
	})
}

// TestWrongClockClosesNothingEarly: the only server has a clock that is an hour ahead. It closes the order that is due
// and not the one that is due in half an hour, because the clock of the database decides.
func TestWrongClockClosesNothingEarly(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	tokens := s.tokens(t, 2)
	right := s.serve(t)
	sale := right.sale(t, 2)
	later, soon := right.buy(t, tokens[0], sale), right.buy(t, tokens[1], sale)
	require.Zero(t, right.stop(t))
	s.expire(t, soon.ID, time.Now())
	s.expire(t, later.ID, time.Now().Add(30*time.Minute))
	ahead := s.with(envClock + "=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).serve(t)
	ahead.waitFor(t, tokens[1], soon.ID, "cancelled")
	got := answered(t, func() (rush.Order, error) { return ahead.Order(t.Context(), tokens[0], later.ID) })
	require.Equal(t, "pending_payment", got.Status)
}

// TestLimitPerUser: a user may have three active orders of a sale, and buy again after each that ends.
func TestLimitPerUser(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t), s.serve(t)
		token := s.tokens(t, 1)[0]
		now := time.Now()
		sale := a.must(t, http.MethodPost, "/admin/vouchers", a.admin(t), map[string]any{
			"shop_id": "1", "title": "three each", "pay_value": 100, "actual_value": 200, "stock": 10, "limit_per_user": 3,
			"begin_at": now.Add(-time.Hour), "end_at": now.Add(time.Hour),
		})["id"].(string)
		full := func(p *server) {
			t.Helper()
			a := p.answered(t, http.MethodPost, "/api/v1/vouchers/"+sale+"/orders", token)
			requireProblem(t, http.StatusConflict, "duplicate_order", a)
			require.NotEmpty(t, a.body["order_id"])
		}
		orders := []rush.Order{a.buy(t, token, sale), b.buy(t, token, sale), a.buy(t, token, sale)}
		full(a)
		full(b)
		a.mustCancel(t, token, orders[0].ID)
		kept := b.buy(t, token, sale)
		full(a)
		for _, id := range []string{orders[1].ID, kept.ID} {
			a.must(t, http.MethodPost, "/orders/"+id+"/pay", token, nil)
			a.waitFor(t, token, id, "paid")
		}
		a.must(t, http.MethodPost, "/orders/"+orders[1].ID+"/refund", token, nil)
		a.waitFor(t, token, orders[1].ID, "refunded")
		last := b.buyReturned(t, token, sale)
		full(a)
		for _, id := range []string{orders[2].ID, last.ID} {
			s.expire(t, id, time.Now())
			a.waitFor(t, token, id, "cancelled")
		}
		a.buyReturned(t, token, sale)
		b.buyReturned(t, token, sale)
		full(b)
		s.verify(t)
	})
}

// changeStock requests a change of the stock and returns the answer. It repeats a request that is answered 503, with the same
// key, because the change may be committed.
func (p *server) changeStock(t *testing.T, admin, sale string, delta int) (a answer) {
	t.Helper()
	key, body := rand.Text(), fmt.Sprintf(`{"delta":%d,"reason":"counted again"}`, delta)
	eventually(t, "the stock is changed or the change is refused", func() bool {
		a = p.sendBody(t, http.MethodPost, "/api/v1/admin/vouchers/"+sale+"/stock", admin, body, "Idempotency-Key", key)
		return a.status != http.StatusServiceUnavailable && a.body["code"] != "order_in_progress"
	})
	return a
}

// TestStockChangedInMidRush adds and removes units while two servers sell. In the end, the number of active orders
// equals the changed stock. Sold units cannot be removed.
func TestStockChangedInMidRush(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t), s.spawn(t, "")
		tokens, admin := s.tokens(t, 1000), a.admin(t)
		total := int64(400)
		c := buyersOf(a.sale(t, total), total, tokens, a, b)
		wait := longRush(t, s, c, 2*time.Second)
		refused := 0
		for i, delta := range []int{50, -80, 10, -40, 100, -30, -100_000, 60} {
			got := []*server{a, b}[i%2].changeStock(t, admin, c.VoucherID, delta)
			if got.status == http.StatusOK {
				total += int64(delta)
				continue
			}
			requireProblem(t, http.StatusConflict, "invalid_state", got)
			refused++
		}
		require.Positive(t, refused, "a removal of 100,000 units")
		r := wait()
		c.Stock = total
		retryUnserved(t, s, c, r)
		held := 0
		for _, a := range r.Answers {
			if a.Code == "ok" {
				held++
			}
		}
		require.EqualValues(t, total, held, "answers: %v", r.Codes)
		requireInvariants(t, s, c, r)
	})
}

// TestStockAddedIsSeenEverywhere: a buyer who got sold_out can buy on another server after units were added.
func TestStockAddedIsSeenEverywhere(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		a, b := s.serve(t), s.serve(t)
		tokens, admin := s.tokens(t, 2), a.admin(t)
		sale := a.sale(t, 1)
		a.buy(t, tokens[0], sale)
		for _, p := range []*server{a, b} {
			p.requireSoldOut(t, tokens[1], sale)
		}
		require.Equal(t, http.StatusOK, a.changeStock(t, admin, sale, 1).status)
		b.buyReturned(t, tokens[1], sale)
		requireProblem(t, http.StatusConflict, "invalid_state", b.changeStock(t, admin, sale, -1))
		s.verify(t)
	})
}

// purchaseLog records the answers to purchases.
type purchaseLog struct {
	mu       sync.Mutex
	accepted []time.Time // when the accepted purchases were sent
	codes    map[string]int
}

// send sends one purchase per buyer, every 10 ms, until ctx ends.
func (l *purchaseLog) send(ctx context.Context, p *server, tokens []string, sale string) {
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
	eachLane(t, true, func(t *testing.T, s *stack) {
		servers := []*server{s.serve(t), s.serve(t)}
		tokens := s.tokens(t, 4000)
		for code, change := range changes {
			last := lastAccepted(t, servers, tokens, change, code)
			for try := 1; try < 3 && last >= time.Second; try++ {
				last = lastAccepted(t, servers, tokens, change, code)
			}
			t.Logf("%s: the last accepted purchase was sent %s after the answer", code, last)
			require.Less(t, last, time.Second, code)
		}
		s.verify(t)
	})
}

// lastAccepted changes a sale in mid-rush. It returns the time from the admin's answer to the sending of the last
// accepted purchase, which is negative if there is none.
func lastAccepted(t *testing.T, servers []*server, tokens []string, change func() map[string]any, code string) time.Duration {
	t.Helper()
	admin, sale, log := servers[0].admin(t), servers[0].sale(t, 100_000), &purchaseLog{codes: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	const senders = 8
	for i := range senders {
		wg.Go(func() { log.send(ctx, servers[i%2], tokens[i*len(tokens)/senders:(i+1)*len(tokens)/senders], sale) })
	}
	eventually(t, "purchases succeed", func() bool { return log.count("ok") > 50 })
	servers[0].must(t, http.MethodPatch, "/admin/vouchers/"+sale, admin, change())
	answered := time.Now()
	// Both servers must have answered purchases that were sent more than a second after the change.
	eventually(t, "purchases are refused", func() bool { return log.count(code) > 50 && time.Since(answered) > 1500*time.Millisecond })
	stop()
	wg.Wait()
	last := time.Duration(-1)
	for _, at := range log.accepted {
		last = max(last, at.Sub(answered))
	}
	return last
}
