package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type auditHandler struct {
	log     domain.AuditStore
	cursors cursors
}

// auditOut is the JSON form of an audit log entry.
type auditOut struct {
	ID        ID        `json:"id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`
	ActorID   *ID       `json:"actor_id,omitempty"` // set for buyers and admins
	Action    string    `json:"action"`
	VoucherID *ID       `json:"voucher_id,omitempty"` // absent if a payment names an order that does not exist
	OrderID   *ID       `json:"order_id,omitempty"`
	Detail    string    `json:"detail"`
}

func newAuditOut(e *domain.AuditEntry) auditOut {
	out := auditOut{
		ID: ID(e.ID), At: e.At, Actor: string(e.Actor.Kind), Action: e.Action, Detail: e.Detail,
	}
	if e.VoucherID != 0 {
		out.VoucherID = (*ID)(&e.VoucherID)
	}
	if e.Actor.ID != 0 {
		out.ActorID = (*ID)(&e.Actor.ID)
	}
	if e.OrderID != 0 {
		out.OrderID = (*ID)(&e.OrderID)
	}
	return out
}

func (h *auditHandler) list(c *gin.Context) error {
	page, err := h.cursors.request(c)
	if err != nil {
		return err
	}
	f := domain.AuditFilter{Page: page.Page}
	for name, dst := range map[string]*int64{"voucher_id": &f.VoucherID, "order_id": &f.OrderID, "actor_id": &f.ActorID} {
		if *dst, err = queryID(c, name); err != nil {
			return err
		}
	}
	entries, err := h.log.AuditLog(c.Request.Context(), f)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, newList(page, entries, newAuditOut, func(e *domain.AuditEntry) int64 { return e.ID }))
}
