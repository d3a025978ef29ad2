package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/picture"
	"seckill/internal/service"
	"seckill/test/env"
)

// TestHmdpVisit follows a visitor from the login to the logout.
func TestHmdpVisit(t *testing.T) {
	e := start(t, func(s *setup) { s.demo = true })
	v := e.sale(1)
	p := e.page()
	code := p.post("/user/code?phone="+phone, nil)
	code.none()
	require.Equal(t, e.outbox.code(phone), code.header.Get("X-Demo-Code"))
	p.token = p.post("/user/login", map[string]string{"phone": phone, "code": e.outbox.code(phone)}).text()

	me := p.get("/user/me").object()
	bearer := e.login(phone)
	require.Equal(t, map[string]any{"id": bearer.login.User.ID, "nickName": me["nickName"], "icon": ""}, me)
	require.NotEmpty(t, me["nickName"])

	require.Equal(t, v.ID, p.get("/voucher/list/1").list()[0]["id"])
	id := p.post("/voucher-order/seckill/"+v.ID, nil).text()
	order := decode[orderView](bearer.get("/api/v1/orders/" + id).want(http.StatusOK)) // the same order in the API
	require.Equal(t, "pending_payment", order.Status)
	p.post("/voucher-order/seckill/"+v.ID, nil).fails("用户已经购买过一次了")
	e.pageOf("13800000002").post("/voucher-order/seckill/"+v.ID, nil).fails("库存不足")

	p.post("/user/logout", nil).none()
	p.get("/user/me").loggedOut()
	p.post("/user/logout", nil).loggedOut()
	p.post("/voucher-order/seckill/"+v.ID, nil).loggedOut()
}

// TestHmdpPrefix: proxies that do not strip the prefix /api of the pages reach the same routes, with the same limits.
func TestHmdpPrefix(t *testing.T) {
	e := start(t)
	handlers, prefixed := map[string]string{}, 0
	for _, r := range handler.Routes(e.Config) {
		handlers[r.Method+" "+r.Path] = r.Handler
	}
	for _, route := range hmdpRoutes(t) {
		if method, path, _ := strings.Cut(route, " "); strings.HasPrefix(path, "/api/") {
			require.Equal(t, handlers[method+" "+strings.TrimPrefix(path, "/api")], handlers[route], route)
			prefixed++
		}
	}
	require.Greater(t, prefixed, 10)

	e.page().post("/api/user/code?phone="+phone, nil).none()
}

func TestHmdpRefusalMessages(t *testing.T) {
	e := start(t)
	at := func(begin, end time.Duration) string {
		return e.sale(5, with("begin_at", e.clock.now().Add(begin)), with("end_at", e.clock.now().Add(end))).ID
	}
	normal := e.normal().ID
	off := e.sale(5)
	e.admin().patch(off.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	p := e.pageOf(phone)
	for voucher, message := range map[string]string{
		at(time.Hour, 2*time.Hour):   "秒杀尚未开始",
		at(-2*time.Hour, -time.Hour): "秒杀已经结束",
		off.ID:                       "优惠券不存在",
		at(-time.Hour, 0):            "秒杀已经结束",
		normal:                       "该优惠券不是秒杀券",
		"999":                        "优惠券不存在",
		"x":                          "参数错误：id",
		"-1":                         "参数错误：id",
	} {
		p.post("/voucher-order/seckill/"+voucher, nil).fails(message)
	}
	v := e.sale(1)
	e.locks.fail(domain.ErrOrderInProgress)
	p.post("/voucher-order/seckill/"+v.ID, nil).fails("重复下单")
	e.locks.err.Store(nil)
	p.post("/voucher-order/seckill/"+v.ID, nil).text()
}

// TestHmdpLaneErrors: an overload is a business failure with status 200. A panic, which is on another goroutine than the handler's, is
// an error of the server, which still runs.
func TestHmdpLaneErrors(t *testing.T) {
	outcome := func() error { return domain.ErrOverloaded }
	e := start(t, func(s *setup) {
		s.lane = func(service.Lane) service.Lane {
			return laneFunc(func(context.Context, domain.Purchase) domain.Placed {
				return domain.Placed{Err: outcome()}
			})
		}
	})
	v, p := e.sale(5), e.pageOf(phone)
	order := func() reply { return p.post("/voucher-order/seckill/"+v.ID, nil) }
	order().fails("抢购的人太多，请稍后再试")

	outcome = func() error { panic(leak) }
	r := order()
	r.broken(http.StatusInternalServerError)
	p.get("/user/me").object()
	lines := e.logs.of("ERROR")
	require.Len(t, lines, 1)
	assert.Equal(t, r.header.Get("X-Request-Id"), lines[0]["request_id"])
	assert.Contains(t, fmt.Sprint(lines), leak)
}

// TestHmdpStoreErrors covers every route that uses the store.
func TestHmdpStoreErrors(t *testing.T) {
	t.Parallel()
	for status, fault := range map[int]error{
		http.StatusServiceUnavailable:  fmt.Errorf("%w: %s", domain.ErrUnavailable, leak),
		http.StatusInternalServerError: errors.New(leak),
	} {
		e := newEnv(t)
		v := e.sale(5)
		admin := e.pageOf(adminPhone)
		e.page().post("/user/code?phone="+phone, nil).none()
		login := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
		e.store.fail(func() error { return fault })
		for _, path := range []string{"/user/me", "/shop/of/type?typeId=1", "/shop/1", "/voucher/list/1"} {
			r := admin.get(path)
			r.broken(status)
			assert.Equal(t, status == http.StatusServiceUnavailable, r.header.Get("Retry-After") == "1", path)
		}
		for path, body := range map[string]any{
			"/user/code?phone=" + phone: nil, "/user/login": login, "/user/logout": nil, "/voucher": e.courseVoucher(),
			"/voucher/seckill": e.courseVoucher(), "/voucher-order/seckill/" + v.ID: nil,
		} {
			admin.post(path, body).broken(status)
		}
		require.Len(t, admin.get("/shop-type/list").list(), 10, "works without the store")
		e.store.fail(nil)
		e.page().post("/user/login", login).text()
	}
}

// TestHmdpTokens: the tokens of the API work, as the pages send theirs and as the API wants them, until they expire. A token that this
// server did not issue for requests is answered 401 without a body. Package auth has the tokens.
func TestHmdpTokens(t *testing.T) {
	e := start(t)
	v, bearer, p := e.sale(5), e.login(phone), e.pageOf(phone)
	with := func(token string) page {
		other := e.page()
		other.token = token
		return other
	}
	with(bearer.token).post("/voucher-order/seckill/"+v.ID, nil).text()
	with("bearer   "+bearer.token).post("/voucher-order/seckill/"+v.ID, nil).fails("用户已经购买过一次了")
	for _, token := range []string{"", "x", "Bearer ", bearer.login.RefreshToken, p.token[:len(p.token)-1]} {
		with(token).get("/user/me").loggedOut()
		for _, path := range []string{"/user/logout", "/voucher", "/voucher/seckill", "/voucher-order/seckill/" + v.ID} {
			with(token).post(path, nil).loggedOut()
		}
		require.Len(t, with(token).get("/voucher/list/1").list(), 1, "a route without login accepts an invalid token")
	}
	e.as(p.token).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	e.refresh(p.token).problem(http.StatusUnauthorized, "unauthenticated")
	e.clock.advance(time.Hour)
	with(bearer.token).get("/user/me").loggedOut()
	p.get("/user/me").object()
}

func TestHmdpLogin(t *testing.T) {
	e := start(t, func(s *setup) { s.limits, s.countries = true, []string{"DE"} })
	p := e.page()
	for _, bad := range []string{"", "1", "12800000001", "0049123456789", "+19005551234"} {
		p.post("/user/code?phone="+strings.ReplaceAll(bad, " ", "%20"), nil).fails("手机号格式错误！")
		p.post("/user/login", map[string]string{"phone": bad, "code": "123456"}).fails("手机号格式错误！")
	}
	p.post("/user/code", nil).fails("手机号格式错误！")
	login := func(code any) reply { return p.post("/user/login", map[string]any{"phone": phone, "code": code}) }
	login("123456").fails("验证码错误") // no code was sent
	for range 3 {
		p.post("/user/code?phone="+phone, nil).none()
		e.clock.advance(time.Millisecond)
	}
	p.post("/user/code?phone="+phone, nil).fails("操作太频繁，请稍后再试")
	code := e.outbox.code(phone)
	login(otherCode(code)).fails("验证码错误")
	login("").fails("验证码错误")
	login(123456).fails("验证码错误")
	p.post("/user/login", map[string]string{"phone": phone, "password": "secret"}).fails("不支持密码登录，请使用验证码登录")
	p.post("/user/login", "phone="+phone).fails("参数错误：body")
	p.post("/user/login", nil).fails("参数错误：body")
	// The pages send additional fields.
	p.post("/user/login", map[string]any{"phone": json.Number(phone), "code": code, "password": nil, "remember": true}).text()
	login(code).fails("验证码错误")

	// The page does not escape the + of an international number.
	p.post("/user/code?phone=+4915112345678", nil).none()
	p.post("/user/login", map[string]string{"phone": "+4915112345678", "code": e.outbox.code("+4915112345678")}).text()
}

// TestHmdpSharesLoginCodes: a code is valid on both APIs, and guesses on both count together.
func TestHmdpSharesLoginCodes(t *testing.T) {
	e := start(t)
	login := func(code string) reply {
		return e.page().post("/user/login", map[string]string{"phone": phone, "code": code})
	}
	e.sendCode(phone).want(http.StatusOK)
	login(e.outbox.code(phone)).text()
	e.page().post("/user/code?phone="+phone, nil).none()
	e.tryCode(phone, e.outbox.code(phone)).want(http.StatusOK)

	e.page().post("/user/code?phone="+phone, nil).none()
	code := e.outbox.code(phone)
	for range 4 {
		e.tryCode(phone, otherCode(code)).problem(http.StatusUnauthorized, "unauthenticated")
	}
	login(otherCode(code)).fails("验证码错误")
	e.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated") // five guesses over both APIs
}

// TestHmdpConstants compares the exact bodies of what is not supported, because the pages check them in different ways, and the types of
// shops.
func TestHmdpConstants(t *testing.T) {
	e := start(t)
	for path, want := range map[string]string{
		"/blog/hot?current=1":               `{"success":true,"data":[]}`, // iterated without a check
		"/blog/of/me":                       `{"success":true,"data":[]}`,
		"/blog/of/follow?offset=0&lastId=1": `{"success":true}`, // data must contain a list or be absent
		"/user/info/1":                      `{"success":true}`,
	} {
		require.Equal(t, want, string(e.page().get(path).body))
	}
	e.guest().get("/blog/1").want(http.StatusNotFound)

	var names []string
	for i, typ := range e.page().get("/shop-type/list").list() {
		require.Equal(t, json.Number(fmt.Sprint(i+1)), typ["sort"])
		names = append(names, fmt.Sprint(typ["id"], typ["name"], typ["icon"]))
	}
	require.Equal(t, []string{
		"1美食/types/ms.png", "2KTV/types/KTV.png", "3丽人·美发/types/lrmf.png", "10美睫·美甲/types/mjmj.png",
		"5按摩·足疗/types/amzl.png", "6美容SPA/types/spa.png", "7亲子游乐/types/qzyl.png", "8酒吧/types/jiuba.png",
		"9轰趴馆/types/hpg.png", "4健身运动/types/jsyd.png",
	}, names)
}

// jsonNull matches the value; a random token may contain the four letters.
var jsonNull = regexp.MustCompile(`[:,\[]null\b`)

// page is a client of the hm-dianping routes: with a bare token and an envelope.
type page struct{ client }

// page returns a client that is not logged in.
func (e *environment) page() page { return page{e.guest()} }

func (e *environment) pageOf(phone string) page {
	e.t.Helper()
	p := e.page()
	p.post("/user/code?phone="+phone, nil).none()
	p.token = p.post("/user/login", map[string]string{"phone": phone, "code": e.outbox.code(phone)}).text()
	return p
}

func (p page) get(path string) reply            { p.t.Helper(); return p.do("GET", path, nil) }
func (p page) post(path string, body any) reply { p.t.Helper(); return p.do("POST", path, body) }

// do sends a request and checks what all answers have in common.
func (p page) do(method, path string, body any) reply {
	p.t.Helper()
	token := p.token
	p.token = "" // the embedded client would send it as a bearer token
	req := p.request(p.env.url, method, path, body)
	if token != "" {
		req.Header.Set("authorization", token)
	}
	r := reply{answer: p.send(req)}
	r.check()
	return r
}

type reply struct {
	answer
	envelope map[string]any
}

// check decodes the envelope, with numbers as json.Number, and validates it.
func (r *reply) check() {
	t := r.t
	t.Helper()
	assert.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"), r.what)
	assert.NotEmpty(t, r.header.Get("X-Request-Id"), r.what)
	if r.status == http.StatusUnauthorized {
		require.Empty(t, r.body, "%s: the pages ignore the body of a 401", r.what)
		return
	}
	require.Equal(t, "application/json; charset=utf-8", r.header.Get("Content-Type"), "%s: %s", r.what, r.body)
	dec := json.NewDecoder(bytes.NewReader(r.body))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&r.envelope), "%s: %s", r.what, r.body)
	require.NotRegexp(t, jsonNull, string(r.body), r.what)
	for name := range r.envelope {
		require.Contains(t, []string{"success", "errorMsg", "data", "total"}, name, r.what)
	}
	if r.envelope["success"] == true {
		require.Equal(t, http.StatusOK, r.status, r.what)
		require.NotContains(t, r.envelope, "errorMsg", r.what)
	} else {
		require.Equal(t, false, r.envelope["success"], "%s: %s", r.what, r.body)
		require.NotContains(t, r.envelope, "data", r.what)
	}
}

// dataOf returns the data of a success and stops the test if there is none of this type.
func dataOf[T any](r reply) (data T) {
	r.t.Helper()
	require.Equal(r.t, true, r.envelope["success"], "%s: %d %s", r.what, r.status, r.body)
	require.Contains(r.t, r.envelope, "data", r.what)
	dec := json.NewDecoder(bytes.NewReader(r.body))
	dec.UseNumber()
	require.NoError(r.t, dec.Decode(&struct{ Data *T }{&data}), "%s: %s", r.what, r.body)
	return data
}

// none stops the test unless the answer is a success without data.
func (r reply) none() {
	r.t.Helper()
	require.Equal(r.t, map[string]any{"success": true}, r.envelope, "%s: %d %s", r.what, r.status, r.body)
}

func (r reply) text() string {
	r.t.Helper()
	text := dataOf[string](r)
	require.NotEmpty(r.t, text)
	return text
}

func (r reply) object() map[string]any { r.t.Helper(); return dataOf[map[string]any](r) }
func (r reply) list() []map[string]any { r.t.Helper(); return dataOf[[]map[string]any](r) }

// fails stops the test unless the answer is a failure with this message.
func (r reply) fails(message string) {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, "%s: %s", r.what, r.body)
	require.Equal(r.t, map[string]any{"success": false, "errorMsg": message}, r.envelope, r.what)
}

// broken stops the test unless the answer is a server error with this status.
func (r reply) broken(status int) {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%s: %s", r.what, r.body)
	require.Equal(r.t, map[string]any{"success": false, "errorMsg": "服务器异常"}, r.envelope, r.what)
}

func (r reply) loggedOut() { r.t.Helper(); r.want(http.StatusUnauthorized) }

// shops stores one shop of type 2 and n shops of type 1, each about 111 m north of the previous one.
func (e *environment) shops(n int) {
	e.t.Helper()
	one := domain.Shop{
		Name: "shop", TypeID: 2, X: 120, Y: 30, Area: "大关", Address: "a", AvgPrice: 8050, Sold: 4215, Comments: 3035, Score: 47,
		OpenHours: "10:00-22:00", CreatedAt: e.clock.now(), UpdatedAt: e.clock.now(),
	}
	shops := []domain.Shop{one}
	for i := range n {
		one.TypeID, one.Name, one.Images = 1, fmt.Sprintf("shop %d", i), "a.png,b.png"
		one.Y += 0.001
		shops = append(shops, one)
	}
	seeded := env.Must(e.store.SeedDemo(e.t.Context(), func() ([]domain.Shop, []picture.Picture, []domain.Voucher, error) {
		return shops, nil, nil, nil
	}))(e.t)
	require.True(e.t, seeded)
}

func TestHmdpShops(t *testing.T) {
	e := start(t)
	e.shops(12)
	p := e.page()
	want := map[string]any{
		"id": "1", "name": "shop", "typeId": "2", "images": "", "area": "大关", "address": "a", "x": json.Number("120"),
		"y": json.Number("30"), "avgPrice": json.Number("80.5"), "sold": json.Number("4215"), "comments": json.Number("3035"),
		"score": json.Number("47"), "openHours": "10:00-22:00",
	}
	require.Equal(t, want, p.get("/shop/1").object(), "images is a string even if there are none; prices are in yuan")
	require.Equal(t, "a.png,b.png", p.get("/shop/2").object()["images"])
	p.get("/shop/999").fails("店铺不存在！")
	p.get("/shop/x").fails("参数错误：id")

	names := func(path string) (names []string) {
		for _, s := range p.get(path).list() {
			names = append(names, s["name"].(string))
		}
		return names
	}
	require.Equal(t, []string{"shop 0", "shop 1", "shop 2", "shop 3", "shop 4"}, names("/shop/of/type?typeId=1&current="))
	require.Equal(t, []string{"shop 5", "shop 6", "shop 7", "shop 8", "shop 9"}, names("/shop/of/type?typeId=1&current=2"))
	// The page writes an & before every parameter.
	require.Equal(t, []string{"shop 1", "shop 0"}, names("/shop/of/type?&typeId=1&current=3&x=120&y=31"))
	require.Equal(t, []string{"shop 11", "shop 10", "shop 9", "shop 8", "shop 7"}, names("/shop/of/type?&typeId=1&current=1&x=120&y=31&sortBy=score"))
	require.Empty(t, names("/shop/of/type?typeId=1&current=4"))
	require.Empty(t, names("/shop/of/type?typeId=9&current=1"))

	near := p.get("/shop/of/type?&typeId=1&current=1&x=120&y=30").list()
	for i, s := range near {
		require.InDelta(t, 111.2*float64(i+1), env.Must(s["distance"].(json.Number).Float64())(t), 1)
	}
	require.NotContains(t, p.get("/shop/of/type?typeId=1").list()[0], "distance")
	require.NotContains(t, p.get("/shop/of/type?typeId=1&x=120").list()[0], "distance")
	for query, field := range map[string]string{
		"": "typeId", "typeId=x": "typeId", "typeId=0": "typeId", "typeId=1&current=0": "current", "typeId=1&current=-1": "current",
		"typeId=1&current=x": "current", "typeId=1&current=9223372036854775807": "current", "typeId=1&x=a&y=1": "x",
		"typeId=1&x=NaN&y=1": "x", "typeId=1&x=181&y=1": "x", "typeId=1&x=1&y=-91": "y", "typeId=1&x=1&y=Inf": "y",
	} {
		p.get("/shop/of/type?" + query).fails("参数错误：" + field)
	}
}

// courseVoucher is the body with which hm-dianping publishes a sale, with numbers in both forms: from 20:00 to 22:00 in
// Shanghai, which is 12:00 to 14:00 in UTC. The clock of these tests begins at 12:00.
func (e *environment) courseVoucher() map[string]any {
	return map[string]any{
		"shopId": 1, "title": "100元代金券", "subTitle": "周一至周五均可使用", "rules": "全场通用\n无需预约\n不兑现、不找零",
		"payValue": 8000, "actualValue": "10000", "type": 1, "stock": "100",
		"beginTime": "2026-11-11T20:00:00", "endTime": "2026-11-11T22:00:00",
	}
}

func TestHmdpPublish(t *testing.T) {
	e := start(t)
	p := e.pageOf(adminPhone)
	normal := p.post("/voucher", withField(e.courseVoucher(), "stock", `""`)).text() // the fields of a sale are ignored
	sale := p.post("/voucher/seckill", e.courseVoucher()).text()

	v := decode[voucherView](e.guest().get("/api/v1/vouchers/" + sale).want(http.StatusOK))
	require.Equal(t, "2026-11-11T12:00:00Z", v.BeginAt)
	require.Equal(t, "2026-11-11T14:00:00Z", v.EndAt)
	require.Equal(t, int64(100), *v.Stock)
	require.Equal(t, 1, v.LimitPerUser)

	common := map[string]any{
		"shopId": "1", "title": "100元代金券", "subTitle": "周一至周五均可使用", "rules": "全场通用\n无需预约\n不兑现、不找零",
		"payValue": json.Number("8000"), "actualValue": json.Number("10000"), "id": normal, "type": json.Number("0"),
	}
	timed := maps.Clone(common)
	maps.Copy(timed, map[string]any{
		"id": sale, "type": json.Number("1"), "stock": json.Number("100"),
		"beginTime": "2026-11-11T20:00:00", "endTime": "2026-11-11T22:00:00",
	})
	require.Equal(t, []map[string]any{common, timed}, p.get("/voucher/list/1").list(), "oldest first; a normal voucher has no times")
	p.post("/voucher-order/seckill/"+sale, nil).text()
	require.Eventually(t, func() bool {
		return p.get("/voucher/list/1").list()[1]["stock"] == json.Number("99")
	}, time.Minute, 50*time.Millisecond)
}

// TestHmdpPublishRefusals: only admins can publish, and only valid vouchers. Package domain has the values.
func TestHmdpPublishRefusals(t *testing.T) {
	e := start(t)
	buyer, admin := e.pageOf(phone), e.pageOf(adminPhone)
	before := e.dump()
	for path, fields := range map[string]string{
		"/voucher": "shopId、title、payValue、actualValue", "/voucher/seckill": "shopId、title、payValue、actualValue、beginTime、endTime、stock",
	} {
		buyer.post(path, e.courseVoucher()).fails("没有权限")
		buyer.post(path, "{").fails("没有权限")
		e.page().post(path, e.courseVoucher()).loggedOut()
		admin.post(path, "{").fails("参数错误：body")
		admin.post(path, "{}").fails("参数错误：" + fields)
	}
	for field, values := range map[string][]string{
		"shopId": {`"x"`}, "payValue": {"-1"}, "stock": {"", "-1", `"x"`, `""`, `"1.5"`, "[1]", "true"}, "title": {"{}"},
		"beginTime": {"", `"2026-11-11"`, `"2026-02-30T00:00:00"`, `"2026-11-11T20:00:00Z"`, `7`},
		"endTime":   {"", "null", `"2026-11-11 22:00:00"`, `"2026-11-11T20:00:00"`},
	} {
		for _, v := range values {
			admin.post("/voucher/seckill", withField(e.courseVoucher(), field, v)).fails("参数错误：" + field)
		}
	}
	require.Equal(t, before, e.dump())
	admin.post("/voucher/seckill", withField(e.courseVoucher(), "beginTime", `"2026-11-11T20:00"`)).text()
}

// TestHmdpTimesOfSummerTime: a time that the start of summer time skips is refused, and one that its end repeats is the first
// of both. What is stored is shown as it was written.
// Source: w3c/html#866, Together-100Devs/Together#302.
func TestHmdpTimesOfSummerTime(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]map[string]string{
		"America/New_York": {
			"2026-03-08T01:59:59": "2026-03-08T06:59:59Z", "2026-03-08T02:00:00": "", "2026-03-08T02:59": "", "2026-03-08T03:00": "2026-03-08T07:00:00Z",
			"2026-11-01T00:59:59": "2026-11-01T04:59:59Z", "2026-11-01T01:30:00": "2026-11-01T05:30:00Z", "2026-11-01T02:00:00": "2026-11-01T07:00:00Z",
		},
		"Australia/Lord_Howe": { // by half an hour, east of Greenwich
			"2026-04-05T01:30": "2026-04-04T14:30:00Z", "2026-04-05T02:00": "2026-04-04T15:30:00Z",
			"2026-10-04T02:00": "", "2026-10-04T02:29:59": "", "2026-10-04T02:30": "2026-10-03T15:30:00Z",
		},
		"Africa/Cairo": { // at midnight
			"2026-04-23T23:59": "2026-04-23T21:59:00Z", "2026-04-24T00:00": "", "2026-10-29T23:30": "2026-10-29T20:30:00Z",
		},
	} {
		zone := env.Must(time.LoadLocation(name))(t)
		e := newEnv(t, configured(func(c *handler.Config) { c.Zone = zone }))
		p, body := e.pageOf(adminPhone), e.courseVoucher()
		body["endTime"] = "2026-12-01T00:00:00"
		for begin, want := range times {
			body["beginTime"] = begin
			r := p.post("/voucher/seckill", body)
			if want == "" {
				r.fails("参数错误：beginTime")
				continue
			}
			v := decode[voucherView](e.guest().get(vouchersPath + "/" + r.text()).want(http.StatusOK))
			require.Equal(t, want, v.BeginAt, begin)
			list := p.get("/voucher/list/1").list()
			require.Contains(t, list[len(list)-1]["beginTime"], begin)
		}
	}
}

// TestHmdpVouchersOfShop: the list has the vouchers in yuan that are on and have not ended.
func TestHmdpVouchersOfShop(t *testing.T) {
	e := start(t)
	now := e.clock.now()
	sale := func(title string, begin, end time.Duration, more ...func(map[string]any)) voucherView {
		return e.sale(5, append(more, with("title", title), with("begin_at", now.Add(begin)), with("end_at", now.Add(end)))...)
	}
	sale("upcoming", time.Hour, 2*time.Hour)
	sale("running", -time.Hour, 1500*time.Millisecond)
	sale("ended", -2*time.Hour, -time.Hour)
	sale("ends now", -2*time.Hour, 0)
	off := sale("off", -time.Hour, time.Hour)
	e.admin().patch(off.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	sale("dollars", -time.Hour, time.Hour, with("currency", "USD"))
	sale("elsewhere", -time.Hour, time.Hour, with("shop_id", "2"))

	p := e.page()
	titles := func(shop string) (titles []string) {
		for _, v := range p.get("/voucher/list/" + shop).list() {
			titles = append(titles, v["title"].(string))
		}
		return titles
	}
	require.Equal(t, []string{"upcoming", "running"}, titles("1"))
	require.Equal(t, "2026-11-11T20:00:01.500", p.get("/voucher/list/1").list()[1]["endTime"])
	require.Equal(t, []string{"elsewhere"}, titles("2"))
	require.Empty(t, titles("3"))
	e.clock.advance(time.Minute)
	require.Equal(t, []string{"upcoming"}, titles("1"))
	p.get("/voucher/list/x").fails("参数错误：id")
}
