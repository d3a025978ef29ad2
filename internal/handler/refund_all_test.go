package handler_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestRefundAllOrders: all paid orders of a sale that was taken off are refunded once, and no others.
func TestRefundAllOrders(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db)
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
		status := func(id string) string {
			return decode[orderView](operator.get("/api/v1/admin/orders/" + id).want(http.StatusOK)).Status
		}
		for _, o := range orders {
			require.Contains(t, []string{"refunding", "refunded"}, status(o.ID))
		}
		require.Equal(t, "pending_payment", status(unpaid.ID))
		require.Equal(t, "paid", status(elsewhere.ID))
		operator.post("/api/v1/admin/vouchers/99/refunds", nil).problem(http.StatusNotFound, "not_found")
		e.checkInvariants()
	})
}

// TestUsedCodeSaysWhen: a code that was redeemed before names its order and the time.
func TestUsedCodeSaysWhen(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	buyer, counter := e.buyer(1), e.staff("13900000004", domain.RoleRedeemer)
	o := decode[orderView](buyer.get(buyer.paid(e.sale(1)).Order.path()).want(http.StatusOK))
	code := map[string]string{"code": o.RedeemCode}
	counter.post("/api/v1/admin/redeem", code).want(http.StatusOK)
	e.clock.advance(10 * time.Minute)
	for _, a := range []answer{counter.post("/api/v1/admin/redeem", code), e.admin().post("/api/v1/admin/orders/"+o.ID+"/redeem", nil)} {
		p := a.problem(http.StatusConflict, "invalid_state")
		require.Equal(t, o.ID, p.OrderID)
		require.Equal(t, "order "+o.ID+" was redeemed at 2026-11-11T12:00:00Z", p.Detail)
		require.Equal(t, "2026-11-11T12:00:00Z", decode[struct {
			RedeemedAt string `json:"redeemed_at"`
		}](a).RedeemedAt)
	}
}
