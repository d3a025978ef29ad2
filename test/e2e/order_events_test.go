package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/webhook"
)

// eventReceiver is the merchant's system behind SECKILL_EVENTS_URL. While it hangs, it takes events without answering.
type eventReceiver struct {
	url string

	mu      sync.Mutex
	hang    bool
	refuse  bool
	taken   []string            // "order type" of the events that were not answered
	types   map[string][]string // of the answered events, by order
	bodies  map[string]string   // by event id
	repeats int                 // events that were sent again after an answer
}

func startEventReceiver(t *testing.T) *eventReceiver {
	t.Helper()
	r := &eventReceiver{types: map[string][]string{}, bodies: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var event struct {
			ID, Type string
			Data     struct{ ID, Status string }
		}
		body, err := io.ReadAll(req.Body)
		assert.NoError(t, err)
		assert.NoError(t, webhook.Verify(domain.ParseKeyring(eventsSecret), body, req.Header.Get(webhook.SignatureHeader), time.Now()))
		assert.NoError(t, json.Unmarshal(body, &event))
		r.mu.Lock()
		if r.hang {
			r.taken = append(r.taken, event.Data.ID+" "+event.Type)
			r.mu.Unlock()
			<-req.Context().Done()
			return
		}
		defer r.mu.Unlock()
		if r.refuse {
			http.Error(w, "closed for stocktaking", http.StatusServiceUnavailable)
			return
		}
		if before, again := r.bodies[event.ID]; again {
			assert.Equal(t, before, string(body), "a repeated event")
			r.repeats++
			return
		}
		r.bodies[event.ID] = string(body)
		r.types[event.Data.ID] = append(r.types[event.Data.ID], strings.TrimPrefix(event.Type, "order."))
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// of returns the types of the answered events of an order.
func (r *eventReceiver) of(order string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.types[order]...)
}

// TestEventsSurviveKill kills servers with SIGKILL between the moves of orders and the delivery of their events, while
// the receiver hangs. Every event arrives, and those of an order in the order of its moves.
func TestEventsSurviveKill(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	r := startEventReceiver(t)
	s = s.in("queue").with("SECKILL_EVENTS_URL="+r.url, "SECKILL_EVENTS_SECRET="+eventsSecret)
	r.hang = true
	const n = 12
	tokens := s.tokens(t, n)
	a, b := s.spawn(t, ""), s.spawn(t, "")
	sale := a.sale(t, n)
	orders := make([]string, n)
	for i, token := range tokens {
		orders[i] = a.buy(t, token, sale).ID
	}
	eventually(t, "events are on their way", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.taken) > 0
	})
	for i, order := range orders { // each has an event that waits for the first one
		if i%2 == 0 {
			b.must(t, http.MethodPost, "/orders/"+order+"/cancel", tokens[i], nil)
		} else {
			b.must(t, http.MethodPost, "/orders/"+order+"/pay", tokens[i], nil)
			b.waitFor(t, tokens[i], order, "paid")
		}
	}
	a.kill()
	b.kill()
	r.mu.Lock()
	for _, event := range r.taken {
		require.True(t, strings.HasSuffix(event, " order.created"), "%s was sent before the earlier event was answered", event)
	}
	r.hang = false
	r.mu.Unlock()

	c := s.serve(t)
	for i, order := range orders {
		want := []string{"created", "cancelled"}
		if i%2 == 1 {
			want[1] = "paid"
		}
		eventually(t, "the events of order "+order, func() bool { return len(r.of(order)) >= 2 })
		require.Equal(t, want, r.of(order))
	}
	require.Zero(t, r.repeats, "events that were answered are not sent again")
	admin := c.admin(t)
	eventually(t, "all events are delivered", func() bool {
		return len(c.must(t, http.MethodGet, "/admin/events?status=delivered&limit=100", admin, nil)["items"].([]any)) == 2*n
	})
	s.verify(t)
}

// eventsInBrowser looks at an event that the receiver refuses, and sends it again.
func eventsInBrowser(t *testing.T, c *consoleTest) {
	r := startEventReceiver(t)
	r.refuse = true
	s := c.stack.fresh(t).withAdmins().with("SECKILL_EVENTS_URL="+r.url, "SECKILL_EVENTS_SECRET="+eventsSecret)
	p := s.serve(t).shop(t)
	order := p.buy(t, s.tokens(t, 1)[0], p.publish(t, offer{Stock: 5})).ID
	v := c.visit(p.url, "en")
	v.enter("/console/events", c.phone)
	eventually(t, "the answer of the receiver", func() bool {
		v.click(`[data-do="refresh"]`)
		return strings.Contains(v.text("table"), "503 closed for stocktaking")
	})
	v.reads("table", "order.created")
	v.reads("table", "Pending")
	v.click("tbody summary")
	v.reads("tbody pre", order)
	r.mu.Lock()
	r.refuse = false
	r.mu.Unlock()
	v.click(`[data-event] [data-do="repeat"]`)
	v.reads("main", "Will be sent within a second.")
	eventually(t, "the event arrives", func() bool { return len(r.of(order)) == 1 })
	v.choose(`form[data-form=filter] [name=status]`, "delivered")
	v.submit("filter")
	eventually(t, "the event is delivered", func() bool {
		v.click(`[data-do="refresh"]`)
		return strings.Contains(v.text("main"), order)
	})
	require.Equal(t, "/console/events?status=delivered", v.at())
	v.goTo("/console/events?status=failed")
	v.reads("main", "No events.")
}
