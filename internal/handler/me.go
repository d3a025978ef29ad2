package handler

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/semaphore"

	"seckill/internal/domain"
)

const (
	// exportTimeout bounds an export, which is longer than other answers.
	exportTimeout = 10 * time.Second
	// maxExports bounds the concurrent reads of exports. An export has the records of one read in memory.
	maxExports = 8
)

// The JSON form of the records that only an export has.
type (
	exportedUser struct {
		userOut

		CreatedAt time.Time `json:"created_at"`
	}
	exportedOrder struct {
		orderOut

		Payments []domain.Payment     `json:"payments"`
		Events   []domain.EventRecord `json:"events"`
	}
)

// exportMe streams all data of the caller, as it is read. It contains no token, code or hash: a copy of
// the file gives no access.
func (a *api) exportMe(c *gin.Context) error {
	id := caller(c)
	u, err := readInSlot(c.Request.Context(), a.exportReads, func() (domain.User, error) {
		return a.Auth.Me(c.Request.Context(), id)
	})
	if err != nil {
		return err
	}

	c.Header("Content-Type", jsonType[0])
	c.Header("Content-Disposition", `attachment; filename="seckill-data.json"`)
	if isHead(c) {
		c.Writer.WriteHeaderNow()
		return nil
	}

	w := &exportWriter{c: c, separator: '{'}
	w.field("exported_at", domain.Moment(a.Now()))
	w.field("user", exportedUser{newUserOut(u), u.CreatedAt})
	a.exportAccount(w, &u)
	a.exportOrders(w, u.ID)
	a.exportActions(w, u.ID)
	w.write([]byte("}\n"))

	return a.endFile(c, w.err)
}

// exportWriter writes the members of a JSON object. After the first error it writes nothing.
type exportWriter struct {
	c *gin.Context
	// Before the next member.
	separator byte
	err       error
}

func (w *exportWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.c.Writer.Write(b)
	}
}

func (w *exportWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *exportWriter) value(v any) {
	b, err := json.Marshal(v)
	w.fail(err)
	w.write(b)
}

func (w *exportWriter) name(name string) {
	w.write(append(appendString([]byte{w.separator}, name), ':'))
	w.separator = ','
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
		w.fail(err)
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

// pages returns the records of all pages, converted. read returns the page before an id, 0 for the first page, and at most
// domain.MaxPageSize records. It is called in one of the slots, and gives the client fileWriteTimeout for the next part, even if
// none of the records is in the file.
func pages[S, T any](
	c *gin.Context, slots *semaphore.Weighted, id func(*S) int64, read func(before int64) ([]S, error), convert func(*S) T,
) iter.Seq2[T, error] {
	conn := http.NewResponseController(c.Writer)

	return func(yield func(T, error) bool) {
		var before int64
		for {
			page, err := readInSlot(c.Request.Context(), slots, func() ([]S, error) { return read(before) })
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

			before = id(&page[len(page)-1])
		}
	}
}

// writeRecords writes the records of which there are few enough for one read.
func writeRecords[T, Owner any](a *api, w *exportWriter, name string, of Owner, read func(context.Context, Owner) ([]T, error)) {
	ctx := w.c.Request.Context()
	records, err := readInSlot(ctx, a.exportReads, func() ([]T, error) { return read(ctx, of) })
	w.fail(err)
	w.field(name, append([]T{}, records...))
}

func pageBefore(id int64) domain.Page { return domain.Page{Before: id, Limit: domain.MaxPageSize} }

// exportAccount writes how the user logs in. The requests for login codes are those of the last day, without the codes and
// their requesters, who may be anybody. Second factors have no secrets here.
func (a *api) exportAccount(w *exportWriter, u *domain.User) {
	writeRecords(a, w, "sessions", u.ID, a.Store.SessionsOf)
	writeRecords(a, w, "login_codes", u.Phone, a.Store.LoginCodesOf)
	writeRecords(a, w, "second_factors", u.ID, a.Store.SecondFactorsOf)
}

// exportOrders writes the orders without their redeem codes, with which another person could use them.
func (a *api) exportOrders(w *exportWriter, userID int64) {
	ctx := w.c.Request.Context()
	var payments map[int64][]domain.Payment
	var events map[int64][]domain.EventRecord

	read := func(before int64) ([]domain.Order, error) {
		orders, err := a.Orders.List(ctx, userID, 0, pageBefore(before))
		if err != nil {
			return nil, err
		}

		ids := idsOf(orders, orderID)
		if payments, err = a.Store.PaymentsOf(ctx, ids); err != nil {
			return nil, err
		}

		events, err = a.Store.EventsOf(ctx, ids)
		return orders, err
	}

	writeArray(w, "orders", pages(w.c, a.exportReads, orderID, read, func(o *domain.Order) exportedOrder {
		o.RedeemCode = ""

		return exportedOrder{
			orderOut: newOrderOut(o),
			Payments: append([]domain.Payment{}, payments[o.ID]...),
			Events:   append([]domain.EventRecord{}, events[o.ID]...),
		}
	}))
}

func orderID(o *domain.Order) int64 { return o.ID }

func idsOf[T any](items []T, id func(*T) int64) []int64 {
	ids := make([]int64, len(items))
	for i := range items {
		ids[i] = id(&items[i])
	}
	return ids
}

func (a *api) exportActions(w *exportWriter, userID int64) {
	ctx := w.c.Request.Context()

	writeArray(w, "actions", pages(w.c, a.exportReads, changeID, func(before int64) ([]domain.AuditEntry, error) {
		return a.Store.AuditLog(ctx, domain.AuditFilter{ActorID: userID, Page: pageBefore(before)})
	}, itself))

	writeArray(w, "admin_requests", pages(w.c, a.exportReads, requestRowID, func(before int64) ([]domain.AdminRequest, error) {
		return a.Store.AdminRequests(ctx, domain.RequestFilter{UserID: userID, Page: pageBefore(before)})
	}, newRequestOut))

	writeRecords(a, w, "idempotency_keys", userID, a.Store.KeysOf)
	writeRecords(a, w, "waiting_rooms", userID, a.Store.PlacesOf)
}
