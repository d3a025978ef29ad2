package e2e

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
)

// longRush starts a rush that lasts long enough to break something in it, and returns when it is under way.
func longRush(t *testing.T, s *stack, c *rush.Crowd) (wait func() *rush.Report) {
	t.Helper()
	c.Parallel = 32
	if s.lane != "lock" {
		c.Parallel = 3 // larger batches would be over at once
	}
	done := make(chan *rush.Report, 1)
	go func() { done <- c.Run(t.Context()) }()
	eventually(t, "the rush begins", func() bool {
		return s.count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID) < c.Stock*9/10
	})
	select {
	case <-done:
		t.Fatal("the rush was over before anything could break")
	default:
	}
	return func() *rush.Report { return <-done }
}

// requireSoldOut requires that the sale went on to its end: every buyer has a final answer and every unit a buyer.
func requireSoldOut(t *testing.T, s *stack, c *rush.Crowd, r *rush.Report) {
	t.Helper()
	for _, a := range r.Answers {
		require.Contains(t, []string{"ok", "sold_out", "duplicate_order"}, a.Code, "answers: %v", r.Codes)
	}
	if s.lane == "queue" {
		requireSettled(t, s) // a buyer whose answer was lost knows of his order before the database does
	}
	requireStock(t, c.Clients[0], c.VoucherID, 0)
}

// TestServerKilledInMidRush is kill -9 of the server. A buyer whose answer was lost presses again.
func TestServerKilledInMidRush(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		addr := freeAddr(t)
		p := s.serve(t, addr)
		c := crowd(p.sale(t, 1000), 1000, s.tokens(t, 1500), p)
		wait := longRush(t, s, c)
		p.kill()
		s.verify(t)
		s.serve(t, addr)
		r := wait()
		requireSoldOut(t, s, c, r)
		judge(t, s, c, r)
	})
}

// TestServerStoppedInMidRush is what a deployment does: requests that have begun are finished.
func TestServerStoppedInMidRush(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		addr := freeAddr(t)
		p := s.serve(t, addr)
		c := crowd(p.sale(t, 1000), 1000, s.tokens(t, 1500), p)
		wait := longRush(t, s, c)
		require.Zero(t, p.stop(t))
		s.serve(t, addr)
		r := wait()
		requireSoldOut(t, s, c, r)
		judge(t, s, c, r)
	})
}

// TestServerStoppedWithoutDatabase: a server that is told to stop while the database is down stops in order.
func TestServerStoppedWithoutDatabase(t *testing.T) {
	s := realStack(t)
	p := s.serve(t, "")
	sale, tokens := p.sale(t, 10), s.tokens(t, 1)
	s.mariadb.Kill()
	requireUnavailable(t, p, tokens[0], sale)
	require.Zero(t, p.stop(t))
}

// TestDependenciesKilledInMidRush kills Redis, then the database, and brings each back.
func TestDependenciesKilledInMidRush(t *testing.T) {
	eachLane(t, true, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		tokens := s.tokens(t, 3001)
		outsider := tokens[3000]
		c := crowd(p.sale(t, 2000), 2000, tokens[:3000], p)
		wait := longRush(t, s, c)

		s.killRedis()
		requireUnavailable(t, p, outsider, c.VoucherID)
		require.NoError(t, s.restartRedis())
		requireReady(t, p)

		if s.mariadb != nil {
			s.mariadb.Kill()
			if s.lane == "queue" {
				requireNotReady(t, p) // buyers are still admitted: TestQueueOutlivesTheDatabase
			} else {
				requireUnavailable(t, p, outsider, c.VoucherID)
			}
			require.NoError(t, s.mariadb.Restart())
			requireReady(t, p)
		}
		r := wait()
		requireSoldOut(t, s, c, r)
		judge(t, s, c, r)
	})
}

// TestDependenciesFrozen stops the servers without closing their connections: nothing fails, nothing answers.
func TestDependenciesFrozen(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*stack) freezer{
		"redis":   func(s *stack) freezer { return s.redis },
		"mariadb": func(s *stack) freezer { return s.mariadb },
	} {
		for _, lane := range lanes {
			frozen(t, name, lane, pick)
		}
	}
}

// frozen freezes one server under a running sale.
func frozen(t *testing.T, name, lane string, pick func(*stack) freezer) {
	t.Run(name+"/"+lane, func(t *testing.T) {
		t.Parallel()
		s := realStack(t).in(lane)
		p := s.serve(t, "")
		sale, tokens := p.sale(t, 10), s.tokens(t, 1)
		_, err := p.Voucher(t.Context(), sale)
		require.NoError(t, err)
		require.NoError(t, pick(s).Pause())
		start := time.Now()
		requireUnavailable(t, p, tokens[0], sale)
		t.Logf("503 and /readyz after %s", time.Since(start))
		require.NoError(t, pick(s).Resume())
		requireReady(t, p)
		c := crowd(sale, 10, tokens, p)
		r := c.Run(t.Context())
		// The purchase that was not answered may have gone through after all.
		require.Contains(t, []string{"ok", "duplicate_order"}, r.Answers[0].Code)
		judge(t, s, c, r)
	})
}

// freezer is a server that can be stopped without dying.
type freezer interface {
	Pause() error
	Resume() error
}

// requireUnavailable requires 503 with Retry-After to a buyer, a red /readyz and a green /healthz.
func requireUnavailable(t *testing.T, p *process, token, sale string) {
	t.Helper()
	_, err := p.Place(t.Context(), token, sale)
	var problem *rush.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "unavailable", problem.Code)
	require.Positive(t, problem.RetryAfter)
	requireNotReady(t, p)
}

func requireNotReady(t *testing.T, p *process) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, get(t, p.url+"/readyz"))
	require.Equal(t, http.StatusOK, get(t, p.url+"/healthz"))
}

func requireReady(t *testing.T, p *process) {
	t.Helper()
	eventually(t, "ready again", func() bool { return get(t, p.url+"/readyz") == http.StatusOK })
}

// get returns the status of a page.
func get(t *testing.T, url string) int {
	t.Helper()
	status, _ := fetch(t, url)
	return status
}

// body returns a page.
func body(t *testing.T, url string) string {
	t.Helper()
	status, text := fetch(t, url)
	require.Equal(t, http.StatusOK, status)
	return text
}

// body503 returns the page of a server that is not ready.
func body503(t *testing.T, url string) string {
	t.Helper()
	status, text := fetch(t, url)
	require.Equal(t, http.StatusServiceUnavailable, status)
	return text
}

// TestManyClientsWhileFrozen: also hundreds of requests that queue for the connections of a frozen database are
// answered with 503 and not cut off. Of a sale that is known to be sold out they still hear just that.
func TestManyClientsWhileFrozen(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	p := s.serve(t, "")
	gone, open, tokens := p.sale(t, 1), p.sale(t, 1000), s.tokens(t, 300)
	for _, sale := range []string{gone, open} {
		_, err := p.Place(t.Context(), tokens[0], sale)
		require.NoError(t, err)
	}
	_, err := p.Place(t.Context(), tokens[1], gone) // from now on the others are told from the snapshot
	requireCode(t, "sold_out", err)
	require.NoError(t, s.mariadb.Pause())
	for sale, code := range map[string]string{open: "unavailable", gone: "sold_out"} {
		done := make(chan error, len(tokens))
		for _, token := range tokens[1:] {
			go func() { _, err := p.Place(context.Background(), token, sale); done <- err }()
		}
		for range tokens[1:] {
			requireCode(t, code, <-done)
		}
	}
	require.NoError(t, s.mariadb.Resume())
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
