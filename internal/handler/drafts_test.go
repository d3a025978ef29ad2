package handler_test

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// draft creates the draft of a running sale.
func (e *env) draft(change ...func(map[string]any)) voucherView {
	e.t.Helper()
	return e.sale(5, append(change, func(b map[string]any) { b["status"] = "draft" })...)
}

func inPass(b map[string]any) { b["entry"] = map[string]any{"mode": "pass"} }

// TestDraftIsInvisible: buyers and guests find a draft on no route, in no list, and cannot order it, even if they guess
// its id.
func TestDraftIsInvisible(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, buyer := e.admin(), e.buyer(1)
	_, draft, pass := e.sale(5), e.draft(), e.draft(inPass)
	require.Equal(t, "draft", draft.Status)
	require.Equal(t, "ended", draft.State)

	for _, c := range []client{e.guest(), buyer} {
		c.get(draft.path()).problem(http.StatusNotFound, "not_found")
		for _, query := range []string{"", "?status=on_sale", "?status=ended", "?status=on", "?shop_id=1", "?status=expired"} {
			l := decode[listView[voucherView]](c.get(vouchersPath + query).want(http.StatusOK))
			assert.NotContains(t, idsOf(l.Items), draft.ID, query)
		}
	}
	e.guest().get(vouchersPath+"?status=draft").problem(http.StatusUnauthorized, "unauthenticated")
	buyer.get(vouchersPath+"?status=draft").problem(http.StatusForbidden, "forbidden")
	buyer.post(draft.orders(), nil).problem(http.StatusNotFound, "not_found")
	buyer.post(pass.path()+"/entry", "{}").problem(http.StatusNotFound, "not_found")
	page := e.page()
	require.Len(t, page.get("/voucher/list/1").list(), 1, "only the sale that is on")
	e.pageOf("13800000002").post("/voucher-order/seckill/"+draft.ID, nil).fails("优惠券不存在")
	require.EqualValues(t, 5, e.stock(draft.ID))

	l := decode[listView[voucherView]](admin.get(vouchersPath + "?status=draft").want(http.StatusOK))
	require.Equal(t, []string{pass.ID, draft.ID}, idsOf(l.Items))
	require.Equal(t, "draft", decode[voucherView](admin.get(draft.path()).want(http.StatusOK)).Status, "a preview")
}

// TestUnpublishedIsLikeMissing: a buyer cannot tell a draft, or a sale that was taken off, from an id that does not exist.
// Ids are consecutive, so the answers would reveal how many sales are planned.
func TestUnpublishedIsLikeMissing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	room := func(b map[string]any) { b["entry"] = map[string]any{"mode": "room", "challenge": "on"} }
	off := func(change ...func(map[string]any)) voucherView {
		v := e.sale(5, change...)
		e.admin().patch(v.adminPath(), map[string]any{"status": "off"}).want(http.StatusOK)
		e.admin().get(v.path()).want(http.StatusOK) // purchases see the change
		return v
	}
	hidden := map[string]voucherView{
		"a draft": e.draft(), "a draft with passes": e.draft(inPass), "a draft with a room": e.draft(room),
		"off": off(), "off with passes": off(inPass), "off with a room": off(room),
	}
	missing := voucherView{ID: "999999"}
	buyer, page := e.buyer(1).bad(), e.pageOf("13800000002")
	forged := buyer.with("X-Entry-Pass", "forged").with("X-Entry-Ticket", "forged")
	for name, send := range map[string]func(v voucherView) answer{
		"show":                  func(v voucherView) answer { return buyer.get(v.path()) },
		"show a guest":          func(v voucherView) answer { return e.guest().bad().get(v.path()) },
		"show unless unchanged": func(v voucherView) answer { return buyer.with("If-None-Match", "*").get(v.path()) },
		"order":                 func(v voucherView) answer { return buyer.post(v.orders(), nil) },
		"order with a pass":     func(v voucherView) answer { return forged.post(v.orders(), nil) },
		"order with a key":      func(v voucherView) answer { return buyer.with("Idempotency-Key", "key of "+v.ID).post(v.orders(), nil) },
		"order and wait":        func(v voucherView) answer { return buyer.with("Prefer", "wait=1").post(v.orders(), nil) },
		"enter":                 func(v voucherView) answer { return buyer.post(v.path()+"/entry", nil) },
		"enter with a solution": func(v voucherView) answer { return buyer.post(v.path()+"/entry", map[string]any{"solution": "forged"}) },
		"leave":                 func(v voucherView) answer { return forged.do(http.MethodDelete, v.path()+"/entry", nil) },
		"hm-dianping":           func(v voucherView) answer { return page.post("/voucher-order/seckill/"+v.ID, nil).answer },
	} {
		without := func(a answer) string {
			return regexp.MustCompile(`"request_id":"[A-Z2-7]+"`).ReplaceAllString(string(a.body), "")
		}
		want := send(missing)
		assert.GreaterOrEqual(t, len(want.body), 2, name)
		for what, v := range hidden {
			got := send(v)
			assert.Equal(t, want.status, got.status, "%s: %s", name, what)
			assert.Equal(t, without(want), without(got), "%s: %s", name, what)
		}
	}
}

// TestPublish follows a draft until it can be bought. Every answer from memory changes with its publication.
func TestPublish(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	operator, buyer := e.staff("13900000002", domain.RoleOperator), e.buyer(1)
	now := e.clock.now()
	draft := e.draft(func(b map[string]any) {
		b["shop_id"], b["pay_value"], b["stock"], b["currency"] = "7", 20000, 0, "XXX"
		b["begin_at"], b["end_at"] = now.Add(-2*time.Hour).Format(time.RFC3339), now.Add(-time.Hour).Format(time.RFC3339)
	})
	type checklist struct {
		Problems, Warnings []struct{ Field string }
	}
	want := []string{"shop_id", "pay_value", "currency", "end_at", "stock"}
	p := operator.post(draft.adminPath()+"/publish", nil).problem(http.StatusConflict, "invalid_state")
	require.Equal(t, want, p.fields())
	var listed []string
	for _, f := range decode[checklist](operator.get(draft.adminPath() + "/checklist").want(http.StatusOK)).Problems {
		listed = append(listed, f.Field)
	}
	require.Equal(t, want, listed)
	require.Equal(t, []string{"status"}, operator.patch(draft.adminPath(), map[string]string{"status": "on"}).problem(http.StatusBadRequest, "invalid_request").fields())
	buyer.get(draft.path()).problem(http.StatusNotFound, "not_found")

	draft = e.draft(func(b map[string]any) { b["limit_per_user"] = 3 })
	e.newShop("shop")
	e.guest().get(draft.path()).problem(http.StatusNotFound, "not_found") // in memory now
	require.NotContains(t, string(e.guest().get(vouchersPath).want(http.StatusOK).body), `"id":"`+draft.ID+`"`)
	operator.patch(draft.adminPath(), map[string]any{"limit_per_user": 1}).want(http.StatusOK) // there are no orders yet
	list := decode[checklist](operator.get(draft.adminPath() + "/checklist").want(http.StatusOK))
	require.Empty(t, list.Problems)
	require.Len(t, list.Warnings, 2, "no picture, and it begins at once")
	published := decode[voucherView](operator.key("publish").post(draft.adminPath()+"/publish", nil).want(http.StatusOK))
	require.Equal(t, "on", published.Status)
	require.Equal(t, "on_sale", decode[voucherView](e.guest().get(draft.path()).want(http.StatusOK)).State)
	require.Contains(t, string(e.guest().get(vouchersPath).want(http.StatusOK).body), `"id":"`+draft.ID+`"`)
	require.Len(t, e.page().get("/voucher/list/1").list(), 1)
	buyer.place(published)

	again := decode[voucherView](operator.post(draft.adminPath()+"/publish", nil).want(http.StatusOK))
	require.Equal(t, published.UpdatedAt, again.UpdatedAt, "publishing again changes nothing")
	operator.patch(draft.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	operator.post(draft.adminPath()+"/publish", nil).problem(http.StatusConflict, "invalid_state")
	off := decode[checklist](operator.get(draft.adminPath() + "/checklist").want(http.StatusOK))
	require.Equal(t, list, off, "the same as before it was published")
	operator.post("/api/v1/admin/vouchers/99/publish", nil).problem(http.StatusNotFound, "not_found")
	log := decode[listView[struct{ Detail string }]](operator.get("/api/v1/admin/audit?voucher_id=" + draft.ID).want(http.StatusOK)).Items
	require.Contains(t, log[1].Detail, "status: draft -> on")
}
