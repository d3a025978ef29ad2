package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
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
	rig.Core("lock/mariadb", "batch/mariadb", "queue/mariadb").Full("lock/mysql", "batch/mysql", "queue/mysql").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Spawn(t, ""), s.Spawn(t, ""), s.Spawn(t, "")}
		c := rig.BuyersOf(servers[0].Sale(t, 100), 100, s.Tokens(t, 1000), servers...)
		rig.RequireExactSale(t, s, c, c.Run(t.Context()))

		requireOneOrder(t, servers[0].Sale(t, 10), c.Tokens[0], servers...)
		sale := servers[0].Publish(t, five)
		first := postConcurrently(t, 60, rig.Purchase(sale, c.Tokens[0]).Keyed("k"), servers...)
		require.True(t, first.Success(), first.Text)
		requireOrders(t, s, servers[0], c.Tokens[0], sale, first.Order())
		s.Verify(t)
	})
}

func TestOneUserHundredTimes(t *testing.T) {
	rig.Core("lock/embedded", "batch/embedded", "queue/embedded").Raced("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		requireOneOrder(t, p.Sale(t, 10), s.Tokens(t, 1)[0], p)
		s.Verify(t)
	})
}

// TestWithoutLocks disables every user lock: the database alone must hold the invariants.
func TestWithoutLocks(t *testing.T) {
	rig.Core("mariadb").Full("embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.With(rig.EnvOpenLocks + "=1")
		p := s.Serve(t)
		c := rig.BuyersOf(p.Sale(t, 100), 100, s.Tokens(t, 1000), p)
		rig.RequireExactSale(t, s, c, c.Run(t.Context()))
		requireOneOrder(t, p.Sale(t, 10), c.Tokens[0], p)
		s.Verify(t)
	})
}

// TestRedisFlushedInMidSale flushes Redis repeatedly during a rush, which loses the locks and the id counter, and the gate.
func TestRedisFlushedInMidSale(t *testing.T) {
	rig.Core("lock/mariadb", "queue/mariadb").Full("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.With(rig.EnvRedeliver + "=1s").Serve(t)
		p.MayRefuse() // while Redis has lost what the server stored there
		tokens := s.Tokens(t, 250)
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
		require.LessOrEqual(t, len(p.OrdersOf(t, tokens[0], single, "failed")), 1)
	})
}

// TestCounterLostInTheSameSecond stops the clock, so every id issued after the loss of the counter collides with an
// earlier one. A new server then starts at the same moment.
func TestCounterLostInTheSameSecond(t *testing.T) {
	rig.Core("queue/mariadb").Full("lock/embedded", "lock/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.With(rig.EnvClock + "=" + time.Now().UTC().Format(time.RFC3339))
		p := s.Serve(t)
		const buyers = 60
		tokens := s.Tokens(t, buyers)
		sale := p.Sale(t, buyers)
		r := &rush.Report{Codes: map[string]int{}}
		for part := range 3 {
			third := rig.BuyersOf(sale, buyers, tokens[part*buyers/3:(part+1)*buyers/3], p)
			r.Answers = append(r.Answers, third.Run(t.Context()).Answers...)
			if part == 1 {
				require.Zero(t, p.Stop(t))
				p = s.Serve(t)
			}
			require.NoError(t, s.Flush())
		}
		require.Len(t, rig.OrdersIn(r), buyers)
		rig.RequireInvariants(t, s, rig.BuyersOf(sale, buyers, tokens, p), r)
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

	held := env.Only(t, servers[0].OrdersOf(t, token, sale, ""), "answers: %v", errs)

	placed := 0
	for i, err := range errs {
		var p *rush.Problem
		switch {
		case err == nil:
			placed++
			require.Equal(t, held, orders[i].ID)
		case !errors.As(err, &p):
			require.NoError(t, err)
		case p.Code == "duplicate_order":
			require.Equal(t, held, p.OrderID)
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
	env.FullParallel(t)
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

// TestServerKilledInMidRush kills the server with SIGKILL. Buyers without an answer send their request again. Those whose purchase
// was under way wait for the lease of their lock in lane lock, 5 s, and for another worker in lane queue, about ten.
func TestServerKilledInMidRush(t *testing.T) {
	rig.Core("batch/mariadb").Full("lock/mariadb", "queue/mariadb", "lock/embedded", "queue/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		addr := env.FreeAddr(t)
		p := s.Spawn(t, addr)
		c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)
		wait := rig.LongRush(t, s, c, time.Second)

		p.Kill()
		s.Verify(t)
		s.Spawn(t, addr)

		rig.RequireAllServed(t, s, c, wait())
	})
}

func TestRedisKilledInMidRush(t *testing.T) {
	rig.Core("lock/mariadb", "queue/mariadb").Full("lock/embedded", "batch/mariadb", "lock/mysql", "queue/mysql").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		p.MayRefuse() // while Redis is down
		tokens := s.Tokens(t, 401)
		c := rig.BuyersOf(p.Sale(t, 300), 300, tokens[:400], p)
		wait := rig.LongRush(t, s, c, 2*time.Second)

		s.KillRedis()
		p.RequireUnavailable(t, tokens[400], c.VoucherID)
		require.NoError(t, s.RestartRedis())
		p.RequireReady(t)

		rig.RequireAllServed(t, s, c, wait())
	})
}

// TestDatabaseKilledInMidRush: without its database, lane queue goes on to admit buyers.
func TestDatabaseKilledInMidRush(t *testing.T) {
	rig.Core("lock/mariadb", "queue/mariadb").Full("batch/mariadb", "lock/mysql", "queue/mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.OwnDatabase(t)
		p := s.Serve(t)
		p.MayRefuse() // while the database is down
		tokens := s.Tokens(t, 402)
		outsider, other := tokens[400], p.Sale(t, 10)
		c := rig.BuyersOf(p.Sale(t, 300), 300, tokens[:400], p)
		wait := rig.LongRush(t, s, c, 2*time.Second)

		p.Buy(t, tokens[401], other) // caches the sale, and loads its gate
		s.Database.Kill()
		admitted := ""
		if s.Lane == "queue" {
			p.RequireNotReady(t)
			admitted = p.Queue(t, outsider, other)
		} else {
			p.RequireUnavailable(t, outsider, c.VoucherID)
		}
		require.NoError(t, s.Database.Restart())
		p.RequireReady(t)
		if admitted != "" {
			rig.RequireOrdered(t, p, outsider, admitted)
		}

		rig.RequireAllServed(t, s, c, wait())
	})
}

// TestDependenciesFrozen freezes Redis or the database with SIGSTOP: connections stay open and no answer comes. Or the
// writes of the database wait, as on a full disk, and it answers all else.
func TestDependenciesFrozen(t *testing.T) {
	env.FullParallel(t)
	for _, name := range []string{"redis/lock", "redis/batch", "redis/queue", "database/lock", "database/queue", "writes/lock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dependency, lane, _ := strings.Cut(name, "/")
			s := rig.RealStack(t).OwnDatabase(t).In(lane)
			freeze, resume := s.Redis.Pause, s.Redis.Resume
			switch dependency {
			case "database":
				freeze, resume = s.Database.Pause, s.Database.Resume
			case "writes":
				freeze, resume = lockForReading(t, s)
			}

			p := s.Serve(t)
			p.MayRefuse() // while the dependency is frozen
			sale, tokens := p.Sale(t, 10), s.Tokens(t, 1)
			env.Must(p.Voucher(t.Context(), sale))(t)
			require.NoError(t, freeze())
			start := time.Now()
			p.RequireUnavailable(t, tokens[0], sale)
			t.Logf("503 and /readyz after %s", time.Since(start))
			require.NoError(t, resume())
			p.RequireReady(t)
			c := rig.BuyersOf(sale, 10, tokens, p)
			r := c.Run(t.Context())
			// The unanswered purchase may have been committed.
			require.Contains(t, []string{"ok", "duplicate_order"}, r.Answers[0].Code)
			rig.RequireInvariants(t, s, c, r)
		})
	}
}

func lockForReading(t *testing.T, s *rig.Stack) (lock, unlock func() error) {
	db := env.Must(sql.Open("mysql", s.Setting("SECKILL_MYSQL_DSN")))(t)
	db.SetMaxOpenConns(1)
	lock = func() error {
		_, err := db.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
		return err
	}

	// The lock ends with its connection.
	return lock, db.Close
}

// TestDatabaseOutOfConnectionsInMidRush: another program takes all connections of the database, and later gives them back.
// Meanwhile buyers are answered 503 at worst, and no unit is lost.
func TestDatabaseOutOfConnectionsInMidRush(t *testing.T) {
	rig.Full("lock/mariadb", "queue/mariadb", "lock/mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.OwnDatabase(t, "--max-connections=60") // a server uses 48
		p := s.Serve(t)
		p.MayRefuse() // while it finds no connection
		c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)

		release := takeConnections(t, s)
		done := make(chan *rush.Report, 1)
		go func() { done <- c.Run(t.Context()) }()
		rig.Eventually(t, "the server finds no connection", func() bool {
			p.Scrape(t)
			return strings.Contains(p.Metrics, `status="503"`) || strings.Contains(p.Log.String(), "Too many connections")
		})
		release()

		r := <-done
		for code := range r.Codes {
			require.Contains(t, []string{"ok", "sold_out", "duplicate_order", "unavailable", "overloaded", "order_in_progress", rush.Queued}, code)
		}
		p.RequireReady(t)
		rig.RequireAllServed(t, s, c, r)
	})
}

// takeConnections opens connections until the database has none left, those of the server included, which are ended: it
// may need no more than it has. It returns what closes them.
func takeConnections(t *testing.T, s *rig.Stack) (release func()) {
	t.Helper()
	db := env.Must(sql.Open("mysql", s.Setting("SECKILL_MYSQL_DSN")))(t)
	t.Cleanup(func() { _ = db.Close() })
	ctx := context.WithoutCancel(t.Context())

	var held []*sql.Conn
	own := map[string]bool{}
	for {
		conn, err := db.Conn(ctx)
		var refused *mysql.MySQLError
		if errors.As(err, &refused) {
			require.EqualValues(t, 1040, refused.Number) // ER_CON_COUNT_ERROR
			if endOthers(t, held[0], own) > 0 {
				continue
			}
			return func() {
				for _, conn := range held {
					require.NoError(t, conn.Close())
				}
				require.NoError(t, db.Close())
			}
		}
		require.NoError(t, err)

		var id string
		require.NoError(t, conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
		held, own[id] = append(held, conn), true
	}
}

// endOthers ends the connections of clients that are not in own, and returns how many there were.
func endOthers(t *testing.T, conn *sql.Conn, own map[string]bool) (others int) {
	t.Helper()
	var ids string
	const clients = "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE host <> '' AND command <> 'Daemon'"
	require.NoError(t, conn.QueryRowContext(t.Context(), clients).Scan(&ids))

	for id := range strings.SplitSeq(ids, ",") {
		if own[id] {
			continue
		}

		others++
		_, err := conn.ExecContext(t.Context(), "KILL "+id)
		var gone *mysql.MySQLError
		if !errors.As(err, &gone) || gone.Number != 1094 { // ER_NO_SUCH_THREAD
			require.NoError(t, err)
		}
	}
	return others
}

// TestClockIsSetInMidRush sets the clock of one of two servers forward over midnight, and back, while buyers arrive. The
// logins stay valid, every purchase is answered as before, and each order is found on its day.
func TestClockIsSetInMidRush(t *testing.T) {
	rig.Full("lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		const stock = 200
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		beforeMidnight := time.Until(midnight) - 5*time.Minute
		var servers []*rig.Server
		var set []func(ahead time.Duration)
		for range 2 {
			file := filepath.Join(t.TempDir(), "ahead")
			set = append(set, func(ahead time.Duration) {
				require.NoError(t, os.WriteFile(file+".new", []byte(ahead.String()), 0o600))
				require.NoError(t, os.Rename(file+".new", file))
			})
			set[len(servers)](beforeMidnight)
			servers = append(servers, s.With(rig.EnvClockAhead+"="+file).Serve(t))
		}

		// A buyer logs in at one server and buys at the other, which has not verified the token before.
		tokens := make([]string, 2*stock)
		for i := range tokens {
			tokens[i] = servers[(i+1)%2].LoginToken(t, rig.NewPhone())
		}
		sale := servers[0].Publish(t, rig.Offer{Stock: stock, BeginAt: midnight.Add(-48 * time.Hour), EndAt: midnight.Add(48 * time.Hour)})
		c := rig.BuyersOf(sale, stock, tokens, servers...)
		c.For = 4 * time.Second
		done := make(chan *rush.Report, 1)
		go func() { done <- c.Run(t.Context()) }()
		for i, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0} {
			rig.Eventually(t, "buyers go on", func() bool {
				return s.StockOf(t, sale) <= stock-int64(i+1)*stock/5
			})
			set[0](beforeMidnight + ahead)
		}
		rig.RequireAllServed(t, s, c, <-done)

		found := ordersBetween(t, servers[1], sale, midnight.Add(-24*time.Hour), midnight)
		next := ordersBetween(t, servers[1], sale, midnight, midnight.Add(24*time.Hour))
		require.NotEmpty(t, next, "orders after midnight")
		require.NotEmpty(t, found, "orders before midnight")
		require.Len(t, append(found, next...), stock)
	})
}

// ordersBetween returns the ids of the orders of a sale that were placed between two times, and requires that they were.
func ordersBetween(t *testing.T, p *rig.Server, sale string, from, to time.Time) (ids []string) {
	t.Helper()
	admin := p.Admin(t)
	query := url.Values{"voucher_id": {sale}, "created_from": {from.Format(time.RFC3339)}, "created_to": {to.Format(time.RFC3339)}, "limit": {"100"}}
	for {
		page := p.Must(t, rig.Get("/admin/orders?"+query.Encode(), admin))
		for _, item := range page["items"].([]any) {
			o := item.(map[string]any)
			created := env.Must(time.Parse(time.RFC3339, o["created_at"].(string)))(t)
			require.False(t, created.Before(from) || !created.Before(to), "%s was created at %s", o["id"], created)
			ids = append(ids, o["id"].(string))
		}
		cursor, _ := page["next_cursor"].(string)
		if cursor == "" {
			return ids
		}
		query.Set("cursor", cursor)
	}
}

// terms are what an order takes over from its sale.
type terms struct{ price, payTimeout int64 }

// TestSaleIsChangedInMidRush changes a sale on two servers while buyers arrive: price and time to pay together, the limit per
// user, the entry and the limit of unpaid orders. Every order has the price and the time of one version, no user has more
// orders than the limit of that moment, and a server that has once asked for a pass sells nothing without one.
func TestSaleIsChangedInMidRush(t *testing.T) {
	rig.Full("lock/mariadb", "batch/mariadb", "queue/mariadb", "lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Serve(t), s.Serve(t)}
		const stock = 4000 // more than are sold
		sale := servers[0].Publish(t, rig.Offer{Stock: stock, PayTimeout: 900, Segments: 4})
		versions := map[terms]bool{{100, 900}: true}
		tokens := s.Tokens(t, stock+1)
		outsider := tokens[stock]
		front := newBalancer(servers...)
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
					if front.program(ctx, front.from(n/16), tokens[n%stock], sale) == "internal" {
						refused.Add(1)
					}
				}
			})
		}

		sell := func() {
			before := left()
			rig.Eventually(t, "buyers go on", func() bool { return left() < before-10 })
		}
		change := func(n int, fields map[string]any) {
			sell()
			servers[n%2].Must(t, rig.Patch("/admin/vouchers/"+sale, servers[n%2].Admin(t), fields))
		}
		newTerms := func(n int, is terms) {
			versions[is] = true
			change(n, map[string]any{"pay_value": is.price, "pay_timeout": is.payTimeout})
		}
		// enter changes the entry, and waits until no server sells without a pass.
		enter := func(n int, entry map[string]any) {
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

func soldUnder(t *testing.T, s *rig.Stack, sale string) map[terms]int64 {
	t.Helper()
	seconds := "TIMESTAMPDIFF(SECOND, created_at, expires_at)"
	if s.IsEmbedded() {
		seconds = "(expires_at - created_at) / 1000"
	}
	sold := map[terms]int64{}
	s.Query(t, func(db *sql.DB) {
		_, rows := env.Query(t, db, "SELECT amount, "+seconds+", COUNT(*) FROM voucher_orders WHERE voucher_id = "+sale+" GROUP BY 1, 2")
		for _, row := range rows {
			sold[terms{row[0].(int64), row[1].(int64)}] = row[2].(int64)
		}
	})
	return sold
}
