package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
