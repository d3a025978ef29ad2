package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
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
	past := time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC)
	e.exec("UPDATE voucher_orders SET expires_at = ? WHERE id = ?", past, o.ID)
}

func (e *environment) close() int {
	e.t.Helper()
	closer := &service.Closer{Store: e.store, Returns: e.returns}
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

// effect is what a notice does: the status of its payment and of the order that follow, whether anything changes, and
// whether money goes back.
type effect struct {
	payment, order   string
	changes, returns bool
}

// noticed has the effects of a notice about the order's payment, by its status.
var noticed = map[string]map[string]effect{
	"pending_payment": {
		"succeeded": {"succeeded", "paid", true, false}, "failed": {"failed", "pending_payment", true, false},
		"refunded": {"refunded", "pending_payment", true, false}, "disputed": {"disputed", "pending_payment", true, false},
	},
	"paid": {
		"succeeded": {"succeeded", "paid", false, false}, "failed": {"succeeded", "paid", false, false},
		"refunded": {"refunded", "refunded", true, false}, "disputed": {"disputed", "refunded", true, false},
	},
	"redeemed": {
		"succeeded": {"succeeded", "redeemed", false, false}, "failed": {"succeeded", "redeemed", false, false},
		"refunded": {"refunded", "redeemed", true, false}, "disputed": {"disputed", "redeemed", true, false},
	},
	"cancelled": {
		"succeeded": {"refunding", "cancelled", true, true}, "failed": {"failed", "cancelled", true, false},
		"refunded": {"refunded", "cancelled", true, false}, "disputed": {"disputed", "cancelled", true, false},
	},
	"refunding": {
		"succeeded": {"refunding", "refunding", false, false}, "failed": {"refunding", "refunding", false, false},
		"refunded": {"refunded", "refunded", true, false}, "disputed": {"disputed", "refunded", true, false},
	},
	"refunded": {
		"succeeded": {"refunded", "refunded", false, false}, "failed": {"refunded", "refunded", false, false},
		"refunded": {"refunded", "refunded", false, false}, "disputed": {"disputed", "refunded", true, false},
	},
}

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
				for i, end := range []string{"succeeded", "failed", "refunded", "disputed"} {
					c := e.buyer(1 + 2*i)
					p := c.reach(status, v)
					e.notifyAndCheck(t, c, p, e.noticeOf(p.Payment, p.Order, end), noticed[order][end])

					c = e.buyer(2 + 2*i)
					p = c.reach(status, v)
					foreign := e.noticeOf(paymentView{Ref: "from-elsewhere-" + end}, p.Order, end)
					before := e.life()
					if end != "succeeded" {
						e.notify(foreign).problem(http.StatusNotFound, "not_found")
						assert.Equal(t, before, e.life())
						continue
					}
					e.notifyAndCheck(t, c, p, foreign, effect{"refunding", order, true, true})
				}
			})
		}
	})
}

func (e *environment) notifyAndCheck(t *testing.T, c client, p paidView, n notice, want effect) {
	t.Helper()
	before := e.life()
	assert.Equal(t, want.payment, decode[paymentView](e.notify(n).want(http.StatusOK)).Status)
	assert.Equal(t, want.order, c.status(p.Order))
	after := e.life()
	assert.Equal(t, want.changes, before != after, "%v", n)
	e.notify(n).want(http.StatusOK)
	assert.Equal(t, after, e.life(), "a doubled notice changes nothing")
	returned := strings.Count(after, "return_money") - strings.Count(before, "return_money")
	assert.Equal(t, map[bool]int{true: 1}[want.returns], returned, "%v", n)
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
	return &payment.HTTP{API: webhook.Client{URL: server.URL + "/", Secrets: secrets, Now: now, HTTP: webhook.NewHTTPClient(payment.CallTimeout)}}
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
		require.Equal(t, 1, e.close())
		require.Equal(t, "cancelled", lost.status(silent.Order))
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
