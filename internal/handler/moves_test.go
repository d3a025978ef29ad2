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

	"seckill/internal/domain"
	"seckill/internal/service"
)

// reached creates an order in each stored status through the API, with a payment.
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

// overdue moves the payment deadline of an order into the past of the database's clock.
func (e *env) overdue(o orderView) {
	e.t.Helper()
	past := time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := e.store.Pools()["write"].ExecContext(e.t.Context(), "UPDATE voucher_orders SET expires_at = ? WHERE id = ?", past, o.ID)
	require.NoError(e.t, err)
}

// close closes overdue orders and returns their number.
func (e *env) close() int {
	e.t.Helper()
	closer := &service.Closer{Store: e.store, Returns: e.returns, Log: slog.New(slog.DiscardHandler)}
	n, err := closer.CloseDue(e.t.Context())
	require.NoError(e.t, err)
	return n
}

// attempt is an action on an order that requests a move. do checks that the action is refused unless the move is
// allowed.
type attempt struct {
	name string
	move domain.Move
	do   func(t *testing.T, c client, p paidView, allowed bool)
}

// userAttempt returns an attempt by a request of the order's owner.
func userAttempt(action string, move domain.Move) attempt {
	return attempt{action, move, func(_ *testing.T, c client, p paidView, allowed bool) {
		wantAllowed(c.post(p.Order.path()+"/"+action, nil), allowed)
	}}
}

// adminAttempt returns an attempt by a request of an admin. It also checks the moves that the order lists.
func adminAttempt(action string, move domain.Move) attempt {
	return attempt{action + " by an admin", move, func(t *testing.T, c client, p paidView, allowed bool) {
		path := "/api/v1/admin/orders/" + p.Order.ID
		shown := decode[adminOrderView](c.env.admin().get(path).want(http.StatusOK))
		assert.Equal(t, allowed, slices.Contains(shown.Moves, action), shown)
		wantAllowed(c.env.admin().post(path+"/"+action, nil), allowed)
	}}
}

func wantAllowed(a answer, allowed bool) {
	a.t.Helper()
	if allowed {
		a.want(http.StatusOK)
	} else {
		a.problem(http.StatusConflict, "invalid_state")
	}
}

var attempts = []attempt{
	userAttempt("pay", domain.MovePay), userAttempt("cancel", domain.MoveCancel), userAttempt("refund", domain.MoveRefund),
	adminAttempt("cancel", domain.MoveCancel), adminAttempt("refund", domain.MoveRefund),
	{"redeem", domain.MoveRedeem, func(_ *testing.T, c client, p paidView, allowed bool) {
		wantAllowed(c.env.admin().post("/api/v1/admin/orders/"+p.Order.ID+"/redeem", nil), allowed)
	}},
	{"redeem by its code", domain.MoveRedeem, func(t *testing.T, c client, p paidView, allowed bool) {
		id, err := strconv.ParseInt(p.Order.ID, 10, 64)
		require.NoError(t, err)
		wantAllowed(c.env.admin().post("/api/v1/admin/redeem", map[string]any{"code": domain.NewRedeemCodes(keys).Of(id)}), allowed)
	}},
	{"closer", domain.MoveExpire, func(t *testing.T, c client, _ paidView, allowed bool) {
		assert.Equal(t, allowed, c.env.close() > 0)
	}},
	{"refunds that are due", domain.MoveRefunded, func(t *testing.T, c client, _ paidView, _ bool) {
		require.NoError(t, c.env.payments.RefundDue(t.Context()))
	}},
}

// TestEveryMove runs every attempt on an order in every status: it succeeds if the table of moves allows the move, and
// otherwise is refused and changes nothing.
func TestEveryMove(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		for status, reach := range reached {
			t.Run(status, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, db)
				v, c := e.sale(99), e.buyer(1)
				p := reach(t, c, v)
				e.overdue(p.Order) // changes no status until the closer runs
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
						if try.name == "pay" { // the request starts the payment; the provider makes the move
							want = was
						}
						assert.Equal(t, want, c.status(p.Order), try.name)
					}
				}
				e.checkInvariants()
			})
		}
		for _, m := range domain.Moves() {
			assert.True(t, slices.ContainsFunc(attempts, func(a attempt) bool { return a.move.Name == m.Name }), "no attempt to %s", m.Name)
		}
	})
}

func allows(move domain.Move, status string) bool {
	return slices.ContainsFunc(domain.Moves(), func(m domain.Move) bool { return m.Name == move.Name && m.From.String() == status })
}

// life returns the rows about the life of orders as text.
func (e *env) life() string {
	e.t.Helper()
	return e.dumpOf("voucher_orders", "payments", "seckill_vouchers", "stock_changes", "audit_log")
}

// TestEveryNotice sends every notice, of the order's payment and of one that was not begun here, for an order in every
// status. Money is never refused: it pays an order that is pending payment, with a payment that was begun here; otherwise
// it is returned and nothing else changes.
func TestEveryNotice(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		for status, reach := range reached {
			t.Run(status, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, db)
				v := e.sale(99)
				for i, end := range []string{"succeeded", "failed"} {
					for j, known := range []bool{true, false} {
						c := e.buyer(1 + 2*i + j)
						p := reach(t, c, v)
						of := p.Payment
						if !known {
							of = paymentView{Ref: fmt.Sprint("from-elsewhere-", end)}
						}
						e.notifyAndCheck(t, c, p, e.noticeOf(of, p.Order, end), known)
					}
				}
			})
		}
	})
}

// notifyAndCheck sends a notice and checks its effects.
func (e *env) notifyAndCheck(t *testing.T, c client, p paidView, n notice, known bool) {
	t.Helper()
	first, was, before := c.payments(p.Order)[0], c.status(p.Order), e.life()
	if !known && n["status"] == "failed" {
		e.notify(n).problem(http.StatusNotFound, "not_found")
		assert.Equal(t, before, e.life())
		return
	}
	got := decode[paymentView](e.notify(n).want(http.StatusOK)).Status
	want, order := n["status"], was
	switch {
	case known && first != "pending":
		want = first
		assert.Equal(t, before, e.life(), "a repeated notice changes nothing")
	case known && want == "succeeded" && allows(domain.MovePay, was):
		order = "paid"
	case want == "succeeded":
		want = "refunding"
		assert.Equal(t, strings.Count(before, "return_money")+1, strings.Count(e.life(), "return_money"))
	}
	assert.Equal(t, want, got)
	assert.Equal(t, order, c.status(p.Order))
	e.checkInvariants()
	if want == "refunding" {
		e.requireMoneyBack(t, c, p, order)
	}
}

// requireMoneyBack runs the refunds and checks that unmatched money is returned, and that the order keeps its status
// unless it is itself being refunded.
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
	e.checkInvariants()
}
