package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// eventsInBrowser looks at an event that the receiver refuses, and sends it again.
func eventsInBrowser(t *testing.T, c *consoleTest) {
	r := rig.StartEventReceiver(t)
	r.Refuse = true
	s := c.Stack.Fresh(t).WithAdmins().With("SECKILL_EVENTS_URL="+r.URL, "SECKILL_EVENTS_SECRET="+rig.EventsSecret)
	p := s.Serve(t).Shop(t)
	order := p.Buy(t, s.Tokens(t, 1)[0], p.Publish(t, rig.Offer{Stock: 5})).ID
	v := c.visit(p.URL, "en")
	v.enter("/console/events", c.phone)
	rig.Eventually(t, "the answer of the receiver", func() bool {
		v.click(`[data-do="refresh"]`)
		return strings.Contains(v.text("table"), "503 closed for stocktaking")
	})
	v.reads("table", "order.created", "Pending")
	v.click("tbody summary")
	v.reads("tbody pre", order)
	r.Mu.Lock()
	r.Refuse = false
	r.Mu.Unlock()
	v.click(`[data-event] [data-do="repeat"]`)
	v.reads("main", "Will be sent within a second.")
	rig.Eventually(t, "the event arrives", func() bool { return len(r.Of(order)) == 1 })
	v.choose(`form[data-form=filter] [name=status]`, "delivered")
	v.submit("filter")
	rig.Eventually(t, "the event is delivered", func() bool {
		v.click(`[data-do="refresh"]`)
		return strings.Contains(v.text("main"), order)
	})
	require.Equal(t, "/console/events?status=delivered", v.at())
	v.goTo("/console/events?status=failed")
	v.reads("main", "No deliveries.")
}
