package handler_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/service"
)

// reached makes an order in each status that is stored, by the API alone, with a payment that it has had.
var reached = map[string]func(t *testing.T, c client, v voucherView) paidView{
	"pending_payment": func(_ *testing.T, c client, v voucherView) paidView { return c.pay(c.place(v)) },
	"paid":            func(_ *testing.T, c client, v voucherView) paidView { return c.paid(v) },
	"redeemed": func(_ *testing.T, c client, v voucherView) paidView {
		p := c.paid(v)
		c.env.admin().post("/api/v1/admin/orders/"+p.Order.ID+"/redeem", nil).want(http.StatusOK)
		return p
	},
	"cancelled": func(_ *testing.T, c client, v voucherView) paidView {
		p := c.pay(c.place(v))
		c.post(p.Order.path()+"/cancel", nil).want(http.StatusOK)
		return p
	},
	"cancelled by the closer": func(t *testing.T, c client, v voucherView) paidView {
		p := c.pay(c.place(v))
		c.env.overdue(p.Order)
		require.Equal(t, 1, c.env.close())
		return p
	},
	"refunding": func(_ *testing.T, c client, v voucherView) paidView {
		p := c.paid(v)
		c.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
		return p
	},
	"refunded": func(t *testing.T, c client, v voucherView) paidView {
		p := c.paid(v)
		c.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
		require.NoError(t, c.env.payments.RefundDue(t.Context()))
		return p
	},
}

// overdue lets the time to pay of an order run out, by the database's clock.
func (e *env) overdue(o orderView) {
	e.t.Helper()
	past := time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := e.store.Pools()["write"].ExecContext(e.t.Context(), "UPDATE voucher_orders SET expires_at = ? WHERE id = ?", past, o.ID)
	require.NoError(e.t, err)
}

// close closes overdue orders, and says how many those were.
func (e *env) close() int {
	e.t.Helper()
	closer := &service.Closer{Store: e.store, Returns: e.returns, Log: slog.New(slog.DiscardHandler)}
	n, err := closer.CloseDue(e.t.Context())
	require.NoError(e.t, err)
	return n
}

// attempt is what can be tried with an order, and the move that it asks for. If that is not allowed, it is refused.
type attempt struct {
	name string
	move service.Move
	do   func(t *testing.T, c client, p paidView, allowed bool)
}

// asks is an attempt by a request of the order's owner.
func asks(action string, move service.Move) attempt {
	return attempt{action, move, func(_ *testing.T, c client, p paidView, allowed bool) {
		decided(c.post(p.Order.path()+"/"+action, nil), allowed)
	}}
}

// asksAsAdmin is an attempt by a request of an admin, who does what the order says that he may.
func asksAsAdmin(action string, move service.Move) attempt {
	return attempt{action + " by an admin", move, func(t *testing.T, c client, p paidView, allowed bool) {
		path := "/api/v1/admin/orders/" + p.Order.ID
		shown := decode[adminOrderView](c.env.admin().get(path).want(http.StatusOK))
		assert.Equal(t, allowed, slices.Contains(shown.Moves, action), shown)
		decided(c.env.admin().post(path+"/"+action, nil), allowed)
	}}
}

func decided(a answer, allowed bool) {
	a.t.Helper()
	if allowed {
		a.want(http.StatusOK)
	} else {
		a.problem(http.StatusConflict, "invalid_state")
	}
}

var attempts = []attempt{
	asks("pay", service.MovePay), asks("cancel", service.MoveCancel), asks("refund", service.MoveRefund),
	asksAsAdmin("cancel", service.MoveCancel), asksAsAdmin("refund", service.MoveRefund),
	{"redeem", service.MoveRedeem, func(_ *testing.T, c client, p paidView, allowed bool) {
		decided(c.env.admin().post("/api/v1/admin/orders/"+p.Order.ID+"/redeem", nil), allowed)
	}},
	{"redeem by its code", service.MoveRedeem, func(t *testing.T, c client, p paidView, allowed bool) {
		id, err := strconv.ParseInt(p.Order.ID, 10, 64)
		require.NoError(t, err)
		decided(c.env.admin().post("/api/v1/admin/redeem", map[string]any{"code": service.NewRedeemCodes(secret).Of(id)}), allowed)
	}},
	{"closer", service.MoveExpire, func(t *testing.T, c client, _ paidView, allowed bool) {
		assert.Equal(t, allowed, c.env.close() > 0)
	}},
	{"refunds that are due", service.MoveRefunded, func(t *testing.T, c client, _ paidView, _ bool) {
		require.NoError(t, c.env.payments.RefundDue(t.Context()))
	}},
}

// TestEveryMove tries everything with an order in every status: what the table of moves allows succeeds, and what it
// does not allow is refused and changes nothing.
func TestEveryMove(t *testing.T) {
	t.Parallel()
	for status, reach := range reached {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			v, c := e.sale(99), e.buyer(1)
			p := reach(t, c, v)
			e.overdue(p.Order) // as long as it is not closed, that changes nothing
			was, before := c.status(p.Order), e.life()
			for _, try := range attempts {
				if !allows(try.move, was) {
					try.do(t, c, p, false)
					require.Equal(t, before, e.life(), "%s of an order that is %s", try.name, was)
				}
			}
			for i, try := range attempts {
				if allows(try.move, was) {
					c := e.buyer(2 + i)
					p := reach(t, c, v)
					e.overdue(p.Order)
					try.do(t, c, p, true)
					want := try.move.To.String()
					if try.name == "pay" { // it asks for the money: the move is the provider's
						want = was
					}
					assert.Equal(t, want, c.status(p.Order), try.name)
				}
			}
			e.checkBooks()
		})
	}
	for _, m := range service.Moves() {
		assert.True(t, slices.ContainsFunc(attempts, func(a attempt) bool { return a.move.Name == m.Name }), "nobody tries to %s", m.Name)
	}
}

func allows(move service.Move, status string) bool {
	return slices.ContainsFunc(service.Moves(), func(m service.Move) bool { return m.Name == move.Name && m.From.String() == status })
}

// life is all that is stored about the life of orders.
func (e *env) life() string {
	e.t.Helper()
	return e.dumpOf("voucher_orders", "payments", "seckill_vouchers", "stock_changes", "audit_log")
}

// TestEveryNotice tells of every end of the order's payment, or of one that was begun elsewhere, while the order is in
// every status. The provider is never refused: an order that waits for the money is paid, and else the money goes back
// while everything else stays as it is.
func TestEveryNotice(t *testing.T) {
	t.Parallel()
	for status, reach := range reached {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			v := e.sale(99)
			for i, end := range []string{"succeeded", "failed"} {
				for j, known := range []bool{true, false} {
					c := e.buyer(1 + 2*i + j)
					p := reach(t, c, v)
					of := p.Payment
					if !known {
						of = paymentView{Ref: fmt.Sprint("from-elsewhere-", end)}
					}
					e.tellOf(t, c, p, e.noticeOf(of, p.Order, end), known)
				}
			}
		})
	}
}

// tellOf tells of an end of a payment, and requires what must follow from it.
func (e *env) tellOf(t *testing.T, c client, p paidView, n notice, known bool) {
	t.Helper()
	first, was, before := c.payments(p.Order)[0], c.status(p.Order), e.life()
	got := decode[paymentView](e.tell(n).want(http.StatusOK)).Status
	want, order := n["status"], was
	switch {
	case known && first != "pending":
		want = first
		assert.Equal(t, before, e.life(), "it is known")
	case want == "succeeded" && allows(service.MovePay, was):
		order = "paid"
	case want == "succeeded":
		want = "refunding"
		assert.Equal(t, strings.Count(before, "return_money")+1, strings.Count(e.life(), "return_money"))
	}
	assert.Equal(t, want, got)
	assert.Equal(t, order, c.status(p.Order))
	e.checkBooks()
	if want == "refunding" {
		e.requireMoneyBack(t, c, p, order)
	}
}

// requireMoneyBack lets refunds happen, after which the provider has none of the buyer's money; the order, unless it
// is itself being refunded, is as it was.
func (e *env) requireMoneyBack(t *testing.T, c client, p paidView, status string) {
	t.Helper()
	require.NoError(t, e.payments.RefundDue(t.Context()))
	if status == "refunding" {
		status = "refunded"
	}
	assert.Equal(t, status, c.status(p.Order))
	statuses := c.payments(p.Order)
	assert.Equal(t, status == "paid" || status == "redeemed", slices.Contains(statuses, "succeeded"), statuses)
	assert.Contains(t, statuses, "refunded")
	assert.NotContains(t, statuses, "refunding")
	e.checkBooks()
}
