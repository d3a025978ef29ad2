package handler

import (
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/service"
)

type meHandler struct {
	errors   *errorWriter
	auth     *authHandler
	orders   *service.Orders
	audit    domain.AuditStore
	personal domain.PersonalStore
	now      func() time.Time
	reads    slots
}

// erase removes the person from the caller's account. Unpaid orders are cancelled first; paid ones stay valid by their
// redeem codes. An account with a role is refused, because its role could come back with the next login of its phone.
func (h *meHandler) erase(c *gin.Context) error {
	ctx := c.Request.Context()
	id := caller(c)

	staff, err := h.auth.auth.HasRole(ctx, id)
	if err != nil {
		return err
	}
	if staff {
		return domain.ErrInvalidState
	}

	if err := h.orders.CancelUnpaid(ctx, id.UserID); err != nil {
		return err
	}
	if err := h.auth.auth.Erase(ctx, id.UserID); err != nil {
		return err
	}

	h.errors.security.record(c, eventErased)
	if wantsCookie(c) {
		h.auth.setCookie(c, refreshCookie, "", -1)
	}

	c.Status(http.StatusNoContent)
	return nil
}

const (
	// exportTimeout bounds an export, which is longer than other answers.
	exportTimeout = 10 * time.Second
	// maxExports bounds the concurrent reads of exports. An export has one page of records in memory.
	maxExports = 8
)

// The JSON form of the records that only an export has.
type (
	exportedUser struct {
		userOut

		CreatedAt time.Time `json:"created_at"`
	}
	exportedFactor struct {
		EnrolledAt time.Time `json:"enrolled_at"`
	}
	exportedOrder struct {
		orderOut

		Payments []domain.Payment     `json:"payments"`
		Events   []domain.EventRecord `json:"events"`
	}
)

// export streams all data of the caller, one page of records at a time. It contains no token, code or hash: a copy of
// the file gives no access. If the data cannot be read to the end, the connection is closed, so that no client takes a
// part for the whole.
func (h *meHandler) export(c *gin.Context) error {
	id := caller(c)
	var u domain.User
	err := h.reads.do(c.Request.Context(), func() error {
		var err error
		u, err = h.auth.auth.Me(c.Request.Context(), id)
		return err
	})
	if err != nil {
		return err
	}

	c.Header("Content-Type", jsonType[0])
	c.Header("Content-Disposition", `attachment; filename="seckill-data.json"`)

	w := &exportWriter{c: c}
	w.field("exported_at", domain.Moment(h.now()))
	w.field("user", exportedUser{newUserOut(u), u.CreatedAt})
	writeArray(w, "sessions", h.sessions(c, id.UserID))
	writeArray(w, "login_codes", h.codes(c, u.Phone))
	writeArray(w, "second_factors", h.factors(c, id.UserID))
	writeArray(w, "orders", h.ordersOf(c, id.UserID))
	writeArray(w, "actions", h.actions(c, id.UserID))
	writeArray(w, "admin_requests", h.requests(c, id.UserID))
	writeArray(w, "idempotency_keys", h.keys(c, id.UserID))
	writeArray(w, "waiting_rooms", h.places(c, id.UserID))
	w.write([]byte("}\n"))

	if w.err != nil {
		h.errors.classify(c, w.err)
		panic(http.ErrAbortHandler)
	}

	return nil
}

// exportWriter writes the members of a JSON object. After the first error it writes nothing.
type exportWriter struct {
	c     *gin.Context
	begun bool
	err   error
}

func (w *exportWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.c.Writer.Write(b)
	}
}

func (w *exportWriter) value(v any) {
	b, err := json.Marshal(v)
	if w.err == nil {
		w.err = err
	}
	w.write(b)
}

func (w *exportWriter) name(name string) {
	separator := byte(',')
	if !w.begun {
		separator = '{'
		w.begun = true
	}
	w.write(append(appendString([]byte{separator}, name), ':'))
}

func (w *exportWriter) field(name string, v any) {
	w.name(name)
	w.value(v)
}

func writeArray[T any](w *exportWriter, name string, records iter.Seq2[T, error]) {
	w.name(name)
	w.write([]byte("["))

	first := true
	for r, err := range records {
		if w.err == nil {
			w.err = err
		}
		if w.err != nil {
			return
		}

		if !first {
			w.write([]byte(","))
		}
		w.value(r)
		first = false
	}

	w.write([]byte("]"))
}

// pages returns the records of all pages, converted. read returns the page after last, which is nil for the first page,
// and at most domain.MaxPageSize records. It is called in one of the slots, and gives the client fileWriteTimeout for the
// next part, even if none of the records is in the file.
func pages[S, T any](c *gin.Context, reads slots, read func(last *S) ([]S, error), convert func(*S) T) iter.Seq2[T, error] {
	conn := http.NewResponseController(c.Writer)

	return func(yield func(T, error) bool) {
		for last := (*S)(nil); ; {
			var page []S
			err := reads.do(c.Request.Context(), func() error {
				var err error
				page, err = read(last)
				return err
			})
			if err != nil {
				var none T
				yield(none, err)
				return
			}

			// Without it, the limit of the server holds.
			_ = conn.SetWriteDeadline(time.Now().Add(fileWriteTimeout))

			for i := range page {
				if !yield(convert(&page[i]), nil) {
					return
				}
			}

			if len(page) < domain.MaxPageSize {
				return
			}

			last = &page[len(page)-1]
		}
	}
}

func (h *meHandler) sessions(c *gin.Context, userID int64) iter.Seq2[domain.SessionRecord, error] {
	return pages(c, h.reads, func(last *domain.SessionRecord) ([]domain.SessionRecord, error) {
		after := ""
		if last != nil {
			after = last.ID
		}
		return h.personal.SessionsOf(c.Request.Context(), userID, after, domain.MaxPageSize)
	}, itself)
}

// codes returns the requests for login codes of the last day, without the codes and who made the requests.
func (h *meHandler) codes(c *gin.Context, phone string) iter.Seq2[domain.LoginCodeRecord, error] {
	return pages(c, h.reads, func(last *domain.LoginCodeRecord) ([]domain.LoginCodeRecord, error) {
		after := ""
		if last != nil {
			after = last.LoginID
		}
		return h.personal.LoginCodesOf(c.Request.Context(), phone, after, domain.MaxPageSize)
	}, itself)
}

// factors returns the second factors without their secrets.
func (h *meHandler) factors(c *gin.Context, userID int64) iter.Seq2[exportedFactor, error] {
	return pages(c, h.reads, func(*time.Time) ([]time.Time, error) {
		return h.personal.SecondFactorsOf(c.Request.Context(), userID)
	}, func(enrolled *time.Time) exportedFactor { return exportedFactor{*enrolled} })
}

// ordersOf returns the orders without their redeem codes, with which another person could use them.
func (h *meHandler) ordersOf(c *gin.Context, userID int64) iter.Seq2[exportedOrder, error] {
	var payments map[int64][]domain.Payment
	var events map[int64][]domain.EventRecord

	return pages(c, h.reads, func(last *domain.Order) ([]domain.Order, error) {
		f := domain.OrderFilter{UserID: userID, Page: domain.Page{Limit: domain.MaxPageSize}}
		if last != nil {
			f.Page.Before = last.ID
		}

		orders, err := h.orders.List(c.Request.Context(), f)
		if err != nil {
			return nil, err
		}

		ids := make([]int64, len(orders))
		for i := range orders {
			ids[i] = orders[i].ID
		}

		if payments, err = h.personal.PaymentsOf(c.Request.Context(), ids); err != nil {
			return nil, err
		}

		events, err = h.personal.EventsOf(c.Request.Context(), ids)
		return orders, err
	}, func(o *domain.Order) exportedOrder {
		o.RedeemCode = ""

		return exportedOrder{
			orderOut: newOrderOut(o),
			Payments: append([]domain.Payment{}, payments[o.ID]...),
			Events:   append([]domain.EventRecord{}, events[o.ID]...),
		}
	})
}

func (h *meHandler) actions(c *gin.Context, userID int64) iter.Seq2[domain.AuditEntry, error] {
	return pages(c, h.reads, func(last *domain.AuditEntry) ([]domain.AuditEntry, error) {
		f := domain.AuditFilter{ActorID: userID, Page: domain.Page{Limit: domain.MaxPageSize}}
		if last != nil {
			f.Page.Before = last.ID
		}
		return h.audit.AuditLog(c.Request.Context(), f)
	}, itself)
}

func (h *meHandler) requests(c *gin.Context, userID int64) iter.Seq2[requestOut, error] {
	return pages(c, h.reads, func(last *domain.AdminRequest) ([]domain.AdminRequest, error) {
		f := domain.RequestFilter{UserID: userID, Page: domain.Page{Limit: domain.MaxPageSize}}
		if last != nil {
			f.Page.Before = last.ID
		}
		return h.audit.AdminRequests(c.Request.Context(), f)
	}, newRequestOut)
}

func (h *meHandler) keys(c *gin.Context, userID int64) iter.Seq2[domain.KeyRecord, error] {
	return pages(c, h.reads, func(last *domain.KeyRecord) ([]domain.KeyRecord, error) {
		after := ""
		if last != nil {
			after = last.Key
		}
		return h.personal.KeysOf(c.Request.Context(), userID, after, domain.MaxPageSize)
	}, itself)
}

func (h *meHandler) places(c *gin.Context, userID int64) iter.Seq2[domain.PlaceRecord, error] {
	return pages(c, h.reads, func(last *domain.PlaceRecord) ([]domain.PlaceRecord, error) {
		after := int64(0)
		if last != nil {
			after = last.VoucherID
		}
		return h.personal.PlacesOf(c.Request.Context(), userID, after, domain.MaxPageSize)
	}, itself)
}
