package handler

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// hmdpVoucher is the JSON form of a voucher. The type must be a number, because the pages treat any string as true.
// Absent times must be omitted, because the pages read null as the year 1970 and then hide the voucher.
type hmdpVoucher struct {
	ID          domain.ID `json:"id"`
	ShopID      domain.ID `json:"shopId"`
	Title       string    `json:"title"`
	SubTitle    string    `json:"subTitle"`
	Rules       string    `json:"rules"`
	PayValue    int64     `json:"payValue"`
	ActualValue int64     `json:"actualValue"`
	Type        int8      `json:"type"`
	Stock       *int64    `json:"stock,omitempty"`
	BeginTime   string    `json:"beginTime,omitempty"`
	EndTime     string    `json:"endTime,omitempty"`
}

// vouchersOfShop lists the vouchers of a shop that can be bought now or later. The pages display every price with ¥, so
// vouchers in other currencies are left out.
func (h *hmdpHandler) vouchersOfShop(c *gin.Context, shopID int64) error {
	f := domain.VoucherFilter{
		ShopID: shopID,
		Lasts:  true,
		Page:   domain.Page{Limit: domain.MaxPageSize},
	}

	return h.lists.write(c, f, func(vouchers []*domain.Voucher, _ time.Time) (*snapshot, error) {
		out := make([]hmdpVoucher, 0, len(vouchers))

		// Oldest first, as in hm-dianping.
		for _, v := range slices.Backward(vouchers) {
			if v.Currency == domain.DefaultCurrency {
				out = append(out, h.voucher(v))
			}
		}

		return encodeHmdp(out)
	})
}

func (h *hmdpHandler) voucher(v *domain.Voucher) hmdpVoucher {
	o := hmdpVoucher{
		ID:          domain.ID(v.ID),
		ShopID:      domain.ID(v.ShopID),
		Title:       v.Title,
		SubTitle:    v.SubTitle,
		Rules:       v.Rules,
		PayValue:    v.PayValue,
		ActualValue: v.ActualValue,
		Type:        int8(v.Type),
	}

	if s := v.Sale; s != nil {
		o.Stock = &s.Stock
		o.BeginTime = h.formatTime(s.BeginAt)
		o.EndTime = h.formatTime(s.EndAt)
	}

	return o
}

// hmdpVoucherIn is the body of both routes that publish a voucher. The route determines the type, so the body's type is
// ignored.
type hmdpVoucherIn struct {
	ShopID      *domain.ID `json:"shopId"`
	Title       *string    `json:"title"`
	SubTitle    *string    `json:"subTitle"`
	Rules       *string    `json:"rules"`
	PayValue    *int64     `json:"payValue"`
	ActualValue *int64     `json:"actualValue"`
	Stock       *int64     `json:"stock"`
	BeginTime   *string    `json:"beginTime"`
	EndTime     *string    `json:"endTime"`
}

func (in *hmdpVoucherIn) fields() domain.VoucherFields {
	return domain.VoucherFields{
		ShopID:      (*int64)(in.ShopID),
		Title:       in.Title,
		SubTitle:    in.SubTitle,
		Rules:       in.Rules,
		PayValue:    in.PayValue,
		ActualValue: in.ActualValue,
	}
}

func (h *hmdpHandler) createVoucher(c *gin.Context) error {
	var in hmdpVoucherIn
	if err := bindLenient(c, &in); err != nil {
		return err
	}
	return h.create(c, domain.VoucherInput{VoucherFields: in.fields()})
}

// createSale publishes a flash sale with a limit of one order per user, as in hm-dianping.
func (h *hmdpHandler) createSale(c *gin.Context) error {
	var in hmdpVoucherIn
	if err := bindLenient(c, &in); err != nil {
		return err
	}

	v := domain.VoucherInput{VoucherFields: in.fields(), Stock: in.Stock}
	one := 1
	v.LimitPerUser = &one

	var err error
	if v.BeginAt, err = h.parseTime("beginTime", in.BeginTime); err != nil {
		return err
	}

	if v.EndAt, err = h.parseTime("endTime", in.EndTime); err != nil {
		return err
	}

	return h.create(c, v)
}

func (h *hmdpHandler) create(c *gin.Context, in domain.VoucherInput) error {
	v, err := h.Vouchers.Create(c.Request.Context(), nil, caller(c).UserID, in)
	if err != nil {
		return err
	}
	return h.write(c, domain.ID(v.ID))
}

// place buys a unit and writes the order's id. In lane queue the order may not be committed yet.
func (h *hmdpHandler) place(c *gin.Context) error {
	voucherID, err := pathID(c)
	if err != nil {
		return err
	}

	id, err := h.placeWithin(c.Request.Context(), caller(c).UserID, voucherID)
	if err != nil {
		return err
	}

	return h.write(c, domain.ID(id))
}

// placeWithin is Orders.Place with the deadline of ctx, which is shorter than a purchase may take. A purchase that
// exceeds it continues, and the next request of the buyer returns its outcome. Errors: those of Orders.Place;
// domain.ErrUnavailable if ctx ends first.
func (h *hmdpHandler) placeWithin(ctx context.Context, userID, voucherID int64) (int64, error) {
	type outcome struct {
		id  int64
		err error
	}

	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if v := recover(); v != nil {
				o.err = fmt.Errorf("panic in a purchase: %v\n%s", v, debug.Stack())
			}
			done <- o
		}()

		// The purchase has its own timeout.
		order, err := h.Orders.Place(context.WithoutCancel(ctx), userID, voucherID, 0)
		o = outcome{order.ID, err}
	}()

	select {
	case o := <-done:
		return o.id, o.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: the purchase exceeded the timeout of the page", domain.ErrUnavailable)
	}
}
