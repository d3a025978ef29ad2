package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestEventsSurviveKill kills servers with SIGKILL between the moves of orders and the delivery of their events, while
// the receiver hangs. Every event arrives, and those of an order in the order of its moves.
func TestEventsSurviveKill(t *testing.T) {
	testenv.Full(t)
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
		return len(c.Must(t, rig.Get("/admin/events?status=delivered&limit=100", admin))["items"].([]any)) == 2*n
	})
	s.Verify(t)
}
