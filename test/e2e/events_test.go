package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

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
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		tokens, published := s.Tokens(t, 2), movedOrders(t, s)
		a, b := s.Serve(t), s.Serve(t)
		sale := a.Sale(t, 5)
		order := orderOf(t, a, tokens[0], sale)
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

		order = a.Buy(t, tokens[1], sale).ID
		stream = b.Follow(t, tokens[1], order)
		requireStatuses(t, stream, "pending_payment")
		require.Zero(t, b.Stop(t), "open streams do not delay the stop")
		_, more := next(t, stream)
		require.False(t, more)
	})
}

// movedOrders returns the id of the next order whose move a server publishes. A message has those of moves at one time.
func movedOrders(t *testing.T, s *rig.Stack) (next func() string) {
	t.Helper()
	messages := s.Client(t).Subscribe(t.Context(), app.OrdersChannel)
	t.Cleanup(func() { _ = messages.Close() })
	_, err := messages.Receive(t.Context())
	require.NoError(t, err)

	var published []string
	return func() (order string) {
		if len(published) == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			m, err := messages.ReceiveMessage(ctx)
			require.NoError(t, err)
			published = strings.Split(m.Payload, ",")
		}
		order, published = published[0], published[1:]
		return order
	}
}

// orderOf places an order and returns its id.
func orderOf(t *testing.T, p *rig.Server, token, sale string) string {
	t.Helper()
	a := p.Do(t, rig.Purchase(sale, token))
	require.True(t, a.Success(), a.Text)
	return a.Order()
}

// TestEventsSurviveKill kills servers with SIGKILL between the moves of orders and the delivery of their events, while
// the receiver hangs. Every event arrives, and those of an order in the order of its moves.
func TestEventsSurviveKill(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	r := rig.StartEventReceiver(t)
	s = s.In("queue").With("SECKILL_EVENTS_URL="+r.URL, "SECKILL_EVENTS_SECRET="+rig.EventsSecret)
	r.Hang = true
	const n = 12
	tokens := s.Tokens(t, n)
	a, b := s.Spawn(t, ""), s.Spawn(t, "")
	sale := a.Sale(t, n)
	orders := make([]string, n)
	for i, token := range tokens {
		orders[i] = a.Buy(t, token, sale).ID
	}
	rig.Eventually(t, "events are on their way", func() bool {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return len(r.Taken) > 0
	})
	for i, order := range orders { // each has an event that waits for the first one
		if i%2 == 0 {
			b.Must(t, rig.Post("/orders/"+order+"/cancel", tokens[i], nil))
		} else {
			b.Must(t, rig.Pay(order, tokens[i]))
			b.WaitFor(t, tokens[i], order, "paid")
		}
	}
	a.Kill()
	b.Kill()
	r.Mu.Lock()
	for _, event := range r.Taken {
		require.True(t, strings.HasSuffix(event, " order.created"), "%s was sent before the earlier event was answered", event)
	}
	r.Hang = false
	r.Mu.Unlock()

	c := s.Serve(t)
	for i, order := range orders {
		want := []string{"created", "cancelled"}
		if i%2 == 1 {
			want[1] = "paid"
		}
		rig.Eventually(t, "the events of order "+order, func() bool { return len(r.Of(order)) >= 2 })
		require.Equal(t, want, r.Of(order))
	}
	require.Zero(t, r.Repeats, "events that were answered are not sent again")
	admin := c.Admin(t)
	rig.Eventually(t, "all events are delivered", func() bool {
		return len(c.Items(t, rig.Get("/admin/events?status=delivered&limit=100", admin))) == 2*n
	})
	s.Verify(t)
}
