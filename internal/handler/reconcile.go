package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

type reconcileHandler struct{ *api }

// report returns the differences of all checked vouchers, or of the one in ?voucher_id=.
func (h *reconcileHandler) report(c *gin.Context) error {
	q := &query{c: c}
	voucherID := q.id("voucher_id")
	if q.err != nil {
		return q.err
	}
	return h.run(c, voucherID, false)
}

// apply repairs the gates and returns what was found, with a mark on each finding that is repaired.
func (h *reconcileHandler) apply(c *gin.Context) error {
	var in struct {
		VoucherID ID `json:"voucher_id"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	return h.run(c, int64(in.VoucherID), true)
}

func (h *reconcileHandler) run(c *gin.Context, voucherID int64, apply bool) error {
	all, err := h.Reconciler.Reconcile(c.Request.Context(), voucherID, apply)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, all)
}
