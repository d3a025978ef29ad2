package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	orderevents "seckill/internal/outbox"
	"seckill/internal/webhook"
)

// eventReceiver is the receiver of events. It answers with status.
type eventReceiver struct {
	mu     sync.Mutex
	status int
	bodies []eventBody
}

type eventBody struct {
	ID   string
	Type string
	Data orderView
}

func (r *eventReceiver) post(_ context.Context, text []byte) (webhook.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		return webhook.Answer{}, errors.New("connection refused")
	}
	var body eventBody
	err := json.Unmarshal(text, &body)
	r.bodies = append(r.bodies, body)
	return webhook.Answer{Status: r.status, Body: []byte("noted")}, err
}

// TestOrderEvents: the events of an order are delivered in order, shown with their body and the last answer, and repeated
// by an operator.
func TestOrderEvents(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db)
		e.store.RecordEvents()
		r := &eventReceiver{}
		sender := orderevents.New(orderevents.Config{
			Store: e.store, Encode: handler.EncodeEvent, Post: r.post, Now: e.clock.now, Log: slog.New(slog.DiscardHandler),
		})
		v, buyer, admin := e.sale(1), e.buyer(1), e.admin()
		p := buyer.paid(v)
		buyer.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
		require.NoError(t, e.payments.RefundDue(t.Context()))

		type item struct {
			ID, Status, Answer string
			Tries              int
			AnswerStatus       int `json:"answer_status"`
			Payload            eventBody
		}
		list := func(query string) []item {
			t.Helper()
			return decode[struct{ Items []item }](admin.get("/api/v1/admin/events?" + query).want(http.StatusOK)).Items
		}
		require.ErrorContains(t, sender.SendDue(t.Context()), "connection refused")
		pending := list("status=pending&order_id=" + p.Order.ID)
		require.Len(t, pending, 4)
		first := pending[3]
		assert.Equal(t, []any{"pending", "connection refused", 1, 0}, []any{first.Status, first.Answer, first.Tries, first.AnswerStatus})
		assert.Zero(t, pending[0].Tries, "the later events wait")

		r.status = http.StatusAccepted
		admin.post("/api/v1/admin/events/"+first.ID+"/repeat", nil).want(http.StatusNoContent)
		require.NoError(t, sender.SendDue(t.Context()))
		var types, statuses []string
		for _, b := range r.bodies {
			types, statuses = append(types, b.Type), append(statuses, b.Data.Status)
			assert.Equal(t, p.Order.ID, b.Data.ID)
			assert.Empty(t, b.Data.RedeemCode, "the code is the buyer's")
		}
		assert.Equal(t, []string{"order.created", "order.paid", "order.refunding", "order.refunded"}, types)
		assert.Equal(t, []string{"pending_payment", "paid", "refunding", "refunded"}, statuses)
		delivered := list("status=delivered&limit=2")
		require.Len(t, delivered, 2)
		assert.Equal(t, []any{"noted", http.StatusAccepted, r.bodies[3]}, []any{delivered[0].Answer, delivered[0].AnswerStatus, delivered[0].Payload})
		assert.Empty(t, list("status=failed"))

		admin.post("/api/v1/admin/events/"+first.ID+"/repeat", nil).want(http.StatusNoContent)
		require.NoError(t, sender.SendDue(t.Context()))
		require.Len(t, r.bodies, 5)
		assert.Equal(t, r.bodies[0], r.bodies[4], "a repeated event has the same id and body")

		admin.post("/api/v1/admin/events/12345/repeat", nil).problem(http.StatusNotFound, "not_found")
		admin.bad().get("/api/v1/admin/events?status=lost").problem(http.StatusBadRequest, "invalid_request")
		buyer.get("/api/v1/admin/events").problem(http.StatusForbidden, "forbidden")
		e.staff("13900000005", domain.RoleViewer).post("/api/v1/admin/events/"+first.ID+"/repeat", nil).problem(http.StatusForbidden, "forbidden")
	})
}
