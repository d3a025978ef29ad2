package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
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

// TestOrderStreamFromAnyServer streams an order from one server while another one changes it.
func TestOrderStreamFromAnyServer(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const tries = 3
		tokens := s.Tokens(t, 1+tries)
		a, b := s.Serve(t), s.Serve(t)
		sale := a.Sale(t, 5)
		// A stream polls a committed order after 15 s at the earliest, so a status within 14 s of the one before was pushed.
		// On a busy machine it may take longer.
		pushed := func(token string) bool {
			order := orderOf(t, a, token, sale)
			stream := b.Follow(t, token, order)
			requireStatuses(t, stream, "pending_payment")
			before := time.Now()
			late := func() bool { gap := time.Since(before); before = time.Now(); return gap > 14*time.Second }
			a.Must(t, rig.Pay(order, token))
			if requireStatuses(t, stream, "paid"); late() {
				return false
			}
			a.Must(t, rig.Post("/orders/"+order+"/refund", token, nil))
			last := ""
			for o, more := next(t, stream); more; o, more = next(t, stream) { // refunding may be over before it is read
				if last = o.Status; late() {
					return false
				}
			}
			require.Equal(t, "refunded", last)
			return true
		}
		for try := 1; !pushed(tokens[try]); try++ {
			require.Less(t, try, tries, "no order has each status within 14 s of the one before")
		}

		order := a.Buy(t, tokens[0], sale).ID
		stream := b.Follow(t, tokens[0], order)
		requireStatuses(t, stream, "pending_payment")
		require.Zero(t, b.Stop(t), "open streams do not delay the stop")
		_, more := next(t, stream)
		require.False(t, more)
	})
}

// TestWorkersPublishSettledOrders checks that the workers publish each settled order to all servers. Streams depend on
// these messages.
func TestWorkersPublishSettledOrders(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue")
	token := s.Tokens(t, 1)[0]
	messages := s.Client(t).Subscribe(t.Context(), app.OrdersChannel)
	defer func() { _ = messages.Close() }()
	_, err := messages.Receive(t.Context())
	require.NoError(t, err)
	p := s.Serve(t)
	order := orderOf(t, p, token, p.Sale(t, 5))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := messages.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, order, m.Payload)
}

// orderOf places an order and returns its id.
func orderOf(t *testing.T, p *rig.Server, token, sale string) string {
	t.Helper()
	a := p.Do(t, rig.Purchase(sale, token))
	require.True(t, a.Success(), a.Text)
	return a.Order()
}
