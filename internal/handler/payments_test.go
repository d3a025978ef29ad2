package handler_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/out/payment"
	"seckill/internal/out/webhook"
	"seckill/internal/service"
	"seckill/test/env"
)

var paymentSecret = []byte("a secret of provider and shop")

// bank is a payment provider that records its calls. It parses notices as the sandbox does.
type bank struct {
	*payment.Sandbox
	mu       sync.Mutex
	created  []domain.Payment
	refunded []string // references
	down     bool
	results  sync.Map // the statuses that answer queries, by reference
}

func (b *bank) Create(_ context.Context, p *domain.Payment) error {
	return b.call(func() { b.created = append(b.created, *p) })
}

func (b *bank) Refund(_ context.Context, p domain.Payment) error {
	return b.call(func() { b.refunded = append(b.refunded, p.Ref) })
}

func (b *bank) call(record func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errors.New("the bank does not answer")
	}
	record()
	return nil
}

type notice map[string]any

func (e *environment) noticeOf(p paymentView, o orderView, status string) notice {
	return notice{"provider_ref": p.Ref, "order_id": o.ID, "amount": o.Amount, "status": status, "timestamp": "2026-11-11T12:00:00Z"}
}

// signature signs a body as the documentation of the webhook describes.
func signature(body string, at time.Time) string {
	mac := hmac.New(sha256.New, paymentSecret)
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

// notify sends a notice to the webhook, signed now.
func (e *environment) notify(n notice) answer {
	e.t.Helper()
	body := env.Must(json.Marshal(n))(e.t)
	return e.guest().with("X-Seckill-Signature", signature(string(body), e.clock.now())).post("/api/v1/payments/webhook/"+e.provider, string(body))
}

type paymentView struct {
	Provider string `json:"provider"`
	Ref      string `json:"provider_ref"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Status   string `json:"status"`

	CheckoutURL string `json:"checkout_url"`
}

type paidView struct {
	Order   orderView   `json:"order"`
	Payment paymentView `json:"payment"`
}

func (c client) pay(o orderView) paidView {
	c.t.Helper()
	return decode[paidView](c.post(o.path()+"/pay", nil).want(http.StatusOK))
}

func (c client) paid(v voucherView) paidView {
	c.t.Helper()
	p := c.pay(c.place(v))
	c.env.notify(c.env.noticeOf(p.Payment, p.Order, "succeeded")).want(http.StatusOK)
	return p
}

func (c client) payments(o orderView) []string {
	c.t.Helper()
	var list []string
	for _, p := range decode[struct{ Items []paymentView }](c.get(o.path() + "/payments").want(http.StatusOK)).Items {
		list = append(list, p.Status)
	}
	return list
}

func (c client) status(o orderView) string {
	c.t.Helper()
	return decode[orderView](c.get(o.path()).want(http.StatusOK)).Status
}

func TestPay(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(2), e.buyer(1)
	o := buyer.place(v)
	buyer.post(o.path()+"/pay", map[string]any{"provider": "a friend"}).problem(http.StatusBadRequest, "invalid_request")
	e.bank.down = true
	buyer.post(o.path()+"/pay", nil).problem(http.StatusServiceUnavailable, "unavailable")
	e.bank.down = false
	failed := buyer.pay(o)
	assert.Equal(t, []string{"pending"}, buyer.payments(o), "the failed call belongs to the same payment")
	e.notify(e.noticeOf(failed.Payment, o, "failed")).want(http.StatusOK)

	p := buyer.pay(o)
	assert.NotEqual(t, failed.Payment.Ref, p.Payment.Ref, "a new payment follows a failed one")
	assert.Equal(t, o, p.Order, "a started payment does not change the order")
	assert.Equal(t, paymentView{Provider: e.provider, Ref: p.Payment.Ref, Amount: 8000, Currency: "CNY", Status: "pending", CheckoutURL: p.Payment.CheckoutURL}, p.Payment)
	assert.Equal(t, p, buyer.pay(o), "a repeated call returns the same payment")
	require.Len(t, e.bank.created, 3)
	assert.Equal(t, e.bank.created[1], e.bank.created[2], "the bank is called again with the same reference")

	chunked := buyer.request("", http.MethodPost, o.path()+"/pay", "")
	chunked.ContentLength = -1
	assert.Equal(t, p, decode[paidView](buyer.serve(e.handler, chunked).want(http.StatusOK)), "an absent body in chunks")

	e.notify(e.noticeOf(p.Payment, o, "succeeded")).want(http.StatusOK)
	got := decode[orderView](buyer.get(o.path()).want(http.StatusOK))
	assert.Equal(t, "paid", got.Status)
	assert.NotEmpty(t, got.PaidAt)
	assert.NotEmpty(t, got.RedeemCode)
	assert.Equal(t, []string{"failed", "succeeded"}, buyer.payments(o))
}

// The amount and the currency of an order are those of the voucher at the time of the purchase. If the price is zero, no bank is
// asked.
func TestOrderKeepsPriceOfPurchase(t *testing.T) {
	e := start(t)
	v := e.sale(5, func(body map[string]any) { body["currency"] = "JPY" })
	o := e.buyer(1).place(v)
	e.admin().patch("/api/v1/admin/vouchers/"+v.ID, map[string]any{"pay_value": 0}).want(http.StatusOK)
	p := e.buyer(1).pay(o)
	assert.EqualValues(t, 8000, p.Payment.Amount)
	assert.Equal(t, "JPY", p.Payment.Currency)
	paid := e.noticeOf(paymentView{Ref: "in-yuan"}, o, "succeeded")
	paid["currency"] = "CNY"
	assert.Equal(t, "refunding", decode[paymentView](e.notify(paid).want(http.StatusOK)).Status)
	paid["provider_ref"], paid["currency"] = p.Payment.Ref, "JPY"
	e.notify(paid).want(http.StatusOK)
	assert.Equal(t, "paid", e.buyer(1).status(o))

	require.NoError(t, e.Payments.RefundDue(t.Context()))
	e.bank.down = true
	answer := e.buyer(2).post(e.buyer(2).place(v).path()+"/pay", nil).want(http.StatusOK)
	assert.Contains(t, string(answer.body), v.Title)
	free := decode[paidView](answer)
	assert.Zero(t, free.Order.Amount)
	assert.Equal(t, []string{"paid", "succeeded"}, []string{free.Order.Status, free.Payment.Status})
	e.buyer(2).post(free.Order.path()+"/refund", nil).want(http.StatusOK)
	require.NoError(t, e.Payments.RefundDue(t.Context()))
	assert.Equal(t, "refunded", e.buyer(2).status(free.Order))
}

// TestReversedOrderIsNotRedeemed: after a refund at the provider or a dispute the code is refused with the reason, the unit
// can be bought again, and the flag of a dispute is in the answers.
func TestReversedOrderIsNotRedeemed(t *testing.T) {
	e := start(t)
	v := e.sale(2)
	for n, result := range []string{"refunded", "disputed"} {
		buyer := e.buyer(1 + n)
		p := buyer.paid(v)
		code := decode[orderView](buyer.get(p.Order.path()).want(http.StatusOK)).RedeemCode
		e.notify(e.noticeOf(p.Payment, p.Order, result)).want(http.StatusOK)
		require.EqualValues(t, 2, e.stock(v.ID))

		got := e.admin().post("/api/v1/admin/redeem", map[string]any{"code": code}).problem(http.StatusConflict, "invalid_state")
		detail := "order " + p.Order.ID + " is refunded"
		if result == "disputed" {
			detail += ": the buyer's bank has taken the money back"
		}
		require.Equal(t, detail, got.Detail)

		for _, a := range []answer{buyer.get(p.Order.path()), e.admin().get("/api/v1/admin/orders/" + p.Order.ID)} {
			require.Equal(t, result == "disputed", decode[struct{ Disputed bool }](a.want(http.StatusOK)).Disputed, a.what)
		}
	}
	e.seen(v)
	e.buyer(1).place(v)
}

// TestReturnOutside: a refund that the provider can never make ends when an admin records that the money was returned in
// another way. Until then it is an alert with the provider's answer.
// Source: bcgov/entity#6341, vendure-ecommerce/vendure#3152.
func TestReturnOutside(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, buyer, admin := e.sale(1), e.buyer(1), e.admin()
		p := buyer.paid(v)
		buyer.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
		stray := e.noticeOf(paymentView{Ref: "stray"}, orderView{ID: "12345", Amount: 500}, "succeeded") // of an order that does not exist
		e.notify(stray).want(http.StatusOK)

		failing := func() int {
			return len(env.Must(e.store.FailingRefunds(t.Context(), 20))(t))
		}
		e.bank.down = true
		for range 5 {
			require.Zero(t, failing())
			require.Error(t, e.Payments.RefundDue(t.Context()))
			require.EqualValues(t, 0, e.stock(v.ID), "the unit is returned after the money")
			e.dueNow()
		}
		require.Equal(t, 2, failing())

		path := "/api/v1/admin/orders/" + p.Order.ID
		require.Contains(t, string(admin.get(path).want(http.StatusOK).body), `"refund_tries":5,"refund_error":"the bank does not answer"`)
		body := map[string]any{"provider_ref": " " + p.Payment.Ref + "\u200b\n", "reason": "card closed; transfer of 14 November"}
		admin.refusedRequest("POST", path+"/return-outside", map[string]any{"reason": ""}, "reason", "provider_ref")

		first := admin.key("once").post(path+"/return-outside", body).want(http.StatusOK)
		require.Equal(t, "refunded", decode[paymentView](first).Status)
		admin.key("once").post(path+"/return-outside", body).same(first)
		admin.post(path+"/return-outside", body).problem(http.StatusConflict, "invalid_state")
		require.Equal(t, "refunded", buyer.status(p.Order))
		require.EqualValues(t, 1, e.stock(v.ID))

		body["provider_ref"] = "stray"
		admin.post("/api/v1/admin/orders/12345/return-outside", body).want(http.StatusOK)
		require.Zero(t, failing())

		// The provider is not requested again.
		e.bank.down = false
		e.dueNow()
		require.NoError(t, e.Payments.RefundDue(t.Context()))
		require.Empty(t, e.bank.refunded)
		logged := admin.audit("order_id=" + p.Order.ID)[1] // before its order was refunded
		require.Equal(t, admin.login.User.ID, logged.ActorID)
		require.Equal(t, p.Payment.Ref+": card closed; transfer of 14 November", logged.Detail)
	})
}

// TestWebhookRefusals: packages webhook and payment have more signatures and notices.
func TestWebhookRefusals(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(2), e.buyer(1)
	p := buyer.pay(buyer.place(v))
	other := e.buyer(2).pay(e.buyer(2).place(v))
	good := e.noticeOf(p.Payment, p.Order, "succeeded")
	body, now, hook := asJSON(t, good), e.clock.now(), "/api/v1/payments/webhook/"+e.provider
	for _, signed := range []string{"", signature(body+" ", now), signature(body, now.Add(-6*time.Minute)), signature(body, now.Add(6*time.Minute))} {
		a := e.guest().with("X-Seckill-Signature", signed).bad().post(hook, body)
		assert.Equal(t, http.StatusUnauthorized, a.status, signed)
	}
	for field, value := range map[string]any{"amount": 0, "currency": "gold", "provider_ref": other.Payment.Ref} {
		bad := maps.Clone(good)
		bad[field] = value
		e.guest().with("X-Seckill-Signature", signature(asJSON(t, bad), now)).bad().post(hook, asJSON(t, bad)).problem(http.StatusBadRequest, "invalid_request")
	}
	assert.Equal(t, "pending_payment", buyer.status(p.Order), "none of the notices changed anything")
	assert.Equal(t, []string{"pending"}, buyer.payments(p.Order))

	// While the secret is changed, a provider may send two signatures: in one line, or in two.
	e.guest().with("X-Seckill-Signature", "v1=00,"+signature(body, now)).post(hook, body).want(http.StatusOK)
	lines := e.guest().with("X-Seckill-Signature", "t=1,v1=00")
	lines.header.Add("X-Seckill-Signature", signature(body, now))
	lines.post(hook, body).want(http.StatusOK)
	assert.Equal(t, "paid", buyer.status(p.Order))
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	return string(env.Must(json.Marshal(v))(t))
}

// TestUndoRedeem: a redemption by mistake can be taken back for an hour, by the cashier with the code. The code is valid again,
// unless the money has gone back.
// Source: alfio-event/alf.io#195, pretix/pretix#5303.
func TestUndoRedeem(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		cashier := e.staff("13900000003", domain.RoleRedeemer)
		const redeem, undo = "/api/v1/admin/redeem", "/api/v1/admin/redeem/undo"
		bought := func(n int) (client, paidView, map[string]any) {
			buyer := e.buyer(n)
			p := buyer.paid(e.sale(1))
			return buyer, p, map[string]any{"code": decode[orderView](buyer.get(p.Order.path()).want(http.StatusOK)).RedeemCode}
		}
		because := func(code map[string]any) map[string]any {
			return map[string]any{"code": code["code"], "reason": "the wrong guest"}
		}

		buyer, p, code := bought(1)
		before := decode[orderView](buyer.get(p.Order.path()).want(http.StatusOK))
		cashier.post(redeem, code).want(http.StatusOK)
		cashier.bad().post(undo, code).problem(http.StatusBadRequest, "invalid_request")
		e.clock.advance(domain.UndoTime)
		cashier, buyer = e.login("13900000003"), e.buyer(1) // their tokens have expired
		first := cashier.key("once").post(undo, because(code)).want(http.StatusOK)
		cashier.key("once").post(undo, because(code)).same(first)
		require.Equal(t, before, decode[orderView](buyer.get(p.Order.path()).want(http.StatusOK)), "as it was paid")
		require.Contains(t, string(e.admin().get("/api/v1/admin/audit?order_id="+p.Order.ID).want(http.StatusOK).body), "the wrong guest")

		cashier.post(redeem, code).want(http.StatusOK)
		e.clock.advance(domain.UndoTime + time.Millisecond)
		cashier = e.login("13900000003")
		cashier.post(undo, because(code)).problem(http.StatusConflict, "invalid_state")

		for n, result := range []string{"refunded", "disputed"} {
			buyer, p, code := bought(2 + n)
			cashier.post(redeem, code).want(http.StatusOK)
			e.notify(e.noticeOf(p.Payment, p.Order, result)).want(http.StatusOK)
			cashier.post(undo, because(code)).problem(http.StatusConflict, "invalid_state")
			require.Equal(t, "redeemed", buyer.status(p.Order))
		}
	})
}

// TestUnreadNotices: what a provider has signed and the server cannot process is kept with its content and counted, until an
// operator closes it. An unsigned notice is not, and one that cannot be kept must be sent again.
func TestUnreadNotices(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		buyer, operator := e.buyer(1), e.staff("13900000002", domain.RoleOperator)
		p := buyer.paid(e.sale(1))
		send := func(body string) answer {
			return e.guest().bad().with("X-Seckill-Signature", signature(body, e.clock.now())).post("/api/v1/payments/webhook/"+e.provider, body)
		}
		part := e.noticeOf(p.Payment, p.Order, "refunded")
		part["amount"] = 1
		garbage, partial := "\xff, no JSON"+strings.Repeat(" ", 100_000), asJSON(t, part)
		e.store.fail(func() error { return domain.ErrUnavailable })
		send(garbage).problem(http.StatusServiceUnavailable, "unavailable")
		e.store.fail(nil)
		for range 3 {
			send(garbage).problem(http.StatusBadRequest, "invalid_request")
			e.clock.advance(time.Second)
		}
		send(partial).problem(http.StatusBadRequest, "invalid_request")
		require.Equal(t, "paid", buyer.status(p.Order), "a part of the money does not end the order")
		e.guest().bad().with("X-Seckill-Signature", signature("x", e.clock.now())).post("/api/v1/payments/webhook/"+e.provider, garbage).problem(http.StatusUnauthorized, "unauthenticated")

		// The answers to the queries of one payment differ in their times only.
		for n := range 2 {
			answer := domain.PaymentNotice{Source: domain.SourceQuery, Ref: "pay_old", Body: fmt.Append(nil, 1+n)}
			_, err := e.Payments.Settle(t.Context(), e.provider, answer, domain.Invalid("amount", "is out of range"))
			require.Error(t, err)
		}

		type unread struct {
			domain.UnreadNotice

			Body string

			Source  string `json:"source"`
			Ref     string `json:"provider_ref"`
			OrderID string `json:"order_id"`
		}
		const path = "/api/v1/admin/payment-notices"
		list := func(query string) []unread {
			return decode[listView[unread]](operator.get(path + query).want(http.StatusOK)).Items
		}
		all := list("?state=open")
		require.Len(t, all, 3)
		require.Equal(t, []any{"query", "pay_old", 2, "2"}, []any{all[0].Source, all[0].Ref, all[0].Times, all[0].Body})
		require.Equal(t, []any{p.Payment.Ref, p.Order.ID, 1, partial}, []any{all[1].Ref, all[1].OrderID, all[1].Times, all[1].Body})
		require.Equal(t, "amount: differs from that of this payment", all[1].Reason)
		require.Equal(t, []any{"notice", "", 3, "\uFFFD, no JSON"}, []any{all[2].Source, all[2].Ref, all[2].Times, strings.TrimRight(all[2].Body, " ")})
		require.Equal(t, 2*time.Second, all[2].LastAt.Sub(all[2].ReceivedAt))

		notice := fmt.Sprintf("%s/%d", path, all[1].ID)
		operator.bad().post(notice+"/close", map[string]any{"reason": ""}).problem(http.StatusBadRequest, "invalid_request")
		reason := map[string]any{"reason": "a discount, booked by hand"}
		first := operator.key("once").post(notice+"/close", reason).want(http.StatusNoContent)
		operator.key("once").post(notice+"/close", reason).same(first)
		operator.post(notice+"/close", reason).problem(http.StatusConflict, "invalid_state")
		send(partial).problem(http.StatusBadRequest, "invalid_request") // stays closed
		require.Len(t, list("?state=open"), 2)
		require.Len(t, list(""), 3)
		require.Contains(t, string(operator.get("/api/v1/admin/audit?order_id="+p.Order.ID).want(http.StatusOK).body), "a discount, booked by hand")
		open := env.Must(e.store.OpenNotices(t.Context()))(t)
		require.EqualValues(t, 2, open)
		require.NoError(t, e.store.PurgeNotices(t.Context(), e.clock.now().Add(time.Second)))
		require.Len(t, list(""), 2, "those that are open")
	})
}

// TestFailingRefundsDoNotBlockOthers: more refunds than one batch have a provider that is gone.
func TestFailingRefundsDoNotBlockOthers(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(30), e.buyer(1)
	refund := func(c client) orderView {
		o := c.paid(v).Order
		c.post(o.path()+"/refund", nil).want(http.StatusOK)
		return o
	}
	for n := range 20 {
		refund(e.buyer(2 + n))
	}
	e.exec("UPDATE payments SET provider = 'gone'")
	last := refund(buyer)
	require.ErrorContains(t, e.Payments.RefundDue(t.Context()), "gone")
	assert.Equal(t, "refunded", buyer.status(last))
}

func (e *environment) dueNow() {
	e.t.Helper()
	e.exec("UPDATE payments SET next_try_at = created_at WHERE next_try_at IS NOT NULL")
}

func TestAudit(t *testing.T) {
	e := start(t)
	v, buyer, admin := e.sale(2), e.buyer(1), e.admin()
	p := buyer.paid(v)
	admin.post("/api/v1/admin/vouchers/"+v.ID+"/stock", map[string]any{"delta": 3, "reason": "more came"}).want(http.StatusOK)
	admin.patch("/api/v1/admin/vouchers/"+v.ID, map[string]any{"title": "new"}).want(http.StatusOK)
	admin.bad().patch("/api/v1/admin/vouchers/"+v.ID, map[string]any{"pay_value": -1}).problem(http.StatusBadRequest, "invalid_request")
	id := admin.login.User.ID
	paid := auditEntry{"provider", "pay", p.Payment.Ref, "", v.ID}
	assert.Equal(t, []auditEntry{
		{"admin", "change_voucher", `title: "100 for 80" -> "new"`, id, v.ID}, {"admin", "change_stock", "+3: more came", id, v.ID},
		paid, {"admin", "create_voucher", "", id, v.ID},
	}, admin.audit("voucher_id="+v.ID))
	assert.Equal(t, []auditEntry{paid}, admin.audit("order_id="+p.Order.ID))
	assert.Len(t, admin.audit("actor_id="+id+"&limit=2"), 2)
	assert.Equal(t, []auditEntry{paid}, admin.audit("actor=provider"))
	assert.Equal(t, []auditEntry{{"admin", "change_stock", "+3: more came", id, v.ID}}, admin.audit("actor=admin&action=change_stock"))
	assert.Empty(t, admin.audit("actor=provider&action=change_stock"))
	assert.Contains(t, string(admin.get("/api/v1/admin/audit?actor=admin").body), `"actor_phone":"`+domain.MaskPhone(adminPhone)+`"`)
	assert.Contains(t, string(admin.get("/api/v1/admin/audit?kind=request").body), `"actor_phone":"`+domain.MaskPhone(adminPhone)+`"`)
}

// The audit log stores changes of the maximum length completely, even if characters are escaped.
func TestAuditStoresLongestDetails(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, admin := e.sale(2), e.admin()
		last := func() string { return admin.audit("limit=1&voucher_id=" + v.ID)[0].Detail }
		hidden := "\U000e0001" // an invisible character, which the log escapes
		for _, letter := range []string{hidden, "🎟", "\n"} {
			long := map[string]any{
				"title": "x" + strings.Repeat(letter, 254), "sub_title": "x" + strings.Repeat(letter, 254), "rules": "x" + strings.Repeat(letter, 1023),
			}
			admin.patch("/api/v1/admin/vouchers/"+v.ID, long).want(http.StatusOK)
			assert.Contains(t, last(), fmt.Sprintf("%q", long["rules"]))
		}
		reason := "x" + strings.Repeat("🎟", 254)
		admin.post("/api/v1/admin/vouchers/"+v.ID+"/stock", map[string]any{"delta": 1, "reason": reason}).want(http.StatusOK)
		assert.Equal(t, "+1: "+reason, last())
		admin.bad().post("/api/v1/admin/vouchers/"+v.ID+"/stock", map[string]any{"delta": 1, "reason": reason + "x"}).problem(http.StatusBadRequest, "invalid_request")
	})
}

func TestChangeStock(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, admin := e.sale(2), e.admin()
		stock := "/api/v1/admin/vouchers/" + v.ID + "/stock"
		e.buyer(1).place(v)
		change := func(delta int64) answer {
			return admin.post(stock, map[string]any{"delta": delta, "reason": "counted"})
		}
		assert.EqualValues(t, 4, *decode[voucherView](change(3).want(http.StatusOK)).Stock)
		change(-5).problem(http.StatusConflict, "invalid_state") // one is sold
		assert.EqualValues(t, 0, *decode[voucherView](change(-4).want(http.StatusOK)).Stock)
		e.buyer(2).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
		change(1).want(http.StatusOK)
		e.buyer(2).place(v) // effective at once in this process

		// +3, -4 and +1 cancel out, and the page must not count the additions only.
		changed := decode[voucherView](change(7).want(http.StatusOK))
		assert.EqualValues(t, 7, changed.AddedStock)
		require.EqualValues(t, 2, *changed.InitialStock)
		for _, read := range []voucherView{
			decode[voucherView](e.guest().get(v.path()).want(http.StatusOK)),
			decode[listView[voucherView]](e.guest().get(vouchersPath).want(http.StatusOK)).Items[0],
		} {
			assert.EqualValues(t, 7, read.AddedStock)
			assert.EqualValues(t, 7, *read.Stock)
		}
		change(-7).want(http.StatusOK)

		for _, bad := range []map[string]any{
			{"delta": 0, "reason": "x"}, {"delta": 1}, {"delta": 1, "reason": "\x00"},
			{"delta": 2_000_000_000, "reason": "x"}, {"delta": "1", "reason": "x"},
		} {
			admin.bad().post(stock, bad).problem(http.StatusBadRequest, "invalid_request")
		}
		change(1_000_000_000).want(http.StatusOK)
		change(1).problem(http.StatusConflict, "invalid_state")
	})
}

// reached has the steps to an order in each stored status, after the start of its payment.
var reached = map[string][]string{
	"pending_payment": {}, "paid": {"succeed"}, "redeemed": {"succeed", "redeem"}, "cancelled": {"cancel"},
	"cancelled by the closer": {"close"}, "refunding": {"succeed", "refund"}, "refunded": {"succeed", "refund", "return the money"},
}

// reach creates an order in a status through the API, with a payment.
func (c client) reach(status string, v voucherView) paidView {
	c.t.Helper()
	p := c.pay(c.place(v))
	for _, step := range reached[status] {
		switch step {
		case "succeed":
			c.env.notify(c.env.noticeOf(p.Payment, p.Order, "succeeded")).want(http.StatusOK)
		case "redeem":
			c.env.admin().post("/api/v1/admin/orders/"+p.Order.ID+"/redeem", nil).want(http.StatusOK)
		case "close":
			c.env.overdue(p.Order)
			require.Equal(c.t, 1, c.env.close())
		case "return the money":
			require.NoError(c.t, c.env.Payments.RefundDue(context.Background()))
		default:
			c.post(p.Order.path()+"/"+step, nil).want(http.StatusOK)
		}
	}
	return p
}

// overdue moves the payment deadline of an order into the past of the database's clock.
func (e *environment) overdue(o orderView) {
	e.t.Helper()
	e.exec("UPDATE voucher_orders SET expires_at = ? WHERE id = ?", time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC), o.ID)
}

func (e *environment) close() int {
	e.t.Helper()
	closer := &service.Closer{Store: e.store, Returns: e.returns, Closed: func(int) {}}
	return env.Must(closer.CloseDue(e.t.Context()))(e.t)
}

// attempt is an action on an order. do checks that the action is refused unless it is allowed.
type attempt struct {
	name string
	do   func(t *testing.T, c client, p paidView, allowed bool)
}

func userAttempt(action string) attempt {
	return attempt{action, func(_ *testing.T, c client, p paidView, allowed bool) {
		wantAllowed(c.post(p.Order.path()+"/"+action, nil), allowed)
	}}
}

// adminAttempt returns an attempt by a request of an admin. It also checks the moves that the order lists, and the audit log.
func adminAttempt(action string) attempt {
	return attempt{action + " by an admin", func(t *testing.T, c client, p paidView, allowed bool) {
		admin, path := c.env.admin(), "/api/v1/admin/orders/"+p.Order.ID
		shown := decode[adminOrderView](admin.get(path).want(http.StatusOK))
		assert.Equal(t, allowed, slices.Contains(shown.Moves, action), shown)
		sub := env.Must(c.env.Subscribers.Subscribe(mustID(t, p.Order.UserID), mustID(t, p.Order.ID)))(t)
		defer c.env.Subscribers.Unsubscribe(sub)
		wantAllowed(admin.post(path+"/"+action, nil), allowed)
		if allowed {
			select {
			case <-sub.Changed:
			default:
				t.Error("the streams of the order were not notified")
			}

			logged := admin.audit("order_id=" + p.Order.ID)[0]
			assert.Equal(t, []string{"admin", action, admin.login.User.ID}, []string{logged.Actor, logged.Action, logged.ActorID})
		}
	}}
}

// wantAllowed also checks that an answer says what was bought.
func wantAllowed(a answer, allowed bool) {
	a.t.Helper()
	if allowed {
		require.Contains(a.t, string(a.want(http.StatusOK).body), `"title":"100 for 80"`)
	} else {
		a.problem(http.StatusConflict, "invalid_state")
	}
}

var attempts = []attempt{
	userAttempt("pay"), userAttempt("cancel"), userAttempt("refund"),
	adminAttempt("cancel"), adminAttempt("refund"), adminAttempt("redeem"),
	{"redeem by its code", func(t *testing.T, c client, p paidView, allowed bool) {
		wantAllowed(c.env.admin().post("/api/v1/admin/redeem", map[string]any{"code": domain.NewRedeemCodes(keys).Of(mustID(t, p.Order.ID))}), allowed)
	}},
	{"undo the redemption", func(_ *testing.T, c client, p paidView, allowed bool) {
		wantAllowed(c.env.admin().post("/api/v1/admin/orders/"+p.Order.ID+"/undo-redeem", map[string]any{"reason": "the wrong guest"}), allowed)
	}},
	{"close as overdue", func(t *testing.T, c client, _ paidView, allowed bool) {
		assert.Equal(t, allowed, c.env.close() > 0)
	}},
	{"return the money", func(t *testing.T, c client, _ paidView, _ bool) {
		require.NoError(t, c.env.Payments.RefundDue(t.Context()))
	}},
}

// allowed has the attempts that succeed, and the status that follows. The provider makes the move of a payment that pay
// has started: see TestEveryNotice.
var allowed = map[string]map[string]string{
	"pending_payment": {
		"pay": "pending_payment", "cancel": "cancelled", "cancel by an admin": "cancelled", "close as overdue": "cancelled",
	},
	"paid": {
		"refund": "refunding", "refund by an admin": "refunding", "redeem by an admin": "redeemed", "redeem by its code": "redeemed",
	},
	"refunding":               {"return the money": "refunded"},
	"redeemed":                {"undo the redemption": "paid"},
	"cancelled":               {},
	"cancelled by the closer": {},
	"refunded":                {},
}

// TestEveryMove runs every attempt on an order in every status: it succeeds if it is in the table, and otherwise is refused
// and changes nothing.
func TestEveryMove(t *testing.T) {
	require.Len(t, domain.Moves(), 7, "a new move needs an attempt")
	eachDatabase(t, func(t *testing.T, db option) {
		for status := range reached {
			t.Run(status, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, db)
				v, c := e.sale(99), e.buyer(1)
				p := c.reach(status, v)
				e.overdue(p.Order) // changes no status until the closer runs
				before := e.life()
				for _, try := range attempts {
					if _, ok := allowed[status][try.name]; !ok {
						try.do(t, c, p, false)
						require.Equal(t, before, e.life(), "%s of an order that is %s", try.name, status)
					}
				}
				done := 0
				for i, try := range attempts {
					if want, ok := allowed[status][try.name]; ok {
						c := e.buyer(2 + i)
						p := c.reach(status, v)
						e.overdue(p.Order)
						try.do(t, c, p, true)
						assert.Equal(t, want, c.status(p.Order), try.name)
						done++
					}
				}
				require.Len(t, allowed[status], done, "every entry of the table is tried")
			})
		}
	})
}

func (e *environment) life() string {
	e.t.Helper()
	return e.dumpOf("voucher_orders", "payments", "seckill_vouchers", "stock_changes", "audit_log")
}

// effect has the status of a payment, and of its order, that follow a notice.
type effect struct{ payment, order string }

// ends are the notices of a provider, and noticed what they do about the order's payment, by the order's status.
var (
	ends    = [4]string{"succeeded", "failed", "refunded", "disputed"}
	noticed = map[string][4]effect{
		"pending_payment": {
			{"succeeded", "paid"}, {"failed", "pending_payment"}, {"refunded", "pending_payment"}, {"disputed", "pending_payment"},
		},
		"paid":      {{"succeeded", "paid"}, {"succeeded", "paid"}, {"refunded", "refunded"}, {"disputed", "refunded"}},
		"redeemed":  {{"succeeded", "redeemed"}, {"succeeded", "redeemed"}, {"refunded", "redeemed"}, {"disputed", "redeemed"}},
		"cancelled": {{"refunding", "cancelled"}, {"failed", "cancelled"}, {"refunded", "cancelled"}, {"disputed", "cancelled"}},
		"refunding": {{"refunding", "refunding"}, {"refunding", "refunding"}, {"refunded", "refunded"}, {"disputed", "refunded"}},
		"refunded":  {{"refunded", "refunded"}, {"refunded", "refunded"}, {"refunded", "refunded"}, {"disputed", "refunded"}},
	}
)

// TestEveryNotice sends every notice, of the order's payment and of one that was not begun here, for an order in every
// status. Money is never refused: it pays an order that is pending payment, with a payment that was begun here; otherwise
// it is returned and nothing else changes. Money that went back at the provider refunds a paid order.
// Source: Sylius/StripePlugin#101, HiEventsDev/Hi.Events#1156, pretix/pretix#343.
func TestEveryNotice(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db option) {
		for status := range reached {
			t.Run(status, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, db)
				v := e.sale(99)
				order, _, _ := strings.Cut(status, " ") // the canceller makes no difference
				for i, end := range ends {
					c := e.buyer(1 + 2*i)
					p := c.reach(status, v)
					e.notifyAndCheck(t, c, p, e.noticeOf(p.Payment, p.Order, end), c.payments(p.Order)[0], noticed[order][i])

					c = e.buyer(2 + 2*i)
					p = c.reach(status, v)
					foreign := e.noticeOf(paymentView{Ref: "from-elsewhere-" + end}, p.Order, end)
					before := e.life()
					if end != "succeeded" {
						e.notify(foreign).problem(http.StatusNotFound, "not_found")
						assert.Equal(t, before, e.life())
						continue
					}
					e.notifyAndCheck(t, c, p, foreign, "", effect{"refunding", order})
				}
			})
		}
	})
}

// notifyAndCheck sends a notice about a payment with a status. It changes something, and returns money, if that changes.
func (e *environment) notifyAndCheck(t *testing.T, c client, p paidView, n notice, was string, want effect) {
	t.Helper()
	before := e.life()
	assert.Equal(t, want.payment, decode[paymentView](e.notify(n).want(http.StatusOK)).Status)
	assert.Equal(t, want.order, c.status(p.Order))
	after := e.life()
	assert.Equal(t, want.payment != was, before != after, "%v", n)
	e.notify(n).want(http.StatusOK)
	assert.Equal(t, after, e.life(), "a doubled notice changes nothing")
	returned := strings.Count(after, "return_money") - strings.Count(before, "return_money")
	assert.Equal(t, map[bool]int{true: 1}[want.payment == "refunding" && was != "refunding"], returned, "%v", n)
	if want.payment != "refunding" {
		return
	}

	// Unmatched money is returned. The order keeps its status unless it is itself being refunded.
	require.NoError(t, e.Payments.RefundDue(t.Context()))
	status := want.order
	if status == "refunding" {
		status = "refunded"
	}
	assert.Equal(t, status, c.status(p.Order))
	statuses := c.payments(p.Order)
	assert.Equal(t, status == "paid" || status == "redeemed", slices.Contains(statuses, "succeeded"), statuses)
	assert.Contains(t, statuses, "refunded")
	assert.NotContains(t, statuses, "refunding")
}

// TestChangeDuringRefundAll changes the sale or the staff when a request has begun the first of many refunds.
func TestChangeDuringRefundAll(t *testing.T) {
	t.Parallel()
	const paid = 25
	for name, race := range map[string]struct {
		change        func(e *environment, v voucherView)
		status, after int // of the request that runs, and of the next one
	}{
		// The units of the refunds that have begun are sold again, and at most ten more.
		"the sale is published again": {func(e *environment, v voucherView) {
			e.admin().patch(v.adminPath(), map[string]string{"status": "on"}).want(http.StatusOK)
		}, http.StatusConflict, http.StatusConflict},
		"the operator is removed": {func(e *environment, _ voucherView) {
			env.Must(e.admins.Remove(e.t.Context(), "13900000002"))(e.t)
			require.NoError(e.t, e.revoked.Load(e.t.Context()))
		}, http.StatusOK, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			eachEnv(t, func(t *testing.T, e *environment) {
				operator, v := e.staff("13900000002", domain.RoleOperator), e.sale(paid)
				for n := range paid {
					e.buyer(n).paid(v)
				}
				operator.patch(v.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)

				var listed, changed atomic.Bool
				e.store.faults.Before(func(query string) error {
					switch {
					case strings.Contains(query, "voucher_orders"):
						listed.Store(true)
					case query == "BEGIN" && listed.Load() && changed.CompareAndSwap(false, true): // of the first refund
						race.change(e, v)
					}
					return nil
				})
				path := v.adminPath() + "/refunds"
				operator.post(path, nil).want(race.status)
				begun := paid - e.count("voucher_orders WHERE status = 2")
				require.Positive(t, begun)
				if race.status == http.StatusConflict {
					require.LessOrEqual(t, begun, 10)
				}
				operator.post(path, nil).want(race.after)

				require.NoError(t, e.Payments.RefundDue(t.Context()))
				require.Len(t, e.bank.refunded, begun)
			})
		})
	}
}

func overHTTP(s *setup) { s.provider = payment.HTTPName }

// overHTTP serves the bank with the API of docs/payment-provider.json, and returns the provider that calls it. Each
// request and answer must fit the document.
func (b *bank) overHTTP(t testing.TB, now func() time.Time) *payment.HTTP {
	t.Helper()
	doc := env.Must(openapi3.NewLoader().LoadFromFile("../../docs/payment-provider.json"))(t)
	require.NoError(t, doc.Validate(t.Context()))
	router := env.Must(legacy.NewRouter(doc))(t)
	secrets := domain.NewKeyring(paymentSecret)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.NoError(t, webhook.Verify(secrets, body, r.Header.Get(webhook.SignatureHeader), now()))
		var in struct {
			Ref      string `json:"provider_ref"`
			OrderID  string `json:"order_id"`
			Amount   int64  `json:"amount"`
			Currency string `json:"currency"`
		}
		assert.NoError(t, json.Unmarshal(body, &in))
		id, err := strconv.ParseInt(in.OrderID, 10, 64)
		assert.NoError(t, err)
		p := domain.Payment{Ref: in.Ref, OrderID: id, Amount: in.Amount, Currency: in.Currency}

		status := "pending"
		switch r.URL.Path {
		case "/payments":
			err = b.Create(r.Context(), &p)
		case "/payments/refund":
			status, err = "refunded", b.Refund(r.Context(), p)
		case "/payments/query":
			result, _ := b.results.Load(in.Ref)
			status, _ = result.(string)
			if status == "outage" {
				err = errors.New(status)
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable) // an outage, which is not in the document
			return
		}
		if status == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		out, err := json.Marshal(map[string]any{
			"provider_ref": in.Ref, "order_id": in.OrderID, "amount": in.Amount, "currency": in.Currency, "status": status,
			"checkout_url": "https://bank.example/" + in.Ref,
		})
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)

		r.Body, r.URL.Host = io.NopCloser(bytes.NewReader(body)), ""
		route, params, err := router.FindRoute(r)
		if assert.NoError(t, err) {
			call := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
			assert.NoError(t, openapi3filter.ValidateRequest(r.Context(), call))
			assert.NoError(t, openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
				RequestValidationInput: call, Status: http.StatusOK, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(out)),
			}))
		}
	}))
	t.Cleanup(server.Close)
	return &payment.HTTP{API: webhook.Client{URL: server.URL + "/?token=hidden", Secrets: secrets, Now: now, HTTP: webhook.NewHTTPClient(payment.CallTimeout)}}
}

// TestOrderIsNotClosedOverPayment: when the time to pay ends, the provider is queried about a payment before its order is
// closed. An order without a payment is closed at once, and one whose provider does not answer after half a minute.
// Source: con2/kompassi#1016, coreshop/CoreShop#2529.
func TestOrderIsNotClosedOverPayment(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		e.store.QueryBeforeClosing(payment.HTTPName)
		inquiry := payment.Inquiry{Store: e.store, Query: e.remote.Query, Settle: e.Payments.Settle}
		v := e.sale(9)
		ended := func(o orderView, before time.Duration) {
			e.exec("UPDATE voucher_orders SET expires_at = ? WHERE id = ?", time.Now().Add(-before).UTC().Truncate(time.Millisecond), o.ID)
		}
		ask := func() error {
			e.dueNow()
			return inquiry.QueryDue(t.Context())
		}

		paid, waiting, lost := e.buyer(1), e.buyer(2), e.buyer(3)
		inTime := paid.pay(paid.place(v))
		require.Equal(t, "https://bank.example/"+inTime.Payment.Ref, inTime.Payment.CheckoutURL)
		pending := waiting.pay(waiting.place(v))
		silent := lost.pay(lost.place(v))
		unbegun := e.buyer(4).place(v)
		for _, p := range []paidView{inTime, pending, silent} {
			e.bank.results.Store(p.Payment.Ref, "pending")
		}
		e.exec("UPDATE payments SET created_at = ?", time.Now().UTC().Truncate(time.Millisecond)) // young by the database's clock
		require.NoError(t, ask(), "an answer before the end does not count")
		e.exec("UPDATE payments SET queried_at = ?", time.Now().Add(-time.Second).UTC().Truncate(time.Millisecond)) // not in the same millisecond
		for _, o := range []orderView{inTime.Order, pending.Order, silent.Order, unbegun} {
			ended(o, 0)
		}
		require.Equal(t, 1, e.close(), "only the order without a payment")
		require.Equal(t, "cancelled", e.buyer(4).status(unbegun))

		e.bank.results.Store(inTime.Payment.Ref, "succeeded") // its notice is lost
		e.bank.results.Store(silent.Payment.Ref, "outage")
		require.Error(t, ask())
		require.Equal(t, "paid", paid.status(inTime.Order))
		require.Equal(t, 1, e.close(), "the provider has no result")
		require.Equal(t, "cancelled", waiting.status(pending.Order))
		require.Equal(t, "pending_payment", lost.status(silent.Order))

		ended(silent.Order, 31*time.Second)
		e.exec("UPDATE payments SET queried_at = NULL")
		require.Zero(t, e.close(), "the server has just started")
		require.Len(t, env.Must(e.store.CloseExpired(t.Context(), 10, true))(t), 1)
		require.Equal(t, "cancelled", lost.status(silent.Order))

		paid.post(inTime.Order.path()+"/refund", nil).want(http.StatusOK)
		require.NoError(t, e.Payments.RefundDue(t.Context()))
		require.Equal(t, "refunded", paid.status(inTime.Order))
	}, overHTTP)
}

// TestRefundAllOrders: all paid orders of a sale that was taken off are refunded once, and no others.
func TestRefundAllOrders(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		operator, v, other := e.staff("13900000002", domain.RoleOperator), e.sale(9), e.sale(9)
		var orders []orderView
		for n := range 3 {
			orders = append(orders, e.buyer(n).paid(v).Order)
		}
		unpaid, elsewhere := e.buyer(7).place(v), e.buyer(1).paid(other).Order
		path := v.adminPath() + "/refunds"
		operator.post(path, nil).problem(http.StatusConflict, "invalid_state") // returned units would be sold again

		operator.patch(v.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
		type total struct {
			Orders, Amount int64
			Currency       string
		}
		count := func() total { return decode[total](operator.get(path).want(http.StatusOK)) }
		require.Equal(t, total{3, 24000, "CNY"}, count())
		type progress struct {
			Begun int
			More  bool
		}
		require.Equal(t, progress{3, false}, decode[progress](operator.key("all").post(path, nil).want(http.StatusOK)))
		require.Equal(t, progress{}, decode[progress](operator.post(path, nil).want(http.StatusOK)), "nothing is left")
		require.Equal(t, total{0, 0, "CNY"}, count())
		require.NoError(t, e.Payments.RefundDue(t.Context()))
		for n, o := range orders {
			refunded := decode[orderView](e.buyer(n).get(o.path()).want(http.StatusOK))
			require.Equal(t, "refunded", refunded.Status)
			require.NotEmpty(t, refunded.RefundedAt)
			require.Empty(t, refunded.RedeemCode)
		}
		require.Equal(t, "pending_payment", e.buyer(7).status(unpaid))
		require.Equal(t, "paid", e.buyer(1).status(elsewhere))
	})
}

// TestRedeemOutsideValidity: a voucher is redeemed from the first moment of its validity until before the last, as it was bought, by
// its code and by its order, and by no other code. Once redeemed, it names its order and the time.
func TestRedeemOutsideValidity(t *testing.T) {
	e := start(t)
	v := e.sale(9, func(b map[string]any) {
		b["valid_from"], b["valid_until"] = "2026-11-12T00:00:00Z", "2026-11-13T00:00:00Z"
	})
	var orders []orderView
	for n := range 3 {
		buyer := e.buyer(n)
		orders = append(orders, decode[orderView](buyer.get(buyer.paid(v).Order.path()).want(http.StatusOK)))
	}
	e.admin().patch(v.adminPath(), map[string]any{"valid_from": nil, "valid_until": nil}).want(http.StatusOK)
	refused := func(o orderView, detail string) {
		counter := e.staff("13900000004", domain.RoleRedeemer)
		for _, a := range []answer{
			counter.post("/api/v1/admin/redeem", map[string]string{"code": o.RedeemCode}), e.admin().post("/api/v1/admin/orders/"+o.ID+"/redeem", nil),
		} {
			require.Equal(t, "order "+o.ID+" is "+detail, a.problem(http.StatusConflict, "invalid_state").Detail)
		}
	}

	e.clock.advance(time.Date(2026, 11, 12, 0, 0, 0, 0, time.UTC).Add(-time.Millisecond).Sub(e.clock.now()))
	refused(orders[0], "valid only from 2026-11-12T00:00:00Z")
	e.clock.advance(time.Millisecond)
	admin, path := e.admin(), "/api/v1/admin/orders/"+orders[0].ID+"/redeem"
	admin.post(path, map[string]string{"code": orders[1].RedeemCode}).problem(http.StatusBadRequest, "invalid_request")
	admin.post(path, map[string]string{"code": orders[0].RedeemCode}).want(http.StatusOK)
	e.clock.advance(10 * time.Minute)
	for _, a := range []answer{admin.post("/api/v1/admin/redeem", map[string]string{"code": orders[0].RedeemCode}), admin.post(path, nil)} {
		p := a.problem(http.StatusConflict, "invalid_state")
		require.Equal(t, orders[0].ID, p.OrderID)
		require.Equal(t, "order "+orders[0].ID+" was redeemed at 2026-11-12T00:00:00Z", p.Detail)
		require.Contains(t, string(a.body), `"redeemed_at":"2026-11-12T00:00:00Z"`)
	}
	e.clock.advance(24*time.Hour - time.Millisecond - 10*time.Minute)
	e.admin().post("/api/v1/admin/redeem", map[string]string{"code": orders[1].RedeemCode}).want(http.StatusOK)
	e.clock.advance(time.Millisecond)
	refused(orders[2], "no longer valid: it was until 2026-11-13T00:00:00Z")
}
