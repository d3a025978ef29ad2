package handler_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refused is a request that must be answered 400 with exactly these fields and must change nothing.
type refused struct {
	name   string
	body   any // nil: none
	fields []string
}

// invalidBodies are refused by every route with a body.
var invalidBodies = []refused{
	{"empty", "", []string{"body"}},
	{"white space", " \n\t", []string{"body"}},
	{"cut off", `{"title":"t"`, []string{"body"}},
	{"no JSON", `title=t`, []string{"body"}},
	{"single quotes", `{'title':'t'}`, []string{"body"}},
	{"trailing comma", `{"title":"t",}`, []string{"body"}},
	{"comment", `{/**/}`, []string{"body"}},
	{"byte order mark", "\ufeff{}", []string{"body"}},
	{"null", `null`, []string{"body"}},
	{"array", `[]`, []string{"body"}},
	{"array of one", `[{"title":"t"}]`, []string{"body"}},
	{"string", `"title"`, []string{"body"}},
	{"number", `7`, []string{"body"}},
	{"true", `true`, []string{"body"}},
	{"trailing object", `{}{}`, []string{"body"}},
	{"trailing garbage", `{} x`, []string{"body"}},
	{"not UTF-8", "{\"title\":\"\xff\xfe\"}", []string{"body"}},
	{"unknown field", `{"color":"red"}`, []string{"color"}},
	{"unknown field, quoted", `{"co\"lor":"red"}`, []string{`co"lor`}},
	{"too deep", strings.Repeat(`{"a":`, 10001), []string{"body"}},
	{"too long", `{}` + strings.Repeat(" ", 64<<10), []string{"body"}},
	{"too long a string", `{"title":"` + strings.Repeat("x", 64<<10) + `"}`, []string{"body"}},
}

// TestInvalidBodies sends the invalid bodies to every kind of route with a body.
func TestInvalidBodies(t *testing.T) {
	t.Parallel()
	for route, method := range map[string]string{
		"/api/v1/auth/code": "POST", "/api/v1/auth/login": "POST", "/api/v1/auth/refresh": "POST",
		"/api/v1/admin/vouchers": "POST", "/api/v1/admin/vouchers/1": "PATCH",
	} {
		t.Run(method+" "+route, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.sale(1)
			refuse(t, e.admin(), method, route, invalidBodies)
		})
	}
}

// refuse sends each request and checks that the database does not change.
func refuse(t *testing.T, c client, method, path string, cases []refused) {
	t.Helper()
	before := c.env.dump()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			a := c.bad().in(t).do(method, path, tc.body)
			if assert.Equal(t, http.StatusBadRequest, a.status, "%s", a.body) {
				p := a.problem(http.StatusBadRequest, "invalid_request")
				assert.ElementsMatch(t, tc.fields, p.fields(), p.Detail)
			}
			was := before
			before = c.env.dump()
			assert.Equal(t, was, before, "the database is unchanged")
		})
	}
}

// withField returns the body with one field set to value, which is JSON, or removed if value is empty.
func withField(body map[string]any, field, value string) string {
	b := maps.Clone(body)
	if b[field] = json.RawMessage(value); value == "" {
		delete(b, field)
	}
	text, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// invalidFields are values of voucher fields that POST and PATCH refuse.
var invalidFields = map[string][]string{
	"shop_id": {
		`0`, `-1`, `1.5`, `1e3`, `""`, `"x"`, `"0"`, `"-1"`, `"+1"`, `"007"`, `" 1"`, `"1e3"`, `9223372036854775808`,
		`"9223372036854775808"`, `true`, `{}`, `["1"]`,
	},
	"title":          {`""`, `7`, `true`, `{}`, `["t"]`, quoted("x", 256), quoted("券", 256), quoted("\u200b", 3)},
	"sub_title":      {`7`, quoted("x", 256), quoted("\u200b", 3)},
	"rules":          {`7`, quoted("x", 1025), quoted("\u200b", 3)},
	"pay_value":      {`-1`, `1.5`, `1e3`, `1e400`, `"100"`, `true`, `100000000001`, `9223372036854775808`, `[]`},
	"actual_value":   {`-1`, `-9223372036854775809`, `100000000001`, `"1"`},
	"limit_per_user": {`0`, `-1`, `101`, `1.5`, `1e1`, `"1"`, `9223372036854775807`, `9223372036854775808`},
	"begin_at": {
		`"2026-11-11T20:00:00"`, `"2026-11-11 20:00:00Z"`, `"2026-11-11"`, `""`, `"now"`, `1794398400`, `true`, `{}`,
		`"2026-02-30T00:00:00Z"`, `"2026-11-11T24:00:00Z"`, `"2026-11-11T20:00:00+25:00"`, `"1999-12-31T23:59:59Z"`,
		`"0000-01-01T00:00:00Z"`, `"-001-01-01T00:00:00Z"`, `"10000-01-01T00:00:00Z"`,
	},
	"end_at": {`"2026-11-11T20:00:00"`, `"9999-01-01T00:00:00.001Z"`, `1794398400000`},
}

func quoted(s string, n int) string { return `"` + strings.Repeat(s, n) + `"` }

// perField returns a request for each invalid value.
func perField(make func(field, value string) any) []refused {
	var cases []refused
	for field, values := range invalidFields {
		for _, v := range values {
			cases = append(cases, refused{fmt.Sprintf("%s=%.40s", field, v), make(field, v), []string{field}})
		}
	}
	return cases
}

func TestInvalidVoucherFields(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, body := e.admin(), e.saleBody(5)
	cases := perField(func(field, value string) any { return withField(body, field, value) })
	for _, stock := range []string{`-1`, `1000000001`, `1.5`, `1e2`, `"5"`, `true`, `9223372036854775808`} {
		cases = append(cases, refused{"stock=" + stock, withField(body, "stock", stock), []string{"stock"}})
	}
	for _, field := range []string{"shop_id", "title", "pay_value", "actual_value", "stock", "begin_at", "end_at"} {
		cases = append(cases, refused{"no " + field, withField(body, field, ""), []string{field}},
			refused{field + " null", withField(body, field, "null"), []string{field}})
	}
	late := maps.Clone(body)
	late["end_at"] = "2927-11-11T20:00:00Z"
	cases = append(cases,
		refused{"begins in nine centuries", withField(late, "begin_at", `"2926-11-11T20:00:00Z"`), []string{"begin_at"}},
		refused{"ends before it begins", withField(body, "end_at", `"2026-11-11T10:00:00Z"`), []string{"end_at"}},
		refused{"ends when it begins", withField(body, "end_at", `"2026-11-11T11:00:00Z"`), []string{"end_at"}},
		refused{"ends less than a millisecond later", withField(body, "end_at", `"2026-11-11T11:00:00.0009Z"`), []string{"end_at"}},
		refused{"ends before it begins, by zone", withField(body, "end_at", `"2026-11-11T18:30:00+08:00"`), []string{"end_at"}},
		refused{"id", withField(body, "id", `"1"`), []string{"id"}},
		refused{"status", withField(body, "status", `"off"`), []string{"status"}},
		refused{"several at once", `{"title":"","pay_value":-1,"actual_value":2,"limit_per_user":0}`,
			[]string{"shop_id", "title", "pay_value", "limit_per_user", "stock", "begin_at", "end_at"}},
		refused{"nothing", `{}`, []string{"shop_id", "title", "pay_value", "actual_value"}},
	)
	refuse(t, admin, "POST", "/api/v1/admin/vouchers", cases)
}

func TestInvalidVoucherPatches(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, admin := e.sale(5, func(b map[string]any) { b["limit_per_user"] = 2 }), e.admin()
	cases := perField(func(field, value string) any { return fmt.Sprintf(`{%q:%s}`, field, value) })
	cases = append(cases,
		refused{"stock", `{"stock":7}`, []string{"stock"}},
		refused{"id", `{"id":"7"}`, []string{"id"}},
		refused{"unknown status", `{"status":"gone"}`, []string{"status"}},
		refused{"status in capitals", `{"status":"OFF"}`, []string{"status"}},
		refused{"status by number", `{"status":2}`, []string{"status"}},
		refused{"ends before it began", `{"end_at":"2026-11-11T10:00:00Z"}`, []string{"end_at"}},
		refused{"begins after its end", `{"begin_at":"2026-11-11T14:00:00Z"}`, []string{"end_at"}},
		refused{"a good field with a bad one", `{"title":"new","pay_value":-1}`, []string{"pay_value"}},
	)
	refuse(t, admin, "PATCH", v.adminPath(), cases)

	normal := decode[voucherView](admin.post("/api/v1/admin/vouchers",
		map[string]any{"shop_id": "1", "title": "n", "pay_value": 1, "actual_value": 1}).want(http.StatusCreated))
	refuse(t, admin, "PATCH", normal.adminPath(), []refused{
		{"window of a normal voucher", `{"begin_at":"2026-11-11T14:00:00Z"}`, []string{"begin_at"}},
		{"end of a normal voucher", `{"end_at":"2026-11-11T14:00:00Z"}`, []string{"end_at"}},
		{"limit of a normal voucher", `{"limit_per_user":2}`, []string{"limit_per_user"}},
	})
}

func TestInvalidLogins(t *testing.T) {
	t.Parallel()
	phones := []string{
		`""`, `"1380000000"`, `"138000000011"`, `"12800000001"`, `"10000000001"`, `"13800000001\n"`, `"+0123456789"`, `"+12345"`,
		`"+1234567890123456"`, `"0049123456789"`, `"+86+8613800000001"`, `"+86+4915112345678"`, `"+8612345"`, `"x"`,
		`"+4915112345678"`, `"021-62345678"`, `"+88216123456789"`, `"+97912345678"`, `"+1900555123456"`, `13800000001`, `null`, `true`, `{}`,
	}
	e := newEnv(t)
	var codes, logins []refused
	for _, p := range phones {
		codes = append(codes, refused{p, `{"phone":` + p + `}`, []string{"phone"}})
		logins = append(logins, refused{p, `{"phone":` + p + `,"code":"123456"}`, []string{"phone"}})
	}
	codes = append(codes, refused{"code", `{"phone":"13800000001","code":"1"}`, []string{"code"}})
	logins = append(logins,
		refused{"no code", `{"phone":"13800000001"}`, []string{"code"}},
		refused{"empty code", `{"phone":"13800000001","code":""}`, []string{"code"}},
		refused{"code is a number", `{"phone":"13800000001","code":123456}`, []string{"code"}},
	)
	refuse(t, e.guest(), "POST", "/api/v1/auth/code", codes)
	refuse(t, e.guest(), "POST", "/api/v1/auth/login", logins)
	refuse(t, e.guest(), "POST", "/api/v1/auth/refresh", []refused{
		{"nothing", `{}`, []string{"refresh_token"}},
		{"empty", `{"refresh_token":""}`, []string{"refresh_token"}},
		{"null", `{"refresh_token":null}`, []string{"refresh_token"}},
		{"number", `{"refresh_token":1}`, []string{"refresh_token"}},
	})
}

var invalidIDs = []string{
	"0", "-1", "+1", "01", "007", "1.0", "1e3", "x", "0x10", "1_000", "９", "%20", "1%20", "%00", "null", "undefined",
	"9223372036854775808", "18446744073709551617", strings.Repeat("9", 1000),
}

func TestInvalidIDs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin := e.admin()
	for _, r := range []struct{ method, path string }{
		{"GET", "/api/v1/vouchers/%s"}, {"POST", "/api/v1/vouchers/%s/orders"}, {"GET", "/api/v1/orders/%s"},
		{"POST", "/api/v1/orders/%s/cancel"}, {"PATCH", "/api/v1/admin/vouchers/%s"},
	} {
		for _, id := range invalidIDs {
			refuse(t, admin, r.method, fmt.Sprintf(r.path, id), []refused{{r.method + " " + id, nil, []string{"id"}}})
		}
	}
}

func TestInvalidQueries(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	buyer := e.buyer(1)
	queries := map[string][]string{
		"cursor": {"0", "-1", "01", "x", "1.5", "9223372036854775808"},
		"limit":  {"0", "-1", "101", "x", "1.5", "1e1", "9223372036854775808"},
		"status": {"On", "sold", "1", "paid,on"},
	}
	for field, values := range queries {
		for _, v := range values {
			cases := []refused{{field + "=" + v, nil, []string{field}}}
			query := "?" + field + "=" + url.QueryEscape(v)
			refuse(t, buyer, "GET", "/api/v1/vouchers"+query, cases)
			refuse(t, buyer, "GET", "/api/v1/orders"+query, cases)
		}
	}
	for _, id := range []string{"0", "-1", "01", "x", "9223372036854775808"} {
		refuse(t, buyer, "GET", "/api/v1/vouchers?shop_id="+id, []refused{{"shop_id=" + id, nil, []string{"shop_id"}}})
	}
}

// TestLargestBodyIsAccepted sends a body of exactly the maximum size.
func TestLargestBodyIsAccepted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	body := withField(e.saleBody(1), "rules", quoted("r", 1024))
	e.admin().post("/api/v1/admin/vouchers", body+strings.Repeat(" ", 64<<10-len(body))).want(http.StatusCreated)
}

// TestEscapedTimeIsAccepted: JSON permits \u002b for "+", and .NET writes it so.
func TestEscapedTimeIsAccepted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admin().post("/api/v1/admin/vouchers", withField(e.saleBody(1), "end_at", `"2026-11-12T00:00:00\u002b08:00"`)).
		want(http.StatusCreated)
}

// FuzzVoucherBody searches for bodies and ids that cause a panic, a 5xx answer or an answer outside the document.
func FuzzVoucherBody(f *testing.F) {
	for _, b := range invalidBodies {
		f.Add(b.body.(string), "1")
	}
	for field, values := range invalidFields {
		for _, v := range values {
			f.Add(fmt.Sprintf(`{%q:%s}`, field, v), "1")
		}
	}
	for _, id := range invalidIDs {
		f.Add(`{"title":"t"}`, id)
	}
	e := newEnv(f)
	f.Add(withField(e.saleBody(1), "shop_id", `1`), "1")
	f.Add(`{"shop_id":"1","title":"\ud800\u0000","pay_value":0,"actual_value":1}`, "2")
	admin := e.admin().bad()
	f.Fuzz(func(t *testing.T, body, id string) { checkVoucherBody(t, admin.in(t), body, id) })
}

func checkVoucherBody(t *testing.T, c client, body, id string) {
	t.Helper()
	created := c.direct("POST", "/api/v1/admin/vouchers", body)
	require.Less(t, created.status, http.StatusInternalServerError, "%q: %s", body, created.body)
	if created.status == http.StatusCreated {
		assert.True(t, utf8.Valid(created.body))
		c.direct("GET", created.header.Get("Location"), nil).want(http.StatusOK)
	}
	changed := httptest.NewRecorder() // an id with a slash is another route, which the document does not have
	c.env.engine.ServeHTTP(changed, c.request("", "PATCH", "/api/v1/admin/vouchers/"+url.PathEscape(id), body))
	require.Less(t, changed.Code, http.StatusInternalServerError, "%q %q: %s", id, body, changed.Body)
}
