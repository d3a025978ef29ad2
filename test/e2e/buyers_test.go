package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

// buyersOf returns simulated buyers for a sale on one or several servers.
func buyersOf(sale string, stock int64, tokens []string, servers ...*rig.Server) *rush.Buyers {
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

// withPasses gives each buyer a new pass, as far as there are units, and returns the buyers.
func withPasses(t *testing.T, c *rush.Buyers, p *rig.Server) *rush.Buyers {
	t.Helper()
	c.Passes = make([]string, len(c.Tokens))
	for i, token := range c.Tokens {
		a := mustEntry(t, p, http.MethodPost, token, c.VoucherID, "")
		require.True(t, a.Pass != "" || a.Code == "sold_out" || a.Code == "unpaid_limit", "entry: %+v", a)
		c.Passes[i] = a.Pass
	}
	return c
}

// requireInvariants verifies the invariants in the buyers' answers and in the database.
func requireInvariants(t *testing.T, s *rig.Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	verdicts, err := c.Check(context.Background(), r)
	require.NoError(t, err)
	for _, v := range verdicts {
		require.False(t, v.Broken(), "%s: %s (answers: %v)", v.ID, v.Detail, r.Codes)
	}
	s.Verify(t)
}

// ordersIn returns the ids of all orders in the answers. On a busy machine an answer may name the order of an earlier request,
// which was answered 503.
func ordersIn(r *rush.Report) map[string]bool {
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

// requireExactSale requires that every unit was sold to a different user and that all other buyers got sold_out, and the
// invariants.
func requireExactSale(t *testing.T, s *rig.Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()

	soldOut := 0
	for _, a := range r.Answers {
		if a.Code == "sold_out" {
			soldOut++
		}
	}

	require.Len(t, ordersIn(r), int(c.Stock), "answers: %v", r.Codes)
	require.Equal(t, len(c.Tokens)-int(c.Stock), soldOut, "answers: %v", r.Codes)
	rig.RequireStock(t, c.Clients[0], c.VoucherID, 0)
	requireInvariants(t, s, c, r)
}

// concurrently calls fn for the numbers below n, at most 256 at a time.
func concurrently(n int, fn func(i int)) {
	var calls errgroup.Group
	calls.SetLimit(256)

	for i := range n {
		calls.Go(func() error {
			fn(i)
			return nil
		})
	}

	_ = calls.Wait() // the functions return no errors
}

// requireOneOrder requires one order. All other answers are duplicate_order with its id, or one that asks to come back:
// order_in_progress, or unavailable on a machine that is so busy that a purchase takes seconds.
func requireOneOrder(t *testing.T, sale, token string, servers ...*rig.Server) {
	t.Helper()
	const clicks = 100
	orders := make([]rush.Order, clicks)
	errs := make([]error, clicks)

	concurrently(clicks, func(i int) {
		orders[i], errs[i] = servers[i%len(servers)].Place(context.Background(), token, sale, "", "")
	})

	all := rig.Answered(t, func() ([]rush.Order, error) { return servers[0].Orders(context.Background(), token) })
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

// retryUnserved repeats the purchases of buyers without an order until the stock is zero. In lane queue, a Redis that
// loses its data loses reservations, and with them units for which other buyers got sold_out.
func retryUnserved(t *testing.T, s *rig.Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	rig.RequireSettled(t, s)

	rig.Eventually(t, "all units are sold", func() bool {
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

// longRush starts a rush and returns once a tenth of the stock is sold. Buyers arrive for at least the given time, and the last
// of them, for whom units are left, only when the function is called: a fault before that is in the middle of the rush on any machine.
func longRush(t *testing.T, s *rig.Stack, c *rush.Buyers, lasts time.Duration) func() *rush.Report {
	t.Helper()
	n := min(len(c.Tokens)/2, int(c.Stock)*3/4)
	c.Parallel = 32
	c.Pause = lasts * time.Duration(c.Parallel) / time.Duration(n)

	first := *c
	first.Tokens = c.Tokens[:n]
	done := make(chan *rush.Report, 1)
	go func() { done <- first.Run(t.Context()) }()

	rig.Eventually(t, "the rush begins", func() bool {
		return stockOf(t, s, c.VoucherID) <= c.Stock*9/10
	})

	return func() *rush.Report {
		last := *c
		last.Tokens = c.Tokens[n:]
		last.Pause = 0

		r := <-done
		rest := last.Run(t.Context())
		r.Answers = append(r.Answers, rest.Answers...)
		for code, times := range rest.Codes {
			r.Codes[code] += times
		}

		return r
	}
}

// stockOf returns the free units of a sale in the database.
func stockOf(t *testing.T, s *rig.Stack, sale string) int64 {
	t.Helper()
	return s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+sale)
}

// requireSoldOut requires that every buyer got a final answer and that the sale is sold out, and the invariants.
func requireSoldOut(t *testing.T, s *rig.Stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	for _, a := range r.Answers {
		require.Contains(t, []string{"ok", "sold_out", "duplicate_order"}, a.Code, "answers: %v", r.Codes)
	}
	// A buyer can see the order before it is committed.
	rig.RequireSettled(t, s)
	rig.RequireStock(t, c.Clients[0], c.VoucherID, 0)
	requireInvariants(t, s, c, r)
}

// requireReady waits until a server is ready.
func requireReady(t *testing.T, p *rig.Server) {
	t.Helper()
	rig.Eventually(t, "/readyz returns 200", func() bool { return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusOK })
}

// userOf returns the user id in an access token.
func userOf(t *testing.T, token string) string {
	t.Helper()
	claims := jwt.RegisteredClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	require.NoError(t, err)
	return claims.Subject
}
