package handler

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/service"
)

// adminOrderOut is the JSON form of an order for staff. It omits the redeem code, which proves ownership of the order.
type adminOrderOut struct {
	orderOut

	Phone string   `json:"phone"` // masked
	Moves []string `json:"moves"`
}

func newAdminOrderOut(o *service.FoundOrder, caller domain.Role) adminOrderOut {
	out := adminOrderOut{
		orderOut: newOrderOut(&o.Order),
		Phone:    domain.MaskPhone(o.Phone),
		Moves:    []string{},
	}
	if caller.May(domain.MayOperate) {
		out.Moves = domain.AdminMoves(o.Status)
	}
	return out
}

func (a *api) listAllOrders(c *gin.Context) error { return a.findOrders(c, c.Query("phone")) }

// search is list with the phone number in the body, because URLs end up in the logs of proxies.
func (a *api) searchOrders(c *gin.Context) error {
	var in struct {
		Phone string `json:"phone"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	if in.Phone == "" {
		return domain.Invalid("phone", "is required")
	}

	return a.findOrders(c, in.Phone)
}

func (a *api) findOrders(c *gin.Context, phone string) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := service.SearchFilter{
		SearchQuery: service.SearchQuery{
			ID:       q.id("id"),
			Vouchers: only(q.id("voucher_id")),
			Users:    only(q.id("user_id")),
			Status:   q.orderStatus(),
			From:     q.time("created_from"),
			To:       q.time("created_to"),
			Page:     page.Page,
		},
		Phone:    phone,
		PhoneEnd: c.Query("phone_end"),
		Title:    q.text("title"),
		Payment:  q.text("payment_ref"),
	}
	if q.err != nil {
		return q.err
	}

	orders, err := a.Search.Find(c.Request.Context(), f)
	out := func(o *service.FoundOrder) adminOrderOut { return newAdminOrderOut(o, caller(c).Role) }
	return writeOK(c, newList(page, orders, out, foundID), err)
}

// only returns a list of one id, or of none if that is 0.
func only(id int64) []int64 {
	if id == 0 {
		return nil
	}
	return []int64{id}
}

// foundOrder returns the order of the path. Orders that are not stored yet are found by the user_id of the query.
func (a *api) foundOrder(c *gin.Context) (service.FoundOrder, error) {
	id, err := pathID(c)
	if err != nil {
		return service.FoundOrder{}, err
	}

	q := &query{c: c}
	user := q.id("user_id")
	if q.err != nil {
		return service.FoundOrder{}, q.err
	}

	return a.Search.One(c.Request.Context(), user, id)
}

func (a *api) showPhone(c *gin.Context) error {
	o, err := a.foundOrder(c)
	return writeOK(c, struct {
		Phone string `json:"phone"`
	}{o.Phone}, err)
}

func (a *api) showFoundOrder(c *gin.Context) error {
	o, err := a.foundOrder(c)
	if err != nil {
		return err
	}

	out := struct {
		adminOrderOut

		Payments []adminPaymentOut `json:"payments"`
	}{newAdminOrderOut(&o, caller(c).Role), []adminPaymentOut{}}

	if o.Status.Stored() {
		payments, err := a.Payments.Store.Payments(c.Request.Context(), o.UserID, o.ID)
		if err != nil {
			return err
		}

		for i := range payments {
			out.Payments = append(out.Payments, newAdminPaymentOut(&payments[i]))
		}
	}

	return writeJSON(c, http.StatusOK, out)
}

// redemptionOut is what a redeem code stands for.
type redemptionOut struct {
	Order adminOrderOut `json:"order"`
	// With what it said when it was bought.
	Voucher voucherOut `json:"voucher"`
	// Absent unless the order is redeemed and the log says by which user.
	RedeemedBy *redeemerOut `json:"redeemed_by,omitempty"`
}

type redeemerOut struct {
	UserID domain.ID `json:"user_id"`
	// Masked; empty if the user does not exist any more.
	Phone string `json:"phone"`
}

func (a *api) previewCode(c *gin.Context) error {
	var in struct {
		Code string `json:"code"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	ctx := c.Request.Context()
	o, err := a.Search.ByCode(ctx, caller(c).UserID, in.Code)
	if err != nil {
		return err
	}

	present, err := a.Vouchers.Get(ctx, o.VoucherID)
	if err != nil {
		return err
	}

	v := *present
	if bought := o.Offer; bought != nil {
		v.Title = bought.Title
		v.SubTitle = bought.SubTitle
		v.Rules = bought.Rules
		v.ShopID = bought.ShopID
		v.ActualValue = bought.ActualValue
		v.Validity = bought.Validity
	}

	out := redemptionOut{Order: newAdminOrderOut(&o, caller(c).Role), Voucher: a.voucher(&v)}
	if o.Status == domain.OrderRedeemed {
		if out.RedeemedBy, err = a.redeemer(ctx, o.ID); err != nil {
			return err
		}
	}

	return writeJSON(c, http.StatusOK, out)
}

func (a *api) redeemer(ctx context.Context, orderID int64) (*redeemerOut, error) {
	log, err := a.Store.AuditLog(ctx, domain.AuditFilter{OrderID: orderID, Page: domain.Page{Limit: domain.MaxPageSize}})
	if err != nil {
		return nil, err
	}

	i := slices.IndexFunc(log, func(e domain.AuditEntry) bool { return e.Action == domain.MoveRedeem.Name && e.Actor.ID != 0 })
	if i < 0 {
		return nil, nil
	}

	id := log[i].Actor.ID
	phones, err := a.Search.Store.Phones(ctx, []int64{id})
	return &redeemerOut{UserID: domain.ID(id), Phone: domain.MaskPhone(phones[id])}, err
}

func (a *api) returnOutside(c *gin.Context, claim *domain.Claim, id int64) error {
	r := domain.OutsideReturn{
		OrderID: id,
		By:      adminOf(c),
		Claim:   claim,
	}
	if err := bind(c, &r); err != nil {
		return err
	}

	r.Ref = domain.Pasted(r.Ref)
	p, err := a.Payments.ReturnOutside(c.Request.Context(), r)
	return writeOK(c, newAdminPaymentOut(&p), err)
}

func (a *api) showRefundable(c *gin.Context, id int64) error {
	v, err := a.Vouchers.Get(c.Request.Context(), id)
	if err != nil {
		return err
	}

	n, amount, err := a.Search.Store.CountOrders(c.Request.Context(), id, domain.OrderPaid)
	return writeOK(c, struct {
		Orders   int64  `json:"orders"`
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
	}{n, amount, v.Currency}, err)
}

const (
	// refundAllTime is how long one request begins refunds of a sale. It is well below answerTimeout.
	refundAllTime = 2 * time.Second
	// refundAllStep is the number of refunds after which refundAll checks the sale again.
	refundAllStep = 10
)

// refundAll begins the refunds of the paid orders of a sale that is not open, for refundAllTime. The client repeats the
// request until no orders are left, and can show its progress.
func (a *api) refundAll(c *gin.Context, _ *domain.Claim, id int64) error {
	ctx := c.Request.Context()

	out := struct {
		Begun int  `json:"begun"`
		More  bool `json:"more"`
	}{More: true}

	for until := time.Now().Add(refundAllTime); out.More && time.Now().Before(until); {
		v, err := a.Vouchers.Get(ctx, id)
		if err != nil {
			return err
		}

		// The returned units would be sold again.
		if v.CheckOpen(a.Now()) == nil {
			return domain.ErrInvalidState
		}

		paid, err := a.Orders.Find(ctx, service.SearchQuery{
			Vouchers: only(id),
			Status:   domain.OrderPaid,
			Page:     domain.Page{Limit: refundAllStep},
		})
		if err != nil {
			return err
		}

		for i := 0; i < len(paid) && time.Now().Before(until); i++ {
			_, err := a.Payments.Refund(ctx, nil, adminOf(c), paid[i].ID)
			switch {
			case err == nil:
				out.Begun++
			case !errors.Is(err, domain.ErrInvalidState):
				// Not redeemed or refunded meanwhile.
				return err
			}
		}

		out.More = len(paid) > 0
	}

	return writeJSON(c, http.StatusOK, out)
}
