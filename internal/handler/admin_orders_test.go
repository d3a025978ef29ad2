package handler_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/idgen"
)

type adminOrderView struct {
	orderView

	Phone    string
	Moves    []string
	Reason   string
	Payments []paymentView
}

func (c client) find(query string) (ids []string) {
	c.t.Helper()
	_, orders := walk[adminOrderView](c, "/api/v1/admin/orders"+query, 2)
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids
}

// TestAdminSearchesOrders searches by each filter, and by combinations of filters, also by what buyers tell: the end of the phone number,
// the title, the day, the payment.
func TestAdminSearchesOrders(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db, func(s *setup) {
			s.ids = newIDs()
			s.ids.last.Store(idgen.First(newClock().now()))
		})
		start := e.clock.now()
		coffee, tea := e.sale(9, with("title", "50% off Coffee_100!")), e.sale(9, with("title", "Tea"))
		ann, bob := e.buyer(1), e.buyer(10001) // 13800000001, 13800010001
		a, b, gone := ann.place(coffee), bob.place(tea), bob.place(coffee)
		bob.post(gone.path()+"/cancel", nil).want(http.StatusOK)
		e.clock.advance(20 * time.Second)
		c := e.buyer(2).paid(coffee).Order
		admin := e.admin()
		payment := decode[adminOrderView](admin.get("/api/v1/admin/orders/" + c.ID).want(http.StatusOK)).Payments[0].Ref
		later := "=" + start.Add(10*time.Second).Format(time.RFC3339)

		for query, want := range map[string][]string{
			"":                        {c.ID, gone.ID, b.ID, a.ID},
			"id=" + b.ID:              {b.ID},
			"voucher_id=" + coffee.ID: {c.ID, gone.ID, a.ID},
			"voucher_id=" + coffee.ID + "&status=paid":   {c.ID},
			"user_id=" + bob.login.User.ID:               {gone.ID, b.ID},
			"phone=" + url.QueryEscape("+8613800010001"): {gone.ID, b.ID},
			"phone=13800010001&status=cancelled":         {gone.ID},
			"phone=13800010001&id=" + a.ID:               nil,
			"phone=10000000001":                          nil,
			"status=pending_payment":                     {b.ID, a.ID},
			"phone_end=0001&title=coffee":                {gone.ID, a.ID},
			"phone_end=0001&phone=13800010001":           {gone.ID, b.ID},
			"title=COFFEE":                               {c.ID, gone.ID, a.ID},
			"title=%25":                                  {c.ID, gone.ID, a.ID}, // literally
			"title=!":                                    {c.ID, gone.ID, a.ID},
			"payment_ref=" + url.QueryEscape("\u200e "+payment[:3]+"\u200b"+payment[3:]+"\r\n"): {c.ID}, // as copied from a page of the bank
			"payment_ref=" + payment + "&id=" + a.ID:                                            nil,
			"created_from" + later:                                                              {c.ID},
			"created_to" + later + "&status=pending_payment":                                    {b.ID, a.ID},
			"created_from=2003-01-01T00:00:00%2B08:00&created_to" + later:                       {gone.ID, b.ID, a.ID},
		} {
			assert.Equal(t, want, admin.find("?"+query), query)
		}
		e.exec("UPDATE users SET deleted_at = created_at WHERE phone = '13800010001'") // an erased user has no phone number
		viewer := e.staff("13900000007", domain.RoleViewer)
		assert.Equal(t, []string{a.ID}, viewer.find("?phone_end=0001"), "masked numbers show these digits, too")
		viewer.get("/api/v1/admin/orders?phone=13800000001").problem(http.StatusForbidden, "forbidden")
		for _, query := range []string{
			"id=x", "voucher_id=0", "user_id=-1", "phone=12", "status=lost", "limit=0", "cursor=77&status=paid",
			"phone_end=12", "phone_end=abcd", "phone_end=12345", "created_from=yesterday", "created_to=1999-01-01T00:00:00Z", "created_from=2026-11-11",
			"title=" + strings.Repeat("x", 256), "title=%FF", "payment_ref=" + strings.Repeat("x", 256),
		} {
			p := admin.bad().get("/api/v1/admin/orders?"+query).problem(http.StatusBadRequest, "invalid_request")
			require.Len(t, p.Errors, 1, query)
			assert.True(t, strings.HasPrefix(query, p.Errors[0].Field+"="), query)
		}
	})
}

// TestSearchesAreBounded: a search that would turn into too many users or vouchers is refused.
func TestSearchesAreBounded(t *testing.T) {
	e := start(t)
	admin := e.admin()
	users := make([]string, 1001)
	for i := range users {
		users[i] = fmt.Sprintf("('+49%06d7777', '', '2026-11-11', '2026-11-11')", i)
	}
	e.exec("INSERT INTO users (phone, nick_name, created_at, updated_at) VALUES " + strings.Join(users, ", "))
	vouchers := slices.Repeat([]string{"(1, 'Breakfast', 1, 1, 0, 1, '2026-11-11', '2026-11-11')"}, 51)
	e.exec("INSERT INTO vouchers (shop_id, title, pay_value, actual_value, type, status, created_at, updated_at) VALUES " + strings.Join(vouchers, ", "))
	for _, query := range []string{"phone_end=7777", "title=breakfast"} {
		p := admin.get("/api/v1/admin/orders?"+query).problem(http.StatusBadRequest, "invalid_request")
		assert.True(t, strings.HasPrefix(query, p.Errors[0].Field+"="), query)
	}
}

// TestRedeemerOfShops: a redeemer who is bound to shops handles the codes of these only, as the vouchers were bought, and reads which
// shop another code is of. A refusal changes nothing.
func TestRedeemerOfShops(t *testing.T) {
	e := start(t)
	tea, noodles := e.newShop("Tea"), e.newShop("Noodles")
	codes := map[string]map[string]any{}
	for n, shop := range []shopView{tea, noodles} {
		v := e.sale(1, func(b map[string]any) { b["shop_id"] = shop.ID })
		buyer := e.buyer(n)
		o := decode[orderView](buyer.get(buyer.paid(v).Order.path()).want(http.StatusOK))
		codes[shop.ID] = map[string]any{"code": o.RedeemCode}
		e.admin().patch(v.adminPath(), map[string]any{"shop_id": tea.ID}).want(http.StatusOK)
	}

	cashier := e.staff("13900000004", domain.RoleRedeemer, mustID(t, tea.ID))
	require.Contains(t, string(cashier.get("/api/v1/me").want(http.StatusOK).body), `"shop_ids":["`+tea.ID+`"]`)
	const redeem = "/api/v1/admin/redeem"
	undo := func(c client, shop shopView) answer {
		return c.post(redeem+"/undo", map[string]any{"code": codes[shop.ID]["code"], "reason": "x"})
	}

	before := e.dump()
	for _, path := range []string{redeem + "/preview", redeem} {
		a := cashier.post(path, codes[noodles.ID])
		require.Equal(t, "this is a voucher of another shop: Noodles", a.problem(http.StatusForbidden, "forbidden").Detail)
		require.Contains(t, string(a.body), `"shop_name":"Noodles"`)
	}
	require.Equal(t, before, e.dump())
	cashier.post(redeem+"/preview", codes[tea.ID]).want(http.StatusOK)
	cashier.post(redeem, codes[tea.ID]).want(http.StatusOK)
	undo(cashier, tea).want(http.StatusOK)

	anywhere := e.staff("13900000005", domain.RoleRedeemer)
	anywhere.post(redeem, codes[noodles.ID]).want(http.StatusOK)
	undo(cashier, noodles).problem(http.StatusForbidden, "forbidden")
	undo(anywhere, noodles).want(http.StatusOK)
}

// TestShopsOfRoles: only a redeemer is bound to shops, which exist.
func TestShopsOfRoles(t *testing.T) {
	e := start(t)
	shop := mustID(t, e.newShop("Tea").ID)
	for role, shops := range map[domain.Role]domain.ShopIDs{
		domain.RoleOperator: {shop}, domain.RoleRedeemer: {shop, 999}, "": make(domain.ShopIDs, 51),
	} {
		_, _, err := e.admins.Enroll(t.Context(), "13900000004", role, shops)
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid, role)
		require.Equal(t, "shops", invalid.Fields[0].Field)
	}
	require.NotContains(t, e.dumpOf("users"), "13900000004")
}

// TestRedeemPreview: a code shows what it stands for, before and after it is redeemed. The preview changes nothing, and is
// recorded.
func TestRedeemPreview(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(2), e.buyer(1)
	o := decode[orderView](buyer.get(buyer.paid(v).Order.path()).want(http.StatusOK))
	counter := e.staff("13900000004", domain.RoleRedeemer)
	code := map[string]string{"code": strings.ToLower(o.RedeemCode)}
	type preview struct {
		Order      adminOrderView
		Voucher    struct{ ID, Title string }
		RedeemedBy map[string]string `json:"redeemed_by"`
	}
	const path = "/api/v1/admin/redeem/preview"
	look := func() preview { return decode[preview](counter.post(path, code).want(http.StatusOK)) }

	before := e.dump()
	p := look()
	require.Equal(t, before, e.dump())
	require.Equal(t, []string{o.ID, "paid", "138****0001", ""}, []string{p.Order.ID, p.Order.Status, p.Order.Phone, p.Order.RedeemCode})
	require.Equal(t, []string{v.ID, "100 for 80"}, []string{p.Voucher.ID, p.Voucher.Title})
	require.Nil(t, p.RedeemedBy)

	counter.post("/api/v1/admin/redeem", code).want(http.StatusOK)
	p = look()
	require.Equal(t, "redeemed", p.Order.Status)
	require.NotEmpty(t, p.Order.RedeemedAt)
	require.Equal(t, map[string]string{"user_id": counter.login.User.ID, "phone": "139****0004"}, p.RedeemedBy)

	log := string(e.admin().get("/api/v1/admin/audit?kind=request&actor_id=" + counter.login.User.ID).want(http.StatusOK).body)
	require.Equal(t, 2, strings.Count(log, path))
	require.NotContains(t, strings.ToUpper(log), o.RedeemCode)
}

// TestQueuedOrdersAreFoundByUserOnly: Redis stores the tickets by user.
func TestQueuedOrdersAreFoundByUserOnly(t *testing.T) {
	q := startQueue(t)
	v, c := q.sale(9), q.buyer(1)
	failed := c.queue(v)
	q.deadLetter("broken")
	queued := c.queue(v)
	admin, byUser := q.admin(), "?user_id="+c.login.User.ID
	require.Equal(t, []string{queued, failed}, admin.find(byUser))
	require.Equal(t, []string{queued, failed}, admin.find("?phone=13800000001&voucher_id="+v.ID))
	require.Equal(t, []string{queued}, admin.find(byUser+"&status=queued"))
	require.Equal(t, []string{failed}, admin.find(byUser+"&status=failed&id="+failed))
	require.Empty(t, admin.find(byUser+"&voucher_id=77"))
	require.Empty(t, admin.find("?status=queued"))
	o := decode[adminOrderView](admin.get("/api/v1/admin/orders/" + failed + byUser).want(http.StatusOK))
	require.Equal(t, "failed", o.Status)
	require.Equal(t, "internal", o.Reason)
	require.Equal(t, "138****0001", o.Phone)
	require.Equal(t, []string{}, o.Moves)
	require.JSONEq(t, `{"phone":"13800000001"}`, string(admin.get("/api/v1/admin/orders/"+failed+"/phone"+byUser).want(http.StatusOK).body))
	admin.get("/api/v1/admin/orders/"+queued).problem(http.StatusNotFound, "not_found")
	q.work()
	require.Equal(t, []string{queued, failed}, admin.find(byUser))
	require.Equal(t, "pending_payment", decode[adminOrderView](admin.get("/api/v1/admin/orders/"+queued).want(http.StatusOK)).Status)
}
