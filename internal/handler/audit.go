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
	ID    ID        `json:"id"`
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	// Set for buyers and admins.
	ActorID *ID    `json:"actor_id,omitempty"`
	Action  string `json:"action"`
	// Absent if a payment names an order that does not exist.
	VoucherID *ID    `json:"voucher_id,omitempty"`
	OrderID   *ID    `json:"order_id,omitempty"`
	Detail    string `json:"detail"`
}

func newAuditOut(e *domain.AuditEntry) auditOut {
	out := auditOut{
		ID:     ID(e.ID),
		At:     e.At,
		Actor:  string(e.Actor.Kind),
		Action: e.Action,
		Detail: e.Detail,
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
	switch c.Query("kind") {
	case "", "change":
		return h.changes(c)
	case "request":
		return h.requests(c)
	}
	return domain.Invalid("kind", "must be change or request")
}

func (h *auditHandler) changes(c *gin.Context) error {
	page, err := h.cursors.request(c)
	if err != nil {
		return err
	}

	f := domain.AuditFilter{Page: page.Page}
	for name, dst := range map[string]*int64{
		"voucher_id": &f.VoucherID,
		"order_id":   &f.OrderID,
		"actor_id":   &f.ActorID,
	} {
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

// requestOut is the JSON form of an admin's request.
type requestOut struct {
	ID ID        `json:"id"`
	At time.Time `json:"at"`
	// Admin, or system for a command on the server.
	Actor string `json:"actor"`
	// Absent for a command.
	ActorID *ID         `json:"actor_id,omitempty"`
	Action  string      `json:"action"` // always request
	Role    domain.Role `json:"role,omitempty"`
	Method  string      `json:"method"`
	Route   string      `json:"route"`
	Target  string      `json:"target,omitempty"`
	// Null while the answer is not known.
	Status    *int   `json:"status"`
	RequestID string `json:"request_id,omitempty"`
	Network   string `json:"network,omitempty"`
}

func newRequestOut(r *domain.AdminRequest) requestOut {
	out := requestOut{
		ID:        ID(r.ID),
		At:        r.At,
		Actor:     string(domain.ActorAdmin),
		ActorID:   (*ID)(&r.UserID),
		Action:    "request",
		Role:      r.Role,
		Method:    r.Method,
		Route:     r.Route,
		Target:    r.Target,
		RequestID: r.RequestID,
		Network:   r.Network,
	}

	if r.UserID == 0 {
		out.Actor = string(domain.ActorSystem)
		out.ActorID = nil
	}
	if r.Status != 0 {
		out.Status = &r.Status
	}

	return out
}

func (h *auditHandler) requests(c *gin.Context) error {
	page, err := h.cursors.request(c)
	if err != nil {
		return err
	}

	f := domain.RequestFilter{Target: c.Query("target"), Page: page.Page}
	if f.UserID, err = queryID(c, "actor_id"); err != nil {
		return err
	}

	requests, err := h.log.AdminRequests(c.Request.Context(), f)
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, newList(page, requests, newRequestOut, func(r *domain.AdminRequest) int64 { return r.ID }))
}
