package e2e

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestServerKilledInMidRush kills the server with SIGKILL. Buyers without an answer send their request again. Those whose purchase
// was under way wait for the lease of their lock in lane lock, 5 s, and for another worker in lane queue, about ten.
func TestServerKilledInMidRush(t *testing.T) {
	t.Parallel()
	rig.Core("batch/mariadb").Full("lock/mariadb", "queue/mariadb", "lock/embedded", "queue/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		addr := rig.FreeAddr(t)
		p := s.Spawn(t, addr)
		c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)
		wait := rig.LongRush(t, s, c, time.Second)

		p.Kill()
		s.Verify(t)
		s.Spawn(t, addr)

		r := wait()
		rig.RequireAllServed(t, s, c, r)
	})
}

// TestDependenciesKilledInMidRush kills and restarts Redis, then the database. Without that, lane queue goes on to admit buyers.
func TestDependenciesKilledInMidRush(t *testing.T) {
	t.Parallel()
	rig.Core("lock/mariadb", "queue/mariadb").Full("lock/embedded", "batch/mariadb", "lock/mysql", "queue/mysql").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		if !s.IsEmbedded() {
			s = s.OwnDatabase(t)
		}
		p := s.Serve(t)
		p.MayRefuse() // while Redis or the database is down
		tokens := s.Tokens(t, 802)
		outsider, other := tokens[800], p.Sale(t, 10)
		c := rig.BuyersOf(p.Sale(t, 600), 600, tokens[:800], p)
		wait := rig.LongRush(t, s, c, 4*time.Second)

		s.KillRedis()
		p.RequireUnavailable(t, outsider, c.VoucherID)
		require.NoError(t, s.RestartRedis())
		p.RequireReady(t)

		if s.Database != nil {
			p.Buy(t, tokens[801], other) // caches the sale, and loads its gate
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
		}
		r := wait()
		rig.RequireAllServed(t, s, c, r)
	})
}

// TestDependenciesFrozen freezes Redis or the database: connections stay open and no answer comes.
func TestDependenciesFrozen(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for name, pick := range map[string]func(*rig.Stack) freezer{
		"redis":    func(s *rig.Stack) freezer { return s.Redis },
		"database": func(s *rig.Stack) freezer { return s.Database },
	} {
		for _, lane := range rig.LockAndQueue {
			frozen(t, name, lane, pick)
		}
	}
	frozen(t, "redis", "batch", func(s *rig.Stack) freezer { return s.Redis })
}

func frozen(t *testing.T, name, lane string, pick func(*rig.Stack) freezer) {
	t.Run(name+"/"+lane, func(t *testing.T) {
		t.Parallel()
		s := rig.RealStack(t).OwnDatabase(t).In(lane)
		p := s.Serve(t)
		p.MayRefuse() // while the dependency is frozen
		sale, tokens := p.Sale(t, 10), s.Tokens(t, 1)
		env.Must(p.Voucher(t.Context(), sale))(t)
		require.NoError(t, pick(s).Pause())
		start := time.Now()
		p.RequireUnavailable(t, tokens[0], sale)
		t.Logf("503 and /readyz after %s", time.Since(start))
		require.NoError(t, pick(s).Resume())
		p.RequireReady(t)
		c := rig.BuyersOf(sale, 10, tokens, p)
		r := c.Run(t.Context())
		// The unanswered purchase may have been committed.
		require.Contains(t, []string{"ok", "duplicate_order"}, r.Answers[0].Code)
		rig.RequireInvariants(t, s, c, r)
	})
}

// freezer is a server process that can be frozen with SIGSTOP.
type freezer interface {
	Pause() error
	Resume() error
}

// TestDatabaseOutOfConnectionsInMidRush: another program takes all connections of the database, and later gives them back.
// Meanwhile buyers are answered 503 at worst, and no unit is lost.
func TestDatabaseOutOfConnectionsInMidRush(t *testing.T) {
	t.Parallel()
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

// takeConnections opens connections until the database has none left, and returns what closes them.
func takeConnections(t *testing.T, s *rig.Stack) (release func()) {
	t.Helper()
	db := env.Must(sql.Open("mysql", s.Setting("SECKILL_MYSQL_DSN")))(t)
	t.Cleanup(func() { _ = db.Close() })

	var held []*sql.Conn
	for {
		conn, err := db.Conn(context.WithoutCancel(t.Context()))
		var refused *mysql.MySQLError
		if errors.As(err, &refused) {
			require.EqualValues(t, 1040, refused.Number) // ER_CON_COUNT_ERROR
			return func() {
				for _, conn := range held {
					require.NoError(t, conn.Close())
				}
				require.NoError(t, db.Close())
			}
		}
		require.NoError(t, err)
		held = append(held, conn)
	}
}

// TestClockIsSetInMidRush sets the clock of one of two servers forward over midnight, and back, while buyers arrive. The
// logins stay valid, every purchase is answered as before, and each order is found on its day.
func TestClockIsSetInMidRush(t *testing.T) {
	t.Parallel()
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
		r := <-done
		rig.RequireAllServed(t, s, c, r)

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
	t.Parallel()
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
