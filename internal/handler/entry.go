package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/entry"
)

// passHeader carries the entry pass of a purchase.
const passHeader = "X-Entry-Pass"

type entryHandler struct{ service *entry.Service }

// admissionOut is the JSON form of an admission. An open sale has neither pass nor expiry.
type admissionOut struct {
	State     string     `json:"state"`
	Pass      string     `json:"pass,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func (h *entryHandler) enter(c *gin.Context) error {
	voucherID, err := pathID(c)
	if err != nil {
		return err
	}
	if err := bindOptional(c, &struct{}{}); err != nil {
		return err
	}
	a, err := h.service.Enter(c.Request.Context(), caller(c).UserID, voucherID)
	if err != nil {
		return err
	}
	out := admissionOut{State: "admitted", Pass: a.Pass}
	if a.Pass != "" {
		out.ExpiresAt = &a.ExpiresAt
	}
	c.Header("Cache-Control", "no-store")
	return writeJSON(c, http.StatusOK, out)
}
