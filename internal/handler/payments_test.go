package handler_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/out/payment"
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
	buyer.bad().post(o.path()+"/pay", map[string]any{"provider": 1}).problem(http.StatusBadRequest, "invalid_request")
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

	for range 2 { // a repeated notice changes nothing
		settled := decode[paymentView](e.notify(e.noticeOf(p.Payment, o, "succeeded")).want(http.StatusOK))
		assert.Equal(t, "succeeded", settled.Status)
	}
	got := decode[orderView](buyer.get(o.path()).want(http.StatusOK))
	assert.Equal(t, "paid", got.Status)
	assert.NotEmpty(t, got.PaidAt)
	assert.NotEmpty(t, got.RedeemCode)
	assert.Equal(t, []string{"failed", "succeeded"}, buyer.payments(o))
}

// The amount and the currency of an order are those of the voucher at the time of the purchase. The price may be zero.
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

	free := e.buyer(2).paid(v)
	assert.Zero(t, free.Order.Amount)
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

		shown := decode[struct{ Disputed bool }](buyer.get(p.Order.path()).want(http.StatusOK))
		require.Equal(t, result == "disputed", shown.Disputed)
		shown = decode[struct{ Disputed bool }](e.admin().get("/api/v1/admin/orders/" + p.Order.ID).want(http.StatusOK))
		require.Equal(t, result == "disputed", shown.Disputed)
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
			failing := env.Must(e.store.FailingRefunds(t.Context(), 20))(t)
			return len(failing)
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

	rotated := "v1=00," + signature(body, now)
	e.guest().with("X-Seckill-Signature", rotated).post(hook, body).want(http.StatusOK)
	assert.Equal(t, "paid", buyer.status(p.Order))
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text := env.Must(json.Marshal(v))(t)
	return string(text)
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
// operator closes it. An unsigned notice is not.
func TestUnreadNotices(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		buyer, operator := e.buyer(1), e.staff("13900000002", domain.RoleOperator)
		p := buyer.paid(e.sale(1))
		send := func(body string) answer {
			return e.guest().bad().with("X-Seckill-Signature", signature(body, e.clock.now())).post("/api/v1/payments/webhook/"+e.provider, body)
		}
		part := e.noticeOf(p.Payment, p.Order, "refunded")
		part["amount"] = 1
		garbage, partial := "\xff, no JSON", asJSON(t, part)
		for range 3 {
			send(garbage).problem(http.StatusBadRequest, "invalid_request")
			e.clock.advance(time.Second)
		}
		send(partial).problem(http.StatusBadRequest, "invalid_request")
		require.Equal(t, "paid", buyer.status(p.Order), "a part of the money does not end the order")
		e.guest().bad().with("X-Seckill-Signature", signature("x", e.clock.now())).post("/api/v1/payments/webhook/"+e.provider, garbage).problem(http.StatusUnauthorized, "unauthenticated")

		// The answers to the queries of one payment differ in their times only.
		for n := range 2 {
			answer := domain.PaymentNotice{Ref: "pay_old", Queried: true, Body: fmt.Append(nil, 1+n)}
			_, err := e.Payments.Settle(t.Context(), e.provider, answer, domain.Invalid("amount", "is out of range"))
			require.Error(t, err)
		}

		type unread struct {
			domain.UnreadNotice

			Source, Body string

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
		require.Equal(t, "amount: differs from the earlier notice of this payment", all[1].Reason)
		require.Equal(t, []any{"notice", "", 3, "\uFFFD, no JSON"}, []any{all[2].Source, all[2].Ref, all[2].Times, all[2].Body})
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

// TestUnkeptNoticeIsRepeated: if a notice can be neither processed nor kept, the provider must send it again.
func TestUnkeptNoticeIsRepeated(t *testing.T) {
	e := start(t)
	e.store.fail(func() error { return fmt.Errorf("%w: a test", domain.ErrUnavailable) })
	body := "no JSON"
	e.guest().bad().with("X-Seckill-Signature", signature(body, e.clock.now())).post("/api/v1/payments/webhook/"+e.provider, body).
		problem(http.StatusServiceUnavailable, "unavailable")
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
