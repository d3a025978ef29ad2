package handler

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type orderEventHandler struct{ *api }

type eventBody struct {
	ID        ID               `json:"id"`
	Type      domain.EventType `json:"type"`
	CreatedAt time.Time        `json:"created_at"`
	Data      orderOut         `json:"data"`
}

func newEventBody(e *domain.OrderEvent) eventBody {
	return eventBody{
		ID:        ID(e.ID),
		Type:      e.Type,
		CreatedAt: e.CreatedAt,
		Data:      newOrderOut(&e.Order),
	}
}

// EncodeEvent returns the body of the delivery of an event, as JSON.
func EncodeEvent(e *domain.OrderEvent) ([]byte, error) { return json.Marshal(newEventBody(e)) }

// orderEventOut is an event with the body of its delivery.
type orderEventOut struct {
	*domain.OrderEvent
	Payload eventBody `json:"payload"`
}

func newOrderEventOut(e *domain.OrderEvent) orderEventOut { return orderEventOut{e, newEventBody(e)} }

func (h *orderEventHandler) list(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(h.cursors)
	f := domain.EventFilter{
		OrderID: q.id("order_id"),
		Status:  word(q, "status", domain.ParseEventStatus, "must be pending, delivered or failed"),
		Page:    page.Page,
	}
	if q.err != nil {
		return q.err
	}

	events, err := h.Store.OrderEvents(c.Request.Context(), f)
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, newList(page, events, newOrderEventOut, func(e *domain.OrderEvent) int64 { return e.ID }))
}

func (h *orderEventHandler) repeat(c *gin.Context, claim *domain.Claim, id int64) error {
	if err := h.Store.RepeatEvent(c.Request.Context(), claim, id); err != nil {
		return err
	}
	return writeNoContent(c)
}
