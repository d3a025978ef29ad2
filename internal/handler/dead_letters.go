package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type deadLetterHandler struct{ *api }

type deadLetterOut struct {
	*domain.DeadLetter

	OrderID   ID `json:"order_id,omitempty"`
	UserID    ID `json:"user_id,omitempty"`
	VoucherID ID `json:"voucher_id,omitempty"`
}

func newDeadLetterOut(l *domain.DeadLetter) deadLetterOut {
	out := deadLetterOut{DeadLetter: l}
	if a := l.Admission; a != nil {
		out.OrderID = ID(a.OrderID)
		out.UserID = ID(a.UserID)
		out.VoucherID = ID(a.VoucherID)
	}

	return out
}

func (h *deadLetterHandler) list(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(h.cursors)
	if q.err != nil {
		return q.err
	}

	letters, err := h.DeadLetters.List(c.Request.Context(), page.after, page.Limit)
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, newList(page, letters, newDeadLetterOut, func(l *domain.DeadLetter) string { return l.ID }))
}

func (h *deadLetterHandler) replay(c *gin.Context, claim *domain.Claim) error {
	a, err := h.DeadLetters.Replay(c.Request.Context(), claim, adminOf(c), c.Param("id"))
	if err != nil {
		return err
	}
	return writeQueued(c, a.OrderID)
}

func (h *deadLetterHandler) discard(c *gin.Context, claim *domain.Claim) error {
	if err := h.DeadLetters.Discard(c.Request.Context(), claim, adminOf(c), c.Param("id")); err != nil {
		return err
	}
	return writeNoContent(c)
}
