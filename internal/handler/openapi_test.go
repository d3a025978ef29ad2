package handler_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocumentIsValid also validates the examples against their schemas.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	_, err := theContract()
	require.NoError(t, err)
}

var ginParam = regexp.MustCompile(`:([a-z_]+)`)

// TestDocumentHasEveryRoute: the router has the routes of the API document and of docs/hmdp.md, and no others.
func TestDocumentHasEveryRoute(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var served []string
	for _, r := range e.engine.Routes() {
		served = append(served, r.Method+" "+ginParam.ReplaceAllString(r.Path, "{$1}"))
	}
	assert.ElementsMatch(t, append(documented(t), hmdpRoutes(t)...), served)
}

var tableRoute = regexp.MustCompile("(?m)^\\| `([A-Z]+) (/[^`]*)` \\| ")

// hmdpRoutes returns the routes in the table of docs/hmdp.md.
func hmdpRoutes(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/hmdp.md")
	require.NoError(t, err)
	var list []string
	for _, m := range tableRoute.FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1]+" "+m[2], m[1]+" /api"+m[2])
	}
	return list
}

// documented returns the operations of the document.
func documented(t *testing.T) []string {
	t.Helper()
	k, err := theContract()
	require.NoError(t, err)
	var list []string
	for path, item := range k.doc.Paths.Map() {
		for method := range item.Operations() {
			list = append(list, method+" "+path)
		}
	}
	return list
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	a := newEnv(t).guest().get("/api/v1/openapi.json").want(http.StatusOK)
	doc := decode[struct{ OpenAPI string }](a)
	assert.Equal(t, "3.0.3", doc.OpenAPI)
}

// TestEveryOperationIsDescribed: the document is the only reference for clients, so every operation has all
// descriptions.
func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	k, err := theContract()
	require.NoError(t, err)
	ids := map[string]bool{}
	for path, item := range k.doc.Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			assert.NotEmpty(t, op.OperationID, name)
			assert.False(t, ids[op.OperationID], "%s: the operationId is not unique", name)
			ids[op.OperationID] = true
			assert.NotEmpty(t, op.Tags, name)
			assert.NotEmpty(t, op.Summary, name)
			assert.NotEmpty(t, op.Description, name)
			assert.NotNil(t, op.Security, "%s: no security requirement, not even []", name)
			assert.NotNil(t, op.Responses.Status(http.StatusInternalServerError), name)
			for status, response := range op.Responses.Map() {
				assert.Contains(t, response.Value.Headers, "X-Request-Id", "%s %s", name, status)
				if status >= "400" {
					assert.Contains(t, response.Value.Content, "application/problem+json", "%s %s", name, status)
				}
			}
		}
	}
}

// TestDocumentStatesRequiredRoles calls every route without a token, and the admin routes with a buyer's token.
func TestDocumentStatesRequiredRoles(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	buyer := e.buyer(1)
	k, err := theContract()
	require.NoError(t, err)
	for path, item := range k.doc.Paths.Map() {
		for method, op := range item.Operations() {
			name, url := method+" "+path, strings.NewReplacer("{id}", "1", "{provider}", "sandbox", "{hash}", noImage).Replace(path)
			a := e.guest().bad().do(method, url, "")
			optional := slices.ContainsFunc(*op.Security, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
			if len(*op.Security) > 0 && !optional {
				a.problem(http.StatusUnauthorized, "unauthenticated")
			} else {
				assert.NotEqual(t, http.StatusUnauthorized, a.status, name)
			}
			if strings.HasPrefix(path, "/api/v1/admin/") {
				buyer.bad().do(method, url, "").problem(http.StatusForbidden, "forbidden")
			} else if refused := op.Responses.Status(http.StatusForbidden); refused != nil && !optional && op.OperationID != "login" { // a login is refused by its second factor
				codes := codesIn(refused.Value.Content["application/problem+json"].Schema.Value)
				assert.Subset(t, []string{"entry_required", "challenge_required"}, codes, name)
			}
		}
	}
}
