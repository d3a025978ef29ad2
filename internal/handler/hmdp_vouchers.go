package handler

import (
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

		return encodeSnapshot(success(out))
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

// hmdpVoucherInput is the body of both routes that publish a voucher. The route determines the type, so the body's type is
// ignored.
type hmdpVoucherInput struct {
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

func (in *hmdpVoucherInput) fields() domain.VoucherFields {
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
	var in hmdpVoucherInput
	if err := bindLenient(c, &in); err != nil {
		return err
	}
	return h.create(c, domain.VoucherInput{VoucherFields: in.fields()})
}

// createSale publishes a flash sale with a limit of one order per user, as in hm-dianping.
func (h *hmdpHandler) createSale(c *gin.Context) error {
	var in hmdpVoucherInput
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
	return writeSuccess(c, domain.ID(v.ID))
}

// formatTime formats a time in the zone of the pages, without the zone itself, and with milliseconds only if they are
// not zero.
func (h *hmdpHandler) formatTime(t time.Time) string {
	t = t.In(h.Zone)
	if t.Nanosecond() != 0 {
		return t.Format("2006-01-02T15:04:05.000")
	}
	return t.Format("2006-01-02T15:04:05")
}

// parseTime parses a time in the zone of the pages; seconds are optional. A time that the end of summer time repeats is the
// first of both, as in browsers. The error names the field.
func (h *hmdpHandler) parseTime(field string, text *string) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}

	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		written, err := time.Parse(layout, *text)
		if err != nil {
			continue
		}

		// The offset of the day before is the first, where the end of summer time repeats a time.
		for _, days := range []int{-1, 1} {
			_, offset := written.AddDate(0, 0, days).In(h.Zone).Zone()
			t := written.Add(-time.Duration(offset) * time.Second).In(h.Zone)
			if t.Format(layout) == written.Format(layout) {
				return &t, nil
			}
		}

		// The start of summer time skips it.
		return nil, domain.Invalid(field, "does not exist in the zone %s", h.Zone)
	}

	return nil, domain.Invalid(field, "must be a time such as 2026-11-11T20:00:00")
}

// place buys one unit. The timeout of the page is the deadline of the purchase. A purchase that exceeds it continues, and
// the next request of the buyer returns its outcome.
func (h *hmdpHandler) place(c *gin.Context, voucherID int64) error {
	order, err := h.Orders.Place(c.Request.Context(), caller(c).UserID, voucherID, 0)
	if err != nil {
		return err
	}

	return writeSuccess(c, domain.ID(order.ID))
}
