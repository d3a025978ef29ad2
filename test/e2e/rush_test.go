package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/internal/ops/salestats"
	"seckill/test/e2e/rig"
)

// TestRush sends 1,000 buyers to 100 units: 100 get an order, all others sold_out. The statistics have what the lane did.
func TestRush(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded", "batch/embedded", "queue/embedded").Raced("lock/embedded", "batch/embedded", "queue/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		c := rig.BuyersOf(p.Sale(t, 100), 100, s.Tokens(t, 1000), p)
		r := c.Run(t.Context())
		rig.RequireExactSale(t, s, c, r)
		requireCounted(t, s, p, c.VoucherID, r)
	})
}

// requireCounted requires that the statistics of a sale have its orders as answered, as stored, and by transaction. Only lane
// queue has a queue, and a gate with a stock.
func requireCounted(t *testing.T, s *rig.Stack, p *rig.Server, sale string, r *rush.Report) {
	t.Helper()
	stats := rig.Get("/admin/vouchers/"+sale+"/stats?hour=false", p.Admin(t))
	answered, stored := int64(r.Codes["ok"]), int64(len(rig.OrdersIn(r)))
	queued := s.Lane == "queue"

	rig.Eventually(t, "the orders are counted", func() bool {
		var now struct {
			salestats.SaleStats
			Orders any `json:"orders"` // by the names of their statuses
		}
		err := json.Unmarshal([]byte(p.Once(t, stats).Text), &now)
		return err == nil && now.Totals.Answers["ok"] >= answered && now.Totals.Settled["ok"] >= answered && now.Totals.Rows >= stored &&
			(now.Queue != nil) == queued && (now.Stock.Gate != nil) == queued
	})
}

// TestRushOnThreeServers is TestRush with three processes on one database and one Redis. Then one user sends purchases to all
// of them, without a key for one order and with a key for one of the five that the limit allows.
func TestRushOnThreeServers(t *testing.T) {
	t.Parallel()
	rig.Core("lock/mariadb", "batch/mariadb", "queue/mariadb").Full("lock/mysql", "batch/mysql", "queue/mysql").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Spawn(t, ""), s.Spawn(t, ""), s.Spawn(t, "")}
		c := rig.BuyersOf(servers[0].Sale(t, 100), 100, s.Tokens(t, 1000), servers...)
		r := c.Run(t.Context())
		rig.RequireExactSale(t, s, c, r)

		requireOneOrder(t, servers[0].Sale(t, 10), c.Tokens[0], servers...)
		sale := servers[0].Publish(t, five)
		first := postConcurrently(t, 60, rig.Purchase(sale, c.Tokens[0]).Keyed("k"), servers...)
		require.True(t, first.Success(), first.Text)
		requireOrders(t, s, servers[0], c.Tokens[0], sale, first.Order())
		s.Verify(t)
	})
}

// TestOneUserHundredTimes sends 100 concurrent purchases of one user.
func TestOneUserHundredTimes(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded", "batch/embedded", "queue/embedded").Raced("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		requireOneOrder(t, p.Sale(t, 10), s.Tokens(t, 1)[0], p)
		s.Verify(t)
	})
}

// TestWithoutLocks disables every user lock: the database alone must hold the invariants.
func TestWithoutLocks(t *testing.T) {
	t.Parallel()
	rig.Core("mariadb").Full("embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.With(rig.EnvOpenLocks + "=1")
		p := s.Serve(t)
		c := rig.BuyersOf(p.Sale(t, 100), 100, s.Tokens(t, 1000), p)
		r := c.Run(t.Context())
		rig.RequireExactSale(t, s, c, r)
		requireOneOrder(t, p.Sale(t, 10), c.Tokens[0], p)
		s.Verify(t)
	})
}

// TestRedisFlushedInMidSale flushes Redis repeatedly during a rush, which loses the locks and the id counter, and the gate.
func TestRedisFlushedInMidSale(t *testing.T) {
	t.Parallel()
	rig.Core("lock/mariadb", "queue/mariadb").Full("lock/embedded").Each(t, flushInMidSale)
}

func flushInMidSale(t *testing.T, s *rig.Stack) {
	t.Helper()
	p := s.With(rig.EnvRedeliver + "=1s").Serve(t)
	p.MayRefuse() // while Redis has lost what the server stored there
	tokens := s.Tokens(t, 500)
	c := rig.BuyersOf(p.Sale(t, 100), 100, tokens, p)
	c.Parallel = 32
	c.For = time.Second // at once, a fast machine could serve all of them before the first flush
	single := p.Sale(t, 10)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	flushes := 0
	wg.Go(func() {
		for flushes < 10 && rig.Sleep(ctx, 50*time.Millisecond) == nil {
			if err := s.Flush(); err == nil { // on a busy machine a flush may time out
				flushes++
			}
		}
	})
	r := c.Run(t.Context())
	if s.Lane == "queue" {
		concurrently(100, func(int) { _, _ = p.Place(context.Background(), tokens[0], single, "", "") })
		cancel()
		wg.Wait()
		rig.RetryUnserved(t, s, c, r)
		rig.RequireAllServed(t, s, c, r)
	} else {
		requireOneOrder(t, single, tokens[0], p)
		cancel()
		wg.Wait()
		rig.RequireExactSale(t, s, c, r)
	}
	require.Positive(t, flushes)

	// A gate that lost its data may admit a buyer again. The database then refuses the second order.
	orders := rig.Answered(t, func() ([]rush.Order, error) { return p.Orders(t.Context(), tokens[0]) })
	orders = slices.DeleteFunc(orders, func(o rush.Order) bool { return o.VoucherID != single || o.Status == "failed" })
	require.LessOrEqual(t, len(orders), 1)
}

// TestCounterLostInTheSameSecond stops the clock, so every id issued after the loss of the counter collides with an
// earlier one. A new server then starts at the same moment.
func TestCounterLostInTheSameSecond(t *testing.T) {
	t.Parallel()
	rig.Core("queue/mariadb").Full("lock/embedded", "lock/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.With(rig.EnvClock + "=" + time.Now().UTC().Format(time.RFC3339))
		p := s.Serve(t)
		const buyers = 60
		tokens := s.Tokens(t, buyers)
		c := rig.BuyersOf(p.Sale(t, buyers), buyers, tokens, p)
		r := &rush.Report{Codes: map[string]int{}}
		for part := range 3 {
			third := *c
			third.Tokens, third.Clients = tokens[part*buyers/3:(part+1)*buyers/3], []*rush.Client{p.Client}
			r.Answers = append(r.Answers, third.Run(t.Context()).Answers...)
			if part == 1 {
				require.Zero(t, p.Stop(t))
				p = s.Serve(t)
				c.Clients = []*rush.Client{p.Client}
			}
			require.NoError(t, s.Flush())
		}
		require.Len(t, rig.OrdersIn(r), buyers)
		rig.RequireInvariants(t, s, c, r)
	})
}
