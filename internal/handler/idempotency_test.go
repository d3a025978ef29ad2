package handler_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

const keyHeader = "Idempotency-Key"

func (c client) key(name string) client { return c.with(keyHeader, name) }

// same requires that the answer is a replay of first, to the byte.
func (a answer) same(first answer) {
	a.t.Helper()
	require.Equal(a.t, first.status, a.status, "%s: %s", a.what, a.body)
	require.Equal(a.t, string(first.body), string(a.body), a.what)
	for _, name := range []string{"Location", "Content-Type"} {
		require.Equal(a.t, first.header[name], a.header[name], a.what)
	}
	require.Equal(a.t, "true", a.header.Get("Idempotency-Replayed"), a.what)
}

type keyed struct {
	name   string
	status int
	send   func(key string) answer
}

// keyedRequests returns a request for each route that supports keys.
func keyedRequests(e *queueEnv) []keyed {
	admin, buyer, other, v := e.admin(), e.buyer(1), e.buyer(2), e.sale(9)
	ordered := func(c client) orderView {
		o := orderView{ID: c.queue(v), Amount: 8000}
		e.work()
		return o
	}
	paid := func(c client) orderView {
		o := ordered(c)
		e.notify(e.noticeOf(c.pay(o).Payment, o, "succeeded")).want(http.StatusOK)
		return o
	}
	refunder, payer := e.buyer(11), e.buyer(13)
	unwanted, used, unpaid := paid(refunder), paid(e.buyer(12)), ordered(payer)
	order := buyer.queue(v)
	e.work()
	letter := func(n int) string {
		id := e.buyer(100 + n).queue(v)
		e.deadLetter("poison")
		for _, l := range decode[listView[deadLetterView]](admin.get(deadLettersPath).want(http.StatusOK)).Items {
			if l.OrderID == id {
				return deadLettersPath + "/" + l.ID
			}
		}
		e.t.Fatal("no dead letter")
		return ""
	}
	replay, discard := letter(1), letter(2)
	return []keyed{
		{"place", http.StatusAccepted, func(k string) answer { return other.key(k).post(v.orders(), nil) }},
		{"cancel", http.StatusOK, func(k string) answer { return buyer.key(k).post(orderPath(order)+"/cancel", nil) }},
		{"create", http.StatusCreated, func(k string) answer { return admin.key(k).post("/api/v1/admin/vouchers", e.saleBody(3)) }},
		{"shop", http.StatusCreated, func(k string) answer {
			return admin.key(k).post("/api/v1/admin/shops", map[string]string{"name": "a"})
		}},
		{"pay", http.StatusOK, func(k string) answer { return payer.key(k).post(unpaid.path()+"/pay", nil) }},
		{"refund", http.StatusOK, func(k string) answer { return refunder.key(k).post(unwanted.path()+"/refund", nil) }},
		{"redeem", http.StatusOK, func(k string) answer {
			return admin.key(k).post("/api/v1/admin/orders/"+used.ID+"/redeem", nil)
		}},
		{"stock", http.StatusOK, func(k string) answer {
			return admin.key(k).post(v.adminPath()+"/stock", map[string]any{"delta": -1, "reason": "lost"})
		}},
		{"replay", http.StatusAccepted, func(k string) answer { return admin.key(k).post(replay+"/replay", nil) }},
		{"discard", http.StatusNoContent, func(k string) answer { return admin.key(k).post(discard+"/discard", nil) }},
	}
}

func (e *environment) count(table string) (n int) {
	e.t.Helper()
	require.NoError(e.t, e.store.Pools()["write"].QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// The refusal of an order is decided anew each time. Errors of other requests are replayed.
func TestKeyedErrorIsReplayedExceptForOrders(t *testing.T) {
	e := start(t)
	v := e.sale(1)
	holder, late := e.buyer(1), e.buyer(2)
	o := holder.place(v)
	require.Zero(t, e.count("idempotency_keys"), "a request without a key stores nothing")
	late.key("k").post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
	holder.post(o.path()+"/cancel", nil).want(http.StatusOK)
	first := late.key("k").post(v.orders(), nil).want(http.StatusCreated)
	late.key("k").post(v.orders(), nil).same(first)
	assert.EqualValues(t, 0, e.stock(v.ID))

	admin := e.admin()
	wrong := admin.bad().key("wrong").post("/api/v1/admin/vouchers", `{"shop_id":`)
	wrong.problem(http.StatusBadRequest, "invalid_request")
	admin.bad().key("wrong").post("/api/v1/admin/vouchers", `{"shop_id":`).same(wrong)
	gone := late.key("gone").post("/api/v1/orders/99/cancel", nil)
	gone.problem(http.StatusNotFound, "not_found")
	late.key("gone").post("/api/v1/orders/99/cancel", nil).same(gone)
}

// TestKeyMismatch: a key with another path or body is refused and changes nothing.
func TestKeyMismatch(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, other, admin, buyer := e.sale(5), e.sale(5), e.admin(), e.buyer(1)
		first := buyer.key("k").post(v.orders(), nil).want(http.StatusCreated)
		created := admin.key("k").post("/api/v1/admin/vouchers", e.saleBody(3)).want(http.StatusCreated)
		before := e.dump()
		for _, a := range []answer{
			buyer.key("k").post(other.orders(), nil),
			buyer.bad().key("k").post(v.orders(), "{}"),
			admin.key("k").post("/api/v1/admin/vouchers", e.saleBody(4)),
		} {
			a.problem(http.StatusUnprocessableEntity, "idempotency_mismatch")
		}
		assert.Equal(t, before, e.dump())
		buyer.key("k").post(v.orders(), nil).same(first)
		admin.key("k").post("/api/v1/admin/vouchers", e.saleBody(3)).same(created)
		mine := e.buyer(2).key("k").post(v.orders(), nil).want(http.StatusCreated)
		assert.NotEqual(t, decode[orderView](first).ID, decode[orderView](mine).ID, "keys are per user")

		// The age at which the key of an order is forgotten by other routes is measured with the real clock.
		e.exec("UPDATE voucher_orders SET created_at = ?", time.Now().UTC())
		buyer.key("k").post(decode[orderView](first).path()+"/cancel", nil).problem(http.StatusUnprocessableEntity, "idempotency_mismatch")
	})
}

func TestInvalidKeysAreRefused(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, buyer := e.sale(5), e.buyer(1).bad()
		before := e.dump()
		for _, name := range []string{"", strings.Repeat("x", 256), "a\tb", "ü", "a\x80"} {
			p := buyer.key(name).post(v.orders(), nil).problem(http.StatusBadRequest, "invalid_request")
			assert.Equal(t, []string{keyHeader}, p.fields(), "%q", name)
		}
		two := buyer.key("a")
		two.header[keyHeader] = []string{"a", "b"}
		two.post(v.orders(), nil).problem(http.StatusBadRequest, "invalid_request")
		buyer.key("large").post(v.orders(), strings.Repeat("x", 65<<10)).problem(http.StatusBadRequest, "invalid_request")
		assert.Equal(t, before, e.dump())
		for i, name := range []string{"x", strings.Repeat("~", 255), `" !`} {
			first := e.buyer(1+i).key(name).post(v.orders(), nil).want(http.StatusCreated)
			e.buyer(1+i).key(name).post(v.orders(), nil).same(first)
		}
	})
}

// TestUnstorableAnswerIsNotSent: if the answer cannot be stored, the client gets 503 although the change was made. A
// retry after the lease has expired returns the answer, and the change is made once.
func TestUnstorableAnswerIsNotSent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		for _, r := range keyedRequests(e) {
			if r.name == "place" { // the answer is stored with the order
				r.send(r.name).want(r.status)
				continue
			}
			vouchers, shops, letters := e.count("vouchers"), e.count("shops"), len(decode[listView[deadLetterView]](e.admin().get(deadLettersPath)).Items)
			e.store.faults.Before(func(query string) error {
				if strings.HasPrefix(query, "UPDATE `idempotency_keys`") && strings.Contains(query, "`content_type`") {
					return domain.ErrUnavailable // it has an answer
				}
				return nil
			})
			a := r.send(r.name)
			a.problem(http.StatusServiceUnavailable, "unavailable")
			assert.Equal(t, 1, a.retryAfter(), r.name)
			assert.Empty(t, a.header.Get("Location"), r.name)
			e.store.fail(nil)
			if r.name == "pay" { // and the payment is completed before the retry
				begun := e.bank.created[len(e.bank.created)-1]
				e.notify(e.noticeOf(paymentView{Ref: begun.Ref}, orderView{ID: fmt.Sprint(begun.OrderID), Amount: 8000}, "succeeded")).want(http.StatusOK)
			}
			queued := len(e.waiting())
			e.exec("UPDATE idempotency_keys SET locked_until = created_at") // as after ten seconds
			second := r.send(r.name).want(r.status)
			assert.Empty(t, second.header.Get("Idempotency-Replayed"), r.name)
			before := e.dump()
			r.send(r.name).same(second)
			assert.Equal(t, before, e.dump(), r.name)
			assert.Len(t, e.waiting(), queued, r.name)
			switch r.name {
			case "create":
				assert.Equal(t, vouchers+1, e.count("vouchers"))
			case "shop":
				assert.Equal(t, shops+1, e.count("shops"))
			case "replay", "discard":
				assert.Len(t, decode[listView[deadLetterView]](e.admin().get(deadLettersPath)).Items, letters-1)
			}
			e.checkInvariants()
		}
		e.work()
		assert.Equal(t, 6, e.count("voucher_orders"), "four at the start, one new, one replayed")
		assert.Equal(t, 3, e.count("payments"))
		assert.Len(t, e.bank.created, 3)
		assert.Equal(t, 1, e.count("stock_changes"))
		e.checkInvariants()
	})
}

// A dead letter is gone, but the audit log could not be written. The next request with the key has the answer of a success,
// and writes it.
func TestDeadLetterIsRecordedByRepetition(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	for _, r := range keyedRequests(e) {
		if r.name != "replay" && r.name != "discard" {
			continue
		}
		e.store.faults.Before(func(query string) error {
			if strings.HasPrefix(query, "INSERT INTO `audit_log`") {
				return domain.ErrUnavailable
			}
			return nil
		})
		r.send(r.name).problem(http.StatusServiceUnavailable, "unavailable")
		e.store.fail(nil)
		logged := e.count("audit_log")
		r.send(r.name).want(r.status)
		assert.Equal(t, logged+1, e.count("audit_log"), r.name)
	}
}

func TestKeyRemainsUsableAfterFailure(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(5), e.buyer(1)
	e.store.fail(func() error { return fmt.Errorf("no database") })
	buyer.key("k").post(v.orders(), nil).problem(http.StatusInternalServerError, "internal")
	e.store.fail(nil)
	e.locks.fail(fmt.Errorf("no locks"))
	buyer.key("k").post(v.orders(), nil).problem(http.StatusServiceUnavailable, "unavailable")
	e.locks.err.Store(nil)
	assert.Zero(t, e.count("voucher_orders"))
	first := buyer.key("k").post(v.orders(), nil).want(http.StatusCreated)
	buyer.key("k").post(v.orders(), nil).same(first)
	e.checkInvariants()
}
