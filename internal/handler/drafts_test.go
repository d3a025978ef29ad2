package handler_test

import (
	"net/http"
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
	eachDatabase(t, func(t *testing.T, db database) {
		e := newEnv(t, db)
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
		page := e.page("")
		require.Len(t, page.get("/voucher/list/1").list(), 1, "only the sale that is on")
		e.pageOf("13800000002").post("/voucher-order/seckill/"+draft.ID, nil).fails("优惠券不存在")
		require.EqualValues(t, 5, e.stock(draft.ID))

		l := decode[listView[voucherView]](admin.get(vouchersPath + "?status=draft").want(http.StatusOK))
		require.Equal(t, []string{pass.ID, draft.ID}, idsOf(l.Items))
		require.Equal(t, "draft", decode[voucherView](admin.get(draft.path()).want(http.StatusOK)).Status, "a preview")
	})
}

// TestPublish follows a draft until it can be bought. Every answer from memory changes with its publication.
func TestPublish(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		e := newEnv(t, db)
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
		require.Len(t, e.page("").get("/voucher/list/1").list(), 1)
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
	})
}
