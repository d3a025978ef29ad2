package handler_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/picture"
)

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
	seeded, err := e.store.SeedDemo(e.t.Context(), func() ([]domain.Shop, []picture.Picture, []domain.Voucher, error) {
		return shops, nil, nil, nil
	})
	require.NoError(e.t, err)
	require.True(e.t, seeded)
}

// number returns the value of a JSON number.
func number(t *testing.T, v any) float64 {
	t.Helper()
	n, ok := v.(json.Number)
	require.True(t, ok, "%v is not a number", v)
	f, err := n.Float64()
	require.NoError(t, err)
	return f
}

func TestHmdpShop(t *testing.T) {
	e := start(t)
	e.shops(1)
	want := map[string]any{
		"id": "1", "name": "shop", "typeId": "2", "images": "", "area": "大关", "address": "a", "x": json.Number("120"),
		"y": json.Number("30"), "avgPrice": json.Number("80.5"), "sold": json.Number("4215"), "comments": json.Number("3035"),
		"score": json.Number("47"), "openHours": "10:00-22:00",
	}
	require.Equal(t, want, e.page().get("/shop/1").object(), "images is a string even if there are none; prices are in yuan")
	require.Equal(t, "a.png,b.png", e.page().get("/shop/2").object()["images"])
	e.page().get("/shop/999").fails("店铺不存在！")
	e.page().get("/shop/x").fails("参数错误：id")
}

func TestHmdpShopsOfType(t *testing.T) {
	e := start(t)
	e.shops(12)
	p := e.page()
	names := func(path string) (names []string) {
		for _, s := range p.get(path).list() {
			names = append(names, s["name"].(string))
		}
		return names
	}
	require.Equal(t, []string{"shop 0", "shop 1", "shop 2", "shop 3", "shop 4"}, names("/shop/of/type?typeId=1"))
	require.Equal(t, []string{"shop 5", "shop 6", "shop 7", "shop 8", "shop 9"}, names("/shop/of/type?typeId=1&current=2"))
	// The page writes an & before every parameter.
	require.Equal(t, []string{"shop 1", "shop 0"}, names("/shop/of/type?&typeId=1&current=3&x=120&y=31"))
	require.Equal(t, []string{"shop 11", "shop 10", "shop 9", "shop 8", "shop 7"}, names("/shop/of/type?&typeId=1&current=1&x=120&y=31&sortBy=score"))
	require.Empty(t, names("/shop/of/type?typeId=1&current=4"))
	require.Empty(t, names("/shop/of/type?typeId=9&current=1"))

	near := p.get("/shop/of/type?&typeId=1&current=1&x=120&y=30").list()
	for i, s := range near {
		require.InDelta(t, 111.2*float64(i+1), number(t, s["distance"]), 1)
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

// courseVoucher is the body with which hm-dianping publishes a sale: from 20:00 to 22:00 in Shanghai, which is 12:00 to
// 14:00 in UTC. The clock of these tests begins at 12:00.
func (e *environment) courseVoucher() map[string]any {
	return map[string]any{
		"shopId": 1, "title": "100元代金券", "subTitle": "周一至周五均可使用", "rules": "全场通用\n无需预约\n不兑现、不找零",
		"payValue": 8000, "actualValue": 10000, "type": 1, "stock": 100,
		"beginTime": "2026-11-11T20:00:00", "endTime": "2026-11-11T22:00:00",
	}
}

func TestHmdpPublish(t *testing.T) {
	e := start(t)
	p := e.pageOf(adminPhone)
	normal := p.post("/voucher", e.courseVoucher()).text() // the fields of a sale are ignored
	sale := p.post("/voucher/seckill", e.courseVoucher()).text()

	v := decode[voucherView](e.guest().get("/api/v1/vouchers/" + sale).want(http.StatusOK))
	require.Equal(t, "2026-11-11T12:00:00Z", v.BeginAt)
	require.Equal(t, "2026-11-11T14:00:00Z", v.EndAt)
	require.Equal(t, int64(100), *v.Stock)
	require.Equal(t, 1, v.LimitPerUser)

	common := map[string]any{
		"shopId": "1", "title": "100元代金券", "subTitle": "周一至周五均可使用", "rules": "全场通用\n无需预约\n不兑现、不找零",
		"payValue": json.Number("8000"), "actualValue": json.Number("10000"),
	}
	with := func(more map[string]any) map[string]any {
		for k, v := range common {
			more[k] = v
		}
		return more
	}
	require.Equal(t, []map[string]any{
		with(map[string]any{"id": normal, "type": json.Number("0")}),
		with(map[string]any{
			"id": sale, "type": json.Number("1"), "stock": json.Number("100"),
			"beginTime": "2026-11-11T20:00:00", "endTime": "2026-11-11T22:00:00",
		}),
	}, p.get("/voucher/list/1").list(), "oldest first; a normal voucher has no times")
	p.post("/voucher-order/seckill/"+sale, nil).text()
	require.Eventually(t, func() bool {
		return p.get("/voucher/list/1").list()[1]["stock"] == json.Number("99")
	}, time.Minute, 50*time.Millisecond)
}

// TestHmdpPublishRefusals: only admins can publish, and only valid vouchers.
func TestHmdpPublishRefusals(t *testing.T) {
	e := start(t)
	buyer, admin := e.pageOf(phone), e.pageOf(adminPhone)
	before := e.dump()
	for _, path := range []string{"/voucher", "/voucher/seckill"} {
		buyer.post(path, e.courseVoucher()).fails("没有权限")
		buyer.post(path, "{").fails("没有权限")
		e.page().post(path, e.courseVoucher()).loggedOut()
		admin.post(path, "{").fails("参数错误：body")
		admin.post(path, withField(e.courseVoucher(), "title", "")).fails("参数错误：title")
		admin.post(path, withField(e.courseVoucher(), "shopId", `"x"`)).fails("参数错误：shopId")
		admin.post(path, withField(e.courseVoucher(), "payValue", `-1`)).fails("参数错误：payValue")
		admin.post(path, withField(e.courseVoucher(), "actualValue", "")).fails("参数错误：actualValue")
	}
	admin.post("/voucher", "{}").fails("参数错误：shopId、title、payValue、actualValue")
	admin.post("/voucher/seckill", "{}").fails("参数错误：shopId、title、payValue、actualValue、beginTime、endTime、stock")
	for field, values := range map[string][]string{
		"stock": {"", "-1", `"x"`}, "beginTime": {"", `"2026-11-11"`, `"2026-02-30T00:00:00"`, `"2026-11-11T20:00:00Z"`, `7`},
		"endTime": {"", "null", `"2026-11-11 22:00:00"`, `"2026-11-11T20:00:00"`},
	} {
		for _, v := range values {
			admin.post("/voucher/seckill", withField(e.courseVoucher(), field, v)).fails("参数错误：" + field)
		}
	}
	late := e.courseVoucher()
	late["endTime"] = "2927-11-11T22:00:00"
	admin.post("/voucher/seckill", withField(late, "beginTime", `"2926-11-11T20:00:00"`)).fails("参数错误：beginTime")
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
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
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
	sale := func(title string, begin, end time.Duration, more map[string]any) voucherView {
		return e.sale(5, func(b map[string]any) {
			b["title"], b["begin_at"], b["end_at"] = title, now.Add(begin).Format(time.RFC3339Nano), now.Add(end).Format(time.RFC3339Nano)
			for k, v := range more {
				b[k] = v
			}
		})
	}
	sale("upcoming", time.Hour, 2*time.Hour, nil)
	sale("running", -time.Hour, 1500*time.Millisecond, nil)
	sale("ended", -2*time.Hour, -time.Hour, nil)
	sale("ends now", -2*time.Hour, 0, nil)
	off := sale("off", -time.Hour, time.Hour, nil)
	e.admin().patch(off.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
	sale("dollars", -time.Hour, time.Hour, map[string]any{"currency": "USD"})
	sale("elsewhere", -time.Hour, time.Hour, map[string]any{"shop_id": "2"})

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
