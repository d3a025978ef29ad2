package e2e

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
)

// buyersOf returns simulated buyers for a sale on one or several servers.
func buyersOf(sale string, stock int64, tokens []string, servers ...*server) *rush.Buyers {
	c := &rush.Buyers{VoucherID: sale, Stock: stock, Tokens: tokens, Parallel: 256}
	for _, p := range servers {
		c.Clients = append(c.Clients, p.Client)
	}
	return c
}

// requireInvariants verifies the invariants in the buyers' answers and in the database.
func requireInvariants(t *testing.T, s *stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	verdicts, err := c.Check(context.Background(), r)
	require.NoError(t, err)
	for _, v := range verdicts {
		require.False(t, v.Broken(), "%s: %s (answers: %v)", v.ID, v.Detail, r.Codes)
	}
	s.verify(t)
}

// ordersIn returns the ids of the orders of all buyers who have one. On a busy machine the answer of a buyer may be that a
// former request, which was answered 503, has placed the order.
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

// requireExactSale requires that every unit was sold to a different user and that all other buyers got sold_out.
func requireExactSale(t *testing.T, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	soldOut := 0
	for _, a := range r.Answers {
		if a.Code == "sold_out" {
			soldOut++
		}
	}
	require.Len(t, ordersIn(r), int(c.Stock), "answers: %v", r.Codes)
	require.Equal(t, len(c.Tokens)-int(c.Stock), soldOut, "answers: %v", r.Codes)
	requireStock(t, c.Clients[0], c.VoucherID, 0)
}

// requireStock waits until the API shows a stock. A cached value may be a second old.
func requireStock(t *testing.T, c *rush.Client, sale string, stock int64) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		v, err := c.Voucher(context.Background(), sale)
		assert.NoError(t, err)
		assert.Equal(t, stock, v.Stock)
		assert.Equal(t, stock == 0, v.State == "sold_out")
	}, time.Minute, 50*time.Millisecond)
}

// TestRush sends 1,000 buyers to 100 units: 100 get an order, all others sold_out.
func TestRush(t *testing.T) {
	t.Parallel()
	onEach(t, onEmbedded, false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		c := buyersOf(p.sale(t, 100), 100, s.tokens(t, 1000), p)
		r := c.Run(t.Context())
		requireExactSale(t, c, r)
		requireInvariants(t, s, c, r)
	})
}

// TestRushOnThreeServers is TestRush with three processes on one database and one Redis.
func TestRushOnThreeServers(t *testing.T) {
	t.Parallel()
	onEach(t, append(onMariaDB, onMySQL...), true, func(t *testing.T, s *stack) {
		servers := []*server{s.spawn(t, ""), s.spawn(t, ""), s.spawn(t, "")}
		c := buyersOf(servers[0].sale(t, 100), 100, s.tokens(t, 1000), servers...)
		r := c.Run(t.Context())
		requireExactSale(t, c, r)
		requireInvariants(t, s, c, r)
	})
}

// TestOneUserHundredTimes sends 100 concurrent purchases of one user.
func TestOneUserHundredTimes(t *testing.T) {
	t.Parallel()
	onEach(t, onEmbedded, false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		requireOneOrder(t, p.sale(t, 10), s.tokens(t, 1)[0], p)
		s.verify(t)
	})
}

func TestOneUserHundredTimesOnThreeServers(t *testing.T) {
	t.Parallel()
	onEach(t, onMariaDB, true, func(t *testing.T, s *stack) {
		servers := []*server{s.spawn(t, ""), s.spawn(t, ""), s.spawn(t, "")}
		requireOneOrder(t, servers[0].sale(t, 10), s.tokens(t, 1)[0], servers...)
		s.verify(t)
	})
}

// requireOneOrder requires one order. All other answers are duplicate_order with its id, or one that asks to come back:
// order_in_progress, or unavailable on a machine that is so busy that a purchase takes seconds.
func requireOneOrder(t *testing.T, sale, token string, servers ...*server) {
	t.Helper()
	const clicks = 100
	var (
		orders = make([]rush.Order, clicks)
		errs   = make([]error, clicks)
		wg     sync.WaitGroup
	)
	for i := range clicks {
		wg.Go(func() { orders[i], errs[i] = servers[i%len(servers)].Place(context.Background(), token, sale) })
	}
	wg.Wait()
	all := answered(t, func() ([]rush.Order, error) { return servers[0].Orders(context.Background(), token) })
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

// TestWithoutLocks disables every user lock: the database alone must hold the invariants.
func TestWithoutLocks(t *testing.T) {
	t.Parallel()
	each(t, false, func(t *testing.T, s *stack) {
		s = s.with(envOpenLocks + "=1")
		p := s.serve(t)
		c := buyersOf(p.sale(t, 100), 100, s.tokens(t, 1000), p)
		r := c.Run(t.Context())
		requireExactSale(t, c, r)
		requireInvariants(t, s, c, r)
		requireOneOrder(t, p.sale(t, 10), c.Tokens[0], p)
		s.verify(t)
	})
}

// TestRedisFlushedInMidSale flushes Redis repeatedly during a rush, which loses the locks and the id counter.
func TestRedisFlushedInMidSale(t *testing.T) {
	t.Parallel()
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		tokens := s.tokens(t, 1000)
		c := buyersOf(p.sale(t, 100), 100, tokens, p)
		single := p.sale(t, 10)

		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		flushes := 0
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := s.flush(); err == nil { // on a busy machine a flush may time out
					flushes++
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		r := c.Run(t.Context())
		if s.lane == "queue" {
			orderConcurrently(p, single, tokens[0])
			cancel()
			wg.Wait()
			retryUnserved(t, s, c, r)
			requireSoldOut(t, s, c, r)
		} else {
			requireOneOrder(t, single, tokens[0], p)
			cancel()
			wg.Wait()
			requireExactSale(t, c, r)
		}
		require.Positive(t, flushes)
		requireInvariants(t, s, c, r)
		require.LessOrEqual(t, len(notFailed(t, p.Client, tokens[0], single)), 1)
	})
}

// orderConcurrently sends 100 concurrent purchases of one user and ignores the answers.
func orderConcurrently(p *server, sale, token string) {
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { _, _ = p.Place(context.Background(), token, sale) })
	}
	wg.Wait()
}

// retryUnserved repeats the purchases of buyers without an order until the stock is zero. In lane queue, a Redis that
// loses its data loses reservations, and with them units for which other buyers got sold_out.
func retryUnserved(t *testing.T, s *stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	requireSettled(t, s)
	repeated := make([]bool, len(r.Answers)) // purchases repeated while Redis lost data
	for i, a := range r.Answers {
		repeated[i] = a.Tries > 1
	}
	eventually(t, "all units are sold", func() bool {
		var still []int
		rest := *c
		rest.Tokens = nil
		for i, a := range r.Answers {
			if a.Code != "ok" {
				still, rest.Tokens = append(still, i), append(rest.Tokens, c.Tokens[i])
			}
		}
		for n, a := range rest.Run(t.Context()).Answers {
			r.Answers[still[n]] = a
		}
		v, err := c.Clients[0].Voucher(t.Context(), c.VoucherID)
		return err == nil && v.Stock == 0
	})
	// A worker that held the entry of a lost reservation may still commit the order. Its buyer has repeated the
	// purchase meanwhile and may have got sold_out, because the gate does not query the database.
	for i := range r.Answers {
		if a := &r.Answers[i]; a.Code == "sold_out" && repeated[i] {
			if orders := notFailed(t, c.Clients[0], c.Tokens[i], c.VoucherID); len(orders) > 0 {
				a.Code, a.Order = "ok", orders[0]
			}
		}
	}
}

// notFailed returns a user's orders of a sale without failed ones: a gate that lost its data may admit a buyer again,
// and the database then refuses the second order.
func notFailed(t *testing.T, c *rush.Client, token, sale string) []rush.Order {
	t.Helper()
	orders := answered(t, func() ([]rush.Order, error) { return c.Orders(t.Context(), token) })
	return slices.DeleteFunc(orders, func(o rush.Order) bool { return o.VoucherID != sale || o.Status == "failed" })
}

// TestCounterLostInTheSameSecond stops the clock, so every id issued after the loss of the counter collides with an
// earlier one. A new server then starts at the same moment.
func TestCounterLostInTheSameSecond(t *testing.T) {
	t.Parallel()
	eachLane(t, false, func(t *testing.T, s *stack) {
		s = s.with(envClock + "=" + time.Now().UTC().Format(time.RFC3339))
		p := s.serve(t)
		const buyers = 60
		tokens := s.tokens(t, buyers)
		c := buyersOf(p.sale(t, buyers), buyers, tokens, p)
		r := &rush.Report{Codes: map[string]int{}}
		for part := range 3 {
			third := *c
			third.Tokens, third.Clients = tokens[part*buyers/3:(part+1)*buyers/3], []*rush.Client{p.Client}
			r.Answers = append(r.Answers, third.Run(t.Context()).Answers...)
			if part == 1 {
				require.Zero(t, p.stop(t))
				p = s.serve(t)
				c.Clients = []*rush.Client{p.Client}
			}
			require.NoError(t, s.flush())
		}
		require.Len(t, ordersIn(r), buyers)
		requireInvariants(t, s, c, r)
	})
}
