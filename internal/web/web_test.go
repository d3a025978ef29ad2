package web

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// routesOnce spares the tests to compress everything again.
var routesOnce = sync.OnceValues(func() (map[string]http.Handler, error) { return Routes(someProblems) })

// ask sends one request to the handler that the router would choose.
func ask(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	return askAs(t, http.MethodGet, url, header...)
}

func askAs(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	routes, err := routesOnce()
	require.NoError(t, err)
	pattern, _, _ := strings.Cut(path, "?")
	if strings.HasPrefix(path, "/assets/") {
		pattern = "/assets/:version/*file"
	}
	require.Contains(t, routes, pattern)
	req := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	routes[pattern].ServeHTTP(rec, req)
	return rec.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		require.NoError(t, err)
		in = z
	}
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(text)
}

var refers = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)

// TestPage reads the page as a browser does, and everything that it names.
func TestPage(t *testing.T) {
	for _, path := range []string{"/", "/orders", "/console", "/console/orders"} {
		page := ask(t, path)
		require.Equal(t, http.StatusOK, page.StatusCode)
		assert.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
		assert.Equal(t, "no-cache", page.Header.Get("Cache-Control"), "a new build is seen at the next visit")
		names := refers.FindAllStringSubmatch(body(t, page), -1)
		require.Greater(t, len(names), 10)
		for _, n := range names {
			a := ask(t, n[1])
			require.Equal(t, http.StatusOK, a.StatusCode, n[1])
			assert.Contains(t, a.Header.Get("Cache-Control"), "immutable", n[1])
			assert.NotEmpty(t, body(t, a))
		}
	}
}

// TestPolicy: nothing inline, nobody else's, no frames, and no markup made of text.
func TestPolicy(t *testing.T) {
	s, err := newSite()
	require.NoError(t, err)
	for _, path := range []string{"/", "/console", "/assets/" + s.version + "/shop/main.js"} {
		policy := ask(t, path).Header.Get("Content-Security-Policy")
		for _, rule := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
			"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
		} {
			assert.Contains(t, strings.Split(policy, "; "), rule)
		}
		assert.NotContains(t, policy, "unsafe")
	}
}

// TestPolicyOfDocs: Swagger UI may make markup, and nothing else that other pages may not.
func TestPolicyOfDocs(t *testing.T) {
	rules := strings.Split(ask(t, "/docs").Header.Get("Content-Security-Policy"), "; ")
	all := strings.Split(ask(t, "/").Header.Get("Content-Security-Policy"), "; ")
	assert.Equal(t, append(rules, "require-trusted-types-for 'script'", "trusted-types 'none'"), all)
}

// TestNoMarkupFromText keeps the ways from text to elements out of the modules, and addresses of others.
func TestNoMarkupFromText(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:|https?://`)
	allowed := regexp.MustCompile(`^\s*//|http://www\.w3\.org/2000/svg`)
	err := fs.WalkDir(embedded, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "/vendor/") {
			return err
		}
		text, err := fs.ReadFile(embedded, name)
		for i, line := range strings.Split(string(text), "\n") {
			if !allowed.MatchString(line) {
				assert.NotRegexp(t, forbidden, line, "%s:%d", name, i+1)
			}
		}
		return err
	})
	require.NoError(t, err)
}

// TestPageHasNothingInline: the browser would refuse it, after the visitor has waited for it.
func TestPageHasNothingInline(t *testing.T) {
	for _, page := range []string{"/", "/console", "/docs"} {
		text := body(t, ask(t, page))
		assert.NotRegexp(t, `<style|\sstyle=|\son[a-z]+=`, text)
		for _, tag := range regexp.MustCompile(`<script[^>]*>([^<]*)</script>`).FindAllStringSubmatch(text, -1) {
			assert.Contains(t, tag[0], "src=")
			assert.Empty(t, tag[1])
		}
	}
}

// TestRevalidation: what the browser has is not sent again, in either encoding.
func TestRevalidation(t *testing.T) {
	for _, accept := range []string{"", "gzip, br"} {
		first := ask(t, "/", "Accept-Encoding", accept)
		tag := first.Header.Get("ETag")
		require.NotEmpty(t, tag)
		again := ask(t, "/", "Accept-Encoding", accept, "If-None-Match", tag)
		assert.Equal(t, http.StatusNotModified, again.StatusCode)
		assert.Empty(t, body(t, &http.Response{Body: again.Body, Header: http.Header{}}))
		assert.Equal(t, "Accept-Encoding", again.Header.Get("Vary"))
	}
	assert.NotEqual(t, ask(t, "/").Header.Get("ETag"), ask(t, "/", "Accept-Encoding", "gzip").Header.Get("ETag"))
}

func TestEncoding(t *testing.T) {
	for accept, zipped := range map[string]bool{
		"": false, "gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, br": false, "identity": false,
		"x-gzip": false, "GZIP": true, "deflate,\tgzip": true,
	} {
		r := ask(t, "/", "Accept-Encoding", accept)
		assert.Equal(t, zipped, r.Header.Get("Content-Encoding") == "gzip", "%q", accept)
		assert.Contains(t, body(t, r), "<!doctype html>", "%q", accept)
	}
}

func TestHead(t *testing.T) {
	for _, accept := range []string{"", "gzip"} {
		get, head := ask(t, "/", "Accept-Encoding", accept), askAs(t, http.MethodHead, "/", "Accept-Encoding", accept)
		assert.Equal(t, http.StatusOK, head.StatusCode)
		assert.Equal(t, get.Header, head.Header)
		b, err := io.ReadAll(head.Body)
		require.NoError(t, err)
		assert.Empty(t, b)
	}
}

// TestAssetOfAnotherBuild: during a deployment a page may ask a server of another build.
func TestAssetOfAnotherBuild(t *testing.T) {
	r := ask(t, "/assets/0123456789abcdef/shop/main.js")
	assert.Equal(t, http.StatusOK, r.StatusCode)
	assert.Equal(t, "no-cache", r.Header.Get("Cache-Control"), "it must not stay under that name")
	for _, path := range []string{"/assets/x/", "/assets/x/none.js", "/assets/x/app.html", "/assets/x/../web.go", "/assets/x/shop"} {
		assert.Equal(t, http.StatusNotFound, ask(t, path).StatusCode, path)
	}
}

// TestWeight: what a first visit loads, as it goes over the wire. The storefront's visitors are many, and may be on the way.
func TestWeight(t *testing.T) {
	for path, most := range map[string]int64{"/": 60 << 10, "/console": 250 << 10} {
		all := int64(0)
		for _, n := range append(refers.FindAllStringSubmatch(body(t, ask(t, path)), -1), []string{"", path}) {
			all += ask(t, n[1], "Accept-Encoding", "gzip").ContentLength
		}
		t.Logf("%s: %d bytes", path, all)
		assert.Less(t, all, most, path)
	}
}

// TestStorefrontWithoutConsole: buyers do not wait for what is the admins'.
func TestStorefrontWithoutConsole(t *testing.T) {
	assert.NotRegexp(t, `/assets/\w+/(console/|vendor/uPlot)`, body(t, ask(t, "/")))
	assert.Regexp(t, `/assets/\w+/console/`, body(t, ask(t, "/console")))
}

// TestModulesAreNamed: a module that a page does not name would be discovered late; one that is not there never.
func TestModulesAreNamed(t *testing.T) {
	s, err := newSite()
	require.NoError(t, err)
	imports := regexp.MustCompile(`(?:from|import) "(\.[^"]+)"`)
	for pattern, page := range s.pages {
		named := 0
		for _, n := range refers.FindAllStringSubmatch(string(page.plain), -1) {
			name := strings.TrimPrefix(n[1], "/assets/"+s.version+"/")
			require.Contains(t, s.assets, name, pattern)
			if !strings.HasSuffix(name, ".js") {
				continue
			}
			named++
			for _, m := range imports.FindAllStringSubmatch(string(s.assets[name].plain), -1) {
				target := path.Join(path.Dir(name), m[1])
				assert.Contains(t, s.assets, target, "%s imports %s", name, m[1])
				assert.Contains(t, string(page.plain), `"/assets/`+s.version+"/"+target+`"`, pattern)
			}
		}
		assert.Positive(t, named, pattern)
	}
}
