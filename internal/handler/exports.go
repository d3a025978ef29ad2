package handler

import (
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/service"
)

const (
	// fileTimeout bounds the time of an export.
	fileTimeout = 5 * time.Minute
	// fileWriteTimeout bounds the time in which a client must take a part of a file.
	fileWriteTimeout = 15 * time.Second
	// maxFiles bounds the concurrent reads of exports. A file that a client takes slowly delays no other.
	maxFiles = 2
)

// csvType is the content type of an export.
var csvType = []string{"text/csv; charset=utf-8; header=present"}

// writeFile streams a list as a CSV file, newest first, whose name has the date. It is read page by page, so that a file of any
// length needs little memory; rows that are stored meanwhile may be missing. Rows that are nil are left out.
func (a *api) writeFile(c *gin.Context, name string, f *sheetFormat, columns []string, rows iter.Seq2[[]string, error]) error {
	header := c.Writer.Header()
	header["Content-Type"] = csvType
	header.Set("Content-Disposition", `attachment; filename="`+name+a.Now().In(f.zone).Format("-2006-01-02")+`.csv"`)
	if isHead(c) {
		// Without rows, not even with the names of the columns: their length is not that of the file.
		c.Writer.WriteHeaderNow()
		return nil
	}

	file := newCSV(c.Writer, f.separator, f.columns(columns))
	for row, err := range rows {
		if err == nil && row != nil {
			err = file.Write(inert(row))
		}
		if err != nil {
			return a.endFile(c, err)
		}
	}

	file.Flush()
	return a.endFile(c, file.Error())
}

// endFile ends a file. After an error it closes the connection, so that no client takes a part for the whole; an error before
// the first part is returned.
func (a *api) endFile(c *gin.Context, err error) error {
	if err == nil {
		return nil
	}

	if !c.Writer.Written() {
		c.Writer.Header().Del("Content-Disposition")
		return err
	}

	a.errors.classify(c, err)
	panic(http.ErrAbortHandler)
}

func (a *api) fileRequest(c *gin.Context) (int64, sheetFormat, error) {
	q := &query{c: c}
	voucherID := q.id("voucher_id")
	if q.err != nil {
		return 0, sheetFormat{}, q.err
	}

	sheet, err := sheetFormatOf(c)
	return voucherID, sheet, err
}

// soldOrder is a row of the file of orders.
type soldOrder struct {
	service.FoundOrder
	ref string // of the payment with which it was paid
}

func (a *api) orderFile(c *gin.Context) error {
	voucherID, sheet, err := a.fileRequest(c)
	if err != nil {
		return err
	}

	rows := pages(c, a.fileReads, func(o *soldOrder) int64 { return o.ID }, func(before int64) ([]soldOrder, error) {
		q := service.SearchQuery{Vouchers: only(voucherID), Page: pageBefore(before)}
		found, err := a.Search.Find(c.Request.Context(), service.SearchFilter{SearchQuery: q})
		if err != nil {
			return nil, err
		}

		refs, err := a.Store.PaidWith(c.Request.Context(), idsOf(found, foundID))
		page := make([]soldOrder, len(found))
		for i := range found {
			page[i] = soldOrder{found[i], refs[found[i].ID]}
		}

		return page, err
	}, func(o *soldOrder) []string {
		bought := o.Bought()
		value := ""
		if o.Offer != nil {
			value = sheet.amount(bought.ActualValue, o.Currency)
		}

		return []string{
			sheet.id(o.ID), sheet.id(o.VoucherID), sheet.text(bought.Title), sheet.id(o.UserID), domain.MaskPhone(o.Phone),
			sheet.state("status", o.Status.String()), sheet.amount(o.Amount, o.Currency), o.Currency, sheet.time(&o.CreatedAt),
			sheet.time(&o.ExpiresAt), sheet.time(o.PaidAt), sheet.time(o.RedeemedAt), sheet.time(o.CancelledAt), sheet.time(o.RefundedAt),
			sheet.text(bought.SubTitle), sheet.text(bought.Rules), sheet.id(bought.ShopID), sheet.text(bought.ShopName), value, sheet.text(o.ref),
			sheet.time(bought.ValidFrom), sheet.time(bought.ValidUntil),
		}
	})

	return a.writeFile(c, "orders", &sheet, []string{
		"order_id", "voucher_id", "title", "user_id", "phone", "status", "amount", "currency", "created_at", "expires_at", "paid_at",
		"redeemed_at", "cancelled_at", "refunded_at", "sub_title", "rules", "shop_id", "shop_name", "face_value", "payment_ref",
		"valid_from", "valid_until",
	}, rows)
}

func foundID(o *service.FoundOrder) int64 { return o.ID }

func (a *api) paymentFile(c *gin.Context) error {
	voucherID, sheet, err := a.fileRequest(c)
	if err != nil {
		return err
	}

	rows := pages(c, a.fileReads, func(p *domain.SalePayment) int64 { return p.ID }, func(before int64) ([]domain.SalePayment, error) {
		return a.Store.ListPayments(c.Request.Context(), pageBefore(before))
	}, func(p *domain.SalePayment) []string {
		if voucherID != 0 && p.VoucherID != voucherID {
			return nil
		}

		return []string{
			sheet.id(p.ID), sheet.id(p.OrderID), sheet.id(p.VoucherID), p.Provider, sheet.text(p.Ref), sheet.state("payment", p.Status.String()),
			sheet.amount(p.Amount, p.Currency), p.Currency, sheet.time(&p.CreatedAt), sheet.time(&p.UpdatedAt),
		}
	})

	return a.writeFile(c, "payments", &sheet, []string{
		"payment_id", "order_id", "voucher_id", "provider", "provider_ref", "status", "amount", "currency", "created_at", "updated_at",
	}, rows)
}

func (a *api) auditFile(c *gin.Context) error {
	voucherID, sheet, err := a.fileRequest(c)
	if err != nil {
		return err
	}

	kind := c.Query("kind")
	switch {
	case kind == "" || kind == "change":
		return a.writeChangeFile(c, &sheet, voucherID)
	case kind == "request" && voucherID == 0:
		return a.writeRequestFile(c, &sheet)
	case kind == "request":
		return domain.Invalid("voucher_id", "is not a filter of requests")
	}

	return domain.Invalid("kind", "must be change or request")
}

func (a *api) writeChangeFile(c *gin.Context, sheet *sheetFormat, voucherID int64) error {
	rows := pages(c, a.fileReads, changeID, func(before int64) ([]domain.AuditEntry, error) {
		return a.Store.AuditLog(c.Request.Context(), domain.AuditFilter{VoucherID: voucherID, Page: pageBefore(before)})
	}, func(e *domain.AuditEntry) []string {
		return []string{
			sheet.id(e.ID), sheet.time(&e.At), string(e.Kind), sheet.id(e.Actor.ID), e.Action, sheet.id(e.VoucherID), sheet.id(e.OrderID),
			sheet.text(e.Detail),
		}
	})

	return a.writeFile(c, "audit", sheet, []string{"id", "at", "actor", "actor_id", "action", "voucher_id", "order_id", "detail"}, rows)
}

func (a *api) writeRequestFile(c *gin.Context, sheet *sheetFormat) error {
	rows := pages(c, a.fileReads, requestRowID, func(before int64) ([]domain.AdminRequest, error) {
		return a.Store.AdminRequests(c.Request.Context(), domain.RequestFilter{Page: pageBefore(before)})
	}, func(r *domain.AdminRequest) []string {
		return []string{
			sheet.id(r.ID), sheet.time(&r.At), sheet.id(r.UserID), string(r.Role), r.Method, r.Route, sheet.text(r.Target), number(int64(r.Status)),
			sheet.text(r.RequestID), sheet.text(r.Network),
		}
	})

	return a.writeFile(c, "requests", sheet, []string{
		"id", "at", "user_id", "role", "method", "route", "target", "status", "request_id", "network",
	}, rows)
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
