package e2e

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

// terms are what an order takes over from its sale.
type terms struct{ price, payTimeout int64 }

// TestSaleIsChangedInMidRush changes a sale on two servers while buyers arrive: price and time to pay together, the limit per
// user, the entry and the limit of unpaid orders. Every order has the price and the time of one version, no user has more
// orders than the limit of that moment, and a server that has once asked for a pass sells nothing without one.
func TestSaleIsChangedInMidRush(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "batch/mariadb", "queue/mariadb", "lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Serve(t), s.Serve(t)}
		const stock = 4000 // more than are sold
		sale := servers[0].Publish(t, rig.Offer{Stock: stock, PayTimeout: 900, Segments: 4})
		versions := map[terms]bool{{100, 900}: true}
		tokens := s.Tokens(t, stock+1)
		outsider := tokens[stock]
		left := func() int64 { return s.StockOf(t, sale) }
		most := func() int64 {
			return s.Count(t, "SELECT COALESCE(MAX(n), 0) FROM (SELECT COUNT(*) AS n FROM voucher_orders WHERE voucher_id = "+sale+" GROUP BY user_id) AS users")
		}

		var buyers sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		defer buyers.Wait()
		defer stop()
		var refused atomic.Int64
		for i := range 16 {
			buyers.Go(func() {
				for n := i; ctx.Err() == nil; n += 16 {
					err := enterAndBuy(ctx, servers[n/16%2], tokens[n%stock], sale)
					var problem *rush.Problem
					if errors.As(err, &problem) && problem.Code == "internal" {
						refused.Add(1)
					}
				}
			})
		}

		sell := func() {
			t.Helper()
			before := left()
			rig.Eventually(t, "buyers go on", func() bool { return left() < before-10 })
		}
		change := func(n int, fields map[string]any) {
			t.Helper()
			sell()
			servers[n%2].Must(t, rig.Patch("/admin/vouchers/"+sale, servers[n%2].Admin(t), fields))
		}
		newTerms := func(n int, is terms) {
			t.Helper()
			versions[is] = true
			change(n, map[string]any{"pay_value": is.price, "pay_timeout": is.payTimeout})
		}
		// enter changes the entry, and waits until no server sells without a pass.
		enter := func(n int, entry map[string]any) {
			t.Helper()
			change(n, map[string]any{"entry": entry})
			for range 2 {
				for _, p := range servers {
					rig.Eventually(t, "a server asks for a pass", func() bool { return p.Do(t, rig.Purchase(sale, outsider)).Field("code") == "entry_required" })
				}
			}
			for _, p := range servers {
				rig.RequireProblem(t, http.StatusForbidden, "entry_required", p.Do(t, rig.Purchase(sale, outsider)))
			}
		}

		newTerms(0, terms{150, 600})
		require.LessOrEqual(t, most(), int64(1))
		change(1, map[string]any{"limit_per_user": 2})
		enter(0, map[string]any{"mode": "pass"})
		newTerms(1, terms{130, 300})
		change(0, map[string]any{"unpaid_limit": 3})
		enter(1, map[string]any{"mode": "room", "rate": 10_000})
		newTerms(0, terms{90, 1200})
		change(1, map[string]any{"entry": map[string]any{"mode": "open"}})
		newTerms(0, terms{170, 1800})
		sell()
		stop()
		buyers.Wait()
		rig.RequireSettled(t, s)

		require.Zero(t, refused.Load(), "internal errors")
		require.LessOrEqual(t, most(), int64(2))
		sold := soldUnder(t, s, sale)
		t.Logf("orders by terms: %v", sold)
		for is := range sold {
			require.True(t, versions[is], "orders with the terms %v: %v", is, sold)
		}
		s.Verify(t)
	})
}

// enterAndBuy orders one unit, if the sale asks for it with a pass.
func enterAndBuy(ctx context.Context, p *rig.Server, token, sale string) error {
	_, err := p.Place(ctx, token, sale, "", "")
	var problem *rush.Problem
	if !errors.As(err, &problem) || problem.Code != "entry_required" {
		return err
	}

	a, err := askEntry(ctx, p, http.MethodPost, token, sale, "")
	for ticket := a.Ticket; err == nil && a.Pass == "" && a.Code == ""; {
		if err := rig.Sleep(ctx, time.Duration(a.Poll)*time.Millisecond); err != nil {
			return err
		}
		a, err = askEntry(ctx, p, http.MethodGet, token, sale, ticket)
	}
	if err != nil || a.Pass == "" {
		return err
	}

	_, err = p.Place(ctx, token, sale, "", a.Pass)
	return err
}

// soldUnder counts the orders of a sale by their terms.
func soldUnder(t *testing.T, s *rig.Stack, sale string) map[terms]int {
	t.Helper()
	seconds := "TIMESTAMPDIFF(SECOND, created_at, expires_at)"
	if s.IsEmbedded() {
		seconds = "(expires_at - created_at) / 1000"
	}
	sold := map[terms]int{}
	s.Query(t, func(db *sql.DB) {
		rows, err := db.QueryContext(t.Context(), "SELECT amount, "+seconds+", COUNT(*) FROM voucher_orders WHERE voucher_id = "+sale+" GROUP BY 1, 2")
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var is terms
			var n int
			require.NoError(t, rows.Scan(&is.price, &is.payTimeout, &n))
			sold[is] = n
		}
		require.NoError(t, rows.Err())
	})
	return sold
}
