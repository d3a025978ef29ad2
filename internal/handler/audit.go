package handler

import (
	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// actorPhone is the masked number of the user of an entry; empty if the user does not exist any more.
type actorPhone struct {
	Phone string `json:"actor_phone,omitempty"`
}

// changeOut is the JSON form of a change.
type changeOut struct {
	domain.AuditEntry
	actorPhone
}

var parseActor = oneOf(domain.ActorAdmin, domain.ActorBuyer, domain.ActorProvider, domain.ActorSystem)

func (a *api) auditLog(c *gin.Context) error {
	switch c.Query("kind") {
	case "", "change":
		return a.listChanges(c)
	case "request":
		return a.listRequests(c)
	}
	return domain.Invalid("kind", "must be change or request")
}

func changeID(e *domain.AuditEntry) int64 { return e.ID }

func requestRowID(r *domain.AdminRequest) int64 { return r.ID }

func (a *api) listChanges(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := domain.AuditFilter{
		VoucherID: q.id("voucher_id"),
		OrderID:   q.id("order_id"),
		ActorID:   q.id("actor_id"),
		Actor:     word(q, "actor", parseActor, "must be admin, buyer, provider or system"),
		Action:    c.Query("action"),
		Page:      page.Page,
	}
	if q.err != nil {
		return q.err
	}

	entries, err := a.Store.AuditLog(c.Request.Context(), f)
	if err != nil {
		return err
	}

	phones, err := a.Search.Store.Phones(c.Request.Context(), idsOf(entries, func(e *domain.AuditEntry) int64 { return e.Actor.ID }))
	out := func(e *domain.AuditEntry) changeOut {
		return changeOut{*e, actorPhone{domain.MaskPhone(phones[e.Actor.ID])}}
	}
	return writeOK(c, newList(page, entries, out, changeID), err)
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

func (a *api) listRequests(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := domain.RequestFilter{
		UserID: q.id("actor_id"),
		Target: c.Query("target"),
		Page:   page.Page,
	}
	if q.err != nil {
		return q.err
	}

	requests, err := a.Store.AdminRequests(c.Request.Context(), f)
	if err != nil {
		return err
	}

	phones, err := a.Search.Store.Phones(c.Request.Context(), idsOf(requests, func(r *domain.AdminRequest) int64 { return r.UserID }))
	out := func(r *domain.AdminRequest) requestOut {
		o := newRequestOut(r)
		o.Phone = domain.MaskPhone(phones[r.UserID])
		return o
	}
	return writeOK(c, newList(page, requests, out, requestRowID), err)
}
