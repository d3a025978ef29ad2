package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

var someProblems = []Problem{
	{
		Code: "sold_out", Status: 409, Title: "Sold out", TitleZH: "已抢光", Means: "No `unit` is <left>.", Do: "Wait.",
		MeansZH: "没有 `unit` 了。", DoZH: "请等待。", Example: `{"code":"sold_out"}`, Routes: []string{"POST /api/v1/vouchers/{id}/orders"},
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
		"<code>POST /api/v1/vouchers/{id}/orders</code>", `href="?lang=zh"`,
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

	letters := "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range letters {
		for _, b := range letters {
			for _, c := range letters {
				code := string(a) + string(b) + string(c)
				places, ok := pages[code]
				if !ok {
					places = 2
				}
				require.Equal(t, domain.Decimals(code), places, code)
			}
		}
	}
}

// TestSalePageHasPreview: messengers and search engines run no scripts, so the head has all that they show. Its links have the scheme
// that the router found, whatever a client claims.
func TestSalePageHasPreview(t *testing.T) {
	for scheme, claimed := range map[string]string{"http": "https", "https": "http"} {
		r := get(t, scheme+"://example.com/sales/7", "X-Forwarded-Proto", claimed)
		require.Equal(t, http.StatusOK, r.StatusCode)
		assert.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
		assert.Subset(t, r.Header.Values("Vary"), []string{"Accept-Language", "X-Forwarded-Proto"})
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
		r := get(t, path)
		assert.Equal(t, http.StatusNotFound, r.StatusCode, path)
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
	assert.Empty(t, body(t, request(t, http.MethodHead, "/nope")))
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
	visit := func(pattern, path string) *http.Response {
		req := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		req.URL.Scheme = "http"
		rec := httptest.NewRecorder()
		routes[pattern].ServeHTTP(rec, req)
		return rec.Result()
	}

	for pattern, path := range map[string]string{"/": "/", "/console": "/console", "/sales/:id": "/sales/7"} {
		page := visit(pattern, path)
		assert.Contains(t, page.Header.Get("Content-Security-Policy"), "; img-src 'self' data: https://cdn.example:8443; ", path)
		text := body(t, page)
		assert.Contains(t, text, `data-shop="{&#34;name&#34;:&#34;Tea \u0026 \&#34;Co\&#34;&#34;,&#34;logo&#34;:&#34;https://cdn.example:8443/logo.svg?x=1&#34;,`+
			`&#34;color&#34;:&#34;#0a7c34&#34;,&#34;imprint&#34;:&#34;https://tea.example/about&#34;,&#34;privacy&#34;:&#34;https://tea.example/privacy&#34;}"`)
		assert.Contains(t, text, `<span id="brand">Tea &amp; &#34;Co&#34;</span>`)
	}
	assert.Contains(t, body(t, visit("/", "/")), "<title>Tea &amp; &#34;Co&#34;</title>")
	assert.Contains(t, body(t, visit("/sales/:id", "/sales/7")), `<meta property="og:site_name" content="Tea &amp; &#34;Co&#34;">`)

	var manifest map[string]any
	require.NoError(t, json.Unmarshal([]byte(body(t, visit("/manifest.webmanifest", "/manifest.webmanifest"))), &manifest))
	assert.Equal(t, `Tea & "Co"`, manifest["name"])
	assert.Equal(t, "#0a7c34", manifest["theme_color"])
	assert.Len(t, manifest["icons"], 3)
}
