package handler_test

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

const vouchersPath = "/api/v1/vouchers"

// withoutClock returns the body without server_time, the only field that differs between two reads.
func withoutClock(a answer) map[string]any {
	a.t.Helper()
	m := decode[map[string]any](a)
	delete(m, "server_time")
	return m
}

// TestCreateVoucher has one voucher of each kind, with the longest texts and the earliest times that are stored.
func TestCreateVoucher(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		admin := e.admin()
		title, rules := strings.Repeat("😀", 248)+"\n\"'\\ <b", strings.Repeat("é", 1024) // in characters, not bytes
		for _, tc := range []struct {
			body string
			want map[string]any // a part of the answer
		}{
			{
				fmt.Sprintf(`{"force":true,"shop_id":9007199254740993,"title":%q,"rules":%q,"pay_value":0,"actual_value":100000000000}`, title, rules),
				map[string]any{
					"shop_id": "9007199254740993", "title": title, "sub_title": "", "rules": rules, "pay_value": 0.0, "actual_value": 1e11,
					"type": "normal", "status": "on", "state": "on_sale",
				},
			},
			{
				`{"force":true,"shop_id":"7","title":"t","pay_value":1,"actual_value":2,"stock":5,` +
					`"begin_at":"2026-11-11T21:00:00+08:00","end_at":"2026-11-11T13:00:00.001Z"}`,
				map[string]any{
					"type": "seckill", "state": "upcoming", "stock": 5.0, "initial_stock": 5.0, "limit_per_user": 1.0,
					"begin_at": "2026-11-11T13:00:00Z", "end_at": "2026-11-11T13:00:00.001Z",
				},
			},
			{ // below 10^12 milliseconds, which a driver could take for seconds
				`{"force":true,"shop_id":"7","title":"t","pay_value":1,"actual_value":2,"stock":1000000000,"limit_per_user":100,` +
					`"begin_at":"2002-01-01T00:00:00Z","end_at":"9998-12-31T23:59:59Z"}`,
				map[string]any{"state": "on_sale", "limit_per_user": 100.0},
			},
		} {
			a := admin.post("/api/v1/admin/vouchers", tc.body).want(http.StatusCreated)
			created := withoutClock(a)
			for field, want := range tc.want {
				assert.Equal(t, want, created[field], field)
			}
			at := a.header.Get("Location")
			assert.Equal(t, vouchersPath+"/"+created["id"].(string), at)
			assert.Equal(t, created, withoutClock(admin.get(at).want(http.StatusOK)), "the answer is the stored voucher")
		}
	})
}

// TestListVouchers has one voucher for every state. Buyers and guests find a draft, or a sale that was taken off, in no list.
// The filters are those of TestListVouchers in package repo, in memory and in SQL.
func TestListVouchers(t *testing.T) {
	e := start(t)
	admin, now := e.admin(), e.clock.now()
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	ids := map[string]string{
		"running":  e.sale(1, with("shop_id", "2")).ID,
		"upcoming": e.sale(1, with("begin_at", at(time.Minute))).ID,
		"over":     e.sale(1, with("end_at", at(-time.Minute))).ID,
		"sold out": e.sale(0).ID,
		"draft":    e.draft().ID,
	}
	for _, status := range []string{"expired", "off"} {
		v := e.sale(1)
		admin.patch(v.adminPath(), map[string]string{"status": status}).want(http.StatusOK)
		ids[status] = v.ID
	}
	ids["normal"] = e.normal().ID
	first := decode[listView[voucherView]](e.guest().get(vouchersPath + "?limit=4").want(http.StatusOK))

	for query, names := range map[string][]string{
		"":                             {"normal", "sold out", "over", "upcoming", "running"}, // newest first
		"?status=on":                   {"normal", "sold out", "over", "upcoming", "running"},
		"?status=expired":              {"expired"},
		"?status=current":              {"normal", "sold out", "upcoming", "running"},
		"?status=upcoming":             {"upcoming"},
		"?status=on_sale":              {"normal", "running"},
		"?status=sold_out":             {"sold out"},
		"?status=ended":                {"expired", "over"},
		"?shop_id=2":                   {"running"},
		"?shop_id=2&status=ended":      {},
		"?cursor=" + *first.NextCursor: {"running"},
		"?status=draft":                {"draft"},
		"?status=off":                  {"off"},
	} {
		want := make([]string, len(names))
		for i, n := range names {
			want[i] = ids[n]
		}
		reader := e.guest()
		if query == "?status=draft" || query == "?status=off" {
			reader.get(vouchersPath+query).problem(http.StatusUnauthorized, "unauthenticated")
			e.buyer(1).get(vouchersPath+query).problem(http.StatusForbidden, "forbidden")
			reader = admin
		}
		l := decode[listView[voucherView]](reader.get(vouchersPath + query).want(http.StatusOK))
		assert.Nil(t, l.NextCursor)
		assert.Equal(t, want, idsOf(l.Items), query)
		if state := strings.TrimPrefix(query, "?status="); state == "on_sale" || state == "ended" {
			for _, v := range l.Items { // the filter and the field are computed in two places
				assert.Equal(t, state, v.State, v.ID)
			}
		}
	}
}

func idsOf(vouchers []voucherView) []string {
	ids := make([]string, len(vouchers))
	for i, v := range vouchers {
		ids[i] = v.ID
	}
	return ids
}

func TestPatchVoucher(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, admin := e.sale(5, with("pay_timeout", 90), with("unpaid_limit", 3)), e.admin()
		before := withoutClock(e.guest().get(v.path()).want(http.StatusOK))
		for _, step := range []struct {
			patch string
			want  map[string]any // fields that change
		}{
			{`{"title":"new","sub_title":"s","rules":"r"}`, map[string]any{"title": "new", "sub_title": "s", "rules": "r"}},
			{`{"pay_value":1,"actual_value":2,"shop_id":"9"}`, map[string]any{"pay_value": 1.0, "actual_value": 2.0, "shop_id": "9"}},
			{`{"end_at":"2026-11-12T00:00:00+08:00"}`, map[string]any{"end_at": "2026-11-11T16:00:00Z"}},
			{`{"begin_at":"2026-11-11T15:00:00Z"}`, map[string]any{"begin_at": "2026-11-11T15:00:00Z", "state": "upcoming"}},
			{`{"begin_at":"2026-11-11T11:00:00Z"}`, map[string]any{"begin_at": "2026-11-11T11:00:00Z", "state": "on_sale"}},
			{`{"status":"off"}`, map[string]any{"status": "off", "state": "ended"}},
			{`{"status":"on"}`, map[string]any{"status": "on", "state": "on_sale"}},
			{`{"limit_per_user":3}`, map[string]any{"limit_per_user": 3.0}},
			{`{"limit_per_user":3}`, nil},
			{`{"sub_title":""}`, map[string]any{"sub_title": ""}},
			{`{"valid_from":"2026-11-12T00:00:00+08:00","valid_until":"2027-01-01T00:00:00+08:00"}`, map[string]any{
				"valid_from": "2026-11-11T16:00:00Z", "valid_until": "2026-12-31T16:00:00Z",
			}},
			{`{"valid_from":null}`, map[string]any{"valid_from": nil}},
		} {
			e.clock.advance(time.Second)
			after := withoutClock(admin.patch(v.adminPath(), step.patch).want(http.StatusOK))
			for field, want := range step.want {
				before[field] = want
				if want == nil {
					delete(before, field)
				}
			}
			before["updated_at"] = after["updated_at"]
			require.Equal(t, before, after, step.patch)
			require.Equal(t, after, withoutClock(admin.get(v.path()).want(http.StatusOK)), "the answer is the stored voucher")
		}
	})
}

// TestReadsOfUnpublishedVouchersAreRecorded covers members of the staff with and without the permission. Requests of
// others, and for published vouchers, are not recorded.
func TestReadsOfUnpublishedVouchersAreRecorded(t *testing.T) {
	e := start(t)
	off, shown := e.sale(5), e.sale(5)
	admin, viewer, redeemer := e.admin(), e.staff("13900000003", domain.RoleViewer), e.staff("13900000004", domain.RoleRedeemer)
	admin.patch(off.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	for range 2 { // equal requests of a minute are recorded once
		viewer.get(off.path()).want(http.StatusOK)
		viewer.get(vouchersPath + "?status=off").want(http.StatusOK)
		viewer.get(shown.path()).want(http.StatusOK)
		redeemer.get(off.path()).problem(http.StatusNotFound, "not_found")
		redeemer.get(vouchersPath+"?status=off").problem(http.StatusForbidden, "forbidden")
	}
	viewer.get(vouchersPath).want(http.StatusOK)
	e.guest().get(off.path()).problem(http.StatusNotFound, "not_found")
	assert.Equal(t, []string{
		"viewer POST /auth/login  OK", "viewer GET /vouchers/:id " + off.ID + " OK", "viewer GET /vouchers  OK",
	}, e.requests(admin, viewer))
	assert.Equal(t, []string{
		"redeemer POST /auth/login  OK", "redeemer GET /vouchers/:id " + off.ID + " Not Found", "redeemer GET /vouchers  Forbidden",
	}, e.requests(admin, redeemer))
}

// Users may already have as many orders as the limit allowed, even if the window is moved afterwards.
func TestLimitCannotBeLowered(t *testing.T) {
	e := start(t)
	v, admin, buyer := e.sale(5, with("limit_per_user", 3)), e.admin(), e.buyer(1)
	buyer.post(v.orders(), nil).want(http.StatusCreated)
	buyer.post(v.orders(), nil).want(http.StatusCreated)
	before := e.dump()
	admin.patch(v.adminPath(), map[string]int{"limit_per_user": 1}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), `{"limit_per_user":2,"begin_at":"2026-11-11T12:30:00Z"}`).
		problem(http.StatusConflict, "invalid_state")
	assert.Equal(t, before, e.dump())
	admin.patch(v.adminPath(), map[string]string{"begin_at": "2026-11-11T12:30:00Z"}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]int{"limit_per_user": 1}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), map[string]int{"limit_per_user": 4}).want(http.StatusOK)
}

// TestVouchersAreRevalidated: the ETag covers everything but server_time, which a 304 has in a header.
func TestVouchersAreRevalidated(t *testing.T) {
	e := start(t)
	v := e.sale(5)
	read := func(path, tag string, status int) answer {
		a := e.guest().with("If-None-Match", tag).raw("GET", path, nil)
		require.Equal(t, status, a.status, "%s %s", path, tag)
		require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
		return a
	}
	for _, path := range []string{v.path(), vouchersPath, vouchersPath + "?status=on_sale"} {
		etag := read(path, "", http.StatusOK).header.Get("ETag")
		e.clock.advance(time.Second)
		now := e.clock.now().Format(time.RFC3339Nano)
		for _, tag := range []string{etag, `"x", ` + etag, etag[len("W/"):], "*"} {
			again := read(path, tag, http.StatusNotModified)
			require.Empty(t, string(again.body))
			require.Equal(t, etag, again.header.Get("ETag"))
			require.Equal(t, now, again.header.Get("X-Server-Time"))
		}
		require.Contains(t, string(read(path, `"x"`, http.StatusOK).body), `"server_time":"`+now+`"`)

		e.admin().patch(v.adminPath(), map[string]string{"title": "for " + path}).want(http.StatusOK)
		changed := read(path, etag, http.StatusOK) // a change by this server is effective at once
		require.Contains(t, string(changed.body), "for "+path)
	}
	tag := read(vouchersPath, "", http.StatusOK).header.Get("ETag")
	e.clock.advance(time.Hour)
	ended := read(vouchersPath, tag, http.StatusOK) // the window ends by the clock, without another read
	require.Contains(t, string(ended.body), `"state":"ended"`)
}

// TestVouchersAreCompressed: large answers are compressed for clients that accept gzip. TestCompressedSnapshot has the contents.
func TestVouchersAreCompressed(t *testing.T) {
	e := start(t)
	var v voucherView
	for range 4 {
		v = e.sale(5)
	}
	for accept, zipped := range map[string]bool{
		"br, gzip;q=0.8": true, "": false, "br": false, "gzip;q=0": false, "gzip;q=0.000": false, "x-gzip": false,
	} {
		c := e.guest().with("Accept-Encoding", accept)
		small, large := c.raw("GET", v.path(), nil), c.raw("GET", vouchersPath, nil)
		require.Empty(t, small.header.Get("Content-Encoding"))
		require.Equal(t, "Accept-Encoding", small.header.Get("Vary"))
		require.Equal(t, zipped, large.header.Get("Content-Encoding") == "gzip", accept)
	}
}

// TestLongAnswersHaveLengths: net/http sends an answer of more than 2 KB in chunks unless it has a length.
func TestLongAnswersHaveLengths(t *testing.T) {
	e := start(t)
	for range 8 {
		e.sale(5)
	}
	for _, path := range []string{vouchersPath, "/api/v1/admin/vouchers"} {
		a := e.admin().raw("GET", path, nil).want(http.StatusOK)
		require.Greater(t, len(a.body), 2048)
		require.Equal(t, fmt.Sprint(len(a.body)), a.header.Get("Content-Length"), path)
	}
}

// While maxReads reads are blocked in the database, further reads are refused at once and purchases succeed.
func TestExcessReadsAreRefused(t *testing.T) {
	e := start(t)
	v, buyer, other := e.sale(5), e.buyer(1), e.buyer(2)
	order := buyer.place(v)
	release, reading := make(chan struct{}), make(chan struct{}, 1000)
	e.store.fail(func() error { reading <- struct{}{}; <-release; return nil })
	const maxReads = 64
	answers := make(chan int, maxReads)
	for range maxReads {
		go func() {
			answers <- buyer.raw("GET", order.path(), nil).status
		}()
	}
	for range maxReads {
		<-reading
	}
	for _, path := range []string{order.path(), "/api/v1/orders", order.path() + "/payments", "/api/v1/me"} {
		a := buyer.get(path)
		a.problem(http.StatusServiceUnavailable, "overloaded")
		require.Equal(t, 1, a.retryAfter())
	}
	e.store.fail(nil)
	other.post(v.orders(), nil).want(http.StatusCreated)
	close(release)
	for range maxReads { // those that were blocked for longer than their time limit are answered 503
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, <-answers)
	}
	buyer.get(order.path()).want(http.StatusOK)
}

// TestHmdpReadsAreSnapshots: the reads of the course are cached and revalidated as those under /api/v1.
func TestHmdpReadsAreSnapshots(t *testing.T) {
	e := start(t)
	e.shops(1)
	e.sale(5)
	for _, path := range []string{"/shop/1", "/shop/of/type?typeId=1", "/voucher/list/1"} {
		first := e.guest().raw("GET", path, nil)
		require.Equal(t, "no-cache", first.header.Get("Cache-Control"), path)
		again := e.guest().with("If-None-Match", first.header.Get("ETag")).raw("GET", path, nil)
		require.Equal(t, http.StatusNotModified, again.status, path)
		require.Empty(t, string(again.body))
	}

	// Repeated requests for the same shops cost at most one query per second.
	var queries atomic.Int64
	e.store.fail(func() error { queries.Add(1); return nil })
	start := time.Now()
	for range 50 {
		for _, path := range []string{"/shop/1", "/shop/of/type?typeId=1"} {
			require.Contains(t, string(e.guest().raw("GET", path, nil).body), `"success":true`)
		}
	}
	require.LessOrEqual(t, queries.Load(), 2*(1+int64(time.Since(start)/time.Second)))
}

// TestSlowReadersHoldNothing: the limits of concurrent reads protect the database. A client that reads its answer slowly,
// or not at all, blocks no other client.
func TestSlowReadersHoldNothing(t *testing.T) {
	t.Parallel()
	const readers = 65 // one more than any limit
	for _, path := range []string{
		"/api/v1/me", "/api/v1/me/export", "/api/v1/orders", "/api/v1/shops", "/api/v1/admin/orders.csv", "/api/v1/admin/payments.csv", "/api/v1/admin/audit.csv",
		"/shop/of/type?typeId=1&current=1",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c := newEnv(t).admin()
			resume := make(chan struct{})
			var began, ended sync.WaitGroup
			defer ended.Wait()
			defer close(resume)
			for range readers {
				began.Add(1)
				var once sync.Once
				ended.Go(func() {
					c.take(path, func([]byte) { once.Do(began.Done); <-resume })
				})
			}
			began.Wait()
			a := c.raw(http.MethodGet, path, nil).want(http.StatusOK)
			assert.NotContains(t, string(a.body), `"success":false`)
		})
	}
}

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

	e.admin().refused("POST", "/api/v1/admin/shops", map[string]string{
		`{}`: "name", `{"name":""}`: "name", `{"name":"\u202Efdp.exe"}`: "name", `{"name":"\u200B"}`: "name",
		`{"name":"n","score":"50"}`: "score",
		`{"name":"n","area":"\u0000","open_hours":` + quoted("x", 33) + `,"type_id":"1001"}`: "area open_hours type_id",
	})
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
		env.Must(env.Must(w.CreateFormFile([]string{"image", "second"}[i], "picture.png"))(t).Write([]byte(file)))(t)
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
		require.Equal(t, 30, env.Must(jpeg.DecodeConfig(bytes.NewReader(shown.body)))(t).Width)
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
	lacks := func(v voucherView) []string {
		return operator.post(v.adminPath()+"/publish", nil).problem(http.StatusConflict, "invalid_state").fields()
	}
	idea := map[string]any{"status": "draft", "title": "An idea"}
	sale := decode[voucherView](operator.post("/api/v1/admin/vouchers", idea).want(http.StatusCreated))
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

	operator.refused("POST", "/api/v1/admin/vouchers", map[string]string{
		`{"status":"draft","pay_value":1}`: "title", `{"title":"no draft"}`: "shop_id pay_value actual_value",
		`{"status":"draft","title":"half a window","begin_at":"2026-11-11T12:00:00Z"}`: "end_at",
	})
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
