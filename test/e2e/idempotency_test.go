package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// five is a sale of which a user may have five orders.
var five = rig.Offer{Stock: 20, LimitPerUser: 5}

// change is a keyed request with a lasting effect. check requires that the reply is a success and that the request had
// its effect exactly once.
type change struct {
	name  string
	send  rig.Request
	check func(t *testing.T, r rig.Answer)
}

// changes returns one change of each kind but a purchase, which is committed with its key. Redeeming is a move like
// cancelling. The checks call running for the running server.
func changes(t *testing.T, s *rig.Stack, running func() *rig.Server) []change {
	t.Helper()
	p := running()
	sale, other := p.Publish(t, five), p.Publish(t, five)
	tokens, admin := s.Tokens(t, 3), p.Admin(t)
	ordered := func(token string) string {
		id := p.Do(t, rig.Purchase(other, token).Keyed("ordered")).Order()
		rig.RequireOrdered(t, p, token, id)
		return id
	}
	requireStatus := func(t *testing.T, token, id, status string) {
		t.Helper()
		rig.Eventually(t, id+" is "+status, func() bool {
			return running().Once(t, rig.Get("/orders/"+id, token)).Body["status"] == status
		})
	}
	paid := func(token string) string {
		id := ordered(token)
		p.Must(t, rig.Pay(id, token))
		requireStatus(t, token, id, "paid")
		return id
	}
	unpaid, unwanted := ordered(tokens[1]), paid(tokens[2])
	held := p.Do(t, rig.Purchase(sale, tokens[0]).Keyed("held")).Order()
	rig.RequireOrdered(t, p, tokens[0], held)
	title := fmt.Sprint("once ", rand.Int64())
	return []change{
		{"cancel", rig.Post("/orders/"+held+"/cancel", tokens[0], nil).Keyed("cancel"), func(t *testing.T, r rig.Answer) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			require.Equal(t, "cancelled", r.Field("status"))
			requireOrders(t, s, running(), tokens[0], sale)
		}},
		{"create", rig.Offer{Title: title, Stock: 3}.Request(admin).Keyed("create"),
			func(t *testing.T, r rig.Answer) {
				t.Helper()
				require.Equal(t, http.StatusCreated, r.Status, r.Body)
				require.Equal(t, 1, strings.Count(fmt.Sprint(running().Must(t, rig.Get("/vouchers?limit=100", ""))), title))
				require.Equal(t, "/api/v1/vouchers/"+r.Field("id"), r.Header.Get("Location"))
			}},
		{"pay", rig.Pay(unpaid, tokens[1]).Keyed("pay"), func(t *testing.T, r rig.Answer) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			requireStatus(t, tokens[1], unpaid, "paid")
			payments := running().Must(t, rig.Get("/orders/"+unpaid+"/payments", tokens[1]))["items"]
			require.Len(t, payments, 1)
		}},
		{"refund", rig.Post("/orders/"+unwanted+"/refund", tokens[2], nil).Keyed("refund"), func(t *testing.T, r rig.Answer) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			requireStatus(t, tokens[2], unwanted, "refunded")
		}},
		{"stock", rig.Post("/admin/vouchers/"+sale+"/stock", admin, `{"delta":-3,"reason":"lost"}`).Keyed("stock"),
			func(t *testing.T, r rig.Answer) {
				t.Helper()
				require.Equal(t, http.StatusOK, r.Status, r.Body)
				changes := running().Must(t, rig.Get("/admin/audit?voucher_id="+sale, admin))["items"]
				require.Equal(t, 1, strings.Count(fmt.Sprint(changes), "change_stock"))
			}},
	}
}

// TestKeyedRequestAfterServerCrash kills the server between the effect of a change and the storage of its answer. The
// next server returns the answer, even after the loss of Redis.
func TestKeyedRequestAfterServerCrash(t *testing.T) {
	t.Parallel()
	rig.Core("queue/embedded").Full("lock/embedded", "lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		all := changes(t, s, func() *rig.Server { return p })
		if s.Lane != "lock" {
			all = all[:1] // the lane affects only orders
		}
		for _, c := range all {
			rig.RequireSettled(t, s)
			require.Zero(t, p.Stop(t))
			doomed := s.With(rig.EnvKillKeys+"=1").Spawn(t, "")
			rig.Eventually(t, "the server is killed", func() bool { // at the first answer that is stored, which one of 503 is not
				_, err := rig.Send(t.Context(), doomed.URL, c.send)
				return err != nil
			})
			<-doomed.Done
			p = s.Serve(t)
			if c.name == "create" {
				s.Exec(t, "UPDATE idempotency_keys SET locked_until = created_at + "+intervalOf(s, time.Hour)) // the start may take longer than a lease
				require.Equal(t, "order_in_progress", p.Once(t, c.send).Field("code"), "the lease of the killed server is still valid")
			}
			require.NoError(t, s.Flush())
			s.Exec(t, "UPDATE idempotency_keys SET locked_until = created_at") // it has ended
			r := p.Do(t, c.send)
			require.False(t, r.Replayed(), c.name)
			c.check(t, r)
			again := p.Do(t, c.send)
			require.True(t, again.Replayed())
			require.Equal(t, r.Text, again.Text)
		}
		s.Verify(t)
	})
}

// TestKeyInTwoShards: two sales of different shards admit requests with the same key, because each shard knows its own keys.
// One becomes an order, and the other one has failed. The shards are full until then.
func TestKeyInTwoShards(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s, release := rig.HoldWorkers(t, rig.RealStack(t).In("queue").With("SECKILL_QUEUE_BACKLOG=1"))
	p := s.Serve(t)
	tokens := s.Tokens(t, 2)
	token := tokens[0]
	ids := make([]string, 2)
	for i := range ids {
		sale := p.Sale(t, 10)
		ids[i] = rig.RequireQueued(t, p.Do(t, rig.Purchase(sale, token).Keyed("k")))
		rig.RequireProblem(t, http.StatusServiceUnavailable, "overloaded", p.Once(t, rig.Purchase(sale, tokens[1])))
	}

	release()
	rig.Eventually(t, "one of the two orders is confirmed, and the other one has failed", func() bool {
		var ends [2]string
		for i, id := range ids {
			o, _ := p.Order(t.Context(), token, id)
			ends[i] = o.Status + o.Reason
		}
		slices.Sort(ends[:])
		return ends == [2]string{"failedidempotency_mismatch", "pending_payment"}
	})
	s.Verify(t)
}

// requireOrders waits until the queue is empty and requires that these are the buyer's orders of the sale that are not
// cancelled.
func requireOrders(t *testing.T, s *rig.Stack, p *rig.Server, token, sale string, ids ...string) {
	t.Helper()
	rig.RequireSettled(t, s)
	all := rig.Answered(t, func() ([]rush.Order, error) { return p.Orders(t.Context(), token) })
	var held []string
	for _, o := range all {
		if o.VoucherID == sale && o.Status != "cancelled" {
			held = append(held, o.ID)
		}
	}
	require.ElementsMatch(t, ids, held)
}

// postConcurrently sends a request n times at once, and repeats what is answered 503. It requires equal answers, of which
// all but one are replays. If a request was repeated all may be, because its lost success may be the other one.
func postConcurrently(t *testing.T, n int, k rig.Request, servers ...*rig.Server) rig.Answer {
	t.Helper()
	answers, errs := make([]rig.Answer, n), make([]error, n)
	var repeated atomic.Bool
	concurrently(n, func(i int) {
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(20 * time.Millisecond) {
			answers[i], errs[i] = servers[i%len(servers)].Send(t.Context(), k)
			if errs[i] != nil || !answers[i].Busy() {
				return
			}
			repeated.Store(true)
		}
	})

	fresh := 0
	for i, a := range answers {
		require.NoError(t, errs[i])
		if !a.Replayed() {
			fresh++
		}
		requireSame(t, answers[0], a)
	}
	require.True(t, fresh == 1 || fresh == 0 && repeated.Load(), "%d answers are no replays", fresh)
	return answers[0]
}

// requireSame requires equal answers, of which one may be the replay of the other one.
func requireSame(t *testing.T, want, got rig.Answer) {
	t.Helper()
	require.Equal(t, want.Status, got.Status)
	require.Equal(t, want.Text, got.Text)
	require.Equal(t, want.Header.Get("Location"), got.Header.Get("Location"))
}

// intervalOf returns a duration as the database of the stack adds it to a time.
func intervalOf(s *rig.Stack, d time.Duration) string {
	if s.Setting("SECKILL_MYSQL_DSN") == "" {
		return fmt.Sprint(d.Milliseconds())
	}
	return fmt.Sprintf("INTERVAL %d SECOND", int(d.Seconds()))
}
