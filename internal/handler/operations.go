package handler

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// alertsPath is the pattern of the route.
const alertsPath = "/api/v1/admin/alerts"

func (a *api) listAlerts(c *gin.Context) error {
	present, err := a.Alerts(c.Request.Context())
	return writeOK(c, present, err)
}

func (a *api) reportFindings(c *gin.Context) error {
	q := &query{c: c}
	voucherID := q.id("voucher_id")
	if q.err != nil {
		return q.err
	}
	return a.reconcile(c, voucherID, false)
}

func (a *api) repairFindings(c *gin.Context) error {
	var in struct {
		VoucherID domain.ID `json:"voucher_id"`
	}
	if err := bindOptional(c, &in); err != nil {
		return err
	}
	return a.reconcile(c, int64(in.VoucherID), true)
}

func (a *api) reconcile(c *gin.Context, voucherID int64, apply bool) error {
	all, err := a.Reconciler.Reconcile(c.Request.Context(), voucherID, apply)
	return writeOK(c, all, err)
}

type deadLetterOut struct {
	*domain.DeadLetter

	OrderID   domain.ID `json:"order_id,omitempty"`
	UserID    domain.ID `json:"user_id,omitempty"`
	VoucherID domain.ID `json:"voucher_id,omitempty"`
}

func newDeadLetterOut(l *domain.DeadLetter) deadLetterOut {
	out := deadLetterOut{DeadLetter: l}
	if a := l.Admission; a != nil {
		out.OrderID = domain.ID(a.OrderID)
		out.UserID = domain.ID(a.UserID)
		out.VoucherID = domain.ID(a.VoucherID)
	}

	return out
}

func (a *api) listDeadLetters(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	if q.err != nil {
		return q.err
	}

	letters, err := a.DeadLetters.List(c.Request.Context(), page.after, page.Limit)
	return writeOK(c, newList(page, letters, newDeadLetterOut, func(l *domain.DeadLetter) string { return l.ID }), err)
}

func (a *api) replayDeadLetter(c *gin.Context, claim *domain.Claim) error {
	admission, err := a.DeadLetters.Replay(c.Request.Context(), claim, adminOf(c), c.Param("id"))
	if err != nil {
		return err
	}
	return writeQueued(c, admission.OrderID)
}

func (a *api) discardDeadLetter(c *gin.Context, claim *domain.Claim) error {
	return writeNoContent(c, a.DeadLetters.Discard(c.Request.Context(), claim, adminOf(c), c.Param("id")))
}

type unreadNoticeOut struct {
	*domain.UnreadNotice
	Body string `json:"body"`
}

func newUnreadNoticeOut(n *domain.UnreadNotice) unreadNoticeOut {
	return unreadNoticeOut{n, strings.ToValidUTF8(string(n.Body), "\uFFFD")}
}

func (a *api) listNotices(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := domain.NoticeFilter{
		Open: word(q, "state", func(s string) (bool, bool) { return true, s == "open" }, "must be open"),
		Page: page.Page,
	}
	if q.err != nil {
		return q.err
	}

	notices, err := a.Store.UnreadNotices(c.Request.Context(), f)
	return writeOK(c, newList(page, notices, newUnreadNoticeOut, func(n *domain.UnreadNotice) int64 { return n.ID }), err)
}

func (a *api) closeNotice(c *gin.Context, claim *domain.Claim, id int64) error {
	closing := domain.NoticeClosing{
		ID:    id,
		By:    adminOf(c),
		At:    domain.Moment(a.Now()),
		Claim: claim,
	}
	if err := bind(c, &closing); err != nil {
		return err
	}

	if err := domain.CheckReason(&closing.Reason); err != nil {
		return err
	}

	return writeNoContent(c, a.Store.CloseNotice(c.Request.Context(), closing))
}

type eventBody struct {
	ID        domain.ID        `json:"id"`
	Type      domain.EventType `json:"type"`
	CreatedAt time.Time        `json:"created_at"`
	Data      orderOut         `json:"data"`
}

func newEventBody(e *domain.OrderEvent) eventBody {
	return eventBody{
		ID:        domain.ID(e.ID),
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

func (a *api) listOrderEvents(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := domain.EventFilter{
		OrderID: q.id("order_id"),
		Status:  word(q, "status", domain.ParseEventStatus, "must be pending, delivered or failed"),
		Page:    page.Page,
	}
	if q.err != nil {
		return q.err
	}

	events, err := a.Store.OrderEvents(c.Request.Context(), f)
	return writeOK(c, newList(page, events, newOrderEventOut, func(e *domain.OrderEvent) int64 { return e.ID }), err)
}

func (a *api) repeatOrderEvent(c *gin.Context, claim *domain.Claim, id int64) error {
	return writeNoContent(c, a.Store.RepeatEvent(c.Request.Context(), claim, id))
}
