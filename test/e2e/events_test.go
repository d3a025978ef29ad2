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
)

// next returns the next event of a stream, or false at its end.
func next(t *testing.T, stream <-chan rush.Order) (event rush.Order, more bool) {
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
		order := a.MustPlace(t, tokens[0], sale).ID
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
