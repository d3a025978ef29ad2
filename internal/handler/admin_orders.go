package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/service"
)

// adminOrderHandler serves the orders of all users to admins. Its answers omit the redeem code, which proves ownership
// of the order.
type adminOrderHandler struct {
	orders   *service.Orders
	payments *service.Payments
	cursors  cursors
}

// adminOrderOut is an order in answers to admins.
type adminOrderOut struct {
	orderOut

	Phone string   `json:"phone"`
	Moves []string `json:"moves"`
}

func newAdminOrderOut(o *service.FoundOrder) adminOrderOut {
	return adminOrderOut{orderOut: newOrderOut(&o.Order), Phone: o.Phone, Moves: service.AdminMoves(o.Status)}
}

// list searches orders by the filters of the query.
func (h *adminOrderHandler) list(c *gin.Context) error {
	page, err := h.cursors.request(c)
	if err != nil {
		return err
	}
	f := service.OrderSearch{Phone: c.Query("phone"), Page: page.Page}
	for name, dst := range map[string]*int64{"id": &f.ID, "voucher_id": &f.VoucherID, "user_id": &f.UserID} {
		if *dst, err = queryID(c, name); err != nil {
			return err
		}
	}
	if s := c.Query("status"); s != "" {
		var ok bool
		if f.Status, ok = domain.ParseOrderStatus(s); !ok {
			return domain.Invalid("status", "is not a status of an order")
		}
	}
	orders, err := h.orders.Search(c.Request.Context(), f)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, newList(page, orders, newAdminOrderOut, func(o *service.FoundOrder) int64 { return o.ID }))
}

// show returns an order and its payments.
func (h *adminOrderHandler) show(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	user, err := queryID(c, "user_id")
	if err != nil {
		return err
	}
	o, err := h.orders.Find(c.Request.Context(), user, id)
	if err != nil {
		return err
	}
	out := struct {
		adminOrderOut

		Payments []paymentOut `json:"payments"`
	}{newAdminOrderOut(&o), []paymentOut{}}
	if o.Status.Stored() {
		payments, err := h.payments.List(c.Request.Context(), o.UserID, id)
		if err != nil {
			return err
		}
		for i := range payments {
			out.Payments = append(out.Payments, newPaymentOut(&payments[i]))
		}
	}
	return writeJSON(c, http.StatusOK, out)
}

func (h *adminOrderHandler) cancel(c *gin.Context, claim *domain.Claim) error {
	return writeResult(c, claim, h.orders.CancelFor)
}

func (h *adminOrderHandler) refund(c *gin.Context, claim *domain.Claim) error {
	return writeResult(c, claim, h.payments.RefundFor)
}
