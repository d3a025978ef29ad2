package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type auditHandler struct {
	log     domain.AuditStore
	cursors cursors
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

	return writeJSON(c, http.StatusOK, newList(page, entries, itself, func(e *domain.AuditEntry) int64 { return e.ID }))
}

// requestOut is the JSON form of an admin's request.
type requestOut struct {
	domain.AdminRequest
	// Admin, or system for a command on the server.
	Actor  domain.ActorKind `json:"actor"`
	Action string           `json:"action"` // always request
	// Null while the answer is not known.
	Status *int `json:"status"`
}

func newRequestOut(r *domain.AdminRequest) requestOut {
	out := requestOut{
		AdminRequest: *r,
		Actor:        domain.ActorAdmin,
		Action:       "request",
	}

	if r.UserID == 0 {
		out.Actor = domain.ActorSystem
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
