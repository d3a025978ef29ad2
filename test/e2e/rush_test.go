package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/ops/rush"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
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

// TestHmdpLoadTest is the load test of the course, with the tokens that docs/hmdp.md writes for it: each of many buyers has one
// and buys once. Of 300 buyers, 100 get the 100 units. See jishuzhan.net/article/1991831503500804097 for what it takes without.
func TestHmdpLoadTest(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	purchase := rig.Request{Method: http.MethodPost, Path: "/voucher-order/seckill/" + p.Sale(t, 100)}

	var mu sync.Mutex
	answers := map[string]int{}
	var buyers errgroup.Group
	buyers.SetLimit(50)

	for _, token := range s.Tokens(t, 300) {
		buyers.Go(func() error {
			a, err := p.Send(t.Context(), purchase.With("Authorization", token))

			mu.Lock()
			defer mu.Unlock()
			answers[fmt.Sprint(a.Body["success"], " ", a.Field("errorMsg"))]++
			return err
		})
	}

	require.NoError(t, buyers.Wait())
	require.Equal(t, map[string]int{"true ": 100, "false 库存不足": 200}, answers)
	s.Verify(t)
}

const million = 1_000_000

// unusedOrderID is an order id of some hours ago that was never issued.
const unusedOrderID = "3368803458027454465"

// TestSaleWithMillionOrders covers lane queue: buyers are admitted again after Redis lost all data, reconcile restores a
// lost unit while buyers are admitted, and verify completes. It does not run in parallel to others, because its
// checks need seconds of both processors.
func TestSaleWithMillionOrders(t *testing.T) {
	env.Full(t)
	s := rig.WithoutBackgroundRepair(rig.RealStack(t).OwnDatabase(t, "--innodb-buffer-pool-size=512M",
		"--loose-innodb-log-file-size=256M", "--loose-innodb-redo-log-capacity=256M"))
	p := s.Serve(t)
	p.MayRefuse() // while a million orders are loaded
	tokens := s.Tokens(t, 2000)
	buy := func() rig.Answer {
		token := tokens[0]
		tokens = tokens[1:]
		return p.Once(t, rig.Purchase(s.Setting("SALE"), token))
	}
	const left = 5000
	s = s.With("SALE=" + p.Sale(t, million+left))
	sellMillion(t, s, s.Setting("SALE"))

	// Loading a million orders takes 4 s, and ten times as long on a busy machine.
	untilAdmitted := func(when string) {
		start := time.Now()
		for a := buy(); a.Status != http.StatusAccepted; a = buy() {
			require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
			require.NotEmpty(t, a.Header.Get("Retry-After"))
		}
		t.Log("admitted", when, "after", time.Since(start))
	}
	untilAdmitted("first")
	require.NoError(t, s.Flush())
	untilAdmitted("after FLUSHALL")

	rdb := s.Client(t)
	s.ChangeGate(t, s.Setting("SALE"), -1)
	start := time.Now()
	repaired := make(chan string, 1)
	go func() {
		defer close(repaired)
		repaired <- s.Exits(t, 0, "reconcile", "--apply")
	}()
	var report string
	for running := true; running; {
		a := buy()
		assert.Equal(t, http.StatusAccepted, a.Status, "buyers are admitted during a repair: %v", a.Body)
		select {
		case report = <-repaired:
			running = false
		case <-time.After(100 * time.Millisecond):
		}
	}
	require.Contains(t, report, "gate_differs")
	require.Contains(t, report, ": 1 finding repaired, 0 left")
	t.Log("repaired after", time.Since(start))

	rig.RequireSettled(t, s)
	id := env.Must(strconv.ParseInt(s.Setting("SALE"), 10, 64))(t)
	level := env.Must(admission.New(admission.Config{Redis: rdb}).Level(t.Context(), id))(t)
	require.EqualValues(t, million+left, level.Stock+level.Held)
	start = time.Now()
	s.Verify(t)
	t.Log("verified in", time.Since(start))
}

// sellMillion inserts 1,000,000 paid orders of different users and takes their units from the stock. The table of orders must
// be empty, so that MariaDB fills it in bulk.
func sellMillion(t *testing.T, s *rig.Stack, sale string) {
	t.Helper()
	start := time.Now()
	s.Query(t, func(db *sql.DB) {
		db.SetMaxOpenConns(1)
		for _, statement := range []string{
			"SET SESSION unique_checks = 0, foreign_key_checks = 0",
			fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, paid_at, updated_at)
				SELECT %s + 1 + n, 1000001 + n, %s, 1, 2, 1000, NOW(3), NOW(3), NOW(3), NOW(3) FROM %s numbers ORDER BY n`,
				unusedOrderID, sale, env.Numbers(6)),
			fmt.Sprintf("UPDATE seckill_vouchers SET stock = stock - %d WHERE voucher_id = %s", million, sale),
		} {
			env.Must(db.ExecContext(t.Context(), statement))(t)
		}
	})
	t.Log("1,000,000 orders written in", time.Since(start))
}
