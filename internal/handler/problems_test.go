package handler

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/handler/hmdp"
	"seckill/test/env"
)

// TestEveryCodeHasAPage: the table of errors, the document and the pages have the same codes.
func TestEveryCodeHasAPage(t *testing.T) {
	t.Parallel()
	pages := env.Must(Problems())(t)
	paged := map[string]int{}
	for _, p := range pages {
		assert.NotContains(t, paged, p.Code, "two pages for one code")
		paged[p.Code] = p.Status
	}
	for _, o := range outcomes {
		assert.Equal(t, o.status, paged[o.code], o.code)
	}

	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`"type": "`+problemsPath+`([a-z_]+)", *\s*"code": "([a-z_]+)"`).FindAllStringSubmatch(string(openAPI), -1) {
		assert.Equal(t, m[1], m[2], "an example's type is the page of its code")
		documented[m[1]] = true
	}
	routes := env.Must(routesByCode(openAPI))(t)
	for code := range routes {
		documented[code] = true
	}
	for code := range documented {
		assert.Contains(t, paged, code)
	}
	for code := range paged {
		assert.Contains(t, documented, code)
	}
}

// TestProblemPagesAreComplete: every page has its texts in both languages and at least one route.
func TestProblemPagesAreComplete(t *testing.T) {
	t.Parallel()
	pages := env.Must(Problems())(t)
	for _, p := range pages {
		if p.Code != "method_not_allowed" { // of methods that no operation has
			assert.NotEmpty(t, p.Routes, p.Code)
		}
		var paths []string
		for _, r := range p.Routes {
			_, path, _ := strings.Cut(r, " ")
			paths = append(paths, path)
		}
		assert.True(t, slices.IsSorted(paths), p.Code)
		assert.Contains(t, p.Example, `"type": "/problems/`+p.Code+`"`)
		for _, en := range []string{p.Title, p.Means, p.Do} {
			assert.NotEmpty(t, en, p.Code)
			assert.False(t, strings.ContainsFunc(en, func(r rune) bool { return unicode.Is(unicode.Han, r) }), p.Code)
		}
		for _, zh := range []string{p.TitleZH, p.MeansZH, p.DoZH} {
			assert.True(t, strings.ContainsFunc(zh, func(r rune) bool { return unicode.Is(unicode.Han, r) }), p.Code)
		}
		for _, text := range []string{p.Means, p.Do, p.MeansZH, p.DoZH} {
			assert.Zero(t, strings.Count(text, "`")%2, "%s: unbalanced backquotes", p.Code)
		}
	}
}

// TestRoutesByCode covers references and alternatives.
func TestRoutesByCode(t *testing.T) {
	t.Parallel()
	routes, err := routesByCode([]byte(`{
		"paths": {"/b": {"parameters": [], "post": {"responses": {"200": {}, "409": {"$ref": "#/components/responses/No"}}}},
			"/a": {"get": {"responses": {"409": {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/One"}}}}}}}},
		"components": {
			"responses": {"No": {"content": {"application/problem+json": {"schema": {"oneOf": [
				{"$ref": "#/components/schemas/One"}, {"anyOf": [{"properties": {"code": {"enum": ["x", "y"]}}}]}]}}}}},
			"schemas": {"One": {"properties": {"code": {"enum": ["one"]}}}}}}`))
	require.NoError(t, err)
	assert.Equal(t, map[string][]string{"one": {"GET /a", "POST /b"}, "x": {"POST /b"}, "y": {"POST /b"}}, routes)
	for _, bad := range []string{`[]`, `{"paths": {"/a": {"get": []}}}`} {
		_, err := routesByCode([]byte(bad))
		require.Error(t, err, bad)
	}
}

// TestEveryOutcomeHasHmdpMessage: every error in the table, even a new one without its own message, yields a message
// that is not empty.
func TestEveryOutcomeHasHmdpMessage(t *testing.T) {
	for _, o := range append([]outcome{internalError, {code: "new", title: "Something new"}}, outcomes...) {
		p, _ := o.problem(nil)
		require.NotEmpty(t, hmdp.Failure{Code: p.Code, Title: p.Title}.Message(), o.code)
	}
}

// TestForwardedAddresses: gateways write ports (goauthentik/authentik#25679, un33k/django-ipware#87, rack/rack#1227),
// brackets, quotes, several lines and RFC 7239's header. What a client itself sends stands in front, whatever it is. 127.0.0.1
// and 10.0.0.0/8 are trusted.
func TestForwardedAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		peer   string
		header http.Header
		want   string
		warns  bool
	}{
		"bare":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"203.0.113.7"}}, "203.0.113.7", false},
		"port":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"203.0.113.7:51234"}}, "203.0.113.7", false},
		"IPv6":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1", false},
		"IPv6 and port":              {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[2001:db8:7::1]:443"}}, "2001:db8:7::1", false},
		"brackets":                   {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[2001:db8::1]"}}, "2001:db8::1", false},
		"quotes":                     {"127.0.0.1:9", http.Header{"X-Forwarded-For": {`"[2001:db8::1]:443"`}}, "2001:db8::1", false},
		"IPv4 in IPv6":               {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"::ffff:203.0.113.7"}}, "203.0.113.7", false},
		"zone":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"fe80::1%eth0"}}, "fe80::1", false},
		"trusted hops":               {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9, 203.0.113.7:80 ,10.1.2.3:4711"}}, "203.0.113.7", false},
		"several lines":              {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9", "203.0.113.7:80", "10.1.2.3"}}, "203.0.113.7", false},
		"Forwarded":                  {"127.0.0.1:9", http.Header{"Forwarded": {`For=203.0.113.7; proto=https;by=10.0.0.1`}}, "203.0.113.7", false},
		"Forwarded, IPv6":            {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9, for="[2001:db8::1]:443";proto=https, for=10.1.1.1`}}, "2001:db8::1", false},
		"X-Forwarded-For goes first": {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9`}, "X-Forwarded-For": {"203.0.113.7:1"}}, "203.0.113.7", false},
		"Forwarded, hidden port":     {"127.0.0.1:9", http.Header{"Forwarded": {`FOR="[2001:db8::17]:_port"`}}, "2001:db8::17", false},
		"Forwarded, more in quotes":  {"127.0.0.1:9", http.Header{"Forwarded": {`for="203.0.113.7:_x";host="a,for=198.51.100.9;"`}}, "203.0.113.7", false},
		"Forwarded, several lines":   {"127.0.0.1:9", http.Header{"Forwarded": {"for=203.0.113.7:1", "for=10.1.1.1"}}, "203.0.113.7", false},
		"IPv4 in IPv6 and port":      {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[::ffff:203.0.113.7]:51234"}}, "203.0.113.7", false},
		"empty items":                {"127.0.0.1:9", http.Header{"X-Forwarded-For": {", 203.0.113.7,"}}, "203.0.113.7", false},
		"empty":                      {"127.0.0.1:9", http.Header{"X-Forwarded-For": {""}}, "127.0.0.1", false},
		"a word of the client":       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"<script>, unknown, 203.0.113.7:80, 10.1.2.3"}}, "203.0.113.7", false},
		"a word of a trusted proxy":  {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"203.0.113.7, unknown, 10.1.2.3"}}, "10.1.2.3", true},
		"neither":                    {"127.0.0.1:9", http.Header{}, "127.0.0.1", false},
		"a word":                     {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"unknown"}}, "127.0.0.1", true},
		"obfuscated":                 {"127.0.0.1:9", http.Header{"Forwarded": {"for=_hidden"}}, "127.0.0.1", true},
		"a client's open quote":      {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9;x=", for="203.0.113.7:80"`}}, "127.0.0.1", true},
		"open until the end":         {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9;x=", for=203.0.113.7`}}, "127.0.0.1", true},
		"open on another line":       {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9;x="`, `for="203.0.113.7:80";proto=https;`}}, "203.0.113.7", false},
		"Forwarded, empty items":     {"127.0.0.1:9", http.Header{"Forwarded": {`, for=198.51.100.9;;by = x , ,for="203.0.113.7" ;`}}, "203.0.113.7", false},
		"Forwarded, no quotes":       {"127.0.0.1:9", http.Header{"Forwarded": {`for=[2001:db8::1]:443;proto=https`}}, "2001:db8::1", false},
		"another client":             {"203.0.113.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9:1"}, "Forwarded": {"for=198.51.100.9"}}, "203.0.113.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router := gin.New()
			router.RemoteIPHeaders = []string{forwardedForHeader}
			trusted := []string{"127.0.0.1", "10.0.0.0/8"}
			require.NoError(t, router.SetTrustedProxies(trusted))
			got := ""
			router.GET("/", func(c *gin.Context) { got = c.ClientIP() })
			var logs strings.Builder
			h := readForwarded(router, ParseProxies(trusted), slog.New(slog.NewTextHandler(&logs, nil)))

			for range 2 {
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				r.RemoteAddr = test.peer
				r.Header = test.header.Clone()
				h.ServeHTTP(httptest.NewRecorder(), r)
				require.Equal(t, test.want, got)
			}
			require.Equal(t, test.warns, strings.Count(logs.String(), "names no address") == 1, logs.String())
		})
	}
}

// TestPreferredWait: Prefer is parsed by RFC 7240, and invalid values are ignored.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		headers []string
		want    time.Duration
	}{
		{nil, 0},
		{[]string{"wait=2"}, 2 * time.Second},
		{[]string{`Wait = "2"; why=because`}, 2 * time.Second},
		{[]string{"respond-async, wait=3"}, 3 * time.Second},
		{[]string{"respond-async", "wait=4", "wait=1"}, 4 * time.Second},
		{[]string{"wait=100000"}, time.Minute},
		{[]string{"wait=99999999999999999999"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"awaits=2"}, 0},
		{[]string{",;=,", ""}, 0},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header["Prefer"] = tc.headers
		assert.Equal(t, tc.want, preferredWait(&gin.Context{Request: r}), "%q", tc.headers)
	}
}
