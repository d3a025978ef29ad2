package rig

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
)

// BuyersOf returns simulated buyers for a sale on one or several servers.
func BuyersOf(sale string, stock int64, tokens []string, servers ...*Server) *rush.Buyers {
	c := &rush.Buyers{
		VoucherID: sale,
		Stock:     stock,
		Tokens:    tokens,
		Parallel:  256,
	}

	for _, p := range servers {
		c.Clients = append(c.Clients, p.Client)
	}

	return c
}

// LongRush starts a rush and returns once a tenth of the stock is sold. Buyers arrive for at least the given time, and the last
// of them, for whom units are left, only when the function is called: a fault before that is in the middle of the rush on any machine.
func LongRush(t *testing.T, s *Stack, c *rush.Buyers, lasts time.Duration) func() *rush.Report {
	t.Helper()
	n := min(len(c.Tokens)/2, int(c.Stock)*3/4)
	c.Parallel = 32
	c.For = lasts

	first := *c
	first.Tokens = c.Tokens[:n]
	done := make(chan *rush.Report, 1)
	go func() { done <- first.Run(t.Context()) }()

	Eventually(t, "the rush begins", func() bool {
		return s.StockOf(t, c.VoucherID) <= c.Stock*9/10
	})

	return func() *rush.Report {
		last := *c
		last.Tokens = c.Tokens[n:]
		last.For = 0

		r := <-done
		rest := last.Run(t.Context())
		r.Answers = append(r.Answers, rest.Answers...)
		for code, times := range rest.Codes {
			r.Codes[code] += times
		}

		return r
	}
}

// RetryUnserved repeats the purchases of buyers without an order until the stock is zero. In lane queue, a Redis that
// loses its data loses reservations, and with them units for which other buyers got sold_out.
func RetryUnserved(t *testing.T, s *Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	RequireSettled(t, s)

	Eventually(t, "all units are sold", func() bool {
		var still []int
		rest := *c
		rest.Tokens = nil
		rest.For = 0
		for i, a := range r.Answers {
			if a.Code != "ok" {
				still = append(still, i)
				rest.Tokens = append(rest.Tokens, c.Tokens[i])
			}
		}

		for n, a := range rest.Run(t.Context()).Answers {
			r.Answers[still[n]] = a
		}

		v, err := c.Clients[0].Voucher(t.Context(), c.VoucherID)
		return err == nil && v.Stock == 0
	})
}

// StockOf returns the free units of a sale in the database.
func (s *Stack) StockOf(t *testing.T, sale string) int64 {
	t.Helper()
	return s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+sale)
}

// OrdersIn returns the ids of all orders in the answers. On a busy machine an answer may name the order of an earlier request,
// which was answered 503.
func OrdersIn(r *rush.Report) map[string]bool {
	orders := map[string]bool{}
	for _, a := range r.Answers {
		switch a.Code {
		case "ok":
			orders[a.Order.ID] = true
		case "duplicate_order":
			orders[a.OrderID] = true
		}
	}

	return orders
}

// RequireExactSale requires that every unit was sold to a different user and that all other buyers got sold_out, and the
// invariants.
func RequireExactSale(t *testing.T, s *Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()

	soldOut := 0
	for _, a := range r.Answers {
		if a.Code == "sold_out" {
			soldOut++
		}
	}

	require.Len(t, OrdersIn(r), int(c.Stock), "answers: %v", r.Codes)
	require.Equal(t, len(c.Tokens)-int(c.Stock), soldOut, "answers: %v", r.Codes)
	RequireStock(t, c.Clients[0], c.VoucherID, 0)
	RequireInvariants(t, s, c, r)
}

// RequireAllServed requires that every buyer got a final answer and that the sale is sold out, and the invariants.
func RequireAllServed(t *testing.T, s *Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	for _, a := range r.Answers {
		require.Contains(t, []string{"ok", "sold_out", "duplicate_order"}, a.Code, "answers: %v", r.Codes)
	}
	// A buyer can see the order before it is committed.
	RequireSettled(t, s)
	RequireStock(t, c.Clients[0], c.VoucherID, 0)
	RequireInvariants(t, s, c, r)
}

// RequireInvariants verifies the invariants in the buyers' answers and in the database.
func RequireInvariants(t *testing.T, s *Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	verdicts, err := c.Check(context.Background(), r)
	require.NoError(t, err)
	for _, v := range verdicts {
		require.False(t, v.Broken(), "%s: %s (answers: %v)", v.ID, v.Detail, r.Codes)
	}
	s.Verify(t)
}

// RequireReady waits until a server is ready.
func (p *Server) RequireReady(t *testing.T) {
	t.Helper()
	Eventually(t, "/readyz returns 200", func() bool { return Fetch(t, p.URL+"/readyz").Status == http.StatusOK })
}

// UserOf returns the user id in an access token.
func UserOf(t *testing.T, token string) string {
	t.Helper()
	claims := jwt.RegisteredClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	require.NoError(t, err)
	return claims.Subject
}

// RequireUnavailable requires 503 with Retry-After for a purchase, 503 from /readyz and 200 from /healthz.
func (p *Server) RequireUnavailable(t *testing.T, token, sale string) {
	t.Helper()
	_, err := p.Place(t.Context(), token, sale, "", "")
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "unavailable", problem.Code)
	require.Positive(t, problem.RetryAfter)
	p.RequireNotReady(t)
}

// RequireNotReady requires 503 from /readyz and 200 from /healthz.
func (p *Server) RequireNotReady(t *testing.T) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, Fetch(t, p.URL+"/readyz").Status)
	require.Equal(t, http.StatusOK, Fetch(t, p.URL+"/healthz").Status)
}
