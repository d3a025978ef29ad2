package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestReturnedUnitIsSoldElsewhere: the only unit of a sale is bought on one of two servers, and again on the other one after a
// refund, after a cancellation, and after the deadline for the payment, before which the order is not closed.
func TestReturnedUnitIsSoldElsewhere(t *testing.T) {
	rig.Core("lock/embedded", "queue/mariadb").Full("lock/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 4)
		sale := a.Sale(t, 1)
		paid := a.Buy(t, tokens[0], sale)
		rig.RequireProblem(t, http.StatusConflict, "sold_out", b.Do(t, rig.Purchase(sale, tokens[1])))

		a.Must(t, rig.Pay(paid, tokens[0]))
		a.WaitFor(t, tokens[0], paid, "paid")
		a.Must(t, rig.Post("/orders/"+paid+"/refund", tokens[0], nil))
		a.WaitFor(t, tokens[0], paid, "refunded")
		cancelled := b.BuyReturned(t, rig.Purchase(sale, tokens[1]))

		b.MustCancel(t, tokens[1], cancelled)
		unpaid := a.BuyReturned(t, rig.Purchase(sale, tokens[2]))

		deadline := time.Now().Add(time.Second)
		s.Expire(t, unpaid, deadline)
		seen := a.WaitFor(t, tokens[2], unpaid, "cancelled")
		require.False(t, seen.Before(deadline), "it was closed %s before its deadline", deadline.Sub(seen))
		b.BuyReturned(t, rig.Purchase(sale, tokens[3]))
		s.Verify(t)
	})
}

const httpSecret = "3f7a0c91d25be8846a1b9c07e5d2f4386b90ae17"

// startProvider builds and starts the example of a payment provider, which sends its notices to shop.
func startProvider(t *testing.T, shop string) (url string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "payment-provider")
	out, err := exec.Command("go", "build", "-o", binary, "../../docs/examples/payment-provider").CombinedOutput()
	require.NoError(t, err, string(out))
	addr := env.FreeAddr(t)
	cmd := exec.Command(binary, "-addr", addr, "-shop", shop)
	cmd.Env = append(os.Environ(), "SECKILL_PAYMENT_SECRET="+httpSecret)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	rig.Eventually(t, "the provider listens", func() bool {
		_, err := rig.Send(t.Context(), "http://"+addr, rig.Request{Method: http.MethodGet, Path: "/checkout/none"})
		return err == nil
	})
	return "http://" + addr
}

// checkOut pays on a page of the provider, as a browser would, and is sent back to the order.
func checkOut(t *testing.T, page, order string) {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a := env.Must(rig.SendBy(t.Context(), browser, page, rig.Request{Method: http.MethodPost}))(t)
	require.Equal(t, http.StatusSeeOther, a.Status)
	require.True(t, strings.HasSuffix(a.Header.Get("Location"), "/orders/"+order))
}

// TestPaymentsOverHTTP pays and refunds orders at the example of a payment provider, one of them after its cancellation. The money
// moves once. Then the notices go to another address, and the server has to ask. TestOrderIsNotClosedOverPayment and TestEveryNotice of
// package handler lose and double notices.
func TestPaymentsOverHTTP(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t)
	addr := env.FreeAddr(t)
	s = s.With("SECKILL_PAYMENT_URL="+startProvider(t, "http://"+addr), "SECKILL_PAYMENT_SECRET="+httpSecret)
	p := s.Spawn(t, addr)
	tokens := s.Tokens(t, 3)
	sale := p.Sale(t, 3)
	order := func(p *rig.Server, token, sale string) (id, page string) {
		id = p.Buy(t, token, sale)
		payment := p.Must(t, rig.Pay(id, token))["payment"].(map[string]any)
		require.Equal(t, "http", payment["provider"])
		return id, payment["checkout_url"].(string)
	}
	orders, pages := make([]string, len(tokens)), make([]string, len(tokens))
	for i, token := range tokens {
		orders[i], pages[i] = order(p, token, sale)
	}
	p.Must(t, rig.Post("/orders/"+orders[2]+"/cancel", tokens[2], nil))
	for i := range orders {
		checkOut(t, pages[i], orders[i])
		checkOut(t, pages[i], orders[i]) // the buyer's second press
	}
	p.WaitFor(t, tokens[0], orders[0], "paid")
	p.WaitFor(t, tokens[1], orders[1], "paid")
	p.Must(t, rig.Post("/orders/"+orders[1]+"/refund", tokens[1], nil))
	p.WaitFor(t, tokens[1], orders[1], "refunded")
	for i, want := range []string{"succeeded", "refunded", "refunded"} { // the third arrived after the cancellation
		rig.Eventually(t, "the payment of order "+orders[i]+" is "+want, func() bool {
			_, statuses := p.Payments(t, tokens[i], orders[i])
			return slices.Equal(statuses, []string{want})
		})
		require.Contains(t, rig.Fetch(t, pages[i]).Text, want, "what the provider has")
	}
	require.Zero(t, p.Stop(t))

	p = s.With("SECKILL_PAYMENT_URL=" + startProvider(t, "http://"+env.FreeAddr(t))).Serve(t)
	id, page := order(p, tokens[0], p.Sale(t, 1))
	checkOut(t, page, id)
	p.WaitFor(t, tokens[0], id, "paid")
	s.Verify(t)
}

// next returns the next event of a stream, or false at its end.
func next[T any](t *testing.T, stream <-chan T) (event T, more bool) {
	t.Helper()
	select {
	case event, more = <-stream:
	case <-time.After(time.Minute):
		require.Fail(t, "the stream has neither an event nor an end within a minute")
	}
	return event, more
}

// requireStatuses requires the next statuses of a stream. Each may be preceded by "queued".
func requireStatuses(t *testing.T, stream <-chan rush.Order, want ...string) {
	t.Helper()
	for _, w := range want {
		o, _ := next(t, stream)
		for o.Status == "queued" && w != "queued" {
			o, _ = next(t, stream)
		}
		require.Equal(t, w, o.Status)
	}
}

// TestOrderStreamFromAnyServer streams an order from one server while another one changes it. Each move is published, also
// that of a worker, or the stream would show it only by polling.
func TestOrderStreamFromAnyServer(t *testing.T) {
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		tokens, published := s.Tokens(t, 2), movedOrders(t, s)
		a, b := s.Serve(t), s.Serve(t)
		sale := a.Sale(t, 5)
		order := a.MustPlace(t, tokens[0], sale)
		stream := b.Follow(t, tokens[0], order)
		requireStatuses(t, stream, "pending_payment")
		a.Must(t, rig.Pay(order, tokens[0]))
		requireStatuses(t, stream, "paid")
		a.Must(t, rig.Post("/orders/"+order+"/refund", tokens[0], nil))
		last := ""
		for o, more := next(t, stream); more; o, more = next(t, stream) { // refunding may be over before it is read
			last = o.Status
		}
		require.Equal(t, "refunded", last)
		moves := 3 // paid, refunding, refunded
		if s.Lane == "queue" {
			moves = 4
		}
		for range moves {
			require.Equal(t, order, published())
		}

		order = a.Buy(t, tokens[1], sale)
		stream = b.Follow(t, tokens[1], order)
		requireStatuses(t, stream, "pending_payment")
		require.Zero(t, b.Stop(t), "open streams do not delay the stop")
		_, more := next(t, stream)
		require.False(t, more)
	})
}

// TestWaitEndsByMessage: the message of a worker, of any server, ends the wait for a queued order. Without it the first answer
// would come after a quarter of a second, when the buyer's server reads the ticket.
func TestWaitEndsByMessage(t *testing.T) {
	rig.Core("queue/embedded").Full("queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		token := s.Tokens(t, 1)[0]
		a := s.Serve(t)
		s.Serve(t)
		sale := a.Publish(t, rig.Offer{Stock: 100, LimitPerUser: 100})
		rig.Eventually(t, "an answer comes by message", func() bool {
			start := time.Now()
			answer := a.Do(t, rig.Purchase(sale, token).With("Prefer", "wait=3"))
			return answer.Status == http.StatusCreated && time.Since(start) < 250*time.Millisecond
		})
	})
}

// movedOrders returns the id of the next order whose move a server publishes. A message has those of moves at one time.
func movedOrders(t *testing.T, s *rig.Stack) (next func() string) {
	t.Helper()
	messages := s.Client(t).(redis.UniversalClient).Subscribe(t.Context(), app.OrdersChannel)
	t.Cleanup(func() { _ = messages.Close() })
	env.Must(messages.Receive(t.Context()))(t)

	var published []string
	return func() (order string) {
		if len(published) == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			published = strings.Split(env.Must(messages.ReceiveMessage(ctx))(t).Payload, ",")
		}
		order, published = published[0], published[1:]
		return order
	}
}

// five is a sale of which a user may have five orders.
var five = rig.Offer{Stock: 20, LimitPerUser: 5}

// TestKeyedRequestAfterServerCrash kills the server between the effect of a change and the storage of its answer. The
// next server returns the answer, even after the loss of Redis. TestUnstorableAnswerIsNotSent of package handler has each
// kind of change.
func TestKeyedRequestAfterServerCrash(t *testing.T) {
	rig.Core("queue/embedded").Full("lock/embedded", "lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		sale, token := p.Publish(t, five), s.Tokens(t, 1)[0]
		held := p.Do(t, rig.Purchase(sale, token).Keyed("held")).Order()
		rig.RequireOrdered(t, p, token, held)
		rig.RequireSettled(t, s)
		require.Zero(t, p.Stop(t))

		change := rig.Post("/orders/"+held+"/cancel", token, nil).Keyed("cancel")
		doomed := s.With(rig.EnvKillKeys+"=1").Spawn(t, "")
		rig.Eventually(t, "the server is killed", func() bool { // at the first answer that is stored, which one of 503 is not
			_, err := rig.Send(t.Context(), doomed.URL, change)
			return err != nil
		})
		<-doomed.Done

		p = s.Serve(t)
		require.NoError(t, s.Flush())
		s.Exec(t, "UPDATE idempotency_keys SET locked_until = created_at") // the lease of the killed server has ended
		r := p.Do(t, change)
		require.False(t, r.Replayed())
		require.True(t, r.Success(), r.Text)
		require.Equal(t, "cancelled", r.Field("status"))
		requireOrders(t, s, p, token, sale)
		again := p.Do(t, change)
		require.True(t, again.Replayed())
		require.Equal(t, r.Text, again.Text)
		s.Verify(t)
	})
}

// requireOrders waits until the queue is empty and requires that these are the buyer's orders of the sale that are not
// cancelled.
func requireOrders(t *testing.T, s *rig.Stack, p *rig.Server, token, sale string, ids ...string) {
	t.Helper()
	rig.RequireSettled(t, s)
	require.ElementsMatch(t, ids, p.OrdersOf(t, token, sale, "cancelled"))
}

// postConcurrently sends a request n times at once, and repeats what is answered 503. It requires equal answers, of which
// all but one are replays. On a busy machine all may be, because the other one was answered 503.
func postConcurrently(t *testing.T, n int, k rig.Request, servers ...*rig.Server) rig.Answer {
	t.Helper()
	answers, errs := make([]rig.Answer, n), make([]error, n)
	concurrently(n, func(i int) { answers[i], errs[i] = servers[i%len(servers)].Try(t.Context(), k) })

	fresh := 0
	for i, a := range answers {
		require.NoError(t, errs[i])
		if !a.Replayed() {
			fresh++
		}
		require.Equal(t, answers[0].Status, a.Status)
		require.Equal(t, answers[0].Text, a.Text)
		require.Equal(t, answers[0].Header.Get("Location"), a.Header.Get("Location"))
	}
	require.LessOrEqual(t, fresh, 1, "answers that are no replays")
	return answers[0]
}

// TestDeadLetterIsReplayed replays an order that the database rejected, first while the sale is sold out, and discards the
// next one.
func TestDeadLetterIsReplayed(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t).In("queue").With(rig.EnvRedeliver + "=300ms")
	p := s.Serve(t)
	sale, tokens, admin := p.Sale(t, 1), s.Tokens(t, 2), p.Admin(t)
	ill, other := tokens[0], tokens[1]
	user := p.Must(t, rig.Get("/me", ill))["id"].(string)
	cure := rig.Poison(t, s, user)

	order, deadLetter := rig.PlacePoisoned(t, p, sale, ill, admin)
	out := s.Exits(t, 0, "dead-letters", "list")
	for _, want := range []string{deadLetter, order, user, "poison"} {
		require.Contains(t, out, want)
	}
	s.Verify(t)

	// The unit of the failed order is free again. Once another buyer has it, a replay fails.
	unit := p.BuyReturned(t, rig.Purchase(sale, other))
	require.Contains(t, s.Exits(t, 1, "dead-letters", "replay", deadLetter), "sold out; the dead letter is kept")
	rig.RequireSettled(t, s)
	p.MustCancel(t, other, unit)

	cure()
	require.Contains(t, s.Exits(t, 0, "dead-letters", "replay", deadLetter), "order "+order)
	rig.RequireOrdered(t, p, ill, order)
	require.Empty(t, p.Items(t, rig.Get("/admin/dead-letters", admin)))
	require.Contains(t, s.Exits(t, 1, "dead-letters", "replay", deadLetter), "not found")

	rig.Poison(t, s, rig.UserOf(t, other))
	_, deadLetter = rig.PlacePoisoned(t, p, p.Sale(t, 1), other, admin)
	s.Exits(t, 0, "dead-letters", "discard", deadLetter)
	require.Empty(t, p.Items(t, rig.Get("/admin/dead-letters", admin)))
	s.Verify(t)
}
