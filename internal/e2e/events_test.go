package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"seckill/internal/app"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// follow opens the stream of an order and passes its statuses on, until the server ends it.
func (p *process) follow(t *testing.T, token, order string) <-chan string {
	t.Helper()
	// Shorter than a stream waits before it looks by itself: what comes in this time was told.
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

// requireStatuses requires what a stream tells next; queued may come first.
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

// TestWatchOnAnotherServer: any server streams any order, whoever moves it.
func TestWatchOnAnotherServer(t *testing.T) {
	eachLane(t, true, func(t *testing.T, s *stack) {
		token := s.tokens(t, 1)[0]
		a, b := s.serve(t, ""), s.serve(t, "")
		sale := a.sale(t, 5)
		order := orderOf(t, a, token, sale)
		stream := b.follow(t, token, order)
		requireStatuses(t, stream, "pending_payment")
		a.send(t, http.MethodPost, "/api/v1/orders/"+order+"/pay", token)
		requireStatuses(t, stream, "paid")
		a.send(t, http.MethodPost, "/api/v1/orders/"+order+"/refund", token)
		last := ""
		for status := range stream { // to its end, which is the order's; refunding may be over before anybody looks
			last = status
		}
		require.Equal(t, "refunded", last)

		order = orderOf(t, a, token, sale)
		stream = b.follow(t, token, order)
		requireStatuses(t, stream, "pending_payment")
		require.Zero(t, b.stop(t), "a server that stops does not wait for streams")
		_, more := <-stream
		require.False(t, more)
	})
}

// TestWorkersTellOfOrders: what the queue's workers have settled is told to all servers, so that nobody who watches must
// look for it.
func TestWorkersTellOfOrders(t *testing.T) {
	each(t, true, func(t *testing.T, s *stack) {
		s = s.in("queue")
		token := s.tokens(t, 1)[0]
		told := s.client(t).Subscribe(t.Context(), app.OrdersChannel)
		defer func() { _ = told.Close() }()
		_, err := told.Receive(t.Context())
		require.NoError(t, err)
		p := s.serve(t, "")
		order := orderOf(t, p, token, p.sale(t, 5))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m, err := told.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, order, m.Payload)
	})
}

// orderOf buys, and returns the order's id.
func orderOf(t *testing.T, p *process, token, sale string) string {
	t.Helper()
	a := p.click(t, token, sale)
	require.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.status, a.body)
	location := a.header.Get("Location")
	return location[strings.LastIndexByte(location, '/')+1:]
}
