package handler_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/sale/entry"
	"seckill/test/env"
)

// TestDocumentIsValid also validates the examples against their schemas.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	a := newEnv(t).guest().get("/api/v1/openapi.json").want(http.StatusOK)
	assert.Equal(t, "3.0.3", decode[struct{ OpenAPI string }](a).OpenAPI)
	// Parsers of JSON in Go keep the last of two equal keys, and Swagger UI shows nothing.
	require.NoError(t, yaml.Unmarshal(a.body, new(any)))
	// Beside allOf, nullable allows no null (OpenAPI 3.0.3), but the library would.
	for name, schema := range env.Must(theContract())(t).doc.Components.Schemas {
		for field, p := range schema.Value.Properties {
			assert.False(t, p.Value.Nullable && p.Value.Type == nil, "%s.%s", name, field)
		}
	}

	// However much this process has compressed lately: the documents of three servers are more than that may be.
	for range 3 {
		zipped := newEnv(t).guest().with("Accept-Encoding", "gzip").raw("GET", "/api/v1/openapi.json", nil)
		assert.Equal(t, "gzip", zipped.header.Get("Content-Encoding"))
	}
}

var ginParam = regexp.MustCompile(`:([a-z_]+)`)

// TestDocumentHasEveryRoute: the router has the routes of the API document and of docs/hmdp.md, and no others. docs/api.http calls each
// of them; TestAPIFile sends its requests.
func TestDocumentHasEveryRoute(t *testing.T) {
	e := start(t)
	documented, served := hmdpRoutes(t), []string(nil)
	for _, o := range operations(t) {
		documented = append(documented, o.name)
	}
	for _, r := range handler.Routes(e.Config) {
		served = append(served, r.Method+" "+ginParam.ReplaceAllString(r.Path, "{$1}"))
	}
	assert.ElementsMatch(t, documented, served)

	file := env.Must(os.ReadFile("../../docs/api.http"))(t)
	calls := strings.NewReplacer("{{base}}", "", "{{api}}", "/api/v1").Replace(string(file))
	for _, route := range documented {
		if strings.Contains(route, " /api/v1/") || !strings.Contains(route, " /api/") { // hm-dianping's routes without their prefix
			assert.Regexp(t, "(?m)^"+pathParam.ReplaceAllString(route, `[^/\s]+`)+`(\?|$)`, calls)
		}
	}
}

var pathParam = regexp.MustCompile(`\{\w+\}`)

var tableRoute = regexp.MustCompile("(?m)^\\| `([A-Z]+) (/[^`]*)` \\| ")

func hmdpRoutes(t *testing.T) []string {
	t.Helper()
	text := env.Must(os.ReadFile("../../docs/hmdp.md"))(t)
	var list []string
	for _, m := range tableRoute.FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1]+" "+m[2], m[1]+" /api"+m[2])
	}
	return list
}

// operation is an operation of the document with a request that is valid, except that its objects do not exist.
type operation struct {
	name, method, path string
	body               any // the document's example as JSON; nil if there is none
	op                 *openapi3.Operation
	params             openapi3.Parameters
}

func operations(t *testing.T) []operation {
	t.Helper()
	k := env.Must(theContract())(t)
	var all []operation
	for path, item := range k.doc.Paths.Map() {
		for method, op := range item.Operations() {
			o := operation{name: method + " " + path, method: method, op: op, path: path}
			o.params = append(append(o.params, item.Parameters...), op.Parameters...)
			for name, value := range map[string]string{"{id}": "999", "{provider}": "sandbox", "{hash}": noImage} {
				if strings.Contains(path, "/dead-letters/") {
					value = "7-1794398400000-0"
				}
				o.path = strings.ReplaceAll(o.path, name, value)
			}
			if op.RequestBody != nil {
				o.body = "a form" // of a multipart body, which the document cannot show
				if kind := op.RequestBody.Value.Content["application/json"]; kind != nil {
					o.body = string(env.Must(json.Marshal(exampleOf(kind)))(t))
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.name, b.name) })
	return all
}

func exampleOf(m *openapi3.MediaType) any {
	if m.Example != nil || len(m.Examples) == 0 {
		return m.Example
	}
	return m.Examples[slices.Min(slices.Collect(maps.Keys(m.Examples)))].Value.Value
}

func (o operation) has(in, name string) bool { return o.params.GetByInAndName(in, name) != nil }

// invalidVariants returns the operation with one invalid part each.
func (o operation) invalidVariants() []operation {
	var all []operation
	add := func(path string, body any) {
		x := o
		x.path, x.body = path, body
		all = append(all, x)
	}
	if strings.HasPrefix(o.path, "/api/v1/") {
		add(o.path+"?%", o.body)
	}
	if o.has("path", "id") && !strings.Contains(o.path, "/dead-letters/") {
		add(strings.Replace(o.path, "999", "0", 1), o.body)
	}
	for _, p := range o.params {
		if p.Value.In == "query" {
			add(o.path+"?"+p.Value.Name+"=-", o.body)
			add(o.path+"?"+p.Value.Name+"=999", o.body) // does not exist
		}
	}
	if o.op.RequestBody != nil {
		add(o.path, "[]")
		add(o.path, nil)
	}
	return all
}

// generalCodes are the codes that depend on the state of the client or the server, not on that of an order or a voucher.
var generalCodes = []string{
	"invalid_request", "unauthenticated", "token_expired", "forbidden", "not_found", "idempotency_mismatch", "unavailable",
}

// testedElsewhere has the codes of operations that TestDocumentListsReturnedCodes cannot provoke, and the tests that do.
var testedElsewhere = map[string]func(*testing.T){
	"forbidden POST /api/v1/auth/login":                      TestSecondFactorSurvivesChangeOfSecret,
	"idempotency_mismatch POST /api/v1/vouchers/{id}/orders": TestKeyMismatch,
	"unavailable GET /readyz":                                TestReadyzReportsFailedChecks,
	"unavailable POST /api/v1/auth/refresh":                  TestStoreErrorsAreMapped,
}

// TestDocumentListsReturnedCodes provokes the general codes in every operation and compares them with those of the
// document. Other tests cover the codes of single operations.
func TestDocumentListsReturnedCodes(t *testing.T) {
	e := startQueue(t)
	returned := map[string]bool{} // general codes, each with an operation
	try := func(c client, o operation) {
		if text, ok := o.body.(string); ok && c.token != "" && o.op.OperationID == "paymentNotice" {
			c = c.with("X-Seckill-Signature", signature(text, e.clock.now()))
		}
		a := c.bad().do(o.method, o.path, o.body)
		if a.status < http.StatusBadRequest {
			return
		}
		problem := decode[problemView](a)
		assert.Equal(t, "/problems/"+problem.Code, problem.Type)
		if slices.Contains(generalCodes, problem.Code) {
			returned[problem.Code+" "+o.name] = true
		}
	}

	all := operations(t)
	old := e.admin()
	e.clock.advance(16 * time.Minute)
	admin, buyer := e.admin(), e.buyer(1)
	admin.bad().key("one for all").post("/api/v1/orders/998/cancel", nil).problem(http.StatusNotFound, "not_found")
	admin = admin.with("X-Entry-Ticket", entry.NewTickets(keys).Issue(mustID(t, admin.login.User.ID), 999, 1))
	for _, o := range all {
		for _, x := range o.invalidVariants() {
			try(admin, x)
		}
		callers := []client{e.guest(), old, buyer, admin}
		if o.has("header", "Idempotency-Key") {
			callers = append(callers, admin.key("one for all"), admin.key("ü"))
		}
		switch {
		case strings.HasPrefix(o.op.OperationID, "logout"), o.op.OperationID == "deleteMe": // would end the session of the following requests
			callers = callers[:2]
		case o.op.OperationID == "undoRedeemCode":
			o.body = map[string]string{"code": domain.NewRedeemCodes(keys).Of(999), "reason": "the wrong guest"}
		case strings.HasPrefix(o.path, "/api/v1/admin/redeem"):
			o.body = map[string]string{"code": domain.NewRedeemCodes(keys).Of(999)}
		case o.op.OperationID == "paymentNotice":
			x := o
			x.path = strings.Replace(o.path, "sandbox", "elsewhere", 1)
			try(admin, x)
		case o.op.OperationID == "listVouchers":
			o.path += "?status=off"
		}
		for _, c := range callers {
			try(c, o)
		}
	}
	e.store.fail(func() error { return fmt.Errorf("%w: a test", domain.ErrUnavailable) })
	require.NoError(t, e.rdb.Close())
	for _, o := range all {
		for _, x := range append(o.invalidVariants(), o) {
			try(admin, x)
		}
	}

	for name := range testedElsewhere {
		assert.NotContains(t, returned, name, "no other test is needed")
		returned[name] = true
	}
	documented := map[string]bool{}
	for _, o := range all {
		var codes []string
		for status, response := range o.op.Responses.Map() {
			for _, m := range response.Value.Content {
				if status >= "400" {
					codes = append(codes, codesIn(m.Schema.Value)...)
				}
			}
		}
		for _, code := range codes {
			if slices.Contains(generalCodes, code) {
				documented[code+" "+o.name] = true
			}
		}

		if len(*o.op.Security) > 0 && o.op.OperationID != "paymentNotice" && o.op.OperationID != "showVoucher" { // answered from memory
			assert.Contains(t, codes, "rate_limited", o.name)
		}
		optional := slices.ContainsFunc(*o.op.Security, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
		if len(*o.op.Security) > 0 && !optional {
			assert.True(t, returned["unauthenticated "+o.name], o.name)
		}
		if o.has("header", "Idempotency-Key") { // possible while another request with the key is running
			assert.Subset(t, codes, []string{"order_in_progress", "overloaded"}, o.name)
		}
	}
	assert.Equal(t, documented, returned, "the document, and the answers")
}

// otherTitles are the more specific titles of unauthenticated and forbidden.
var otherTitles = []any{"The login code is wrong, used up or expired", "Only in demo mode"}

// The document is the only reference for clients, so every operation has all descriptions, and an example of every body and
// problem. Those of problems have the titles of the server.
func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	titles := map[any]string{}
	for _, p := range handler.Problems() {
		titles[p.Code] = p.Title
	}
	for _, o := range operations(t) {
		assert.NotEmpty(t, o.op.OperationID, o.name)
		assert.NotEmpty(t, o.op.Tags, o.name)
		assert.NotEmpty(t, o.op.Summary, o.name)
		assert.NotEmpty(t, o.op.Description, o.name)
		assert.NotNil(t, o.op.Security, "%s: no security requirement, not even []", o.name)
		assert.NotNil(t, o.op.Responses.Status(http.StatusInternalServerError), o.name)
		if o.op.RequestBody != nil {
			assert.NotEqual(t, "null", o.body, "%s: the request", o.name)
		}
		for status, response := range o.op.Responses.Map() {
			assert.Contains(t, response.Value.Headers, "X-Request-Id", "%s %s", o.name, status)
			if status >= "400" {
				assert.Contains(t, response.Value.Content, "application/problem+json", "%s %s", o.name, status)
			}
			for kind, m := range response.Value.Content {
				if !assert.NotNil(t, exampleOf(m), "%s: %s %s", o.name, status, kind) || kind != "application/problem+json" {
					continue
				}
				shown := map[any]bool{}
				for _, x := range m.Examples {
					p := x.Value.Value.(map[string]any)
					shown[p["code"]] = true
					if !slices.Contains(otherTitles, p["title"]) {
						assert.Equal(t, titles[p["code"]], p["title"], o.name)
					}
				}
				for _, code := range codesIn(m.Schema.Value) {
					assert.True(t, shown[code], "%s: no example of %s", o.name, code)
				}
			}
		}
	}
}

func codesIn(s *openapi3.Schema) []string {
	var all []string
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		all = append(all, codesIn(one.Value)...)
	}
	if code := s.Properties["code"]; code != nil {
		for _, c := range code.Value.Enum {
			all = append(all, c.(string))
		}
	}
	return all
}

// TestUnknownRoutes: TestHeadAndMethods has the methods of known routes.
func TestUnknownRoutes(t *testing.T) {
	e := start(t)
	admin := e.admin().bad()
	for _, r := range []string{
		"GET /", "GET /api/v1", "GET /api/v2/vouchers", "GET /nowhere", "GET /metrics", "GET /debug/pprof/", "GET /.env",
		"GET /api/v1/vouchers/1/2", "GET /api/v1/vouchers/%2e%2e/me", "POST //api/v1/auth/code",
		"GET /API/v1/vouchers", "GET /api/v1/vouchers/", "GET /healthz/", "POST /api/v1/auth/code/",
	} {
		method, path, _ := strings.Cut(r, " ")
		a := admin.do(method, path, nil)
		a.problem(http.StatusNotFound, "not_found")
		assert.Empty(t, a.header.Get("Location"))
	}
	for _, r := range []string{"BREW /api/v1/vouchers", "TRACE /healthz", "GET /api/v1/vouchers/1%2Forders"} {
		method, path, _ := strings.Cut(r, " ")
		admin.do(method, path, nil).problem(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	families := env.Must(e.Metrics.(prometheus.Gatherer).Gather())(t)
	assert.NotContains(t, fmt.Sprint(families), "BREW", "a label that a client made")
}

func TestRequestID(t *testing.T) {
	e := start(t)
	for id, kept := range map[string]bool{
		"A-1_b.c": true, strings.Repeat("x", 64): true, "": false, strings.Repeat("x", 65): false,
		"a b": false, "a\tb": false, "<script>": false, "ü": false, `"`: false, "a,b": false,
	} {
		for _, path := range []string{"/healthz", "/nowhere"} {
			c := e.guest().bad().with("X-Request-Id", id)
			one, two := c.get(path).header.Get("X-Request-Id"), c.get(path).header.Get("X-Request-Id")
			assert.NotEmpty(t, one)
			assert.Equal(t, kept, one == id, "%q -> %q", id, one)
			assert.Equal(t, kept, one == two, "a new id is unique")
		}
	}
}

type exchange struct {
	name string
	do   func() answer
}

// exchanges returns a valid request of each kind. The store must work during the call.
func exchanges(e *environment) []exchange {
	v, unread, unsold, admin, buyer, leaver := e.sale(5), e.sale(5), e.sale(5), e.admin(), e.buyer(1), e.buyer(2)
	o := buyer.place(v)
	e.sendCode("13800000099").want(http.StatusOK)
	code := e.outbox.code("13800000099")
	return []exchange{
		{"code", func() answer { return e.sendCode(phone) }},
		{"login", func() answer { return e.tryCode("13800000099", code) }},
		{"refresh", func() answer { return e.refresh(admin.login.RefreshToken) }},
		{"me", func() answer { return buyer.get("/api/v1/me") }},
		{"vouchers", func() answer { return e.guest().get("/api/v1/vouchers") }},
		{"voucher", func() answer { return e.guest().get(unread.path()) }},
		{"place", func() answer { return buyer.post(v.orders(), nil) }},
		{"first place", func() answer { return leaver.post(unsold.orders(), nil) }}, // in a read that others may share
		{"orders", func() answer { return buyer.get("/api/v1/orders") }},
		{"order", func() answer { return buyer.get(o.path()) }},
		{"cancel", func() answer { return buyer.post(o.path()+"/cancel", nil) }},
		{"create", func() answer { return admin.post("/api/v1/admin/vouchers", e.saleBody(1)) }},
		{"patch", func() answer { return admin.patch(v.adminPath(), map[string]string{"title": "t"}) }},
		{"logout", func() answer { return buyer.post("/api/v1/auth/logout", nil) }},
		{"logout everywhere", func() answer { return leaver.post("/api/v1/auth/logout-all", nil) }},
	}
}

const leak = "Error 1045: access denied for user 'root'@'10.1.2.3'"

// TestStoreErrorsAreMapped: an unavailable store is answered 503 with Retry-After, an unknown error 500 with one log
// line. Neither answer contains the cause, nothing is changed, and the requests succeed afterwards.
func TestStoreErrorsAreMapped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault  func() error
		status int
		code   string
	}{
		"down":    {func() error { return fmt.Errorf("%w: %s", domain.ErrUnavailable, leak) }, http.StatusServiceUnavailable, "unavailable"},
		"unknown": {func() error { return errors.New(leak) }, http.StatusInternalServerError, "internal"},
		"panic":   {func() error { panic(leak) }, http.StatusInternalServerError, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			all := exchanges(e)
			before := e.dump()
			e.store.fail(tc.fault)
			for _, x := range all {
				logged := len(e.logs.of("ERROR"))
				a := x.do()
				a.problem(tc.status, tc.code)
				assert.NotContains(t, string(a.body), "10.1.2.3", x.name)
				lines := e.logs.of("ERROR")[logged:]
				if tc.status == http.StatusServiceUnavailable {
					assert.Equal(t, 1, a.retryAfter(), x.name)
					assert.Empty(t, lines, x.name)
					continue
				}
				require.Len(t, lines, 1, "%s: an unknown error is logged once", x.name)
				assert.Equal(t, a.header.Get("X-Request-Id"), lines[0]["request_id"], x.name)
				assert.Contains(t, fmt.Sprint(lines), leak, "%s: the log has the cause", x.name)
				if name == "panic" {
					assert.Contains(t, fmt.Sprint(lines), ".go:", "%s: the log has the stack", x.name)
					assert.NotContains(t, string(a.body), "goroutine")
				}
			}
			assert.Equal(t, before, e.dump(), "the database is unchanged")
			if tc.status == http.StatusServiceUnavailable {
				assert.NotEmpty(t, e.logs.of("WARN"), "an outage is logged, although not once per request")
			}
			e.store.fail(nil)
			for _, x := range all {
				if a := x.do(); x.name != "place" { // the buyer already has an order
					assert.Less(t, a.status, 300, "%s: %s", x.name, a.body)
				}
			}
		})
	}
}

// A stream that panics before its answer leaves no subscription, which would let no server stop.
func TestPanicOfStreamLeavesNoSubscription(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) { c.Entry = new(entry.Service) }))
	e.buyer(1).with("X-Entry-Ticket", "x").get("/api/v1/vouchers/1/entry/events").problem(http.StatusInternalServerError, "internal")
	require.Zero(t, e.RoomSubscribers.Count())
}

func TestReadyzReportsFailedChecks(t *testing.T) {
	up := func(context.Context) error { return nil }
	var redis handler.Check
	e := start(t, func(s *setup) {
		s.ready = map[string]handler.Check{"database": up, "redis": func(ctx context.Context) error { return redis(ctx) }}
	})
	for _, redis = range []handler.Check{
		func(context.Context) error { return errors.New(leak) },
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		assert.JSONEq(t, `{"status":"ok","version":"1.2.3"}`, string(e.guest().get("/healthz").want(http.StatusOK).body))
		a := e.guest().get("/readyz")
		a.problem(http.StatusServiceUnavailable, "unavailable")
		assert.Equal(t, 1, a.retryAfter())
		assert.NotContains(t, string(a.body), "10.1.2.3")
	}
	redis = up
	e.guest().get("/readyz").want(http.StatusOK)
}

// TestHeadAndMethods: uptime monitors and previews ask by HEAD (gotify/server#687, thomiceli/opengist#773).
func TestHeadAndMethods(t *testing.T) {
	e := start(t)
	admin := e.admin()
	buyer := e.buyer(1)
	sale := e.sale(3).ID
	picture := "/api/v1/images/" + decode[imageView](admin.upload(aPicture(t, 30)).want(http.StatusCreated)).ID
	order := decode[orderView](buyer.post("/api/v1/vouchers/"+sale+"/orders", nil).want(http.StatusCreated)).ID

	send := func(method, path string, c client) answer {
		return c.send(c.request(e.url, method, path, nil))
	}

	for _, path := range []string{
		"/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/vouchers", "/api/v1/vouchers/" + sale, "/api/v1/vouchers/999",
		"/api/v1/me", "/api/v1/me/export", "/api/v1/admin/orders", "/api/v1/admin/orders.csv", "/api/v1/admin/audit.csv",
		"/api/v1/admin/payments.csv", picture, "/api/v1/images/" + noImage, "/problems",
		"/api/v1/orders/1/events", "/api/v1/nothing", "/shop-type/list", "/api/voucher/list/1",
	} {
		get, head := send(http.MethodGet, path, admin), send(http.MethodHead, path, admin)
		require.Equal(t, get.status, head.status, path)
		require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
		require.Empty(t, head.body, path)
		if strings.HasSuffix(path, ".csv") {
			require.Empty(t, head.header.Get("Content-Length"), path)
		}
	}

	// The answer to HEAD of a stream ends at once, the one of a file has no rows.
	for path, c := range map[string]client{"/api/v1/orders/" + order + "/events": buyer, "/api/v1/admin/vouchers/" + sale + "/events": admin} {
		require.Equal(t, "text/event-stream", send(http.MethodHead, path, c).want(http.StatusOK).header.Get("Content-Type"))
	}

	for path, allowed := range map[string][]string{
		"/healthz": {"GET", "HEAD"}, "/api/v1/me": {"DELETE", "GET", "HEAD"}, "/api/v1/auth/login": {"POST"},
		"/api/v1/vouchers/" + sale + "/entry": {"DELETE", "GET", "HEAD", "POST"}, "/api/v1/admin/vouchers/" + sale: {"DELETE", "PATCH"},
	} {
		for _, method := range []string{http.MethodPut, "PROPFIND"} {
			a := send(method, path, admin)
			a.problem(http.StatusMethodNotAllowed, "method_not_allowed")
			require.Equal(t, allowed, slices.Sorted(strings.SplitSeq(a.header.Get("Allow"), ", ")), path)
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(http.MethodHead, "/api/v1/auth/login", admin).status)
}

// invalidBodies are refused by every route with a body. The values are the fields that the answer names.
var invalidBodies = map[string]string{
	"": "body", " \n\t": "body", `{"title":"t"`: "body", `title=t`: "body", `{'title':'t'}`: "body", `{"title":"t",}`: "body",
	`{/**/}`: "body", "\ufeff{}": "body", `null`: "body", `[]`: "body", `[{"title":"t"}]`: "body", `"title"`: "body", `7`: "body",
	`true`: "body", `{}{}`: "body", `{} x`: "body", "{\"title\":\"\xff\xfe\"}": "body", `{"color":"red"}`: "color",
	`{"co\"lor":"red"}`: `co"lor`, strings.Repeat(`{"a":`, 10001): "body", `{}` + strings.Repeat(" ", 64<<10): "body",
	`{"title":"` + strings.Repeat("x", 64<<10) + `"}`: "body",
}

func TestInvalidBodies(t *testing.T) {
	e := start(t)
	e.sale(1)
	admin := e.admin()
	for path, method := range map[string]string{
		"/api/v1/auth/code": "POST", "/api/v1/auth/login": "POST", "/api/v1/auth/refresh": "POST",
		"/api/v1/admin/vouchers": "POST", "/api/v1/admin/vouchers/1": "PATCH",
	} {
		admin.refused(method, path, invalidBodies)
		admin.refusedRequest(method, path, `{"":1}`, "")
	}

	// Unusual, and valid: a body of exactly the maximum size, and \u002b for "+", which .NET writes.
	long := withField(e.saleBody(1), "rules", quoted("r", 1024))
	admin.post("/api/v1/admin/vouchers", long+strings.Repeat(" ", 64<<10-len(long))).want(http.StatusCreated)
	escaped := withField(e.saleBody(1), "end_at", `"2026-11-12T00:00:00\u002b08:00"`)
	admin.post("/api/v1/admin/vouchers", escaped).want(http.StatusCreated)
}

// refused sends each body, which must be answered 400 with exactly these fields, separated by spaces. Nothing may change.
func (c client) refused(method, path string, bodies map[string]string) {
	c.t.Helper()
	before := c.env.dump()
	for body, fields := range bodies {
		c.refusedRequest(method, path, body, strings.Fields(fields)...)
	}
	assert.Equal(c.t, before, c.env.dump(), "the database is unchanged")
}

func (c client) refusedRequest(method, path string, body any, fields ...string) {
	c.t.Helper()
	a := c.bad().do(method, path, body)
	if assert.Equal(c.t, http.StatusBadRequest, a.status, "%s: %.80v: %s", a.what, body, a.body) {
		p := a.problem(http.StatusBadRequest, "invalid_request")
		assert.ElementsMatch(c.t, fields, p.fields(), "%s: %.80v: %s", a.what, body, p.Detail)
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

// invalidFields are values of voucher fields that are refused: values of the wrong type or form, and for each field one beyond
// its bounds, which are tested in package domain.
var invalidFields = map[string][]string{
	"shop_id": {
		`0`, `1.5`, `1e3`, `""`, `"x"`, `"0"`, `"-1"`, `"+1"`, `"007"`, `" 1"`, `9223372036854775808`, `"9223372036854775808"`, `true`, `["1"]`,
	},
	"title":          {`""`, `7`, `true`, `["t"]`, quoted("券", 256)},
	"sub_title":      {`7`, quoted("\u200b", 3)},
	"rules":          {`7`, quoted("x", 1025)},
	"pay_value":      {`-1`, `1.5`, `1e3`, `1e400`, `"100"`, `true`, `9223372036854775808`},
	"actual_value":   {`-9223372036854775809`, `100000000001`, `"1"`},
	"limit_per_user": {`0`, `1.5`, `"1"`, `9223372036854775808`},
	"stock":          {`-1`, `1.5`, `"5"`, `9223372036854775808`},
	"begin_at": {
		`"2026-11-11T20:00:00"`, `"2026-11-11 20:00:00Z"`, `"2026-11-11"`, `""`, `"now"`, `1794398400`, `true`, `"2026-02-30T00:00:00Z"`,
		`"2026-11-11T24:00:00Z"`, `"2026-11-11T20:00:00+25:00"`, `"1999-12-31T23:59:59Z"`, `"-001-01-01T00:00:00Z"`, `"10000-01-01T00:00:00Z"`,
	},
	"valid_from":  {`"2026-11-11"`, `1794398400000`, `"1999-12-31T23:59:59Z"`, `{}`},
	"valid_until": {`""`, `"2026-11-11T20:00:00"`, `"10000-01-01T00:00:00Z"`},
	"end_at":      {`"2026-11-11T20:00:00"`, `"9999-01-01T00:00:00.001Z"`, `1794398400000`},
}

func quoted(s string, n int) string { return `"` + strings.Repeat(s, n) + `"` }

func TestInvalidVoucherFields(t *testing.T) {
	e := start(t)
	body := e.saleBody(5)
	bodies := map[string]string{
		withField(body, "end_at", `"2026-11-11T11:00:00.0009Z"`):          "end_at", // less than a millisecond after its begin
		withField(body, "end_at", `"2026-11-11T18:30:00+08:00"`):          "end_at", // before its begin, by zone
		withField(body, "id", `"1"`):                                      "id",
		withField(body, "status", `"off"`):                                "status",
		`{"title":"","pay_value":-1,"actual_value":2,"limit_per_user":0}`: "shop_id title pay_value limit_per_user stock begin_at end_at",
		`{}`: "shop_id title pay_value actual_value",
	}
	for field, values := range invalidFields {
		for _, v := range values {
			bodies[withField(body, field, v)] = field
		}
	}
	for _, field := range []string{"shop_id", "title", "pay_value", "actual_value", "stock", "begin_at", "end_at"} {
		bodies[withField(body, field, "")], bodies[withField(body, field, "null")] = field, field
	}
	admin := e.admin()
	admin.refused("POST", "/api/v1/admin/vouchers", bodies)

	// The fields of a change have the same values.
	admin.refused("PATCH", e.sale(5).adminPath(), map[string]string{
		`{"stock":7}`: "stock", `{"id":"7"}`: "id", `{"status":"gone"}`: "status", `{"status":"OFF"}`: "status", `{"status":2}`: "status",
		`{"end_at":"2026-11-11T10:00:00Z"}`: "end_at", `{"begin_at":"2026-11-11T14:00:00Z"}`: "end_at", `{"begin_at":"now"}`: "begin_at",
		`{"title":"new","pay_value":-1}`: "pay_value", `{"limit_per_user":"1"}`: "limit_per_user", `{"valid_until":""}`: "valid_until",
	})
	admin.refused("PATCH", e.normal().adminPath(), map[string]string{
		`{"begin_at":"2026-11-11T14:00:00Z"}`: "begin_at", `{"end_at":"2026-11-11T14:00:00Z"}`: "end_at", `{"limit_per_user":2}`: "limit_per_user",
	})
}

func TestInvalidLogins(t *testing.T) {
	e := start(t)
	codes := map[string]string{`{"phone":"13800000001","code":"1"}`: "code"}
	logins := map[string]string{
		`{"phone":"13800000001"}`: "code", `{"phone":"13800000001","code":""}`: "code", `{"phone":"13800000001","code":123456}`: "code",
	}
	for _, p := range []string{ // package auth has more
		`""`, `"1380000000"`, `"13800000001\u0000"`, `"+8612345"`, `"x"`, `"+4915112345678"`, `13800000001`, `null`, `true`, `{}`,
	} {
		codes[`{"phone":`+p+`}`], logins[`{"phone":`+p+`,"code":"123456"}`] = "phone", "phone"
	}
	e.guest().refused("POST", "/api/v1/auth/code", codes)
	e.guest().refused("POST", "/api/v1/auth/login", logins)
	e.guest().refused("POST", "/api/v1/auth/refresh", map[string]string{
		`{}`: "refresh_token", `{"refresh_token":""}`: "refresh_token", `{"refresh_token":null}`: "refresh_token", `{"refresh_token":1}`: "refresh_token",
	})
}

var invalidIDs = []string{
	"0", "-1", "+1", "01", "007", "1.0", "1e3", "x", "0x10", "1_000", "９", "%20", "1%20", "%00", "null", "undefined",
	"9223372036854775808", "18446744073709551617", strings.Repeat("9", 1000),
}

// TestInvalidPathsAndQueries: what is refused changes nothing.
func TestInvalidPathsAndQueries(t *testing.T) {
	e := start(t)
	admin, before := e.admin(), e.dump()
	for _, r := range []struct{ method, path string }{
		{"GET", "/api/v1/vouchers/%s"}, {"POST", "/api/v1/vouchers/%s/orders"}, {"GET", "/api/v1/orders/%s"},
		{"POST", "/api/v1/orders/%s/cancel"}, {"PATCH", "/api/v1/admin/vouchers/%s"},
	} {
		for _, id := range invalidIDs {
			admin.refusedRequest(r.method, fmt.Sprintf(r.path, id), nil, "id")
		}
	}
	assert.Equal(t, rows(before, "vouchers"), rows(e.dump(), "vouchers"))

	buyer := e.buyer(1)
	for field, values := range map[string][]string{
		"cursor": {"0", "-1", "01", "x", "1.5", "9223372036854775808"},
		"limit":  {"0", "-1", "101", "x", "1.5", "1e1", "9223372036854775808"},
		"status": {"On", "sold", "1", "paid,on"},
	} {
		for _, v := range values {
			query := "?" + field + "=" + url.QueryEscape(v)
			buyer.refusedRequest("GET", "/api/v1/vouchers"+query, nil, field)
			buyer.refusedRequest("GET", "/api/v1/orders"+query, nil, field)
		}
	}
	for _, id := range []string{"0", "-1", "01", "x", "9223372036854775808"} {
		buyer.refusedRequest("GET", "/api/v1/vouchers?shop_id="+id, nil, "shop_id")
	}
}

// TestCursorsAreAuthentic: altered and made-up cursors, and those of other lists, are refused without a query.
func TestCursorsAreAuthentic(t *testing.T) {
	e := start(t)
	c := e.admin() // places orders, too
	for range 2 {
		c.place(e.sale(1))
	}
	lists := []string{"/api/v1/vouchers", "/api/v1/orders", "/api/v1/admin/orders", "/api/v1/admin/audit"}
	cursors := map[string]string{}
	for _, path := range lists {
		l := decode[listView[any]](c.get(path + "?limit=1").want(http.StatusOK))
		require.NotNil(t, l.NextCursor, path)
		cursors[path] = *l.NextCursor
		c.get(path + "?cursor=" + cursors[path]).want(http.StatusOK)
	}
	e.store.fail(func() error { return domain.ErrUnavailable })
	c.get("/api/v1/orders?cursor=" + cursors["/api/v1/orders"]).want(http.StatusServiceUnavailable)

	raw := env.Must(base64.RawURLEncoding.DecodeString(cursors["/api/v1/orders"]))(t)
	text := base64.RawURLEncoding.EncodeToString
	tag, position := raw[:10:10], raw[10:]
	refused := []string{
		string(position), text(position), text(append(make([]byte, 10), position...)), text(append(tag, append(position, '0')...)), text(tag),
		cursors["/api/v1/orders"] + "AA", strings.Repeat("A", 8000),
	}
	for _, path := range lists {
		if strings.Contains(path, "/admin/") {
			e.store.fail(nil) // the role of the caller is read
		}
		for _, cursor := range append(slices.Collect(maps.Values(cursors)), refused...) {
			if cursor == cursors[path] {
				continue
			}
			p := c.bad().get(path+"?cursor="+cursor).problem(http.StatusBadRequest, "invalid_request")
			assert.Equal(t, "cursor: must be a next_cursor of this list", p.Detail, "%s, %s", path, cursor)
		}
	}
}
