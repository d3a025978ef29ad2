package handler_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/idgen"
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
	for _, route := range e.engine.Routes() {
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
	list := env.Must(e.store.NewestVouchers(t.Context(), 10))(t)
	require.Empty(t, list)
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
		admin.get("/api/v1/admin/orders?id=" + paid.ID),
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
		paid := e.buyer(999).pay(e.buyer(999).place(other)).Order
		e.exec("INSERT INTO payments (order_id, provider, provider_ref, amount, currency, status, created_at, updated_at) "+
			"VALUES (77, 'sandbox', '=1+1', 500, 'JPY', 2, ?, ?)", e.clock.now(), e.clock.now()) // of an order that does not exist

		require.Len(t, read("orders.csv"), domain.MaxPageSize+4)
		rows := read("orders.csv?voucher_id=" + v.ID)
		require.Len(t, rows, domain.MaxPageSize+3)
		require.Equal(t, map[string]string{
			"order_id": newest.ID, "voucher_id": v.ID, "title": "'" + title, "user_id": newest.UserID, "phone": "138****0102", "status": "pending_payment",
			"amount": "80.00", "currency": "CNY", "created_at_utc": "2026-11-11 12:00:00", "expires_at_utc": "2026-11-11 12:15:00",
			"paid_at_utc": "", "redeemed_at_utc": "", "cancelled_at_utc": "", "refunded_at_utc": "",
			"sub_title": "", "rules": "", "shop_id": "1", "shop_name": "", "face_value": "100.00", "payment_ref": "",
			"valid_from_utc": "", "valid_until_utc": "",
		}, rows[0])

		rows = read("payments.csv")
		require.Len(t, rows, 2)
		require.Subset(t, rows[0], map[string]string{"provider_ref": "'=1+1", "amount": "500", "currency": "JPY", "order_id": "77", "voucher_id": ""})
		require.Subset(t, rows[1], map[string]string{"order_id": paid.ID, "voucher_id": other.ID, "status": "pending"})
		require.Len(t, read("payments.csv?voucher_id="+other.ID), 1)

		rows = read("audit.csv?voucher_id=" + v.ID)
		require.Equal(t, "create_voucher", rows[len(rows)-1]["action"])
		rows = read("audit.csv?kind=request")
		require.Subset(t, rows[0], map[string]string{"route": "/api/v1/admin/audit.csv", "role": "viewer", "user_id": viewer.login.User.ID})
		require.Equal(t, 6, len(rows)-e.count("admin_requests WHERE route NOT LIKE '%.csv'"), "every export is recorded, before it runs")
		viewer.bad().get("/api/v1/admin/audit.csv?kind=request&voucher_id=1").problem(http.StatusBadRequest, "invalid_request")
	})
}

// TestExportForRegion: a file for a spreadsheet program whose decimal separator is a comma, with the days of a time zone, the
// language of the page, and ids that keep their digits. TestCells, TestExactCells and TestSheetTexts have the cells.
// Source: mui/mui-x#3689, Automattic/woocommerce-payments#8522, pretix/pretix#5695, ApamaCommunity/apama-log-analyzer#5.
func TestExportForRegion(t *testing.T) {
	e := start(t)
	e.clock.advance(270 * time.Minute) // 16:30 in UTC, 00:30 of the next day in Shanghai
	v := e.sale(9, with("pay_value", 1205))
	paid := e.buyer(1).paid(v)
	admin := e.admin()
	read := func(name, query string) map[string]string {
		a := admin.raw("GET", "/api/v1/admin/"+name+".csv?tz=Asia/Shanghai&decimal=,"+query, nil) // the document's reader knows commas only
		a.t = t
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

// TestUnfinishedExport: an export that fails before its first row has an error answer. Later its connection is closed, so
// that no client takes a part for the whole.
func TestUnfinishedExport(t *testing.T) {
	e := start(t)
	viewer, v := e.staff("13900000003", domain.RoleViewer), e.sale(300)
	var orders []domain.NewOrder
	for n := range int64(domain.MaxPageSize + 1) {
		orders = append(orders, domain.NewOrder{Limit: 1, Order: domain.Order{
			ID: 1 + n, UserID: 1000 + n, VoucherID: v.number(), Status: domain.OrderPendingPayment, CreatedAt: e.clock.now(), ExpiresAt: e.clock.now(),
		}})
	}
	for _, placed := range e.store.PlaceOrders(t.Context(), orders) {
		require.NoError(t, placed.Err)
	}
	for calls := int64(1); ; calls++ {
		e.store.failFrom(calls)
		res := env.Must(e.http.Do(viewer.request(e.url, http.MethodGet, "/api/v1/admin/orders.csv", nil)))(t)
		_, err := io.ReadAll(res.Body)
		require.NoError(t, res.Body.Close())
		if res.StatusCode == http.StatusOK {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, fmt.Sprint(calls))
			break
		}
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	}
	e.store.fail(nil)
	require.Len(t, viewer.get("/api/v1/admin/orders.csv").file(), domain.MaxPageSize+1)
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

func (p *manyPayments) from(cfg *handler.Config) {
	p.Store = cfg.Store
	cfg.Store = p
}

// The payments of a sale are searched among those of all sales, which takes longer than an answer may. The file is complete
// nevertheless.
func TestPaymentsOfSaleAmongMany(t *testing.T) {
	payments := &manyPayments{pages: 50, before: func(int) { time.Sleep(20 * time.Millisecond) }}
	e := start(t, configured(payments.from))
	srv := httptest.NewUnstartedServer(e.handler)
	srv.Config.WriteTimeout = 200 * time.Millisecond // of package app, in small
	srv.Start()
	t.Cleanup(srv.Close)
	admin := e.admin()
	e.url = srv.URL

	require.Empty(t, admin.get("/api/v1/admin/payments.csv?voucher_id=7").want(http.StatusOK).file())
}

// TestFilesAreSentPageByPage: a file of any length needs the memory of a page, which is sent before the next one is read.
func TestFilesAreSentPageByPage(t *testing.T) {
	sent := 0 // lines
	payments := &manyPayments{pages: 100, before: func(read int) {
		if read > 0 {
			require.Equal(t, 1+read*domain.MaxPageSize, sent)
		}
	}}
	e := start(t, configured(payments.from))
	e.admin().take("/api/v1/admin/payments.csv", func(part []byte) { sent += bytes.Count(part, []byte("\n")) })
	require.Equal(t, 1+payments.pages*domain.MaxPageSize, sent)
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
			"phone_end=" + url.QueryEscape("\u200e００ 01\n") + "&title=tea":                      {b.ID},
			"created_from" + later:                                        {c.ID},
			"created_to" + later + "&status=pending_payment":              {b.ID, a.ID},
			"created_from=2003-01-01T00:00:00%2B08:00&created_to" + later: {gone.ID, b.ID, a.ID},
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
