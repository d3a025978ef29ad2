package rig

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
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

// OrdersIn returns the ids of the orders of all buyers who have one. On a busy machine the answer of a buyer may be that a
// former request, which was answered 503, has placed the order.
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

// RequireStock waits until the API shows a stock. A cached value may be a second old.
func RequireStock(t *testing.T, c *rush.Client, sale string, stock int64) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		v, err := c.Voucher(context.Background(), sale)
		assert.NoError(t, err)
		assert.Equal(t, stock, v.Stock)
		assert.Equal(t, stock == 0, v.State == "sold_out")
	}, time.Minute, 50*time.Millisecond)
}

// RequireOneOrder requires one order. All other answers are duplicate_order with its id, or one that asks to come back:
// order_in_progress, or unavailable on a machine that is so busy that a purchase takes seconds.
func RequireOneOrder(t *testing.T, sale, token string, servers ...*Server) {
	t.Helper()
	const clicks = 100
	orders := make([]rush.Order, clicks)
	errs := make([]error, clicks)

	var wg sync.WaitGroup
	for i := range clicks {
		wg.Go(func() { orders[i], errs[i] = servers[i%len(servers)].Place(context.Background(), token, sale) })
	}
	wg.Wait()

	all := Answered(t, func() ([]rush.Order, error) { return servers[0].Orders(context.Background(), token) })
	held := slices.DeleteFunc(all, func(o rush.Order) bool { return o.VoucherID != sale })
	require.Len(t, held, 1, "answers: %v", errs)

	placed := 0
	for i, err := range errs {
		var p *rush.Problem
		switch {
		case err == nil:
			placed++
			require.Equal(t, held[0].ID, orders[i].ID)
		case !errors.As(err, &p):
			require.NoError(t, err)
		case p.Code == "duplicate_order":
			require.Equal(t, held[0].ID, p.OrderID)
		default:
			require.Contains(t, []string{"order_in_progress", "unavailable"}, p.Code)
			require.Positive(t, p.RetryAfter)
		}
	}

	require.LessOrEqual(t, placed, 1)
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

// NotFailed returns a user's orders of a sale without failed ones: a gate that lost its data may admit a buyer again,
// and the database then refuses the second order.
func NotFailed(t *testing.T, c *rush.Client, token, sale string) []rush.Order {
	t.Helper()
	orders := Answered(t, func() ([]rush.Order, error) { return c.Orders(t.Context(), token) })
	return slices.DeleteFunc(orders, func(o rush.Order) bool { return o.VoucherID != sale || o.Status == "failed" })
}

// LongRush starts a rush and returns once a tenth of the stock is sold. Buyers arrive for at least the given time, and the last
// of them, for whom units are left, only when the function is called: a fault before that is in the middle of the rush on any machine.
func LongRush(t *testing.T, s *Stack, c *rush.Buyers, lasts time.Duration) func() *rush.Report {
	t.Helper()
	n := min(len(c.Tokens)/2, int(c.Stock)*3/4)
	c.Parallel = 32
	c.Pause = lasts * time.Duration(c.Parallel) / time.Duration(n)

	first := *c
	first.Tokens = c.Tokens[:n]
	done := make(chan *rush.Report, 1)
	go func() { done <- first.Run(t.Context()) }()

	Eventually(t, "the rush begins", func() bool {
		return s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID) <= c.Stock*9/10
	})

	return func() *rush.Report {
		last := *c
		last.Tokens = c.Tokens[n:]

		r := <-done
		rest := last.Run(t.Context())
		r.Answers = append(r.Answers, rest.Answers...)
		for code, times := range rest.Codes {
			r.Codes[code] += times
		}

		return r
	}
}

// RequireSoldOut requires that every buyer got a final answer and that the sale is sold out, and the invariants.
func RequireSoldOut(t *testing.T, s *Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	for _, a := range r.Answers {
		require.Contains(t, []string{"ok", "sold_out", "duplicate_order"}, a.Code, "answers: %v", r.Codes)
	}
	if s.Lane == "queue" {
		// A buyer can see the order before it is committed.
		RequireSettled(t, s)
	}
	RequireStock(t, c.Clients[0], c.VoucherID, 0)
	RequireInvariants(t, s, c, r)
}

// RequireReady waits until a server is ready.
func RequireReady(t *testing.T, p *Server) {
	t.Helper()
	Eventually(t, "/readyz returns 200", func() bool { return Fetch(t, p.URL+"/readyz").Status == http.StatusOK })
}

// RequireCode requires that an error is an answer with this code.
func RequireCode(t *testing.T, code string, err error) {
	t.Helper()
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, code, problem.Code)
}

// UserOf returns the user id in an access token.
func UserOf(t *testing.T, token string) string {
	t.Helper()
	claims := jwt.RegisteredClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	require.NoError(t, err)
	return claims.Subject
}

// SaleStats is an event of the sale statistics.
type SaleStats struct {
	Instances int
	Stock     struct{ Database, Gate *int64 }
	Queue     *struct{ Lag int64 }
	Totals    saleCounters
	Seconds   []saleCounters
	Invariant []struct{ OK *bool } `json:"invariants"`
}

type saleCounters struct {
	At                string
	Outcomes, Settled map[string]int
	BatchRows         int `json:"batch_rows"`
}

// WatchSale opens the event stream of a sale and returns its events until the stream ends.
func (p *Server) WatchSale(t *testing.T, admin, sale string) <-chan SaleStats {
	t.Helper()
	return feed[SaleStats](p.MustOpen(t, Get("/admin/vouchers/"+sale+"/events", admin)))
}
