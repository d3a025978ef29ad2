package web

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// routesOnce builds the routes once for all tests: compression takes time. The page for unknown addresses has the pattern
// "missing".
var routesOnce = sync.OnceValues(func() (map[string]http.Handler, error) {
	routes, missing, err := Routes(Config{Problems: someProblems, Sale: findSale, Accounts: []Account{{"buyer", "13800000001"}, {"admin", "13800000000"}}, Sandbox: true})
	if err == nil {
		routes["/nope"] = missing
	}
	return routes, err
})

// findSale finds sale 7, fails for sale 8 and finds no other.
func findSale(_ context.Context, id int64) (Sale, bool, error) {
	begin := time.Date(2026, 11, 23, 20, 0, 0, 0, time.FixedZone("", 8*3600))
	return Sale{Title: `Tea <for> "two"`, Shop: "桂花茶餐厅", Price: "CNY 80.00", Value: "CNY 100.00", Begin: begin}, id == 7, map[int64]error{8: errors.New("down")}[id]
}

func get(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	return request(t, env.Must(routesOnce())(t), http.MethodGet, url, header...)
}

// request sends a request for a path or, as the router passes it on, for a URL with its scheme, to the handler that the router would
// choose. Without a scheme it is http.
func request(t *testing.T, routes map[string]http.Handler, method, url string, header ...string) *http.Response {
	t.Helper()
	req := httptest.NewRequest(method, url, http.NoBody)
	req.URL.Scheme = cmp.Or(req.URL.Scheme, "http")
	pattern := req.URL.Path
	if strings.HasPrefix(pattern, "/assets/") {
		pattern = "/assets/:version/*file"
	}
	if strings.HasPrefix(pattern, "/sales/") {
		pattern = "/sales/:id"
	}
	require.Contains(t, routes, pattern)
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
		in = env.Must(gzip.NewReader(r.Body))(t)
	}
	return string(env.Must(io.ReadAll(in))(t))
}

var refers = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)

// TestPageAndItsAssetsAreServed loads pages and everything that they refer to, as a browser does. The policy blocks inline scripts
// and styles. The pages of problems have no scripts.
func TestPageAndItsAssetsAreServed(t *testing.T) {
	script := regexp.MustCompile(`<script[^>]*>([^<]*)</script>`)
	for _, path := range []string{"/", "/orders", "/sales/7", "/nope", "/console", "/console/orders", "/docs", "/problems", "/problems/sold_out"} {
		page := get(t, path)
		assert.Equal(t, path == "/nope", page.StatusCode != http.StatusOK)
		assert.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
		if path != "/nope" {
			assert.Equal(t, "no-cache", page.Header.Get("Cache-Control"), "the next visit loads a new build")
		}
		text := body(t, page)
		names := refers.FindAllStringSubmatch(text, -1)
		require.Greater(t, len(names), 2, path)
		for _, n := range names {
			a := get(t, n[1])
			require.Equal(t, http.StatusOK, a.StatusCode, n[1])
			assert.Contains(t, a.Header.Get("Cache-Control"), "immutable", n[1])
			assert.NotEmpty(t, body(t, a))
		}

		assert.NotRegexp(t, `<style|\sstyle=|\son[a-z]+=`, text)
		for _, tag := range script.FindAllStringSubmatch(text, -1) {
			assert.Contains(t, tag[0], "src=")
			assert.Empty(t, tag[1])
		}
		if strings.HasPrefix(path, "/problems") {
			assert.Equal(t, problemPolicy, page.Header.Get("Content-Security-Policy"))
			assert.NotContains(t, text, "<script")
		}
	}
}

// TestPolicyAllowsOwnResourcesOnly also covers frames and elements created from text. Swagger UI needs the rules against markup,
// and no others, off.
func TestPolicyAllowsOwnResourcesOnly(t *testing.T) {
	s := env.Must(newSite(Config{}))(t)
	for path, worker := range map[string]string{"/": "proof", "/console": "'none'", "/assets/" + s.version + "/shop/main.js": "'none'"} {
		policy := get(t, path).Header.Get("Content-Security-Policy")
		for _, rule := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
			"form-action 'self'", "base-uri 'none'", "manifest-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types " + worker,
		} {
			assert.Contains(t, strings.Split(policy, "; "), rule)
		}
		assert.NotContains(t, policy, "unsafe")
		camera := "camera=(), "
		if path == "/console" {
			camera = "camera=(self), " // redeems by it
		}
		assert.Contains(t, get(t, path).Header.Get("Permissions-Policy"), camera)
	}
	docs := get(t, "/docs").Header.Get("Content-Security-Policy")
	markup := "; require-trusted-types-for 'script'; trusted-types 'none'"
	assert.Equal(t, docs+markup, get(t, "/console").Header.Get("Content-Security-Policy"))
}

// TestModulesCreateNoMarkup searches the modules for ways to create elements or code from text, for absolute URLs, other than
// those of links to a map, and for lookbehinds: Safari before 16.4 runs no script that has one.
func TestModulesCreateNoMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(`\(\?<[=!]|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:|https?://`)
	allowed := regexp.MustCompile(`^\s*//|http://www\.w3\.org/2000/svg|https://(uri\.amap\.com|www\.openstreetmap\.org)/search\?`)
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

// TestUnchangedPageIsNotSentAgain revalidates with an ETag in both encodings. HEAD returns the headers of GET.
func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	for _, accept := range []string{"", "gzip, br"} {
		first := get(t, "/", "Accept-Encoding", accept)
		tag := first.Header.Get("ETag")
		require.NotEmpty(t, tag)
		again := get(t, "/", "Accept-Encoding", accept, "If-None-Match", tag)
		assert.Equal(t, http.StatusNotModified, again.StatusCode)
		assert.Empty(t, body(t, &http.Response{Body: again.Body, Header: http.Header{}}))
		assert.Equal(t, "Accept-Encoding", again.Header.Get("Vary"))

		head := request(t, env.Must(routesOnce())(t), http.MethodHead, "/", "Accept-Encoding", accept)
		assert.Equal(t, http.StatusOK, head.StatusCode)
		assert.Equal(t, first.Header, head.Header)
		assert.Empty(t, env.Must(io.ReadAll(head.Body))(t))
	}
	assert.NotEqual(t, get(t, "/").Header.Get("ETag"), get(t, "/", "Accept-Encoding", "gzip").Header.Get("ETag"))
}

func TestGzipIsNegotiated(t *testing.T) {
	for accept, zipped := range map[string]bool{
		"": false, "gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, br": false, "identity": false,
		"x-gzip": false, "GZIP": true, "deflate,\tgzip": true,
	} {
		r := get(t, "/", "Accept-Encoding", accept)
		assert.Equal(t, zipped, r.Header.Get("Content-Encoding") == "gzip", "%q", accept)
		assert.Contains(t, body(t, r), "<!doctype html>", "%q", accept)
	}
}

// TestLargeAssetIsSentCompressed: the bundle of Swagger UI is never sent in full.
func TestLargeAssetIsSentCompressed(t *testing.T) {
	for _, accept := range []string{"", "identity", "gzip"} {
		r := get(t, "/assets/x/vendor/swagger-ui/swagger-ui-bundle.js", "Accept-Encoding", accept)
		assert.Equal(t, "gzip", r.Header.Get("Content-Encoding"), "%q", accept)
		assert.Less(t, r.ContentLength, int64(maxPlain)/2)
		assert.Greater(t, len(body(t, r)), maxPlain)
	}
}

// TestVendoredFilesAreAsReleased: the manifests have every third-party file, with its hash.
func TestVendoredFilesAreAsReleased(t *testing.T) {
	for _, folder := range []string{"static/vendor", "../../test/e2e/browser/testdata/vendor"} {
		files, hashes := os.DirFS(folder), map[string]string{}
		require.NoError(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "MANIFEST" {
				return err
			}
			text, err := fs.ReadFile(files, name)
			hashes[name] = fmt.Sprintf("%x", sha256.Sum256(text))
			return err
		}))
		manifest := env.Must(fs.ReadFile(files, "MANIFEST"))(t)
		released := map[string]string{}
		for _, line := range regexp.MustCompile(`(?m)^([0-9a-f]{64})  (\S+)$`).FindAllStringSubmatch(string(manifest), -1) {
			released[line[2]] = line[1]
		}
		require.NotEmpty(t, released)
		require.Equal(t, released, hashes)
	}
}

// TestAssetOfAnotherBuildIsNotCached: during a deployment a page may request assets from a server of another build.
func TestAssetOfAnotherBuildIsNotCached(t *testing.T) {
	r := get(t, "/assets/0123456789abcdef/shop/main.js")
	assert.Equal(t, http.StatusOK, r.StatusCode)
	assert.Equal(t, "no-cache", r.Header.Get("Cache-Control"), "the file may differ from the one of that build")
	for _, path := range []string{"/assets/x/", "/assets/x/none.js", "/assets/x/app.html", "/assets/x/../web.go", "/assets/x/shop"} {
		assert.Equal(t, http.StatusNotFound, get(t, path).StatusCode, path)
	}
}

// TestProofIsLoadedOnDemand: only sales that demand a proof of work load its worker, which is small.
func TestProofIsLoadedOnDemand(t *testing.T) {
	s := env.Must(newSite(Config{}))(t)
	assert.NotContains(t, body(t, get(t, "/")), "/proof/")
	assert.NotContains(t, string(s.assets["shop/main.bundle.js"].plain), "deriveBits")
	named := regexp.MustCompile(`new URL\(\s*"([^"]+)"`).FindStringSubmatch(string(s.assets["shop/main.bundle.js"].plain))
	require.NotNil(t, named)
	worker := get(t, "/assets/"+s.version+"/"+path.Join("shop", named[1]), "Accept-Encoding", "gzip") // as the bundle finds it
	assert.Less(t, worker.ContentLength, int64(1<<10))
	assert.Contains(t, body(t, worker), "deriveBits")
}

// TestFirstVisitSize bounds the compressed bytes of a first visit, because visitors of the storefront may be on mobile networks. A
// page whose modules are loaded one by one takes seconds longer there, so it has one script, with the modules of its page only.
func TestFirstVisitSize(t *testing.T) {
	s := env.Must(newSite(Config{}))(t)
	for path, want := range map[string]struct {
		main string
		most int64
	}{"/": {"shop/main.bundle.js", 52 << 10}, "/console": {"console/main.bundle.js", 108 << 10}} {
		var scripts []string
		all := get(t, path, "Accept-Encoding", "gzip").ContentLength
		for _, n := range refers.FindAllStringSubmatch(body(t, get(t, path)), -1) {
			all += get(t, n[1], "Accept-Encoding", "gzip").ContentLength
			if strings.HasSuffix(n[1], "js") {
				scripts = append(scripts, n[1])
			}
		}
		t.Logf("%s: %d bytes", path, all)
		assert.Less(t, all, want.most, path)
		require.Equal(t, []string{"/assets/" + s.version + "/" + want.main}, scripts)
		code := string(s.assets[want.main].plain)
		assert.NotRegexp(t, `\bimport\b[^.]`, code)
		assert.Equal(t, path == "/console", strings.Contains(code, "uPlot"), path)
	}
}

// textsOf returns the texts of a module in a language by their keys.
func textsOf(t *testing.T, module, language string) map[string]string {
	t.Helper()
	file := env.Must(fs.ReadFile(embedded, "static/"+module+"/texts.js"))(t)
	_, section, ok := strings.Cut(string(file), "\nconst "+language+" = {\n")
	require.True(t, ok, module)
	section, _, _ = strings.Cut(section, "\n};")
	texts := map[string]string{}
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); line != "" {
			m := regexp.MustCompile(`^"?([\w.]+)"?: "(.*)",$`).FindStringSubmatch(line)
			require.NotNil(t, m, line)
			texts[m[1]] = m[2]
		}
	}
	return texts
}

// TestTextsAreInBothLanguages: with the same placeholders, and empty in both or in none. A Chinese text without a Chinese sign consists
// of signs, values and names. Every error code of the API has one.
func TestTextsAreInBothLanguages(t *testing.T) {
	places := func(text string) map[string]bool {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(`\{(\w+)[|}]`).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return found
	}
	names := regexp.MustCompile(`\{\w+\}|Redis|ID\b|p\d\d|https?`)
	shop := map[string]string{}
	for _, module := range []string{"lib", "shop", "console"} {
		english, chinese := textsOf(t, module, "en"), textsOf(t, module, "zh")
		require.ElementsMatch(t, slices.Collect(maps.Keys(english)), slices.Collect(maps.Keys(chinese)), module)
		require.NotEmpty(t, english, module)
		for key, text := range english {
			assert.Equal(t, text == "", chinese[key] == "", key)
			assert.Equal(t, places(text), places(chinese[key]), key)
			if !regexp.MustCompile(`\p{Han}`).MatchString(chinese[key]) {
				assert.NotRegexp(t, "[A-Za-z]", names.ReplaceAllString(chinese[key], ""), "%s/texts.js: %s", module, key)
			}
		}
		if module != "console" {
			maps.Copy(shop, english)
		}
	}

	document := env.Must(os.ReadFile("../handler/openapi.json"))(t)
	codes := regexp.MustCompile(`"type": "/problems/(\w+)"`).FindAllSubmatch(document, -1)
	require.Greater(t, len(codes), 20)
	for _, m := range codes {
		assert.Contains(t, shop, "error."+string(m[1]))
	}
}

var someProblems = []Problem{
	{
		Code: "sold_out", Status: 409, Title: "Sold out", TitleZH: "已抢光", Means: "No `unit` is <left>.", Do: "Wait.",
		MeansZH: "没有 `unit` 了。", DoZH: "请等待。", Example: `{"code":"sold_out"}`,
	},
	{Code: "overloaded", Status: 503, Title: "Too many", TitleZH: "人太多", RetryAfter: true},
}

// TestProblemPages requests a problem page and the list in the language of the browser and in the one chosen by ?lang=.
func TestProblemPages(t *testing.T) {
	english, chinese := "What it means", "含义"
	for _, tc := range []struct{ query, accept, want string }{
		{"", "", english}, {"", "de-DE, fr;q=0.5", english}, {"", "zh-TW,zh;q=0.9,en;q=0.8", chinese}, {"", "en, zh;q=0.5", english},
		{"?lang=zh", "en", chinese}, {"?lang=en", "zh", english}, {"?lang=<script>", "zh", chinese}, {"", "\x00;;", english},
	} {
		r := get(t, "/problems/sold_out"+tc.query, "Accept-Language", tc.accept)
		require.Equal(t, http.StatusOK, r.StatusCode)
		assert.ElementsMatch(t, []string{"Accept-Language", "Accept-Encoding"}, r.Header.Values("Vary"))
		text := body(t, r)
		assert.Contains(t, text, tc.want, "%+v", tc)
		assert.NotContains(t, text, map[string]string{english: chinese, chinese: english}[tc.want])
	}
	text := body(t, get(t, "/problems/sold_out"))
	for _, part := range []string{
		"409 <code>sold_out</code>", "<h1>Sold out</h1>", "No <code>unit</code> is &lt;left&gt;.", "{&#34;code&#34;:&#34;sold_out&#34;}",
		`href="?lang=zh"`,
	} {
		assert.Contains(t, text, part)
	}
	assert.NotContains(t, text, "Retry-After")
	assert.Contains(t, body(t, get(t, "/problems/overloaded")), "Retry-After: 1")
	list := body(t, get(t, "/problems?lang=zh"))
	assert.Contains(t, list, `href="/problems/sold_out?lang=zh"`)
	assert.Contains(t, list, "人太多")
}

// TestPagesHaveDecimalsOfCurrencies: pages and files show the same amounts, in every browser (Automattic/jetpack#48967).
func TestPagesHaveDecimalsOfCurrencies(t *testing.T) {
	t.Parallel()
	script := env.Must(embedded.ReadFile("static/lib/currency.js"))(t)
	pages := map[string]int{}
	for _, m := range regexp.MustCompile(`([A-Z]{3}): (\d)`).FindAllStringSubmatch(string(script), -1) {
		pages[m[1]] = env.Must(strconv.Atoi(m[2]))(t)
	}

	for n := range 26 * 26 * 26 {
		code := string([]byte{'A' + byte(n/676), 'A' + byte(n/26%26), 'A' + byte(n%26)})
		places, ok := pages[code]
		if !ok {
			places = 2
		}
		require.Equal(t, domain.Decimals(code), places, code)
	}
}

// TestSalePageHasPreview: messengers and search engines run no scripts, so the head has all that they show. Its links have the scheme
// that the router found, whatever a client claims.
func TestSalePageHasPreview(t *testing.T) {
	for scheme, claimed := range map[string]string{"http": "https", "https": "http"} {
		r := get(t, scheme+"://example.com/sales/7", "X-Forwarded-Proto", claimed)
		require.Equal(t, http.StatusOK, r.StatusCode)
		assert.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
		assert.Subset(t, r.Header.Values("Vary"), []string{"Accept-Language", "X-Forwarded-Proto", "Forwarded"})
		text := body(t, r)
		for _, tag := range []string{
			`<title>Tea &lt;for&gt; &#34;two&#34; · 桂花茶餐厅</title>`,
			`<meta property="og:title" content="Tea &lt;for&gt; &#34;two&#34; · 桂花茶餐厅">`,
			`<meta property="og:description" content="CNY 80.00 (value CNY 100.00) · starts 2026-11-23 20:00 &#43;08:00">`,
			`<meta property="og:url" content="` + scheme + `://example.com/sales/7">`,
			`<link rel="canonical" href="` + scheme + `://example.com/sales/7">`,
			`<meta property="og:image" content="` + scheme + `://example.com/assets/current/icon-512.png">`,
			`data-demo="buyer 13800000001;admin 13800000000;" data-sandbox`,
		} {
			assert.Contains(t, text, tag)
		}
	}
	assert.Contains(t, body(t, get(t, "/sales/7", "Accept-Language", "zh-TW")), "CNY 80.00（面值 CNY 100.00）")
	assert.NotContains(t, body(t, get(t, "/")), "og:")
}

// TestSalePageWithoutSale: a sale that does not exist is a 404, one that cannot be read now is not.
func TestSalePageWithoutSale(t *testing.T) {
	for _, path := range []string{"/sales/9", "/sales/0", "/sales/x", "/sales/99999999999999999999"} {
		assert.Equal(t, http.StatusNotFound, get(t, path).StatusCode, path)
	}
	draft := get(t, "/sales/9?preview") // whether it exists is for the API to say
	assert.Equal(t, http.StatusOK, draft.StatusCode)
	assert.NotContains(t, body(t, draft), "og:")
	r := get(t, "/sales/8")
	assert.Equal(t, http.StatusOK, r.StatusCode)
	assert.Contains(t, body(t, r), "<title>Seckill</title>")
}

// TestMissingPage: an unknown address is the storefront with status 404, for which a later page must not be taken from a cache.
func TestMissingPage(t *testing.T) {
	r := get(t, "/nope")
	assert.Equal(t, http.StatusNotFound, r.StatusCode)
	assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	home := get(t, "/")
	for _, name := range []string{"Content-Type", "Content-Security-Policy", "Permissions-Policy"} {
		assert.Equal(t, home.Header.Get(name), r.Header.Get(name), name)
	}
	assert.Equal(t, body(t, home), body(t, r))
	assert.Empty(t, body(t, request(t, env.Must(routesOnce())(t), http.MethodHead, "/nope")))
}

// TestWellKnownFiles: browsers and crawlers request these without a link to them. Without settings of a shop nothing refers to one.
func TestWellKnownFiles(t *testing.T) {
	for path, kind := range map[string]string{
		"/favicon.ico": "image/png", "/robots.txt": "text/plain; charset=utf-8", "/manifest.webmanifest": "application/manifest+json",
		"/assets/current/icon-192.png": "image/png", "/assets/current/icon-512.png": "image/png",
	} {
		r := get(t, path)
		assert.Equal(t, http.StatusOK, r.StatusCode, path)
		assert.Equal(t, kind, r.Header.Get("Content-Type"), path)
	}
	assert.Contains(t, body(t, get(t, "/manifest.webmanifest")), `"name":"Seckill"`)
	assert.NotContains(t, body(t, get(t, "/")), "data-shop")
}

// TestShopFront: pages, previews and the manifest present the shop that is configured, and the browser may load its logo.
func TestShopFront(t *testing.T) {
	routes, _, err := Routes(Config{Problems: someProblems, Sale: findSale, Shop: Shop{
		Name: `Tea & "Co"`, Logo: "https://cdn.example:8443/logo.svg?x=1", Color: "#0a7c34", Imprint: "https://tea.example/about", Privacy: "https://tea.example/privacy",
	}})
	require.NoError(t, err)
	visit := func(path string) *http.Response { return request(t, routes, http.MethodGet, path) }

	for _, path := range []string{"/", "/console", "/sales/7"} {
		page := visit(path)
		assert.Contains(t, page.Header.Get("Content-Security-Policy"), "; img-src 'self' data: https://cdn.example:8443; ", path)
		text := body(t, page)
		assert.Contains(t, text, `data-shop="{&#34;name&#34;:&#34;Tea \u0026 \&#34;Co\&#34;&#34;,&#34;logo&#34;:&#34;https://cdn.example:8443/logo.svg?x=1&#34;,`+
			`&#34;color&#34;:&#34;#0a7c34&#34;,&#34;imprint&#34;:&#34;https://tea.example/about&#34;,&#34;privacy&#34;:&#34;https://tea.example/privacy&#34;}"`)
		assert.Contains(t, text, `<span id="brand">Tea &amp; &#34;Co&#34;</span>`)
	}
	assert.Contains(t, body(t, visit("/")), "<title>Tea &amp; &#34;Co&#34;</title>")
	assert.Contains(t, body(t, visit("/sales/7")), `<meta property="og:site_name" content="Tea &amp; &#34;Co&#34;">`)

	var manifest map[string]any
	require.NoError(t, json.Unmarshal([]byte(body(t, visit("/manifest.webmanifest"))), &manifest))
	assert.Equal(t, `Tea & "Co"`, manifest["name"])
	assert.Equal(t, "#0a7c34", manifest["theme_color"])
	assert.Len(t, manifest["icons"], 3)
}

// update makes TestBundlesAreCurrent write the bundles. `go generate ./internal/web` sets it.
var update = flag.Bool("update", false, "write the bundles")

// TestBundlesAreCurrent compares the bundles in the repository with their modules: main.bundle.js is beside every main.js of
// the folder static. Without it, a browser on a slow network waits for some forty modules, of which HTTP/1.1 loads six at a
// time.
func TestBundlesAreCurrent(t *testing.T) {
	root := env.Must(os.OpenRoot("static"))(t)
	defer root.Close()

	mains := env.Must(fs.Glob(root.FS(), "*/main.js"))(t)
	for _, main := range mains {
		want, name := env.Must(bundle(root.FS(), main))(t), strings.TrimSuffix(main, ".js")+".bundle.js"
		if *update {
			require.NoError(t, root.WriteFile(name, want, 0o644))
		}
		current := env.Must(root.ReadFile(name))(t)
		require.True(t, string(want) == string(current), "%s is out of date: run go generate ./internal/web", name)
	}

	require.Len(t, env.Must(fs.Glob(root.FS(), "*/*.bundle.js"))(t), len(mains))
}

// bundle returns one module with everything that the module main imports. Comments and white space are left out, statements are
// shortened, names stay.
func bundle(root fs.FS, main string) ([]byte, error) {
	sources := api.Plugin{Name: "static", Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{Path: path.Join(path.Dir(a.Importer), a.Path), Namespace: "static"}, nil
		})

		build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "static"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			text, err := fs.ReadFile(root, a.Path)
			contents := string(text)
			return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJS}, err
		})
	}}

	r := api.Build(api.BuildOptions{
		EntryPoints:      []string{main},
		Bundle:           true,
		Format:           api.FormatESModule,
		Platform:         api.PlatformBrowser,
		Target:           api.ESNext,
		MinifySyntax:     true,
		MinifyWhitespace: true,
		LineLimit:        120,
		Charset:          api.CharsetUTF8,
		Plugins:          []api.Plugin{sources},
	})
	if problems := slices.Concat(r.Errors, r.Warnings); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", main, problems[0].Text)
	}

	return r.OutputFiles[0].Contents, nil
}
