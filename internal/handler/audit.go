package handler

import (
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/service"
)

type auditHandler struct {
	log     domain.AuditStore
	finder  *service.Search
	cursors cursors
}

// actorPhone is the masked number of the user of an entry; empty if the user does not exist any more.
type actorPhone struct {
	Phone string `json:"actor_phone,omitempty"`
}

// changeOut is the JSON form of a change.
type changeOut struct {
	domain.AuditEntry
	actorPhone
}

// actorKinds are the kinds of actors by which changes can be filtered.
var actorKinds = []domain.ActorKind{domain.ActorAdmin, domain.ActorBuyer, domain.ActorProvider, domain.ActorSystem}

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

	f.Action = c.Query("action")
	f.Actor = domain.ActorKind(c.Query("actor"))
	if f.Actor != "" && !slices.Contains(actorKinds, f.Actor) {
		return domain.Invalid("actor", "must be admin, buyer, provider or system")
	}

	entries, err := h.log.AuditLog(c.Request.Context(), f)
	if err != nil {
		return err
	}

	phones, err := phonesOf(c.Request.Context(), h.finder, entries, func(e *domain.AuditEntry) int64 { return e.Actor.ID })
	if err != nil {
		return err
	}

	out := func(e *domain.AuditEntry) changeOut { return changeOut{*e, phones[e.Actor.ID]} }
	return writeJSON(c, http.StatusOK, newList(page, entries, out, func(e *domain.AuditEntry) int64 { return e.ID }))
}

// phonesOf returns the masked numbers of the users of entries.
func phonesOf[T any](ctx context.Context, finder *service.Search, entries []T, userID func(*T) int64) (map[int64]actorPhone, error) {
	var users []int64
	for i := range entries {
		if id := userID(&entries[i]); id != 0 && !slices.Contains(users, id) {
			users = append(users, id)
		}
	}
	if len(users) == 0 {
		return nil, nil
	}

	phones, err := finder.Store.Phones(ctx, users)
	if err != nil {
		return nil, err
	}

	masked := make(map[int64]actorPhone, len(phones))
	for id, phone := range phones {
		masked[id] = actorPhone{domain.MaskPhone(phone)}
	}

	return masked, nil
}

// requestOut is the JSON form of an admin's request.
type requestOut struct {
	domain.AdminRequest
	actorPhone
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

	phones, err := phonesOf(c.Request.Context(), h.finder, requests, func(r *domain.AdminRequest) int64 { return r.UserID })
	if err != nil {
		return err
	}

	out := func(r *domain.AdminRequest) requestOut {
		o := newRequestOut(r)
		o.actorPhone = phones[r.UserID]
		return o
	}
	return writeJSON(c, http.StatusOK, newList(page, requests, out, func(r *domain.AdminRequest) int64 { return r.ID }))
}
