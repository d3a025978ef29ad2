package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

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
