package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
)

type reconcileHandler struct{ reconciler *reconcile.Reconciler }

type reconcileOut struct {
	Reports []reportOut `json:"reports"`
	LeftOut int64       `json:"left_out"`
}

type reportOut struct {
	VoucherID ID           `json:"voucher_id"`
	CheckedAt time.Time    `json:"checked_at"`
	Busy      bool         `json:"busy"`
	Findings  []findingOut `json:"findings"`
}

type findingOut struct {
	Kind   string      `json:"kind"`
	Detail string      `json:"detail"`
	Count  int64       `json:"count"`
	Orders []heldOrder `json:"orders"`
	// Null if the finding is not about orders.
	OldestAt   *time.Time `json:"oldest_at"`
	Repairable bool       `json:"repairable"`
	Repaired   bool       `json:"repaired"`
}

type heldOrder struct {
	OrderID ID `json:"order_id"`
	UserID  ID `json:"user_id"`
}

func newReconcileOut(all reconcile.Reconciliation) reconcileOut {
	out := reconcileOut{Reports: make([]reportOut, len(all.Reports)), LeftOut: all.LeftOut}
	for i, r := range all.Reports {
		report := reportOut{
			VoucherID: ID(r.VoucherID),
			CheckedAt: domain.Moment(r.CheckedAt),
			Busy:      r.Busy,
			Findings:  make([]findingOut, len(r.Findings)),
		}

		for n, f := range r.Findings {
			report.Findings[n] = newFindingOut(f)
		}

		out.Reports[i] = report
	}

	return out
}

func newFindingOut(f reconcile.Finding) findingOut {
	out := findingOut{
		Kind:       string(f.Kind),
		Detail:     f.Detail,
		Count:      f.Count,
		Orders:     make([]heldOrder, len(f.Orders)),
		Repairable: f.Repairable,
		Repaired:   f.Repaired,
	}

	for i, h := range f.Orders {
		out.Orders[i] = heldOrder{OrderID: ID(h.OrderID), UserID: ID(h.UserID)}
	}

	if !f.Oldest.IsZero() {
		out.OldestAt = &f.Oldest
	}

	return out
}

// report returns the differences of all checked vouchers, or of the one in ?voucher_id=.
func (h *reconcileHandler) report(c *gin.Context) error {
	voucherID, err := queryID(c, "voucher_id")
	if err != nil {
		return err
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
	all, err := h.reconciler.Reconcile(c.Request.Context(), voucherID, apply)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, newReconcileOut(all))
}
