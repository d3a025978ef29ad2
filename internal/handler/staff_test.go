package handler_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/idgen"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/alerts"
	"seckill/internal/ops/reconcile"
	"seckill/internal/out/webhook"
	"seckill/internal/sale/admission"
	"seckill/test/env"
)

var staffRoles = []domain.Role{domain.RoleViewer, domain.RoleRedeemer, domain.RoleOperator, domain.RoleAdmin}

// permissionRow matches a row of the table of roles in docs/integration.md, permittedRoute a route in it.
var (
	permissionRow  = regexp.MustCompile("(?m)^\\| ([a-z]+) \\| (`[A-Z]+ /[^|]*) \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")
	permittedRoute = regexp.MustCompile("`([A-Z]+) (/[^` ]*)`")
)

// TestRolesAsDocumented sends each request of the admin API as each role, and compares the permitted ones with the table
// in docs/integration.md.
func TestRolesAsDocumented(t *testing.T) {
	t.Parallel()
	text := env.Must(os.ReadFile("../../docs/integration.md"))(t)
	want := map[string][]domain.Role{}
	for _, m := range permissionRow.FindAllStringSubmatch(string(text), -1) {
		var roles []domain.Role
		for i, role := range staffRoles {
			permitted := strings.TrimSpace(m[3+i]) == "✓"
			assert.Equal(t, permitted, role.May(domain.Permission(m[1])), "%s: %s", m[1], role)
			if permitted {
				roles = append(roles, role)
			}
		}
		for _, route := range permittedRoute.FindAllStringSubmatch(m[2], -1) {
			want[route[1]+" /api/v1/admin"+route[2]] = roles
		}
	}

	e := newEnv(t, configured(func(cfg *handler.Config) { cfg.Rush = &fakeRusher{last: domain.Rush{State: domain.RushIdle}} }))
	clients := map[domain.Role]client{domain.RoleBuyer: e.buyer(1)}
	for i, role := range staffRoles {
		clients[role] = e.staff("1390000100"+string(rune('0'+i)), role).bad()
	}
	got := map[string][]domain.Role{}
	for _, route := range handler.Routes(e.Config) {
		if !strings.HasPrefix(route.Path, "/api/v1/admin/") {
			continue
		}
		name := route.Method + " " + ginParam.ReplaceAllString(route.Path, "{$1}")
		path, body := strings.ReplaceAll(route.Path, ":id", "999"), any("[]") // invalid, to change nothing
		if route.Method == http.MethodGet {
			path, body = path+"?cursor=-&voucher_id=-", nil
		}
		clients[domain.RoleBuyer].bad().do(route.Method, path, body).problem(http.StatusForbidden, "forbidden")
		for _, role := range staffRoles {
			if clients[role].do(route.Method, path, body).status != http.StatusForbidden {
				got[name] = append(got[name], role)
			}
		}
	}
	assert.Equal(t, want, got)
}

type requestView struct {
	ID, ActorID, Role, Method, Route, Target, Network string
	Actor                                             string
	RequestID                                         string `json:"request_id"`
	Status                                            *int
}

func (r *requestView) brief() string {
	status := "unknown"
	if r.Status != nil {
		status = http.StatusText(*r.Status)
	}
	return strings.TrimSpace(strings.Join([]string{r.Role, r.Method, strings.TrimPrefix(r.Route, "/api/v1"), r.Target, status}, " "))
}

// requests returns the recorded requests of a client, oldest first, without those for the audit log.
func (e *environment) requests(admin, of client) (brief []string) {
	e.t.Helper()
	_, all := walk[requestView](admin, "/api/v1/admin/audit?kind=request&actor_id="+of.login.User.ID, 100)
	for _, r := range slices.Backward(all) {
		if !strings.HasSuffix(r.Route, "/audit") {
			brief = append(brief, r.brief())
		}
	}
	return brief
}

// TestAdminRequestsAreRecorded covers changes, reads, refusals, logins and commands. Equal reads and refusals of a minute are recorded once,
// but those of phone numbers.
func TestAdminRequestsAreRecorded(t *testing.T) {
	e := start(t)
	buyer, v := e.buyer(1), e.sale(9)
	o := buyer.place(v)
	operator, viewer, admin := e.staff("13900000002", domain.RoleOperator), e.staff("13900000003", domain.RoleViewer), e.admin()
	path := "/api/v1/admin/orders/" + o.ID
	const search = "/api/v1/admin/orders?phone=13800000001"

	for range 2 {
		operator.get(path).want(http.StatusOK)
		operator.get(path + "/phone").want(http.StatusOK)
		operator.get(search).want(http.StatusOK)
		viewer.post(path+"/cancel", nil).problem(http.StatusForbidden, "forbidden")
		viewer.get(search).problem(http.StatusForbidden, "forbidden")
	}
	operator.get("/api/v1/admin/orders/77").want(http.StatusNotFound)
	operator.post("/api/v1/admin/orders/search", map[string]string{"phone": "13800000001"}).want(http.StatusOK)
	operator.post(path+"/cancel", nil).want(http.StatusOK)
	operator.post(path+"/cancel", nil).want(http.StatusConflict)
	e.clock.advance(time.Minute)
	operator.get(path).want(http.StatusOK)
	buyer.get("/api/v1/admin/orders").problem(http.StatusForbidden, "forbidden")

	require.Equal(t, []string{
		"operator POST /auth/login  OK",
		"operator GET /admin/orders/:id " + o.ID + " OK",
		"operator GET /admin/orders/:id/phone " + o.ID + " OK",
		"operator GET /admin/orders  OK",
		"operator GET /admin/orders/:id/phone " + o.ID + " OK",
		"operator GET /admin/orders  OK",
		"operator GET /admin/orders/:id 77 Not Found",
		"operator POST /admin/orders/search  OK",
		"operator POST /admin/orders/:id/cancel " + o.ID + " OK",
		"operator POST /admin/orders/:id/cancel " + o.ID + " Conflict",
		"operator GET /admin/orders/:id " + o.ID + " OK", // a minute later
	}, e.requests(admin, operator))
	require.Equal(t, []string{
		"viewer POST /auth/login  OK",
		"viewer POST /admin/orders/:id/cancel " + o.ID + " Forbidden",
		"viewer GET /admin/orders  Forbidden",
	}, e.requests(admin, viewer))
	require.Empty(t, e.requests(admin, buyer))

	command := domain.AdminRequest{At: e.clock.now(), Method: domain.MethodCommand, Route: "reconcile --apply", Target: v.ID}
	require.NoError(t, e.store.RecordRequest(t.Context(), &command))
	_, list := walk[requestView](admin, "/api/v1/admin/audit?kind=request&target="+v.ID, 2)
	require.Len(t, list, 1)
	require.Equal(t, requestView{ID: list[0].ID, Actor: "system", Method: "CLI", Route: "reconcile --apply", Target: v.ID}, list[0])
	_, list = walk[requestView](admin, "/api/v1/admin/audit?kind=request&target="+o.ID, 2)
	require.Equal(t, "127.0.0.0/24", list[0].Network)
	require.NotEmpty(t, list[0].RequestID)
}

// While the audit log cannot be written, changes and reads of phone numbers are refused, and other reads are answered.
func TestUnrecordedChangeDoesNotRun(t *testing.T) {
	e := start(t, configured(func(cfg *handler.Config) { cfg.Store = brokenAudit{cfg.Store} }))
	v := e.saleBody(9)
	admin := e.admin()
	admin.post("/api/v1/admin/vouchers", v).problem(http.StatusServiceUnavailable, "unavailable")
	admin.get("/api/v1/admin/orders?phone=13800000001").problem(http.StatusServiceUnavailable, "unavailable")
	admin.get("/api/v1/admin/orders/77/phone").problem(http.StatusServiceUnavailable, "unavailable")
	admin.get("/api/v1/admin/orders").want(http.StatusOK)
	require.NotEmpty(t, e.logs.of("WARN"), "the read is in the log instead")
	require.Empty(t, env.Must(e.store.NewestVouchers(t.Context(), 10))(t))
}

type brokenAudit struct{ handler.Store }

func (brokenAudit) RecordRequest(context.Context, *domain.AdminRequest) error {
	return domain.ErrUnavailable
}

// TestAdminAnswersMaskPhones searches the answers of all admin routes, and the audit log, for a buyer's phone number and for the
// redeem code, which proves ownership.
func TestAdminAnswersMaskPhones(t *testing.T) {
	e := start(t)
	v := e.sale(9)
	o, paid := e.buyer(1).place(v), e.buyer(1).paid(e.sale(9)).Order
	admin := e.admin()
	const full = "13800000001"
	code := domain.NewRedeemCodes(keys).Of(mustID(t, paid.ID))
	admin.get("/api/v1/admin/orders/" + o.ID + "/phone").want(http.StatusOK)
	for _, a := range []answer{
		admin.get("/api/v1/admin/orders?phone=" + full),
		admin.post("/api/v1/admin/orders/search", map[string]string{"phone": full}),
		admin.post("/api/v1/admin/orders/search?status=paid", map[string]string{"phone": full}),
		admin.get("/api/v1/admin/orders/" + o.ID),
		admin.get("/api/v1/admin/orders/" + paid.ID),
		admin.post("/api/v1/admin/orders/"+o.ID+"/cancel", nil),
		admin.post("/api/v1/admin/orders/"+paid.ID+"/redeem", nil),
		admin.get(v.adminPath() + "/stats"),
		admin.get("/api/v1/admin/audit?limit=100"),
		admin.get("/api/v1/admin/audit?kind=request&limit=100"),
	} {
		a.want(http.StatusOK)
		if strings.Contains(a.what, "/orders") {
			assert.Regexp(t, `138\*\*\*\*0001|"status":"(cancelled|redeemed)"`, string(a.body), a.what)
		}
		assert.NotContains(t, string(a.body), full, a.what)
		assert.NotContains(t, string(a.body), code, a.what)
	}
	stored := e.dumpOf("admin_requests", "audit_log")
	assert.Contains(t, stored, "/admin/orders/search")
	assert.NotContains(t, stored, full)
	admin.bad().post("/api/v1/admin/orders/search", map[string]string{"phone": ""}).problem(http.StatusBadRequest, "invalid_request")
}

// file returns the records of a CSV answer, by the names of the columns.
func (a answer) file() []map[string]string { a.t.Helper(); return a.records(',') }

func (a answer) records(separator rune) (rows []map[string]string) {
	a.t.Helper()
	a.want(http.StatusOK)
	require.Equal(a.t, "text/csv; charset=utf-8; header=present", a.header.Get("Content-Type"))
	text, marked := strings.CutPrefix(string(a.body), "\uFEFF")
	require.True(a.t, marked, "a byte order mark")
	file := csv.NewReader(strings.NewReader(text))
	file.Comma = separator
	records := env.Must(file.ReadAll())(a.t)
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestExports(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		viewer := e.staff("13900000003", domain.RoleViewer)
		read := func(file string) []map[string]string { return viewer.get("/api/v1/admin/" + file).file() }
		const title = "=HYPERLINK(\"http://x\", \"win\"),\n100 元"
		v, other := e.sale(300, with("title", title)), e.sale(5)
		var newest orderView
		for n := range domain.MaxPageSize + 3 { // more than a page
			newest = e.buyer(n).place(v)
		}
		paid := e.buyer(999).paid(other)
		e.notify(e.noticeOf(paymentView{Ref: "paid-twice"}, paid.Order, "succeeded")).want(http.StatusOK)
		e.exec("INSERT INTO payments (order_id, provider, provider_ref, amount, currency, status, created_at, updated_at) "+
			"VALUES (77, 'sandbox', '=1+1', 500, 'JPY', 2, ?, ?)", e.clock.now(), e.clock.now()) // of an order that does not exist

		rows := read("orders.csv")
		require.Len(t, rows, domain.MaxPageSize+4)
		require.Equal(t, paid.Payment.Ref, rows[0]["payment_ref"])
		rows = read("orders.csv?voucher_id=" + v.ID)
		require.Len(t, rows, domain.MaxPageSize+3)
		require.Equal(t, map[string]string{
			"order_id": newest.ID, "voucher_id": v.ID, "title": "'" + title, "user_id": newest.UserID, "phone": "138****0102", "status": "pending_payment",
			"amount": "80.00", "currency": "CNY", "created_at_utc": "2026-11-11 12:00:00", "expires_at_utc": "2026-11-11 12:15:00",
			"paid_at_utc": "", "redeemed_at_utc": "", "cancelled_at_utc": "", "refunded_at_utc": "",
			"sub_title": "", "rules": "", "shop_id": "1", "shop_name": "", "face_value": "100.00", "payment_ref": "",
			"valid_from_utc": "", "valid_until_utc": "",
		}, rows[0])

		rows = read("payments.csv")
		require.Len(t, rows, 3)
		require.Subset(t, rows[0], map[string]string{"provider_ref": "'=1+1", "amount": "500", "currency": "JPY", "order_id": "77", "voucher_id": ""})
		require.Subset(t, rows[1], map[string]string{"order_id": paid.Order.ID, "voucher_id": other.ID, "status": "refunding"})
		require.Len(t, read("payments.csv?voucher_id="+other.ID), 2)

		rows = read("audit.csv?voucher_id=" + v.ID)
		require.Equal(t, "create_voucher", rows[len(rows)-1]["action"])
		rows = read("audit.csv?kind=request")
		require.Subset(t, rows[0], map[string]string{"route": "/api/v1/admin/audit.csv", "role": "viewer", "user_id": viewer.login.User.ID})
		require.Equal(t, 6, len(rows)-e.count("admin_requests WHERE route NOT LIKE '%.csv'"), "every export is recorded, before it runs")
		viewer.bad().get("/api/v1/admin/audit.csv?kind=request&voucher_id=1").problem(http.StatusBadRequest, "invalid_request")
	})
}

// TestExportForRegion: a file for a spreadsheet program whose decimal separator is a comma, with the days of a time zone, the
// language of the page, and ids that keep their digits. TestExactCells and TestSheetTexts have the cells.
// Source: mui/mui-x#3689, Automattic/woocommerce-payments#8522, pretix/pretix#5695, ApamaCommunity/apama-log-analyzer#5.
func TestExportForRegion(t *testing.T) {
	e := start(t)
	e.clock.advance(270 * time.Minute) // 16:30 in UTC, 00:30 of the next day in Shanghai
	v := e.sale(9, with("pay_value", 1205))
	paid := e.buyer(1).paid(v)
	admin := e.admin()
	read := func(name, query string) map[string]string {
		a := admin.raw("GET", "/api/v1/admin/"+name+".csv?tz=Asia/Shanghai&decimal=,"+query, nil) // the document's reader knows commas only
		require.Equal(t, `attachment; filename="`+name+`-2026-11-12.csv"`, a.header.Get("Content-Disposition"))
		return a.records(';')[0]
	}
	payment := read("payments", "&separator=;") // as people type it
	assert.Equal(t, "12,05", payment["amount"])
	assert.Equal(t, "2026-11-12 00:30:00", payment["created_at (Asia/Shanghai)"])
	assert.Equal(t, paid.Order.ID, payment["order_id"])
	for lang, want := range map[string]map[string]string{
		"en": {"Order": paid.Order.ID + "\t", "Sale ID": v.ID + "\t", "Status": "Paid", "Face value": "100,00", "Payment reference": payment["provider_ref"]},
		"zh": {"订单号": paid.Order.ID + "\t", "活动 ID": v.ID + "\t", "状态": "已支付", "面值": "100,00", "支付时间 (Asia/Shanghai)": "2026-11-12 00:30:00"},
	} {
		assert.Subset(t, read("orders", "&separator=%3B&ids=text&lang="+lang), want)
	}
	for _, name := range []string{"orders", "payments", "audit"} {
		for column := range read(name, "&separator=%3B&lang=zh") {
			assert.NotRegexp(t, `^\w+$`, column, name)
		}
	}

	for _, query := range []string{"tz=Mars", "tz=", "tz=Local", "tz=../etc/passwd", "separator=x", "separator=", "decimal=;", "lang=de", "lang=", "ids=digits"} {
		p := admin.bad().get("/api/v1/admin/orders.csv?"+query).problem(http.StatusBadRequest, "invalid_request")
		name, _, _ := strings.Cut(query, "=")
		assert.Equal(t, []string{name}, p.fields(), query)
	}
}

// TestUnfinishedExport: an export that fails before its first part has an error answer. Later its connection is closed, so
// that no client takes a part for the whole. Otherwise it has all pages.
func TestUnfinishedExport(t *testing.T) {
	e := start(t)
	viewer, buyer := e.staff("13900000003", domain.RoleViewer), e.buyer(1)
	sales := []voucherView{e.sale(99, with("limit_per_user", 99)), e.sale(99, with("limit_per_user", 99))}
	var orders []domain.NewOrder
	for n := range int64(domain.MaxPageSize + 1) {
		orders = append(orders, domain.NewOrder{Limit: 99, Order: domain.Order{
			ID: 1 + n, UserID: mustID(t, buyer.login.User.ID), VoucherID: sales[n%2].number(), Currency: "CNY",
			Status: domain.OrderPendingPayment, CreatedAt: e.clock.now(), ExpiresAt: e.clock.now(),
		}})
	}
	for _, placed := range e.store.PlaceOrders(t.Context(), orders) {
		require.NoError(t, placed.Err)
	}

	for path, c := range map[string]client{"/api/v1/admin/orders.csv": viewer, "/api/v1/me/export": buyer} {
		for calls := int64(1); ; calls++ {
			e.store.failFrom(calls)
			e.http.CloseIdleConnections() // a request on a used connection would be repeated
			res, err := e.http.Do(c.request(e.url, http.MethodGet, path, nil))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				require.NoError(t, res.Body.Close())
			}
			if err != nil {
				require.ErrorContains(t, err, "EOF", path)
				require.Greater(t, calls, int64(1), path)
				break
			}
			require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, path)
			require.Empty(t, res.Header.Get("Content-Disposition"), path)
		}
	}
	e.store.fail(nil)
	require.Len(t, viewer.get("/api/v1/admin/orders.csv").file(), len(orders))
	require.Len(t, decode[exportView](buyer.get("/api/v1/me/export").want(http.StatusOK)).Orders, len(orders))
}

// manyPayments has pages of payments of another sale, and calls before ahead of each read, with the number of earlier ones.
type manyPayments struct {
	handler.Store
	pages, read int
	before      func(read int)
}

func (p *manyPayments) ListPayments(_ context.Context, page domain.Page) ([]domain.SalePayment, error) {
	p.before(p.read)
	if p.read++; p.read > p.pages {
		return nil, nil
	}
	return make([]domain.SalePayment, page.Limit), nil
}

// TestFilesOfManyPages: a file of any length needs the memory of a page, most of which is sent before the next one is read. It is
// complete even if it takes longer than an answer may: the payments of a sale are searched among those of all sales.
func TestFilesOfManyPages(t *testing.T) {
	sent := 0 // lines
	payments := &manyPayments{pages: 50, before: func(read int) {
		if read > 0 {
			require.Greater(t, sent, (read-1)*domain.MaxPageSize)
		}
	}}
	e := start(t, configured(func(cfg *handler.Config) { payments.Store, cfg.Store = cfg.Store, payments }))
	admin := e.admin()
	admin.take("/api/v1/admin/payments.csv", func(part []byte) { sent += bytes.Count(part, []byte("\n")) })
	require.Equal(t, 1+payments.pages*domain.MaxPageSize, sent)

	payments.read, payments.before = 0, func(int) { time.Sleep(20 * time.Millisecond) }
	srv := httptest.NewUnstartedServer(e.handler)
	srv.Config.WriteTimeout = 200 * time.Millisecond // of package app, in small
	srv.Start()
	t.Cleanup(srv.Close)
	e.url = srv.URL
	require.Empty(t, admin.get("/api/v1/admin/payments.csv?voucher_id=7").want(http.StatusOK).file())
}

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
	eachEnv(t, func(t *testing.T, e *environment) {
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
			"phone_end=" + url.QueryEscape("\u200e****００ 01。\n") + "&title=tea":                 {b.ID},
			"created_from" + later:                                        {c.ID},
			"created_to" + later + "&status=pending_payment":              {b.ID, a.ID},
			"created_from=2003-01-01T00:00:00%2B08:00&created_to" + later: {gone.ID, b.ID, a.ID},
		} {
			assert.Equal(t, want, admin.find("?"+query), query)
		}
		admin.bad().get("/api/v1/admin/orders?created_from=2003-01-01T00:00:00+08:00").want(http.StatusOK) // a + that is not escaped
		e.exec("UPDATE users SET deleted_at = created_at WHERE phone = '13800010001'")                     // an erased user has no phone number
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
		for _, query := range []string{"title=50%", "status=%zz"} {
			p := admin.bad().get("/api/v1/admin/orders?"+query).problem(http.StatusBadRequest, "invalid_request")
			assert.Equal(t, []string{"query"}, p.fields(), query)
		}
		assert.Empty(t, decode[listView[adminOrderView]](admin.bad().get("/api/v1/admin/orders?title=coffee;").want(http.StatusOK)).Items)
	}, func(s *setup) {
		s.ids = newIDs()
		s.ids.last.Store(idgen.First(newClock().now()))
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
// shop another code is of. A refusal changes nothing. Only a redeemer is bound to shops, which exist.
func TestRedeemerOfShops(t *testing.T) {
	e := start(t)
	tea, noodles := e.newShop("Tea"), e.newShop("Noodles")
	shop := mustID(t, tea.ID)
	for role, shops := range map[domain.Role]domain.ShopIDs{
		domain.RoleOperator: {shop}, domain.RoleRedeemer: {shop, 999}, "": make(domain.ShopIDs, 51),
	} {
		_, _, err := e.admins.Enroll(t.Context(), "13900000004", role, shops)
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid, role)
		require.Equal(t, "shops", invalid.Fields[0].Field)
	}
	require.NotContains(t, e.dumpOf("users"), "13900000004")

	codes := map[string]map[string]any{}
	for n, shop := range []shopView{tea, noodles} {
		v := e.sale(1, func(b map[string]any) { b["shop_id"] = shop.ID })
		buyer := e.buyer(n)
		o := decode[orderView](buyer.get(buyer.paid(v).Order.path()).want(http.StatusOK))
		codes[shop.ID] = map[string]any{"code": o.RedeemCode}
		e.admin().patch(v.adminPath(), map[string]any{"shop_id": tea.ID}).want(http.StatusOK)
	}

	cashier := e.staff("13900000004", domain.RoleRedeemer, shop)
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

// A code shows what it stands for, before and after it is redeemed. The preview changes nothing, and is recorded.
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
	require.Equal(t, []string{failed}, admin.find(byUser+"&id="+failed))
	for _, other := range []string{"&voucher_id=77", "&created_from=2030-01-01T00:00:00Z", "&created_to=2003-01-01T00:00:00Z"} {
		require.Empty(t, admin.find(byUser+other), other)
	}
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

type deadLetterView struct {
	ID, Reason string
	OrderID    string `json:"order_id"`
	UserID     string `json:"user_id"`
	VoucherID  string `json:"voucher_id"`
	Tries      int
	Fields     map[string]string
}

const deadLettersPath = "/api/v1/admin/dead-letters"

// TestDeadLetterPages reads dead letters of several shards page by page. One that is no order can only be discarded.
func TestDeadLetterPages(t *testing.T) {
	e := startQueue(t)
	var want []string
	for i := range 3 {
		want = append([]string{e.buyer(i).queue(e.sale(1))}, want...)
		e.deadLetter(fmt.Sprintf("poison %d", i))
	}
	stream := admission.Streams()[3]
	entryID := env.Must(e.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"what", "ever"}}).Result())(t)
	require.NoError(t, e.gate.MoveToDeadLetters(t.Context(), stream, entryID, "no order"))

	admin := e.admin()
	sizes, all := walk[deadLetterView](admin, deadLettersPath, 3)
	require.Equal(t, []int{3, 1}, sizes)
	assert.Equal(t, deadLetterView{ID: all[0].ID, Reason: "no order", Tries: 1, Fields: map[string]string{"what": "ever"}}, all[0])
	for i, l := range all[1:] {
		assert.Equal(t, []any{want[i], want[i], 5}, []any{l.OrderID, l.Fields["order"], l.Tries})
		assert.Equal(t, "poison "+strconv.Itoa(2-i), l.Reason, "newest first")
	}

	path := deadLettersPath + "/" + all[0].ID
	admin.post(path+"/replay", nil).problem(http.StatusConflict, "invalid_state")
	admin.post(path+"/discard", nil).want(http.StatusNoContent)
	admin.post(path+"/discard", nil).problem(http.StatusNotFound, "not_found")
	log := string(admin.get("/api/v1/admin/audit").want(http.StatusOK).body)
	assert.Equal(t, 1, strings.Count(log, "discard_dead_letter"))
	assert.NotContains(t, log, "replay_dead_letter")
}

// TestReplayDeadLetter queues an order again, unless the sale is sold out or the buyer has another order.
func TestReplayDeadLetter(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		v, buyer, other := e.sale(1), e.buyer(1), e.buyer(2)
		id := buyer.queue(v)
		e.deadLetter("poison")
		letter := decode[listView[deadLetterView]](e.admin().get(deadLettersPath).want(http.StatusOK)).Items[0]
		replay := func() answer { return e.admin().post(deadLettersPath+"/"+letter.ID+"/replay", nil) }

		taken := other.queue(v)
		replay().problem(http.StatusConflict, "sold_out")
		e.work()
		other.post(orderPath(taken)+"/cancel", nil).want(http.StatusOK)
		again := buyer.queue(v)
		assert.Equal(t, again, replay().problem(http.StatusConflict, "duplicate_order").OrderID)
		e.work()
		buyer.post(orderPath(again)+"/cancel", nil).want(http.StatusOK)
		require.NoError(t, e.gate.Unload(t.Context(), v.number())) // the replay loads the gate

		admin := e.admin()
		assert.Empty(t, admin.audit("order_id="+id), "nothing was done")
		assert.Equal(t, queuedView{OrderID: id, Status: "queued"}, decode[queuedView](replay().want(http.StatusAccepted)))
		assert.Equal(t, []auditEntry{{"admin", "replay_dead_letter", letter.ID, admin.login.User.ID, v.ID}}, admin.audit("order_id="+id))
		replay().problem(http.StatusNotFound, "not_found")
		e.work()
		assert.Equal(t, "pending_payment", buyer.status(orderView{ID: id}))
	})
}

// TestAlerts: the routes report violated invariants, dead letters and events that do not arrive.
func TestAlerts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		v := e.sale(5)
		viewer := e.staff("13900000007", domain.RoleViewer)
		get := func() (a alerts.Alerts) {
			for try := 0; try < 20 && a.DeadLetters == nil; try++ { // it is absent if Redis does not answer in half a second
				a = decode[alerts.Alerts](viewer.get("/api/v1/admin/alerts").want(http.StatusOK))
			}
			return a
		}
		a, none := get(), int64(0)
		require.Equal(t, alerts.Alerts{DeadLetters: &none, Violations: a.Violations[:0], FailingRefunds: a.FailingRefunds[:0]}, a)

		e.notify(e.noticeOf(paymentView{Ref: "unknown"}, orderView{ID: "12345", Amount: 1}, "refunded")).problem(http.StatusNotFound, "not_found")
		for i, columns := range []string{ // status, tries, error
			"4, 5, 'card closed'",
			"4, 4, 'card closed'", // may still succeed
			"5, 9, 'card closed'", // has been refunded
			"4, 5, ''",            // the request is running
		} {
			e.exec(fmt.Sprintf("INSERT INTO payments (order_id, provider, provider_ref, amount, created_at, updated_at, status, refund_tries, refund_error) "+
				"VALUES (%d, 'bank', 'pay_%d', 8000, '2026-11-09', '2026-11-09', %s)", i+1, i+1, columns))
		}
		e.buyer(1).queue(v)
		e.deadLetter("poison")
		e.damaged = true
		e.exec("UPDATE seckill_vouchers SET stock = stock + 3 WHERE voucher_id = " + v.ID)
		for i, columns := range []string{ // status, tries, answered_at, repeated_at
			"3, 9, '2026-11-10', NULL",         // given up
			"1, 2, '2026-11-10', NULL",         // failing
			"1, 1, NULL, NULL",                 // the first delivery is running
			"1, 1, '2026-11-09', '2026-11-10'", // sent again, the delivery is running
			"2, 1, '2026-11-10', NULL",         // delivered
		} {
			e.exec(fmt.Sprintf("INSERT INTO order_events (order_id, type, created_at, status, tries, answered_at, repeated_at) VALUES (%d, 'order.paid', '2026-11-09', %s)", i+1, columns))
		}
		env.InBackground(t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.DiscardHandler), e.Reconciler.Task()) })
		require.Eventually(t, func() bool { a = get(); return a.CheckedAt != nil && len(a.Violations) > 0 }, time.Minute, 20*time.Millisecond)
		require.Equal(t, v.number(), a.Violations[0].VoucherID)
		require.Equal(t, reconcile.KindI3, a.Violations[0].Invariant)
		require.EqualValues(t, 1, *a.DeadLetters)
		require.Equal(t, 2, a.FailingEvents)
		require.EqualValues(t, 1, a.UnreadNotices)
		require.Equal(t, []alerts.FailingRefund{{OrderID: 1, Ref: "pay_1", Tries: 5, Error: "card closed"}}, a.FailingRefunds)
		log := string(e.admin().get("/api/v1/admin/audit?kind=request").want(http.StatusOK).body)
		require.Contains(t, log, "/auth/login")
		require.NotContains(t, log, "/admin/alerts", "polls fill no log")
	})
}

// fakeRusher is a domain.Rusher without buyers.
type fakeRusher struct {
	last    domain.Rush
	started int
}

func (r *fakeRusher) Start(_ context.Context, _ *domain.Claim, _ int64, plan domain.RushPlan) (domain.Rush, error) {
	if r.last.State == domain.RushRunning {
		return domain.Rush{}, domain.ErrInvalidState
	}
	r.started++
	r.last = domain.Rush{State: domain.RushRunning, VoucherID: 7, Buyers: plan.Buyers, Stock: plan.Stock}
	return r.last, nil
}

func (r *fakeRusher) Last() domain.Rush { return r.last }

func (r *fakeRusher) Stop(context.Context) {
	r.last = domain.Rush{
		State: domain.RushDone, VoucherID: 7, Buyers: 2, Stock: 1, Answered: 2, Orders: 1, Took: domain.Milliseconds(time.Second), P50: 1234567, P99: 2e6,
		Outcomes: map[string]int{"ok": 1}, Verdicts: []domain.Verdict{domain.NewVerdict("I1", true, "1 sold of 1")},
	}
}

// TestRushRoutes covers the routes only, with a fake load simulation.
func TestRushRoutes(t *testing.T) {
	t.Parallel()
	r := &fakeRusher{last: domain.Rush{State: domain.RushIdle}}
	e := newEnv(t, configured(func(cfg *handler.Config) { cfg.Rush = r }))
	admin, path := e.admin(), "/api/v1/admin/rush"
	assert.Equal(t, "idle", decode[map[string]any](admin.get(path).want(http.StatusOK))["state"])
	for _, body := range []string{
		``, `{}`, `{"buyers":0,"stock":1}`, `{"buyers":1,"stock":0}`, `{"buyers":5001,"stock":1}`, `{"buyers":1,"stock":10001}`,
		`{"buyers":1,"stock":1,"for":61}`, `{"buyers":1,"stock":1,"for":-1}`, `{"buyers":1,"stock":1,"for":"20s"}`,
		`{"buyers":1,"stock":1,"more":1}`, `{"buyers":"1","stock":1}`,
	} {
		admin.bad().post(path, body).problem(http.StatusBadRequest, "invalid_request")
	}
	assert.Zero(t, r.started)
	body := map[string]any{"buyers": 5000, "stock": 10000}
	once := admin.with("Idempotency-Key", "rush")
	for range 2 {
		got := decode[map[string]any](once.post(path, body).want(http.StatusAccepted))
		assert.Equal(t, "running", got["state"])
		assert.Equal(t, "7", got["voucher_id"])
	}
	assert.Equal(t, 1, r.started)
	admin.post(path, body).problem(http.StatusConflict, "invalid_state")
	admin.do(http.MethodDelete, path, nil).want(http.StatusNoContent)
	done := decode[map[string]any](admin.get(path).want(http.StatusOK))
	assert.InDelta(t, 1.23, done["p50_ms"], 0.001)
	assert.Len(t, done["verdicts"], 1)

	admin = newEnv(t).admin() // outside demo mode, the answer names the setting
	for method, body := range map[string]any{http.MethodPost: map[string]any{"buyers": 1, "stock": 1}, http.MethodGet: nil, http.MethodDelete: nil} {
		p := admin.do(method, "/api/v1/admin/rush", body).problem(http.StatusForbidden, "forbidden")
		assert.Contains(t, p.Detail, "SECKILL_DEMO")
	}
}

const reconcilePath = "/api/v1/admin/reconcile"

type reconcileView struct {
	Reports []reconcile.Report
	LeftOut int64 `json:"left_out"`
}

func (v voucherView) gateKey(t testing.TB, name string) string {
	return strings.TrimSuffix(admission.Streams()[v.number()%16], "orders") + v.ID + ":" + name
}

func TestReconcileRoutes(t *testing.T) {
	e := startQueue(t)
	v, other := e.sale(5), e.sale(5)
	id := e.buyer(1).queue(v)
	e.work()
	me := e.buyer(1).login.User.ID
	get := func(query string) reconcileView {
		return decode[reconcileView](e.admin().get(reconcilePath + query).want(http.StatusOK))
	}
	all := get("")
	require.Len(t, all.Reports, 2)
	assert.Equal(t, other.number(), all.Reports[0].VoucherID, "newest first")
	assert.Zero(t, all.LeftOut)
	assert.Empty(t, all.Reports[1].Findings)
	assert.Equal(t, e.clock.now(), all.Reports[1].CheckedAt)

	require.NoError(t, e.rdb.HDel(t.Context(), v.gateKey(t, "buyers"), me).Err())
	require.NoError(t, e.rdb.Incr(t.Context(), v.gateKey(t, "stock")).Err())
	found := env.Only(t, get("?voucher_id=" + v.ID).Reports[0].Findings)
	oldest := e.clock.now().Add(-time.Hour)
	assert.Contains(t, found.Detail, "the gate offers 1 nonexistent unit; ")
	assert.Equal(t, reconcile.Finding{
		Kind: reconcile.KindGateDiffers, Detail: found.Detail, Count: 1, Oldest: &oldest, Repairable: true,
		Orders: []domain.Holder{{OrderID: mustID(t, id), UserID: mustID(t, me)}},
	}, found)

	before := e.dump()
	repaired := decode[reconcileView](e.admin().post(reconcilePath, nil).want(http.StatusOK))
	assert.True(t, env.Only(t, repaired.Reports[1].Findings).Repaired)
	again := decode[reconcileView](e.admin().post(reconcilePath, map[string]any{"voucher_id": v.ID}).want(http.StatusOK))
	assert.Empty(t, env.Only(t, again.Reports).Findings)
	assert.Equal(t, id, e.buyer(1).post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order").OrderID)
	assert.Equal(t, rows(before, "voucher_orders"), rows(e.dump(), "voucher_orders"), "the database is unchanged")
}

func rows(dump, table string) (kept []string) {
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, table+" ") {
			kept = append(kept, line)
		}
	}
	return kept
}

// TestEveryFindingIsDocumented: the API document and docs/operations.md have every kind of finding.
func TestEveryFindingIsDocumented(t *testing.T) {
	t.Parallel()
	k := env.Must(theContract())(t)
	page := env.Must(os.ReadFile("../../docs/operations.md"))(t)
	var words []any
	for _, kind := range reconcile.Kinds() {
		words = append(words, string(kind))
		assert.Contains(t, string(page), "\n| `"+string(kind)+"` |")
	}
	assert.Equal(t, words, k.doc.Components.Schemas["Finding"].Value.Properties["kind"].Value.Enum)
}

// The events of an order are delivered in order, shown with their body and the last answer, and repeated by an operator.
func TestOrderEvents(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		e.store.RecordEvents()
		type event struct {
			ID, Type string
			Data     orderView
		}
		status, bodies := 0, []event(nil)
		sender := &webhook.Outbox{
			Store: e.store, Encode: handler.EncodeEvent, Now: e.clock.now, Log: slog.New(slog.DiscardHandler),
			Post: func(_ context.Context, text []byte) (webhook.Answer, error) {
				if status == 0 {
					return webhook.Answer{}, errors.New("connection refused")
				}
				var body event
				err := json.Unmarshal(text, &body)
				bodies = append(bodies, body)
				return webhook.Answer{Status: status, Body: []byte("noted")}, err
			},
		}
		buyer, admin := e.buyer(1), e.admin()
		p := buyer.paid(e.sale(1))

		type item struct {
			ID, Status, Answer string
			Tries              int
			AnswerStatus       int `json:"answer_status"`
			Payload            event
		}
		list := func(query string) []item {
			return decode[struct{ Items []item }](admin.get("/api/v1/admin/events?" + query).want(http.StatusOK)).Items
		}
		require.ErrorContains(t, sender.SendDue(t.Context()), "connection refused")
		pending := list("status=pending&order_id=" + p.Order.ID)
		require.Len(t, pending, 2)
		first := pending[1]
		assert.Equal(t, []any{"pending", "connection refused", 1, 0}, []any{first.Status, first.Answer, first.Tries, first.AnswerStatus})
		assert.Zero(t, pending[0].Tries, "the later events wait")

		status = http.StatusAccepted
		admin.post("/api/v1/admin/events/"+first.ID+"/repeat", nil).want(http.StatusNoContent)
		require.NoError(t, sender.SendDue(t.Context()))
		require.Len(t, bodies, 2)
		paid := bodies[1]
		assert.Equal(t, []any{"order.paid", "paid", p.Order.ID}, []any{paid.Type, paid.Data.Status, paid.Data.ID})
		assert.Empty(t, paid.Data.RedeemCode, "the code is the buyer's")
		delivered := env.Only(t, list("status=delivered&limit=1"))
		assert.Equal(t, []any{"noted", http.StatusAccepted, paid}, []any{delivered.Answer, delivered.AnswerStatus, delivered.Payload})
		assert.Empty(t, list("status=failed"))

		admin.post("/api/v1/admin/events/"+first.ID+"/repeat", nil).want(http.StatusNoContent)
		require.NoError(t, sender.SendDue(t.Context()))
		require.Len(t, bodies, 3)
		assert.Equal(t, bodies[0], bodies[2], "a repeated event has the same id and body")
	})
}
