package handler_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
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
	"seckill/test/env"
)

// overHTTP makes the bank a provider over HTTP.
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
	return payment.NewHTTP(payment.HTTPConfig{URL: server.URL + "/", Secrets: secrets, Now: now})
}

// TestOrderIsNotClosedOverPayment: when the time to pay ends, the provider is queried about a payment before its order is
// closed. An order without a payment is closed at once, and one whose provider does not answer after half a minute.
// Source: con2/kompassi#1016, coreshop/CoreShop#2529.
func TestOrderIsNotClosedOverPayment(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		e.store.QueryBeforeClosing(payment.HTTPName)
		inquiry := payment.Inquiry{Store: e.store, Query: e.remote.Query, Settle: e.payments.Settle}
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
		require.Equal(t, 1, e.close())
		require.Equal(t, "cancelled", lost.status(silent.Order))
		e.checkInvariants()
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
		require.NoError(t, e.payments.RefundDue(t.Context()))
		for n, o := range orders {
			refunded := decode[orderView](e.buyer(n).get(o.path()).want(http.StatusOK))
			require.Equal(t, "refunded", refunded.Status)
			require.NotEmpty(t, refunded.RefundedAt)
			require.Empty(t, refunded.RedeemCode)
		}
		require.Equal(t, "pending_payment", e.buyer(7).status(unpaid))
		require.Equal(t, "paid", e.buyer(1).status(elsewhere))
		e.checkInvariants()
	})
}

// TestUsedCodeSaysWhen: an order is redeemed by its own code only, and a code that was redeemed before names its order and the time.
func TestUsedCodeSaysWhen(t *testing.T) {
	e := start(t)
	buyer, admin := e.buyer(1), e.admin()
	o := decode[orderView](buyer.get(buyer.paid(e.sale(1)).Order.path()).want(http.StatusOK))
	path := "/api/v1/admin/orders/" + o.ID + "/redeem"
	code := map[string]string{"code": o.RedeemCode}
	admin.post(path, map[string]string{"code": domain.NewRedeemCodes(keys).Of(77)}).problem(http.StatusBadRequest, "invalid_request")
	admin.post(path, code).want(http.StatusOK)

	e.clock.advance(10 * time.Minute)
	for _, a := range []answer{admin.post("/api/v1/admin/redeem", code), admin.post(path, nil)} {
		p := a.problem(http.StatusConflict, "invalid_state")
		require.Equal(t, o.ID, p.OrderID)
		require.Equal(t, "order "+o.ID+" was redeemed at 2026-11-11T12:00:00Z", p.Detail)
		require.Contains(t, string(a.body), `"redeemed_at":"2026-11-11T12:00:00Z"`)
	}
}

// TestRedeemOutsideValidity: a voucher is redeemed from the first moment of its validity until before the last, as it was bought, by
// its code and by its order.
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
		t.Helper()
		counter := e.staff("13900000004", domain.RoleRedeemer)
		for _, a := range []answer{
			counter.post("/api/v1/admin/redeem", map[string]string{"code": o.RedeemCode}), e.admin().post("/api/v1/admin/orders/"+o.ID+"/redeem", nil),
		} {
			require.Equal(t, "order "+o.ID+" is "+detail, a.problem(http.StatusConflict, "invalid_state").Detail)
		}
	}

	begin := time.Date(2026, 11, 12, 0, 0, 0, 0, time.UTC)
	e.clock.advance(begin.Add(-time.Millisecond).Sub(e.clock.now()))
	refused(orders[0], "valid only from 2026-11-12T00:00:00Z")
	e.clock.advance(time.Millisecond)
	e.admin().post("/api/v1/admin/orders/"+orders[0].ID+"/redeem", nil).want(http.StatusOK)
	e.clock.advance(24*time.Hour - time.Millisecond)
	e.admin().post("/api/v1/admin/redeem", map[string]string{"code": orders[1].RedeemCode}).want(http.StatusOK)
	e.clock.advance(time.Millisecond)
	refused(orders[2], "no longer valid: it was until 2026-11-13T00:00:00Z")
}
