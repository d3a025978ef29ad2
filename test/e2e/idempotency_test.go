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
)

// TestKeyHasOneEffect checks that 50 concurrent requests with one key place one order, although the limit allows five.
// The stored answer survives a restart, and an expired key is a new key.
func TestKeyHasOneEffect(t *testing.T) {
	t.Parallel()
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		sale, other, tokens := p.saleOf(t, 20, 5), p.saleOf(t, 20, 5), s.tokens(t, 2)
		k := keyedPost{path: ordersOf(sale), token: tokens[0], key: "k"}
		first := postConcurrently(t, 50, k, p)
		require.True(t, first.success(), first.body)
		id := first.order(t)
		require.Equal(t, "/api/v1/orders/"+id, first.location)
		requireOrders(t, s, p, tokens[0], sale, id)

		otherPath, otherBody, otherUser := k, k, k
		otherPath.path, otherBody.body, otherUser.token = ordersOf(other), "{}", tokens[1]
		for _, mismatch := range []keyedPost{otherPath, otherBody} {
			r := p.postUntilAnswered(t, mismatch)
			require.Equal(t, http.StatusUnprocessableEntity, r.status, r.body)
			require.Equal(t, "idempotency_mismatch", r.field(t, "code"))
		}
		separate := p.postUntilAnswered(t, otherUser) // keys belong to a user
		require.True(t, separate.success(), separate.body)
		require.NotEqual(t, id, separate.order(t))
		requireOrders(t, s, p, tokens[0], other)

		require.Zero(t, p.stop(t))
		p = s.serve(t)
		again := p.postUntilAnswered(t, k)
		require.Equal(t, "true", again.replay)
		again.replay = first.replay
		require.Equal(t, first, again)

		s.ageOrders(t, 25*time.Hour)
		require.NoError(t, s.flush()) // Redis stores the keys of queued orders for 10 s
		anew := p.postUntilAnswered(t, k)
		require.True(t, anew.success(), anew.body)
		require.NotEqual(t, id, anew.order(t))
		requireOrders(t, s, p, tokens[0], sale, id, anew.order(t))
		s.verify(t)
	})
}

// TestKeyHasOneEffectOnThreeServers sends 60 concurrent requests with one key to three servers.
func TestKeyHasOneEffectOnThreeServers(t *testing.T) {
	t.Parallel()
	onEach(t, onMariaDB, true, func(t *testing.T, s *stack) {
		servers := []*server{s.serve(t), s.serve(t), s.serve(t)}
		sale, token := servers[0].saleOf(t, 20, 5), s.tokens(t, 1)[0]
		first := postConcurrently(t, 60, keyedPost{path: ordersOf(sale), token: token, key: "k"}, servers...)
		require.True(t, first.success(), first.body)
		requireOrders(t, s, servers[0], token, sale, first.order(t))
		s.verify(t)
	})
}

// TestRefusedPurchaseIsDecidedAgain checks that a retry with the same key can succeed and that its success is then
// replayed.
func TestRefusedPurchaseIsDecidedAgain(t *testing.T) {
	t.Parallel()
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		sale, tokens := p.saleOf(t, 1, 1), s.tokens(t, 2)
		held := p.postUntilAnswered(t, keyedPost{path: ordersOf(sale), token: tokens[0], key: "a"}).order(t)
		requireOrdered(t, p, tokens[0], held)
		late := keyedPost{path: ordersOf(sale), token: tokens[1], key: "b"}
		require.Equal(t, "sold_out", p.postUntilAnswered(t, late).field(t, "code"))
		p.mustCancel(t, tokens[0], held)
		var bought reply
		eventually(t, "the unit can be bought", func() bool {
			bought = p.postUntilAnswered(t, late)
			return bought.success()
		})
		again := p.postUntilAnswered(t, late)
		require.Equal(t, "true", again.replay)
		again.replay = ""
		require.Equal(t, bought, again)
		requireOrders(t, s, p, tokens[1], sale, bought.order(t))
		s.verify(t)
	})
}

// change is a keyed request with a lasting effect. check requires that the reply is a success and that the request had
// its effect exactly once.
type change struct {
	name  string
	send  keyedPost
	check func(t *testing.T, r reply)
}

// changes returns one change of each kind. The checks call running for the running server.
func changes(t *testing.T, s *stack, running func() *server) []change {
	t.Helper()
	p := running()
	sale, tokens, admin := p.saleOf(t, 20, 5), s.tokens(t, 5), p.admin(t)
	other := p.saleOf(t, 20, 5)
	ordered := func(token string) string {
		id := p.postUntilAnswered(t, keyedPost{path: ordersOf(other), token: token, key: "ordered"}).order(t)
		requireOrdered(t, p, token, id)
		return id
	}
	requireStatus := func(t *testing.T, token, id, status string) {
		t.Helper()
		eventually(t, id+" is "+status, func() bool {
			return running().send(t, http.MethodGet, "/api/v1/orders/"+id, token).body["status"] == status
		})
	}
	paid := func(token string) string {
		id := ordered(token)
		p.must(t, http.MethodPost, "/orders/"+id+"/pay", token, nil)
		requireStatus(t, token, id, "paid")
		return id
	}
	unpaid, unwanted, used := ordered(tokens[2]), paid(tokens[3]), paid(tokens[4])
	held := p.postUntilAnswered(t, keyedPost{path: ordersOf(sale), token: tokens[1], key: "held"}).order(t)
	requireOrdered(t, p, tokens[1], held)
	title := fmt.Sprint("once ", rand.Int64())
	return []change{
		{"place", keyedPost{path: ordersOf(sale), token: tokens[0], key: "place"}, func(t *testing.T, r reply) {
			t.Helper()
			require.True(t, r.success(), r.body)
			requireOrdered(t, running(), tokens[0], r.order(t))
			requireOrders(t, s, running(), tokens[0], sale, r.order(t))
		}},
		{"cancel", keyedPost{path: "/api/v1/orders/" + held + "/cancel", token: tokens[1], key: "cancel"}, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.status, r.body)
			require.Equal(t, "cancelled", r.field(t, "status"))
			requireOrders(t, s, running(), tokens[1], sale)
		}},
		{"create", keyedPost{path: "/api/v1/admin/vouchers", token: admin, key: "create", body: strings.Replace(saleText(3, 1), "keys", title, 1)},
			func(t *testing.T, r reply) {
				t.Helper()
				require.Equal(t, http.StatusCreated, r.status, r.body)
				require.Equal(t, 1, strings.Count(fmt.Sprint(running().must(t, http.MethodGet, "/vouchers?limit=100", "", nil)), title))
				require.Equal(t, "/api/v1/vouchers/"+r.field(t, "id"), r.location)
			}},
		{"pay", keyedPost{path: "/api/v1/orders/" + unpaid + "/pay", token: tokens[2], key: "pay"}, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.status, r.body)
			requireStatus(t, tokens[2], unpaid, "paid")
			payments := running().must(t, http.MethodGet, "/orders/"+unpaid+"/payments", tokens[2], nil)["items"]
			require.Len(t, payments, 1)
		}},
		{"refund", keyedPost{path: "/api/v1/orders/" + unwanted + "/refund", token: tokens[3], key: "refund"}, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.status, r.body)
			requireStatus(t, tokens[3], unwanted, "refunded")
		}},
		{"redeem", keyedPost{path: "/api/v1/admin/orders/" + used + "/redeem", token: admin, key: "redeem"}, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.status, r.body)
			require.Equal(t, "redeemed", r.field(t, "status"))
		}},
		{"stock", keyedPost{"/api/v1/admin/vouchers/" + sale + "/stock", admin, "stock", `{"delta":-3,"reason":"lost"}`},
			func(t *testing.T, r reply) {
				t.Helper()
				require.Equal(t, http.StatusOK, r.status, r.body)
				changes := running().must(t, http.MethodGet, "/admin/audit?voucher_id="+sale, admin, nil)["items"]
				require.Equal(t, 1, strings.Count(fmt.Sprint(changes), "change_stock"))
			}},
	}
}

// TestKeyedRequestAfterLostReply loses the reply to each change in a proxy and sends the request again.
func TestKeyedRequestAfterLostReply(t *testing.T) {
	t.Parallel()
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		all := changes(t, s, func() *server { return p })
		d, url := dropReplies(t, p)
		for i, c := range all {
			_, err := post(t.Context(), url, c.send)
			require.Error(t, err)
			require.Equal(t, i+1, d.Broken(), "the server answered")
			r := p.postUntilAnswered(t, c.send)
			require.Equal(t, "true", r.replay, c.name)
			c.check(t, r)
		}
		s.verify(t)
	})
}

// TestKeyedRequestAfterServerCrash kills the server between the effect of a change and the storage of its answer. The
// next server returns the answer, even after the loss of Redis.
func TestKeyedRequestAfterServerCrash(t *testing.T) {
	t.Parallel()
	onEach(t, append(eachLaneVariants, "queue/embedded"), false, func(t *testing.T, s *stack) {
		p := s.serve(t)
		all := changes(t, s, func() *server { return p })[1:] // an order and its key are committed together
		if s.lane != "lock" {
			all = all[:1] // the lane affects only orders
		}
		for _, c := range all {
			if s.lane == "queue" {
				requireSettled(t, s)
			}
			require.Zero(t, p.stop(t))
			doomed := s.with(envKillKeys+"=1").spawn(t, "")
			eventually(t, "the server is killed", func() bool { // at the first answer that is stored, which one of 503 is not
				_, err := post(t.Context(), doomed.url, c.send)
				return err != nil
			})
			<-doomed.done
			p = s.serve(t)
			if c.name == "create" {
				s.extendLeases(t) // the start may take longer than a lease
				require.Contains(t, p.post(t, c.send).body, "order_in_progress", "the lease of the killed server is still valid")
			}
			require.NoError(t, s.flush())
			s.expireLeases(t)
			r := p.postUntilAnswered(t, c.send)
			require.Empty(t, r.replay, c.name)
			c.check(t, r)
			again := p.postUntilAnswered(t, c.send)
			require.Equal(t, "true", again.replay)
			require.Equal(t, r.body, again.body)
		}
		s.verify(t)
	})
}

// TestKeysSurviveKilledServer kills the server at random moments during purchases. A buyer that repeats the request
// until it is answered has one order. Redis is outside the server: an embedded one would lose queued orders with the
// process, which a 202 permits.
func TestKeysSurviveKilledServer(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		const rounds, buyers = 4, 24
		addr := freeAddr(t)
		p := s.spawn(t, addr)
		sale, tokens := p.saleOf(t, 2*rounds*buyers, rounds+5), s.tokens(t, buyers)
		for round := range rounds {
			posts, errs := make([]keyedPost, buyers), make([]error, buyers)
			var wg sync.WaitGroup
			for i := range posts {
				posts[i] = keyedPost{path: ordersOf(sale), token: tokens[i], key: fmt.Sprint("round ", round)}
				wg.Go(func() { _, errs[i] = post(context.Background(), p.url, posts[i]) })
			}
			time.Sleep(rand.N(150 * time.Millisecond))
			p.kill()
			wg.Wait()
			p = s.spawn(t, addr)
			s.expireLeases(t)
			if s.lane == "lock" {
				require.NoError(t, s.flush()) // user locks would remain for half a minute
			}
			lost, replayed := 0, 0
			for i, k := range posts {
				if errs[i] != nil {
					lost++
				}
				r := p.postUntilAnswered(t, k)
				require.True(t, r.success(), r.body)
				if r.replay != "" {
					replayed++
				}
			}
			t.Logf("round %d: %d of %d replies lost, %d answers replayed", round, lost, buyers, replayed)
		}
		if s.lane == "queue" {
			requireSettled(t, s)
		}
		for _, token := range tokens {
			held := answered(t, func() ([]rush.Order, error) { return p.Orders(t.Context(), token) })
			require.Len(t, held, rounds)
			for _, o := range held {
				require.Equal(t, "pending_payment", o.Status)
			}
		}
		s.verify(t)
	})
}

// TestKeyIsUsableAfterDatabaseOutage sends a keyed purchase to a server without a database, which returns 503, and
// again after the outage.
func TestKeyIsUsableAfterDatabaseOutage(t *testing.T) {
	t.Parallel()
	for _, lane := range lockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := realStack(t).ownDatabase(t).in(lane)
			p := s.serve(t)
			sale, token := p.saleOf(t, 20, 5), s.tokens(t, 1)[0]
			k := keyedPost{path: ordersOf(sale), token: token, key: "k"}
			_, err := p.Voucher(t.Context(), sale)
			require.NoError(t, err)
			s.database.Kill()
			require.Equal(t, "unavailable", p.post(t, k).field(t, "code"))
			require.NoError(t, s.database.Restart())
			requireReady(t, p)
			require.NoError(t, s.database.Pause())
			require.Equal(t, "unavailable", p.post(t, k).field(t, "code"))
			require.NoError(t, s.database.Resume())
			requireReady(t, p)
			s.expireLeases(t)
			r := p.postUntilAnswered(t, k)
			require.True(t, r.success(), r.body)
			requireOrdered(t, p, token, r.order(t))
			requireOrders(t, s, p, token, sale, r.order(t))
			s.verify(t)
		})
	}
}

// TestKeysOfDeadLetterRequests loses the replies to a replay and a discard and sends the requests again.
func TestKeysOfDeadLetterRequests(t *testing.T) {
	t.Parallel()
	s := realStack(t).in("queue").with(envRedeliver + "=300ms")
	p := s.serve(t)
	sale, tokens, admin := p.sale(t, 5), s.tokens(t, 2), p.admin(t)
	cure := poison(t, s, p.must(t, http.MethodGet, "/me", tokens[0], nil)["id"].(string))
	order, deadLetter := placePoisoned(t, p, sale, tokens[0], admin)
	cure()
	_, url := dropReplies(t, p)
	replay := keyedPost{path: "/api/v1/admin/dead-letters/" + deadLetter + "/replay", token: admin, key: "replay"}
	_, err := post(t.Context(), url, replay)
	require.Error(t, err)
	r := p.postUntilAnswered(t, replay)
	require.Equal(t, http.StatusAccepted, r.status, r.body)
	require.Equal(t, order, r.order(t))
	requireOrdered(t, p, tokens[0], order)

	poison(t, s, p.must(t, http.MethodGet, "/me", tokens[1], nil)["id"].(string))
	_, deadLetter = placePoisoned(t, p, sale, tokens[1], admin)
	discard := keyedPost{path: "/api/v1/admin/dead-letters/" + deadLetter + "/discard", token: admin, key: "discard"}
	_, err = post(t.Context(), url, discard)
	require.Error(t, err)
	require.Equal(t, http.StatusNoContent, p.postUntilAnswered(t, discard).status)
	require.Empty(t, deadLetters(t, p, admin))
	s.verify(t)
}

// TestKeyMetrics checks the counter of new, replayed and mismatched keys.
func TestKeyMetrics(t *testing.T) {
	t.Parallel()
	s := embeddedStack(t)
	ops := freeAddr(t)
	p := s.with("SECKILL_OPS_ADDR=" + ops).serve(t)
	sale, token := p.sale(t, 5), s.tokens(t, 1)[0]
	k := keyedPost{path: ordersOf(sale), token: token, key: "k"}
	for range 3 {
		p.post(t, k)
	}
	k.body = "{}"
	p.post(t, k)
	page := body(t, "http://"+ops+"/metrics")
	for _, want := range []string{`{outcome="new"} 1`, `{outcome="replayed"} 2`, `{outcome="mismatch"} 1`} {
		require.Contains(t, page, "seckill_idempotency_keys_total"+want)
	}
}
