package handler_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

type shopView struct {
	ID, Name, Area, Address string
	TypeID                  string `json:"type_id"`
	OpenHours               string `json:"open_hours"`
	CreatedAt               string `json:"created_at"`
	UpdatedAt               string `json:"updated_at"`
}

// newShop creates a shop.
func (e *env) newShop(name string) shopView {
	e.t.Helper()
	return decode[shopView](e.admin().post("/api/v1/admin/shops", map[string]string{"name": name}).want(http.StatusCreated))
}

func TestShops(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	operator := e.staff("13900000002", domain.RoleOperator)
	a := operator.key("a shop").post("/api/v1/admin/shops", `{"name":"桂花茶餐厅","area":"大关","address":"金华路 29 号","open_hours":"10:00-22:00"}`)
	created := decode[shopView](a.want(http.StatusCreated))
	want := shopView{
		ID: "1", Name: "桂花茶餐厅", Area: "大关", Address: "金华路 29 号", TypeID: "1", OpenHours: "10:00-22:00",
		CreatedAt: "2026-11-11T12:00:00Z", UpdatedAt: "2026-11-11T12:00:00Z",
	}
	require.Equal(t, want, created)
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

	operator.patch("/api/v1/admin/shops/99", map[string]string{"name": "n"}).problem(http.StatusNotFound, "not_found")
	e.guest().get("/api/v1/shops/99").problem(http.StatusNotFound, "not_found")
	var log []string
	for _, entry := range decode[listView[struct{ Action, Detail string }]](operator.get("/api/v1/admin/audit").want(http.StatusOK)).Items {
		log = append(log, entry.Action+" "+entry.Detail)
	}
	require.Contains(t, log, `change_shop shop 1; address: "金华路 29 号" -> "新址 1 号"`)
	require.Contains(t, log, `create_shop shop 2; name: "" -> "second"; type_id: "0" -> "1"`)
}

// TestShopCreatedOnce: a request that is repeated under its key, even by another run, creates one shop.
func TestShopCreatedOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin := e.admin().key("once")
	first := admin.post("/api/v1/admin/shops", map[string]string{"name": "a"}).want(http.StatusCreated)
	e.exec("UPDATE idempotency_keys SET status = 0, locked_until = created_at") // as if the first run had died before its answer
	again := admin.post("/api/v1/admin/shops", map[string]string{"name": "a"}).want(http.StatusCreated)
	require.Equal(t, first.body, again.body)
	_, all := walk[shopView](e.guest(), "/api/v1/shops", 9)
	require.Len(t, all, 1)
}

func TestInvalidShop(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
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
