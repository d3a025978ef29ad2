package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/loop"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/admission"
	"seckill/test/env"
)

// Queue places an order in lane queue while no worker commits, and returns its id.
func (p *Server) Queue(t *testing.T, token, sale string) string {
	t.Helper()
	return RequireQueued(t, p.Do(t, Purchase(sale, token)))
}

// RequireQueued requires a complete 202 response and returns the order id.
func RequireQueued(t *testing.T, a Answer) string {
	t.Helper()
	require.Equal(t, http.StatusAccepted, a.Status, a.Body)

	id := a.Field("order_id")
	require.NotEmpty(t, id)
	require.Equal(t, map[string]any{"id": id, "order_id": id, "status": "queued"}, a.Body)
	require.Equal(t, "/api/v1/orders/"+id, a.Header.Get("Location"))
	return id
}

// RequireProblem requires an answer with a status and a code.
func RequireProblem(t *testing.T, status int, code string, a Answer) {
	t.Helper()
	require.Equal(t, status, a.Status, a.Body)
	require.Equal(t, code, a.Body["code"])
}

// RequireOrdered waits until a queued order is committed.
func RequireOrdered(t *testing.T, p *Server, token, id string) {
	t.Helper()
	Eventually(t, "order "+id+" is confirmed", func() bool {
		o, err := p.Order(t.Context(), token, id)
		require.False(t, err == nil && o.Status == "failed", "order %s failed: %s", id, o.Reason)
		return err == nil && o.Status == "pending_payment"
	})
}

// HoldWorkers returns a stack whose workers commit nothing until the function is called.
func HoldWorkers(t *testing.T, s *Stack) (*Stack, func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hold")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	return s.With(EnvHold + "=" + file), func() { require.NoError(t, os.Remove(file)) }
}

// RequireSettled waits until the queue is empty. Entries of crashed workers are delivered again.
func RequireSettled(t *testing.T, s *Stack) {
	t.Helper()
	gate := admission.New(admission.Config{Redis: s.Client(t)})
	Eventually(t, "the queue is empty", func() bool {
		lag, err := gate.Lag(t.Context())
		return err == nil && lag.Unsettled == 0
	})
}

// BuyReturned sends a purchase until it gets a unit that is returned in the background, after the commit, and returns the
// order. Until then it is refused with sold_out or, in place of an order of the user, with duplicate_order.
func (p *Server) BuyReturned(t *testing.T, purchase Request) string {
	t.Helper()

	order := ""
	purchase = purchase.Keyed(rand.Text())
	Eventually(t, "the unit is on sale again", func() bool {
		a := p.Do(t, purchase)
		order = a.Order()
		if !a.Success() {
			require.Contains(t, []string{"sold_out", "duplicate_order"}, a.Field("code"))
		}
		return a.Success()
	})

	RequireOrdered(t, p, purchase.Token, order)
	return order
}

// MustPlace places an order and returns its id.
func (p *Server) MustPlace(t *testing.T, token, sale string) string {
	t.Helper()
	a := p.Do(t, Purchase(sale, token))
	require.True(t, a.Success(), "%d %s", a.Status, a.Text)
	return a.Order()
}

// MustCancel cancels an order.
func (p *Server) MustCancel(t *testing.T, token, order string) {
	t.Helper()
	p.Must(t, Post("/orders/"+order+"/cancel", token, nil))
}

// Buy places an order, requires that it is committed, and returns its id.
func (p *Server) Buy(t *testing.T, token, sale string) string {
	t.Helper()
	order := p.MustPlace(t, token, sale)
	RequireOrdered(t, p, token, order)
	return order
}

// OrdersOf returns the ids of a buyer's orders of a sale, but those of a status.
func (p *Server) OrdersOf(t *testing.T, token, sale, but string) []string {
	t.Helper()

	var ids []string
	for _, o := range p.Items(t, Get("/orders?limit=100", token)) {
		if o["voucher_id"] == sale && o["status"] != but {
			ids = append(ids, o["id"].(string))
		}
	}

	return ids
}

// WaitFor waits until an order has a status, and returns when it was first seen.
func (p *Server) WaitFor(t *testing.T, token, order, status string) time.Time {
	t.Helper()
	Eventually(t, "order "+order+" is "+status, func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == status
	})
	return time.Now()
}

// Payments returns the references and statuses of an order's payments.
func (p *Server) Payments(t *testing.T, token, order string) ([]string, []string) {
	t.Helper()

	var refs, statuses []string
	for _, payment := range p.Items(t, Get("/orders/"+order+"/payments", token)) {
		refs = append(refs, payment["provider_ref"].(string))
		statuses = append(statuses, payment["status"].(string))
	}

	return refs, statuses
}

// Expire sets the deadline for the payment of an order.
func (s *Stack) Expire(t *testing.T, order string, at time.Time) {
	t.Helper()
	literal := at.UTC().Format("'2006-01-02 15:04:05.000000'")
	if s.Setting("SECKILL_MYSQL_DSN") == "" {
		literal = fmt.Sprint(at.UnixMilli())
	}

	s.Exec(t, "UPDATE voucher_orders SET expires_at = "+literal+" WHERE id = "+order)
}

var phones atomic.Int64

// NewPhone returns an unused phone number.
func NewPhone() string { return fmt.Sprintf("137%08d", phones.Add(1)) }

// Follow opens the event stream of an order and returns its events. The channel is closed at the end of the stream.
func (p *Server) Follow(t *testing.T, token, order string) <-chan rush.Order {
	t.Helper()
	stream := env.Must(p.Open(t.Context(), Get("/orders/"+order+"/events", token)))(t)
	t.Cleanup(stream.Close)
	events := make(chan rush.Order, 256)

	go func() {
		defer close(events)

		for {
			var o rush.Order
			if _, err := stream.Next(&o); err != nil {
				return
			}
			events <- o
		}
	}()

	return events
}

// RequireStock waits until the API shows a stock. A cached value may be a second old.
func RequireStock(t *testing.T, c *rush.Client, sale string, stock int64) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		v, err := c.Voucher(context.Background(), sale)
		assert.NoError(t, err)
		assert.Equal(t, stock, v.Stock)
		assert.Equal(t, stock == 0, v.State == "sold_out")
	}, time.Minute, 50*time.Millisecond)
}

// Sleep is [loop.Sleep].
func Sleep(ctx context.Context, d time.Duration) error { return loop.Sleep(ctx, d) }

// HasCode reports whether an error is an answer with this code.
func HasCode(err error, code string) bool {
	var p *rush.Problem
	return errors.As(err, &p) && p.Code == code
}
