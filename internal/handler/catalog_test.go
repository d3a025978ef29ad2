package handler_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

type shopView struct {
	ID, Name, Area, Address string
	TypeID                  string `json:"type_id"`
	OpenHours               string `json:"open_hours"`
	CreatedAt               string `json:"created_at"`
	UpdatedAt               string `json:"updated_at"`
}

func (e *environment) newShop(name string) shopView {
	e.t.Helper()
	return decode[shopView](e.admin().post("/api/v1/admin/shops", map[string]string{"name": name}).want(http.StatusCreated))
}

func TestShops(t *testing.T) {
	e := start(t)
	operator := e.staff("13900000002", domain.RoleOperator)
	a := operator.key("a shop").post("/api/v1/admin/shops", `{"name":"桂花茶餐厅","area":"大关","address":"金华路 29 号","open_hours":"10:00-22:00"}`)
	want := shopView{
		ID: "1", Name: "桂花茶餐厅", Area: "大关", Address: "金华路 29 号", TypeID: "1", OpenHours: "10:00-22:00",
		CreatedAt: "2026-11-11T12:00:00Z", UpdatedAt: "2026-11-11T12:00:00Z",
	}
	require.Equal(t, want, decode[shopView](a.want(http.StatusCreated)))
	require.Equal(t, "/api/v1/shops/1", a.header.Get("Location"))
	require.Equal(t, want, decode[shopView](e.guest().get("/api/v1/shops/1").want(http.StatusOK)))

	e.clock.advance(time.Minute)
	want.Address, want.UpdatedAt = "新址 1 号", "2026-11-11T12:01:00Z"
	changed := operator.patch("/api/v1/admin/shops/1", map[string]string{"address": "新址 1 号"}).want(http.StatusOK)
	require.Equal(t, want, decode[shopView](changed))
	require.Equal(t, want, decode[shopView](e.guest().get("/api/v1/shops/1").want(http.StatusOK)), "a cached answer is dropped")
	require.Equal(t, "新址 1 号", e.page().get("/shop/1").object()["address"], "the pages of hm-dianping show it, too")

	second := e.newShop("second")
	sizes, all := walk[shopView](e.guest(), "/api/v1/shops", 1)
	require.Equal(t, []int{1, 1, 0}, sizes)
	require.Equal(t, []shopView{second, want}, all, "newest first")

	log := operator.audit("")
	require.Equal(t, auditEntry{Actor: "admin", Action: "create_shop", Detail: `shop 2; name: "" -> "second"; type_id: 0 -> 1`, ActorID: e.admin().login.User.ID}, log[0])
	require.Equal(t, `shop 1; address: "金华路 29 号" -> "新址 1 号"`, log[1].Detail)
}

func TestInvalidShop(t *testing.T) {
	e := start(t)
	admin := e.admin().bad()
	for body, fields := range map[string][]string{
		`{}`:          {"name"},
		`{"name":""}`: {"name"},
		`{"name":"n","area":"\u0000","open_hours":"` + strings.Repeat("x", 33) + `","type_id":"1001"}`: {"area", "open_hours", "type_id"},
		`{"name":"\u202Efdp.exe"}`:  {"name"},
		`{"name":"\u200B"}`:         {"name"},
		`{"name":"n","score":"50"}`: {"score"},
	} {
		assert.Equal(t, fields, admin.post("/api/v1/admin/shops", body).problem(http.StatusBadRequest, "invalid_request").fields(), body)
	}
}

const imagesPath = "/api/v1/admin/images"

var noImage = strings.Repeat("0", 64)

type imageView struct {
	ID, URL       string
	Width, Height int
}

// form returns a multipart body with the parts, each of which has a file name, and its content type.
func form(t testing.TB, files ...string) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i, file := range files {
		part := env.Must(w.CreateFormFile([]string{"image", "second"}[i], "picture.png"))(t)
		env.Must(part.Write([]byte(file)))(t)
	}
	require.NoError(t, w.Close())
	return b.String(), w.FormDataContentType()
}

func (c client) upload(file string) answer {
	c.t.Helper()
	body, kind := form(c.t, file)
	return c.with("Content-Type", kind).post(imagesPath, body)
}

func aPicture(t testing.TB, width int) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 20))))
	return b.String()
}

func TestPictureOfVoucher(t *testing.T) {
	e := start(t)
	operator := e.staff("13900000002", domain.RoleOperator)
	a := operator.upload(aPicture(t, 30)).want(http.StatusCreated)
	stored := decode[imageView](a)
	require.Equal(t, []any{"/api/v1/images/" + stored.ID, 30, 20}, []any{stored.URL, stored.Width, stored.Height})
	require.Equal(t, stored.URL, a.header.Get("Location"))
	require.Equal(t, stored, decode[imageView](operator.upload(aPicture(t, 30)).want(http.StatusCreated)), "the same upload is the same picture")

	for range 2 { // the second one from memory
		shown := e.guest().get(stored.URL).want(http.StatusOK)
		require.Equal(t, "image/jpeg", shown.header.Get("Content-Type"))
		size := env.Must(jpeg.DecodeConfig(bytes.NewReader(shown.body)))(t)
		require.Equal(t, 30, size.Width)
	}
	e.guest().bad().get("/api/v1/images/x").problem(http.StatusNotFound, "not_found")

	v := e.sale(1, func(b map[string]any) { b["image_id"] = stored.ID })
	shown := func(path string) string { return string(operator.get(path).want(http.StatusOK).body) }
	url := `"image_url":"` + stored.URL + `"`
	require.Contains(t, shown(v.path()), url)
	require.Contains(t, shown(vouchersPath), url)
	operator.patch(v.adminPath(), map[string]string{"title": "t"}).want(http.StatusOK)
	require.Contains(t, shown(v.path()), url, "a change of another field keeps the picture")
	require.Equal(t, []string{"image_id"}, operator.patch(v.adminPath(), map[string]string{"image_id": noImage}).problem(http.StatusBadRequest, "invalid_request").fields())
	operator.patch(v.adminPath(), map[string]string{"image_id": ""}).want(http.StatusOK)
	require.NotContains(t, shown(v.path()), "image_url")
	body := e.saleBody(1)
	body["image_id"] = noImage
	require.Equal(t, []string{"image_id"}, operator.post("/api/v1/admin/vouchers", body).problem(http.StatusBadRequest, "invalid_request").fields())
}

// TestHostileUploads: what is not one small picture is refused. Package picture has the files, and what remains of them.
func TestHostileUploads(t *testing.T) {
	env.Full(t)
	e := start(t)
	operator := e.staff("13900000002", domain.RoleOperator).bad()
	for _, file := range []string{"<!doctype html><script>alert(1)</script>", aPicture(t, 3) + strings.Repeat("x", 20<<20)} {
		require.Equal(t, []string{"image"}, operator.upload(file).problem(http.StatusBadRequest, "invalid_request").fields())
	}
	two, kind := form(t, aPicture(t, 3), "second")
	operator = operator.with("Content-Type", kind)
	for _, body := range []string{two, two[:len(two)/2], ""} {
		operator.post(imagesPath, body).problem(http.StatusBadRequest, "invalid_request")
	}
	operator.with("Content-Type", "application/json").post(imagesPath, "{}").problem(http.StatusBadRequest, "invalid_request")
	require.Empty(t, e.dumpOf("images"))
}

func (e *environment) draft(change ...func(map[string]any)) voucherView {
	e.t.Helper()
	return e.sale(5, append(change, func(b map[string]any) {
		b["status"] = "draft"
		delete(b, "force")
	})...)
}

func inPass(b map[string]any) { b["entry"] = map[string]any{"mode": "pass"} }

// Buyers and guests find a draft, or a sale that was taken off, in no list. Members of the staff do, and see a preview.
func TestUnpublishedIsNotListed(t *testing.T) {
	e := start(t)
	admin, buyer := e.admin(), e.buyer(1)
	shown, draft, off := e.sale(5), e.draft(), e.sale(5)
	require.Equal(t, "upcoming", draft.State)
	admin.patch(off.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	for _, c := range []client{e.guest(), buyer} {
		for _, query := range []string{"", "?status=on_sale", "?status=ended", "?status=on", "?shop_id=1", "?status=expired"} {
			for _, v := range decode[listView[voucherView]](c.get(vouchersPath + query).want(http.StatusOK)).Items {
				assert.Equal(t, shown.ID, v.ID, query)
			}
		}
	}
	require.Len(t, e.page().get("/voucher/list/1").list(), 1, "only the sale that is on")

	for status, v := range map[string]voucherView{"draft": draft, "off": off} {
		path := vouchersPath + "?status=" + status
		e.guest().get(path).problem(http.StatusUnauthorized, "unauthenticated")
		buyer.get(path).problem(http.StatusForbidden, "forbidden")
		require.Equal(t, []string{v.ID}, idsOf(decode[listView[voucherView]](admin.get(path).want(http.StatusOK)).Items))
		require.Equal(t, status, decode[voucherView](admin.get(v.path()).want(http.StatusOK)).Status)
	}
}

// TestUnpublishedIsLikeMissing: a buyer cannot tell a draft, or a sale that was taken off, from an id that does not exist.
// Ids are consecutive, so the answers would reveal how many sales are planned.
func TestUnpublishedIsLikeMissing(t *testing.T) {
	e := start(t)
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
		"entry":                 func(v voucherView) answer { return forged.get(v.path() + "/entry") },
		"events of the entry":   func(v voucherView) answer { return forged.get(v.path() + "/entry/events") },
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

// TestNewVoucherIsChecked: a voucher that is published at once is checked like a draft, unless that is forced. What is refused
// creates nothing. TestPublish has the checks.
func TestNewVoucherIsChecked(t *testing.T) {
	e := start(t)
	e.newShop("shop")
	admin, now := e.admin(), e.clock.now()
	right := e.saleBody(5)
	delete(right, "force")
	empty := maps.Clone(right)
	empty["stock"] = 0
	coupon := map[string]any{
		"shop_id": "1", "title": "t", "pay_value": 1, "actual_value": 2, "valid_until": now.Format(time.RFC3339),
	}
	for field, body := range map[string]map[string]any{"stock": empty, "valid_until": coupon} {
		require.Equal(t, []string{field}, admin.post("/api/v1/admin/vouchers", body).problem(http.StatusBadRequest, "invalid_request").fields())
	}
	require.Empty(t, decode[listView[voucherView]](admin.get("/api/v1/vouchers?status=on").want(http.StatusOK)).Items)

	admin.post("/api/v1/admin/vouchers", right).want(http.StatusCreated)
	empty["force"] = true
	admin.post("/api/v1/admin/vouchers", empty).want(http.StatusCreated)
}

// TestBrowse: each voucher is in one tab and in all, and what was just saved is there.
func TestBrowse(t *testing.T) {
	e := start(t)
	admin, now := e.admin(), e.clock.now()
	running, soldOut := e.sale(5, with("title", "Tea")), e.sale(0, with("title", "Green tea"))
	upcoming, ended := e.sale(5, with("title", "Soup"), with("begin_at", now.Add(time.Minute))), e.sale(5)
	admin.patch(ended.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	plain := e.normal()
	draft := e.draft(with("title", "Teapot"))

	type browseView struct {
		listView[voucherView]
		Counts   map[string]int
		Complete bool
	}
	browse := func(query string) browseView {
		return decode[browseView](admin.get("/api/v1/admin/vouchers?" + query).want(http.StatusOK))
	}
	for tab, want := range map[string][]string{
		"running": {soldOut.ID, running.ID}, "upcoming": {upcoming.ID}, "drafts": {draft.ID}, "ended": {ended.ID},
		"all": {draft.ID, plain.ID, ended.ID, upcoming.ID, soldOut.ID, running.ID},
	} {
		got := browse("tab=" + tab)
		require.Equal(t, want, idsOf(got.Items), tab)
		require.Equal(t, map[string]int{"running": 2, "upcoming": 1, "drafts": 1, "ended": 1, "all": 6}, got.Counts)
		require.True(t, got.Complete)
	}

	found := browse("tab=running&search=TEA")
	require.Equal(t, []string{soldOut.ID, running.ID}, idsOf(found.Items))
	require.Equal(t, map[string]int{"running": 2, "upcoming": 0, "drafts": 1, "ended": 0, "all": 3}, found.Counts)
	require.Equal(t, []string{upcoming.ID}, idsOf(browse("search="+upcoming.ID).Items))
	require.Equal(t, []string{upcoming.ID}, idsOf(browse("search="+url.QueryEscape("\u200e"+upcoming.ID+" \n")).Items), "pasted")
	first := browse("limit=4")
	require.Equal(t, []string{soldOut.ID, running.ID}, idsOf(browse("limit=4&cursor="+*first.NextCursor).Items))
}

// TestDraftNeedsATitleOnly: everything else can follow, and the checklist says what is missing by then.
func TestDraftNeedsATitleOnly(t *testing.T) {
	e := start(t)
	operator, now := e.staff("13900000002", domain.RoleOperator), e.clock.now().Format(time.RFC3339)
	post := func(body map[string]any) answer { return operator.bad().post("/api/v1/admin/vouchers", body) }
	lacks := func(v voucherView) []string {
		return operator.post(v.adminPath()+"/publish", nil).problem(http.StatusConflict, "invalid_state").fields()
	}
	sale := decode[voucherView](post(map[string]any{"status": "draft", "title": "An idea"}).want(http.StatusCreated))
	require.Equal(t, []string{"normal", "draft"}, []string{sale.Type, sale.Status})
	require.Equal(t, []string{"shop_id", "actual_value"}, lacks(sale))
	sale = decode[voucherView](operator.patch(sale.adminPath(), map[string]any{"limit_per_user": 2}).want(http.StatusOK))
	require.Equal(t, []string{"seckill", "draft"}, []string{sale.Type, sale.Status})
	require.Zero(t, *sale.Stock)
	require.Equal(t, []string{"shop_id", "actual_value", "end_at", "stock"}, lacks(sale))

	e.newShop("shop")
	operator.patch(sale.adminPath(), map[string]any{
		"shop_id": "1", "pay_value": 100, "actual_value": 200, "begin_at": now, "end_at": e.clock.now().Add(time.Hour).Format(time.RFC3339), "segments": 4,
	}).want(http.StatusOK)
	require.Equal(t, []string{"stock"}, lacks(sale))
	operator.post(sale.adminPath()+"/stock", map[string]any{"delta": 3, "reason": "the first ones"}).want(http.StatusOK)
	operator.post(sale.adminPath()+"/publish", nil).want(http.StatusOK)

	for _, tc := range []struct {
		body   map[string]any
		fields []string
	}{
		{map[string]any{"status": "draft", "pay_value": 1}, []string{"title"}},
		{map[string]any{"status": "draft", "title": "half a window", "begin_at": now}, []string{"end_at"}},
		{map[string]any{"title": "no draft"}, []string{"shop_id", "pay_value", "actual_value"}},
	} {
		require.Equal(t, tc.fields, post(tc.body).problem(http.StatusBadRequest, "invalid_request").fields())
	}
}

// TestDeleteDraft: only a draft without orders is deleted, with all of its rows. Its id is not used again.
func TestDeleteDraft(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		operator := e.staff("13900000002", domain.RoleOperator)
		remove := func(v voucherView) answer { return operator.do("DELETE", v.adminPath(), nil) }
		sold := e.sale(5)
		e.buyer(1).place(sold)
		draft := e.draft()
		operator.post(draft.adminPath()+"/stock", map[string]any{"delta": 2, "reason": "more"}).want(http.StatusOK)
		operator.get(draft.path()).want(http.StatusOK) // in memory now
		require.Empty(t, remove(draft).want(http.StatusNoContent).body)

		operator.get(draft.path()).problem(http.StatusNotFound, "not_found")
		require.Empty(t, decode[listView[voucherView]](operator.get(vouchersPath+"?status=draft").want(http.StatusOK)).Items)
		require.NotContains(t, e.dumpOf("vouchers", "seckill_vouchers", "stock_changes"), "["+draft.ID+" ")
		require.NotContains(t, e.dumpOf("stock_changes"), "more")
		require.Equal(t, auditEntry{"admin", "delete_voucher", draft.Title, operator.login.User.ID, draft.ID}, operator.audit("voucher_id=" + draft.ID)[0])
		remove(draft).problem(http.StatusNotFound, "not_found")
		require.Greater(t, mustID(t, e.sale(5).ID), mustID(t, draft.ID))

		remove(e.sale(5)).problem(http.StatusConflict, "invalid_state")
		e.exec("UPDATE vouchers SET status = ? WHERE id = ?", domain.VoucherDraft, mustID(t, sold.ID))
		remove(sold).problem(http.StatusConflict, "invalid_state")
	})
}

// TestPublish follows a draft until it can be bought. Every answer from memory changes with its publication.
func TestPublish(t *testing.T) {
	e := start(t)
	operator, buyer := e.staff("13900000002", domain.RoleOperator), e.buyer(1)
	now := e.clock.now()
	type checklist struct {
		Problems, Warnings []struct{ Field string }
	}
	list := func(v voucherView) checklist {
		return decode[checklist](operator.get(v.adminPath() + "/checklist").want(http.StatusOK))
	}
	bad := e.draft(func(b map[string]any) {
		b["shop_id"], b["pay_value"], b["stock"], b["currency"] = "7", 20000, 0, "XXX"
		b["begin_at"], b["end_at"] = now.Add(-2*time.Hour).Format(time.RFC3339), now.Add(-time.Hour).Format(time.RFC3339)
	})
	p := operator.post(bad.adminPath()+"/publish", nil).problem(http.StatusConflict, "invalid_state")
	require.Equal(t, []string{"shop_id", "pay_value", "currency", "end_at", "stock"}, p.fields())
	require.Len(t, list(bad).Problems, 5)
	require.Equal(t, []string{"status"}, operator.patch(bad.adminPath(), map[string]string{"status": "on"}).problem(http.StatusBadRequest, "invalid_request").fields())

	draft := e.draft(with("limit_per_user", 3))
	e.newShop("shop")
	listed := `"id":"` + draft.ID + `"`
	e.guest().get(draft.path()).problem(http.StatusNotFound, "not_found") // in memory now
	require.NotContains(t, string(e.guest().get(vouchersPath).want(http.StatusOK).body), listed)
	operator.patch(draft.adminPath(), map[string]any{"limit_per_user": 1}).want(http.StatusOK) // there are no orders yet
	before := list(draft)
	require.Empty(t, before.Problems)
	require.Len(t, before.Warnings, 2, "no picture, and it begins at once")
	published := decode[voucherView](operator.key("publish").post(draft.adminPath()+"/publish", nil).want(http.StatusOK))
	require.Equal(t, "on", published.Status)
	require.Equal(t, "on_sale", decode[voucherView](e.guest().get(draft.path()).want(http.StatusOK)).State)
	require.Contains(t, string(e.guest().get(vouchersPath).want(http.StatusOK).body), listed)
	require.Len(t, e.page().get("/voucher/list/1").list(), 1)
	buyer.place(published)

	again := decode[voucherView](operator.post(draft.adminPath()+"/publish", nil).want(http.StatusOK))
	require.Equal(t, published.UpdatedAt, again.UpdatedAt, "publishing again changes nothing")
	operator.patch(draft.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	operator.post(draft.adminPath()+"/publish", nil).problem(http.StatusConflict, "invalid_state")
	require.Equal(t, before, list(draft), "the same as before it was published")
	require.Contains(t, operator.audit("voucher_id=" + draft.ID)[1].Detail, "status: draft -> on")
}
