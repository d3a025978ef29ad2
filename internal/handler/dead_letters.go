package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type deadLetterHandler struct{ *api }

type deadLetterOut struct {
	ID        string            `json:"id"`
	OrderID   ID                `json:"order_id,omitempty"`
	UserID    ID                `json:"user_id,omitempty"`
	VoucherID ID                `json:"voucher_id,omitempty"`
	Reason    string            `json:"reason"`
	Tries     int64             `json:"tries"`
	BuriedAt  time.Time         `json:"buried_at"`
	Fields    map[string]string `json:"fields"`
}

func newDeadLetterOut(l *domain.DeadLetter) deadLetterOut {
	out := deadLetterOut{
		ID:       l.ID,
		Reason:   l.Reason,
		Tries:    l.Tries,
		BuriedAt: l.BuriedAt,
		Fields:   l.Fields,
	}

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

	out := list[deadLetterOut]{Items: make([]deadLetterOut, len(letters))}
	for i := range letters {
		out.Items[i] = newDeadLetterOut(&letters[i])
	}

	if n := len(letters); n > 0 {
		out.NextCursor = page.next(n, letters[n-1].ID)
	}

	return writeJSON(c, http.StatusOK, out)
}

func (h *deadLetterHandler) replay(c *gin.Context, claim *domain.Claim) error {
	a, err := h.DeadLetters.Replay(c.Request.Context(), claim, domain.Actor{Kind: domain.ActorAdmin, ID: caller(c).UserID}, c.Param("id"))
	if err != nil {
		return err
	}
	return writeQueued(c, a.OrderID)
}

func (h *deadLetterHandler) discard(c *gin.Context, claim *domain.Claim) error {
	if err := h.DeadLetters.Discard(c.Request.Context(), claim, domain.Actor{Kind: domain.ActorAdmin, ID: caller(c).UserID}, c.Param("id")); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}
