package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
)

// follow opens the event stream of an order and returns its statuses. The channel is closed at the end of the stream.
func (p *server) follow(t *testing.T, token, order string) <-chan string {
	t.Helper()
	// A stream polls a committed order after 15 s at the earliest, so every status within 14 s was pushed.
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/orders/"+order+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	statuses := make(chan string, 16)
	go func() {
		defer close(statuses)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var o struct{ Status string }
				_ = json.Unmarshal([]byte(data), &o)
				statuses <- o.Status
			}
		}
	}()
	return statuses
}

// requireStatuses requires the next statuses of a stream. Each may be preceded by one "queued".
func requireStatuses(t *testing.T, stream <-chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		got := <-stream
		if got == "queued" && w != got {
			got = <-stream
		}
		require.Equal(t, w, got)
	}
}

// TestOrderStreamFromAnyServer streams an order from one server while another one changes it.
func TestOrderStreamFromAnyServer(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		token := s.tokens(t, 1)[0]
		a, b := s.serve(t), s.serve(t)
		sale := a.sale(t, 5)
		order := orderOf(t, a, token, sale)
		stream := b.follow(t, token, order)
		requireStatuses(t, stream, "pending_payment")
		a.must(t, http.MethodPost, "/orders/"+order+"/pay", token, nil)
		requireStatuses(t, stream, "paid")
		a.must(t, http.MethodPost, "/orders/"+order+"/refund", token, nil)
		last := ""
		for status := range stream { // until the final status; refunding may be over before it is read
			last = status
		}
		require.Equal(t, "refunded", last)

		order = a.buyReturned(t, token, sale).ID
		stream = b.follow(t, token, order)
		requireStatuses(t, stream, "pending_payment")
		require.Zero(t, b.stop(t), "open streams do not delay the stop")
		_, more := <-stream
		require.False(t, more)
	})
}

// TestWorkersPublishSettledOrders checks that the workers publish each settled order to all servers. Streams depend on
// these messages.
func TestWorkersPublishSettledOrders(t *testing.T) {
	t.Parallel()
	s := realStack(t).in("queue")
	token := s.tokens(t, 1)[0]
	messages := s.client(t).Subscribe(t.Context(), app.OrdersChannel)
	defer func() { _ = messages.Close() }()
	_, err := messages.Receive(t.Context())
	require.NoError(t, err)
	p := s.serve(t)
	order := orderOf(t, p, token, p.sale(t, 5))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := messages.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, order, m.Payload)
}

// orderOf places an order and returns its id.
func orderOf(t *testing.T, p *server, token, sale string) string {
	t.Helper()
	a := p.answered(t, http.MethodPost, "/api/v1/vouchers/"+sale+"/orders", token, "Idempotency-Key", rand.Text())
	require.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.status, a.body)
	location := a.header.Get("Location")
	return location[strings.LastIndexByte(location, '/')+1:]
}
