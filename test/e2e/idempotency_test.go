package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestKeyHasOneEffect checks that 50 concurrent requests with one key place one order, although the limit allows five.
// The stored answer survives a restart, and an expired key is a new key.
func TestKeyHasOneEffect(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded", "queue/mariadb").Full("lock/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		sale, other, tokens := p.SaleOf(t, 20, 5), p.SaleOf(t, 20, 5), s.Tokens(t, 2)
		k := rig.KeyedPost{Path: rig.OrdersOf(sale), Token: tokens[0], Key: "k"}
		first := postConcurrently(t, 50, k, p)
		require.True(t, first.Success(), first.Body)
		id := first.Order(t)
		require.Equal(t, "/api/v1/orders/"+id, first.Location)
		requireOrders(t, s, p, tokens[0], sale, id)

		otherPath, otherBody, otherUser := k, k, k
		otherPath.Path, otherBody.Body, otherUser.Token = rig.OrdersOf(other), "{}", tokens[1]
		for _, mismatch := range []rig.KeyedPost{otherPath, otherBody} {
			r := p.PostUntilAnswered(t, mismatch)
			require.Equal(t, http.StatusUnprocessableEntity, r.Status, r.Body)
			require.Equal(t, "idempotency_mismatch", r.Field(t, "code"))
		}
		separate := p.PostUntilAnswered(t, otherUser) // keys belong to a user
		require.True(t, separate.Success(), separate.Body)
		require.NotEqual(t, id, separate.Order(t))
		requireOrders(t, s, p, tokens[0], other)

		require.Zero(t, p.Stop(t))
		p = s.Serve(t)
		again := p.PostUntilAnswered(t, k)
		require.Equal(t, "true", again.Replay)
		again.Replay = first.Replay
		require.Equal(t, first, again)

		s.AgeOrders(t, 25*time.Hour)
		require.NoError(t, s.Flush()) // Redis stores the keys of queued orders for 10 s
		anew := p.PostUntilAnswered(t, k)
		require.True(t, anew.Success(), anew.Body)
		require.NotEqual(t, id, anew.Order(t))
		requireOrders(t, s, p, tokens[0], sale, id, anew.Order(t))
		s.Verify(t)
	})
}

// TestKeyHasOneEffectOnThreeServers sends 60 concurrent requests with one key to three servers.
func TestKeyHasOneEffectOnThreeServers(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "batch/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		servers := []*rig.Server{s.Serve(t), s.Serve(t), s.Serve(t)}
		sale, token := servers[0].SaleOf(t, 20, 5), s.Tokens(t, 1)[0]
		first := postConcurrently(t, 60, rig.KeyedPost{Path: rig.OrdersOf(sale), Token: token, Key: "k"}, servers...)
		require.True(t, first.Success(), first.Body)
		requireOrders(t, s, servers[0], token, sale, first.Order(t))
		s.Verify(t)
	})
}

// TestRefusedPurchaseIsDecidedAgain checks that a retry with the same key can succeed and that its success is then
// replayed.
func TestRefusedPurchaseIsDecidedAgain(t *testing.T) {
	t.Parallel()
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		sale, tokens := p.SaleOf(t, 1, 1), s.Tokens(t, 2)
		held := p.PostUntilAnswered(t, rig.KeyedPost{Path: rig.OrdersOf(sale), Token: tokens[0], Key: "a"}).Order(t)
		rig.RequireOrdered(t, p, tokens[0], held)
		late := rig.KeyedPost{Path: rig.OrdersOf(sale), Token: tokens[1], Key: "b"}
		require.Equal(t, "sold_out", p.PostUntilAnswered(t, late).Field(t, "code"))
		p.MustCancel(t, tokens[0], held)
		var bought rig.Reply
		rig.Eventually(t, "the unit can be bought", func() bool {
			bought = p.PostUntilAnswered(t, late)
			return bought.Success()
		})
		again := p.PostUntilAnswered(t, late)
		require.Equal(t, "true", again.Replay)
		again.Replay = ""
		require.Equal(t, bought, again)
		requireOrders(t, s, p, tokens[1], sale, bought.Order(t))
		s.Verify(t)
	})
}

// change is a keyed request with a lasting effect. check requires that the reply is a success and that the request had
// its effect exactly once.
type change struct {
	name  string
	send  rig.KeyedPost
	check func(t *testing.T, r rig.Reply)
}

// changes returns one change of each kind. The checks call running for the running server.
func changes(t *testing.T, s *rig.Stack, running func() *rig.Server) []change {
	t.Helper()
	p := running()
	sale, tokens, admin := p.SaleOf(t, 20, 5), s.Tokens(t, 5), p.Admin(t)
	other := p.SaleOf(t, 20, 5)
	ordered := func(token string) string {
		id := p.PostUntilAnswered(t, rig.KeyedPost{Path: rig.OrdersOf(other), Token: token, Key: "ordered"}).Order(t)
		rig.RequireOrdered(t, p, token, id)
		return id
	}
	requireStatus := func(t *testing.T, token, id, status string) {
		t.Helper()
		rig.Eventually(t, id+" is "+status, func() bool {
			return running().Do(t, http.MethodGet, "/api/v1/orders/"+id, token).Body["status"] == status
		})
	}
	paid := func(token string) string {
		id := ordered(token)
		p.Must(t, http.MethodPost, "/orders/"+id+"/pay", token, nil)
		requireStatus(t, token, id, "paid")
		return id
	}
	unpaid, unwanted, used := ordered(tokens[2]), paid(tokens[3]), paid(tokens[4])
	held := p.PostUntilAnswered(t, rig.KeyedPost{Path: rig.OrdersOf(sale), Token: tokens[1], Key: "held"}).Order(t)
	rig.RequireOrdered(t, p, tokens[1], held)
	title := fmt.Sprint("once ", rand.Int64())
	return []change{
		{"place", rig.KeyedPost{Path: rig.OrdersOf(sale), Token: tokens[0], Key: "place"}, func(t *testing.T, r rig.Reply) {
			t.Helper()
			require.True(t, r.Success(), r.Body)
			rig.RequireOrdered(t, running(), tokens[0], r.Order(t))
			requireOrders(t, s, running(), tokens[0], sale, r.Order(t))
		}},
		{"cancel", rig.KeyedPost{Path: "/api/v1/orders/" + held + "/cancel", Token: tokens[1], Key: "cancel"}, func(t *testing.T, r rig.Reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			require.Equal(t, "cancelled", r.Field(t, "status"))
			requireOrders(t, s, running(), tokens[1], sale)
		}},
		{"create", rig.KeyedPost{Path: "/api/v1/admin/vouchers", Token: admin, Key: "create", Body: strings.Replace(rig.SaleText(3, 1), "keys", title, 1)},
			func(t *testing.T, r rig.Reply) {
				t.Helper()
				require.Equal(t, http.StatusCreated, r.Status, r.Body)
				require.Equal(t, 1, strings.Count(fmt.Sprint(running().Must(t, http.MethodGet, "/vouchers?limit=100", "", nil)), title))
				require.Equal(t, "/api/v1/vouchers/"+r.Field(t, "id"), r.Location)
			}},
		{"pay", rig.KeyedPost{Path: "/api/v1/orders/" + unpaid + "/pay", Token: tokens[2], Key: "pay"}, func(t *testing.T, r rig.Reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			requireStatus(t, tokens[2], unpaid, "paid")
			payments := running().Must(t, http.MethodGet, "/orders/"+unpaid+"/payments", tokens[2], nil)["items"]
			require.Len(t, payments, 1)
		}},
		{"refund", rig.KeyedPost{Path: "/api/v1/orders/" + unwanted + "/refund", Token: tokens[3], Key: "refund"}, func(t *testing.T, r rig.Reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			requireStatus(t, tokens[3], unwanted, "refunded")
		}},
		{"redeem", rig.KeyedPost{Path: "/api/v1/admin/orders/" + used + "/redeem", Token: admin, Key: "redeem"}, func(t *testing.T, r rig.Reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.Status, r.Body)
			require.Equal(t, "redeemed", r.Field(t, "status"))
		}},
		{"stock", rig.KeyedPost{Path: "/api/v1/admin/vouchers/" + sale + "/stock", Token: admin, Key: "stock", Body: `{"delta":-3,"reason":"lost"}`},
			func(t *testing.T, r rig.Reply) {
				t.Helper()
				require.Equal(t, http.StatusOK, r.Status, r.Body)
				changes := running().Must(t, http.MethodGet, "/admin/audit?voucher_id="+sale, admin, nil)["items"]
				require.Equal(t, 1, strings.Count(fmt.Sprint(changes), "change_stock"))
			}},
	}
}

// TestKeyedRequestAfterLostReply loses the reply to each change in a proxy and sends the request again.
func TestKeyedRequestAfterLostReply(t *testing.T) {
	t.Parallel()
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		all := changes(t, s, func() *rig.Server { return p })
		d, url := dropReplies(t, p)
		for i, c := range all {
			_, err := rig.Post(t.Context(), url, c.send)
			require.Error(t, err)
			require.Equal(t, i+1, d.Broken(), "the server answered")
			r := p.PostUntilAnswered(t, c.send)
			require.Equal(t, "true", r.Replay, c.name)
			c.check(t, r)
		}
		s.Verify(t)
	})
}

// TestKeyedRequestAfterServerCrash kills the server between the effect of a change and the storage of its answer. The
// next server returns the answer, even after the loss of Redis.
func TestKeyedRequestAfterServerCrash(t *testing.T) {
	t.Parallel()
	rig.Core("queue/embedded").Full("lock/embedded", "lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		all := changes(t, s, func() *rig.Server { return p })[1:] // an order and its key are committed together
		if s.Lane != "lock" {
			all = all[:1] // the lane affects only orders
		}
		for _, c := range all {
			if s.Lane == "queue" {
				rig.RequireSettled(t, s)
			}
			require.Zero(t, p.Stop(t))
			doomed := s.With(rig.EnvKillKeys+"=1").Spawn(t, "")
			rig.Eventually(t, "the server is killed", func() bool { // at the first answer that is stored, which one of 503 is not
				_, err := rig.Post(t.Context(), doomed.URL, c.send)
				return err != nil
			})
			<-doomed.Done
			p = s.Serve(t)
			if c.name == "create" {
				s.ExtendLeases(t) // the start may take longer than a lease
				require.Contains(t, p.Post(t, c.send).Body, "order_in_progress", "the lease of the killed server is still valid")
			}
			require.NoError(t, s.Flush())
			s.ExpireLeases(t)
			r := p.PostUntilAnswered(t, c.send)
			require.Empty(t, r.Replay, c.name)
			c.check(t, r)
			again := p.PostUntilAnswered(t, c.send)
			require.Equal(t, "true", again.Replay)
			require.Equal(t, r.Body, again.Body)
		}
		s.Verify(t)
	})
}

// TestKeysSurviveKilledServer kills the server at random moments during purchases. A buyer that repeats the request
// until it is answered has one order. Redis is outside the server: an embedded one would lose queued orders with the
// process, which a 202 permits.
func TestKeysSurviveKilledServer(t *testing.T) {
	t.Parallel()
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const rounds, buyers = 4, 24
		addr := rig.FreeAddr(t)
		p := s.Spawn(t, addr)
		sale, tokens := p.SaleOf(t, 2*rounds*buyers, rounds+5), s.Tokens(t, buyers)
		for round := range rounds {
			posts, errs := make([]rig.KeyedPost, buyers), make([]error, buyers)
			var wg sync.WaitGroup
			for i := range posts {
				posts[i] = rig.KeyedPost{Path: rig.OrdersOf(sale), Token: tokens[i], Key: fmt.Sprint("round ", round)}
				wg.Go(func() { _, errs[i] = rig.Post(context.Background(), p.URL, posts[i]) })
			}
			time.Sleep(rand.N(150 * time.Millisecond))
			p.Kill()
			wg.Wait()
			p = s.Spawn(t, addr)
			s.ExpireLeases(t)
			if s.Lane == "lock" {
				require.NoError(t, s.Flush()) // user locks would remain for half a minute
			}
			lost, replayed := 0, 0
			for i, k := range posts {
				if errs[i] != nil {
					lost++
				}
				r := p.PostUntilAnswered(t, k)
				require.True(t, r.Success(), r.Body)
				if r.Replay != "" {
					replayed++
				}
			}
			t.Logf("round %d: %d of %d replies lost, %d answers replayed", round, lost, buyers, replayed)
		}
		if s.Lane == "queue" {
			rig.RequireSettled(t, s)
		}
		for _, token := range tokens {
			held := rig.Answered(t, func() ([]rush.Order, error) { return p.Orders(t.Context(), token) })
			require.Len(t, held, rounds)
			for _, o := range held {
				require.Equal(t, "pending_payment", o.Status)
			}
		}
		s.Verify(t)
	})
}

// TestKeyIsUsableAfterDatabaseOutage sends a keyed purchase to a server without a database, which returns 503, and
// again after the outage.
func TestKeyIsUsableAfterDatabaseOutage(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := rig.RealStack(t).OwnDatabase(t).In(lane)
			p := s.Serve(t)
			p.MayRefuse() // while the database is down
			sale, token := p.SaleOf(t, 20, 5), s.Tokens(t, 1)[0]
			k := rig.KeyedPost{Path: rig.OrdersOf(sale), Token: token, Key: "k"}
			_, err := p.Voucher(t.Context(), sale)
			require.NoError(t, err)
			s.Database.Kill()
			require.Equal(t, "unavailable", p.Post(t, k).Field(t, "code"))
			require.NoError(t, s.Database.Restart())
			rig.RequireReady(t, p)
			require.NoError(t, s.Database.Pause())
			require.Equal(t, "unavailable", p.Post(t, k).Field(t, "code"))
			require.NoError(t, s.Database.Resume())
			rig.RequireReady(t, p)
			s.ExpireLeases(t)
			r := p.PostUntilAnswered(t, k)
			require.True(t, r.Success(), r.Body)
			rig.RequireOrdered(t, p, token, r.Order(t))
			requireOrders(t, s, p, token, sale, r.Order(t))
			s.Verify(t)
		})
	}
}

// TestKeysOfDeadLetterRequests loses the replies to a replay and a discard and sends the requests again.
func TestKeysOfDeadLetterRequests(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue").With(rig.EnvRedeliver + "=300ms")
	p := s.Serve(t)
	sale, tokens, admin := p.Sale(t, 5), s.Tokens(t, 2), p.Admin(t)
	cure := rig.Poison(t, s, p.Must(t, http.MethodGet, "/me", tokens[0], nil)["id"].(string))
	order, deadLetter := rig.PlacePoisoned(t, p, sale, tokens[0], admin)
	cure()
	_, url := dropReplies(t, p)
	replay := rig.KeyedPost{Path: "/api/v1/admin/dead-letters/" + deadLetter + "/replay", Token: admin, Key: "replay"}
	_, err := rig.Post(t.Context(), url, replay)
	require.Error(t, err)
	r := p.PostUntilAnswered(t, replay)
	require.Equal(t, http.StatusAccepted, r.Status, r.Body)
	require.Equal(t, order, r.Order(t))
	rig.RequireOrdered(t, p, tokens[0], order)

	rig.Poison(t, s, p.Must(t, http.MethodGet, "/me", tokens[1], nil)["id"].(string))
	_, deadLetter = rig.PlacePoisoned(t, p, sale, tokens[1], admin)
	discard := rig.KeyedPost{Path: "/api/v1/admin/dead-letters/" + deadLetter + "/discard", Token: admin, Key: "discard"}
	_, err = rig.Post(t.Context(), url, discard)
	require.Error(t, err)
	require.Equal(t, http.StatusNoContent, p.PostUntilAnswered(t, discard).Status)
	require.Empty(t, rig.DeadLetters(t, p, admin))
	s.Verify(t)
}

// TestKeyMetrics checks the counter of new, replayed and mismatched keys.
func TestKeyMetrics(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t)
	ops := rig.FreeAddr(t)
	p := s.With("SECKILL_OPS_ADDR=" + ops).Serve(t)
	sale, token := p.Sale(t, 5), s.Tokens(t, 1)[0]
	k := rig.KeyedPost{Path: rig.OrdersOf(sale), Token: token, Key: "k"}
	for range 3 {
		p.Post(t, k)
	}
	k.Body = "{}"
	p.Post(t, k)
	page := body(t, "http://"+ops+"/metrics")
	for _, want := range []string{`{outcome="new"} 1`, `{outcome="replayed"} 2`, `{outcome="mismatch"} 1`} {
		require.Contains(t, page, "seckill_idempotency_keys_total"+want)
	}
}
