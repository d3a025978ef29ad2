package handler_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
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
					text := env.Must(json.Marshal(exampleOf(kind)))(t)
					o.body = string(text)
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
	first := slices.Min(slices.Collect(maps.Keys(m.Examples)))
	return m.Examples[first].Value.Value
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
