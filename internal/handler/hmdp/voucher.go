package hmdp

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// voucherOut is the JSON form of a voucher. The type must be a number, because the pages treat any string as true.
// Absent times must be omitted, because the pages read null as the year 1970 and then hide the voucher.
type voucherOut struct {
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
func (a *API) vouchersOfShop(c *gin.Context, shopID int64) error {
	f := domain.VoucherFilter{
		ShopID: shopID,
		Lasts:  true,
		Page:   domain.Page{Limit: domain.MaxPageSize},
	}

	return a.WriteVouchers(c, f, func(vouchers []*domain.Voucher) any {
		out := make([]voucherOut, 0, len(vouchers))

		// Oldest first, as in hm-dianping.
		for _, v := range slices.Backward(vouchers) {
			if v.Currency == domain.DefaultCurrency {
				out = append(out, a.voucher(v))
			}
		}

		return success(out)
	})
}

func (a *API) voucher(v *domain.Voucher) voucherOut {
	o := voucherOut{
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
		o.BeginTime = a.formatTime(s.BeginAt)
		o.EndTime = a.formatTime(s.EndAt)
	}

	return o
}

// voucherIn is the body of both routes that publish a voucher. The route determines the type, so the body's type is
// ignored.
type voucherIn struct {
	ShopID      *domain.ID `json:"shopId"`
	Title       *text      `json:"title"`
	SubTitle    *text      `json:"subTitle"`
	Rules       *text      `json:"rules"`
	PayValue    number     `json:"payValue"`
	ActualValue number     `json:"actualValue"`
	Stock       number     `json:"stock"`
	BeginTime   *string    `json:"beginTime"`
	EndTime     *string    `json:"endTime"`
}

func (in *voucherIn) fields() domain.VoucherFields {
	return domain.VoucherFields{
		ShopID:      in.ShopID,
		Title:       (*string)(in.Title),
		SubTitle:    (*string)(in.SubTitle),
		Rules:       (*string)(in.Rules),
		PayValue:    in.PayValue.value,
		ActualValue: in.ActualValue.value,
	}
}

func (a *API) createVoucher(c *gin.Context) error {
	var in voucherIn
	if err := a.Bind(c, &in); err != nil {
		return err
	}
	return a.create(c, domain.VoucherInput{VoucherFields: in.fields()})
}

// createSale publishes a flash sale with a limit of one order per user, as in hm-dianping.
func (a *API) createSale(c *gin.Context) error {
	var in voucherIn
	if err := a.Bind(c, &in); err != nil {
		return err
	}

	v := domain.VoucherInput{VoucherFields: in.fields(), Stock: in.Stock.value}
	one := 1
	v.LimitPerUser = &one

	var err error
	if v.BeginAt, err = a.parseTime("beginTime", in.BeginTime); err != nil {
		return err
	}
	if v.EndAt, err = a.parseTime("endTime", in.EndTime); err != nil {
		return err
	}

	return a.create(c, v)
}

func (a *API) create(c *gin.Context, in domain.VoucherInput) error {
	in.Force = true
	v, err := a.Vouchers.Create(c.Request.Context(), nil, a.Caller(c).UserID, in)
	if err != nil {
		return err
	}
	return write(c, domain.ID(v.ID))
}

// formatTime formats a time in the zone of the pages, without the zone itself, and with milliseconds only if they are
// not zero.
func (a *API) formatTime(t time.Time) string {
	t = t.In(a.Zone)
	if t.Nanosecond() != 0 {
		return t.Format("2006-01-02T15:04:05.000")
	}
	return t.Format("2006-01-02T15:04:05")
}

// parseTime parses a time in the zone of the pages; seconds are optional. A time that the end of summer time repeats is the
// first of both, as in browsers. The error names the field.
func (a *API) parseTime(field string, text *string) (*domain.Time, error) {
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
			_, offset := written.AddDate(0, 0, days).In(a.Zone).Zone()
			t := written.Add(-time.Duration(offset) * time.Second).In(a.Zone)
			if t.Format(layout) == written.Format(layout) {
				return &domain.Time{Time: t}, nil
			}
		}

		// The start of summer time skips it.
		return nil, domain.Invalid(field, "does not exist in the zone %s", a.Zone)
	}

	return nil, domain.Invalid(field, "must be a time such as 2026-11-11T20:00:00")
}

func (a *API) place(c *gin.Context, voucherID int64) error {
	id, err := a.placeWithin(c.Request.Context(), a.Caller(c).UserID, voucherID)
	if err != nil {
		return err
	}

	return write(c, domain.ID(id))
}

// placeWithin is Orders.Place with the deadline of ctx, which is shorter than a purchase may take: after its own deadline one
// still waits for a server of locks that does not answer. A purchase that exceeds it continues, and the next request of the
// buyer returns its outcome. Errors: those of Orders.Place; domain.ErrUnavailable if ctx ends first.
func (a *API) placeWithin(ctx context.Context, userID, voucherID int64) (int64, error) {
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
		order, err := a.Orders.Place(context.WithoutCancel(ctx), userID, voucherID, 0)
		o = outcome{order.ID, err}
	}()

	select {
	case o := <-done:
		return o.id, o.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: the purchase exceeded the timeout of the page", domain.ErrUnavailable)
	}
}
