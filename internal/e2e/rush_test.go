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

// crowd makes buyers for a sale on one or several servers.
func crowd(sale string, stock int64, tokens []string, servers ...*process) *rush.Crowd {
	c := &rush.Crowd{VoucherID: sale, Stock: stock, Tokens: tokens, Parallel: 256}
	for _, p := range servers {
		c.Clients = append(c.Clients, p.Client)
	}
	return c
}

// judge requires every promise, as the buyers see it and as the database has it.
func judge(t *testing.T, s *stack, c *rush.Crowd, r *rush.Report) {
	t.Helper()
	verdicts, err := c.Check(context.Background(), r)
	require.NoError(t, err)
	for _, v := range verdicts {
		require.True(t, v.Holds, "%s: %s (answers: %v)", v.ID, v.Detail, r.Codes)
	}
	s.verify(t)
}

// requireExactSale requires that all units were sold, to as many users, and that everybody else heard sold_out.
func requireExactSale(t *testing.T, c *rush.Crowd, r *rush.Report) {
	t.Helper()
	users := map[string]bool{}
	soldOut := 0
	for _, a := range r.Answers {
		switch a.Code {
		case "ok":
			users[a.Order.UserID] = true
		case "sold_out":
			soldOut++
		}
	}
	require.Len(t, users, int(c.Stock), "answers: %v", r.Codes)
	require.Equal(t, len(c.Tokens)-int(c.Stock), soldOut, "answers: %v", r.Codes)
	requireStock(t, c.Clients[0], c.VoucherID, 0)
}

// requireStock requires the stock that a sale shows, which may be a second old.
func requireStock(t *testing.T, c *rush.Client, sale string, stock int64) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		v, err := c.Voucher(context.Background(), sale)
		assert.NoError(t, err)
		assert.Equal(t, stock, v.Stock)
		assert.Equal(t, stock == 0, v.State == "sold_out")
	}, 5*time.Second, 50*time.Millisecond)
}

// TestRush is the promise: 1,000 buyers, 100 units, 100 orders, everybody else sold out.
func TestRush(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		c := crowd(p.sale(t, 100), 100, s.tokens(t, 1000), p)
		r := c.Run(t.Context())
		requireExactSale(t, c, r)
		judge(t, s, c, r)
	})
}

// TestRushOnThreeServers is the same with three processes on one database and one Redis.
func TestRushOnThreeServers(t *testing.T) {
	eachLane(t, true, func(t *testing.T, s *stack) {
		servers := []*process{s.serve(t, ""), s.serve(t, ""), s.serve(t, "")}
		c := crowd(servers[0].sale(t, 100), 100, s.tokens(t, 1000), servers...)
		r := c.Run(t.Context())
		requireExactSale(t, c, r)
		judge(t, s, c, r)
	})
}

// TestOneUserHundredTimes sends one user's hundred clicks at once.
func TestOneUserHundredTimes(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		requireOneOrder(t, p.sale(t, 10), s.tokens(t, 1)[0], p)
		s.verify(t)
	})
}

func TestOneUserHundredTimesOnThreeServers(t *testing.T) {
	eachLane(t, true, func(t *testing.T, s *stack) {
		servers := []*process{s.serve(t, ""), s.serve(t, ""), s.serve(t, "")}
		requireOneOrder(t, servers[0].sale(t, 10), s.tokens(t, 1)[0], servers...)
		s.verify(t)
	})
}

// requireOneOrder requires one order, and of all other answers duplicate_order with its id or order_in_progress.
func requireOneOrder(t *testing.T, sale, token string, servers ...*process) {
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
	var placed string
	for i, o := range orders {
		if errs[i] == nil {
			require.Empty(t, placed, "two orders")
			placed = o.ID
		}
	}
	require.NotEmpty(t, placed, "no order: %v", errs)
	for _, err := range errs {
		var p *rush.Problem
		switch {
		case err == nil:
		case !errors.As(err, &p):
			require.NoError(t, err)
		case p.Code == "duplicate_order":
			require.Equal(t, placed, p.OrderID)
		default:
			require.Equal(t, "order_in_progress", p.Code)
			require.Positive(t, p.RetryAfter)
		}
	}
	all, err := servers[0].Orders(context.Background(), token)
	require.NoError(t, err)
	held := slices.DeleteFunc(all, func(o rush.Order) bool { return o.VoucherID != sale })
	require.Len(t, held, 1)
}

// TestWithoutLocks forces every user lock open: the database alone must keep the promises.
func TestWithoutLocks(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		s = s.with(envOpenLocks + "=1")
		p := s.serve(t, "")
		c := crowd(p.sale(t, 100), 100, s.tokens(t, 1000), p)
		r := c.Run(t.Context())
		requireExactSale(t, c, r)
		judge(t, s, c, r)
		requireOneOrder(t, p.sale(t, 10), c.Tokens[0], p)
		s.verify(t)
	})
}

// TestRedisFlushedInMidSale empties Redis again and again during the rush: locks and the id counter are lost.
func TestRedisFlushedInMidSale(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		tokens := s.tokens(t, 1000)
		c := crowd(p.sale(t, 100), 100, tokens, p)
		single := p.sale(t, 10)

		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		flushes := 0
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := s.flush(); err == nil { // else a busy machine was late
					flushes++
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		r := c.Run(t.Context())
		if s.lane == "queue" {
			clickOften(p, single, tokens[0])
			cancel()
			wg.Wait()
			pressAgain(t, s, c, r)
			requireSoldOut(t, s, c, r)
		} else {
			requireOneOrder(t, single, tokens[0], p)
			cancel()
			wg.Wait()
			requireExactSale(t, c, r)
		}
		require.Positive(t, flushes)
		judge(t, s, c, r)
		held, err := p.Orders(t.Context(), tokens[0])
		require.NoError(t, err)
		require.LessOrEqual(t, len(slices.DeleteFunc(held, func(o rush.Order) bool { return o.VoucherID != single })), 1)
	})
}

// clickOften sends one user's clicks at once, whatever the answers.
func clickOften(p *process, sale, token string) {
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { _, _ = p.Place(context.Background(), token, sale) })
	}
	wg.Wait()
}

// pressAgain sends those who have no order once more, until nothing is left. In the lane queue a Redis that loses its
// data takes admissions with it: of buyers who were told so, and of those for whom others heard sold_out.
func pressAgain(t *testing.T, s *stack, c *rush.Crowd, r *rush.Report) {
	t.Helper()
	requireSettled(t, s)
	pressed := make([]bool, len(r.Answers)) // more than once, while Redis was forgetful
	for i, a := range r.Answers {
		pressed[i] = a.Tries > 1
	}
	eventually(t, "everything is sold", func() bool {
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
	// An order that Redis forgot may be committed after all, by a worker who had it in hand. Its buyer, who was told that
	// it is lost and pressed again, may have heard sold_out, which is what is known without asking the database.
	for i := range r.Answers {
		if a := &r.Answers[i]; a.Code == "sold_out" && pressed[i] {
			orders, err := c.Clients[0].Orders(t.Context(), c.Tokens[i])
			require.NoError(t, err)
			if n := slices.IndexFunc(orders, func(o rush.Order) bool { return o.VoucherID == c.VoucherID }); n >= 0 {
				a.Code, a.Order = "ok", orders[n]
			}
		}
	}
}

// TestCounterLostInTheSameSecond stops the clock, so that every id made after the loss of the counter collides
// with one made before, and then sets it back to the same moment on a new server.
func TestCounterLostInTheSameSecond(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		s = s.with(envClock + "=" + time.Now().UTC().Format(time.RFC3339))
		p := s.serve(t, "")
		const buyers = 60
		tokens := s.tokens(t, buyers)
		c := crowd(p.sale(t, buyers), buyers, tokens, p)
		r := &rush.Report{Codes: map[string]int{}}
		for part := range 3 {
			third := *c
			third.Tokens, third.Clients = tokens[part*buyers/3:(part+1)*buyers/3], []*rush.Client{p.Client}
			r.Answers = append(r.Answers, third.Run(t.Context()).Answers...)
			if part == 1 {
				require.Zero(t, p.stop(t))
				p = s.serve(t, "")
				c.Clients = []*rush.Client{p.Client}
			}
			require.NoError(t, s.flush())
		}
		for _, a := range r.Answers {
			require.Equal(t, "ok", a.Code)
		}
		judge(t, s, c, r)
	})
}
