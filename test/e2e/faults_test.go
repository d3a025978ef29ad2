package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
)

// longRush starts a rush in which buyers arrive for at least the given time, so that a fault falls into it, and returns once
// a tenth of the stock is sold.
func longRush(t *testing.T, s *stack, c *rush.Buyers, lasts time.Duration) (wait func() *rush.Report) {
	t.Helper()
	c.Parallel = 32
	c.Pause = lasts * time.Duration(c.Parallel) / time.Duration(len(c.Tokens))
	done := make(chan *rush.Report, 1)
	go func() { done <- c.Run(t.Context()) }()
	eventually(t, "the rush begins", func() bool {
		return s.count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID) <= c.Stock*9/10
	})
	select {
	case <-done:
		t.Fatal("the rush ended before the fault")
	default:
	}
	return func() *rush.Report { return <-done }
}

// requireSoldOut requires that every buyer got a final answer and that the sale is sold out.
func requireSoldOut(t *testing.T, s *stack, c *rush.Buyers, r *rush.Report) {
	t.Helper()
	for _, a := range r.Answers {
		require.Contains(t, []string{"ok", "sold_out", "duplicate_order"}, a.Code, "answers: %v", r.Codes)
	}
	if s.lane == "queue" {
		requireSettled(t, s) // a buyer can see the order before it is committed
	}
	requireStock(t, c.Clients[0], c.VoucherID, 0)
}

// TestServerKilledInMidRush kills the server with SIGKILL. Buyers without an answer send their request again.
func TestServerKilledInMidRush(t *testing.T) {
	t.Parallel()
	onEach(t, append(eachLaneVariants, "queue/embedded"), false, func(t *testing.T, s *stack) {
		addr := freeAddr(t)
		p := s.spawn(t, addr)
		c := buyersOf(p.sale(t, 300), 300, s.tokens(t, 400), p)
		wait := longRush(t, s, c, time.Second)
		p.kill()
		s.verify(t)
		s.spawn(t, addr)
		r := wait()
		requireSoldOut(t, s, c, r)
		requireInvariants(t, s, c, r)
	})
}

// TestServerStoppedInMidRush stops the server in order, as a deployment does. Running requests are completed.
func TestServerStoppedInMidRush(t *testing.T) {
	t.Parallel()
	onEach(t, append(eachLaneVariants, "queue/embedded"), false, func(t *testing.T, s *stack) {
		addr := freeAddr(t)
		p := s.spawn(t, addr)
		c := buyersOf(p.sale(t, 300), 300, s.tokens(t, 400), p)
		wait := longRush(t, s, c, time.Second)
		require.Zero(t, p.stop(t))
		s.spawn(t, addr)
		r := wait()
		requireSoldOut(t, s, c, r)
		requireInvariants(t, s, c, r)
	})
}

// TestServerStopsCleanlyWithoutDatabase stops the server while the database is down.
func TestServerStopsCleanlyWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := realStack(t).ownDatabase(t)
	p := s.serve(t)
	sale, tokens := p.sale(t, 10), s.tokens(t, 1)
	s.database.Kill()
	requireUnavailable(t, p, tokens[0], sale)
	require.Zero(t, p.stop(t))
}

// TestDependenciesKilledInMidRush kills and restarts Redis, then the database.
func TestDependenciesKilledInMidRush(t *testing.T) {
	t.Parallel()
	onEach(t, append(eachLaneVariants, "batch/mariadb", "lock/mysql", "queue/mysql"), true, func(t *testing.T, s *stack) {
		if !s.isEmbedded() {
			s = s.ownDatabase(t)
		}
		p := s.serve(t)
		tokens := s.tokens(t, 801)
		outsider := tokens[800]
		c := buyersOf(p.sale(t, 600), 600, tokens[:800], p)
		wait := longRush(t, s, c, 4*time.Second)

		s.killRedis()
		requireUnavailable(t, p, outsider, c.VoucherID)
		require.NoError(t, s.restartRedis())
		requireReady(t, p)

		if s.database != nil {
			s.database.Kill()
			if s.lane == "queue" {
				requireNotReady(t, p) // buyers are still admitted: TestQueueAdmitsWithoutDatabase
			} else {
				requireUnavailable(t, p, outsider, c.VoucherID)
			}
			require.NoError(t, s.database.Restart())
			requireReady(t, p)
		}
		r := wait()
		requireSoldOut(t, s, c, r)
		requireInvariants(t, s, c, r)
	})
}

// TestDependenciesFrozen freezes Redis or the database: connections stay open and no answer comes.
func TestDependenciesFrozen(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*stack) freezer{
		"redis":    func(s *stack) freezer { return s.redis },
		"database": func(s *stack) freezer { return s.database },
	} {
		for _, lane := range lockAndQueue {
			frozen(t, name, lane, pick)
		}
	}
	frozen(t, "redis", "batch", func(s *stack) freezer { return s.redis })
}

// frozen freezes one dependency during a sale.
func frozen(t *testing.T, name, lane string, pick func(*stack) freezer) {
	t.Run(name+"/"+lane, func(t *testing.T) {
		t.Parallel()
		s := realStack(t).ownDatabase(t).in(lane)
		p := s.serve(t)
		sale, tokens := p.sale(t, 10), s.tokens(t, 1)
		_, err := p.Voucher(t.Context(), sale)
		require.NoError(t, err)
		require.NoError(t, pick(s).Pause())
		start := time.Now()
		requireUnavailable(t, p, tokens[0], sale)
		t.Logf("503 and /readyz after %s", time.Since(start))
		require.NoError(t, pick(s).Resume())
		requireReady(t, p)
		c := buyersOf(sale, 10, tokens, p)
		r := c.Run(t.Context())
		// The unanswered purchase may have been committed.
		require.Contains(t, []string{"ok", "duplicate_order"}, r.Answers[0].Code)
		requireInvariants(t, s, c, r)
	})
}

// freezer is a server process that can be frozen with SIGSTOP.
type freezer interface {
	Pause() error
	Resume() error
}

// requireUnavailable requires 503 with Retry-After for a purchase, 503 from /readyz and 200 from /healthz.
func requireUnavailable(t *testing.T, p *server, token, sale string) {
	t.Helper()
	_, err := p.Place(t.Context(), token, sale)
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "unavailable", problem.Code)
	require.Positive(t, problem.RetryAfter)
	requireNotReady(t, p)
}

func requireNotReady(t *testing.T, p *server) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, get(t, p.url+"/readyz"))
	require.Equal(t, http.StatusOK, get(t, p.url+"/healthz"))
}

func requireReady(t *testing.T, p *server) {
	t.Helper()
	eventually(t, "/readyz returns 200", func() bool { return get(t, p.url+"/readyz") == http.StatusOK })
}

// get returns the HTTP status of a URL.
func get(t *testing.T, url string) int {
	t.Helper()
	status, _ := fetch(t, url)
	return status
}

// body returns the body of a URL and requires status 200.
func body(t *testing.T, url string) string {
	t.Helper()
	status, text := fetch(t, url)
	require.Equal(t, http.StatusOK, status)
	return text
}

// body503 returns the body of a URL and requires status 503.
func body503(t *testing.T, url string) string {
	t.Helper()
	status, text := fetch(t, url)
	require.Equal(t, http.StatusServiceUnavailable, status)
	return text
}

// TestFrozenDatabaseAnswersEveryClient sends more purchases than there are connections to a frozen database. Each gets
// a 503, or "sold_out" if the sale was known to be sold out before. Of the latter some are looked up, as they may hold an
// order, and get a 503, too.
func TestFrozenDatabaseAnswersEveryClient(t *testing.T) {
	t.Parallel()
	s := realStack(t).ownDatabase(t)
	p := s.serve(t)
	soldOut, open, tokens := p.sale(t, 1), p.sale(t, 1000), s.tokens(t, 300)
	for _, sale := range []string{soldOut, open} {
		p.mustPlace(t, tokens[0], sale)
	}
	p.requireSoldOut(t, tokens[1], soldOut) // the next answers come from the snapshot
	require.NoError(t, s.database.Pause())
	for sale, code := range map[string]string{open: "unavailable", soldOut: "sold_out"} {
		done := make(chan error, len(tokens))
		for _, token := range tokens[1:] {
			go func() { _, err := p.Place(context.Background(), token, sale); done <- err }()
		}
		lookups := 0
		for range tokens[1:] {
			err := <-done
			var problem *rush.Problem
			if sale == soldOut && errors.As(err, &problem) && problem.Code == "unavailable" {
				lookups++
				continue
			}
			requireCode(t, code, err)
		}
		require.Less(t, lookups, len(tokens)/4)
	}
	require.NoError(t, s.database.Resume())
	requireReady(t, p)
	s.verify(t)
}

func requireCode(t *testing.T, code string, err error) {
	t.Helper()
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, code, problem.Code)
}

func fetch(t *testing.T, url string) (status int, text string) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(page)
}
